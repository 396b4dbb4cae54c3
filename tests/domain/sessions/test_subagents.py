"""Reports of sub-agents: the results of the tools that start them, and what is told later."""

from dataclasses import replace

import pytest

from mcp_memory.domain.memory.harness import NO_OUTPUT
from mcp_memory.domain.model.session_log import Entry
from mcp_memory.domain.sessions.subagents import findings_in
from tests.domain.sessions.made_sessions import session

NOTICE = (
    '<task-id>a1</task-id>\n<status>completed</status>\n<summary>Agent "Review backend" completed</summary>\n'
    "<result>The lock is taken twice in queue.py:31.</result>\n<usage>total_tokens: 3</usage>"
)


def told(entries: tuple[Entry, ...]) -> list[tuple[str, str]]:
    return [(each.asked, each.text) for each in findings_in(entries)]


@pytest.mark.parametrize("tool", ["Task", "Agent", "task", "runSubagent", "spawn_agent"])
def test_whatever_the_client_calls_it_its_result_is_a_report(tool: str) -> None:
    assert told(session((tool, '{"prompt": "Look at it"} => It is slow.'))) == [("Look at it", "It is slow.")]


@pytest.mark.parametrize("text", ["Async agent launched successfully.\nagentId: a1", '{"agent_id": "a1"}', NO_OUTPUT])
def test_a_start_is_no_report(text: str) -> None:
    assert told(session(("Task", f"{{}} => {text}"))) == []


def test_what_is_waited_for_is_a_report_where_an_agent_gave_it() -> None:
    agent = "<task_type>local_agent</task_type>\n<output>\nThe cache drops rows.\n</output>"
    assert told(session(("TaskOutput", f"{{}} => {agent}"))) == [("", "The cache drops rows.")]
    assert told(session(("TaskOutput", f"{{}} => {agent.replace('agent', 'bash')}"))) == []
    assert told(session(("wait", "{} => It is done."))) == [("", "It is done.")]


def test_a_notice_tells_the_report_of_an_agent_in_the_background() -> None:
    [entry] = session(("user", NOTICE))
    notice = replace(entry, role="tool")
    assert told((notice,)) == [("Review backend", "The lock is taken twice in queue.py:31.")]
    assert told((replace(notice, text=NOTICE.replace("<result>", "")),)) == []
    assert told((entry,)) == []
