"""Named SQL: reads `sql/*.sql`, where a line `-- name: x` begins each statement."""

import re
import sqlite3
from functools import cache
from importlib.resources import files

from mcp_memory.stores.records.rows import RECORD_COLUMNS

_NAME = re.compile(r"^-- name: (\w+)$", re.MULTILINE)  # e.g. "-- name: get_meta"


@cache
def statement(name: str) -> str:
    """Return the statement of that name, its columns filled in. Raises KeyError, a defect, where there is none."""
    return _all_statements()[name].replace("{columns}", RECORD_COLUMNS)


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


@cache
def _all_statements() -> dict[str, str]:
    found: dict[str, str] = {}
    for entry in (files(__name__.rpartition(".")[0]) / "sql").iterdir():
        parts = _NAME.split(entry.read_text("utf-8"))
        found.update(zip(parts[1::2], (body.strip() for body in parts[2::2]), strict=True))
    return found
