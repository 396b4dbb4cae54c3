"""Feeding: stores a client's conversation as the log of a session, each entry once."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice

from mcp_memory.domain.memory.erased_text import ErasedMarks
from mcp_memory.domain.model.field_marks import together
from mcp_memory.domain.model.ids import is_globally_unique
from mcp_memory.domain.model.lifecycle import moved_to, restored
from mcp_memory.domain.model.records import NewRecord, Record
from mcp_memory.domain.model.scopes import Caller
from mcp_memory.domain.model.session_log import role_of
from mcp_memory.domain.sessions.log_dedup import LogLine, held_as, new_places, replaced_by, unmatched
from mcp_memory.domain.text.words import content_hash, normal_hash
from mcp_memory.ports.records import RecordStore
from mcp_memory.ports.session_logs import MessageLine, SaidEntry, SessionLogStore
from mcp_memory.ports.text import Clock
from mcp_memory.ports.transaction import Transaction
from mcp_memory.services.memory.prepare_record import Made, RecordDraft, RecordPreparer, record_of, unerased
from mcp_memory.services.sessions.message_files import Attachments

FED_AT_ONCE = 100
"""Entries of one transaction: other processes wait for the write lock meanwhile."""
TAKEN_BACK = "taken-back"
"""The tag of what the user took back, as by /rewind."""
TOLD_AT_ONCE = 20_000
"""Entries of a long transcript that are compared with the log together."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ToldLine:
    """A told entry: what identifies it, and the originals that it replaces; () for an original."""

    line: LogLine
    covers: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Fed:
    """Counts of new and known entries, and of what the new ones lost.

    That is secrets, control characters, and passages that are the client's own. `files` were kept, `refused_files` were
    too large. `lines` are all of them as they were told, in order.
    """

    stored: int = 0
    known: int = 0
    redacted: int = 0
    cleaned: int = 0
    harness: int = 0
    files: int = 0
    refused_files: int = 0
    lines: tuple[ToldLine, ...] = field(default=(), compare=False, repr=False)

    def __add__(self, other: Fed) -> Fed:
        return Fed(
            stored=self.stored + other.stored,
            known=self.known + other.known,
            redacted=self.redacted + other.redacted,
            cleaned=self.cleaned + other.cleaned,
            harness=self.harness + other.harness,
            files=self.files + other.files,
            refused_files=self.refused_files + other.refused_files,
            lines=self.lines + other.lines,
        )


