"""Versions: what each change of a record's truth replaced, and who made it. Independent of storage."""

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from itertools import takewhile
from typing import Any, get_origin

from mcp_memory.domain.model.field_marks import Told, Unversioned, marked, unmarked
from mcp_memory.domain.model.ids import number_of
from mcp_memory.domain.model.records import Details, Instant, Record

UPKEEP = "upkeep"
"""The agent of changes that nobody asked for: by age, by counters, by maintenance."""
CONFIRMED = "confirmed"
"""The reason of a change by further evidence (met again, used), which takes nothing back."""
_PLACES = {name: told.place for name, told in marked(Record, Told).items()}
TOLD = tuple(sorted(_PLACES, key=_PLACES.__getitem__))
"""Fields beside the text whose changes are told to people; others follow from them, or are the program's own."""
_UNVERSIONED = (*marked(Record, Unversioned), "updated_at")
_VERSIONED = ("updated_at", *(field.name for field in fields(Record) if field.name not in _UNVERSIONED))
_LISTS = tuple(field.name for field in fields(Record) if get_origin(unmarked(field.type)) is tuple)


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

    @property
    def told(self) -> tuple[str, ...]:
        """The names of what changed, as far as it is told to people; the text also where its words are gone."""
        fields = tuple(name for name in TOLD if name in self.before)
        return ("text", *fields) if "normal_hash" in self.before else fields

    @property
    def takes_back(self) -> bool:
        """True where somebody replaced what was told there; upkeep and confirmations take nothing back."""
        return bool(self.session_id and self.reason != CONFIRMED and self.told)


def is_storing(version: Version, record_id: str) -> bool:
    """Return True for the version of a new record by which an undo of its write retires it; nobody retired it before.

    `RecordWriter.let_undo_retire` makes such a version.
    """
    return version.before.get("status") == "retired" and version.write <= number_of(record_id)


def replaced_values(old: Record, new: Record) -> Details:
    """Return the old values of the fields that differ, without counters and access times; empty where none does."""
    changed = {name: getattr(old, name) for name in _VERSIONED if getattr(old, name) != getattr(new, name)}
    return changed | {"updated_at": old.updated_at} if changed.keys() - {"updated_at"} else {}


def before(record: Record, version: Version) -> Record:
    """Return the record as it was before that change; `record` is as it was after it."""
    values: dict[str, Any] = {name: value for name, value in version.before.items() if name in _VERSIONED}
    return replace(record, **values | {name: tuple(values[name]) for name in _LISTS if name in values})


def at_time(record: Record, history: Sequence[Version], at: Instant) -> Record | None:
    """Return the record as it was then, given its changes, oldest first; without what was found out since.

    None where it was not stored yet, or where the words that it had then were erased.
    """
    if record.created_at > at:
        return None
    for version in takewhile(lambda each: each.at > at, reversed(history)):
        if "normal_hash" in version.before and "text" not in version.before:
            return None
        record = before(record, version)
    changed = max((version.change for version in history if version.at <= at), default=0)
    return replace(record, changed=changed, check=())
