"""Several agents and sessions in one tree, one after the other and at once."""

import threading
from collections.abc import Callable, Sequence
from functools import partial

import pytest

from mcp_memory.app import App
from mcp_memory.domain.model.tasks import Stack
from mcp_memory.errors import Conflict, McpMemoryError, NotFound
from mcp_memory.services.context.assemble import ContextRequest
from mcp_memory.services.tasks.task_stack import Popped, PopRequest, PushRequest
from tests.services.tasks.moves import goals, insist, pop, push, statuses


def test_each_agent_has_its_own_place_in_a_shared_tree(app: App, open_memory: Callable[..., App]) -> None:
    """T3.2: one attaches a subtask under another's task; neither moves the other."""
    bob = open_memory(agent="bob")
    root = push(app, "ship").path[0]
    assert goals(bob.tasks.stack(bob.caller())) == []
    assert goals(push(bob, "review", parent_id=root.id)) == ["ship", "review"]
    assert goals(app.tasks.stack(app.caller())) == ["ship"]
    assert [child.goal for child in app.tasks.stack(app.caller()).children] == ["review"]
    with pytest.raises(Conflict, match="1 unfinished subtask: t000"):
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
    popped = insist(bob, task_id=task.id)
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
    insist(open_memory(agent="bob"), task_id=task.id)
    assert goals(app.tasks.stack(app.caller())) == ["ship"]
    context = app.assemble_context(ContextRequest(), app.caller())
    assert "now [" in context.text
    assert f"now [{task.id}]" not in context.text
    assert goals(push(app, "test")) == ["ship", "test"]


def test_a_pop_meant_for_a_task_that_another_agent_ended_does_not_end_the_one_above(
    app: App, open_memory: Callable[..., App]
) -> None:
    """T3.2, T1.2: refused with both named, as often as it is tried, until it says which or one moves on."""
    ann = open_memory(agent="ann")
    root = push(ann, "ship").path[0]
    task = push(ann, "build").path[1]
    push(app, task_id=task.id, takeover=True)
    insist(ann, "built")
    for _ in range(2):
        with pytest.raises(
            Conflict,
            match=rf"\(build\), is complete already: ann ended .*: built\. .*{root.id} \(ship\) .* with task_id",
        ):
            pop(app, "no compiler", status="failed", cascade=True)
    assert statuses(app) == {"ship": "active", "build": "complete"}
    assert [(each.goal, each.result) for each in app.tasks.stack(app.caller()).children] == [("build", "built")]
    assert goals(push(app, "test")) == ["ship", "test"]
    assert goals(pop(app).stack) == ["ship"]
    assert insist(app, "shipped").stack == Stack()


def test_the_task_above_one_that_another_agent_ended_is_popped_by_its_id(
    app: App, open_memory: Callable[..., App]
) -> None:
    """T3.2: then one stands where that leads; a plan goes below it without being asked which."""
    push(app, "quarter")
    middle = push(app, "ship").path[1]
    task = push(app, "build").path[2]
    insist(open_memory(agent="bob"), task_id=task.id)
    assert [step.goal for step in push(app, plan=("test",)).planned] == ["test"]
    with pytest.raises(Conflict, match="call again with task_id"):
        pop(app)
    assert goals(pop(app, task_id=middle.id, cascade=True).stack) == ["quarter"]
    assert pop(app).popped.goal == "quarter"


def test_a_pop_meant_for_a_task_that_has_ended_does_not_end_that_of_another_session(
    app: App, open_memory: Callable[..., App]
) -> None:
    """T3.2: though it is the only one that is open."""
    task = push(app, "ship").path[0]
    insist(open_memory(agent="bob"), task_id=task.id, status="abandoned")
    push(app, "code it", app.caller("code"))
    with pytest.raises(
        Conflict,
        match=r"\(ship\), is abandoned already: bob ended .*, abandoned: done\. To end the open t\w+ \(code it\)",
    ):
        pop(app)
    assert statuses(app) == {"ship": "abandoned", "code it": "active"}


def test_a_session_that_names_itself_does_not_end_what_another_session_is_in(app: App) -> None:
    """T3.2: it stands nowhere until it pushes."""
    app.tasks.push(PushRequest(goal="mine"), app.caller("a"))
    with pytest.raises(NotFound, match="You are in no task"):
        app.tasks.pop(PopRequest(result="done"), app.caller("b"))


