"""Exact search over the truth's vectors, held in memory and kept current by the change sequence. No approximation."""

from __future__ import annotations

from collections.abc import Callable, Collection, Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import islice
from typing import NamedTuple
from zlib import crc32

import numpy as np

from mcp_memory.domain.model.ids import RECORD, RecordSet, make_id, number_of
from mcp_memory.domain.model.scopes import partition_of
from mcp_memory.domain.retrieval.queries import Vector
from mcp_memory.errors import EmbedderMismatch
from mcp_memory.ports.changes import ChangeFeed
from mcp_memory.ports.retrieval import UsualCosine
from mcp_memory.ports.text import Vectors
from mcp_memory.stores.follower import Follower
from mcp_memory.stores.record_numbers import Numbers, RecordRows, RecordSlots, groups, grown, numbers_of
from mcp_memory.stores.vectors.scope_matrix import ScopeMatrix, SomeVectors

_ENTRY_BYTES = 150
"""Bytes of an entry in a dict of numbers, about."""


class LastChange(NamedTuple):
    """The last change of a record, its scope, and its live vectors; the last two are None where nothing may find it."""

    change: int
    id: str
    scope: str | None
    vectors: Vectors | None


class ExactVectorStore:
    """Implements `VectorStore` by one matrix product per scope: recall of 1.0 by construction.

    An index derived from it reads here the live vectors (`live_vectors`) and the changes (`changes`) of the scopes that
    it holds, and has its candidates scored (`rank`), so that no stale or approximate score is ever shown.
    """

    def __init__(self, follower: Follower, embedder: str, mismatch: Callable[[str, str], str]) -> None:
        self._follower = follower
        self._embedder = embedder
        self._mismatch = mismatch

    def new_part(self) -> VectorPart:
        return VectorPart(self._embedder)

    def forget(self, part: VectorPart) -> None:
        """Nothing: what is kept of a part is in it."""

    def newest_erasure(self) -> int:
        """Return the change number of the newest erasure; 0 where nothing was ever erased."""
        return self._follower.records.newest_erasure()

    def revision(self) -> int:
        """Return the number of the newest change. Raises EmbedderMismatch where this embedder reads no vectors."""
        self._check(self._follower.records.embedder_id())
        return self._follower.records.revision()

    def scopes(self, partition: str = "") -> Mapping[str, int]:
        """Return the number of records of each scope of a partition, or of the memory; with or without vectors."""
        rows = self._follower.records.index_rows("scopes", 0, partition=partition)
        every = ((scope, count) for each in rows for scope, count in zip(*each.values(), strict=True))
        return {scope: count for scope, count in every if partition in ("", partition_of(scope))}

    def large_scopes(self, least: int) -> Sequence[str]:
        """Return the scopes that hold so many records."""
        every = map(self.scopes, self._follower.records.partitions(least)) if least else (self.scopes(),)
        return [scope for scopes in every for scope, count in scopes.items() if count >= least]

    def places(self, scopes: Collection[str]) -> Mapping[str, int]:
        """Return the newest change of the partition of each scope."""
        places = self._follower.records.revisions({partition_of(scope) for scope in scopes})
        return {scope: places[part].revision if (part := partition_of(scope)) in places else 0 for scope in scopes}

    def waits(self, scopes: Sequence[str]) -> bool:
        return False

    def search(
        self,
        vector: Vector,
        scopes: Sequence[str],
        limit: int,
        only: RecordSet | None = None,
        exclude: Collection[str] = (),
    ) -> Mapping[str, float]:
        with self._reading(scopes) as parts:
            shelves = _on(parts, scopes, vector)
            found = [hit for shelf in shelves for hit in shelf.search(vector, limit, only, exclude)]
        return best_first(found, limit)

    def nearest(self, vectors: Sequence[Vector], scope: str, limit: int) -> Sequence[Mapping[str, float]]:
        with self._reading((scope,)) as parts:
            for shelf in _on(parts, (scope,), vectors[0]):
                return [best_first(found, limit) for found in shelf.nearest(np.stack(vectors), limit)]
        return [dict[str, float]()] * len(vectors)

    def rank(
        self, vector: Vector, scopes: Sequence[str], limit: int, among: Collection[str], exclude: Collection[str]
    ) -> Mapping[str, float]:
        """Return the best of the named records that are live."""
        with self._reading(scopes) as parts:
            shelves = _on(parts, scopes, vector)
            found = [hit for shelf in shelves for hit in shelf.rank(vector, limit, among, exclude)]
        return best_first(found, limit)

    def similarities(self, vector: Vector, scopes: Sequence[str], record_ids: Collection[str]) -> Mapping[str, float]:
        if not record_ids:
            return {}
        with self._reading(scopes) as parts:
            shelves = _on(parts, scopes, vector)
            return {i: best for shelf in shelves for i, best in shelf.similarities(vector, record_ids)}

    def windows(self, scopes: Sequence[str], record_ids: Collection[str]) -> Mapping[str, int]:
        with self._reading(scopes) as parts:
            several = (shelf.several_windows(list(record_ids)) for shelf in _on(parts, scopes))
            return {i: count for each in several for i, count in each}

    def usual_cosine(self, vector: Vector, scopes: Sequence[str]) -> UsualCosine:
        with self._reading(scopes) as parts:
            samples = [shelf.sample(vector) for shelf in _on(parts, scopes, vector)]
        rows = sum(size for _, size in samples)
        mean = square = 0.0
        for sample, size in samples:
            if size:
                cosines = sample.astype(np.float64)
                mean += size / rows * float(cosines.mean())
                square += size / rows * float(np.square(cosines).mean())
        return UsualCosine(mean=mean, mean_square=square)

    def alike(self, scopes: Sequence[str], record_ids: Sequence[str], least: float) -> Sequence[tuple[str, str, float]]:
        with self._reading(scopes) as parts:
            first = {i: row for shelf in _on(parts, scopes) for i, row in shelf.first_windows(record_ids).items()}
        ids = [record_id for record_id in record_ids if record_id in first]
        if len(ids) < 2:
            return []
        matrix = np.stack([first[record_id] for record_id in ids])
        cosines = np.triu(np.vecdot(matrix[:, None], matrix[None]), k=1)
        ones, others = np.nonzero(cosines >= least)
        pairs = zip(ones.tolist(), others.tolist(), cosines[ones, others].tolist(), strict=True)
        return [(ids[one], ids[other], cosine) for one, other, cosine in pairs]

    def changed_since(self, scope: str, change: int, limit: int) -> Sequence[str] | None:
        """Ids of records of the scope's partition that changed after `change`, newest first; None for more of them."""
        with self._reading((scope,)) as parts:
            later = parts[partition_of(scope)].last.newest_first(change)
            changed = [make_id(RECORD, number) for number, _ in islice(later, limit)]
            return changed if next(later, None) is None else None

    def changes(self, scope: str, since: int, limit: int) -> Sequence[LastChange]:
        """Return the last changes of the records of a scope's partition that changed after `since`, in their order.

        The first `limit`, or more where one change touched many, so that the last number marks the progress.
        """
        with self._reading((scope,)) as parts:
            part = parts[partition_of(scope)]
            later = list(part.last.newest_first(since))
            later.reverse()
            while limit < len(later) and later[limit][1] == later[limit - 1][1]:
                limit += 1
            return [part.last_change(number, change) for number, change in later[:limit]]

    def live_ids(self, scope: str) -> Sequence[str]:
        """Return the ids of the scope's live records."""
        with self._reading((scope,)) as parts:
            return [i for shelf in _on(parts, (scope,)) for i in shelf.live_ids()]

    def live_vectors(self, scope: str, record_ids: Collection[str]) -> Mapping[str, Vectors]:
        """Return the vectors of the given records that are live in the scope."""
        with self._reading((scope,)) as parts:
            shelves = _on(parts, (scope,))
            found = {i: shelf.live(number_of(i)) for shelf in shelves for i in record_ids}
        return {record_id: vectors for record_id, vectors in found.items() if vectors is not None}

    def size(self, scope: str) -> int:
        """Return the number of live vectors in the scope."""
        with self._reading((scope,)) as parts:
            return sum(shelf.count_live() for shelf in _on(parts, (scope,)))

    @contextmanager
    def _reading(self, scopes: Sequence[str]) -> Generator[Mapping[str, VectorPart]]:
        with self._follower.reading(self, scopes) as parts:
            for part in parts.values():
                self._check(part.stored_embedder)
            yield parts

    def _check(self, stored: str | None) -> None:
        if stored is not None and stored != self._embedder:
            raise EmbedderMismatch(self._mismatch(stored, self._embedder))


