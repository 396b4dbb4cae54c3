"""Two people, two agents, two windows over stdio: each a process of its own on one memory."""

import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psutil
import pytest

from mcp_memory.bridge.door import owner_of
from tests.chroma import until
from tests.e2e.test_one_owner import arrived_at

if TYPE_CHECKING:
    from tests.e2e.conftest import ServerProcess

Start = Callable[..., "ServerProcess"]


@pytest.fixture
def start(tmp_path: Path, start_server: Start) -> Callable[[str], "ServerProcess"]:
    def start_one(agent: str) -> "ServerProcess":
        return start_server(tmp_path / "data", {"MCP_MEMORY_AGENT": agent, "MCP_MEMORY_SEMANTIC_STORE": "exact"})

    return start_one


def answered(server: "ServerProcess", tool: str, **arguments: Any) -> dict[str, Any]:
    result = server.call(tool, **arguments)
    assert not result.get("isError"), result
    return result["structuredContent"]


def refused(server: "ServerProcess", tool: str, **arguments: Any) -> str:
    result = server.call(tool, **arguments)
    assert result["isError"], result
    return result["content"][0]["text"]


def await_end(data_dir: Path, left: int) -> None:
    """Wait until the owner has noticed that only so many windows are left: it may have ended after the last one."""

    def has_noticed() -> bool:
        try:
            found = owner_of(str(data_dir))
            return not found or len(arrived_at(psutil.Process(int(str(found["pid"]))))) <= 1 + left  # And the listener.
        except psutil.Error:
            return True

    until(has_noticed)


def block(server: "ServerProcess") -> str:
    return server.call("assemble_context", max_tokens=600)["content"][0]["text"]


def test_what_one_agent_does_to_anothers_goal_is_asked_for_and_told(start: Callable[[str], "ServerProcess"]) -> None:
    """N5.1, N5.2: the measured case, from the first block to the owner's next."""
    ann, bob = start("ann"), start("bob")
    pushed = answered(ann, "push_task", goal="Ship the importer", plan=["Build it", "Announce it"])
    task = pushed["task"]["id"]
    assert f"- [{task} open, ann since " in block(bob)
    assert f"ann is in {task} (Ship the importer) since" in refused(bob, "push_task", task_id=task)
    answered(bob, "push_task", task_id=task, takeover=True)
    assert f"bob took over {task} (Ship the importer)" in block(ann)
    assert "bob took over" in refused(ann, "pop_task", result="shipped", cascade=True)
    ended = answered(bob, "pop_task", result="nobody wants it", status="abandoned", cascade=True)
    assert "abandoned" not in ended
    assert [(step["goal"], step["agent"]) for step in ended["left_open"]] == [
        ("Build it", "ann"), ("Announce it", "ann"),
    ]  # fmt: skip
    assert "abandoned: nobody wants it" in block(ann)
    entered = answered(ann, "push_task", task_id=pushed["planned"][0]["id"])
    assert [line.partition(" t0")[0] for line in entered["meanwhile"]] == ["bob took over", "bob ended"]
    assert "meanwhile" not in answered(ann, "pop_task", result="built")


def test_two_windows_of_one_agent_and_the_one_that_follows(
    start: Callable[[str], "ServerProcess"], tmp_path: Path
) -> None:
    """N5.3: neither moves the other; after a kill the next window goes on where that one was."""
    one, two = start("ann"), start("ann")
    answered(one, "push_task", goal="Ship the importer", plan=["Build it"])
    first = answered(two, "push_task", goal="Draw the chart")
    assert [task["goal"] for task in first["path"]] == ["Draw the chart"]
    step = answered(one, "push_task", goal="build it.")
    assert (step["note"], [task["goal"] for task in step["path"]]) == (
        "Entered the planned step of these words.", ["Ship the importer", "Build it"],
    )  # fmt: skip
    assert " open, another window of yours since " in block(two)
    assert "another window or session of yours is in" in refused(two, "push_task", task_id=step["task"]["id"])
    one.process.send_signal(signal.SIGKILL if sys.platform != "win32" else signal.SIGTERM)
    one.process.wait()
    await_end(tmp_path / "data", left=1)
    three = start("ann")
    ended = answered(three, "pop_task", result="built")
    assert (ended["popped"]["goal"], ended["current"]["goal"]) == ("Build it", "Ship the importer")
    assert answered(two, "pop_task", result="drawn")["popped"]["goal"] == "Draw the chart"


def test_where_several_windows_were_left_the_next_is_told_of_their_goals(
    start: Callable[[str], "ServerProcess"], tmp_path: Path
) -> None:
    """N5.3: and goes on with the one that it names."""
    one, two = start("ann"), start("ann")
    ship = answered(one, "push_task", goal="Ship the importer")["task"]["id"]
    answered(two, "push_task", goal="Draw the chart")
    one.stop()
    two.stop()
    await_end(tmp_path / "data", left=0)
    three = start("ann")
    assert f"- [{ship} open since " in block(three)
    assert "Open are yours" in refused(three, "pop_task", result="done")
    fresh = answered(three, "push_task", goal="Another")
    assert {task["goal"] for task in fresh["left_open"]} == {"Ship the importer", "Draw the chart"}
    assert [task["goal"] for task in answered(three, "push_task", task_id=ship)["path"]] == ["Ship the importer"]
