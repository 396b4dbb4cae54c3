"""Postings of one scope's texts: maps terms to rows, and rows to records. Knows no formula.

A posting is one number made of the term's number and the row (32 bits each), so that in sorted postings one term is a
slice. Nearly all are in a large `body`, the newest in a small `tail`, so that one more record does not sort everything.
Dialogue turns also know the rows of the turns before and after them in their session.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Collection, Mapping, Sequence
from itertools import repeat

import numpy as np
from numpy.typing import NDArray

from mcp_memory.domain.model.ids import RecordSet, number_of
from mcp_memory.ports.changes import RecordChange
from mcp_memory.stores.filters import held_against

_PACKED_TERM = np.dtype([("number", "<u4"), ("count", "u1")])
_TERM_SHIFT, _ROW_MASK = np.uint64(32), np.uint64(0xFFFF_FFFF)
_NONE = -1  # no neighbouring row
_LEAST_TAIL = 16_384  # postings; a shorter tail never joins the body
_TAIL_SHARE = 64
"""The tail joins the body at a 64th of its length, which keeps both look-ups and updates fast."""
_LEAST_GONE = 256  # empty rows; fewer are never squeezed out
_GONE = np.iinfo(np.int64).max
"""The number of a row without a record, which is in no set."""

Postings = NDArray[np.uint64]
Rows = NDArray[np.intp]
Scores = NDArray[np.float64]


class Shelf:
    """The texts of one scope. A row whose record was removed or changed is empty until `_squeeze` closes the gap."""

    def __init__(self) -> None:
        self._body: Postings = np.zeros(0, np.uint64)
        self._tail: Postings = np.zeros(0, np.uint64)
        self._ids: list[str] = []
        self._rows: dict[str, int] = {}
        self._live = np.zeros(0, np.bool_)
        self._prints = np.zeros(0, np.int64)
        self._numbers = np.zeros(0, np.int64)
        self._before = np.zeros(0, np.intp)
        self._after = np.zeros(0, np.intp)
        self._session_of: dict[str, str] = {}
        self._turns: dict[str, list[str]] = {}
        self.lengths = np.zeros(0, np.int64)
        self.live_records = 0
        self.live_length = 0

    def put(self, changes: Sequence[RecordChange]) -> None:
        """Add records or replace them; one with unchanged terms keeps its row, because most changes leave the text."""
        new: list[RecordChange] = []
        for change in changes:
            row = self._rows.get(change.id)
            if row is not None and self._prints[row] == hash(change.terms):
                self._set_live(row, change.is_live)
                continue
            if row is not None:
                self.remove(change.id)
            new.append(change)
        if new:
            self._append(new)

    def remove(self, record_id: str) -> None:
        self._set_live(self._rows[record_id], False)
        self._numbers[self._rows[record_id]] = _GONE
        self._leave_session(record_id)
        del self._rows[record_id]
        if len(self._ids) - len(self._rows) > max(_LEAST_GONE, len(self._rows)):
            self._squeeze()

    def find(self, number: int) -> Rows:
        """Return the rows that have the term of this number, each once, in no order."""
        low = np.uint64(number) << _TERM_SHIFT
        parts = (self._body, self._tail)
        slices = [part[part.searchsorted(low) : part.searchsorted(low | _ROW_MASK, side="right")] for part in parts]
        return _rows_of(np.concatenate(slices))

    def count_live(self, rows: Rows) -> int:
        return int(np.count_nonzero(self._live[rows]))

    def live_ids(self, rows: Rows) -> list[str]:
        """Return the ids of the live records in these rows."""
        return [self._ids[row] for row in _plain(rows[self._live[rows]])]

    def heard(self, unread: Collection[str]) -> NDArray[np.bool_]:
        """Return for each row True where neighbours may borrow its words: it is live, and not `unread`."""
        if not unread:
            return self._live
        heard = self._live.copy()
        heard[self.rows_with(unread)] = False
        return heard

    def read_on(self, rows: Rows, values: Scores, share: float, heard: NDArray[np.bool_]) -> Scores:
        """Return for every row its own value, or that share of a neighbouring turn's value, if that is more.

        `values` (>= 0) belong to `rows`, all others have 0; only turns in rows that are `heard` share theirs.
        """
        spread = np.zeros(len(self._ids))
        for beside in (self._before, self._after):
            there = beside[rows]
            reaches = (there != _NONE) & heard[rows]
            spread[there[reaches]] = np.maximum(spread[there[reaches]], share * values[reaches])
        spread[rows] = np.maximum(spread[rows], values)
        return spread

    def beside(self, record_ids: Sequence[str]) -> Mapping[str, Sequence[str]]:
        """Return each dialogue turn's live neighbours directly before and after it; turns without any are left out."""
        rows = np.array([self._rows[record_id] for record_id in record_ids], np.intp)
        near = np.stack([self._before[rows], self._after[rows]], axis=1)
        near[~self._live[near]] = _NONE
        some = np.flatnonzero((near != _NONE).any(axis=1))
        pairs: list[list[int]] = near[some].tolist()
        found = zip(_plain(some), pairs, strict=True)
        return {record_ids[place]: [self._ids[row] for row in pair if row != _NONE] for place, pair in found}

    def within(self, only: RecordSet | None, exclude: Collection[str]) -> Rows:
        """Return the rows of live records or, with `only`, of exactly those."""
        counts = self._live.copy() if only is None else held_against(only, self._numbers)
        counts[self.rows_with(exclude)] = False
        return np.flatnonzero(counts)

    def rows_with(self, record_ids: Collection[str]) -> Rows:
        """Return the rows of the known records among these, each once."""
        found = np.fromiter(map(self._rows.get, record_ids, repeat(_NONE)), np.intp, len(record_ids))
        return np.unique(found[found != _NONE])

    def best(self, scores: Scores, limit: int, rows: Rows) -> list[tuple[str, float]]:
        """Return at most `limit` records with the highest scores above 0 (one score a row), ties by newest."""
        rows = rows[scores[rows] > 0]
        found = scores[rows]
        # Equal scores are common where texts are alike: the newest of those at the limit are chosen afterwards.
        least = np.partition(found, -limit)[-limit] if 0 < limit < len(found) else -np.inf
        best = [(self._ids[row], float(scores[row])) for row in _plain(rows[found > least])]
        tied = sorted((self._ids[row] for row in _plain(rows[found == least])), reverse=True)
        return best + [(record_id, float(least)) for record_id in tied[: limit - len(best)]]

    def _set_live(self, row: int, is_live: bool) -> None:
        difference = int(is_live) - int(self._live[row])
        self.live_records += difference
        self.live_length += difference * int(self.lengths[row])
        self._live[row] = is_live

    def _append(self, new: Sequence[RecordChange]) -> None:
        """Give each record the next row, in a few operations on whole arrays."""
        blobs = [change.terms or b"" for change in new]
        terms = np.frombuffer(b"".join(blobs), _PACKED_TERM)
        owner = np.repeat(np.arange(len(new)), [len(blob) // _PACKED_TERM.itemsize for blob in blobs])
        lengths = np.bincount(owner, terms["count"], len(new)).astype(np.int64)
        live = np.array([change.is_live for change in new], np.bool_)
        rows = (owner + len(self._ids)).astype(np.uint64)
        self._file(terms["number"].astype(np.uint64) << _TERM_SHIFT | rows)
        self._rows.update((change.id, row) for row, change in enumerate(new, len(self._ids)))
        self._ids += [change.id for change in new]
        self._live = np.concatenate([self._live, live])
        self._prints = np.concatenate([self._prints, np.array([hash(blob) for blob in blobs], np.int64)])
        self._numbers = np.concatenate([self._numbers, np.array([number_of(change.id) for change in new], np.int64)])
        self.lengths = np.concatenate([self.lengths, lengths])
        self.live_records += int(np.count_nonzero(live))
        self.live_length += int(lengths[live].sum())
        alone = np.full(len(new), _NONE, np.intp)
        self._before, self._after = np.concatenate([self._before, alone]), np.concatenate([self._after, alone])
        for change in new:
            if change.is_turn and change.session_id is not None:
                self._join_session(change.id, change.session_id)

    def _join_session(self, record_id: str, session: str) -> None:
        """Insert a turn between its neighbours; ids sort by time."""
        turns = self._turns.setdefault(session, [])
        insort(turns, record_id)
        self._session_of[record_id] = session
        place = bisect_left(turns, record_id)
        row = self._rows[record_id]
        if place > 0:
            self._link(self._rows[turns[place - 1]], row)
        if place + 1 < len(turns):
            self._link(row, self._rows[turns[place + 1]])

    def _leave_session(self, record_id: str) -> None:
        """Remove a turn; its neighbours are adjacent now."""
        session = self._session_of.pop(record_id, None)
        if session is None:
            return
        turns = self._turns[session]
        del turns[bisect_left(turns, record_id)]
        if not turns:
            del self._turns[session]
        row = self._rows[record_id]
        self._link(int(self._before[row]), int(self._after[row]))
        self._before[row] = self._after[row] = _NONE

    def _link(self, before: int, after: int) -> None:
        """Link two adjacent rows; either may be none."""
        if before != _NONE:
            self._after[before] = after
        if after != _NONE:
            self._before[after] = before

    def _file(self, new: Postings) -> None:
        """Sort postings into the tail, and the tail into the body where it has grown long."""
        self._tail = _merged(self._tail, np.sort(new))
        if len(self._tail) > max(_LEAST_TAIL, len(self._body) // _TAIL_SHARE):
            self._body, self._tail = _merged(self._body, self._tail), self._tail[:0]

    def _squeeze(self) -> None:
        """Close the gaps between the rows that hold a record; the order of rows, hence of postings, stays."""
        kept = np.array(sorted(self._rows.values()), np.intp)
        place = np.full(len(self._ids), -1, np.int64)
        place[kept] = np.arange(len(kept))
        postings = _merged(self._body, self._tail)
        postings = postings[place[_rows_of(postings)] >= 0]
        rows = place[_rows_of(postings)].astype(np.uint64)
        self._body = postings & ~_ROW_MASK | rows
        self._tail = self._tail[:0]
        self._ids = [self._ids[row] for row in kept.tolist()]
        self._rows = {record_id: row for row, record_id in enumerate(self._ids)}
        self._live, self._prints, self.lengths = self._live[kept], self._prints[kept], self.lengths[kept]
        self._numbers = self._numbers[kept]
        place = np.append(place, _NONE)  # so that none stays none
        self._before, self._after = place[self._before[kept]], place[self._after[kept]]


def _rows_of(postings: Postings) -> Rows:
    return (postings & _ROW_MASK).astype(np.intp)


def _plain(rows: Rows) -> list[int]:
    return rows.tolist()


def _merged(one: Postings, other: Postings) -> Postings:
    """Merge two sorted arrays; the stable sort handles such runs in linear time."""
    both = np.concatenate([one, other])
    both.sort(kind="stable")
    return both