class VectorPart:
    """The vectors of one partition: a matrix for each scope, and the last changes."""

    def __init__(self, embedder: str) -> None:
        self._embedder = embedder
        self.stored_embedder: str | None = None
        """The embedder of the truth's vectors."""
        self.shelves: dict[str, ScopeMatrix] = {}
        slots = RecordSlots()
        self._rows = RecordRows(slots)
        self.last = _LastChanges(slots)

    @property
    def bytes(self) -> int:
        return self._rows.bytes + self.last.bytes + sum(shelf.bytes for shelf in self.shelves.values())

    def last_change(self, number: int, change: int) -> LastChange:
        """Return the last change of a record, with its live vectors."""
        scope = self._rows.scope_of(number)
        return LastChange(change, make_id(RECORD, number), scope, self.shelves[scope].live(number) if scope else None)

    def follow(self, truth: ChangeFeed, since: int, partition: str) -> int:
        self.stored_embedder = truth.embedder_id()
        if not since:
            read = self._load(truth, partition)
            erased = np.array([*self._forget(truth, 0, partition)], np.int64).reshape(-1, 2)
            self.last.load(erased[:, 1], erased[:, 0])
            self._rows.make_room()
            return read
        changed = sorted([*self._move(truth, since, partition), *self._forget(truth, since, partition)])
        for change, number in changed:
            self.last.put(number, change)
        return len(changed)

    def _load(self, truth: ChangeFeed, partition: str) -> int:
        rows, read = truth.index_rows("scopes", 0, partition=partition), 0
        every = ((scope, count) for each in rows for scope, count in zip(*each.values(), strict=True))
        records = {scope: count for scope, count in every if partition_of(scope) == partition}
        for columns in truth.index_rows("vectors", 0, self._embedder, partition):
            ids, scopes, changes, live, windows, vectors = columns.values()
            numbers, counts = numbers_of(ids), np.array(windows, np.int64)
            matrix = np.frombuffer(b"".join(vectors), np.float32).reshape(int(counts.sum()), -1)
            marks = np.fromiter((crc32(each.encode()) for each in ids), np.uint32, len(ids))
            loaded = SomeVectors(numbers, marks, np.array(live, np.bool_), counts, matrix)
            for scope, some in groups(scopes).items():
                if scope not in records:  # Another partition's.
                    continue
                shelf = self._on_shelf(scope, matrix.shape[1])
                shelf.make_room(records[scope])  # Of all that come, if each has one window.
                shelf.append(loaded.taken(some))
                self.last.load(numbers[some], np.array(changes, np.int64)[some])
            read += len(ids)
        return read

    def _move(self, truth: ChangeFeed, since: int, partition: str) -> Iterator[tuple[int, int]]:
        """Put what changed in its place; yield change and number of those that have vectors, or had some."""
        for columns in truth.index_rows("vectors", since, self._embedder, partition):
            for row in zip(*columns.values(), strict=True):
                record_id, scope, change, is_live, windows, blob = row
                number = number_of(record_id)
                if windows:
                    vectors = np.frombuffer(blob, np.float32).reshape(windows, -1)
                    if self._rows.scope_of(number) != scope:
                        self._remove(number)
                    self._on_shelf(scope, vectors.shape[1]).put(number, vectors, bool(is_live))
                elif self.last.knows(number):
                    self._remove(number)
                else:
                    continue
                yield change, number

    def _forget(self, truth: ChangeFeed, since: int, partition: str) -> Iterator[tuple[int, int]]:
        """Remove what was erased or went elsewhere; yield change and number of each."""
        for columns in truth.index_rows("erasures", since, partition=partition):
            for record_id, change in zip(columns["id"], columns["change"], strict=True):
                number = number_of(record_id)
                self._remove(number)
                yield change, number

    def _remove(self, number: int) -> None:
        if (scope := self._rows.scope_of(number)) is not None:
            self.shelves[scope].remove(number)

    def _on_shelf(self, scope: str, dimensions: int) -> ScopeMatrix:
        if scope not in self.shelves:  # Not setdefault: an empty shelf is costly, and most find theirs.
            self.shelves[scope] = ScopeMatrix(dimensions, self._rows, self._rows.shelf(scope))
        return self.shelves[scope]


