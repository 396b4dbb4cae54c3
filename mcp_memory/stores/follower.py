"""Holds what the indexes need of the memory, partition by partition, each at the revision of the requests that read it.

A partition is loaded when a request first reads it, follows the truth when one reads it again, and makes room for
others once all of them take more than a budget.
"""

from __future__ import annotations

import gc
import threading
import time
from collections.abc import Collection, Generator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeVar

from mcp_memory.domain.model.scopes import partition_of
from mcp_memory.freed_memory import give_back_memory
from mcp_memory.ports.changes import ChangeFeed, Place, Snapshot
from mcp_memory.ports.records import MemoryReader
from mcp_memory.ports.tracing import traced

MOST_FOLLOWED, ONE_BY_ONE = 1_000, 5
"""A partition is loaded again where more of its records changed than these, and than a fifth of all.

One by one, records cost five times as much as all at once.
"""
DEFAULT_BYTES = 1 << 30
"""The budget of all partitions in memory, some 230,000 records."""
_MEASURED_APART_SECONDS = 10.0
"""A partition that is only read is measured again so often: what is kept of its graph grows."""
_GIVEN_BACK_BYTES = 64 << 20
"""Evicted bytes from which on memory is returned to the system, which takes milliseconds."""
_NOWHERE = Place(0)


class Part(Protocol):
    """The part of an index that belongs to one partition. One thread changes it while nobody reads it."""

    @property
    def bytes(self) -> int:
        """The memory that it takes, about."""
        ...

    def follow(self, truth: ChangeFeed, since: int, partition: str) -> int:
        """Apply what changed in the partition after `since`; 0, for an empty part, means all. Return the rows read.

        Applying a change again has no effect.
        """
        ...


_Part_co = TypeVar("_Part_co", bound=Part, covariant=True)
_Part = TypeVar("_Part", bound=Part)


class DerivedIndex(Protocol[_Part_co]):
    """An index that is derived from the truth: it makes its parts, and the follower keeps them."""

    def new_part(self) -> _Part_co:
        """Return an empty part."""
        ...

    def forget(self, part: Any) -> None:
        """Forget what was made of a part: it is about to change, or to be evicted."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class ShelfFigures:
    """Counts of what is in memory now, and of loads, evictions and rows since the start."""

    partitions: int = 0
    bytes: int = 0
    loads: int = 0
    evictions: int = 0
    caught_up: int = 0
    """Rows that were read to follow, without those of loads."""


@dataclass(slots=True, eq=False)
class _Shelf:
    """A partition in memory: each index's part, with the place that it has applied."""

    place: Place
    """The place at which requests read it at present."""
    parts: dict[DerivedIndex[Any], tuple[Part, Place]] = field(
        default_factory=dict[DerivedIndex[Any], tuple[Part, Place]]
    )
    requests: int = 0
    bytes: int = 0
    measured_at: float = 0.0
    loading: threading.Lock = field(default_factory=threading.Lock)

    def measure(self) -> None:
        self.bytes = sum(part.bytes for part, _ in [*self.parts.values()])
        self.measured_at = time.monotonic()

    def is_for(self, place: Place) -> bool:
        """Return True where a request at that place may read it: it can be brought there, and nobody reads another."""
        return (
            self.place == place
            if self.requests
            else all(at.revision <= place.revision for _, at in self.parts.values())
        )


@dataclass(slots=True, eq=False)
class _Moment:
    """A snapshot, the number of requests that read it, and places of partitions; `number` counts the snapshots."""

    snapshot: Snapshot
    number: int
    places: dict[str, Place] = field(default_factory=dict[str, Place])
    requests: int = 0


@dataclass(slots=True, eq=False)
class _Request:
    """A request, with the partitions that it holds, and the parts that it read by index and scopes."""

    follower: Follower
    moment: _Moment
    shelves: dict[str, _Shelf] = field(default_factory=dict[str, _Shelf])
    read: dict[tuple[DerivedIndex[Any], tuple[str, ...]], Mapping[str, Any]] = field(
        default_factory=dict[tuple[DerivedIndex[Any], tuple[str, ...]], Mapping[str, Any]]
    )


