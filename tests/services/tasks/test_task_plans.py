"""Plans: steps ahead that wait, are begun, blocked or given up."""

from collections.abc import Callable
from typing import Any

import pytest

from mcp_memory.app import App
from mcp_memory.errors import Conflict, InvalidRequest, NotFound
from tests.services.tasks.moves import goals, insist, pop, push, statuses


def test_a_plan_waits_below_its_goal_and_each_step_can_be_entered(app: App) -> None:
    """T4.1: hierarchical decomposition, at once or later."""
    stack = push(app, "ship", plan=("build", "test"))
    assert [task.goal for task in stack.planned] == ["build", "test"]
    assert [task.status for task in stack.planned] == ["planned", "planned"]
    stack = push(app, plan=("release",))
    assert [task.goal for task in stack.planned] == ["build", "test", "release"]
    assert goals(stack) == ["ship"]
    inside = push(app, task_id=stack.planned[0].id)
    assert goals(inside) == ["ship", "build"]
    assert inside.current is not None
    assert inside.current.status == "active"
    assert [task.goal for task in inside.planned] == ["test", "release"]
    assert [task.goal for task in pop(app).stack.planned] == ["test", "release"]


def test_a_plan_needs_a_task_to_wait_in(app: App, open_memory: Callable[..., App]) -> None:
    """T4.1: neither nowhere, nor below a task that another agent has ended meanwhile."""
    with pytest.raises(NotFound, match="push_task with a goal first"):
        push(app, plan=("build",))
    task = push(app, "ship").path[0]
    bob = open_memory(agent="bob")
    insist(bob, task_id=task.id)
    with pytest.raises(NotFound, match="push_task with a goal first"):
        push(app, plan=("build",))
    assert statuses(app) == {"ship": "complete"}


def test_a_plan_with_an_empty_goal_is_refused_whole(app: App) -> None:
    """S3.1: before anything is stored."""
    with pytest.raises(InvalidRequest, match="empty goal"):
        push(app, "ship", plan=("build", " "))
    assert statuses(app) == {}


def test_a_blocked_task_keeps_its_children_and_can_be_entered_again(app: App) -> None:
    """T1.1, T4.1: until it is complete; why it was blocked is shown meanwhile."""
    push(app, "ship")
    task = push(app, "sign", plan=("find the key",), success_criteria="signed").path[1]
    popped = pop(app, "no key", status="blocked", artifacts=("log",))
    assert goals(popped.stack) == ["ship"]
    assert [waiting.goal for waiting in popped.stack.planned] == ["sign"]
    again = push(app, task_id=task.id)
    assert goals(again) == ["ship", "sign"]
    assert [child.status for child in again.children] == ["planned"]
    push(app, task_id=again.children[0].id)
    pop(app, "found it")
    ended = pop(app, "signed it", artifacts=("log", "signature")).popped
    assert (ended.result, ended.artifacts, ended.success_criteria) == ("signed it", ("log", "signature"), "signed")


def test_a_step_of_a_plan_is_given_up_with_its_own_steps_without_being_entered(app: App) -> None:
    """T4.1, T1.2: for a reason, which is its result; refused with their names unless asked; nobody moves."""
    stack = push(app, "ship", plan=("build", "announce"))
    build, announce = stack.planned
    push(app, plan=("compile", "link"), parent_id=build.id)
    with pytest.raises(Conflict, match=r"2 unfinished subtasks: t\w+ \(compile\); t\w+ \(link\)\. Pop them"):
        pop(app, "bought instead", task_id=build.id, status="abandoned")
    with pytest.raises(InvalidRequest, match="or is given up"):
        pop(app, "", task_id=build.id, status="abandoned", cascade=True)
    popped = pop(app, "bought instead", task_id=build.id, status="abandoned", cascade=True)
    assert goals(popped.stack) == ["ship"]
    assert popped.popped.result == "bought instead"
    assert [(task.goal, task.status) for task in popped.cascaded] == [("compile", "abandoned"), ("link", "abandoned")]
    assert popped.stack.planned == (announce,)
    assert popped.stack.dead_ends == (popped.popped,)
    assert pop(app, "not our job", task_id=announce.id, status="abandoned").cascaded == ()


