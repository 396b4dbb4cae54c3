"""Arrays that are indexed by the number in a record's id, or by its slot in a part of an index."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from mcp_memory.domain.model.ids import ALPHABET, WIDTH, RecordSet, number_of

NONE = -1
"""The slot, the shelf and the row of an unknown record."""
MOST_SPREAD, LEAST_TABLE = 16, 1_024
"""A table over all numbers is kept up to so many numbers a record; any part may have one of the other length."""
_Value = TypeVar("_Value", bound=np.generic)

Flags = NDArray[np.bool_]
Numbers = NDArray[np.int64]

_NO_DIGIT = 255
_DIGITS = np.full(256, _NO_DIGIT, np.uint8)
_DIGITS[np.frombuffer(ALPHABET.encode(), np.uint8)] = np.arange(len(ALPHABET))
_SHIFTS = np.arange(5 * (WIDTH - 1), -1, -5)
"""The place of each digit's five bits, e.g. 25 for the first of six."""


def numbers_of(ids: Sequence[str]) -> Numbers:
    """Return the number in each id, as `number_of` does; thousands of ids a millisecond."""
    if set(map(len, ids)) == {1 + WIDTH}:  # The first thousand million; later ids are longer.
        digits = _DIGITS[np.frombuffer("".join(ids).encode("latin-1", "replace"), np.uint8).reshape(-1, 1 + WIDTH)]
        if (digits[:, 1:] != _NO_DIGIT).all():
            return (digits[:, 1:].astype(np.int64) << _SHIFTS).sum(axis=1)
    return np.fromiter(map(number_of, ids), np.int64, len(ids))


def groups(scopes: Sequence[str]) -> Mapping[str, Numbers]:
    """Return for each scope the positions that have it, in ascending order."""
    found: dict[str, list[int]] = {}
    for place, scope in enumerate(scopes):
        found.setdefault(scope, []).append(place)
    return {scope: np.array(places, np.int64) for scope, places in found.items()}


def held_against(records: RecordSet, numbers: Numbers) -> Flags:
    """Return for each of the numbers whether it is in the set."""
    return np.frombuffer(records.flags, np.bool_).take(numbers, mode="clip")


def run_starts(numbers: NDArray[_Value]) -> Flags:
    """Return for each of some sorted values whether it is the first of its equals."""
    is_first = np.ones(numbers.shape, np.bool_)  # `np.unique` imports numpy.ma, a hundredth of a server's start.
    is_first[1:] = numbers[1:] != numbers[:-1]
    return is_first


def entries(column: NDArray[np.int32], numbers: Numbers) -> NDArray[np.int32]:
    """Return for each number the entry of a column that holds it plus one, NONE where it holds 0 or ends before."""
    known = numbers < len(column)
    found = np.zeros(len(numbers), np.int32)
    found[known] = column[numbers[known]]
    return found + NONE


def _numbers(record_ids: Collection[str]) -> Numbers:
    return np.fromiter(map(number_of, record_ids), np.int64, len(record_ids))  # Mostly asked for before, hence known.


