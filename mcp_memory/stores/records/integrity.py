"""Checks that the database is sound, and that its terms match its texts. Knows nothing outside of it."""

import json
import sqlite3
from collections.abc import Sequence

from mcp_memory.domain.text.words import packed_terms
from mcp_memory.stores.records.rows import record_from_row
from mcp_memory.stores.records.statements import statement

_WAL_RESET_BUG = "its WAL-reset bug cannot happen to mcp-memory's own writes; let no other program write the file"


def defects(connection: sqlite3.Connection) -> list[str]:
    """Return SQLite's findings on the file, a few words each; empty where it is sound."""
    checked = [row[0] for row in connection.execute("PRAGMA integrity_check(10)")]
    found = [] if checked == ["ok"] else checked
    if dangling := connection.execute("PRAGMA foreign_key_check").fetchall():
        found.append(f"dangling references: {len(dangling)}")
    return found


def engine(version: tuple[int, int, int]) -> str:
    """See `RecordStore.engine`: SQLite of this version."""
    name = f"SQLite {'.'.join(map(str, version))}"
    return f"{name} ({_WAL_RESET_BUG})" if _has_wal_reset_bug(version) else name


def _has_wal_reset_bug(version: tuple[int, int, int]) -> bool:
    """Return True for every SQLite since write-ahead logs, 3.7.0, without the repair of 2026."""
    repaired = {(3, 44): 6, (3, 50): 7}  # Older lines, and the first release of each that has it.
    is_repaired = version >= (3, 51, 3) or version[2] >= repaired.get(version[:2], version[2] + 1)
    return version >= (3, 7, 0) and not is_repaired


def stale_terms(connection: sqlite3.Connection) -> list[str]:
    """Return ids of records whose terms are missing or do not match their text, oldest first."""
    rows = connection.execute(statement("all_terms"))
    texts = ((terms, record_from_row(columns)) for terms, *columns in rows)
    return [record.id for terms, record in texts if terms != packed_terms(record.searchable_text)]


def renew_terms(connection: sqlite3.Connection, record_ids: Sequence[str]) -> None:
    """Write the terms of the records among these that exist."""
    for row in connection.execute(statement("records_of"), (json.dumps(record_ids),)).fetchall():
        record = record_from_row(row)
        connection.execute(statement("put_terms"), {"id": record.id, "terms": packed_terms(record.searchable_text)})
