"""Remember: stores an agent's knowledge, once, without secrets, and reports similar and conflicting ones."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import compress
from typing import Literal

from mcp_memory.domain.memory.erased_text import ErasedMarks
from mcp_memory.domain.model.lifecycle import after_confirmation, promoted, restored, said_again
from mcp_memory.domain.model.records import LOG_KINDS, Instant, Kind, NewRecord, Record, rewritten
from mcp_memory.domain.model.scopes import Caller
from mcp_memory.domain.model.versions import CONFIRMED, TOLD, replaced_values
from mcp_memory.domain.text.micro_and_summary import remeasured
from mcp_memory.domain.text.prompt_safety import one_line
from mcp_memory.domain.text.words import content_hash, normal_hash
from mcp_memory.errors import Conflict, InvalidRequest, StoreUnavailable
from mcp_memory.ports.changes import Snapshots
from mcp_memory.ports.records import RecordStore
from mcp_memory.ports.shown import ShownTexts
from mcp_memory.ports.text import Clock, TokenCounter
from mcp_memory.ports.transaction import Transaction
from mcp_memory.services.memory.prepare_record import RecordDraft, RecordPreparer, record_of, unerased
from mcp_memory.services.memory.unseen_changes import refuse_unseen
from mcp_memory.services.review.dependence import GroundFinder, require_grounds
from mcp_memory.services.review.near_records import MOST_SIMILAR, NearRecords
from mcp_memory.services.review.reviews import ConflictingRecord, Reviews, group_of
from mcp_memory.services.review.supersede import successors, supersede
from mcp_memory.services.tasks.branch_visibility import hidden_branches, is_visible, storing_path, visible_to

ERASED_SHOWN = 60
"""Characters by which an answer names an item that says what was erased."""
_TAKEN_BACK = frozenset({"kind", "details", "occurred_at"})
"""Fields of which a text that is stored again takes back what was said."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Remembered:
    """The result for one item.

    `similar` lists near-duplicates, `conflicts` records that it may contradict, `near` those of the same thing that its
    agent should look at; `superseded_by` is the newer valid one.

    `redacted` and `cleaned` count the secrets and the control characters removed from it; `degraded` explains why a
    stored record is not found by meaning yet. `review` is the group that waits with it, offered once a session.

    Of a text that was known, `added` names what the record had not said, and `kind` is the kind that it keeps where
    the item has another one. `forgotten` is the time at which the record, which is live again, had been forgotten.
    `change` numbers the write for an undo, where one was asked for.
    """

    id: str
    status: Literal["stored", "confirmed", "superseded"]
    similar: tuple[str, ...] = ()
    conflicts: tuple[ConflictingRecord, ...] = ()
    near: tuple[Record, ...] = ()
    redacted: int = 0
    cleaned: int = 0
    superseded_by: str | None = None
    degraded: str = ""
    review: str = ""
    added: tuple[str, ...] = ()
    kind: Kind | None = None
    forgotten: Instant | None = None
    change: int = field(default=0, compare=False)


