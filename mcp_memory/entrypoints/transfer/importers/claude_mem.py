"""Reads claude-mem's database, observations and summaries of sessions, without changing it.

The database is untrusted: nothing in its schema is run, only stored columns of tables are read, no value beyond a
limit, and all of it within a budget of steps.
"""

import json
import os
import sqlite3
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final, cast

from mcp_memory.bounded_files import MB, open_regular
from mcp_memory.domain.model.records import Kind, NewRecord
from mcp_memory.domain.text.control_characters import visible
from mcp_memory.domain.text.times import is_datable
from mcp_memory.errors import InvalidRequest

_KINDS: dict[str, Kind] = {"decision": "decision", "discovery": "fact"}
"""Record kinds of observations; every other kind of observation is an episode."""
_OBSERVED = (
    "type", "title", "subtitle", "narrative", "text", "facts", "concepts", "files_read", "files_modified",
    "created_at_epoch",
)  # fmt: skip
_SUMMED_UP = ("request", "investigated", "learned", "completed", "next_steps", "notes", "created_at_epoch")
_LEFT_OUT = {"user_prompts": "prompts", "directives": "directives"}
_MILLISECONDS = 1000
MAX_FILE_BYTES: Final = 4096 * MB
MAX_ROW_BYTES: Final = 64 * MB
"""A row of a sparse file may claim a gigabyte."""
MAX_STEPS: Final = 1_000_000_000
"""The most steps of SQLite's virtual machine per import. A row takes about 50, so ten million rows fit."""
_STEPS_A_LOOK: Final = 10_000
_BESIDE: Final = ("-journal", "-wal", "-shm")
"""Files that SQLite opens with the database."""
_SHOWN_PROJECTS: Final = 20


@dataclass(slots=True)
class _Budget:
    """The steps that are left. Pages of a small file that name each other can hold rows without end."""

    left: int

    def is_spent(self) -> bool:
        """Called by SQLite after each `_STEPS_A_LOOK` steps; it stops where this is true."""
        self.left -= _STEPS_A_LOOK
        return self.left < 0


def read_claude_mem(path: Path, project: str | None, left_out: Counter[str]) -> Iterator[NewRecord]:
    """A record for each observation, one for each fact that it lists, and an episode for each summary of a session.

    Raises InvalidRequest where the path is no such database, it holds several projects and none is named, or reading it
    takes more than `MAX_STEPS`.
    """
    if not path.is_file():
        raise InvalidRequest("claude-mem keeps a database; name its file, claude-mem.db.")
    budget = _Budget(MAX_STEPS)
    try:
        with closing(_opened(path.resolve(), budget)) as connection:
            chosen = _project(connection, project)
            for row in _rows(connection, "observations", _OBSERVED, chosen):
                yield from _observation(row, left_out)
            for row in _rows(connection, "session_summaries", _SUMMED_UP, chosen):
                yield from _summary(row, left_out)
            for table, name in _LEFT_OUT.items():
                if count := _count(connection, table):
                    left_out[name] += count
    except (sqlite3.Error, OSError) as error:
        why = f"it takes more than {MAX_STEPS:,} steps" if budget.left < 0 else str(error)[:200]
        raise InvalidRequest(f"{path} cannot be read as claude-mem's database ({why}); name its file.") from error


def _opened(path: Path, budget: _Budget) -> sqlite3.Connection:
    """A connection that writes nothing, holds no value beyond a limit, decodes any text, and stops with the budget.

    Without a log beside it the file is opened as one that cannot change, or SQLite would leave files there. Raises
    OSError for what is no ordinary file, those beside it included: SQLite would wait for the writer of a pipe.
    """
    open_regular(path, MAX_FILE_BYTES).close()
    beside = [file for end in _BESIDE if os.path.lexists(file := path.with_name(path.name + end))]
    for file in beside:
        open_regular(file, MAX_FILE_BYTES, follow_link=False).close()
    has_log = any(file.name.endswith("-wal") for file in beside)
    connection = sqlite3.connect(f"{path.as_uri()}?mode=ro{'' if has_log else '&immutable=1'}", uri=True)
    connection.row_factory = sqlite3.Row
    connection.text_factory = partial(str, encoding="utf-8", errors="replace")
    connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, MAX_ROW_BYTES)
    connection.set_progress_handler(budget.is_spent, _STEPS_A_LOOK)
    return connection


