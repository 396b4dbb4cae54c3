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
from mcp_memory.ports.changes import ChangeFeed
from mcp_memory.ports.retrieval import UsualCosine
from mcp_memory.ports.text import Vectors
from mcp_memory.stores.follower import Follower
from mcp_memory.stores.record_numbers import NONE, Flags, Numbers, RecordRows, groups, grown, held_against, numbers_of

# Cosines are taken by np.vecdot, not by `@`: BLAS would spread the product over all cores and wait for the busiest, and
# its last digits depend on where a row stands.
_LEAST_DEAD, _SHRINK_WHEN_DEAD = 256, 0.5
"""Removed rows, and their share of all, above which the others are moved together."""
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

    def __init__(self, follower: Follower, embedder: str, mismatch: Callable[[str, str], str]) -> None:
        self._follower = follower
        self._embedder = embedder
        self._mismatch = mismatch
        self._newest_erasure = 0
        self._shelves: dict[str, _ScopeMatrix] = {}
        self._rows = RecordRows()
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
            samples = [shelf.sample(vector) for shelf in self._on(scopes, vector)]
        rows = sum(size for _, size in samples)
        mean = square = 0.0
        for sample, size in samples:
            if size:
                cosines = sample.astype(np.float64)
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
            changed = [make_id(RECORD, number) for number, _ in islice(later, limit)]
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
            return [self._last_change(number, change) for number, change in later[:limit]]

    def _last_change(self, number: int, change: int) -> LastChange:
        scope = self._rows.scope_of(number)
        return LastChange(change, make_id(RECORD, number), scope, self._shelves[scope].live(number) if scope else None)

    def live_ids(self) -> Mapping[str, Sequence[str]]:
        """Return by scope the ids of its live records, as of the last `catch_up`."""
        with self._lock:
            return {scope: shelf.live_ids() for scope, shelf in self._shelves.items()}

    def live_vectors(self, scope: str, record_ids: Collection[str]) -> Mapping[str, Vectors]:
        """Return the vectors of the given records that are live in the scope."""
        with self._lock:
            if (shelf := self._shelves.get(scope)) is None:
                return {}
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
        with self._follower.reading(self) as revision:
            if (stored := self._follower.stored_embedder) not in (None, self._embedder):
                raise EmbedderMismatch(self._mismatch(stored, self._embedder))
            yield revision

    def follow(self, truth: ChangeFeed, since: int) -> None:
        with self._lock:
            if not since:
                self._shelves, self._rows, self._last = {}, RecordRows(), _LastChanges()
                self._load(truth)
                erased = np.array([*self._forget(truth, 0)], np.int64).reshape(-1, 2)
                self._last.load(erased[:, 1], erased[:, 0])
                return
            for change, number in sorted([*self._move(truth, since), *self._forget(truth, since)]):
                self._last.put(number, change)

    def _load(self, truth: ChangeFeed) -> None:
        records = {
            scope: count for each in truth.index_rows("scopes", 0) for scope, count in zip(*each.values(), strict=True)
        }
        for columns in truth.index_rows("vectors", 0, self._embedder):
            ids, scopes, changes, live, windows, vectors = columns.values()
            numbers, counts = numbers_of(ids), np.array(windows, np.int64)
            matrix = np.frombuffer(b"".join(vectors), np.float32).reshape(int(counts.sum()), -1)
            marks = np.fromiter((crc32(each.encode()) for each in ids), np.uint32, len(ids))
            loaded = _Vectors(numbers, marks, np.array(live, np.bool_), counts, matrix)
            for scope, some in groups(scopes).items():
                shelf = self._on_shelf(scope, matrix.shape[1])
                shelf.make_room(records[scope])  # Of all that come, if each has one window.
                shelf.append(loaded.taken(some))
            self._last.load(numbers, np.array(changes, np.int64))

    def _move(self, truth: ChangeFeed, since: int) -> Iterator[tuple[int, int]]:
        """Put what changed in its place; yield change and number of those that have vectors, or had some."""
        for columns in truth.index_rows("vectors", since, self._embedder):
            for row in zip(*columns.values(), strict=True):
                record_id, scope, change, is_live, windows, blob = row
                number = number_of(record_id)
                if windows:
                    vectors = np.frombuffer(blob, np.float32).reshape(windows, -1)
                    if self._rows.scope_of(number) != scope:
                        self._remove(number)
                    self._on_shelf(scope, vectors.shape[1]).put(number, vectors, bool(is_live))
                elif self._last.knows(number):
                    self._remove(number)
                else:
                    continue
                yield change, number

    def _forget(self, truth: ChangeFeed, since: int) -> Iterator[tuple[int, int]]:
        """Remove what was erased; yield change and number of each."""
        for columns in truth.index_rows("erasures", since):
            for record_id, change in zip(columns["id"], columns["change"], strict=True):
                number = number_of(record_id)
                self._remove(number)
                self._newest_erasure = max(self._newest_erasure, change)
                yield change, number

    def _remove(self, number: int) -> None:
        if (scope := self._rows.scope_of(number)) is not None:
            self._shelves[scope].remove(number)

    def _on_shelf(self, scope: str, dimensions: int) -> _ScopeMatrix:
        if scope not in self._shelves:  # Not setdefault: an empty shelf is costly, and most find theirs.
            self._shelves[scope] = _ScopeMatrix(dimensions, self._rows, self._rows.shelf(scope))
        return self._shelves[scope]