def test_popping_a_task_elsewhere_leaves_one_where_one_stands(app: App, open_memory: Callable[..., App]) -> None:
    """T3.2: by its id."""
    bob = open_memory(agent="bob")
    other = push(bob, "other").path[0]
    push(app, "mine")
    assert goals(insist(app, task_id=other.id).stack) == ["mine"]


def test_entering_another_agents_task_takes_it_over(app: App, open_memory: Callable[..., App]) -> None:
    """T4.3: by its id; the first one still stands in it."""
    bob = open_memory(agent="bob")
    task = push(app, "ship").path[0]
    entered = push(bob, task_id=task.id, takeover=True).path[0]
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
    insist(bob, task_id=middle.id, status="blocked")
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


def test_a_pop_returns_where_one_stands_also_after_another_agent_ended_that(
    app: App, open_memory: Callable[..., App]
) -> None:
    """T1.1, T3.2: the nearest open task, with what comes next there."""
    push(app, "quarter", plan=("hire",))
    ship = push(app, "ship").path[1]
    bob = open_memory(agent="bob")
    other = push(bob, "other").path[0]
    insist(bob, task_id=ship.id)
    popped = insist(app, task_id=other.id)
    assert goals(popped.stack) == ["quarter"]
    assert [task.goal for task in popped.stack.planned] == ["hire"]
    assert popped.stack == app.tasks.stack(app.caller())


def test_who_pops_its_one_sessions_task_stands_in_the_parent_then(app: App) -> None:
    """T1.1, T3.2: until the root is popped."""
    session = app.caller("code")
    push(app, "ship", session)
    push(app, "build", session)
    assert goals(pop(app).stack) == ["ship"]
    assert goals(app.tasks.stack(app.caller())) == ["ship"]
    assert pop(app).stack == Stack()
    assert goals(app.tasks.stack(session)) == []


def at_once(moves: Sequence[Callable[[], object]]) -> list[object]:
    """What each of the moves came to, all of them made at the same time: its answer, or our error."""
    outcomes: list[object] = [None] * len(moves)
    start = threading.Barrier(len(moves))

    def make(number: int) -> None:
        start.wait()
        try:
            outcomes[number] = moves[number]()
        except McpMemoryError as error:
            outcomes[number] = error

    threads = [threading.Thread(target=make, args=(number,)) for number in range(len(moves))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return outcomes


def test_of_two_agents_that_pop_a_task_at_once_one_is_told_that_it_is_over(
    app: App, open_memory: Callable[..., App]
) -> None:
    """T3.2: the first result stays."""
    bob = open_memory(agent="bob")
    push(app, "ship")
    for turn in range(5):
        task = push(app, f"turn {turn}").path[1]
        with pytest.raises(Conflict, match="default is in"):
            pop(bob, task_id=task.id)
        outcomes = at_once([partial(pop, app, "mine", task_id=task.id), partial(pop, bob, "bob's", task_id=task.id)])
        (popped,) = (each for each in outcomes if isinstance(each, Popped))
        (refused,) = (each for each in outcomes if isinstance(each, Conflict))
        assert "is complete already" in str(refused)
        assert app.tasks.tree(app.caller())[-1].result == popped.popped.result


def test_a_pop_and_a_push_below_it_at_once_never_leave_an_open_task_in_a_finished_one(
    app: App, open_memory: Callable[..., App]
) -> None:
    """T3.2, T1.2: one of them is refused."""
    bob = open_memory(agent="bob")
    push(app, "ship")
    for turn in range(5):
        task = push(app, f"turn {turn}").path[1]
        outcomes = at_once([partial(pop, app, task_id=task.id), partial(push, bob, "below", parent_id=task.id)])
        assert len([each for each in outcomes if isinstance(each, Conflict)]) == 1
        if isinstance(outcomes[0], Conflict):
            pop(app, task_id=task.id, cascade=True)
        tasks = {each.id: each for each in app.tasks.tree(app.caller())}
        below = [each for each in tasks.values() if each.parent_id == task.id]
        assert [each.status for each in below] == (["active"] if isinstance(outcomes[0], Conflict) else [])
