"""Moves the indexes that are derived from the truth along its change sequence, all at once, between requests."""

from __future__ import annotations

import threading
from collections.abc import Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from itertools import islice
from typing import Protocol, runtime_checkable

from mcp_memory.errors import StoreUnavailable
from mcp_memory.ports.changes import RecordChange, Snapshot, TaskLink
from mcp_memory.ports.records import MemoryReader
from mcp_memory.stores.index_files import Arrays, IndexFiles

AT_ONCE = 5_000
"""Changes applied together, about 10 MB with their vectors."""
MOST_KEPT = 10_000
"""Changes that are read once for all indexes that a request loads, about 20 MB while it lasts."""
FILED_AFTER, FILED_SHARE = 1_000, 16
"""An index's file is written again after so many changes, and a 16th of those before: what is read in 0.1 s is not."""


class DerivedIndex(Protocol):
    """An index that is derived from the truth, and follows it."""

    def apply(self, changes: Sequence[RecordChange], tasks: Sequence[TaskLink]) -> None:
        """Apply changes, oldest first; no request reads meanwhile. Applying a change again has no effect."""
        ...


@runtime_checkable
class FiledIndex(DerivedIndex, Protocol):
    """An index whose whole content can be kept as arrays in files."""

    name: str
    """Names its files."""

    def packed(self) -> Arrays:
        """Return the whole content, in arrays that later changes leave alone."""
        ...

    def unpack(self, arrays: Arrays) -> None:
        """Start from what `packed` returned, in place of any content. The arrays may be kept and changed."""
        ...


@dataclass(slots=True)
class _Moment:
    """The indexes' current snapshot, and the number of requests that read it; `number` counts the snapshots taken.

    `read` holds the changes that an index was told when it was loaded, by the change and the embedder they begin with.
    """

    snapshot: Snapshot
    number: int
    requests: int = 0
    read: tuple[int, str, Sequence[RecordChange]] | None = None


class Follower:
    """Implements `Snapshots`: each request has one revision, in the truth and in every index. Thread-safe.

    The first request that finds a newer revision updates every index; it waits for unfinished requests of an earlier
    revision. Requests that waited share the snapshot taken meanwhile, so that none of them waits twice, however much is
    written.
    """

    def __init__(self, records: MemoryReader, files: IndexFiles | None = None) -> None:
        self.records = records
        self._files = files
        self._embedder = ""
        self.stored_embedder: str | None = None
        """The embedder of the truth's vectors, at the revision of the indexes."""
        self._applied: dict[DerivedIndex, int] = {}
        self._filed: dict[FiledIndex, str] = {}
        """The indexes that are kept in files, and the embedder of each."""
        self._outside: set[FiledIndex] = set()
        """Indexes that have a newer file, and are still in this process's own memory instead of shared pages."""
        self._newest: _Moment | None = None
        self._taken = self._requests = 0
        self._turn = threading.Condition()
        self._joining = threading.Lock()

    @contextmanager
    def reading(self, index: DerivedIndex, embedder: str = "") -> Generator[int]:
        """Hold the request as `snapshot` does, and the index with it; a vector index names its embedder.

        The first request that reads an index loads it whole. From then on the index moves with the others.
        """
        held = _held.get()
        if held is not None and held[0] is self and index in self._applied:  # Thirty times in a recall.
            yield held[1].snapshot.revision
            return
        with self.snapshot() as revision:
            if index not in self._applied:
                with self._joining:
                    if index not in self._applied:
                        self._join(index, embedder, revision)
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
            if self._outside and not self._requests:
                self._map(snapshot.revision)
            behind = {index: applied for index, applied in self._applied.items() if applied != snapshot.revision}
            if self._requests and self._newest and self._newest.snapshot.revision != snapshot.revision:
                snapshot.close()
                return None
            if behind:
                with snapshot.reading():
                    self._tell(behind, self._embedder)
                self._applied.update(dict.fromkeys(behind, snapshot.revision))
        except BaseException:
            snapshot.close()
            raise
        self._taken += 1
        self._newest = _Moment(snapshot=snapshot, number=self._taken)
        return self._newest

    def save(self) -> bool:
        """Write the file of one index that has changed much since; False where none has. Raises StoreUnavailable."""
        if (files := self._files) is None:
            return False
        for index, embedder in list(self._filed.items()):
            with self.reading(index, embedder) as revision:
                filed = files.newest(index.name, embedder)
                arrays = index.packed() if revision - filed >= max(FILED_AFTER, filed // FILED_SHARE) else None
            if arrays is not None:
                try:
                    files.save(index.name, revision, arrays, embedder)
                except OSError as error:
                    raise StoreUnavailable(f"No file of an index can be written: {error.strerror}.") from error
                self._outside.add(index)
                return True
        return False

    def _map(self, revision: int) -> None:
        """Take what was written to files from there, so that its pages are shared."""
        while self._outside:
            index = self._outside.pop()
            if change := self._unpacked(index, self._filed[index], revision):
                self._applied[index] = change

    def _unpacked(self, index: FiledIndex, embedder: str, revision: int) -> int:
        """Fill an index from its files; return the change they are of, 0 where there are none to be trusted."""
        loaded = self._files.load(index.name, revision, embedder) if self._files else None
        if loaded is None:
            return 0
        change, arrays = loaded
        index.unpack(arrays)
        return change

    def _join(self, index: DerivedIndex, embedder: str, revision: int) -> None:
        """Load an index inside a request. Other requests are of the same revision, so none sees it move."""
        since = self._unpacked(index, embedder, revision) if isinstance(index, FiledIndex) else 0
        self._tell({index: since}, embedder)
        with self._turn:
            if isinstance(index, FiledIndex):
                self._filed[index] = embedder
            self._applied[index] = revision
            self._embedder = embedder or self._embedder

    def _tell(self, behind: Mapping[DerivedIndex, int], embedder: str) -> None:
        """Bring indexes to the snapshot that is being read: one reading for all that stand at the same change."""
        self.stored_embedder = self.records.embedder_id()
        for since in sorted(set(behind.values())):
            indexes = [index for index, applied in behind.items() if applied == since]
            tasks = self.records.task_links(since)
            changes = iter(self._changes(since, embedder or self.stored_embedder or ""))
            while (some := list(islice(changes, AT_ONCE))) or tasks:
                for index in indexes:
                    index.apply(some, tasks)
                tasks = ()

    def _changes(self, since: int, embedder: str) -> Iterable[RecordChange]:
        """Return the changes since; a request that loads several indexes from files about as old reads them once."""
        held = _held.get()
        if held is None or held[0] is not self or held[1].snapshot.revision - since > MOST_KEPT:
            return self.records.changes(since, embedder)
        moment = held[1]
        if moment.read is None or moment.read[0] > since or moment.read[1] != embedder:
            moment.read = since, embedder, [*self.records.changes(since, embedder)]
        return (each for each in moment.read[2] if each.change > since)


_held: ContextVar[tuple[Follower, _Moment] | None] = ContextVar("_held", default=None)