def best_first(found: Collection[tuple[str, float]], limit: int) -> dict[str, float]:
    """Return the best `limit` of ids and scores, ties by id."""
    return dict(sorted(found, key=lambda hit: (-hit[1], hit[0]))[:limit])


class _LastChanges:
    """The last change of each record that has had vectors since the index was loaded, or was erased."""

    def __init__(self) -> None:
        self._changes = np.zeros(0, np.int64)
        """By number; 0 for those that are not known."""
        self._loaded = 0
        """The newest change that was loaded."""
        self._since: dict[int, int] = {}
        """The later ones by number, in order of change."""

    def load(self, numbers: Numbers, changes: Numbers) -> None:
        self._changes = grown(self._changes, int(numbers.max(initial=0)) + 1)
        self._changes[numbers] = changes
        self._loaded = max(self._loaded, int(changes.max(initial=0)))

    def knows(self, number: int) -> bool:
        return number in self._since or (number < len(self._changes) and self._changes[number] > 0)

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
        for number in later[np.argsort(self._changes[later], kind="stable")[::-1]].tolist():
            if number not in self._since:
                yield number, int(self._changes[number])


class _Vectors(NamedTuple):
    """Vectors of some records, the windows of each in adjacent rows of the matrix; `marks` are digests of their ids."""

    numbers: Numbers
    marks: NDArray[np.uint32]
    live: Flags
    windows: Numbers
    matrix: Vectors

    def taken(self, some: Numbers) -> _Vectors:
        """Return those at these places, in ascending order."""
        if len(some) == len(self.numbers):
            return self
        rows = _each((np.cumsum(self.windows) - self.windows)[some], self.windows[some])
        taken = (self.numbers[some], self.marks[some], self.live[some], self.windows[some])
        return _Vectors(*taken, self.matrix[rows])


