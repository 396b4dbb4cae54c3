"""Telling which records pass a filter."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from mcp_memory.domain.model.ids import RecordSet
from mcp_memory.domain.model.scopes import RecordFilter


class FilterIndex(Protocol):
    """Resolves filters without reading the truth again. Complete up to the newest committed change at the call."""

    def passing(self, where: RecordFilter) -> RecordSet:
        """The records that pass, as `RecordStore.matching_ids` names them; those of `where.passing` where it has them.

        May raise StoreUnavailable.
        """
        ...

    def newest(self, among: RecordSet, limit: int) -> Sequence[str]:
        """Ids of at most `limit` of them, by when they occurred, newest first, of the same time the latest stored."""
        ...
