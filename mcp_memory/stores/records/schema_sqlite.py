"""The schema of the SQLite file: its numbered migrations, and what tells one version's file from another's."""

import sqlite3
from pathlib import Path

from mcp_memory.errors import SchemaTooNew, StoreUnavailable
from mcp_memory.stores.records.sql_files import MIGRATED, scripts_in, statement

APPLICATION_ID = 0x6D636D6D  # "mcmm" in ASCII


def migrations() -> tuple[str, ...]:
    """Return the migration scripts in order; the schema version is the number of those applied."""
    return scripts_in("migrations")


def check_schema(connection: sqlite3.Connection) -> int:
    """Return the number of the database's schema. Raises SchemaTooNew where this version does not know it."""
    version: int = connection.execute("PRAGMA user_version").fetchone()[0]
    if version > len(migrations()):
        raise SchemaTooNew(
            f"This store was written by a newer mcp-memory (its schema is {version}, this one knows"
            f" {len(migrations())}); update mcp-memory and restart. Nothing was changed."
        )
    return version


def needs_migration(connection: sqlite3.Connection, path: Path) -> bool:
    """Return True for an older schema. Drafts of the first one have its number, but not its tables."""
    version = check_schema(connection)
    if version and not connection.execute("SELECT 1 FROM sqlite_schema WHERE name = 'terms'").fetchone():
        raise StoreUnavailable(
            f"{path} was written by mcp-memory as it was before its first release, which this one cannot read;"
            " it was left as it is. Move it away, or set MCP_MEMORY_DATA_DIR to a new folder, to start again."
        )
    return version < len(migrations())


def migrate(connection: sqlite3.Connection) -> str:
    """Bring the schema up to date in the open transaction, which executescript would commit.

    Return what the migrations counted, which they note in `meta` until the next ones; "" where they counted nothing.
    """
    applied = check_schema(connection)
    if 0 < applied < len(migrations()):
        connection.execute("DELETE FROM meta WHERE name = ?", (MIGRATED,))
    for number, script in enumerate(migrations()[applied:], start=applied + 1):
        sql = ""
        for line in script.splitlines(keepends=True):
            sql += line
            if sqlite3.complete_statement(sql):
                connection.execute(sql)
                sql = ""
        connection.execute(f"PRAGMA user_version = {number}")
    connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
    row = connection.execute(statement("get_meta"), (MIGRATED,)).fetchone()
    return row["value"] if row else ""


def raise_schema_number(connection: sqlite3.Connection) -> None:
    """Mark the database's first page, so that no two states of the file after a checkpoint share a header."""
    number: int = connection.execute("PRAGMA schema_version").fetchone()[0]
    connection.execute(f"PRAGMA schema_version = {number + 1}")
