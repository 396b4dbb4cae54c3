"""Arrays that are indexed by the number in a record's id, as filters, keywords, vectors and the graph hold them."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from mcp_memory.domain.model.ids import ALPHABET, WIDTH, RecordSet, number_of

NONE = -1
"""The shelf and the row of an unknown record."""
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


class RecordRows:
    """The shelf of each record, and its row there. A shelf is the part of an index that belongs to one scope."""

    def __init__(self) -> None:
        self._scopes: list[str] = []
        self._shelf_of: dict[str, int] = {}
        self._shelves = np.zeros(0, np.int32)
        """By number, the shelf plus one; 0 for none."""
        self._rows = np.zeros(0, np.int32)
        """Likewise the row."""

    def shelf(self, scope: str) -> int:
        """Return the number of a scope's shelf, a new one where it has none."""
        shelf = self._shelf_of.setdefault(scope, len(self._scopes))
        if shelf == len(self._scopes):
            self._scopes.append(scope)
        return shelf

    def scope_of(self, number: int) -> str | None:
        """Return the scope on whose shelf a record is; None for a record on none."""
        shelf = self._shelves.item(number) if number < len(self._shelves) else 0
        return self._scopes[shelf - 1] if shelf else None

    def scopes_of(self, record_ids: Collection[str]) -> list[str | None]:
        """Return the same for each of these records."""
        scopes = [*self._scopes, None]  # The last one, -1: no scope.
        shelves: list[int] = entries(self._shelves, _numbers(record_ids)).tolist()
        return [scopes[shelf] for shelf in shelves]

    def row(self, number: int, shelf: int) -> int:
        """Return a record's row on a shelf, or NONE."""
        if number >= len(self._shelves) or self._shelves[number] != shelf + 1:
            return NONE
        return self._rows.item(number) - 1

    def rows(self, record_ids: Collection[str], shelf: int) -> Numbers:
        """Return each record's row on a shelf, NONE for those that are not there."""
        numbers = _numbers(record_ids)
        is_there = entries(self._shelves, numbers) == shelf
        return np.where(is_there, entries(self._rows, numbers), NONE).astype(np.int64)

    def put(self, numbers: Numbers, shelf: int, rows: Numbers) -> None:
        """Give each record its row on a shelf, in place of any other."""
        length = int(numbers.max(initial=NONE)) + 1
        self._shelves, self._rows = grown(self._shelves, length), grown(self._rows, length)
        self._shelves[numbers] = shelf + 1
        self._rows[numbers] = rows + 1

    def remove(self, number: int) -> None:
        """Forget the place of a record that is on a shelf."""
        self._shelves[number] = 0
