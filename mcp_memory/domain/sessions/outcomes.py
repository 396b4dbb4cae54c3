"""Says what came of a session's calls, a line each: what failed, what went well, which files changed, who was asked.

Inputs and outputs are not quoted: other sessions read these lines unasked, and an output may be anybody's words.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from mcp_memory.domain.model.records import Instant, Kind
from mcp_memory.domain.model.session_log import Entry
from mcp_memory.domain.sessions.agent_actions import AgentAction, AgentActions
from mcp_memory.domain.sessions.tool_lines import CallLine, call_line, one_line

COMMAND_CHARACTERS, CAUSE_CHARACTERS, FILES_SHOWN = 80, 80, 8
_CLIENTS_OWN = frozenset({"read", "listed", "searched", "edited", "wrote", "ran"})
"""Acts of a client's tools that look at files, or are told otherwise."""
_OTHER_SERVER = "mcp__"


@dataclass(frozen=True, slots=True, kw_only=True)
class CallOutcome:
    """What came of calls, and the entry that tells of it: the last of those that did the same."""

    source: str
    at: Instant
    text: str
    kind: Kind = "tool_call"


def call_outcomes(entries: Sequence[Entry]) -> list[CallOutcome]:
    """Return what came of these entries' calls, the latest first within each sort, each thing once.

    What failed and was not repaired comes first, then what went well, the changed files, the pages and tools of others.

    `pytest tests/cargo → failed: KeyError 'phyto'`
    """
    actions = AgentActions(entries)
    found = [*_unanswered(entries), *_failed(actions), *_went_well(actions), *_files(actions), *_asked(actions)]
    return [*{each.text: each for each in reversed(found)}.values()][::-1]


def _unanswered(entries: Sequence[Entry]) -> Iterator[CallOutcome]:
    """Yield the command that was running when the session ended."""
    if entries and (last := entries[-1]).kind == "tool_call" and (line := call_line(last)).act == "ran":
        yield _outcome(last, f"{_command(line)} → not known: the session ended while it ran")


def _failed(actions: AgentActions) -> Iterator[CallOutcome]:
    for failure in reversed(actions.failures):
        did = failure.did
        if failure.fixed_at is None and did.command:
            # A test or build names its own error; another program's output may be a stranger's words.
            cause = one_line(did.error.removeprefix("FAILED "), CAUSE_CHARACTERS) if did.checks else ""
            told = f": {cause}" if cause not in ("", "failed") else ""
            yield _outcome(did.entry, f"{_command(did.line)} → failed{told}")


def _went_well(actions: AgentActions) -> Iterator[CallOutcome]:
    last: dict[str, AgentAction] = {did.line.key: did for did in actions.done if did.command}
    for did in sorted(last.values(), key=lambda each: -each.place):
        if (did.checks and did.went_well) or did.intervenes:
            yield _outcome(did.entry, f"{_command(did.line)} → succeeded")


def _files(actions: AgentActions) -> Iterator[CallOutcome]:
    """Yield one line of all files that were changed and are still there, the latest first."""
    entries = {did.entry.id: did.entry for did in actions.done}
    changed = [each for each in actions.changes if not each.is_gone and each.undone_at is None]
    changed.sort(key=lambda each: -each.edits[-1])
    if changed:
        shown = ", ".join(one_line(each.path, COMMAND_CHARACTERS) for each in changed[:FILES_SHOWN])
        more = f", and {len(changed) - FILES_SHOWN} more" if len(changed) > FILES_SHOWN else ""
        yield _outcome(entries[changed[0].source], f"changed {shown}{more}")


def _asked(actions: AgentActions) -> Iterator[CallOutcome]:
    """Yield the pages and the tools of others by name: their words stay where they are."""
    for did in reversed(actions.done):
        line = did.line
        if line.act == "fetched":
            yield _outcome(did.entry, one_line(f"f{line.done[1:]}".partition("?")[0], COMMAND_CHARACTERS))
        elif line.act not in _CLIENTS_OWN or line.tool.startswith(_OTHER_SERVER):
            yield _outcome(did.entry, f"called {line.tool}{'' if did.went_well else ' → failed'}")


def _command(line: CallLine) -> str:
    """Return the command alone: "make shard-4"."""
    return one_line(line.done.removeprefix("Ran ").strip("`"), COMMAND_CHARACTERS)


def _outcome(entry: Entry, text: str) -> CallOutcome:
    return CallOutcome(source=entry.id, at=entry.at, text=text)
