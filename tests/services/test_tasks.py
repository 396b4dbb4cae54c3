"""The task stack: in, out, beside others."""

from collections.abc import Callable
from typing import Any

import pytest

from mcp_memory.app import App
from mcp_memory.domain.records import NewRecord
from mcp_memory.domain.scopes import Caller
from mcp_memory.domain.tasks import MAX_DEPTH, Stack
from mcp_memory.errors import Conflict, InvalidRequest, NotFound
from mcp_memory.services.assemble_context import ContextRequest
from mcp_memory.services.recall import RecallRequest
from mcp_memory.services.tasks import Popped, PopRequest, PushRequest

TOKEN = "ghp_" + "Ab3" * 12


def push(app: App, goal: str = "", caller: Caller | None = None, **fields: Any) -> Stack:
    return app.tasks.push(PushRequest(goal=goal, **fields), caller or app.caller())


def pop(app: App, result: str = "done", caller: Caller | None = None, **fields: Any) -> Popped:
    return app.tasks.pop(PopRequest(result=result, **fields), caller or app.caller())


def goals(stack: Stack) -> list[str]:
    return [task.goal for task in stack.path]


def statuses(app: App) -> dict[str, str]:
    return {task.goal: task.status for task in app.tasks.tree(app.caller())}


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
    assert app.recall(RecallRequest(query="result of try pip"), app.caller()).results == ()


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
    pop(bob, task_id=task.id)
    with pytest.raises(NotFound, match="push_task with a goal first"):
        push(app, plan=("build",))
    assert statuses(app) == {"ship": "complete"}


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
    entered = push(app, task_id=task.id, inherit=(second, first), success_criteria="green", branch=True).path[0]
    assert (entered.inherit, entered.success_criteria, entered.branch) == ((first, second), "green", True)
    assert push(app, task_id=task.id).path[0].success_criteria == "green"


def test_the_tree_survives_a_restart(app: App, open_memory: Callable[..., App]) -> None:
    """T3.1: with everyone's place."""
    before = push(app, "ship", plan=("test",), success_criteria="green")
    app.close()
    again = open_memory()
    assert again.tasks.stack(again.caller()) == before


def test_each_agent_has_its_own_place_in_a_shared_tree(app: App, open_memory: Callable[..., App]) -> None:
    """T3.2: one attaches a subtask under another's task; neither moves the other."""
    bob = open_memory(agent="bob")
    root = push(app, "ship").path[0]
    assert goals(bob.tasks.stack(bob.caller())) == []
    assert goals(push(bob, "review", parent_id=root.id)) == ["ship", "review"]
    assert goals(app.tasks.stack(app.caller())) == ["ship"]
    assert [child.goal for child in app.tasks.stack(app.caller()).children] == ["review"]
    with pytest.raises(Conflict, match="1 unfinished subtasks: t000"):
        pop(app)
    assert goals(pop(bob, "looks good").stack) == ["ship"]
    assert pop(app).popped.goal == "ship"


def test_a_named_session_has_its_own_place(app: App) -> None:
    """T3.2: two sessions of one agent do not pop each other's tasks."""
    plan, code = app.caller("plan"), app.caller("code")
    push(app, "plan it", plan)
    push(app, "code it", code)
    push(app, "test it", code)
    assert goals(app.tasks.stack(plan)) == ["plan it"]
    assert pop(app, caller=plan).popped.goal == "plan it"
    assert pop(app, caller=code).popped.goal == "test it"
    assert goals(app.tasks.stack(code)) == ["code it"]


def test_a_pop_that_could_mean_two_tasks_is_refused_with_both_named(app: App) -> None:
    """T3.2: with the way to say which; nothing was popped."""
    push(app, "plan it", app.caller("plan"))
    push(app, "code it", app.caller("code"))
    with pytest.raises(
        Conflict, match=r"Two tasks could be meant: t\w+ \(plan it\); t\w+ \(code it\)\. Call .* task_id"
    ):
        pop(app)
    assert set(statuses(app).values()) == {"active"}
    named = app.tasks.tree(app.caller())[0]
    assert pop(app, task_id=named.id).popped.goal == "plan it"


def test_a_session_without_a_name_may_pop_the_one_task_there_is(app: App) -> None:
    """T3.2: only one could be meant."""
    push(app, "code it", app.caller("code"))
    assert pop(app).popped.goal == "code it"


def test_a_task_that_has_ended_is_no_longer_one_that_could_be_meant(app: App) -> None:
    """T3.2: a session that left its place in an ended task does not stand in the way of others for ever."""
    root = push(app, "ship").path[0]
    push(app, "code it", app.caller("gone"), parent_id=root.id)
    pop(app, task_id=root.id, cascade=True)
    push(app, "next")
    assert pop(app).popped.goal == "next"


def test_after_another_agent_ended_ones_task_the_next_goal_is_a_new_tree(
    app: App, open_memory: Callable[..., App]
) -> None:
    """T3.2: nobody is stuck in a task that is over."""
    task = push(app, "ship").path[0]
    bob = open_memory(agent="bob")
    popped = pop(bob, task_id=task.id)
    assert popped.stack == Stack()
    with pytest.raises(NotFound, match="You are in no task"):
        pop(app)
    assert goals(push(app, "again")) == ["again"]


