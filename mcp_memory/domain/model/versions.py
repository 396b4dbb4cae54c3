"""Versions: what each change of a record's truth replaced, and who made it. Independent of storage."""

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

from mcp_memory.domain.model.ids import number_of
from mcp_memory.domain.model.records import Details, Instant, Record

UPKEEP = "upkeep"
"""The agent of changes that nobody asked for: by age, by counters, by maintenance."""
CONFIRMED = "confirmed"
"""The reason of a change by further evidence (met again, used), which takes nothing back."""
_TELEMETRY = ("counters", "accessed_at")
_VERSIONED = ("updated_at", *(field.name for field in fields(Record) if field.name not in (*_TELEMETRY, "updated_at")))


@dataclass(frozen=True, slots=True, kw_only=True)
class Version:
    """A change of one record: what was true of it until `at`, and who changed it.

    `change` is the number of the change, `write` that of the first change of the same atomic write. `before` maps each
    field of `Record` that changed to its JSON value until then; beside a text stands its `normal_hash`, which stays
    where the words must go. The session is "" for a change by upkeep, the agent as well for one of unknown origin.
    `undone` is the number of the write that took this one back, its own for that of the undo; else 0.
    """

    change: int
    write: int
    at: Instant
    agent: str = UPKEEP
    client: str = ""
    session_id: str = ""
    reason: str = ""
    before: Details
    undone: int = 0


def replaced_values(old: Record, new: Record) -> Details:
    """Return the old values of the fields that differ, without counters and access times; empty where none does."""
    changed = [name for name in _VERSIONED[1:] if getattr(old, name) != getattr(new, name)]
    return {name: getattr(old, name) for name in ("updated_at", *changed)} if changed else {}


def before(record: Record, version: Version) -> Record:
    """Return the record as it was before that change; `record` is as it was after it."""
    values: dict[str, Any] = {name: value for name, value in version.before.items() if name in _VERSIONED}
    if "tags" in values:
        values["tags"] = tuple(values["tags"])
    return replace(record, **values)


def version_number(record: Record, history: Sequence[Version]) -> int:
    """Return the number of the change that made the record what it is; `history` is oldest first."""
    return history[-1].change if history else number_of(record.id)
