"""Arrays over the numbers in records' ids, as filters, keywords and vectors hold them."""

from __future__ import annotations

from collections.abc import Collection
from itertools import repeat
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from mcp_memory.domain.model.ids import RecordSet, number_of

NONE = -1
"""The row of an unknown record."""
_Value = TypeVar("_Value", bound=np.generic)

Flags = NDArray[np.bool_]
Numbers = NDArray[np.int64]


def held_against(records: RecordSet, numbers: Numbers) -> Flags:
    """Return for each of the numbers whether it is in the set."""
    return np.frombuffer(records.flags, np.bool_).take(numbers, mode="clip")


def grown(column: NDArray[_Value], more: int) -> NDArray[_Value]:
    """Return the column with so many zeros after it."""
    return np.concatenate([column, np.zeros((more, *column.shape[1:]), column.dtype)])


class RecordRows:
    """The row of each record: sorted arrays that may be mapped from a file, and a dict of what changed since."""

    def __init__(self, numbers: Numbers, rows: Numbers) -> None:
        """`numbers` are sorted, each once; `rows` has the row of each."""
        self._numbers, self._rows = numbers, rows
        self._since: dict[int, int] = {}
        self._count = len(numbers)

    def __len__(self) -> int:
        return self._count

    def get(self, number: int) -> int:
        """Return the row of a record, or NONE."""
        row = self._since.get(number)
        if row is None:
            place = int(self._numbers.searchsorted(number))
            is_there = place < len(self._numbers) and self._numbers[place] == number
            row = int(self._rows[place]) if is_there else NONE
        return row

    def of(self, record_ids: Collection[str]) -> Numbers:
        """Return the row of each record, NONE for those that are not here."""
        numbers = [number_of(record_id) for record_id in record_ids]
        if not len(self._numbers):
            return np.fromiter(map(self._since.get, numbers, repeat(NONE)), np.int64, len(numbers))
        wanted = np.array(numbers, np.int64)
        places = np.minimum(self._numbers.searchsorted(wanted), len(self._numbers) - 1)
        rows = np.where(self._numbers[places] == wanted, self._rows[places], NONE)
        for place, number in enumerate(numbers if self._since else ()):
            if (row := self._since.get(number)) is not None:
                rows[place] = row
        return rows

    def put(self, number: int, row: int) -> None:
        self._count += self.get(number) == NONE
        self._since[number] = row

    def remove(self, number: int) -> None:
        """Forget a record that is here."""
        self._count -= 1
        self._since[number] = NONE
