"""Sessions in a few lines, for tests of what is read out of them."""

import json
from collections.abc import Sequence

from mcp_memory.domain.model.session_log import Entry, EntryKind, Role
from mcp_memory.domain.sessions.slots import slots_of
from mcp_memory.domain.text.summary_sections import Section

Line = tuple[str, str]
"""Who or which tool, and the text; a result's text behind a call's arguments, "!" before that of a failed one."""
_OTHERS: dict[str, tuple[EntryKind, Role]] = {"user": ("message", "user"), "assistant": ("message", "assistant")}


def session(*lines: Line) -> tuple[Entry, ...]:
    """A log; a call's line is "arguments => result"."""
    made: list[Entry] = []

    def add(kind: EntryKind, role: Role, text: str, tool: str | None = None, *, failed: bool = False) -> None:
        number = f"r{len(made):05}"
        made.append(
            Entry(
                id=number,
                kind=kind,
                role=role,
                text=text,
                tokens=len(text) // 4,
                at=0.0,
                covers=(number,),
                original_tokens=len(text) // 4,
                tool=tool,
                failed=failed,
            )
        )

    for who, text in lines:
        if who in _OTHERS:
            add(*_OTHERS[who], text)
            continue
        arguments, _, result = text.partition(" => ")
        add("tool_call", "assistant", arguments, who)
        add("tool_result", "tool", result.removeprefix("!"), who, failed=result.startswith("!"))
    return tuple(made)


def told(entries: Sequence[Entry], section: Section) -> list[str]:
    return [slot.text for slot in slots_of(entries) if slot.section == section]


def run(command: str, result: str) -> Line:
    return "Bash", f"{json.dumps({'command': command})} => {result}"
