"""Exact search over the truth's vectors, held in memory and kept current by the change sequence. No approximation."""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import compress, islice
from typing import NamedTuple
from zlib import crc32

import numpy as np
from numpy.typing import NDArray

from mcp_memory.domain.model.ids import RECORD, RecordSet, make_id, number_of
from mcp_memory.domain.retrieval.queries import Vector
from mcp_memory.errors import EmbedderMismatch
from mcp_memory.ports.changes import RecordChange, TaskLink
from mcp_memory.ports.retrieval import UsualCosine
from mcp_memory.ports.text import Vectors
from mcp_memory.stores.follower import Follower
from mcp_memory.stores.id_rows import NONE, Numbers, RecordRows, grown, held_against
from mcp_memory.stores.index_files import Arrays, joined, packed_scopes, parted, unpacked_texts

_FIRST_CAPACITY = 256
# Cosines are taken by np.vecdot, not by `@`: BLAS would spread the product over all cores and wait for the busiest, and
# its last digits depend on where a row stands.
_SHRINK_WHEN_DEAD = 0.5
_FEW = 0.25
"""Up to this share of the rows, copying them out is quicker than taking the cosines of all."""
_BLOCK = 512
"""Rows whose cosines with many vectors are taken together: they stay in the processor's cache meanwhile."""
_SAMPLE = 2_048
"""Windows sampled for the usual cosine: their mean is within 1/50 of a standard deviation of the mean of all."""


class LastChange(NamedTuple):
    """The last change of a record, its scope, and its live vectors; the last two are None where nothing may find it."""

    change: int
    id: str
    scope: str | None
    vectors: Vectors | None