class Remember:
    """Stores records. Everything slow (redaction, embedding) happens before the write lock is taken."""

    def __init__(
        self,
        records: RecordStore,
        snapshots: Snapshots,
        near: NearRecords,
        drafting: RecordPreparer,
        counter: TokenCounter,
        shown_texts: ShownTexts,
        grounds: GroundFinder,
        clock: Clock,
        reviews: Reviews,
    ) -> None:
        self._records = records
        self._snapshots = snapshots
        self._near = near
        self._drafting = drafting
        self._counter = counter
        self._shown_texts = shown_texts
        self._grounds = grounds
        self._clock = clock
        self._reviews = reviews

    def __call__(
        self,
        items: Sequence[NewRecord | RecordDraft],
        caller: Caller,
        *,
        advise: bool = True,
        embed: bool = True,
        undoable: str = "",
    ) -> list[Remembered]:
        """Store 1 to 500 items, all or none, and answer in their order. Drafts are cleaned already, for this caller.

        The same text in the same scope is stored once (`confirmed`), with all that is ever said about it, except in the
        log. What the agent was shown confirms nothing when it comes back. A corrected text does not return
        (`superseded`) unless the item sets `reassert`. Without an embedder a record is stored anyway and embedded
        later; so is everything without `embed`. Without `advise` it skips near-duplicates and contradictions, which
        cost a look at every vector for each item. `undoable` is the reason of a write that an undo takes back as a
        whole: it retires what was new.

        Raises:
            InvalidRequest: an item is empty.
            NotFound: a task or a record to supersede does not exist here.
            Conflict: somebody changed a record to supersede, or forgot one with the same text, since the caller saw it;
                or an item says what was erased here, and does not set `reassert`.
            StoreUnavailable: nothing was stored; the message names the remedy.
        """
        drafts = self._prepare(items, caller, embed=embed)
        with self._records.write(caller, undoable) as transaction:
            if named := [*dict.fromkeys(each for draft in drafts for each in draft.item.supersedes)]:
                hidden = hidden_branches(transaction, caller)
                seen = [each for each in _visible(named, caller, transaction) if is_visible(each, caller, hidden)]
                refuse_unseen(seen, None, caller, self._shown_texts, transaction)
            require_grounds([ground for draft in drafts for ground in draft.item.depends_on], caller, transaction)
            stored = [one for some in _apart(drafts) for one in self._store_all(some, caller, transaction)]
            if undoable:
                transaction.let_undo_retire()
                change = transaction.undoable  # It reads all that was written.
                stored = [replace(one, change=change) for one in stored]
        outcomes = [replace(one, cleaned=draft.cleaned) for draft, one in zip(drafts, stored, strict=True)]
        if advise:
            # Near-duplicates and contradictions are advice: a search that fails does not undo an acknowledged write.
            with suppress(StoreUnavailable):
                advised, named = self._advised(drafts, outcomes, caller)
                if named:
                    with self._records.write(caller) as transaction:
                        for record_id, grounds in named.items():
                            transaction.depend(record_id, grounds, found=True)
                outcomes = self._queued(advised, caller)
        return outcomes

    def _queued(self, outcomes: Sequence[Remembered], caller: Caller) -> list[Remembered]:
        """Let each new record wait for a review together with what it contradicts beyond doubt."""
        found = [group_of(one.id, one.conflicts) if one.status == "stored" else None for one in outcomes]
        if not any(found):
            return list(outcomes)
        offered = self._reviews.queue(found, caller)
        return [replace(one, review=review) for one, review in zip(outcomes, offered, strict=True)]

    def _advised(
        self, drafts: Sequence[RecordDraft], outcomes: Sequence[Remembered], caller: Caller
    ) -> tuple[list[Remembered], Mapping[str, Sequence[str]]]:
        """Add near-duplicates and contradictions to the outcomes; find what the new records stand on, by their ids."""
        with self._snapshots.snapshot(caller.scopes):
            # Each item asks them what its caller sees.
            self._records.ahead(self._records.open_branches, lambda: self._records.places(caller))
            advised = [self._with_near(*each, caller) for each in zip(drafts, outcomes, strict=True)]
            found = {
                one.id: self._grounds(draft.item, one.id, caller.in_session(draft.item.session_id))
                for draft, one in zip(drafts, outcomes, strict=True)
                if one.status == "stored"
            }
        return advised, {record_id: grounds for record_id, grounds in found.items() if grounds}

    def _prepare(self, items: Sequence[NewRecord | RecordDraft], caller: Caller, *, embed: bool) -> list[RecordDraft]:
        cleaned = [item if isinstance(item, RecordDraft) else self._drafting.clean(item, caller) for item in items]
        texts = [
            None if draft.item.kind in LOG_KINDS else (draft.scope, content_hash(draft.item.text)) for draft in cleaned
        ]
        known = self._records.find_texts({each for each in texts if each}) if any(texts) else set[tuple[str, str]]()
        new = [each not in known for each in texts]
        lasting = [draft.item.text for draft, key in zip(cleaned, texts, strict=True) if key]
        shown = self._shown_texts.find(caller, lasting) if lasting else dict[str, str]()
        made = iter(self._drafting.make([draft.item for draft in compress(cleaned, new)], embedded=embed))
        return [
            replace(draft, made=next(made) if is_new else None, shown=shown.get(draft.item.text, ""))
            for draft, is_new in zip(cleaned, new, strict=True)
        ]

    def _store_all(
        self, drafts: Sequence[RecordDraft], caller: Caller, transaction: Transaction
    ) -> Iterator[Remembered]:
        """Store drafts of which none is read for another one."""
        by = [(draft, caller.in_session(draft.item.session_id)) for draft in drafts]
        reads = [[*_reads_of(*each, transaction)] for each in by]
        transaction.ahead(*(read for some in reads for read in some), afresh=True)
        for each, some in zip(by, reads, strict=True):
            transaction.ahead(*some)  # Known, unless one before it changed anything.
            yield self._store(*each, transaction)

    def _store(self, draft: RecordDraft, caller: Caller, transaction: Transaction) -> Remembered:
        if marks := transaction.erased(_scopes_of(draft, caller)):
            draft = _unless_erased(draft, marks, caller, transaction)
        item, redacted = draft.item, draft.redacted
        labelled = _visible(draft.recalled, caller, transaction)
        is_whole = bool(labelled) and item.text in (labelled[0].text, labelled[0].summary, labelled[0].micro)
        if labelled and (not item.text or (is_whole and not _is_news(item, labelled[0], caller))):
            return self._echo(labelled, item, caller, redacted, transaction)
        if not item.text:
            raise InvalidRequest("text holds only recalled context of unknown records; send what is new in it.")
        if item.kind not in LOG_KINDS:
            existing = transaction.find_text(draft.scope, content_hash(item.text))
            if existing and not _is_news(item, existing, caller):
                existing = self._shared_with(caller, existing, transaction)
                if item.reassert and (existing.superseded_by or not existing.is_live):
                    return self._revive(existing, item, caller, redacted, transaction)
                return self._meet_again(existing, draft, caller, transaction)
            known = _visible([draft.shown], caller, transaction) if draft.shown else []
            if known and not _is_news(item, known[0], caller):
                return self._echo(known, item, caller, redacted, transaction)
            if not item.reassert and (corrected := _corrected(item.text, draft.scope, caller, transaction)):
                return self._superseded(corrected, redacted, transaction)
        return self._insert(draft, caller, transaction)

    def _shared_with(self, caller: Caller, existing: Record, transaction: Transaction) -> Record:
        """Move a branch's record to the trunk once it is stored outside of the branch as well."""
        if existing.branch_id is None or existing.branch_id not in hidden_branches(transaction, caller):
            return existing
        surfaced = replace(existing, branch_id=None, updated_at=self._clock())
        transaction.update(surfaced, reason=CONFIRMED)
        return surfaced

    def _meet_again(self, existing: Record, draft: RecordDraft, caller: Caller, transaction: Transaction) -> Remembered:
        """Handle the same text again: confirmed once a session, revived if forgotten, refused if corrected."""
        item, redacted = draft.item, draft.redacted
        if existing.status == "inactive" or (existing.superseded_by and self._holding(existing, transaction)):
            return self._superseded(existing, redacted, transaction)
        if existing.status in ("retired", "superseded"):
            refuse_unseen([existing], None, caller, self._shown_texts, transaction)
            return self._revive(existing, item, caller, redacted, transaction)
        is_echo = caller.session_id == existing.session_id or draft.shown == existing.id
        return self._add(existing, item, caller, redacted, transaction, is_echo=is_echo)

    def _add(
        self,
        existing: Record,
        item: NewRecord,
        caller: Caller,
        redacted: int,
        transaction: Transaction,
        *,
        is_echo: bool,
    ) -> Remembered:
        """Add what the item says about a record that holds; an echo adds as much, and confirms nothing."""
        now = self._clock()
        supersede(item.supersedes, existing, caller, now, transaction)
        merged = self._said_again(existing, item, caller)
        told = replaced_values(existing, merged)
        merged = promoted(merged)  # The agent vouches for it, also in the session that it was read out of.
        if not is_echo and transaction.confirm(existing, caller.session_id):
            merged = after_confirmation(merged, now)
        if merged != existing:
            takes_back = _TAKEN_BACK & told.keys()  # What was said otherwise until then, as by a revision.
            transaction.update(replace(merged, updated_at=now), reason="" if takes_back else CONFIRMED)
        if merged.searchable_text != existing.searchable_text:
            transaction.index_anew(merged)
        is_linked = transaction.mention(merged, item.entities, item.relations)
        transaction.vouch(existing.id)
        transaction.depend(existing.id, item.depends_on)
        return Remembered(
            id=existing.id,
            status="confirmed",
            redacted=redacted,
            added=(*(name for name in TOLD if name in told and name != "status"), *["entities"] * is_linked),
            kind=merged.kind if merged.kind != item.kind else None,
        )

    def _said_again(self, existing: Record, item: NewRecord, caller: Caller) -> Record:
        """Return the record with all that is now said about it; by its new kind it is the caller's."""
        merged = said_again(existing, item)
        if merged.kind != existing.kind:
            merged = rewritten(merged, merged.text, caller.agent)
        if (merged.kind, merged.outcome) != (existing.kind, existing.outcome):
            merged = remeasured(merged, self._counter.count, self._counter.truncate)
        return merged

    def _echo(
        self, known: Sequence[Record], item: NewRecord, caller: Caller, redacted: int, transaction: Transaction
    ) -> Remembered:
        """Answer an echo of this server's own output: known, with what is now said about it, it confirms nothing.

        A block of several records says nothing of any one of them.
        """
        record, others = known[0], tuple(each.id for each in known[1:])
        is_one = bool(item.text) or not others
        if not (is_one and record.holds and record.kind not in LOG_KINDS) or _is_only_read(record, caller):
            return Remembered(id=record.id, status="confirmed", similar=others, redacted=redacted)
        added = self._add(record, item, caller, redacted, transaction, is_echo=True)
        return replace(added, similar=others)

    def _holding(self, old: Record, transaction: Transaction) -> str | None:
        """Return the newest successor that was not forgotten; the record itself where its text was corrected."""
        chain = [transaction.get(record_id) for record_id in reversed(successors(old, transaction))]
        live = [record.id for record in chain if record and record.is_live]
        return live[0] if live else old.id if old.is_live and not old.superseded_by else None

    def _superseded(self, old: Record, redacted: int, transaction: Transaction) -> Remembered:
        """Refuse to bring a record back; name the newest valid record, which may be the same one, corrected."""
        newer = self._holding(old, transaction)
        similar = (newer,) if newer else ()
        return Remembered(id=old.id, status="superseded", similar=similar, redacted=redacted, superseded_by=newer)

    def _revive(
        self, existing: Record, item: NewRecord, caller: Caller, redacted: int, transaction: Transaction
    ) -> Remembered:
        """Revive a record that was forgotten or that the caller insists on, with all that is now said about it."""
        now, forgotten = self._clock(), existing.updated_at if existing.status == "retired" else None
        revived = self._said_again(restored(existing), item, caller)
        revived = replace(revived, updated_at=now, accessed_at=now)
        transaction.update(revived)
        if revived.searchable_text != existing.searchable_text:
            transaction.index_anew(revived)
        transaction.mention(revived, item.entities, item.relations)
        supersede(item.supersedes, revived, caller, now, transaction)
        transaction.vouch(existing.id)
        transaction.depend(existing.id, item.depends_on)
        return Remembered(id=existing.id, status="stored", redacted=redacted, forgotten=forgotten)

    def _insert(self, draft: RecordDraft, caller: Caller, transaction: Transaction) -> Remembered:
        item, now = draft.item, self._clock()
        # Known when it was looked up, gone by now: rare enough to wait for.
        made = draft.made or self._drafting.make([item], embedded=item.kind not in LOG_KINDS)[0]
        record = record_of(draft, made.text, caller, now, transaction)
        alike = transaction.find_alike(draft.scope, normal_hash(item.text)) if item.kind not in LOG_KINDS else ()
        transaction.insert(record, made.vectors, item.entities, item.relations)
        transaction.depend(record.id, item.depends_on)
        supersede(item.supersedes, record, caller, now, transaction)
        return Remembered(
            id=record.id,
            status="stored",
            similar=tuple(alike)[:MOST_SIMILAR],
            redacted=draft.redacted,
            degraded=made.failure,
        )

    def _with_near(self, draft: RecordDraft, outcome: Remembered, caller: Caller) -> Remembered:
        """Add near-duplicates and contradictions. Raises StoreUnavailable where the search fails."""
        item, vectors = draft.item, draft.made.vectors if draft.made else None
        if outcome.status != "stored" or vectors is None or item.kind in LOG_KINDS:
            return outcome
        exclude = (outcome.id, *outcome.similar, *item.supersedes)
        replaced = self._records.get(item.supersedes, caller.scopes) if item.supersedes else dict[str, Record]()
        corrected = [record.text for record in replaced.values()]
        advice = self._near(item, draft.scope, vectors[0], caller, exclude, item.relations, corrected)
        alike = outcome.similar
        if alike:
            where = replace(visible_to(self._records, caller), scopes=(draft.scope,), only=frozenset(alike))
            visible = self._records.matching_ids(where)
            alike = tuple(record_id for record_id in alike if record_id in visible)
        return replace(
            outcome, similar=(*alike, *advice.similar)[:MOST_SIMILAR], conflicts=advice.conflicts, near=advice.near
        )


