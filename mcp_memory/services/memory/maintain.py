"""Maintain: what time and counts make of records, in small steps, over all projects, by whoever has the time."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import cache
from itertools import islice

from mcp_memory.domain.model.lifecycle import DAY_SECONDS, SUMMARIZED_DAYS, aged, judged, stages
from mcp_memory.domain.model.records import Instant, Kind, Record, Status
from mcp_memory.errors import EmbedderMismatch
from mcp_memory.ports.records import RecordStore
from mcp_memory.ports.text import Clock, Embedder, TokenCounter
from mcp_memory.ports.transaction import Transaction
from mcp_memory.services.memory.extract import Extracting, Said, StatementDraft

STEP_RECORDS = 10
"""Records of one step, which is one transaction: others wait for the write lock meanwhile."""
_MAY_BE_DUE: Mapping[Kind, tuple[int, tuple[Status, ...]]] = {
    "episode": (SUMMARIZED_DAYS, ("active", "summarized")),
    "procedure": (0, stages("procedure")),
    "censor": (0, stages("censor")),
}
"""What is looked at: from how many days on, and in which stages."""

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


class Maintain:
    """Moves on what is due. Thread-safe; two processes at it do the work once, and a second run finds none left.

    Before an episode is archived, the facts and decisions it states become records of their own, which name it as
    `details.source`. Its text stays whole: contexts show it shorter, and it is opened by id. Nothing is taken from what
    failed: neither from such an episode, nor from one of a task that was a dead end or lies in one.
    """

    def __init__(
        self,
        records: RecordStore,
        embedder: Embedder,
        counter: TokenCounter,
        clock: Clock,
        person_of: Callable[[str], str] = lambda agent: "",
    ) -> None:
        """`person_of` tells whom an agent works for, "" for the owner of the memory."""
        self._records = records
        self._extracting = Extracting(records, embedder, counter, person_of=person_of)
        self._clock = clock

    def due(self) -> Maintained:
        """What a run would do at present. Changes nothing. Raises StoreUnavailable."""
        now, tree = self._clock(), cache(self._records.tasks)
        told, new = Maintained(), set[Said]()
        for record in self._due(now):
            told += _told(_moved(record, now), 0)
            if _is_to_go(record, now):
                new.update(self._extracting.unknown(record, tree(record.namespace)))
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

    def _drafts(self, record: Record, now: Instant) -> Sequence[StatementDraft]:
        """What an episode that is to be archived states."""
        return self._extracting.drafts([record], embedded=True) if _is_to_go(record, now) else ()

    def _move_all(
        self, due: Sequence[tuple[Record, Sequence[StatementDraft]]], now: Instant, patiently: bool
    ) -> Maintained:
        with self._records.write(patiently=patiently) as transaction:
            return sum((self._move(record, drafts, now, transaction) for record, drafts in due), Maintained())

    def _move(
        self, due: Record, drafts: Sequence[StatementDraft], now: Instant, transaction: Transaction
    ) -> Maintained:
        """Move the record on; not where it was erased or changed since it was read: the next step looks again."""
        record = transaction.get(due.id)
        if record is None or record.text != due.text:
            return Maintained()
        moved = _moved(record, now)
        if moved.status == record.status:
            return Maintained()
        extracted = [stored for draft in drafts if (stored := self._extracting.store(draft, now, transaction))]
        transaction.update(replace(moved, updated_at=now))
        return _told(moved, len(extracted))


def _moved(record: Record, now: Instant) -> Record:
    return judged(aged(record, now))


def _is_to_go(record: Record, now: Instant) -> bool:
    return _moved(record, now).status == "archived"


def _told(moved: Record, extracted: int) -> Maintained:
    """What moving one record on comes to."""
    if moved.status == "archived":
        return Maintained(archived=1, extracted=extracted)
    return Maintained(summarized=1) if moved.kind == "episode" else Maintained(judged=1)