class ExactVectorStore:
    """Implements `VectorStore` by one matrix product per scope: recall of 1.0 by construction.

    An index derived from it reads here the live vectors (`live_vectors`) and the changes (`changes`), and has its
    candidates scored (`rank`), so that no stale or approximate score is ever shown.
    """

    name = "vectors"

    def __init__(self, follower: Follower, embedder: str, mismatch: Callable[[str, str], str]) -> None:
        self._follower = follower
        self._embedder = embedder
        self._mismatch = mismatch
        self._newest_erasure = 0
        self._shelves: dict[str, _ScopeMatrix] = {}
        self._last = _LastChanges()
        self._lock = threading.Lock()
        """Held while changes are applied, and by reads outside of a request."""

    @property
    def newest_erasure(self) -> int:
        """The change number of the newest erasure known so far; 0 where nothing was ever erased."""
        return self._newest_erasure

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
        with self._reading():
            found = [hit for shelf in self._on(scopes, vector) for hit in shelf.search(vector, limit, only, exclude)]
        return best_first(found, limit)

    def nearest(self, vectors: Sequence[Vector], scope: str, limit: int) -> Sequence[Mapping[str, float]]:
        with self._reading():
            for shelf in self._on((scope,), vectors[0]):
                return [best_first(found, limit) for found in shelf.nearest(np.stack(vectors), limit)]
        return [dict[str, float]()] * len(vectors)

    def rank(
        self, vector: Vector, scopes: Sequence[str], limit: int, among: Collection[str], exclude: Collection[str]
    ) -> Mapping[str, float]:
        """Return the best of the named records that are live, as of the last `catch_up`."""
        with self._lock:
            found = [hit for shelf in self._on(scopes, vector) for hit in shelf.rank(vector, limit, among, exclude)]
        return best_first(found, limit)

    def similarities(self, vector: Vector, scopes: Sequence[str], record_ids: Collection[str]) -> Mapping[str, float]:
        if not record_ids:
            return {}
        with self._reading():
            return {i: best for shelf in self._on(scopes, vector) for i, best in shelf.similarities(vector, record_ids)}

    def windows(self, scopes: Sequence[str], record_ids: Collection[str]) -> Mapping[str, int]:
        with self._reading():
            shelves = [self._shelves[scope] for scope in scopes if scope in self._shelves]
            return {i: count for shelf in shelves for i, count in shelf.several_windows(list(record_ids))}

    def usual_cosine(self, vector: Vector, scopes: Sequence[str]) -> UsualCosine:
        with self._reading():
            samples = [shelf.sample() for shelf in self._on(scopes, vector)]
        rows = sum(size for _, size in samples)
        mean = square = 0.0
        for sample, size in samples:
            if size:
                cosines = np.vecdot(sample, vector).astype(np.float64)
                mean += size / rows * float(cosines.mean())
                square += size / rows * float(np.square(cosines).mean())
        return UsualCosine(mean=mean, mean_square=square)

    def alike(self, scopes: Sequence[str], record_ids: Sequence[str], least: float) -> Sequence[tuple[str, str, float]]:
        with self._reading():
            shelves = [self._shelves[scope] for scope in scopes if scope in self._shelves]
            first = {i: row for shelf in shelves for i, row in shelf.first_windows(record_ids).items()}
        ids = [record_id for record_id in record_ids if record_id in first]
        if len(ids) < 2:
            return []
        matrix = np.stack([first[record_id] for record_id in ids])
        cosines = np.triu(np.vecdot(matrix[:, None], matrix[None]), k=1)
        ones, others = np.nonzero(cosines >= least)
        pairs = zip(ones.tolist(), others.tolist(), cosines[ones, others].tolist(), strict=True)
        return [(ids[one], ids[other], cosine) for one, other, cosine in pairs]

    def catch_up(self) -> int:
        """Apply changes of all processes since the last call; return the newest change."""
        with self._reading() as revision:
            return revision

    def changed_since(self, change: int, limit: int) -> Sequence[str] | None:
        """Ids of records that changed after `change`, newest first; None where they are more than `limit`."""
        with self._lock:
            later = self._last.newest_first(change)
            changed = [make_id(RECORD, number) for number, _, _ in islice(later, limit)]
            return changed if next(later, None) is None else None

    def changes(self, since: int, limit: int) -> Sequence[LastChange]:
        """Return the last changes of the records that changed after `since`: the first `limit`, in order of change.

        It returns more than `limit` where one change touched many records, so that the last number marks the progress.
        """
        with self._lock:
            later = list(self._last.newest_first(since))
            later.reverse()
            while limit < len(later) and later[limit][1] == later[limit - 1][1]:
                limit += 1
            return [
                LastChange(change, make_id(RECORD, number), scope, self._shelves[scope].live(number) if scope else None)
                for number, change, scope in later[:limit]
            ]

    def live_ids(self) -> Mapping[str, Sequence[str]]:
        """Return by scope the ids of its live records, as of the last `catch_up`."""
        with self._lock:
            return {scope: shelf.live_ids() for scope, shelf in self._shelves.items()}

    def live_vectors(self, scope: str, record_ids: Collection[str]) -> Mapping[str, Vectors]:
        """Return the vectors of the given records that are live in the scope."""
        with self._lock:
            shelf = self._shelves[scope]
            found = {record_id: shelf.live(number_of(record_id)) for record_id in record_ids}
        return {record_id: vectors for record_id, vectors in found.items() if vectors is not None}

    def size(self, scope: str) -> int:
        """Return the number of live vectors in the scope, as of the last `catch_up`."""
        with self._lock:
            return self._shelves[scope].count_live() if scope in self._shelves else 0

    def _on(self, scopes: Sequence[str], vector: Vector) -> list[_ScopeMatrix]:
        """Return the shelves of these scopes. Raises EmbedderMismatch where their vectors have another length."""
        shelves = [self._shelves[scope] for scope in scopes if scope in self._shelves]
        for shelf in shelves:
            if shelf.dimensions != len(vector):
                raise EmbedderMismatch(
                    f"The memory's vectors have {shelf.dimensions} dimensions, the query's {len(vector)}; name the new"
                    " model in MCP_MEMORY_EMBEDDER_MODEL, then run `mcp-memory reindex`."
                )
        return shelves

    @contextmanager
    def _reading(self) -> Generator[int]:
        with self._follower.reading(self, self._embedder) as revision:
            if (stored := self._follower.stored_embedder) not in (None, self._embedder):
                raise EmbedderMismatch(self._mismatch(stored, self._embedder))
            yield revision

    def apply(self, changes: Sequence[RecordChange], tasks: Sequence[TaskLink]) -> None:
        with self._lock:
            for change in changes:
                number = number_of(change.id)
                if change.vectors is not None or change.is_erased or self._last.knows(number):
                    self._apply(number, change)

    def _apply(self, number: int, change: RecordChange) -> None:
        old_scope = self._last.scope(number)
        if old_scope is not None and (change.vectors is None or old_scope != change.scope):
            self._shelves[old_scope].remove(number)
        if change.vectors is not None:
            if change.scope not in self._shelves:  # Not setdefault: an empty shelf is costly, and most find theirs.
                self._shelves[change.scope] = _ScopeMatrix(change.vectors.shape[1])
            self._shelves[change.scope].put(number, change.vectors, change.is_live)
        if change.is_erased:
            self._newest_erasure = max(self._newest_erasure, change.change)
        self._last.put(number, change.change, None if change.vectors is None else change.scope)

    def packed(self) -> Arrays:
        with self._lock:
            shelves = joined([shelf.packed() for shelf in self._shelves.values()])
            erased = np.array([self._newest_erasure], np.int64)
            names = list(self._shelves)
            return {**shelves, **packed_scopes(names), **self._last.packed(names), "erased": erased}

    def unpack(self, arrays: Arrays) -> None:
        scopes = unpacked_texts(arrays["scopes"], arrays["scope_ends"])
        with self._lock:
            self._shelves = dict(zip(scopes, map(_ScopeMatrix.unpacked, parted(arrays)), strict=True))
            self._last = _LastChanges.unpacked(arrays, scopes)
            self._newest_erasure = int(arrays["erased"][0])