def _unless_erased(draft: RecordDraft, marks: ErasedMarks, caller: Caller, transaction: Transaction) -> RecordDraft:
    """Return a log's entry without what was erased, and anything else as it is, if its agent insists.

    Raises Conflict where an item says what was erased, and its agent does not insist.
    """
    item = draft.item
    if item.reassert:
        scopes = dict.fromkeys((draft.scope, *caller.scopes))
        transaction.allow_again(marks.met_in(item.kind, caller.session_id, item.text, item.details), scopes)
        return draft
    rest = unerased(draft, marks, caller)
    if rest is draft:
        return draft
    if rest and item.kind in LOG_KINDS:  # Its short forms were made of all of it.
        return replace(rest, made=None)
    raise Conflict(
        f"{one_line(item.text, ERASED_SHOWN)!r} says what was erased here, for good; nothing was stored. If it shall be"
        " kept all the same, send it with reassert=true; otherwise leave it out."
    )


def _visible(record_ids: Sequence[str], caller: Caller, transaction: Transaction) -> list[Record]:
    found = (transaction.get(record_id) for record_id in record_ids)
    return [record for record in found if record and record.scope in caller.scopes]


def _is_news(item: NewRecord, known: Record, caller: Caller) -> bool:
    """Return True where a known text is stored all the same, by the item's kind or for what it says about it.

    A line of the log becomes a fact, what a task came to a decision; what is only read here can have nothing added.
    """
    if known.kind in LOG_KINDS:
        return item.kind not in LOG_KINDS
    if known.kind == "result":
        return item.kind not in ("fact", "result")
    return _is_only_read(known, caller) and said_again(known, item) != known


