"""Exact search over the truth's vectors, held in memory and kept current by the change sequence. No approximation."""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import takewhile
from typing import NamedTuple
from zlib import crc32

import numpy as np
from numpy.typing import NDArray

from mcp_memory.domain.model.ids import RecordSet, number_of
from mcp_memory.domain.retrieval.queries import Vector
from mcp_memory.errors import EmbedderMismatch
from mcp_memory.ports.changes import RecordChange, TaskLink
from mcp_memory.ports.retrieval import UsualCosine
from mcp_memory.ports.text import Vectors
from mcp_memory.stores.filters import grown, held_against
from mcp_memory.stores.follower import Follower

_FIRST_CAPACITY = 256
# Cosines are taken by np.vecdot, not by `@`: BLAS would spread the product over all cores and wait for the busiest, and
# its last digits depend on where a row stands.
_SHRINK_WHEN_DEAD = 0.5
_FEW = 0.25
"""Up to this share of the rows, copying them out is quicker than taking the cosines of all."""
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
        self._shelves: dict[str, _Shelf] = {}
        self._last: dict[str, tuple[int, str | None]] = {}
        """The last change of every record and its scope, None where it was erased; in order of change."""
        self._lock = threading.Lock()
        """Held while changes are applied, and by reads outside of a request."""

    @property
    def newest_erasure(self) -> int:
        """The change number of the newest erasure known so far; 0 where nothing was ever erased."""
        return self._newest_erasure

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
            found = [hit for shelf in self._on(scopes, vector) for hit in shelf.similarities(vector, record_ids)]
        return dict(found)

    def windows(self, scopes: Sequence[str], record_ids: Collection[str]) -> Mapping[str, int]:
        with self._reading():
            shelves = [self._shelves[scope] for scope in scopes if scope in self._shelves]
            return {i: count for shelf in shelves for i, count in shelf.windows(record_ids) if count > 1}

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
            changed: list[str] = []
            for record_id, (last, _) in reversed(self._last.items()):
                if last <= change:
                    return changed
                if len(changed) == limit:
                    return None
                changed.append(record_id)
            return changed

    def changes(self, since: int, limit: int) -> Sequence[LastChange]:
        """Return the last changes of the records that changed after `since`: the first `limit`, in order of change.

        It returns more than `limit` where one change touched many records, so that the last number marks the progress.
        """
        with self._lock:
            later = list(takewhile(lambda item: item[1][0] > since, reversed(self._last.items())))
            later.reverse()
            while limit < len(later) and later[limit][1][0] == later[limit - 1][1][0]:
                limit += 1
            return [
                LastChange(change, record_id, scope, self._shelves[scope].live(record_id) if scope else None)
                for record_id, (change, scope) in later[:limit]
            ]

    def live_ids(self) -> Mapping[str, Sequence[str]]:
        """Return by scope the ids of its live records, as of the last `catch_up`."""
        with self._lock:
            return {scope: shelf.live_ids() for scope, shelf in self._shelves.items()}

    def live_vectors(self, scope: str, record_ids: Collection[str]) -> Mapping[str, Vectors]:
        """Return the vectors of the given records that are live in the scope."""
        with self._lock:
            shelf = self._shelves[scope]
            found = {record_id: shelf.live(record_id) for record_id in record_ids}
        return {record_id: vectors for record_id, vectors in found.items() if vectors is not None}

    def size(self, scope: str) -> int:
        """Return the number of live vectors in the scope, as of the last `catch_up`."""
        with self._lock:
            return self._shelves[scope].count_live() if scope in self._shelves else 0

    def _on(self, scopes: Sequence[str], vector: Vector) -> list[_Shelf]:
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
                if change.vectors is not None or change.is_erased or change.id in self._last:
                    self._apply(change)

    def _apply(self, change: RecordChange) -> None:
        _, old_scope = self._last.pop(change.id, (0, None))
        if old_scope is not None and (change.vectors is None or old_scope != change.scope):
            self._shelves[old_scope].remove(change.id)
        if change.vectors is not None:
            if change.scope not in self._shelves:  # Not setdefault: an empty shelf is costly, and most find theirs.
                self._shelves[change.scope] = _Shelf(change.vectors.shape[1])
            self._shelves[change.scope].put(change.id, change.vectors, change.is_live)
        if change.is_erased:
            self._newest_erasure = max(self._newest_erasure, change.change)
        self._last[change.id] = (change.change, None if change.vectors is None else change.scope)