def best_first(found: Collection[tuple[str, float]], limit: int) -> dict[str, float]:
    """Return the best `limit` of ids and scores, ties by id."""
    return dict(sorted(found, key=lambda hit: (-hit[1], hit[0]))[:limit])


class _LastChanges:
    """The last change of each record that ever had vectors or was erased, and its scope, None without vectors."""

    def __init__(self) -> None:
        self._since: dict[int, tuple[int, str | None]] = {}
        """By number, in order of change; all later than those of the arrays."""
        self._places = RecordRows(np.zeros(0, np.int64), np.zeros(0, np.int64))
        self._numbers = np.zeros(0, np.int64)
        self._changes = np.zeros(0, np.int64)
        self._scopes = np.zeros(0, np.int64)
        self._names: Sequence[str] = ()

    def knows(self, number: int) -> bool:
        return number in self._since or self._places.get(number) != NONE

    def scope(self, number: int) -> str | None:
        if number in self._since:
            return self._since[number][1]
        place = self._places.get(number)
        return None if place == NONE else self._name(int(self._scopes[place]))

    def put(self, number: int, change: int, scope: str | None) -> None:
        self._since.pop(number, None)
        self._since[number] = (change, scope)

    def newest_first(self, after: int) -> Iterator[tuple[int, int, str | None]]:
        """Yield number, change and scope of those that changed after a change: mostly few, and never all are sorted."""
        for number, (change, scope) in reversed(self._since.items()):
            if change <= after:
                return
            yield number, change, scope
        later = np.flatnonzero(self._changes > after)
        for place in later[np.argsort(self._changes[later], kind="stable")[::-1]].tolist():
            if (number := int(self._numbers[place])) not in self._since:
                yield number, int(self._changes[place]), self._name(int(self._scopes[place]))

    def packed(self, names: Sequence[str]) -> Arrays:
        """Return all as arrays, sorted by number; `names` give the scopes their codes."""
        code_of: dict[str | None, int] = {None: NONE} | {name: code for code, name in enumerate(names)}
        stays = np.isin(self._numbers, np.fromiter(self._since, np.int64, len(self._since)), invert=True)
        old_codes = np.array([code_of[name] for name in self._names] + [NONE], np.int64)
        later = [(number, change, code_of[scope]) for number, (change, scope) in self._since.items()]
        added = np.array(later, np.int64).reshape(-1, 3).T
        kept = np.stack([self._numbers[stays], self._changes[stays], old_codes[self._scopes[stays]]])
        numbers, changes, scopes = (both := np.concatenate([kept, added], axis=1))[:, np.argsort(both[0])]
        return {"last_numbers": numbers, "last_changes": changes, "last_scopes": scopes}

    @classmethod
    def unpacked(cls, arrays: Arrays, names: Sequence[str]) -> _LastChanges:
        last = cls()
        last._numbers, last._changes, last._scopes = (
            arrays[f"last_{name}"] for name in ("numbers", "changes", "scopes")
        )
        last._names = names
        last._places = RecordRows(last._numbers, np.arange(len(last._numbers), dtype=np.int64))
        return last

    def _name(self, code: int) -> str | None:
        return None if code == NONE else self._names[code]


