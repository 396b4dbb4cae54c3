"""Postings of one scope's texts: maps terms to rows, and rows to records. Knows no formula.

A posting is one number made of the term's number and the row (32 bits each), so that in sorted postings one term is a
slice. Nearly all are in a large `body`, the newest in a small `tail`, so that one more record does not sort everything.
Dialogue turns also know the rows of the turns before and after them in their session.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from functools import partial, reduce
from itertools import compress
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from mcp_memory.domain.model.ids import RECORD, RecordSet, make_id
from mcp_memory.stores.record_numbers import NONE, RecordRows, held_against, run_starts

_PACKED_TERM = np.dtype([("number", "<u4"), ("count", "u1")])
_TERM_SHIFT, _ROW_MASK = np.uint64(32), np.uint64(0xFFFF_FFFF)
_LEAST_TAIL = 16_384  # postings; a shorter tail never joins the body
_TAIL_SHARE = 64
"""The tail joins the body at a 64th of its length, which keeps both look-ups and updates fast."""
_MANY = 20
"""A word that is in one row of so many, or more, is added up over all rows at once."""
_LEAST_GONE = 256  # empty rows; fewer are never squeezed out
_GONE = np.iinfo(np.int64).max
"""The number of a row without a record, which is in no set."""
_NO_SESSION = -1
_ENTRY_BYTES = 100
"""Bytes of a session, and of a turn in a list, about."""

Postings = NDArray[np.uint64]
Rows = NDArray[np.intp]
_NO_ROWS: Rows = np.zeros(0, np.intp)
Scores = NDArray[np.float64]


class NewText(NamedTuple):
    """A record's number, and its words as `domain.text.words.packed_terms` has them; of a turn, the session."""

    number: int
    is_live: bool
    terms: bytes
    session: str | None


