"""Counts what one write changes in each partition: its newest change, and how much more or less it holds."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass

from mcp_memory.domain.model.records import Record
from mcp_memory.domain.model.scopes import partition_of
from mcp_memory.stores.records.database import Connection, Write


@dataclass(slots=True)
class _Changed:
    newest: int = 0
    records: int = 0
    bytes: int = 0


class PartitionTally:
    """Counts as a write goes along, and notes all of it once, in the transaction of the write."""

    def __init__(self) -> None:
        self._changed: dict[str, _Changed] = {}

    def note(self, scope: str, change: int, records: int = 0, size: int = 0) -> None:
        """Count a change in a scope, which has so many records and bytes of text more."""
        changed = self._changed.setdefault(partition_of(scope), _Changed())
        changed.newest = max(changed.newest, change)
        changed.records += records
        changed.bytes += size

    def note_insert(self, record: Record, change: int) -> None:
        self.note(record.scope, change, 1, _size(record))

    def note_update(self, connection: Connection, old: Record, new: Record, change: int) -> None:
        """Count what became of a record; where it goes to another partition, those that follow the old one hear it."""
        self.note(old.scope, change, -1, -_size(old))
        self.note_insert(new, change)
        left, entered = partition_of(old.scope), partition_of(new.scope)
        if left != entered:
            connection.run("depart", {"partition": left, "id": old.id, "change": change})
            connection.run("come_back", {"partition": entered, "id": old.id})

    def note_touched(self, connection: Connection, record_ids: Sequence[str]) -> None:
        """Count that these records have new change numbers."""
        for row in connection.run("newest_of_scopes", {"ids": json.dumps(record_ids)}).fetchall():
            self.note(row["scope"], row["newest"])

    @property
    def grown(self) -> list[tuple[str, int, int]]:
        """The partitions that hold more than before, and how many records and bytes that is."""
        every = sorted(self._changed.items())
        return [(name, each.records, each.bytes) for name, each in every if each.records > 0 or each.bytes > 0]

    def put(self, connection: Write) -> None:
        """Note it, partition by partition in their order; call it once, at the end of the write."""
        assert not any(map(connection.hold, self._changed)), "A write changes what it holds alone."
        for name, changed in sorted(self._changed.items()):
            row = {"name": name, "newest": changed.newest, "last_write": connection.mark}
            connection.defer("put_partition", {**row, "records": changed.records, "bytes": changed.bytes})


def _size(record: Record) -> int:
    return len(record.text.encode())