class _Matrix:
    """Rows of vectors in two parts: those that came from a file stay in its pages, the others are in memory."""

    def __init__(self, filed: Vectors) -> None:
        self._filed = filed
        self._tail = np.zeros((_FIRST_CAPACITY, filed.shape[1]), np.float32)

    def __len__(self) -> int:
        return len(self._filed) + len(self._tail)

    def take(self, rows: Numbers) -> Vectors:
        if not len(self._filed):
            return self._tail[rows]
        taken = self._filed[np.minimum(rows, len(self._filed) - 1)]
        later = rows >= len(self._filed)
        if later.any():
            taken[later] = self._tail[rows[later] - len(self._filed)]
        return taken

    def cosines(self, vectors: Vectors, size: int) -> NDArray[np.float32]:
        """Return the cosines of the first `size` rows, which are all of the filed ones and more: [vectors, rows]."""
        found = np.empty((len(vectors), size), np.float32)
        for first, part in ((0, self._filed), (len(self._filed), self._tail)):
            for start in range(first, min(first + len(part), size), _BLOCK):
                end = min(start + _BLOCK, first + len(part), size)
                np.vecdot(vectors[:, np.newaxis], part[start - first : end - first], out=found[:, start:end])
        return found

    def put(self, first: int, vectors: Vectors) -> None:
        start = first - len(self._filed)
        if (missing := start + len(vectors) - len(self._tail)) > 0:
            self._tail = grown(self._tail, max(len(self._tail), missing))
        self._tail[start : start + len(vectors)] = vectors

    def clear(self, rows: Numbers) -> None:
        """Overwrite rows with zeros; those of a file in this process alone."""
        filed = rows < len(self._filed)
        self._filed[rows[filed]] = 0
        self._tail[rows[~filed] - len(self._filed)] = 0


_COLUMNS = ("matrix", "numbers", "live", "marks")


