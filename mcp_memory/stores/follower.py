"""Moves the indexes that are derived from the truth along its change sequence, all at once, between requests."""

from __future__ import annotations

import gc
import threading
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Protocol

from mcp_memory.ports.changes import ChangeFeed, Snapshot
from mcp_memory.ports.records import MemoryReader
from mcp_memory.ports.tracing import traced

MOST_FOLLOWED, ONE_BY_ONE = 1_000, 5
"""An index is loaded again where more records changed than these, and than a fifth of all.

One by one, records cost five times as much as all at once.
"""


class DerivedIndex(Protocol):
    """An index that is derived from the truth, and follows it."""

    def follow(self, truth: ChangeFeed, since: int) -> None:
        """Apply what changed after `since`; for 0, begin again with all of it. No request reads meanwhile.

        Applying a change again has no effect.
        """
        ...


@dataclass(frozen=True, slots=True)
class _Place:
    """A revision, and the mark of the write that made it: another history may have given its number again."""

    revision: int
    last_write: str

    @staticmethod
    def of(snapshot: Snapshot) -> _Place:
        return _Place(snapshot.revision, snapshot.last_write)


@dataclass(frozen=True, slots=True, kw_only=True)
class ShelfFigures:
    """Figures of what is in memory now, and of loads since the start; this follower counts loads alone."""

    partitions: int = 0
    bytes: int = 0
    loads: int = 0
    evictions: int = 0
    caught_up: int = 0


_NOWHERE = _Place(0, "")


@dataclass(slots=True)
class _Moment:
    """The indexes' current snapshot, and the number of requests that read it; `number` counts the snapshots taken."""

    snapshot: Snapshot
    number: int
    requests: int = 0


class Follower:
    """Implements `Snapshots`: each request has one revision, in the truth and in every index. Thread-safe.

    The first request that finds a newer revision updates every index; it waits for unfinished requests of an earlier
    revision. Requests that waited share the snapshot taken meanwhile, so that none of them waits twice, however much is
    written.
    """

    def __init__(self, records: MemoryReader) -> None:
        self.records = records
        self.stored_embedder: str | None = None
        """The embedder of the truth's vectors, at the revision of the indexes."""
        self._applied: dict[DerivedIndex, _Place] = {}
        self._newest: _Moment | None = None
        self._taken = self._requests = self._loads = 0
        self._turn = threading.Condition()
        self._joining = threading.Lock()

    def figures(self) -> ShelfFigures:
        return ShelfFigures(loads=self._loads)

    @contextmanager
    def reading(self, index: DerivedIndex) -> Generator[int]:
        """Hold the request as `snapshot` does, and the index with it.

        The first request that reads an index loads it whole. From then on the index moves with the others.
        """
        held = _held.get()
        if held is not None and held[0] is self and index in self._applied:  # Thirty times in a recall.
            yield held[1].snapshot.revision
            return
        with self.snapshot() as revision:
            if index not in self._applied and (held := _held.get()):
                with self._joining:
                    if index not in self._applied:
                        self._tell({index: _NOWHERE}, _Place.of(held[1].snapshot))
            yield revision

    @contextmanager
    def snapshot(self) -> Generator[int]:
        held = _held.get()
        if held is not None and held[0] is self:
            yield held[1].snapshot.revision
            return
        moment = self._enter()
        token = _held.set((self, moment))
        try:
            with moment.snapshot.reading() as revision:
                yield revision
        finally:
            _held.reset(token)
            self._leave(moment)

    def _enter(self) -> _Moment:
        with self._turn:
            taken_before = self._taken
            while (moment := self._shared(taken_before) or self._taken_now()) is None:
                self._turn.wait()
            moment.requests += 1
            self._requests += 1
            return moment

    def _leave(self, moment: _Moment) -> None:
        with self._turn:
            moment.requests -= 1
            self._requests -= 1
            if not moment.requests:
                moment.snapshot.close()
            if not self._requests:
                self._turn.notify_all()

    def _shared(self, taken_before: int) -> _Moment | None:
        """Return the newest snapshot, if it was taken while this request waited and a request still reads it."""
        newest = self._newest
        return newest if newest and newest.requests and newest.number > taken_before else None

    def _taken_now(self) -> _Moment | None:
        """Take a snapshot at which every index is current; None where requests of an older revision must end first."""
        snapshot = self.records.pin()
        try:
            now = _Place.of(snapshot)
            behind = {index: applied for index, applied in self._applied.items() if applied != now}
            if self._requests and self._newest and _Place.of(self._newest.snapshot) != now:
                snapshot.close()
                return None
            if behind:
                with snapshot.reading():
                    self._tell(behind, now)
        except BaseException:
            snapshot.close()
            raise
        self._taken += 1
        self._newest = _Moment(snapshot=snapshot, number=self._taken)
        return self._newest

    def _tell(self, behind: Mapping[DerivedIndex, _Place], now: _Place) -> None:
        """Bring indexes, each from the change that it has applied, to the snapshot that is being read.

        One that fails may hold half of it, so the next request that reads it loads it again.
        """
        with traced("follow", indexes=len(behind)):
            self._follow(behind, now)

    def _follow(self, behind: Mapping[DerivedIndex, _Place], now: _Place) -> None:
        self.stored_embedder = self.records.embedder_id()
        near = {applied: self._is_near(applied) for applied in set(behind.values())}
        for index, applied in behind.items():
            with self._turn:
                self._applied.pop(index, None)
            if near[applied]:
                index.follow(self.records, applied.revision)
            else:
                self._loads += 1
                with _no_collections():
                    index.follow(self.records, 0)
            with self._turn:
                self._applied[index] = now

    def _is_near(self, applied: _Place) -> bool:
        """Return True where telling what changed since costs less than loading all.

        False where nothing was applied, or a write that has been lost.
        """
        if not applied.revision or not self.records.has_write(applied.last_write):
            return False
        changed = self.records.count_changed(applied.revision)
        return changed <= MOST_FOLLOWED or ONE_BY_ONE * changed <= self.records.count_all()


@contextmanager
def _no_collections() -> Generator[None]:
    """Pause Python's cyclic collector: a fifth of a load would go into it, for rows that form no cycles."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


_held: ContextVar[tuple[Follower, _Moment] | None] = ContextVar("_held", default=None)
