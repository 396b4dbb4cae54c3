"""Which status a record has and may take. One table; what is not in it is refused."""

from collections.abc import Mapping
from dataclasses import replace

from mcp_memory.domain.records import Instant, Kind, NewRecord, Record, Status
from mcp_memory.errors import Conflict

CORE_CONFIRMATIONS = 3
_FACT_ALIVE: frozenset[Status] = frozenset({"new", "confirmed", "core"})

TRANSITIONS: Mapping[Status, frozenset[Status]] = {
    "new": frozenset({"confirmed", "core", "superseded", "inactive", "retired"}),
    "confirmed": frozenset({"core", "superseded", "inactive", "retired"}),
    "core": frozenset({"superseded", "inactive", "retired"}),
    "active": frozenset({"superseded", "inactive", "retired"}),
    "superseded": frozenset({"inactive", "retired", "new", "active"}),
    "inactive": frozenset({"retired", "new", "active"}),
    "retired": frozenset({"new", "active"}),
}
"""From each status to those it may become. `new` (facts) and `active` (the rest) are also what restoring leads to."""


def first_status(kind: Kind) -> Status:
    """The status of a record that was just stored or restored."""
    return "new" if kind == "fact" else "active"


def moved_to(record: Record, status: Status) -> Record:
    """The record in another status.

    Raises:
        Conflict: the table does not allow it for this record.
    """
    if status == record.status:
        return record
    is_fact_status = status in _FACT_ALIVE
    fits_kind = is_fact_status == (record.kind == "fact") or status in ("superseded", "inactive", "retired")
    if status not in TRANSITIONS[record.status] or not fits_kind:
        allowed = sorted(s for s in TRANSITIONS[record.status] if (s in _FACT_ALIVE) <= (record.kind == "fact"))
        allowed = [s for s in allowed if s != "active" or record.kind != "fact"]
        raise Conflict(
            f"A {record.kind} that is {record.status} cannot become {status}; it can be {', '.join(allowed)}."
        )
    return replace(record, status=status, superseded_by=record.superseded_by if status == "superseded" else None)


def refuse_hidden_successor(old: Record, newer: Record) -> None:
    """Raise Conflict where some who see the old record could not see the newer one, and would be left with neither."""
    is_seen_as_widely = newer.scope == old.scope or newer.visibility == "user"
    if not is_seen_as_widely or newer.branch_id not in (None, old.branch_id):
        where = "in an open branch" if is_seen_as_widely else newer.visibility
        raise Conflict(
            f"{old.id} is {old.visibility} and cannot be superseded by one that is {where}: others do not see that."
        )


def after_succession(record: Record, newer_id: str, now: Instant) -> Record:
    """The record replaced by a newer one. What was retired or proven wrong stays out of search."""
    status = "superseded" if record.is_live else record.status
    return replace(record, status=status, superseded_by=newer_id, updated_at=now)


def with_more_said(record: Record, item: NewRecord) -> Record:
    """The record with what the item says beyond its text: the higher importance, a pin, further tags, an outcome."""
    return replace(
        record,
        importance=max(record.importance, item.importance),
        confidence=record.confidence if item.confidence is None else item.confidence,
        pinned=record.pinned or item.pinned,
        tags=tuple(dict.fromkeys((*record.tags, *item.tags))),
        outcome=item.outcome or record.outcome,
    )


def after_confirmation(record: Record, now: Instant) -> Record:
    """The record met again in another session: facts rise to confirmed, and to core at three confirmations."""
    confirmed = record.counters.confirmed + 1
    status = record.status
    if status in _FACT_ALIVE:
        status = "core" if status == "core" or confirmed >= CORE_CONFIRMATIONS else "confirmed"
    return replace(record, counters=replace(record.counters, confirmed=confirmed), status=status, updated_at=now)