def grown(column: NDArray[_Value], length: int) -> NDArray[_Value]:
    """Return the column as long as that at least, with zeros; longer by a half, so that it seldom grows."""
    if length <= len(column):
        return column
    # Zeros that nobody writes take no memory.
    longer = np.zeros((max(length, len(column) + len(column) // 2), *column.shape[1:]), column.dtype)
    longer[: len(column)] = column
    return longer


class RecordSlots:
    """Numbers the records of a part of an index: each has a slot, counted from 0, for as long as the part exists.

    The slots are found by a table over all numbers, or, where few of these are the part's, in a sorted list of its own.
    """

    def __init__(self) -> None:
        self.count = 0
        self.numbers = np.zeros(0, np.int64)
        """The number of the record in each slot; then zeros."""
        self._table: NDArray[np.int32] | None = np.zeros(0, np.int32)
        """By number, the slot plus one; 0 for none."""
        self._sorted: tuple[Numbers, NDArray[np.int32]] = (np.zeros(0, np.int64), np.zeros(0, np.int32))
        """The numbers in order and their slots, where there is no table."""

    @property
    def bytes(self) -> int:
        """The memory that it takes."""
        found = sum(each.nbytes for each in self._sorted) if self._table is None else self._table.nbytes
        return found + self.numbers.nbytes

    def find(self, numbers: Numbers) -> NDArray[np.int32]:
        """Return the slot of each number, NONE for those that have none."""
        if self._table is not None:
            return entries(self._table, numbers)
        known, slots = self._sorted
        if not len(known):
            return np.full(len(numbers), NONE, np.int32)
        at = known.searchsorted(numbers)
        at[at == len(known)] = 0
        return np.where(known[at] == numbers, slots[at], np.int32(NONE))

    def find_one(self, number: int) -> int:
        """Return the slot of one number, or NONE."""
        if self._table is not None:
            return self._table.item(number) - 1 if number < len(self._table) else NONE
        known, slots = self._sorted
        at = int(known.searchsorted(number))
        return slots.item(at) if at < len(known) and known[at] == number else NONE

    def add(self, numbers: Numbers) -> NDArray[np.int32]:
        """Return the slot of each of these different numbers, the next ones for those that have none."""
        slots = self.find(numbers)
        is_new = slots == NONE
        new = numbers[is_new]
        if len(new):
            slots[is_new] = np.arange(self.count, self.count + len(new), dtype=np.int32)
            self.numbers = grown(self.numbers, self.count + len(new))
            self.numbers[self.count : self.count + len(new)] = new
            self.count += len(new)
            self._index(new, slots[is_new])
        return slots

    def _index(self, new: Numbers, slots: NDArray[np.int32]) -> None:
        end, most = int(new.max()) + 1, self.count * MOST_SPREAD + LEAST_TABLE
        if self._table is None:
            known, before = self._sorted
            end = max(end, int(known[-1]) + 1)
            if 2 * end <= most:  # Many have come since: half, so that it is not made and dropped in turns.
                self._table = np.zeros(end, np.int32)
                self._table[self.numbers[: self.count]] = np.arange(1, self.count + 1)
                self._sorted = (known[:0], before[:0])
                return
        elif end <= max(most, len(self._table)):
            self._table = grown(self._table, end)
            self._table[new] = slots + 1
            return
        else:
            self._table = None
            new, slots = self.numbers[: self.count], np.arange(self.count, dtype=np.int32)
            known, before = new[:0], slots[:0]
        # Nearly always newer than all: a sort of two runs takes linear time.
        both, every = np.concatenate([known, new]), np.concatenate([before, slots])
        order = np.argsort(both, kind="stable")
        self._sorted = (both[order], every[order])


class RecordRows:
    """The shelf of each record, and its row there. A shelf is the part of an index that belongs to one scope."""

    def __init__(self, slots: RecordSlots | None = None) -> None:
        self._scopes: list[str] = []
        self._shelf_of: dict[str, int] = {}
        self._slots = slots or RecordSlots()
        self._shelves = np.zeros(1, np.int32)
        """By slot, the shelf plus one; 0 for none, as in the place after the last slot."""
        self._rows = np.zeros(1, np.int32)
        """Likewise the row."""

    @property
    def bytes(self) -> int:
        """The memory that it takes."""
        return self._slots.bytes + self._shelves.nbytes + self._rows.nbytes

    def shelf(self, scope: str) -> int:
        """Return the number of a scope's shelf, a new one where it has none."""
        shelf = self._shelf_of.setdefault(scope, len(self._scopes))
        if shelf == len(self._scopes):
            self._scopes.append(scope)
        return shelf

    def scope_of(self, number: int) -> str | None:
        """Return the scope on whose shelf a record is; None for a record on none."""
        shelf = self._shelves.item(self._slots.find_one(number))
        return self._scopes[shelf - 1] if shelf else None

    def scopes_of(self, record_ids: Collection[str]) -> list[str | None]:
        """Return the same for each of these records."""
        scopes = [*self._scopes, None]  # The last one, -1: no scope.
        shelves: list[int] = self._shelves[self._slots.find(_numbers(record_ids))].tolist()
        return [scopes[shelf - 1] for shelf in shelves]

    def row(self, number: int, shelf: int) -> int:
        """Return a record's row on a shelf, or NONE."""
        slot = self._slots.find_one(number)
        return self._rows.item(slot) - 1 if self._shelves[slot] == shelf + 1 else NONE

    def rows(self, record_ids: Collection[str], shelf: int) -> Numbers:
        """Return each record's row on a shelf, NONE for those that are not there."""
        slots = self._slots.find(_numbers(record_ids))
        return np.where(self._shelves[slots] == shelf + 1, self._rows[slots] - 1, NONE).astype(np.int64)

    def put(self, numbers: Numbers, shelf: int, rows: Numbers) -> None:
        """Give each record its row on a shelf, in place of any other."""
        slots = self._slots.add(numbers)
        self.make_room()
        self._shelves[slots] = shelf + 1
        self._rows[slots] = rows + 1

    def make_room(self) -> None:
        """Have a place for each slot, also for those that others have added, and one after them."""
        length = self._slots.count + 1
        self._shelves, self._rows = grown(self._shelves, length), grown(self._rows, length)

    def remove(self, number: int) -> None:
        """Forget the place of a record that is on a shelf."""
        self._shelves[self._slots.find_one(number)] = 0
