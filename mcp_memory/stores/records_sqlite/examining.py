"""Whether the database is sound, and its terms those of its texts. Knows nothing of what is kept outside of it."""

import json
import sqlite3
from collections.abc import Sequence

from mcp_memory.domain.text import packed_terms
from mcp_memory.stores.records_sqlite.rows import record_from_row
from mcp_memory.stores.records_sqlite.statements import statement


def defects(connection: sqlite3.Connection) -> list[str]:
    """What SQLite finds wrong with the file, a few words each; empty where it is sound."""
    checked = [row[0] for row in connection.execute("PRAGMA integrity_check(10)")]
    found = [] if checked == ["ok"] else checked
    if dangling := connection.execute("PRAGMA foreign_key_check").fetchall():
        found.append(f"dangling references: {len(dangling)}")
    return found


def stale_terms(connection: sqlite3.Connection) -> list[str]:
    """Ids of records whose terms are missing or not those of their text, oldest first."""
    rows = connection.execute(statement("all_terms"))
    texts = ((terms, record_from_row(columns)) for terms, *columns in rows)
    return [record.id for terms, record in texts if terms != packed_terms(record.searchable_text)]


def renew_terms(connection: sqlite3.Connection, record_ids: Sequence[str]) -> None:
    """Write the terms of those of the records that there are."""
    for row in connection.execute(statement("records_of"), (json.dumps(record_ids),)).fetchall():
        record = record_from_row(row)
        connection.execute(statement("put_terms"), {"id": record.id, "terms": packed_terms(record.searchable_text)})