def best_first(found: Collection[tuple[str, float]], limit: int) -> dict[str, float]:
    """Return the best `limit` of ids and scores, ties by id."""
    return dict(sorted(found, key=lambda hit: (-hit[1], hit[0]))[:limit])


class _Shelf:
    """The vectors of one scope: a growing matrix, the record of each row, and a mask of live rows."""

    def __init__(self, dimensions: int) -> None:
        self.dimensions = dimensions
        self._matrix = np.zeros((_FIRST_CAPACITY, dimensions), np.float32)
        self._owner = np.zeros(_FIRST_CAPACITY, np.int64)
        self._present = np.zeros(_FIRST_CAPACITY, np.bool_)
        self._live = np.zeros(_FIRST_CAPACITY, np.bool_)
        self._marks = np.zeros(_FIRST_CAPACITY, np.uint32)
        self._numbers = np.zeros(_FIRST_CAPACITY, np.int64)
        self._ids: list[str] = []
        self._rows: dict[str, tuple[int, int]] = {}
        self._size = 0
        self._dead = 0
        self._sample: tuple[Vectors, int] | None = None

    def count_live(self) -> int:
        return int(np.count_nonzero(self._live[: self._size]))

    def put(self, record_id: str, vectors: Vectors, is_live: bool) -> None:
        """Add or replace a record; unchanged vectors keep their rows, as most changes leave the text."""
        self._sample = None
        if record_id in self._rows:
            rows = slice(*self._rows[record_id])
            if np.array_equal(self._matrix[rows], vectors):
                self._live[rows] = is_live
                return
            self.remove(record_id)
        self._make_room(len(vectors))
        rows = slice(self._size, self._size + len(vectors))
        self._matrix[rows] = vectors
        self._owner[rows] = len(self._ids)
        self._marks[rows] = crc32(record_id.encode())
        self._numbers[rows] = number_of(record_id)
        self._present[rows] = True
        self._live[rows] = is_live
        self._ids.append(record_id)
        self._rows[record_id] = (rows.start, rows.stop)
        self._size = rows.stop

    def remove(self, record_id: str) -> None:
        self._sample = None
        rows = slice(*self._rows.pop(record_id))
        self._present[rows] = self._live[rows] = False
        self._matrix[rows] = 0
        self._dead += rows.stop - rows.start
        if self._dead > max(_FIRST_CAPACITY, _SHRINK_WHEN_DEAD * self._size):
            self._squeeze()

    def search(
        self, vector: Vector, limit: int, only: RecordSet | None, exclude: Collection[str]
    ) -> list[tuple[str, float]]:
        """Return the best `limit` records by their best window."""
        counts = self._live if only is None else self._present & held_against(only, self._numbers)
        rows = np.flatnonzero(counts[: self._size])
        if len(rows) < _FEW * self._size:
            scores = np.vecdot(self._matrix[rows], vector)
        else:
            scores = np.vecdot(self._matrix[: self._size], vector)[rows]
        return self._best(scores, rows, limit, frozenset(exclude))

    def similarities(self, vector: Vector, record_ids: Collection[str]) -> list[tuple[str, float]]:
        """Return the cosines of the records on this shelf, whatever their status."""
        rows = self._rows_of(record_ids)
        return self._best(np.vecdot(self._matrix[rows], vector), rows, len(record_ids), frozenset())

    def rank(
        self, vector: Vector, limit: int, among: Collection[str], exclude: Collection[str]
    ) -> list[tuple[str, float]]:
        """Return the best `limit` of the named records that are live."""
        rows = self._rows_of(among)
        rows = rows[self._live[rows]]
        return self._best(np.vecdot(self._matrix[rows], vector), rows, limit, frozenset(exclude))

    def windows(self, record_ids: Collection[str]) -> Iterator[tuple[str, int]]:
        """Yield the records on this shelf, and the number of vectors of each."""
        for record_id in record_ids:
            if (rows := self._rows.get(record_id)) is not None:
                yield record_id, rows[1] - rows[0]

    def first_windows(self, record_ids: Collection[str]) -> dict[str, Vector]:
        """Return the first window of each record on this shelf."""
        return {i: self._matrix[self._rows[i][0]].copy() for i in record_ids if i in self._rows}

    def sample(self) -> tuple[Vectors, int]:
        """Return some live windows, and the number of all; the same in every process with the same records."""
        if self._sample is None:
            rows = np.flatnonzero(self._live[: self._size])
            # Chosen and ordered by a digest of the id, since row positions depend on the order of past changes.
            chosen = rows[np.argsort(self._marks[rows], kind="stable")[:_SAMPLE]]
            self._sample = (self._matrix[chosen], len(rows))
        return self._sample

    def live(self, record_id: str) -> Vectors | None:
        """Return a copy of a live record's vectors."""
        first, last = self._rows.get(record_id, (0, 0))
        return self._matrix[first:last].copy() if first < last and self._live[first] else None

    def live_ids(self) -> list[str]:
        return [record_id for record_id, (first, _) in self._rows.items() if self._live[first]]

    def _rows_of(self, record_ids: Collection[str]) -> NDArray[np.int64]:
        """Return every row of the records on this shelf."""
        spans = [self._rows[record_id] for record_id in record_ids if record_id in self._rows]
        if not spans:
            return np.zeros(0, np.int64)
        first, last = np.array(spans, np.int64).T
        windows = last - first
        before = np.cumsum(windows) - windows
        return np.repeat(first - before, windows) + np.arange(windows.sum(), dtype=np.int64)

    def _best(
        self, scores: NDArray[np.float32], rows: NDArray[np.int64], limit: int, exclude: frozenset[str]
    ) -> list[tuple[str, float]]:
        """Take ever more of the best rows until enough distinct records are among them."""
        wanted = limit + len(exclude)
        take = wanted
        while True:
            take = min(take * 2, len(scores))
            top = np.argpartition(-scores, take - 1)[:take] if 0 < take < len(scores) else np.arange(len(scores))
            top = top[np.argsort(-scores[top], kind="stable")]
            best: dict[str, float] = {}
            for position in top:
                best.setdefault(self._ids[self._owner[rows[position]]], float(scores[position]))
            if len(best) >= wanted or take >= len(scores):
                return [hit for hit in best.items() if hit[0] not in exclude][:limit]

    def _make_room(self, count: int) -> None:
        """Double the capacity as often as needed for that many more rows."""
        grow = max(len(self._matrix), self._size + count - len(self._matrix))
        if self._size + count > len(self._matrix):
            self._matrix, self._marks = grown(self._matrix, grow), grown(self._marks, grow)
            self._owner, self._numbers = grown(self._owner, grow), grown(self._numbers, grow)
            self._present, self._live = grown(self._present, grow), grown(self._live, grow)

    def _squeeze(self) -> None:
        """Rewrite the shelf without its removed rows."""
        keep = np.flatnonzero(self._present[: self._size])
        for column in (self._matrix, self._live, self._marks, self._numbers):
            column[: len(keep)] = column[keep]
        self._present[:] = False
        self._present[: len(keep)] = True
        ordered = sorted(self._rows.items(), key=lambda item: item[1][0])
        self._ids, self._rows, start = [], {}, 0
        for record_id, (first, last) in ordered:
            end = start + last - first
            self._owner[start:end] = len(self._ids)
            self._ids.append(record_id)
            self._rows[record_id] = (start, end)
            start = end
        self._size, self._dead = start, 0