class ScopePostings:
    """The texts of one scope. A row whose record was removed or changed is empty until the gaps are closed."""

    def __init__(self, rows: RecordRows, shelf: int) -> None:
        self._rows, self._shelf = rows, shelf
        self._body: Postings = np.zeros(0, np.uint64)
        self._tail: Postings = np.zeros(0, np.uint64)
        self._gone = 0
        """Rows without a record."""
        self._live = np.zeros(0, np.bool_)
        self._prints = np.zeros(0, np.int64)
        self._numbers = np.zeros(0, np.int64)
        self._before = np.zeros(0, np.intp)
        self._after = np.zeros(0, np.intp)
        self._sessions = np.zeros(0, np.int32)
        """The place of a turn's session in `_session_places`."""
        self._session_places: dict[str, int] = {}
        self._turns: dict[int, list[int]] = {}
        """The numbers of a session's turns, sorted, where they were needed already."""
        self.lengths = np.zeros(0, np.int64)
        self.live_records = 0
        self.live_length = 0

    @property
    def bytes(self) -> int:
        """The memory that it takes, about."""
        postings = self._body.nbytes + self._tail.nbytes
        columns = (self._live, self._prints, self._numbers, self._before, self._after, self._sessions, self.lengths)
        turns = sum(map(len, self._turns.values()))
        return postings + sum(column.nbytes for column in columns) + _ENTRY_BYTES * (len(self._session_places) + turns)

    def put(self, texts: Sequence[NewText]) -> None:
        """Add records or replace them; one with unchanged terms keeps its row, because most changes leave the text."""
        new: list[NewText] = []
        for text in texts:
            if (row := self._rows.row(text.number, self._shelf)) != NONE:
                if self._prints[row] == hash(text.terms):
                    self._set_live(row, text.is_live)
                    continue
                self.remove(text.number)
            new.append(text)
        if new:
            self.append(new)

    def remove(self, number: int) -> None:
        row = self._rows.row(number, self._shelf)
        self._set_live(row, False)
        self._leave_session(row, number)
        self._numbers[row] = _GONE
        self._rows.remove(number)
        self._gone += 1
        if self._gone > max(_LEAST_GONE, len(self._numbers) - self._gone):
            self._close_gaps()

    def _close_gaps(self) -> None:
        """Drop empty rows and their postings, and sort the others by number."""
        kept = np.flatnonzero(self._numbers != _GONE)
        kept = kept[np.argsort(self._numbers[kept])]
        place = np.full(len(self._live) + 1, NONE, np.int64)  # The last one: none stays none.
        place[kept] = np.arange(len(kept))
        postings = _merged(self._body, self._tail)
        rows = place[_rows_of(postings)]
        postings = (postings & ~_ROW_MASK | rows.astype(np.uint64))[rows != NONE]
        postings.sort(kind="stable")
        self._body, self._tail, self._gone = postings, postings[:0], 0
        self._before, self._after = place[self._before[kept]], place[self._after[kept]]
        self._live, self._prints, self.lengths = self._live[kept], self._prints[kept], self.lengths[kept]
        self._numbers, self._sessions = self._numbers[kept], self._sessions[kept]
        self._rows.put(self._numbers, self._shelf, np.arange(len(kept)))

    def find(self, numbers: Sequence[int]) -> Rows:
        """Return the rows that have a term of one of these numbers, each once, in no order."""
        low = np.array(numbers, np.uint64) << _TERM_SHIFT
        slices: list[Postings] = []
        held = set[int]()
        for part in filter(len, (self._body, self._tail)):
            ends = zip(
                part.searchsorted(low).tolist(),
                part.searchsorted(low | _ROW_MASK, side="right").tolist(),
                numbers,
                strict=True,
            )
            for begin, end, number in ends:
                if begin < end:
                    slices.append(part[begin:end])
                    held.add(number)
        if not slices:
            return _NO_ROWS
        rows = _rows_of(np.concatenate(slices))
        return np.unique(rows) if len(held) > 1 else rows  # A text in two languages may say a word in both.

    def holding(self, words: Iterable[Sequence[int]], only: RecordSet) -> Rows:
        """Return the rows of the records in `only` that have a term of each word."""
        found = [self.find(numbers) for numbers in words]
        rows = reduce(partial(np.intersect1d, assume_unique=True), found) if found else _NO_ROWS
        return rows[held_against(only, self._numbers[rows])]

    def count_live(self, rows: Rows) -> int:
        return int(np.count_nonzero(self._live[rows]))

    def live_ids(self, rows: Rows) -> list[str]:
        """Return the ids of the live records in these rows."""
        return self.ids(rows[self._live[rows]])

    def heard(self, unread: Collection[str]) -> NDArray[np.bool_]:
        """Return for each row True where neighbours may borrow its words: it is live, and not `unread`."""
        if not unread:
            return self._live
        heard = self._live.copy()
        heard[self.rows_with(unread)] = False
        return heard

    def summed(self, found: Iterable[tuple[Rows, Scores]], share: float, heard: NDArray[np.bool_]) -> Scores:
        """Return for every row the sum of its values, in the order of `found`.

        Each found value (>= 0) belongs to its row, all other rows have 0. A row counts that share of a neighbouring
        turn's value instead, if that is more; only turns in rows that are `heard` share theirs.
        """
        sums, spread = np.zeros(len(self._numbers)), np.zeros(len(self._numbers))
        for rows, values in found:
            reached, is_heard = [rows], heard[rows]
            heard_rows, shared = rows[is_heard], share * values[is_heard]
            for beside in (self._before, self._after):
                there = beside[heard_rows]
                is_there = there != NONE
                near, lent = there[is_there], shared[is_there]
                # No row is the turn before two others, or after two: each is named once here.
                spread[near] = lent if beside is self._before else np.maximum(spread[near], lent)
                reached.append(near)
            spread[rows] = np.maximum(spread[rows], values)
            # Most words are in few rows. Some are named twice: each takes its sum from before, so that it grows once.
            touched = np.concatenate(reached) if len(rows) * _MANY < len(sums) else slice(None)
            sums[touched] += spread[touched]
            spread[touched] = 0.0
        return sums

    def beside(self, record_ids: Sequence[str]) -> Mapping[str, Sequence[str]]:
        """Return for each turn with a live one directly before or after it those of them that are among the records."""
        rows = self._rows.rows(record_ids, self._shelf)
        near = np.stack([self._before[rows], self._after[rows]], axis=1)
        near[~self._live[near]] = NONE
        named = dict(zip(rows.tolist(), record_ids, strict=True))
        pairs = zip(record_ids, near.tolist(), strict=True)
        return {i: [named[row] for row in beside if row in named] for i, beside in pairs if max(beside) != NONE}

    def within(self, only: RecordSet | None, exclude: Collection[str], scores: Scores) -> Rows:
        """Return the rows with a score above 0 of live records or, with `only`, of exactly those."""
        counts = scores > 0
        counts &= self._live if only is None else held_against(only, self._numbers)
        counts[self.rows_with(exclude)] = False
        return np.flatnonzero(counts)

    def rows_with(self, record_ids: Collection[str]) -> Rows:
        """Return the rows of the known records among these, each once."""
        found = self._rows.rows(record_ids, self._shelf)
        known = np.sort(found[found != NONE])
        return known[run_starts(known)]

    def scores_of(self, record_ids: Sequence[str], scores: Scores) -> Iterator[tuple[str, float]]:
        """Yield those of the records with a score above 0 (one score a row)."""
        rows = self._rows.rows(record_ids, self._shelf)
        there = rows != NONE
        found: list[float] = scores[rows[there]].tolist()
        named = zip(compress(record_ids, there.tolist()), found, strict=True)
        return ((record_id, score) for record_id, score in named if score)

    def best(self, scores: Scores, limit: int, rows: Rows) -> list[tuple[str, float]]:
        """Return at most `limit` records with the highest scores above 0 (one score a row), ties by newest."""
        found = scores[rows]
        if not found.all():
            rows, found = rows[found > 0], found[found > 0]
        # Equal scores are common where texts are alike: the newest of those at the limit are chosen afterwards.
        least = np.partition(found, -limit)[-limit] if 0 < limit < len(found) else -np.inf
        higher = rows[found > least]
        best = list(zip(self.ids(higher), scores[higher].tolist(), strict=True))
        tied = rows[found == least]
        tied = tied[np.argsort(-self._numbers[tied])][: limit - len(best)]
        return best + [(record_id, float(least)) for record_id in self.ids(tied)]

    def ids(self, rows: Rows) -> list[str]:
        return [make_id(RECORD, number) for number in self._numbers[rows].tolist()]

    def _set_live(self, row: int, is_live: bool) -> None:
        difference = int(is_live) - int(self._live[row])
        self.live_records += difference
        self.live_length += difference * int(self.lengths[row])
        self._live[row] = is_live

    def append(self, new: Sequence[NewText]) -> None:
        """Give each record, which is not here yet, the next row, in a few operations on whole arrays."""
        terms = np.frombuffer(b"".join(text.terms for text in new), _PACKED_TERM)
        owner = np.repeat(np.arange(len(new)), [len(text.terms) // _PACKED_TERM.itemsize for text in new])
        lengths = np.bincount(owner, terms["count"], len(new)).astype(np.int64)
        live = np.array([text.is_live for text in new], np.bool_)
        first = len(self._numbers)
        rows = (owner + first).astype(np.uint64)
        self._file(terms["number"].astype(np.uint64) << _TERM_SHIFT | rows)
        numbers = np.array([text.number for text in new], np.int64)
        self._rows.put(numbers, self._shelf, np.arange(first, first + len(new)))
        self._live = np.concatenate([self._live, live])
        self._prints = np.concatenate([self._prints, np.array([hash(text.terms) for text in new], np.int64)])
        self._numbers = np.concatenate([self._numbers, numbers])
        self.lengths = np.concatenate([self.lengths, lengths])
        self.live_records += int(np.count_nonzero(live))
        self.live_length += int(lengths[live].sum())
        alone = np.full(len(new), NONE, np.intp)
        self._before, self._after = np.concatenate([self._before, alone]), np.concatenate([self._after, alone])
        self._sessions = np.concatenate([self._sessions, np.full(len(new), _NO_SESSION, np.int32)])
        turns: dict[str, list[int]] = {}
        for row, text in enumerate(new, first):
            if text.session is not None:
                turns.setdefault(text.session, []).append(row)
        for session, joining in turns.items():
            self._join_session(session, np.array(joining, np.intp))

    def _join_session(self, session: str, rows: Rows) -> None:
        """Insert turns between their neighbours; numbers sort by time."""
        is_new = session not in self._session_places
        place = self._session_places.setdefault(session, len(self._session_places))
        if is_new:
            rows = rows[np.argsort(self._numbers[rows])]
            self._before[rows[1:]], self._after[rows[:-1]] = rows[:-1], rows[1:]
        else:
            turns = self._turns_of(place)
            for row, number in zip(rows.tolist(), self._numbers[rows].tolist(), strict=True):
                at = bisect_left(turns, number)
                self._link(self._row(turns[at - 1]) if at > 0 else NONE, row)
                self._link(row, self._row(turns[at]) if at < len(turns) else NONE)
                turns.insert(at, number)
        self._sessions[rows] = place

    def _leave_session(self, row: int, number: int) -> None:
        """Remove a turn; its neighbours are adjacent now."""
        session = int(self._sessions[row])
        if session == _NO_SESSION:
            return
        turns = self._turns_of(session)
        del turns[bisect_left(turns, number)]
        self._sessions[row] = _NO_SESSION
        self._link(int(self._before[row]), int(self._after[row]))
        self._before[row] = self._after[row] = NONE

    def _row(self, number: int) -> int:
        return self._rows.row(number, self._shelf)

    def _turns_of(self, session: int) -> list[int]:
        if session not in self._turns:
            self._turns[session] = np.sort(self._numbers[self._sessions == session]).tolist()
        return self._turns[session]

    def _link(self, before: int, after: int) -> None:
        """Link two adjacent rows; either may be none."""
        if before != NONE:
            self._after[before] = after
        if after != NONE:
            self._before[after] = before

    def _file(self, new: Postings) -> None:
        """Sort postings into the tail, and the tail into the body where it has grown long."""
        self._tail = _merged(self._tail, np.sort(new))
        if len(self._tail) > max(_LEAST_TAIL, len(self._body) // _TAIL_SHARE):
            self._body, self._tail = _merged(self._body, self._tail), self._tail[:0]


def _rows_of(postings: Postings) -> Rows:
    return (postings & _ROW_MASK).astype(np.intp)


def _merged(one: Postings, other: Postings) -> Postings:
    """Merge two sorted arrays; the stable sort handles such runs in linear time."""
    both = np.concatenate([one, other])
    both.sort(kind="stable")
    return both
