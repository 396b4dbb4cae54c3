"""What the truth gives the indexes, row by row."""

from __future__ import annotations

from typing import Any

from mcp_memory.ports.changes import ChangeFeed, IndexPart


def rows(
    store: ChangeFeed, part: IndexPart, since: int = 0, embedder: str = "", partition: str = ""
) -> list[tuple[Any, ...]]:
    """The rows of a part of the indexes that changed since, of a partition or of all."""
    found = store.index_rows(part, since, embedder, partition)
    return [row for columns in found for row in zip(*columns.values(), strict=True)]


def terms_of(store: ChangeFeed, since: int = 0) -> dict[str, bytes | None]:
    """The words of each record that changed since, as they are packed for the index."""
    return {row[0]: row[3] for row in rows(store, "terms", since)}
