"""Finds what sub-agents reported: the results of the tools by which clients start them, and their later notices."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from mcp_memory.domain.memory.harness import CLIENTS_NOTE, NO_OUTPUT
from mcp_memory.domain.model.session_log import Entry
from mcp_memory.domain.sessions.tool_lines import call_fields, one_line

STARTERS: Final = frozenset(
    "Task Agent task agent subagent run_subagent runSubagent delegate_task delegate_to_agent codebase_investigator"
    " new_task spawn_agent".split()
)
"""Tools whose result is what a sub-agent reports, by their names in clients."""
WAITERS: Final = frozenset("TaskOutput AgentOutputTool wait wait_agent".split())
"""Tools that give a report later."""
TOOLS: Final = STARTERS | WAITERS
ASKED_CHARACTERS: Final = 80
_ASKED: Final = (
    "description",
    "subagent_type",
    "agent_name",
    "agent",
    "title",
    "objective",
    "message",
    "prompt",
    "task",
)
"""Arguments that say shortly what a sub-agent was asked, the shortest first."""
# "Async agent launched successfully. agentId: a1b2": the report comes later
_STARTED = re.compile(
    r"Async agent launched|(?:Agent|Task) (?:started|launched|spawned)|\{\"agent_id\":", re.IGNORECASE
)
# "agentId: a1b2 (for resuming …)", "<usage>total_tokens: 3</usage>"
_APPENDED = re.compile(r"^agentId: [^\n]*$|<usage>[^<]{0,500}</usage>", re.MULTILINE)
# "<summary>Agent "Review backend" completed</summary>\n<result>Root cause: …</result>"
_NOTICE = re.compile(r"<summary>(?:Agent|Task|Subagent) \"(?P<asked>[^\"\n]{1,200})\"[^<]{0,80}</summary>")
_RESULT, _OUTPUT = ("<result>", "</result>"), ("<output>", "</output>")
_OF_AGENT: Final = "agent</task_type>"
"""The mark in the answer of a waiter that waited for an agent, and no command."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SubagentReport:
    """A sub-agent's report, the question ("" where nothing says it), and the record that holds the report."""

    text: str
    asked: str
    source: str


def findings_in(entries: Sequence[Entry]) -> Iterator[SubagentReport]:
    """Yield the reports of sub-agents in these entries of a log, in order."""
    asked: dict[str, str] = {}
    for entry in entries:
        if entry.kind == "tool_call" and entry.tool in STARTERS:
            asked[entry.call_id or ""] = _asked(entry.text)  # Without an id the result follows.
        elif entry.kind == "tool_result" and entry.tool in TOOLS and (text := _reported(entry)):
            yield SubagentReport(text=text, asked=asked.get(entry.call_id or "", ""), source=entry.id)
        elif entry.kind == "message" and entry.role == "tool" and (notice := _NOTICE.search(entry.text)):
            text = _clean(_between(entry.text, _RESULT))
            if text:
                yield SubagentReport(text=text, asked=one_line(notice["asked"], ASKED_CHARACTERS), source=entry.id)


def _asked(arguments: str) -> str:
    given = call_fields(arguments) or {}
    found = (given.get(name) for name in _ASKED)
    return next((one_line(each, ASKED_CHARACTERS) for each in found if isinstance(each, str) and each.strip()), "")


def _reported(result: Entry) -> str:
    if result.tool in WAITERS and "<task_type>" in result.text:
        return _clean(_between(result.text, _OUTPUT)) if _OF_AGENT in result.text else ""
    text = result.text.strip()
    is_report = text not in ("", NO_OUTPUT, CLIENTS_NOTE) and not _STARTED.match(text)
    return _clean(text) if is_report else ""


def _between(text: str, marks: tuple[str, str]) -> str:
    """Return the text between two marks, "" where they are not there."""
    _, begins, behind = text.partition(marks[0])
    inside, ends, _ = behind.rpartition(marks[1])
    return inside if begins and ends else ""


def _clean(text: str) -> str:
    return " ".join(_APPENDED.sub("", text).split())