class LogFeeder:
    """Stores messages, calls and results word for word. Thread-safe.

    They are embedded later: a conversation arrives in one piece, and its words are searchable at once.
    """

    def __init__(
        self,
        records: RecordStore,
        logs: SessionLogStore,
        drafting: RecordPreparer,
        attachments: Attachments,
        clock: Clock,
        pause: Callable[[], None],
    ) -> None:
        """`pause` is called now and then, because feeding a long conversation takes a while."""
        self._records = records
        self._logs = logs
        self._drafting = drafting
        self._attachments = attachments
        self._clock = clock
        self._pause = pause

    def __call__(self, told: Iterable[NewRecord], caller: Caller) -> Fed:
        """Add the new entries of a conversation to the log of the caller's session, in order.

        After an interruption the stored entries stay, and feeding the conversation again continues there.

        Raises:
            InvalidRequest: an entry is empty.
            StoreUnavailable: the message names the remedy.
        """
        entries, fed = iter(told), Fed()
        while some := list(islice(entries, TOLD_AT_ONCE)):
            fed += self._feed(some, caller)
        return fed

    def take_back(self, message_ids: Sequence[str], caller: Caller, standing: Sequence[str] = ()) -> int:
        """Mark lines of the caller's log that its user took back; return how many were not marked before.

        The log as it stands has them no more. Where no other session's log has them either, they and what was read out
        of them are superseded, with TAKEN_BACK as their tag. `standing` are lines to which the user may have gone back:
        marked ones are in the log again, and restored.
        """
        if not message_ids and not standing:
            return 0
        with self._records.write(caller, "taken back by the user") as transaction:
            back = transaction.stand_again(transaction.lines_named(standing, caller), caller)
            gone = transaction.take_back(transaction.lines_named(message_ids, caller), caller)
            self._restore(back, transaction)
            for record in _with_read_out(gone, transaction):
                if record.holds and record.kind != "summary":
                    tags = together(record.tags, (TAKEN_BACK,))
                    self._move(replace(moved_to(record, "superseded"), tags=tags), transaction)
        return len(gone)

    def _restore(self, line_ids: Sequence[str], transaction: Transaction) -> None:
        """Make lines, and what was read out of them, valid again: a log has them as it stands."""
        for record in _with_read_out(line_ids, transaction):
            if TAKEN_BACK in record.tags:
                self._move(_restored(record), transaction)

    def _move(self, record: Record, transaction: Transaction) -> None:
        transaction.update(replace(record, updated_at=self._clock()))

    def held(self, fed: Fed, caller: Caller) -> list[tuple[str, ...]]:
        """Return, for each line that was fed, the ids of the originals that it repeats or replaces, in order."""
        lines = [told.line for told in fed.lines]
        # A line is known by its id, whatever was corrected in it since; of several with one id the first was stored.
        named = {line.id: line.content for line in reversed(lines) if line.id}
        said = [
            (each.id, named.get(line.id or "", line.content)) for each, line in _with_lines(self._logs.said(caller))
        ]
        standing = {place: told.covers for place, told in enumerate(fed.lines) if told.covers}
        return held_as(lines, standing, said)

    def _feed(self, told: Sequence[NewRecord], caller: Caller) -> Fed:
        cleaned = [self._clean(item, caller) for item in told]
        with self._records.snapshot():  # The transactions look for what was said, or erased, since.
            marks = self._records.erased(caller.scopes)
            said, live = self._logs.said(caller), self._live(caller)
            standing = self._standing(cleaned, said, caller)
        without = [unerased(draft, marks, caller) for draft in cleaned]
        drafts = [rest or draft for rest, draft in zip(without, cleaned, strict=True)]
        lines = _told(drafts)
        others = [place for place, rest in enumerate(without) if rest and place not in standing]
        new = new_places([lines[place] for place in others], _lines(said), live)
        waiting = [drafts[others[place]] for place in new]
        stored: list[RecordDraft] = []
        last = said[-1].id if said else None
        while waiting:
            batch = self._drafting.make([draft.item for draft in waiting[:FED_AT_ONCE]], embedded=False)
            with self._records.write(caller) as transaction:
                # Another process may be told the same conversation at the same time.
                since = transaction.said_since(last, caller)
                every = range(len(waiting))
                new = unmatched(_told(waiting), every, _lines(since)) if since else every
                news = [(waiting[place], batch[place]) for place in new if place < len(batch)]
                if (erased := transaction.erased(caller.scopes)) != marks:
                    news = self._unerased(news, erased, caller)
                added = self._store(news, caller, transaction)
            waiting = [waiting[place] for place in new if place >= len(batch)]
            stored += filter(None, added.values())
            last = next(reversed(added), since[-1].id if since else last)
        return Fed(
            stored=len(stored),
            known=len(drafts) - len(stored),
            redacted=sum(each.redacted for each in stored),
            cleaned=sum(each.cleaned for each in stored),
            harness=sum(each.item.harness for each in stored),
            files=sum(bool(file.content) for each in stored for file in each.item.files),
            refused_files=sum(not file.content for each in stored for file in each.item.files),
            lines=tuple(ToldLine(line=line, covers=standing.get(place, ())) for place, line in enumerate(lines)),
        )

    def _standing(
        self, drafts: Sequence[RecordDraft], said: Sequence[SaidEntry], caller: Caller
    ) -> Mapping[int, tuple[str, ...]]:
        """Return, for each told line that replaces originals of this log, now or in the past, their ids."""
        named = {place: name for place, draft in enumerate(drafts) if (name := replaced_by(draft.item.text))}
        if not named:
            return {}
        originals = {each.id: (each.kind, each.call_id) for each in said}
        blocks = self._logs.entries(set(named.values()), caller)
        standing: dict[int, tuple[str, ...]] = {}
        for place, name in named.items():
            covers, item = blocks[name].covers if name in blocks else (name,), drafts[place].item
            # A text that only quotes a replacement is a new one: a mask answers the call of its original.
            is_own = name in blocks or originals.get(name) == (item.kind, item.call_id)
            if is_own and originals.keys() >= set(covers):
                standing[place] = covers
        return standing

    def _clean(self, item: NewRecord, caller: Caller) -> RecordDraft:
        self._pause()
        return self._drafting.clean(replace(item, files=self._attachments.bounded(item.files)), caller)

    def _live(self, caller: Caller) -> Sequence[Hashable]:
        """Return the log as clients see it; () where nothing in it was replaced."""
        if not self._logs.stand_ins(caller):
            return ()
        return [
            (entry.kind, entry.role, content_hash(entry.text), entry.call_id)
            for entry in self._logs.log(caller).entries
        ]

    def _unerased(
        self, news: Sequence[tuple[RecordDraft, Made]], marks: ErasedMarks, caller: Caller
    ) -> list[tuple[RecordDraft, Made]]:
        """Return what is left of entries that were prepared before something was erased."""
        rest = [(unerased(draft, marks, caller), draft, made) for draft, made in news]
        return [
            (left, made if left is draft else self._drafting.make([left.item], embedded=False)[0])
            for left, draft, made in rest
            if left
        ]

    def _store(
        self, news: Sequence[tuple[RecordDraft, Made]], caller: Caller, transaction: Transaction
    ) -> dict[str, RecordDraft | None]:
        """Store entries, and return them by their ids; None for one of another session, which becomes this one's too.

        So a copied conversation is stored once, as far as its order is that of the first. What that session took back
        holds again with this one.
        """
        now, added = self._clock(), dict[str, RecordDraft | None]()
        for draft, made in news:
            known = transaction.told_before(line, caller) if (line := _message_line(draft)) else None
            if known:
                transaction.share_line(known, caller)
                added[known] = None
                continue
            record = record_of(draft, made.text, caller, now, transaction)
            transaction.insert(record, None, draft.item.entities, draft.item.relations)
            self._attachments.keep(draft.item.files)
            added[record.id] = draft
        self._restore([each for each, draft in added.items() if draft is None], transaction)
        return added


