"""The task stack: in and out."""

from collections.abc import Callable
from typing import Any

import pytest

from mcp_memory.app import App
from mcp_memory.domain.model.records import NewRecord
from mcp_memory.domain.model.tasks import Stack
from mcp_memory.errors import Conflict, InvalidRequest, NotFound
from mcp_memory.services.context.assemble import ContextRequest
from mcp_memory.services.retrieval.recall import RecallRequest
from mcp_memory.services.tasks import task_stack
from tests.services.tasks.moves import goals, pop, push, statuses

TOKEN = "ghp_" + "Ab3" * 12


def test_push_goes_down_and_pop_comes_back_up(app: App) -> None:
    """T1.1: the path, depth and parent agree at every step; peeking moves nobody."""
    assert goals(app.tasks.stack(app.caller())) == []
    assert goals(push(app, "ship")) == ["ship"]
    assert goals(push(app, "build")) == ["ship", "build"]
    stack = push(app, "  compile \n")
    assert goals(stack) == ["ship", "build", "compile"]
    assert [task.depth for task in stack.path] == [0, 1, 2]
    assert [task.parent_id for task in stack.path[1:]] == [task.id for task in stack.path[:-1]]
    assert app.tasks.stack(app.caller()) == app.tasks.stack(app.caller()) == stack
    popped = pop(app, "compiled", artifacts=("a.out",))
    assert (popped.popped.goal, popped.popped.result, popped.popped.artifacts) == ("compile", "compiled", ("a.out",))
    assert goals(popped.stack) == ["ship", "build"]
    assert [child.goal for child in popped.stack.children] == ["compile"]


def test_popping_the_root_ends_the_tree(app: App) -> None:
    """T1.2: then one stands nowhere, cannot pop again, and the next goal is a new root."""
    push(app, "ship")
    assert pop(app).stack == Stack()
    with pytest.raises(NotFound, match="in no task; call push_task"):
        pop(app)
    assert [task.depth for task in push(app, "next").path] == [0]


def test_a_pop_needs_a_result(app: App) -> None:
    """T1.1: also a failed one; nothing moved."""
    push(app, "ship")
    with pytest.raises(InvalidRequest, match="result is empty"):
        pop(app, " \n", status="failed")
    assert statuses(app) == {"ship": "active"}


@pytest.mark.parametrize("status", ["complete", "failed", "abandoned"])
def test_a_task_ends_as_it_is_said(app: App, status: Any) -> None:
    """T1.1: and cannot be ended or entered twice."""
    task = push(app, "ship").path[0]
    assert pop(app, status=status).popped.status == status
    with pytest.raises(Conflict, match=f"is {status} already"):
        pop(app, task_id=task.id)
    with pytest.raises(Conflict, match="push its goal again"):
        push(app, task_id=task.id)
    with pytest.raises(Conflict, match="name an open task"):
        push(app, "more", parent_id=task.id)


def test_a_dead_end_is_shown_as_one_and_never_as_a_fact(app: App) -> None:
    """T1.3: failed and abandoned."""
    push(app, "ship")
    for goal, status in (("try pip", "failed"), ("ask upstream", "abandoned"), ("try uv", "complete")):
        push(app, goal)
        pop(app, f"result of {goal}", status=status)
    text = app.assemble_context(ContextRequest(), app.caller()).text
    assert "- dead end (failed) [t" in text
    assert "- dead end (abandoned) [t" in text
    assert "]: try uv → result of try uv" in text
    assert text.index("dead end") < text.index("- done")
    found = app.recall(RecallRequest(query="result of try pip"), app.caller()).results[0]
    assert (found["kind"], found["text"]) == ("result", "try pip → dead end (failed): result of try pip")


def test_popping_above_unfinished_children_is_refused_with_their_names(app: App) -> None:
    """T1.2: planned and active ones alike; nothing changed."""
    root = push(app, "ship", plan=("test", "release")).path[0]
    push(app, "build")
    with pytest.raises(Conflict, match="3 unfinished subtasks") as refused:
        pop(app, task_id=root.id)
    assert all(goal in str(refused.value) for goal in ("test", "release", "build"))
    assert set(statuses(app).values()) == {"active", "planned"}


