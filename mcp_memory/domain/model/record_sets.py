"""Sets of records that a whole index can be held against at once. Knows ids and nothing else of a record."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from mcp_memory.domain.model.ids import number_of


@dataclass(frozen=True, slots=True)
class RecordSet:
    """Records by the numbers in their ids. Of `flags`, one byte each, 1 says that the number is in the set.

    The last byte is always 0 and stands for every number beyond: an index that knows newer records takes them for it.
    """

    flags: bytes

    @classmethod
    def of(cls, record_ids: Iterable[str]) -> RecordSet:
        """Of ids that a store has made: one made up may name a number that takes any amount of memory."""
        numbers = [number_of(record_id) for record_id in record_ids]
        flags = bytearray(max(numbers, default=-1) + 2)
        for number in numbers:
            flags[number] = 1
        flags[0] = 0  # What is no id.
        return cls(bytes(flags))

    def __contains__(self, record_id: str) -> bool:
        number = number_of(record_id)
        return number < len(self.flags) and bool(self.flags[number])

    def __len__(self) -> int:
        return self.flags.count(1)
