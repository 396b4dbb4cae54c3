"""The screen of reads: which request gave which records to whom, of an agent or of one record, newest first."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from starlette.responses import Response

from mcp_memory.entrypoints.page.visits import Screen, Visit, checked_id
from mcp_memory.ports.reads import ReadEntry

PAGE_READS: Final = 50
LATEST_READS: Final = 10
"""Requests that a record's own page shows."""
_REQUEST = re.compile(r"[0-9a-f]{16}")  # "1f0c9a2b7d34e855"


def show_reads(visit: Visit) -> Response:
    """Show the log, as far as the visitor may know it."""
    app, caller, is_owner = visit.app, visit.caller, visit.visitor.is_owner
    record, agent = visit.asked("record"), visit.asked("of")
    before = visit.position(_REQUEST)
    if record:
        checked_id(record, "r")
        page = app.reads.of_record(record, caller, PAGE_READS, before, of_all=is_owner)
    else:
        page = app.reads.of_agent(caller, agent, PAGE_READS, before, of_all=is_owner)
    return visit.page(
        "reads.html",
        here="",
        record=record,
        agent=agent if is_owner or visit.may("admin") else caller.agent,
        days=app.reads.days,
        entries=page.entries,
        next_page=visit.further(*page.further) if page.further else "",
    )


def reads_of(visit: Visit, record_id: str) -> Sequence[ReadEntry]:
    """Return the latest requests that gave a record, for its own page; none where the memory keeps no log."""
    reads = visit.app.reads
    if not reads.days:
        return ()
    return reads.of_record(record_id, visit.caller, LATEST_READS, of_all=visit.visitor.is_owner).entries


SCREENS: Final = (Screen(path="/reads", answer=show_reads),)