def _project(connection: sqlite3.Connection, project: str | None) -> str:
    """The project that is meant. What was merged into another counts as that one's."""
    if "project" not in _columns(connection, "observations"):
        raise InvalidRequest(
            "There is no table of observations with their projects in it; name claude-mem's own file, claude-mem.db."
        )
    found: set[str] = set()
    for table in ("observations", "session_summaries"):
        if "project" in (columns := _columns(connection, table)):
            rows = connection.execute(f"SELECT DISTINCT {_owner(columns)} FROM {table}")  # noqa: S608 - names of ours
            found |= {row[0] for row in rows if isinstance(row[0], str)}
    if project is None and len(found) == 1:
        return found.pop()
    if project not in found:
        known = ", ".join(visible(each[:100]) for each in sorted(found)[:_SHOWN_PROJECTS]) or "none"
        more = f" and {len(found) - _SHOWN_PROJECTS} more" if len(found) > _SHOWN_PROJECTS else ""
        raise InvalidRequest(
            f"Choose one of its projects with --project, and where it goes with --namespace: {known}{more}."
        )
    return project


def _owner(columns: Sequence[str]) -> str:
    return "coalesce(merged_into_project, project)" if "merged_into_project" in columns else "project"


def _columns(connection: sqlite3.Connection, table: str) -> list[str]:
    """Return a table's stored columns; none where no table has that name, but, for example, a view that never ends.

    `table_info` leaves out generated columns: each is an expression from the file's author, and a function in it can
    take hours within a single step.
    """
    kind = "SELECT 1 FROM sqlite_master WHERE name = ? AND type = 'table' AND sql NOT LIKE 'CREATE VIRTUAL%'"
    if not connection.execute(kind, (table,)).fetchone():
        return []
    return [row["name"] for row in connection.execute(f"PRAGMA table_info({table})")]


def _count(connection: sqlite3.Connection, table: str) -> int:
    if not _columns(connection, table):
        return 0
    # count(*) would take all rows in a single step, which no budget ends.
    return connection.execute(f"SELECT sum(1) FROM {table}").fetchone()[0] or 0  # noqa: S608 - one of ours


def _rows(
    connection: sqlite3.Connection, table: str, wanted: Sequence[str], project: str
) -> Iterator[dict[str, object]]:
    """The rows of a project with those of the columns that this version of claude-mem has, oldest first."""
    columns = _columns(connection, table)
    if "project" not in columns:
        return
    order = " ORDER BY id" if "id" in columns else ""
    shown = ", ".join(name if name in columns else f"NULL AS {name}" for name in wanted)
    sql = f"SELECT {shown} FROM {table} WHERE {_owner(columns)} = ?{order}"  # noqa: S608 - names of ours
    for row in connection.execute(sql, (project,)):
        yield dict(row)


def _observation(row: dict[str, object], left_out: Counter[str]) -> Iterator[NewRecord]:
    kind, title = _text(row, "type"), _text(row, "title")
    told = [title, _text(row, "subtitle"), _text(row, "narrative") or _text(row, "text")]
    text = "\n".join(part for part in told if part)
    tags = tuple(dict.fromkeys(tag for tag in (kind, *_list(row, "concepts")) if tag))
    files = dict.fromkeys((*_list(row, "files_read"), *_list(row, "files_modified")))
    whole = NewRecord(
        text=text,
        kind=_KINDS.get(kind, "episode"),
        tags=tags,
        details={"files": list(files)} if files else {},
        occurred_at=_instant(row),
    )
    facts = _list(row, "facts")
    if not text and not facts:
        left_out["observations that say nothing"] += 1
        return
    if text:
        yield whole
    for fact in facts:
        yield NewRecord(text=fact, tags=tags, occurred_at=_instant(row))


def _summary(row: dict[str, object], left_out: Counter[str]) -> Iterator[NewRecord]:
    parts = [(name, _text(row, name)) for name in _SUMMED_UP if name != "created_at_epoch"]
    text = "\n".join(f"{name.replace('_', ' ').capitalize()}: {said}" for name, said in parts if said)
    if text:
        yield NewRecord(text=text, kind="episode", occurred_at=_instant(row))
    else:
        left_out["summaries that say nothing"] += 1


def _text(row: dict[str, object], name: str) -> str:
    value = row[name]
    return visible(value).strip() if isinstance(value, str) else ""


def _list(row: dict[str, object], name: str) -> list[str]:
    """Read a column that holds a list of texts as JSON; any other text counts as a single item."""
    text = _text(row, name)
    try:
        given: object = json.loads(text) if text else []
    except (ValueError, RecursionError):
        given = [text]
    texts = cast("list[object]", given) if isinstance(given, list) else []
    return [visible(each).strip() for each in texts if isinstance(each, str) and each.strip()]


def _instant(row: dict[str, object]) -> float | None:
    """Return the time of a row; None where it holds none."""
    value = row["created_at_epoch"]
    instant = value / _MILLISECONDS if isinstance(value, int | float) else None
    return instant if instant is not None and is_datable(instant) else None
