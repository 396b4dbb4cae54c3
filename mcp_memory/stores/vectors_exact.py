"""Exact search over the truth's vectors, held in memory and kept current by the change sequence. No index to trust."""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from mcp_memory.domain.queries import Vector
from mcp_memory.errors import EmbedderMismatch
from mcp_memory.ports import RecordStore, VectorChange, Vectors

_FIRST_CAPACITY = 256
_SHRINK_WHEN_DEAD = 0.5


class ExactVectorStore:
    """Implements `VectorStore` by one matrix product per scope: recall of 1.0 by construction."""

    def __init__(self, records: RecordStore, embedder: str, mismatch: Callable[[str, str], str]) -> None:
        self._records = records
        self._embedder = embedder
        self._mismatch = mismatch
        self._applied = 0
        self._shelves: dict[str, _Shelf] = {}
        self._scope_of: dict[str, str] = {}
        self._lock = threading.Lock()

    def search(
        self,
        vector: Vector,
        scopes: Sequence[str],
        limit: int,
        only: Collection[str] | None = None,
        exclude: Collection[str] = (),
    ) -> Mapping[str, float]:
        with self._lock:
            self._catch_up()
            found = [
                hit
                for scope in scopes
                if scope in self._shelves
                for hit in self._shelves[scope].search(vector, limit, only, exclude)
            ]
        return dict(sorted(found, key=lambda hit: (-hit[1], hit[0]))[:limit])

    def similarities(self, vector: Vector, scopes: Sequence[str], record_ids: Collection[str]) -> Mapping[str, float]:
        return self.search(vector, scopes, len(record_ids), only=record_ids) if record_ids else {}

    def _catch_up(self) -> None:
        """Apply what was committed since the last call, by whichever process."""
        if self._records.revision() == self._applied:
            return
        stored = self._records.embedder_id()
        if stored not in (None, self._embedder):
            raise EmbedderMismatch(self._mismatch(stored, self._embedder))
        applied = self._applied
        for change in self._records.vector_changes(self._applied, self._embedder):
            applied = max(applied, change.change)
            self._apply(change)
        self._applied = applied

    def _apply(self, change: VectorChange) -> None:
        old_scope = self._scope_of.get(change.id)
        if old_scope is not None and (change.vectors is None or old_scope != change.scope):
            self._shelves[old_scope].remove(change.id)
            del self._scope_of[change.id]
        if change.vectors is not None:
            shelf = self._shelves.setdefault(change.scope, _Shelf(change.vectors.shape[1]))
            shelf.put(change.id, change.vectors, change.is_live)
            self._scope_of[change.id] = change.scope


class _Shelf:
    """The vectors of one scope: a growing matrix, the record of each row, and which rows count."""

    def __init__(self, dimensions: int) -> None:
        self._matrix = np.zeros((_FIRST_CAPACITY, dimensions), np.float32)
        self._owner = np.zeros(_FIRST_CAPACITY, np.int64)
        self._present = np.zeros(_FIRST_CAPACITY, np.bool_)
        self._live = np.zeros(_FIRST_CAPACITY, np.bool_)
        self._ids: list[str] = []
        self._rows: dict[str, tuple[int, int]] = {}
        self._size = 0
        self._dead = 0

    def put(self, record_id: str, vectors: Vectors, is_live: bool) -> None:
        """Add a record or replace it; one whose vectors are the same keeps its rows, as most changes leave the text."""
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
        self._present[rows] = True
        self._live[rows] = is_live
        self._ids.append(record_id)
        self._rows[record_id] = (rows.start, rows.stop)
        self._size = rows.stop

    def remove(self, record_id: str) -> None:
        rows = slice(*self._rows.pop(record_id))
        self._present[rows] = self._live[rows] = False
        self._matrix[rows] = 0
        self._dead += rows.stop - rows.start
        if self._dead > max(_FIRST_CAPACITY, _SHRINK_WHEN_DEAD * self._size):
            self._squeeze()

    def search(
        self, vector: Vector, limit: int, only: Collection[str] | None, exclude: Collection[str]
    ) -> list[tuple[str, float]]:
        """The best `limit` records by their best window."""
        if only is not None:
            spans = [self._rows[record_id] for record_id in only if record_id in self._rows]
            rows = np.concatenate([np.arange(*span) for span in spans]) if spans else np.zeros(0, np.int64)
            scores = self._matrix[rows] @ vector
        else:
            # Every row is scored, then those that do not count are dropped: copying the others out takes far longer.
            rows = np.flatnonzero(self._live[: self._size])
            scores = (self._matrix[: self._size] @ vector)[rows]
        return self._best(scores, rows, limit, frozenset(exclude))

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
            self._matrix = np.vstack([self._matrix, np.zeros((grow, self._matrix.shape[1]), np.float32)])
            self._owner = np.concatenate([self._owner, np.zeros(grow, np.int64)])
            self._present = np.concatenate([self._present, np.zeros(grow, np.bool_)])
            self._live = np.concatenate([self._live, np.zeros(grow, np.bool_)])

    def _squeeze(self) -> None:
        """Rewrite the shelf without its removed rows."""
        keep = np.flatnonzero(self._present[: self._size])
        self._matrix[: len(keep)] = self._matrix[keep]
        self._live[: len(keep)] = self._live[keep]
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
