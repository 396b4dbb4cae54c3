"""What the tools and the resource say of tasks, over the protocol."""

import json
from typing import TYPE_CHECKING, Any

import pytest
from mcp import Client

from mcp_memory.entrypoints.server.answers import MAX_LISTED_CHARS, MAX_SHOWN_CHARS, MAX_TASKS
from mcp_memory.entrypoints.server.mcp_server import build_server

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from mcp_memory.app import App

pytestmark = pytest.mark.anyio


@pytest.fixture
async def client(app: "App") -> "AsyncIterator[Client]":
    async with Client(build_server(app)) as connected:
        yield connected


async def call(client: Client, tool: str, **arguments: Any) -> dict[str, Any]:
    """What a tool answers, for programs."""
    result = await client.call_tool(tool, arguments)
    assert result.structured_content is not None, result.content
    return result.structured_content


async def tasks(client: Client) -> dict[str, Any]:
    (content,) = (await client.read_resource("memory://tasks")).contents
    return json.loads(getattr(content, "text", ""))


def goals(listed: list[dict[str, Any]]) -> list[str]:
    return [task["goal"] for task in listed]


async def test_every_answer_says_where_one_stands_and_what_comes_next(client: Client) -> None:
    """T1.1: push, plan, pop and peek alike, with the ids to go on with."""
    pushed = await call(client, "push_task", goal="ship", plan=["build", "test"], success_criteria="all green")
    assert (goals(pushed["path"]), goals(pushed["planned"])) == (["ship"], ["build", "test"])
    step = pushed["planned"][0]["id"]
    planned = await call(client, "push_task", plan=["compile"], parent_id=step)
    assert (planned["task"]["id"], goals(planned["planned"])) == (step, ["compile", "test"])
    assert goals(planned["path"]) == ["ship"]
    inside = await call(client, "push_task", task_id=step)
    assert goals(inside["path"]) == ["ship", "build"]
    blocked = await call(client, "pop_task", result="no disk", status="blocked")
    assert (blocked["current"]["goal"], blocked["current"]["success_criteria"]) == ("ship", "all green")
    assert [task.get("status") for task in blocked["planned"]] == ["blocked", None]
    popped = await call(client, "pop_task", result="no use", status="abandoned", task_id=step, cascade=True)
    assert (popped["popped"]["status"], goals(popped["abandoned"])) == ("abandoned", ["compile"])
    assert (goals(popped["path"]), goals(popped["planned"])) == (["ship"], ["test"])
    peeked = await tasks(client)
    assert peeked["current"] == pushed["task"]["id"]
    assert (peeked["path"], peeked["planned"]) == (popped["path"], popped["planned"])


async def test_the_tree_shows_depth_dead_ends_results_and_branches(client: Client) -> None:
    """T1.1, T1.3, T4.2, T4.3: below their parents, in the order they were made."""
    assert await tasks(client) == {"current": None, "path": [], "planned": [], "tasks": [], "omitted": 0}
    await call(client, "push_task", goal="ship", success_criteria="green")
    await call(client, "push_task", goal="try pip", branch=True)
    await call(client, "pop_task", result="no wheel", status="failed", artifacts=["log.txt"])
    (root,) = (await tasks(client))["tasks"]
    (below,) = root.pop("subtasks")
    assert {name: root[name] for name in ("goal", "status", "depth", "success_criteria")} == {
        "goal": "ship", "status": "active", "depth": 0, "success_criteria": "green",
    }  # fmt: skip
    assert not root.keys() & {"dead_end", "result", "branch", "artifacts"}
    assert {name: below[name] for name in ("depth", "dead_end", "result", "branch", "artifacts", "subtasks")} == {
        "depth": 1, "dead_end": True, "result": "no wheel", "branch": True, "artifacts": ["log.txt"], "subtasks": [],
    }  # fmt: skip


async def test_of_a_long_tree_the_resource_shows_what_is_open_and_counts_the_rest(client: Client) -> None:
    """T1.1, T5.1: long goals and results by their beginnings; an id opens them."""
    await call(client, "push_task", goal="ship")
    for start in range(0, MAX_TASKS, 100):
        await call(client, "push_task", plan=[f"step {start + n}" for n in range(100)])
    await call(client, "push_task", goal="x" * 2_000)
    done = await call(client, "pop_task", result="y" * 9_000)
    assert len(done["planned"]) == 100
    shown = await tasks(client)
    assert shown["omitted"] == 2
    (root,) = shown["tasks"]
    assert len(root["subtasks"]) == MAX_TASKS - 1
    await call(client, "pop_task", result="y" * 9_000, cascade=True)
    deep = await call(client, "push_task", goal="z" * 2_000)
    assert len(deep["path"][0]["goal"]) == MAX_LISTED_CHARS + 1
    (old, new) = (await tasks(client))["tasks"]
    assert len(old["result"]) == MAX_SHOWN_CHARS + 1
    assert new["goal"] == "z" * 2_000
    opened = await call(client, "recall", ids=[old["id"]], max_tokens=20_000)
    assert opened["results"][0]["text"] == f"ship → {'y' * 9_000}"


async def test_control_characters_are_cleaned_and_counted_in_every_answer(client: Client) -> None:
    """D8.2: of goals, results and corrections."""
    pushed = await call(client, "push_task", goal="Fix \x1b[1mCI\x1b[0m", plan=["one\x00"])
    assert (pushed["task"]["goal"], pushed["cleaned"]) == ("Fix CI", 3)
    assert [goal["goal"] for goal in pushed["planned"]] == ["one"]
    popped = await call(client, "pop_task", result="\x07green", artifacts=["a\x08"], cascade=True)
    assert (popped["popped"]["artifacts"], popped["cleaned"]) == (["a"], 2)
    stored = (await call(client, "remember", text="Port 5432"))["records"][0]
    assert "cleaned" not in stored
    revised = await call(client, "revise", id=stored["id"], text="Port\x1b[0m 5433")
    assert (revised["text"], revised["cleaned"]) == ("Port 5433", 1)


async def test_a_goal_said_again_is_entered_and_one_that_ended_is_named(client: Client) -> None:
    """W4.2: in one line."""
    pushed = await call(client, "push_task", goal="Ship the tables")
    again = await call(client, "push_task", goal="ship the tables")
    assert again["task"]["id"] == pushed["task"]["id"]
    assert again["note"] == "Entered your open task of these words again."
    popped = await call(client, "pop_task", result="no disk", status="failed")
    assert popped["current"] is None
    told = await call(client, "push_task", goal="Ship the tables")
    assert told["note"].startswith(f"Of the same meaning: [{pushed['task']['id']} failed ")
    assert told["note"].endswith("] Ship the tables → no disk.")
    steps = await call(client, "push_task", plan=["Store"])
    ended = await call(client, "pop_task", result="done", cascade=True)
    assert goals(ended["ended"]) == goals(steps["planned"]) == ["Store"]


async def test_what_was_left_open_is_named_with_the_goals_above_it(client: Client) -> None:
    """W4.2: a step alone does not say what it is for."""
    await call(client, "push_task", goal="Ship the tables", session_id="one")
    await call(client, "push_task", goal="Write tests", session_id="one")
    new = await call(client, "push_task", goal="Draw the chart", session_id="two")
    assert [(each["goal"], each["within"]) for each in new["left_open"]] == [("Write tests", ["Ship the tables"])]
