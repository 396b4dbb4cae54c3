"""Between table rows and domain values."""

import json
import sqlite3
from dataclasses import asdict, fields

from mcp_memory.domain.contexts import Component, ContextReport, Omission
from mcp_memory.domain.records import Counters, Record
from mcp_memory.domain.tasks import Task
from mcp_memory.domain.text import content_hash, normal_hash

Column = str | int | float | bytes | None

_COUNTERS = tuple(f.name for f in fields(Counters))
_RECORD_FIELDS = tuple(f.name for f in fields(Record) if f.name not in ("counters", "tags", "details", "pinned"))
_TASK_FIELDS = tuple(f.name for f in fields(Task) if f.name not in ("artifacts", "inherit", "branch"))


def record_from_row(row: sqlite3.Row) -> Record:
    """A record from all columns of `records`."""
    return Record(
        **{name: row[name] for name in _RECORD_FIELDS},
        pinned=bool(row["pinned"]),
        tags=tuple(json.loads(row["tags"])),
        details=json.loads(row["details"]),
        counters=Counters(**{name: row[name] for name in _COUNTERS}),
    )


def record_to_columns(record: Record, change: int) -> dict[str, Column]:
    """All columns of `records` but the row number."""
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


def report_to_json(report: ContextReport) -> str:
    """The report without the components' texts, so that an erased text is nowhere in it."""
    shape = asdict(report)
    for component in shape["components"]:
        del component["text"]
    return json.dumps(shape)


def report_from_json(text: str) -> ContextReport:
    shape = json.loads(text)
    components = tuple(Component(**component) for component in shape.pop("components"))
    omitted = tuple(Omission(**omission) for omission in shape.pop("omitted"))
    return ContextReport(**shape, components=components, omitted=omitted)