class _ScopeMatrix:
    """The vectors of one scope: a growing matrix, the record of each row, and a mask of live rows.

    The windows of a record have adjacent rows; `_windows` counts them at the first.
    """

    def __init__(self, dimensions: int, rows: RecordRows, shelf: int) -> None:
        self.dimensions = dimensions
        self._rows, self._shelf = rows, shelf
        self._size = self._dead = 0
        self._matrix = np.zeros((0, dimensions), np.float32)
        self._present = np.zeros(0, np.bool_)
        self._live = np.zeros(0, np.bool_)
        self._marks = np.zeros(0, np.uint32)
        self._numbers = np.zeros(0, np.int64)
        self._windows = np.zeros(0, np.int64)
        self._sample: tuple[Numbers, int] | None = None
        self._told: tuple[Vector, NDArray[np.float32]] | None = None
        """The query whose cosines with all rows were taken last, and these: a recall asks for some of them again."""

    def count_live(self) -> int:
        return int(np.count_nonzero(self._live[: self._size]))

    def append(self, loaded: _Vectors) -> None:
        """Add records that are on no shelf."""
        self._changed()
        end = self._size + len(loaded.matrix)
        self.make_room(end)
        rows, first = slice(self._size, end), self._size + np.cumsum(loaded.windows) - loaded.windows
        self._matrix[rows] = loaded.matrix
        self._present[rows] = True
        self._windows[first] = loaded.windows
        told = (self._live, loaded.live), (self._marks, loaded.marks), (self._numbers, loaded.numbers)
        for column, values in told:
            column[rows] = np.repeat(values, loaded.windows)
        self._rows.put(loaded.numbers, self._shelf, first)
        self._size = end

    def put(self, number: int, vectors: Vectors, is_live: bool) -> None:
        """Add or replace a record; unchanged vectors keep their rows, as most changes leave the text."""
        rows = self._of(number)
        if len(rows):
            if np.array_equal(self._matrix[rows], vectors):
                self._changed()
                self._live[rows] = is_live
                return
            self.remove(number)
        mark = np.array([crc32(make_id(RECORD, number).encode())], np.uint32)
        one, live = np.array([number], np.int64), np.array([is_live])
        self.append(_Vectors(one, mark, live, np.array([len(vectors)], np.int64), vectors))

    def remove(self, number: int) -> None:
        self._changed()
        rows = self._of(number)
        self._rows.remove(number)
        self._present[rows] = self._live[rows] = False
        self._matrix[rows] = 0
        self._dead += len(rows)
        if self._dead > max(_LEAST_DEAD, _SHRINK_WHEN_DEAD * self._size):
            self._close_gaps()

    def _close_gaps(self) -> None:
        """Move the rows of records together, sorted by number."""
        kept = np.flatnonzero(self._present[: self._size])
        kept = kept[np.argsort(self._numbers[kept], kind="stable")]
        numbers, first, windows = np.unique(self._numbers[kept], return_index=True, return_counts=True)
        rows = kept[first]
        vectors = _Vectors(numbers, self._marks[rows], self._live[rows], windows, self._matrix[kept])
        self.__dict__.update(_ScopeMatrix(self.dimensions, self._rows, self._shelf).__dict__)
        self.append(vectors)

    def search(
        self, vector: Vector, limit: int, only: RecordSet | None, exclude: Collection[str]
    ) -> list[tuple[str, float]]:
        """Return the best `limit` records by their best window."""
        counts = self._live if only is None else self._present & held_against(only, self._numbers)
        rows = np.flatnonzero(counts[: self._size])
        if len(rows) < _FEW * self._size:
            scores = np.vecdot(self._matrix[rows], vector)
        else:
            self._told = (vector, np.vecdot(self._matrix[: self._size], vector))
            scores = self._told[1][rows]
        return self._best(scores, rows, limit, frozenset(exclude))

    def nearest(self, vectors: Vectors, limit: int) -> Iterator[list[tuple[str, float]]]:
        """Yield for each of these vectors what `search` returns."""
        rows = np.flatnonzero(self._live[: self._size])
        for scores in self._cosines(vectors):
            yield self._best(scores[rows], rows, limit, frozenset())

    def similarities(self, vector: Vector, record_ids: Collection[str]) -> Iterator[tuple[str, float]]:
        """Yield the records on this shelf, whatever their status, with the cosines of their best windows."""
        first = self._rows.rows(record_ids, self._shelf)
        there = first != NONE
        if there.any():
            windows = self._windows[first[there]]
            scores = self._cosines_of(_each(first[there], windows), vector)
            best: list[float] = np.maximum.reduceat(scores, np.cumsum(windows) - windows).tolist()
            yield from zip(compress(record_ids, there.tolist()), best, strict=True)

    def rank(
        self, vector: Vector, limit: int, among: Collection[str], exclude: Collection[str]
    ) -> list[tuple[str, float]]:
        """Return the best `limit` of the named records that are live."""
        rows = self._rows_of(among)
        rows = rows[self._live[rows]]
        return self._best(np.vecdot(self._matrix[rows], vector), rows, limit, frozenset(exclude))

    def several_windows(self, record_ids: Sequence[str]) -> Iterator[tuple[str, int]]:
        """Yield those of the records on this shelf that have several vectors, and the number of them."""
        rows = self._rows.rows(record_ids, self._shelf)
        for place in np.flatnonzero(rows != NONE).tolist():
            if (windows := int(self._windows[rows[place]])) > 1:
                yield record_ids[place], windows

    def first_windows(self, record_ids: Collection[str]) -> dict[str, Vector]:
        """Return the first window of each record on this shelf."""
        rows = self._rows.rows(record_ids, self._shelf)
        found = [record_id for record_id, row in zip(record_ids, rows.tolist(), strict=True) if row != NONE]
        return dict(zip(found, self._matrix[rows[rows != NONE]], strict=True))

    def sample(self, vector: Vector) -> tuple[NDArray[np.float32], int]:
        """Return the cosines of some live windows, and the number of all; alike wherever the records are the same."""
        if self._sample is None:
            rows = np.flatnonzero(self._live[: self._size])
            # Chosen and ordered by a digest of the id, since row positions depend on the order of past changes.
            chosen = rows[np.argsort(self._marks[rows], kind="stable")[:_SAMPLE]]
            self._sample = (chosen, len(rows))
        return self._cosines_of(self._sample[0], vector), self._sample[1]

    def live(self, number: int) -> Vectors | None:
        """Return a copy of a live record's vectors."""
        rows = self._of(number)
        return self._matrix[rows] if len(rows) and self._live[rows[0]] else None

    def live_ids(self) -> list[str]:
        numbers: list[int] = np.unique(self._numbers[: self._size][self._live[: self._size]]).tolist()
        return [make_id(RECORD, number) for number in numbers]

    def _cosines_of(self, rows: Numbers, vector: Vector) -> NDArray[np.float32]:
        told = self._told
        return told[1][rows] if told and told[0] is vector else np.vecdot(self._matrix[rows], vector)

    def _changed(self) -> None:
        self._sample = self._told = None

    def _cosines(self, vectors: Vectors) -> NDArray[np.float32]:
        """Return the cosines of all rows: [vectors, rows]."""
        found = np.empty((len(vectors), self._size), np.float32)
        for start in range(0, self._size, _BLOCK):
            end = min(start + _BLOCK, self._size)
            np.vecdot(vectors[:, np.newaxis], self._matrix[start:end], out=found[:, start:end])
        return found

    def _of(self, number: int) -> Numbers:
        """Return every row of a record."""
        row = self._rows.row(number, self._shelf)
        windows = int(self._windows[row]) if row != NONE else 0
        return np.arange(row, row + windows, dtype=np.int64)

    def _rows_of(self, record_ids: Collection[str]) -> Numbers:
        """Return every row of the records on this shelf."""
        first = self._rows.rows(record_ids, self._shelf)
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

    def make_room(self, rows: int) -> None:
        """Make every column so long at least."""
        self._matrix = grown(self._matrix, rows)
        self._numbers, self._marks = grown(self._numbers, rows), grown(self._marks, rows)
        self._windows = grown(self._windows, rows)
        self._present, self._live = grown(self._present, rows), grown(self._live, rows)


def _each(first: Numbers, windows: Numbers) -> Numbers:
    """Return the row of every window, given the first row of each record and the number of its windows."""
    before = np.cumsum(windows) - windows
    return np.repeat(first - before, windows) + np.arange(windows.sum(), dtype=np.int64)