def test_a_cascade_ends_everything_below_and_keeps_what_was_achieved(app: App) -> None:
    """T1.2: finished results stay; the rest is abandoned, down to grandchildren; one stands above."""
    push(app, "quarter")
    root = push(app, "ship", plan=("release",)).path[1]
    push(app, "build")
    pop(app, "built")
    push(app, "docs")
    push(app, "write")
    popped = pop(app, "out of time", task_id=root.id, status="failed", cascade=True)
    assert goals(popped.stack) == ["quarter"]
    assert statuses(app) == {
        "quarter": "active", "ship": "failed", "release": "abandoned", "build": "complete", "docs": "abandoned",
        "write": "abandoned",
    }  # fmt: skip
    results = {task.goal: task.result for task in app.tasks.tree(app.caller())}
    assert results["build"] == "built"
    assert results["write"] == f"ended with its parent {root.id}"


@pytest.mark.parametrize(("goal", "task_id"), [("", None), ("  ", None), ("x", "t000001")])
def test_a_push_says_one_thing(app: App, goal: str, task_id: str | None) -> None:
    """T1.1: a goal, a task, or a plan."""
    with pytest.raises(InvalidRequest, match="Give goal for a new task"):
        push(app, goal, task_id=task_id)


def test_unknown_ids_are_refused_and_nothing_is_made(app: App) -> None:
    """T1.1, T4.1: task, parent and inherited records."""
    with pytest.raises(NotFound, match="No task 't00zzzz'"):
        push(app, task_id="t00zzzz")
    with pytest.raises(NotFound, match="No task 't00zzzz'"):
        push(app, "x", parent_id="t00zzzz")
    with pytest.raises(NotFound, match="inherit: no record 'r00zzzz'"):
        push(app, "x", inherit=("r00zzzz",))
    with pytest.raises(NotFound, match="No task"):
        pop(app, task_id="t00zzzz")
    assert list(app.tasks.tree(app.caller())) == []


def test_what_a_task_inherits_adds_up_when_it_is_entered_again(app: App) -> None:
    """T4.1: named at the push, or later."""
    first, second = (each.id for each in app.remember([NewRecord(text="One."), NewRecord(text="Two.")], app.caller()))
    task = push(app, "ship", inherit=(first,)).path[0]
    entered = push(app, task_id=task.id, inherit=(second, first), success_criteria="green").path[0]
    assert (entered.inherit, entered.success_criteria) == ((first, second), "green")
    assert push(app, task_id=task.id).path[0].success_criteria == "green"


def test_the_tree_survives_a_restart(app: App, open_memory: Callable[..., App]) -> None:
    """T3.1: with everyone's place."""
    before = push(app, "ship", plan=("test",), success_criteria="green")
    app.close()
    again = open_memory()
    assert again.tasks.stack(again.caller()) == before


def test_secrets_are_cut_out_of_all_that_a_task_says(app: App) -> None:
    """R4: goal, plan, criteria, result and artifacts."""
    push(app, f"use {TOKEN}", plan=(f"plan {TOKEN}",), success_criteria=f"met {TOKEN}")
    task = app.tasks.stack(app.caller()).path[0]
    push(app, task_id=task.id, success_criteria=f"again {TOKEN}")
    pop(app, f"got {TOKEN}", artifacts=(f"curl -H {TOKEN}",), cascade=True)
    assert TOKEN not in repr(app.tasks.tree(app.caller()))
    assert "[REDACTED GitHub Token]" in repr(app.tasks.tree(app.caller()))


def test_a_stack_that_only_ever_grows_stops_somewhere(app: App, monkeypatch: pytest.MonkeyPatch) -> None:
    """S3.1: said with what to do, before the tree is too deep to show."""
    monkeypatch.setattr(task_stack, "MAX_DEPTH", 3)
    for level in range(4):
        push(app, f"level {level}")
    with pytest.raises(Conflict, match="pop finished tasks"):
        push(app, "one more")