def test_after_another_agent_ended_ones_task_one_stands_in_the_nearest_open_one(
    app: App, open_memory: Callable[..., App]
) -> None:
    """T3.2: below the root that is still open, for the next goal and in the context."""
    push(app, "ship")
    task = push(app, "build").path[1]
    pop(open_memory(agent="bob"), task_id=task.id)
    assert goals(app.tasks.stack(app.caller())) == ["ship"]
    context = app.assemble_context(ContextRequest(), app.caller())
    assert "now [" in context.text
    assert f"now [{task.id}]" not in context.text
    assert goals(push(app, "test")) == ["ship", "test"]


def test_a_session_that_names_itself_does_not_end_what_another_session_is_in(app: App) -> None:
    """T3.2: it stands nowhere until it pushes."""
    app.tasks.push(PushRequest(goal="mine"), app.caller("a"))
    with pytest.raises(NotFound, match="You are in no task"):
        app.tasks.pop(PopRequest(result="done"), app.caller("b"))


def test_a_plan_with_an_empty_goal_is_refused_whole(app: App) -> None:
    """S3.1: before anything is stored."""
    with pytest.raises(InvalidRequest, match="empty goal"):
        push(app, "ship", plan=("build", " "))
    assert statuses(app) == {}


def test_popping_a_task_elsewhere_leaves_one_where_one_stands(app: App, open_memory: Callable[..., App]) -> None:
    """T3.2: by its id."""
    bob = open_memory(agent="bob")
    other = push(bob, "other").path[0]
    push(app, "mine")
    assert goals(pop(app, task_id=other.id).stack) == ["mine"]


def test_entering_another_agents_task_takes_it_over(app: App, open_memory: Callable[..., App]) -> None:
    """T4.3: by its id; the first one still stands in it."""
    bob = open_memory(agent="bob")
    task = push(app, "ship").path[0]
    entered = push(bob, task_id=task.id).path[0]
    assert (entered.agent, entered.status) == ("bob", "active")
    assert goals(app.tasks.stack(app.caller())) == ["ship"]


def test_a_place_whose_whole_line_was_ended_by_another_agent_is_left_at_the_next_push(
    app: App, open_memory: Callable[..., App]
) -> None:
    """T3.2: blocked first, then ended with all that was below it."""
    push(app, "quarter")
    middle = push(app, "ship").path[1]
    push(app, "build")
    bob = open_memory(agent="bob")
    pop(bob, task_id=middle.id, status="blocked")
    pop(bob, task_id=middle.id, cascade=True)
    stack = push(app, "x", parent_id=app.tasks.tree(app.caller())[0].id)
    assert goals(stack) == ["quarter", "x"]
    assert goals(pop(app).stack) == ["quarter"]


def test_trees_of_different_namespaces_know_nothing_of_each_other(app: App, open_memory: Callable[..., App]) -> None:
    """S4.1: not even by id."""
    other = open_memory(namespace="other")
    task = push(app, "ship").path[0]
    assert list(other.tasks.tree(other.caller())) == []
    with pytest.raises(NotFound):
        push(other, task_id=task.id)


def test_secrets_are_cut_out_of_all_that_a_task_says(app: App) -> None:
    """R4: goal, plan, criteria, result and artifacts."""
    push(app, f"use {TOKEN}", plan=(f"plan {TOKEN}",), success_criteria=f"met {TOKEN}")
    task = app.tasks.stack(app.caller()).path[0]
    push(app, task_id=task.id, success_criteria=f"again {TOKEN}")
    pop(app, f"got {TOKEN}", artifacts=(f"curl -H {TOKEN}",), cascade=True)
    assert TOKEN not in repr(app.tasks.tree(app.caller()))
    assert "[REDACTED GitHub Token]" in repr(app.tasks.tree(app.caller()))


def test_a_branch_keeps_its_records_from_the_trunk_until_it_is_popped(app: App) -> None:
    """T4.3: seen inside, not outside, seen everywhere afterwards."""
    root = push(app, "ship").path[0]
    branch = push(app, "experiment", branch=True).path[1]
    app.remember([NewRecord(text="Numpy three is twice as fast.")], app.caller())
    asked = RecallRequest(query="numpy speed")
    assert len(app.recall(asked, app.caller()).results) == 1
    push(app, task_id=root.id)
    assert app.recall(asked, app.caller()).results == ()
    pop(app, "worth it", task_id=branch.id)
    assert len(app.recall(asked, app.caller()).results) == 1


def test_a_stack_that_only_ever_grows_stops_somewhere(app: App) -> None:
    """S3.1: said with what to do, before the tree is too deep to show."""
    for level in range(MAX_DEPTH + 1):
        push(app, f"level {level}")
    with pytest.raises(Conflict, match="pop finished tasks"):
        push(app, "one more")
