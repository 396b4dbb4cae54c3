"""The clients whose hooks are answered: how each says an event, and how it takes an answer. A row for each.

Inside, events have the names and the fields of Claude Code. The command that a client runs names the event so; the
file of hooks that `install` writes maps the client's names to them (`entrypoints/clients/catalogue.toml`).
"""

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final, TypeAlias, cast

from mcp_memory.errors import InvalidRequest

Told: TypeAlias = Mapping[str, object]
CLAUDE_CODE: Final = "claude-code"
_ADDS: Final = frozenset({"SessionStart", "UserPromptSubmit", "PreToolUse", "PreCompact"})
# "/c:/work/shop", a folder of Windows as Cursor names it
_DRIVE: Final = re.compile(r"/(?=[A-Za-z]:)")
# "*** Update File: src/a.py"
_PATCHED: Final = re.compile(r"^\*\*\* (?:(?:Add|Update|Delete) File|Move to): (.{1,1000})$", re.MULTILINE)


def _same(told: Told) -> Told:
    return told


def _denied(event: str, reason: str) -> Told:
    decision = {"permissionDecision": "deny", "permissionDecisionReason": reason}
    return {"hookSpecificOutput": {"hookEventName": event, **decision}}


def _added(event: str, text: str) -> Told:
    return {"hookSpecificOutput": {"hookEventName": event, "additionalContext": text}}


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientEvents:
    """One client. `read` turns its JSON into Claude Code's; `adds` are the events in which it takes a text.

    Tools get the names that they have in Claude Code, too: guardrails name those. `added` and `denied` make the JSON
    that the client takes, of the event's name and a text.
    """

    name: str
    read: Callable[[Told], Told] = _same
    adds: frozenset[str] = _ADDS
    added: Callable[[str, str], Told] = _added
    denied: Callable[[str, str], Told] = _denied

    def taken(self, event: str, output: str) -> str:
        """Return a hook's output in the client's form; "" for what it has no place for."""
        if self.name == CLAUDE_CODE or not output:
            return output
        try:
            said = cast("dict[str, dict[str, str]]", json.loads(output))["hookSpecificOutput"]
        except ValueError:  # An instruction to the client's summary, which no other client takes.
            return ""
        if reason := said.get("permissionDecisionReason"):
            return json.dumps(self.denied(event, reason))
        return json.dumps(self.added(event, said["additionalContext"])) if event in self.adds else ""


def _with_tool(told: Told, names: Mapping[str, str]) -> Told:
    tool = told.get("tool_name")
    return {**told, "tool_name": names.get(tool, tool) if isinstance(tool, str) else tool}


def _codex(told: Told) -> Told:
    """A patch is no command: it names the files that it changes."""
    given = told.get("tool_input")
    if told.get("tool_name") != "apply_patch" or not isinstance(given, Mapping):
        return told
    patch = cast("Told", given).get("command")
    paths = [path.strip() for path in _PATCHED.findall(patch)] if isinstance(patch, str) else []
    return {**told, "tool_name": "Edit", "tool_input": {"paths": paths}}


_GEMINI_TOOLS: Final[Mapping[str, str]] = {
    "run_shell_command": "Bash", "write_file": "Write", "replace": "Edit", "read_file": "Read", "web_fetch": "WebFetch",
}  # fmt: skip
_GEMINI_EVENTS: Final[Mapping[str, str]] = {"UserPromptSubmit": "BeforeAgent"}


def _gemini(told: Told) -> Told:
    """Its file of a session is one JSON document, written again each time: there is no log of it to continue."""
    return {**_with_tool(told, _GEMINI_TOOLS), "transcript_path": ""}


def _cursor(told: Told) -> Told:
    """The format of its file of a session is not documented."""
    roots = told.get("workspace_roots")
    folder = next((each for each in cast("list[object]", roots) if isinstance(each, str)), None) if roots else None
    session = told.get("session_id") or told.get("conversation_id")
    cwd = _DRIVE.sub("", folder, count=1) if folder else told.get("cwd")
    return {**_with_tool(told, {"Shell": "Bash"}), "session_id": session, "cwd": cwd, "transcript_path": ""}


OF_CLAUDE_CODE: Final = ClientEvents(name=CLAUDE_CODE)
CLIENTS: Final = (
    OF_CLAUDE_CODE,
    ClientEvents(name="codex", read=_codex, adds=_ADDS - {"PreCompact"}),
    ClientEvents(
        name="gemini-cli",
        read=_gemini,
        adds=frozenset({"SessionStart", "UserPromptSubmit"}),
        added=lambda event, text: _added(_GEMINI_EVENTS.get(event, event), text),
        denied=lambda _, reason: {"decision": "deny", "reason": reason},
    ),
    ClientEvents(
        name="cursor",
        read=_cursor,
        adds=frozenset({"SessionStart"}),
        added=lambda _, text: {"additional_context": text},
        denied=lambda _, reason: {"permission": "deny", "user_message": reason, "agent_message": reason},
    ),
)
"""docs/clients.md names the documents that these forms are taken from."""


def client_events(name: str) -> ClientEvents:
    """Return the row of a client; "" is Claude Code. Raises InvalidRequest for one that is not known."""
    for client in CLIENTS:
        if client.name == (name or CLAUDE_CODE):
            return client
    known = ", ".join(each.name for each in CLIENTS)
    raise InvalidRequest(f"--client {name[:40]!r} has no hooks here; known are {known}.")
