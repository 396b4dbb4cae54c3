"""Named SQL: reads `sql/*.sql`, where a line `-- name: x` begins each statement."""

import re
from functools import cache
from importlib.resources import files

from mcp_memory.stores.records.rows import RECORD_COLUMNS

_NAME = re.compile(r"^-- name: (\w+)$", re.MULTILINE)  # e.g. "-- name: get_meta"


@cache
def statement(name: str) -> str:
    """Return the statement of that name, its columns filled in. Raises KeyError, a defect, where there is none."""
    return _all_statements()[name].replace("{columns}", RECORD_COLUMNS)


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
