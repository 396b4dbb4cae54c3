"""Tells what a session holds when its client has compacted it, for the block at its new start.

It is read from the log and kept nowhere: what is erased or retired is gone from the next block as well.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Final

from mcp_memory.domain.model.records import Record
from mcp_memory.domain.model.scopes import Caller
from mcp_memory.domain.model.session_log import Count
from mcp_memory.domain.sessions.carry_over import CarriedLine, carried_over, fitted, room_for, shared_out
from mcp_memory.domain.sessions.subagents import TOOLS
from mcp_memory.domain.sessions.summary import StructuredSummary, parsed, rendered, structured
from mcp_memory.domain.sessions.summary import fitted as fitted_summary
from mcp_memory.domain.text.summary_sections import Section
from mcp_memory.ports.session_logs import SessionLogStore
from mcp_memory.ports.text import TokenCounter

SHARES: Final[Mapping[str, float]] = {"said": 0.55, "found": 0.2, "chosen": 0.15, "state": 0.1}
"""The part of the room that each kind has for sure, in the order in which they take what others leave."""
SAID: Final = (
    "What the user said in this session, in the user's own words and order; a rule holds until the user changes it:"
)
FOUND: Final = "What sub-agents reported:"
CHOSEN: Final = "What was chosen, the latest last:"
STATE: Final[tuple[Section, ...]] = (
    "state", "in_progress", "next_steps", "open_items", "dead_ends", "fixes", "changes", "values",
)  # fmt: skip
"""Sections of a checkpoint that tell what the user's words, the choices and the block's own tasks do not."""
MOST_VALUES: Final = 8
# "## Current state", which in a block would read as a section of ours
_TITLE = re.compile(r"^## (.*)$", re.MULTILINE)


class CarriedSession:
    """Thread-safe. Mechanical, as the checkpoint: it rewords nothing and asks no model."""

    def __init__(self, logs: SessionLogStore, counter: TokenCounter) -> None:
        self._logs = logs
        self._counter = counter

    def __call__(self, caller: Caller, checkpoint: Record | None, summaries: Sequence[str], max_tokens: int) -> str:
        """Return what the caller's session holds in at most so many counted tokens; "" where it holds nothing.

        `checkpoint` is the session's latest, None where it has none; `summaries` are the ids of what sums it up.

        Raises StoreUnavailable.
        """
        count = self._counter.count
        originals = self._logs.originals(caller, TOOLS)
        pointers = _pointers(caller, checkpoint, summaries, is_logged=bool(originals))
        carried = carried_over(originals, count)
        lines = {"said": carried.said, "found": carried.found, "chosen": carried.chosen}
        titles = {"said": SAID, "found": FOUND, "chosen": CHOSEN}
        state = _state(checkpoint)
        frames = {kind: count(titles[kind]) + 2 for kind in lines}
        wanted = {kind: frames[kind] + room_for(own) if own else 0 for kind, own in lines.items()}
        wanted["state"] = count(_shown(state)) + 2
        rooms = shared_out(wanted, SHARES, max(max_tokens - count(pointers) - 1, 0))
        parts = [_part(titles[kind], own, rooms[kind] - frames[kind], count) for kind, own in lines.items()]
        return "\n".join(part for part in (pointers, *parts, _cut(state, rooms["state"], count)) if part)


def _pointers(caller: Caller, checkpoint: Record | None, summaries: Sequence[str], *, is_logged: bool) -> str:
    """Name what is kept of the session though the client's window has lost it, by the ids that open it."""
    lines: list[str] = []
    if is_logged:
        session = f'session_id="{caller.session_id}"'
        lines.append(f"This session is kept word for word: `recall` with {session} and a query searches it.")
    if summaries:
        lines.append(f"Its summaries: {', '.join(summaries)}.")
    if checkpoint:
        lines.append(f"Where it stood before the compaction: {checkpoint.id}.")
    return "\n".join(lines)


def _part(title: str, lines: Sequence[CarriedLine], room: int, count: Count) -> str:
    shown = fitted(lines, room, count)
    return "\n".join([title, *(f"- {line}" for line in shown)]) if shown else ""


def _state(checkpoint: Record | None) -> StructuredSummary:
    """Return what the checkpoint alone tells."""
    told = parsed(checkpoint.text if checkpoint else "")
    return structured({**{section: told.of(section) for section in STATE}, "values": told.of("values")[-MOST_VALUES:]})


def _shown(state: StructuredSummary) -> str:
    return _TITLE.sub(r"\1:", rendered(state)).replace("\n\n", "\n")


def _cut(state: StructuredSummary, room: int, count: Count) -> str:
    """Return as many of the state's lines as fit; "" where not even the weightiest do."""
    text = _shown(fitted_summary(state, room, count))
    return text if count(text) <= room else ""
