"""Maintain: what time and counts make of records, in small steps, over all projects, by whoever has the time."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import cache
from itertools import islice

from mcp_memory.domain.detail import MeasuredText, measured
from mcp_memory.domain.extraction import Statement, statements
from mcp_memory.domain.ids import RECORD
from mcp_memory.domain.lifecycle import DAY_SECONDS, SUMMARIZED_DAYS, aged, first_status, judged, stages
from mcp_memory.domain.mentions import found_entities
from mcp_memory.domain.records import DEFAULT_IMPORTANCE, Counters, Instant, Kind, Record, Status, searchable_text
from mcp_memory.domain.scopes import USER_SCOPE, scope_key
from mcp_memory.domain.tasks import DEAD_ENDS, Task, branches_beside, path_to
from mcp_memory.domain.text import content_hash, normal_hash
from mcp_memory.errors import EmbedderMismatch, StoreUnavailable
from mcp_memory.ports import Clock, Embedder, RecordStore, TokenCounter, Transaction, Vectors
from mcp_memory.services.embedding import embedded_each

STEP_RECORDS = 10
"""Records of one step, which is one transaction: others wait for the write lock meanwhile."""
_MAY_BE_DUE: Mapping[Kind, tuple[int, tuple[Status, ...]]] = {
    "episode": (SUMMARIZED_DAYS, ("active", "summarized")),
    "procedure": (0, stages("procedure")),
    "censor": (0, stages("censor")),
}
"""What is looked at: from how many days on, and in which stages."""

_Key = tuple[str, str]
"""A scope, and the digest of a normalised text."""
_Tree = Callable[[str], Sequence[Task]]
"""The tasks of a namespace."""
Progress = Callable[[int, int], None]
"""Called with the number of records done and the number known so far."""
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Maintained:
    """How many episodes were summarized or archived, statements extracted from them, other records judged anew."""

    summarized: int = 0
    archived: int = 0
    extracted: int = 0
    judged: int = 0

    @property
    def records(self) -> int:
        """How many records moved on."""
        return self.summarized + self.archived + self.judged

    def __add__(self, other: Maintained) -> Maintained:
        return Maintained(**{each.name: getattr(self, each.name) + getattr(other, each.name) for each in fields(self)})


@dataclass(frozen=True, slots=True, kw_only=True)
class _Draft:
    """A statement made ready outside the transaction. `vectors` is None where the embedder could not be asked."""

    statement: Statement
    text: MeasuredText
    vectors: Vectors | None


class Maintain:
    """Moves on what is due. Thread-safe; two processes at it do the work once, and a second run finds none left.

    Before an episode is archived, the facts and decisions it states become records of their own, which name it as
    `details.source`. Its text stays whole: contexts show it shorter, and it is opened by id. Nothing is taken from what
    failed: neither from such an episode, nor from one of a task that was a dead end or lies in one.
    """

    def __init__(self, records: RecordStore, embedder: Embedder, counter: TokenCounter, clock: Clock) -> None:
        self._records = records
        self._embedder = embedder
        self._counter = counter
        self._clock = clock

    def due(self) -> Maintained:
        """What a run would do at present. Changes nothing. Raises StoreUnavailable."""
        now, tree = self._clock(), cache(self._records.tasks)
        told, new = Maintained(), set[_Key]()
        for record in self._due(now):
            told += _told(_moved(record, now), 0)
            new.update(self._unknown(record, now, tree))
        return replace(told, extracted=len(new))

    def __call__(self, progress: Progress) -> Maintained:
        """Step until nothing is due. Interrupted, it goes on where it stopped. Raises StoreUnavailable."""
        total, done = self.due().records, Maintained()
        while (step := self.step()).records:
            done += step
            progress(done.records, max(total, done.records))
        return done

    def step(self, *, patiently: bool = True) -> Maintained:
        """Move on at most ten records, in one atomic write; nothing where nothing is due.

        Raises:
            StoreBusy: not patient, and anybody else is writing; nothing was done.
            StoreUnavailable: nothing was done; the message names the remedy.
        """
        now = self._clock()
        records = list(islice(self._due(now), STEP_RECORDS))
        if not records:
            return Maintained()
        due = [(record, self._drafts(record, now)) for record in records]
        try:
            done = self._move_all(due, now, patiently)
        except EmbedderMismatch:  # Another embedder made the store's vectors: a reindex makes these as well.
            due = [(record, [replace(each, vectors=None) for each in drafts]) for record, drafts in due]
            done = self._move_all(due, now, patiently)
        _log.info("Maintained %s: %s", ", ".join(record.id for record in records), done)
        return done

    def _due(self, now: Instant) -> Iterator[Record]:
        """Every record, of any scope, that is to move on."""
        for kind, (days, statuses) in _MAY_BE_DUE.items():
            for record in self._records.to_maintain(kind, statuses, now - days * DAY_SECONDS):
                if _moved(record, now).status != record.status:
                    yield record

    def _unknown(self, record: Record, now: Instant, tree: _Tree) -> Mapping[_Key, Statement]:
        """What an episode that is to be archived states, and who sees it does not know."""
        if _moved(record, now).status != "archived" or _is_dead_end(record, tree(record.namespace)):
            return {}
        stated = {(record.scope, normal_hash(each.text)): each for each in statements(record.text)}
        known = _known(record, stated, self._records) if stated else ()
        return {key: each for key, each in stated.items() if key not in known}

    def _drafts(self, record: Record, now: Instant) -> Sequence[_Draft]:
        """What takes time: the vectors, the short forms and the counts."""
        new = [*self._unknown(record, now, self._records.tasks).values()]
        if not new:
            return ()
        vectors = embedded_each(self._embedder, [searchable_text(each.text, record.speaker, {}) for each in new])
        count, truncate = self._counter.count, self._counter.truncate
        return [
            _Draft(
                statement=each,
                text=measured(each.text, count, truncate, kind=each.kind),
                vectors=None if isinstance(made, StoreUnavailable) else made,
            )
            for each, made in zip(new, vectors, strict=True)
        ]

    def _move_all(self, due: Sequence[tuple[Record, Sequence[_Draft]]], now: Instant, patiently: bool) -> Maintained:
        with self._records.write(patiently=patiently) as transaction:
            return sum((self._move(record, drafts, now, transaction) for record, drafts in due), Maintained())

    def _move(self, due: Record, drafts: Sequence[_Draft], now: Instant, transaction: Transaction) -> Maintained:
        """Move the record on; not where it was erased or changed since it was read: the next step looks again."""
        record = transaction.get(due.id)
        if record is None or record.text != due.text:
            return Maintained()
        moved = _moved(record, now)
        if moved.status == record.status:
            return Maintained()
        is_heeded = bool(drafts) and not _is_dead_end(record, transaction.tasks(record.namespace))
        extracted = sum(_extract(record, draft, now, transaction) for draft in drafts) if is_heeded else 0
        transaction.update(replace(moved, updated_at=now))
        return _told(moved, extracted)


def _moved(record: Record, now: Instant) -> Record:
    return judged(aged(record, now))


def _is_dead_end(episode: Record, tasks: Sequence[Task]) -> bool:
    """True for what failed, and for what happened on a way that led nowhere."""
    return episode.outcome == "failure" or any(task.status in DEAD_ENDS for task in path_to(episode.task_id, tasks))


def _known(episode: Record, stated: Collection[_Key], reader: RecordStore | Transaction) -> Collection[_Key]:
    """What of it whoever sees the episode knows: not what only a branch knows that hides it from them."""
    tasks = reader.tasks(episode.namespace)
    beside = branches_beside(tasks, path_to(episode.branch_id, tasks))
    hidden = (reader.open_branches() - {task.id for task in tasks}) | beside
    return [key for key, branches in reader.find_learnt(stated).items() if not hidden.issuperset(branches)]


def _told(moved: Record, extracted: int) -> Maintained:
    """What moving one record on comes to."""
    if moved.status == "archived":
        return Maintained(archived=1, extracted=extracted)
    return Maintained(summarized=1) if moved.kind == "episode" else Maintained(judged=1)


def _extract(episode: Record, draft: _Draft, now: Instant, transaction: Transaction) -> bool:
    """Store a statement for whoever sees the episode; not what they know already, or what was corrected for them."""
    said, text = draft.statement.text, draft.text
    digest = normal_hash(said)
    readable = dict.fromkeys((episode.scope, scope_key("shared", episode.namespace, ""), USER_SCOPE))
    is_known = _known(episode, [(episode.scope, digest)], transaction)
    if is_known or any(transaction.find_corrected(scope, digest) for scope in readable):
        return False
    stored = transaction.find_text(episode.scope, content_hash(said))
    if stored and stored.kind != "episode":  # Only a branch knew it. Like what is remembered, it is stored once.
        transaction.update(replace(stored, branch_id=None, updated_at=now))
        return True
    kind = draft.statement.kind
    record = replace(
        episode, id=transaction.next_id(RECORD), kind=kind, text=said, summary=text.summary, micro=text.micro,
        text_tokens=text.text_tokens, summary_tokens=text.summary_tokens, micro_tokens=text.micro_tokens,
        importance=DEFAULT_IMPORTANCE, confidence=None, status=first_status(kind), outcome=None, pinned=False,
        details={"source": episode.id}, role=None, tool=None, call_id=None, superseded_by=None, created_at=now,
        updated_at=now, accessed_at=episode.occurred_at, counters=Counters(),
    )  # fmt: skip
    transaction.insert(record, draft.vectors, found_entities(said, episode.speaker), (), in_session=False)
    return True
