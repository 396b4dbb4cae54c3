"""Vectors that records get after they were stored, and the embedder whose vectors the store holds."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Mapping, Sequence

from mcp_memory.domain.model.scopes import RecordFilter
from mcp_memory.ports.text import Vectors
from mcp_memory.stores.records.rows import record_from_row
from mcp_memory.stores.records.statements import statement
from mcp_memory.stores.records.transaction import UNEMBEDDED, advance, refuse_other_dimensions


def embedder_of(connection: sqlite3.Connection) -> str | None:
    """See `RecordStore.embedder_id`."""
    row = connection.execute(statement("get_meta"), ("embedder",)).fetchone()
    return row["value"] if row else None


def unembedded(connection: sqlite3.Connection, embedder: str, limit: int, after: str) -> Sequence[tuple[str, int, str]]:
    """See `RecordStore.unembedded`."""
    asked = {"embedder": embedder, "limit": limit, "after": after}
    rows = connection.execute(statement("unembedded"), asked).fetchall()
    return [(row["id"], row["change"], record_from_row(tuple(row)[1:]).searchable_text) for row in rows]


def may_lack(connection: sqlite3.Connection) -> bool:
    """See `RecordStore.may_lack_vectors`."""
    return connection.execute(statement("get_meta"), (UNEMBEDDED,)).fetchone() is not None


def count_unembedded(connection: sqlite3.Connection, configured: str, where: RecordFilter | None) -> int:
    """See `RecordStore.count_unembedded`; before the first vector, records wait for the configured embedder."""
    if not may_lack(connection):
        return 0  # Counting reads every record: only where one is known to lack its vectors.
    embedder = embedder_of(connection) or configured
    scopes = json.dumps(where.scopes) if where else None
    hidden = json.dumps(sorted(where.hidden_branches) if where else [])
    asked = {"embedder": embedder, "scopes": scopes, "hidden": hidden}
    return connection.execute(statement("count_lacking"), asked).fetchone()[0]


def add(connection: sqlite3.Connection, embedder: str, vectors: Mapping[tuple[str, int], Vectors | None]) -> None:
    """See `RecordStore.add_vectors`."""
    added = [key[0] for key, rows in vectors.items() if _add_one(connection, embedder, key, rows)]
    if embedder_of(connection) not in (None, embedder):
        return  # Of the next embedder: nothing is told before it is adopted.
    if added:  # Refusals alone do not set the store's embedder.
        connection.execute(statement("put_meta"), ("embedder", embedder))
        advance(connection, added)
    if not _lacks(connection, embedder):
        connection.execute("DELETE FROM meta WHERE name = ?", (UNEMBEDDED,))


def forget_refusals(connection: sqlite3.Connection, embedder: str) -> None:
    """See `RecordStore.forget_refusals`."""
    if connection.execute(statement("forget_refusals"), (embedder,)).rowcount:
        change: int = connection.execute("SELECT value FROM sequence").fetchone()[0]
        connection.execute(statement("put_meta"), (UNEMBEDDED, str(change)))


def adopt(connection: sqlite3.Connection, embedder: str) -> bool:
    """See `RecordStore.adopt_embedder`."""
    if _lacks(connection, embedder):
        return False
    change = connection.execute("SELECT value FROM sequence").fetchone()[0] + 1
    connection.execute(statement("put_meta"), ("embedder", embedder))
    connection.execute("DELETE FROM meta WHERE name = ?", (UNEMBEDDED,))
    connection.execute(statement("drop_other_vectors"), (embedder,))
    connection.execute(statement("touch_all_changes"), (change,))
    connection.execute("UPDATE sequence SET value = ?", (change,))
    return True


def _lacks(connection: sqlite3.Connection, embedder: str) -> bool:
    return connection.execute(statement("lacking"), (embedder,)).fetchone() is not None


def _add_one(connection: sqlite3.Connection, embedder: str, key: tuple[str, int], rows: Vectors | None) -> bool:
    """Add one record's vectors; return False where there are none, or the record has changed or is gone."""
    columns = {"embedder": embedder, "windows": 0, "vector": b"", "id": key[0], "change": key[1]}
    if rows is not None:
        refuse_other_dimensions(connection, embedder, rows)
        columns |= {"windows": len(rows), "vector": rows.tobytes()}
    return connection.execute(statement("put_vectors_if_unchanged"), columns).rowcount > 0 and rows is not None
