"""Converts between table rows and domain values."""

import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, fields
from typing import Any, get_origin

from mcp_memory.domain.model.contexts import Component, ContextReport, Omission
from mcp_memory.domain.model.field_marks import CallerWords, Derived, Fixed, marked, unmarked
from mcp_memory.domain.model.records import Counters, Record
from mcp_memory.domain.model.tasks import Task, TaskChange
from mcp_memory.domain.model.versions import Version
from mcp_memory.domain.text.words import content_hash, normal_hash
from mcp_memory.ports.changes import RecordChange
from mcp_memory.ports.text import Vectors
from mcp_memory.stores.records.database import Row

Column = str | int | float | bytes | None

_COUNTERS = tuple(f.name for f in fields(Counters))
_DERIVED = marked(Record, Derived)
_STORED = {f.name: unmarked(f.type) for f in fields(Record) if f.name not in _DERIVED}
"""The fields of a record that have a column each, and the types of their values."""
_BOOLS = tuple(name for name, kind in _STORED.items() if kind is bool)
_ARRAYS = tuple(name for name, kind in _STORED.items() if get_origin(kind) is tuple)
_OBJECTS = tuple(name for name, kind in _STORED.items() if get_origin(kind) is Mapping)
"""Fields that SQLite keeps in another form: as 0 or 1, and as JSON."""
_TASK_FIELDS = tuple(f.name for f in fields(Task) if f.name not in ("artifacts", "inherit", "branch"))
_COMPONENT_FIELDS = tuple(f.name for f in fields(Component) if f.name != "text")
_CHANGE_FIELDS = tuple(f.name for f in fields(RecordChange))
_VERSION_FIELDS = tuple(f.name for f in fields(Version) if f.name != "before")
_TASK_CHANGE_FIELDS = tuple(f.name for f in fields(TaskChange))
_UNTOUCHED = Counters()

RECORD_COLUMNS = ", ".join(f"r.{name}" for name in (*_STORED, *_COUNTERS))
"""Columns of `records AS r` for record_from_row: by position, because a context reads hundreds of rows."""
_INSERTED = (*_STORED, *_COUNTERS, "change", "content_hash", "normal_hash")
_UPDATED = tuple(name for name in _INSERTED if name not in marked(Record, Fixed) | marked(Counters, Fixed))
PARTITION = (
    "CASE substr(r.scope, 1, 7) WHEN 'shared/' THEN 'namespace/' || substr(r.scope, 8)"
    " WHEN 'private' THEN 'namespace/' || substr(r.scope, 9 + instr(substr(r.scope, 9), '/')) ELSE r.scope END"
)
"""The partition of a row `r` with a scope, as `partition_of` names it; the index records_by_partition has it so."""
RECORD_PARTS: Mapping[str, str] = {
    "{partition}": PARTITION,
    "{columns}": RECORD_COLUMNS,
    "{inserted_columns}": ", ".join(_INSERTED),
    "{inserted_values}": ", ".join(f":{name}" for name in _INSERTED),
    "{updates}": ", ".join(f"{name} = :{name}" for name in _UPDATED),
    "{words}": ", ".join(f"'$.{name}'" for name in marked(Record, CallerWords)),
}
"""The parts of statements that name fields of a record."""


def record_from_row(row: Iterable[Any]) -> Record:
    """Make a record from a row of RECORD_COLUMNS."""
    values = tuple(row)
    counts = values[len(_STORED) :]
    told = dict(zip(_STORED, values, strict=False))
    for name in _BOOLS:
        told[name] = bool(told[name])
    for name in _ARRAYS:
        told[name] = tuple(json.loads(told[name])) if told[name] != "[]" else ()
    for name in _OBJECTS:
        told[name] = json.loads(told[name]) if told[name] != "{}" else {}
    return Record(**told, counters=Counters(**dict(zip(_COUNTERS, counts, strict=True))) if any(counts) else _UNTOUCHED)


def record_to_columns(record: Record, change: int) -> dict[str, Column]:
    """Return all columns of `records` but the row number."""
    columns: dict[str, Column] = {name: getattr(record, name) for name in _STORED}
    columns.update({name: getattr(record.counters, name) for name in _COUNTERS})
    columns.update({name: int(getattr(record, name)) for name in _BOOLS})
    columns.update({name: json.dumps(getattr(record, name), ensure_ascii=False) for name in _ARRAYS})
    columns.update({name: json.dumps(dict(getattr(record, name)), ensure_ascii=False) for name in _OBJECTS})
    columns.update(change=change, content_hash=content_hash(record.text), normal_hash=normal_hash(record.text))
    return columns


def path_to_column(path: str) -> str | bytes:
    """Return a path as a column holds it: as bytes where the name of a folder is no text."""
    try:
        path.encode()
    except UnicodeEncodeError:
        return path.encode("utf-8", "surrogatepass")
    return path


def path_from_column(column: str | bytes) -> str:
    """Return the path that `path_to_column` stored."""
    return column.decode("utf-8", "surrogatepass") if isinstance(column, bytes) else column


def version_from_row(row: Row) -> Version:
    return Version(**{name: row[name] for name in _VERSION_FIELDS}, before=json.loads(row["before"]))


def version_to_columns(record_id: str, version: Version) -> dict[str, Column]:
    columns: dict[str, Column] = {name: getattr(version, name) for name in _VERSION_FIELDS}
    columns.update(record_id=record_id, before=json.dumps(dict(version.before), ensure_ascii=False))
    return columns


def task_from_row(row: Row) -> Task:
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


def task_change_from_row(row: Row) -> TaskChange:
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
    """Serialise the report without the components' texts. Its block comes last, where an erasure cuts it off."""
    shape = {field.name: getattr(report, field.name) for field in fields(report)}
    components = [{name: getattr(each, name) for name in _COMPONENT_FIELDS} for each in report.components]
    omitted = [{name: value for name, value in asdict(each).items() if value is not None} for each in report.omitted]
    told = {**shape, "components": components, "omitted": omitted, "metadata": dict(report.metadata)}
    block, _ = told.pop("block"), told.pop("is_erased")
    return json.dumps(told | ({"block": block} if block else {}))


def report_from_json(text: str) -> ContextReport:
    shape = json.loads(text)
    components = tuple(Component(**component) for component in shape.pop("components"))
    omitted = tuple(Omission(**omission) for omission in shape.pop("omitted"))
    block = tuple((each, text) for each, text in shape.pop("block", ()))
    return ContextReport(**shape, components=components, omitted=omitted, block=block)
