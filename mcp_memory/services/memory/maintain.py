"""Maintenance: moves records on by age and counters, in small steps, over all projects, in any process with time."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, fields, replace
from itertools import islice
from math import inf
from typing import Protocol

from mcp_memory.domain.model.lifecycle import DAY_SECONDS, NOTED, SUMMARIZED_DAYS, aged, judged, stages
from mcp_memory.domain.model.records import Instant, Kind, Record, Status
from mcp_memory.domain.model.scopes import by_partition
from mcp_memory.ports.records import RecordStore
from mcp_memory.ports.text import Clock
from mcp_memory.ports.transaction import Transaction

STEP_RECORDS = 10
"""Records of one step: other processes wait for the write lock meanwhile."""
_MAY_BE_DUE: Sequence[tuple[Kind, int, tuple[Status, ...]]] = (
    ("episode", SUMMARIZED_DAYS, ("active", "summarized")),
    ("procedure", 0, stages("procedure")),
    ("censor", 0, stages("censor")),
    ("fact", 0, (NOTED,)),
    ("decision", 0, (NOTED,)),
    ("episode", 0, (NOTED,)),
)
"""The kinds, with the age in days and the stages from which a record may be due."""

Progress = Callable[[int, int], None]
"""Called with the number of records done and the number known so far."""
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Maintained:
    """Counts of episodes summarized or archived, and of other records judged again."""

    summarized: int = 0
    archived: int = 0
    judged: int = 0

    @property
    def records(self) -> int:
        """Count the records that moved on."""
        return self.summarized + self.archived + self.judged

    def __add__(self, other: Maintained) -> Maintained:
        return Maintained(**{each.name: getattr(self, each.name) + getattr(other, each.name) for each in fields(self)})


class MaintainSettings(Protocol):
    """Settings that maintenance reads; `expired_days` is None where nothing is retired for having expired."""

    noted_days: float
    expired_days: float | None


class Maintain:
    """Moves due records on. Thread-safe; two processes share the work, and a second run finds none left.

    An archived episode's text stays whole, and is shown as before.
    """

    def __init__(self, records: RecordStore, clock: Clock, settings: MaintainSettings) -> None:
        self._noted_days = settings.noted_days
        self._expired_days = inf if settings.expired_days is None else settings.expired_days
        self._records = records
        self._clock = clock

    def due(self) -> Maintained:
        """Count what a run would do now. Changes nothing. Raises StoreUnavailable."""
        now = self._clock()
        return sum((_told(self._moved(record, now)) for record in self._due(now)), Maintained())

    def __call__(self, progress: Progress) -> Maintained:
        """Step until nothing is due. After an interruption, the next call continues there. Raises StoreUnavailable."""
        total, done = self.due().records, Maintained()
        while (step := self.step()).records:
            done += step
            progress(done.records, max(total, done.records))
        return done

    def step(self, *, patiently: bool = True) -> Maintained:
        """Move on at most ten records, in an atomic write for each partition; do nothing where none is due.

        Raises:
            StoreBusy: not patient, and somebody else is writing there; the partitions before are done.
            StoreUnavailable: the partitions before are done; the message names the remedy.
        """
        now = self._clock()
        records = list(islice(self._due(now), STEP_RECORDS))
        if not records:
            return Maintained()
        done = Maintained()
        for partition, some in by_partition(records, lambda record: record.scope).items():
            with self._records.write(patiently=patiently, partition=partition) as transaction:
                done += sum((self._move(record, now, transaction) for record in some), Maintained())
        _log.info("Maintained %s: %s", ", ".join(record.id for record in records), done)
        return done

    def _due(self, now: Instant) -> Iterator[Record]:
        """Yield every record, of any scope, that is due."""
        expired = {each.id: each for each in self._records.expired(now - self._expired_days * DAY_SECONDS)}
        yield from expired.values()
        for kind, days, statuses in _MAY_BE_DUE:
            for record in self._records.to_maintain(kind, statuses, now - days * DAY_SECONDS):
                if record.id not in expired and self._moved(record, now).status != record.status:
                    yield record

    def _move(self, due: Record, now: Instant, transaction: Transaction) -> Maintained:
        """Move the record on, unless it was erased or changed since it was read: the next step looks again."""
        record = transaction.get(due.id)
        if record is None or (record.text, record.scope) != (due.text, due.scope):
            return Maintained()
        opened = max(record.accessed_at, due.accessed_at)  # See `to_maintain` about imported ones.
        moved = self._moved(replace(record, accessed_at=opened), now)
        if moved.status == record.status:
            return Maintained()
        transaction.update(replace(moved, accessed_at=record.accessed_at, updated_at=now))
        return _told(moved)

    def _moved(self, record: Record, now: Instant) -> Record:
        return judged(aged(record, now, self._noted_days, self._expired_days))


def _told(moved: Record) -> Maintained:
    """Count the result of moving one record on."""
    if moved.status == "archived":
        return Maintained(archived=1)
    return Maintained(summarized=1) if moved.status == "summarized" else Maintained(judged=1)
