"""Named SQL and the schema: reads `sql/*.sql`, where a line `-- name: x` begins each statement, and `migrations/`."""

import re
import sqlite3
from functools import cache
from importlib.resources import files
from pathlib import Path

from mcp_memory.errors import SchemaTooNew, StoreUnavailable
from mcp_memory.stores.records.rows import RECORD_PARTS

APPLICATION_ID = 0x6D636D6D  # "mcmm" in ASCII
MIGRATED = "migrated"
"""Name in `meta` of what the last migrations counted, for people."""
ENTERED = "entered"
"""Name in `meta` of the newest number and row that an import into the empty memory brought, and its time."""
# e.g. "{lines_of_session}", a statement; "{order}" is filled in by who runs it
_PART = re.compile(r"\{(\w+)\}")
_NAME = re.compile(r"^-- name: (\w+)$", re.MULTILINE)  # e.g. "-- name: get_meta"


@cache
def statement(name: str) -> str:
    """Return the statement of that name, with the statements that it names as parts, and the fields of a record.

    Raises KeyError, a defect, where there is none, or where two have one name.
    """
    every = _all_statements()
    sql = _PART.sub(lambda part: statement(part[1]) if part[1] in every else part[0], every[name])
    for part, names in RECORD_PARTS.items():
        sql = sql.replace(part, names)
    return sql


def meta(connection: sqlite3.Connection, name: str) -> str | None:
    """Return the value of that name in `meta`."""
    row = connection.execute(statement("get_meta"), (name,)).fetchone()
    return row["value"] if row else None


def newest_change(connection: sqlite3.Connection) -> int:
    """Return the number of the newest change, which is the revision."""
    return connection.execute("SELECT value FROM sequence").fetchone()[0]


@cache
def migrations() -> tuple[str, ...]:
    """Return the migration scripts in order; the schema version is the number of those applied."""
    folder = files(__name__.rpartition(".")[0]) / "migrations"
    scripts = sorted((entry for entry in folder.iterdir() if entry.name.endswith(".sql")), key=lambda entry: entry.name)
    return tuple(script.read_text("utf-8") for script in scripts)


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
    return meta(connection, MIGRATED) or ""


def raise_schema_number(connection: sqlite3.Connection) -> None:
    """Mark the database's first page, so that no two states of the file after a checkpoint share a header."""
    number: int = connection.execute("PRAGMA schema_version").fetchone()[0]
    connection.execute(f"PRAGMA schema_version = {number + 1}")


@cache
def _all_statements() -> dict[str, str]:
    found: dict[str, str] = {}
    for entry in (files(__name__.rpartition(".")[0]) / "sql").iterdir():
        parts = _NAME.split(entry.read_text("utf-8"))
        for name, body in zip(parts[1::2], parts[2::2], strict=True):
            if name in found:
                raise KeyError(f"{entry.name} names a statement {name!r}, as another one is named.")
            found[name] = body.strip()
    return found