def _on(parts: Mapping[str, VectorPart], scopes: Sequence[str], vector: Vector | None = None) -> list[ScopeMatrix]:
    """Return the shelves of these scopes. Raises EmbedderMismatch where their vectors have another length."""
    found = ((parts[partition_of(scope)].shelves, scope) for scope in scopes)
    shelves = [shelves[scope] for shelves, scope in found if scope in shelves]
    for shelf in shelves if vector is not None else ():
        if vector is not None and shelf.dimensions != len(vector):
            raise EmbedderMismatch(
                f"The memory's vectors have {shelf.dimensions} dimensions, the query's {len(vector)}; name the new"
                " model in MCP_MEMORY_EMBEDDER_MODEL, then run `mcp-memory reindex`."
            )
    return shelves


def best_first(found: Collection[tuple[str, float]], limit: int) -> dict[str, float]:
    """Return the best `limit` of ids and scores, ties by id."""
    return dict(sorted(found, key=lambda hit: (-hit[1], hit[0]))[:limit])


class _LastChanges:
    """The last change of each record that has had vectors since the part was loaded, or was erased."""

    def __init__(self, slots: RecordSlots) -> None:
        self._slots = slots
        self._changes = np.zeros(1, np.int64)
        """By slot; 0 for those that are not known, as in the place after the last slot."""
        self._loaded = 0
        """The newest change that was loaded."""
        self._since: dict[int, int] = {}
        """The later ones by number, in order of change."""

    @property
    def bytes(self) -> int:
        return self._changes.nbytes + _ENTRY_BYTES * len(self._since)

    def load(self, numbers: Numbers, changes: Numbers) -> None:
        slots = self._slots.add(numbers)
        self._changes = grown(self._changes, self._slots.count + 1)
        self._changes[slots] = changes
        self._loaded = max(self._loaded, int(changes.max(initial=0)))

    def knows(self, number: int) -> bool:
        slot = self._slots.find_one(number)
        return number in self._since or (slot < len(self._changes) and self._changes[slot] > 0)

    def put(self, number: int, change: int) -> None:
        self._since.pop(number, None)
        self._since[number] = change

    def newest_first(self, after: int) -> Iterator[tuple[int, int]]:
        """Yield number and change of those that changed after a change: mostly few, and never all are sorted."""
        for number, change in reversed(self._since.items()):
            if change <= after:
                return
            yield number, change
        later = np.flatnonzero(self._changes > after) if self._loaded > after else np.zeros(0, np.int64)
        later = later[np.argsort(self._changes[later], kind="stable")[::-1]]
        for number, change in zip(self._slots.numbers[later].tolist(), self._changes[later].tolist(), strict=True):
            if number not in self._since:
                yield number, change