class Follower:
    """Implements `Snapshots`: each request has one revision, in the truth and in every index. Thread-safe.

    A partition is at one place at a time. A request that names a partition which others read at an earlier place waits
    for these; those that waited share the snapshot taken meanwhile, so that not each of them moves it on. One partition
    never waits for another, nor for its loading. A partition that a request did not name when it began, and that others
    read at a place of their own, it loads for itself.
    """

    def __init__(self, records: MemoryReader, most_bytes: int = DEFAULT_BYTES) -> None:
        self.records = records
        self._most_bytes = most_bytes
        self._shelves: dict[str, _Shelf] = {}
        """By partition, the one that was asked for last at the end."""
        self._newest: _Moment | None = None
        self._taken = self._ends = self._loads = self._evictions = self._caught_up = self._evicted_bytes = 0
        self._entering: list[Collection[str]] = []
        """The partitions of each request that has yet to be admitted."""
        self._turn = threading.Condition()
        self._taking = threading.Lock()
        """Held while a snapshot is taken; `_turn` never is while waiting for it."""

    @contextmanager
    def reading(self, index: DerivedIndex[_Part], scopes: Sequence[str]) -> Generator[Mapping[str, _Part]]:
        """Hold the request as `snapshot` does; yield the index's part of each partition of the scopes."""
        held = _held.get()
        if held is not None and held.follower is self:  # Thirty times in a recall.
            yield self._parts(held, index, tuple(scopes))
            return
        with self.snapshot(scopes), self.reading(index, scopes) as parts:
            yield parts

    @contextmanager
    def snapshot(self, scopes: Collection[str] = ()) -> Generator[int]:
        held = _held.get()
        if held is not None and held.follower is self:
            yield held.moment.snapshot.revision
            return
        request = self._enter({partition_of(scope) for scope in scopes})
        token = _held.set(request)
        try:
            with request.moment.snapshot.reading() as revision:
                yield revision
        finally:
            _held.reset(token)
            self._leave(request)

    def figures(self) -> ShelfFigures:
        """Return what is in memory, and what was loaded and evicted."""
        with self._turn:
            return ShelfFigures(
                partitions=len(self._shelves),
                bytes=sum(shelf.bytes for shelf in self._shelves.values()),
                loads=self._loads,
                evictions=self._evictions,
                caught_up=self._caught_up,
            )

    def forget(self) -> None:
        """Evict every partition that no request reads: the next one loads it again."""
        self._evict(0)

    def _enter(self, partitions: Collection[str]) -> _Request:
        with self._turn:
            taken_before, ends = self._taken, self._ends
            self._entering.append(partitions)
        try:
            request = self._admitted(partitions, None)
            while request is None:
                with self._turn:
                    self._turn.wait_for(lambda ends=ends: self._ends != ends)
                    ends = self._ends
                request = self._admitted(partitions, taken_before)
            return request
        finally:
            with self._turn:
                self._entering.remove(partitions)

    def _leave(self, request: _Request) -> None:
        now = time.monotonic()
        with self._turn:
            for partition, shelf in request.shelves.items():
                if now > shelf.measured_at + _MEASURED_APART_SECONDS:
                    shelf.measure()
                shelf.requests -= 1
                if not shelf.requests and self._shelves.get(partition) is shelf:
                    self._ends += 1
                    self._turn.notify_all()
            self._release(request.moment)

    def _release(self, moment: _Moment) -> None:
        moment.requests -= 1
        if not moment.requests:
            moment.snapshot.close(at_once=False)

    def _joined(self, taken_before: int, partitions: Collection[str]) -> _Request | None:
        """Join the newest snapshot, if it was taken while this request waited, is still read, and can be read by it."""
        newest = self._newest
        if newest and newest.requests and newest.number > taken_before and newest.places.keys() >= set(partitions):
            return self._held_at(newest, partitions)
        return None

    def _admitted(self, partitions: Collection[str], taken_before: int | None) -> _Request | None:
        """Join the newest snapshot, for who waited since `taken_before`, or take one; None where others must end first.

        One request after the other takes a snapshot. Those that end do not wait for it: where connections are few, it
        waits for one of theirs.
        """
        with self._taking:
            with self._turn:
                if taken_before is not None and (request := self._joined(taken_before, partitions)) is not None:
                    return request
                self._taken += 1  # Who begins from now on may have written what this snapshot lacks.
                number, known = self._taken, set[str]().union(*self._entering)
            snapshot = self.records.pin(known)
            try:
                moment = _Moment(snapshot=snapshot, number=number)
                self._ask(moment, known)
                with self._turn:
                    request = self._held_at(moment, partitions)
                    if request is not None:
                        self._newest = moment
            except BaseException:
                snapshot.close()
                raise
        if request is None:
            snapshot.close()
        return request

    def _held_at(self, moment: _Moment, partitions: Collection[str]) -> _Request | None:
        for partition in partitions:
            shelf = self._shelves.get(partition)
            if shelf and not shelf.is_for(moment.places[partition]) and (shelf.requests or moment.requests):
                return None
        moment.requests += 1
        request = _Request(self, moment)
        for partition in partitions:
            self._hold(request, partition)
        return request

    def _hold(self, request: _Request, partition: str) -> _Shelf:
        place = request.moment.places[partition]
        shelf = self._shelves.pop(partition, None) or _Shelf(place)
        self._shelves[partition] = request.shelves[partition] = shelf
        shelf.place = place
        shelf.requests += 1
        return shelf

    def _ask(self, moment: _Moment, partitions: Collection[str]) -> None:
        """Learn the places of partitions at a moment."""
        if unknown := [partition for partition in partitions if partition not in moment.places]:
            with moment.snapshot.reading():
                found = self.records.revisions(unknown)
            moment.places.update({partition: found.get(partition, _NOWHERE) for partition in unknown})

    def _parts(self, request: _Request, index: DerivedIndex[_Part], scopes: tuple[str, ...]) -> Mapping[str, _Part]:
        read = request.read.get((index, scopes))
        if read is None:
            partitions = dict.fromkeys(map(partition_of, scopes))
            self._ask(request.moment, partitions)
            read = {each: self._part(index, each, self._shelf(request, each)) for each in partitions}
            request.read[index, scopes] = read
        return read

    def _shelf(self, request: _Request, partition: str) -> _Shelf:
        """Return a partition for a request, of its own where others read it at another place."""
        with self._turn:
            if (shelf := request.shelves.get(partition)) is not None:
                return shelf
            place, shelf = request.moment.places[partition], self._shelves.get(partition)
            if shelf is None or shelf.is_for(place):
                return self._hold(request, partition)
            shelf = request.shelves[partition] = _Shelf(place, requests=1)
            return shelf

    def _part(self, index: DerivedIndex[_Part], partition: str, shelf: _Shelf) -> _Part:
        """Return an index's part of a partition, brought to the shelf's place; one thread does so, others wait."""
        part, applied = shelf.parts.get(index, (None, _NOWHERE))
        if part is None or applied != shelf.place:
            with shelf.loading:
                part, applied = shelf.parts.pop(index, (None, _NOWHERE))
                if part is None or applied != shelf.place:
                    part = self._brought(index, partition, part, applied, shelf.place)
                shelf.parts[index] = part, shelf.place
                shelf.measure()
            self._evict(self._most_bytes)
        return part  # pyrefly: ignore[bad-return] - what the index itself has made

    def _brought(
        self, index: DerivedIndex[_Part], partition: str, part: Part | None, applied: Place, place: Place
    ) -> Part:
        """Follow the truth from one place to another; one part that is far behind begins again.

        A part that fails may hold half of it, so it is dropped.
        """
        if part is not None and self._is_near(partition, applied, place):
            index.forget(part)
            with traced("follow"):
                read = part.follow(self.records, applied.revision, partition)
            with self._turn:
                self._caught_up += read
            return part
        part = index.new_part()
        if place.revision:
            with traced("load"), _no_collections():
                part.follow(self.records, 0, partition)
        with self._turn:
            self._loads += 1
        return part

    def _is_near(self, partition: str, applied: Place, place: Place) -> bool:
        """Return True where telling what changed since costs less than loading all.

        False where nothing was applied, or what is no more: a write that has been lost, or one later than this moment.
        """
        if not 0 < applied.revision <= place.revision:
            return False
        are_few = place.revision - applied.revision <= MOST_FOLLOWED  # Each has a number of its own.
        self.records.changes_ahead(applied, partition, rows=are_few)
        if not self.records.has_write(applied.last_write):
            return False
        changed = self.records.count_changed(applied.revision, partition)
        if changed > MOST_FOLLOWED:
            return ONE_BY_ONE * changed <= self.records.count_all(partition)
        if not are_few:
            self.records.changes_ahead(applied, partition, rows=True)
        return True

    def _evict(self, most_bytes: int) -> None:
        """Drop the partitions that nobody has asked for the longest, until the others take no more than that."""
        dropped = list[_Shelf]()  # Their memory is freed outside of the lock.
        with self._turn:
            left = sum(shelf.bytes for shelf in self._shelves.values())
            for partition, shelf in [*self._shelves.items()] if left > most_bytes or not most_bytes else ():
                if left <= most_bytes and most_bytes:
                    break
                if not shelf.requests:
                    dropped.append(self._shelves.pop(partition))
                    left -= shelf.bytes
            self._evictions += len(dropped)
            self._evicted_bytes += sum(shelf.bytes for shelf in dropped)
            is_much = self._evicted_bytes >= _GIVEN_BACK_BYTES
            self._evicted_bytes *= not is_much
        for shelf in dropped:
            for index, (part, _) in shelf.parts.items():
                index.forget(part)
        del dropped
        if is_much:
            give_back_memory()


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


_held: ContextVar[_Request | None] = ContextVar("_held", default=None)