class _ScopeMatrix:
    """The vectors of one scope: a growing matrix, the record of each row, and a mask of live rows.

    The windows of a record have adjacent rows; `_windows` counts them at the first.
    """

    def __init__(self, dimensions: int) -> None:
        self._hold(_Matrix(np.zeros((0, dimensions), np.float32)), 0)

    def _hold(self, matrix: _Matrix, size: int) -> None:
        """Start with a matrix of which so many rows are taken, and all columns empty."""
        self._matrix, self._size, self._dead = matrix, size, 0
        self.dimensions = matrix.take(np.zeros(0, np.int64)).shape[1]
        self._present = np.zeros(len(matrix), np.bool_)
        self._live = np.zeros(len(matrix), np.bool_)
        self._marks = np.zeros(len(matrix), np.uint32)
        self._numbers = np.zeros(len(matrix), np.int64)
        self._windows = np.zeros(len(matrix), np.int64)
        self._rows = RecordRows(np.zeros(0, np.int64), np.zeros(0, np.int64))
        self._sample: tuple[Vectors, int] | None = None

    @classmethod
    def unpacked(cls, columns: Arrays) -> _ScopeMatrix:
        shelf = cls.__new__(cls)
        size = len(columns["numbers"])
        shelf._hold(_Matrix(columns["matrix"]), size)
        shelf._present[:size] = True
        shelf._live[:size], shelf._marks[:size] = columns["live"], columns["marks"]
        shelf._numbers[:size] = columns["numbers"]
        numbers, rows, windows = np.unique(columns["numbers"], return_index=True, return_counts=True)
        shelf._windows[rows] = windows
        shelf._rows = RecordRows(numbers, rows)
        return shelf

    def packed(self) -> Arrays:
        """Return its columns without removed rows, sorted by number."""
        kept = np.flatnonzero(self._present[: self._size])
        kept = kept[np.argsort(self._numbers[kept], kind="stable")]
        columns = (self._matrix.take(kept), self._numbers[kept], self._live[kept], self._marks[kept])
        return dict(zip(_COLUMNS, columns, strict=True))

    def count_live(self) -> int:
        return int(np.count_nonzero(self._live[: self._size]))

    def put(self, number: int, vectors: Vectors, is_live: bool) -> None:
        """Add or replace a record; unchanged vectors keep their rows, as most changes leave the text."""
        self._sample = None
        if self._rows.get(number) != NONE:
            rows = self._of(number)
            if np.array_equal(self._matrix.take(rows), vectors):
                self._live[rows] = is_live
                return
            self.remove(number)
        rows = slice(self._size, self._size + len(vectors))
        self._matrix.put(rows.start, vectors)
        self._make_room()
        self._marks[rows] = crc32(make_id(RECORD, number).encode())
        self._numbers[rows] = number
        self._present[rows] = True
        self._live[rows] = is_live
        self._windows[rows.start] = len(vectors)
        self._rows.put(number, rows.start)
        self._size = rows.stop

    def remove(self, number: int) -> None:
        self._sample = None
        rows = self._of(number)
        self._rows.remove(number)
        self._present[rows] = self._live[rows] = False
        self._matrix.clear(rows)
        self._dead += len(rows)
        if self._dead > max(_FIRST_CAPACITY, _SHRINK_WHEN_DEAD * self._size):
            fresh = _ScopeMatrix.unpacked(self.packed())
            self.__dict__.update(fresh.__dict__)

    def search(
        self, vector: Vector, limit: int, only: RecordSet | None, exclude: Collection[str]
    ) -> list[tuple[str, float]]:
        """Return the best `limit` records by their best window."""
        counts = self._live if only is None else self._present & held_against(only, self._numbers)
        rows = np.flatnonzero(counts[: self._size])
        if len(rows) < _FEW * self._size:
            scores = np.vecdot(self._matrix.take(rows), vector)
        else:
            scores = self._matrix.cosines(vector[np.newaxis], self._size)[0, rows]
        return self._best(scores, rows, limit, frozenset(exclude))

    def nearest(self, vectors: Vectors, limit: int) -> Iterator[list[tuple[str, float]]]:
        """Yield for each of these vectors what `search` returns."""
        rows = np.flatnonzero(self._live[: self._size])
        for scores in self._matrix.cosines(vectors, self._size):
            yield self._best(scores[rows], rows, limit, frozenset())

    def similarities(self, vector: Vector, record_ids: Collection[str]) -> Iterator[tuple[str, float]]:
        """Yield the records on this shelf, whatever their status, with the cosines of their best windows."""
        first = self._rows.of(record_ids)
        there = first != NONE
        if there.any():
            windows = self._windows[first[there]]
            scores = np.vecdot(self._matrix.take(_each(first[there], windows)), vector)
            best: list[float] = np.maximum.reduceat(scores, np.cumsum(windows) - windows).tolist()
            yield from zip(compress(record_ids, there.tolist()), best, strict=True)

    def rank(
        self, vector: Vector, limit: int, among: Collection[str], exclude: Collection[str]
    ) -> list[tuple[str, float]]:
        """Return the best `limit` of the named records that are live."""
        rows = self._rows_of(among)
        rows = rows[self._live[rows]]
        return self._best(np.vecdot(self._matrix.take(rows), vector), rows, limit, frozenset(exclude))

    def several_windows(self, record_ids: Sequence[str]) -> Iterator[tuple[str, int]]:
        """Yield those of the records on this shelf that have several vectors, and the number of them."""
        rows = self._rows.of(record_ids)
        windows = self._windows[rows]
        for place in np.flatnonzero((rows != NONE) & (windows > 1)).tolist():
            yield record_ids[place], int(windows[place])

    def first_windows(self, record_ids: Collection[str]) -> dict[str, Vector]:
        """Return the first window of each record on this shelf."""
        rows = self._rows.of(record_ids)
        found = [record_id for record_id, row in zip(record_ids, rows.tolist(), strict=True) if row != NONE]
        return dict(zip(found, self._matrix.take(rows[rows != NONE]), strict=True))

    def sample(self) -> tuple[Vectors, int]:
        """Return some live windows, and the number of all; the same in every process with the same records."""
        if self._sample is None:
            rows = np.flatnonzero(self._live[: self._size])
            # Chosen and ordered by a digest of the id, since row positions depend on the order of past changes.
            chosen = rows[np.argsort(self._marks[rows], kind="stable")[:_SAMPLE]]
            self._sample = (self._matrix.take(chosen), len(rows))
        return self._sample

    def live(self, number: int) -> Vectors | None:
        """Return a copy of a live record's vectors."""
        rows = self._of(number)
        return self._matrix.take(rows) if len(rows) and self._live[rows[0]] else None

    def live_ids(self) -> list[str]:
        numbers: list[int] = np.unique(self._numbers[: self._size][self._live[: self._size]]).tolist()
        return [make_id(RECORD, number) for number in numbers]

    def _of(self, number: int) -> Numbers:
        """Return every row of a record."""
        row = self._rows.get(number)
        windows = int(self._windows[row]) if row != NONE else 0
        return np.arange(row, row + windows, dtype=np.int64)

    def _rows_of(self, record_ids: Collection[str]) -> Numbers:
        """Return every row of the records on this shelf."""
        first = self._rows.of(record_ids)
        first = first[first != NONE]
        return _each(first, self._windows[first])

    def _best(
        self, scores: NDArray[np.float32], rows: Numbers, limit: int, exclude: frozenset[str]
    ) -> list[tuple[str, float]]:
        """Take ever more of the best rows until enough distinct records are among them."""
        wanted = limit + len(exclude)
        take = wanted
        while True:
            take = min(take * 2, len(scores))
            top = np.argpartition(-scores, take - 1)[:take] if 0 < take < len(scores) else np.arange(len(scores))
            top = top[np.argsort(-scores[top], kind="stable")]
            best: dict[int, float] = {}
            for number, score in zip(self._numbers[rows[top]].tolist(), scores[top].tolist(), strict=True):
                best.setdefault(number, score)
            if len(best) >= wanted or take >= len(scores):
                named = ((make_id(RECORD, number), score) for number, score in best.items())
                return list(islice((hit for hit in named if hit[0] not in exclude), limit))

    def _make_room(self) -> None:
        """Make every column as long as the matrix."""
        if more := len(self._matrix) - len(self._numbers):
            self._numbers, self._marks = grown(self._numbers, more), grown(self._marks, more)
            self._windows = grown(self._windows, more)
            self._present, self._live = grown(self._present, more), grown(self._live, more)


def _each(first: Numbers, windows: Numbers) -> Numbers:
    """Return the row of every window, given the first row of each record and the number of its windows."""
    before = np.cumsum(windows) - windows
    return np.repeat(first - before, windows) + np.arange(windows.sum(), dtype=np.int64)
