"""Says that a memory holds nothing: an agent in the wrong namespace learns where there is something."""

from dataclasses import replace

from mcp_memory.domain.model.records import Instant
from mcp_memory.domain.model.scopes import Caller
from mcp_memory.domain.text.prompt_safety import one_line
from mcp_memory.domain.text.times import iso_day
from mcp_memory.ports.records import RecordStore
from mcp_memory.services.tasks.branch_visibility import visible_to

NAMED = 5
"""Most other namespaces to name."""


def nothing_stored_by(records: RecordStore, caller: Caller, at: Instant) -> str:
    """Return a line that says so where the caller's memory held no record at that time; else ""."""
    where = replace(visible_to(records, caller), include_inactive=True)
    if records.stored_by(where, at, changed=False) or records.stored_by(where, at, changed=True):
        return ""
    return f"Nothing was stored yet on {iso_day(at)}; as_of tells what was believed then, valid_at what was true then."


def nothing_stored(records: RecordStore, caller: Caller) -> str:
    """Return a line that says so where the caller's memory holds neither record nor task; else "".

    It names other namespaces with something in them, of those that the caller may know of.
    """
    if records.list_ids(visible_to(records, caller), "occurred", 1) or records.tasks(caller.namespace):
        return ""
    others = [
        one_line(name)
        for name in records.shared_namespaces()
        if name != caller.namespace and (caller.knows is None or name in caller.knows)
    ]
    more = f" and {len(others) - NAMED} more" if len(others) > NAMED else ""
    elsewhere = f" There is something in: {', '.join(others[:NAMED])}{more}." if others else ""
    return f"Nothing is stored in the namespace {one_line(caller.namespace)} yet.{elsewhere}"