def test_a_step_of_a_plan_is_blocked_and_started_later(app: App) -> None:
    """T4.1: why it waits is kept with it; what was planned below it stays."""
    step = push(app, "ship", plan=("sign",)).planned[0]
    push(app, plan=("find the key",), parent_id=step.id)
    stack = pop(app, "no key yet", task_id=step.id, status="blocked").stack
    assert [(task.goal, task.status, task.result) for task in stack.planned] == [("sign", "blocked", "no key yet")]
    started = push(app, task_id=step.id)
    assert goals(started) == ["ship", "sign"]
    assert [task.goal for task in started.planned] == ["find the key"]


def test_a_plan_is_made_for_any_open_task_without_going_there(app: App, open_memory: Callable[..., App]) -> None:
    """T4.1, T3.2: level by level, also for another agent's task; not for one that is over."""
    push(app, "mine")
    bob = open_memory(agent="bob")
    root = push(bob, "ship", plan=("build",)).path[0]
    stack = push(app, plan=("release", "announce"), parent_id=root.id)
    assert [task.goal for task in stack.planned] == ["build", "release", "announce"]
    deeper = push(app, plan=("compile",), parent_id=stack.planned[0].id)
    assert [(task.goal, task.depth, task.status) for task in deeper.planned[:1]] == [("compile", 2, "planned")]
    assert goals(app.tasks.stack(app.caller())) == ["mine"]
    assert goals(bob.tasks.stack(bob.caller())) == ["ship"]
    pop(bob, cascade=True)
    with pytest.raises(Conflict, match=r"Parent t\w+ is complete; name an open task"):
        push(app, plan=("more",), parent_id=root.id)


def test_who_begins_a_step_has_begun_what_it_is_for(app: App, open_memory: Callable[..., App]) -> None:
    """T4.1, T1.1: every planned task above is active then; a blocked one stays blocked."""
    first, second = push(app, "ship", plan=("build", "test")).planned
    below = push(app, plan=("compile",), parent_id=first.id).planned[0]
    bob = open_memory(agent="bob")
    stack = push(bob, task_id=push(app, plan=("parse",), parent_id=below.id).planned[0].id)
    assert [(task.goal, task.status, task.agent) for task in stack.path] == [
        ("ship", "active", "default"), ("build", "active", "bob"), ("compile", "active", "bob"),
        ("parse", "active", "bob"),
    ]  # fmt: skip
    pop(app, "no machine", task_id=second.id, status="blocked")
    assert [task.status for task in push(app, "find a machine", parent_id=second.id).path] == [
        "active", "blocked", "active",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("fields", "says"),
    [
        ({"task_id": "t000001", "parent_id": "t000002"}, "leave parent_id out"),
        ({"plan": ("x",), "branch": True}, "give goal or task_id"),
        ({"plan": ("x",), "inherit": ("r000001",)}, "give goal or task_id"),
        ({"plan": ("x",), "success_criteria": "green"}, "give goal or task_id"),
    ],
)
def test_what_a_push_would_pass_over_is_refused(app: App, fields: dict[str, Any], says: str) -> None:
    """S3.1: nothing is changed."""
    before = push(app, "ship")
    with pytest.raises(InvalidRequest, match=says):
        push(app, **fields)
    assert app.tasks.stack(app.caller()) == before


def test_a_plan_that_could_be_for_several_tasks_is_refused_with_their_names(app: App) -> None:
    """T3.2: with the argument that says which."""
    for name in ("one", "two", "three"):
        push(app, f"{name} it", app.caller(name))
    with pytest.raises(Conflict, match=r"3 tasks could be meant: .*one it.*two it.*three it.* with parent_id"):
        push(app, plan=("x",))


def test_a_long_list_of_names_is_cut(app: App) -> None:
    """T1.2: the count is told."""
    push(app, "ship", plan=tuple(f"step {n}" for n in range(8)))
    with pytest.raises(Conflict, match=r"8 unfinished subtasks: .*step 4\); 3 more\. Pop them first"):
        pop(app)