def _is_only_read(record: Record, caller: Caller) -> bool:
    """Return True for a record of an inherited namespace."""
    return record.namespace != caller.namespace and record.visibility != "user"


def _scopes_of(draft: RecordDraft, caller: Caller) -> Sequence[str]:
    return [*dict.fromkeys((draft.scope, *caller.scopes))]


def _apart(drafts: Sequence[RecordDraft]) -> Iterator[Sequence[RecordDraft]]:
    """Yield the drafts in their order, as many at once as do not say the same."""
    some: dict[str, RecordDraft] = {}
    for draft in drafts:
        digest = normal_hash(draft.item.text)
        if digest in some:
            yield [*some.values()]
            some = {}
        some[digest] = draft
    yield [*some.values()]


def _reads_of(draft: RecordDraft, caller: Caller, transaction: Transaction) -> Iterator[Callable[[], object]]:
    """Yield what is read of the memory before a new record is stored."""
    scopes = _scopes_of(draft, caller)
    yield partial(transaction.erased, scopes)
    yield partial(storing_path, transaction, caller)
    if draft.item.kind not in LOG_KINDS:
        digest = normal_hash(draft.item.text)
        yield partial(transaction.find_text, draft.scope, content_hash(draft.item.text))
        yield from (partial(transaction.find_corrected, scope, digest) for scope in scopes)
        yield partial(transaction.find_alike, draft.scope, digest)


def _corrected(text: str, scope: str, caller: Caller, transaction: Transaction) -> Record | None:
    """Return the record that said this before it was corrected, in any scope the caller reads."""
    digest = normal_hash(text)
    scopes = dict.fromkeys((scope, *caller.scopes))
    return next((found for each in scopes if (found := transaction.find_corrected(each, digest))), None)
