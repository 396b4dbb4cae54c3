"""The vectors of one scope in a matrix, and the exact cosines of its rows."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from itertools import compress, islice
from typing import NamedTuple
from zlib import crc32

import numpy as np
from numpy.typing import NDArray

from mcp_memory.domain.model.ids import RECORD, RecordSet, make_id
from mcp_memory.domain.retrieval.queries import Vector
from mcp_memory.ports.text import Vectors
from mcp_memory.stores.record_numbers import NONE, Flags, Numbers, RecordRows, grown, held_against

# Cosines are taken by np.vecdot, not by `@`: BLAS would spread the product over all cores and wait for the busiest, and
# its last digits depend on where a row stands.
_LEAST_DEAD, _SHRINK_WHEN_DEAD = 256, 0.5
"""Removed rows, and their share of all, above which the others are moved together."""
_FEW = 0.25
"""Up to this share of the rows, copying them out is quicker than taking the cosines of all."""
BLOCK = 512
"""Rows whose cosines with many vectors are taken together: they stay in the processor's cache meanwhile."""
_SAMPLE = 2_048
"""Windows sampled for the usual cosine: their mean is within 1/50 of a standard deviation of the mean of all."""


class SomeVectors(NamedTuple):
    """Vectors of some records, the windows of each in adjacent rows of the matrix; `marks` are digests of their ids."""

    numbers: Numbers
    marks: NDArray[np.uint32]
    live: Flags
    windows: Numbers
    matrix: Vectors

    def taken(self, some: Numbers) -> SomeVectors:
        """Return those at these places, in ascending order."""
        if len(some) == len(self.numbers):
            return self
        rows = _each((np.cumsum(self.windows) - self.windows)[some], self.windows[some])
        taken = (self.numbers[some], self.marks[some], self.live[some], self.windows[some])
        return SomeVectors(*taken, self.matrix[rows])


class ScopeMatrix:
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

    @property
    def bytes(self) -> int:
        """The memory that it takes, without the cosines that were taken last."""
        columns = (self._matrix, self._present, self._live, self._marks, self._numbers, self._windows)
        return sum(column.nbytes for column in columns)

    def count_live(self) -> int:
        return int(np.count_nonzero(self._live[: self._size]))

    def append(self, loaded: SomeVectors) -> None:
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
        self.append(SomeVectors(one, mark, live, np.array([len(vectors)], np.int64), vectors))

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
        vectors = SomeVectors(numbers, self._marks[rows], self._live[rows], windows, self._matrix[kept])
        self.__dict__.update(ScopeMatrix(self.dimensions, self._rows, self._shelf).__dict__)
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
        for start in range(0, self._size, BLOCK):
            end = min(start + BLOCK, self._size)
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
