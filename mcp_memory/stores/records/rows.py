"""Converts between table rows and domain values."""

import json
import sqlite3
from collections.abc import Iterable
from dataclasses import fields
from typing import Any

from mcp_memory.domain.model.contexts import Component, ContextReport, Omission
from mcp_memory.domain.model.records import Counters, Record
from mcp_memory.domain.model.tasks import Task, TaskChange
from mcp_memory.domain.model.versions import Version
from mcp_memory.domain.text.words import content_hash, normal_hash
from mcp_memory.ports.changes import RecordChange
from mcp_memory.ports.text import Vectors

Column = str | int | float | bytes | None

_COUNTERS = tuple(f.name for f in fields(Counters))
_DERIVED = ("counters", "check")
_RECORD_FIELDS = tuple(f.name for f in fields(Record) if f.name not in (*_DERIVED, "tags", "details", "pinned"))
_TASK_FIELDS = tuple(f.name for f in fields(Task) if f.name not in ("artifacts", "inherit", "branch"))
_COMPONENT_FIELDS = tuple(f.name for f in fields(Component) if f.name != "text")
_CHANGE_FIELDS = tuple(f.name for f in fields(RecordChange))
_VERSION_FIELDS = tuple(f.name for f in fields(Version) if f.name != "before")
_TASK_CHANGE_FIELDS = tuple(f.name for f in fields(TaskChange))
_PLAIN = len(_RECORD_FIELDS)
_UNTOUCHED = Counters()

RECORD_COLUMNS = ", ".join(f"r.{name}" for name in (*_RECORD_FIELDS, *_COUNTERS, "pinned", "tags", "details"))
"""Columns of `records AS r` for record_from_row: by position, because a context reads hundreds of rows."""


def record_from_row(row: Iterable[Any]) -> Record:
    """Make a record from a row of RECORD_COLUMNS."""
    values = tuple(row)
    counts, (pinned, tags, details) = values[_PLAIN:-3], values[-3:]
    return Record(
        **dict(zip(_RECORD_FIELDS, values, strict=False)),
        counters=Counters(**dict(zip(_COUNTERS, counts, strict=True))) if any(counts) else _UNTOUCHED,
        pinned=bool(pinned),
        tags=tuple(json.loads(tags)) if tags != "[]" else (),
        details=json.loads(details) if details != "{}" else {},
    )


def record_to_columns(record: Record, change: int) -> dict[str, Column]:
    """Return all columns of `records` but the row number."""
    columns: dict[str, Column] = {name: getattr(record, name) for name in _RECORD_FIELDS}
    columns.update({name: getattr(record.counters, name) for name in _COUNTERS})
    columns.update(
        change=change,
        pinned=int(record.pinned),
        tags=json.dumps(record.tags, ensure_ascii=False),
        details=json.dumps(dict(record.details), ensure_ascii=False),
        content_hash=content_hash(record.text),
        normal_hash=normal_hash(record.text),
    )
    return columns


def version_from_row(row: sqlite3.Row) -> Version:
    return Version(**{name: row[name] for name in _VERSION_FIELDS}, before=json.loads(row["before"]))


def version_to_columns(record_id: str, version: Version) -> dict[str, Column]:
    columns: dict[str, Column] = {name: getattr(version, name) for name in _VERSION_FIELDS}
    columns.update(record_id=record_id, before=json.dumps(dict(version.before), ensure_ascii=False))
    return columns


def task_from_row(row: sqlite3.Row) -> Task:
    return Task(
        **{name: row[name] for name in _TASK_FIELDS},
        artifacts=tuple(json.loads(row["artifacts"])),
        inherit=tuple(json.loads(row["inherit"])),
        branch=bool(row["branch"]),
    )


def task_to_columns(task: Task, change: int) -> dict[str, Column]:
    columns: dict[str, Column] = {name: getattr(task, name) for name in _TASK_FIELDS}
    columns.update(
        change=change,
        artifacts=json.dumps(task.artifacts, ensure_ascii=False),
        inherit=json.dumps(task.inherit),
        branch=int(task.branch),
    )
    return columns


def task_change_from_row(row: sqlite3.Row) -> TaskChange:
    return TaskChange(**{name: row[name] for name in _TASK_CHANGE_FIELDS})


def change_from_row(row: Iterable[Any]) -> RecordChange:
    """Make a change from a row of the statement `changes`, whose columns are those of RecordChange, then `windows`."""
    *values, windows = row
    columns = dict(zip(_CHANGE_FIELDS, values, strict=True))
    for name in ("is_live", "is_erased"):
        columns[name] = bool(columns[name])
    if columns["vectors"] is not None:
        columns["vectors"] = _unpacked(columns["vectors"], windows)
    return RecordChange(**columns)


def _unpacked(vectors: bytes, windows: int) -> Vectors:
    import numpy as np  # Only what searches vectors pays for importing it.

    return np.frombuffer(vectors, np.float32).reshape(windows, -1)


def report_to_json(report: ContextReport) -> str:
    """Serialise the report without the components' texts, so that an erased text is nowhere in it."""
    shape = {field.name: getattr(report, field.name) for field in fields(report)}
    components = [{name: getattr(each, name) for name in _COMPONENT_FIELDS} for each in report.components]
    omitted = [{"id": each.id, "reason": each.reason} for each in report.omitted]
    return json.dumps({**shape, "components": components, "omitted": omitted, "metadata": dict(report.metadata)})


def report_from_json(text: str) -> ContextReport:
    shape = json.loads(text)
    components = tuple(Component(**component) for component in shape.pop("components"))
    omitted = tuple(Omission(**omission) for omission in shape.pop("omitted"))
    return ContextReport(**shape, components=components, omitted=omitted)