def _with_read_out(record_ids: Sequence[str], transaction: Transaction) -> list[Record]:
    """Return the records, with those that were extracted from them."""
    read_out = transaction.extracted_from(record_ids) if record_ids else ()
    return [record for each in (*record_ids, *read_out) if (record := transaction.get(each))]


def _restored(record: Record) -> Record:
    """Return a record without its mark; valid again where nothing else ended it."""
    is_past_else = record.status != "superseded" or record.superseded_by
    tags = tuple(tag for tag in record.tags if tag != TAKEN_BACK)
    return replace(record if is_past_else else restored(record), tags=tags)


def _message_line(draft: RecordDraft) -> MessageLine | None:
    """Return what a line is known by in any session; None without an id that no other message has."""
    item, message_id = draft.item, draft.item.details.get("message_id")
    if not isinstance(message_id, str) or not is_globally_unique(message_id):
        return None
    return MessageLine(
        message_id=message_id, scope=draft.scope, kind=item.kind, role=item.role, digest=content_hash(item.text),
        normal_digest=normal_hash(item.text), call_id=item.call_id,
    )  # fmt: skip


def _told(drafts: Sequence[RecordDraft]) -> list[LogLine]:
    return [_line(draft.item) for draft in drafts]


def _line(item: NewRecord) -> LogLine:
    message_id = item.details.get("message_id")
    content = (item.kind, role_of(item.kind, item.role), content_hash(item.text), item.call_id)
    return LogLine(content=content, id=message_id if isinstance(message_id, str) else None)


def _lines(said: Sequence[SaidEntry]) -> list[LogLine]:
    return [line for _, line in _with_lines(said)]


def _with_lines(said: Sequence[SaidEntry]) -> list[tuple[SaidEntry, LogLine]]:
    return [
        (each, LogLine(content=(each.kind, each.role, each.content_hash, each.call_id), id=each.message_id))
        for each in said
    ]
