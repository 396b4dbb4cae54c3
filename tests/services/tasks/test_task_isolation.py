"""What of a task is seen from outside it, before and after it has ended."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from mcp_memory.app import App
from mcp_memory.domain.model.records import NewRecord
from mcp_memory.domain.model.scopes import Caller
from mcp_memory.errors import Conflict, NotFound
from mcp_memory.services.context.assemble import ContextRequest
from mcp_memory.services.retrieval.recall import RecallRequest
from mcp_memory.services.tasks.branch_visibility import visible_to
from mcp_memory.services.tasks.task_stack import PushRequest
from tests.services.tasks.moves import goals, pop, push


def texts(app: App, query: str, caller: Caller | None = None) -> set[str]:
    """What a recall finds, but for what tasks came to."""
    found = app.recall(RecallRequest(query=query), caller or app.caller()).results
    # The mark of its task, " (task: build)", is another test's.
    return {str(result["text"]).partition(" (task")[0] for result in found if result["kind"] != "result"}


def candidates(app: App, caller: Caller | None = None) -> set[str]:
    """What may enter a context where the caller stands."""
    caller = caller or app.caller()
    where = replace(visible_to(app.records, caller), isolated_tasks=app.tasks.stack(caller).isolated)
    return {record.text for record in app.records.list(where, "created", 100) if record.kind != "result"}


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


def test_what_is_stored_outside_of_a_branch_as_well_leaves_it(app: App) -> None:
    """T4.3, R2: one record, which the trunk sees from then on."""
    root = push(app, "ship").path[0]
    push(app, "experiment", branch=True)
    inside = app.remember([NewRecord(text="Numpy three is twice as fast.")], app.caller())
    push(app, task_id=root.id)
    outside = app.remember([NewRecord(text="Numpy three is twice as fast.")], app.caller())
    assert (outside[0].id, outside[0].status) == (inside[0].id, "confirmed")
    assert texts(app, "numpy") == {"Numpy three is twice as fast."}


def test_a_task_begun_in_the_open_does_not_become_a_branch(app: App, open_memory: Callable[..., App]) -> None:
    """T4.3: nor a blocked one; what was said in it is still seen, and nobody has moved."""
    task = push(app, "ship").path[0]
    app.remember([NewRecord(text="Numpy is quick.")], app.caller())
    bob = open_memory(agent="bob")
    for _ in ("active", "blocked"):
        with pytest.raises(
            Conflict, match=f"{task.id} was begun in the open.*without branch, or push a new goal below"
        ):
            push(bob, task_id=task.id, branch=True, takeover=True)
        assert [(each.agent, each.branch) for each in app.tasks.tree(app.caller())] == [("default", False)]
        assert goals(bob.tasks.stack(bob.caller())) == []
        assert texts(bob, "numpy") == {"Numpy is quick."}
        pop(app, "no wheel yet", task_id=task.id, status="blocked")


def test_a_step_that_still_waits_is_begun_as_a_branch_and_entered_again_as_one(app: App) -> None:
    """T4.3, T4.1: whether the branch is named again or not."""
    step = push(app, "ship", plan=("experiment",)).planned[0]
    for branch in (True, True, False):
        stack = push(app, task_id=step.id, branch=branch)
        assert stack.branch_id == step.id


def test_a_task_inherits_nothing_out_of_a_branch_that_its_caller_does_not_see(
    app: App, open_memory: Callable[..., App]
) -> None:
    """T4.1, T4.3: nothing is made; from inside the branch, and once it has ended, it does."""
    push(app, "experiment", branch=True)
    (record,) = app.remember([NewRecord(text="Numpy three is quick.")], app.caller())
    bob = open_memory(agent="bob")
    with pytest.raises(NotFound, match=f"inherit: no record '{record.id}'"):
        push(bob, "measure", inherit=(record.id,))
    assert [task.goal for task in bob.tasks.tree(bob.caller())] == ["experiment"]
    assert push(app, "look closer", inherit=(record.id,)).path[1].inherit == (record.id,)
    pop(app)
    pop(app)
    assert push(bob, "measure", inherit=(record.id,)).path[0].inherit == (record.id,)


@pytest.mark.uncounted
def test_a_session_that_stands_nowhere_stores_where_its_agent_stands(app: App) -> None:
    """T4.3, T3.2: inside the branch, so that the trunk does not see it; a session with a place stores there."""
    app.tasks.push(PushRequest(goal="trunk"), app.caller("trunk"))
    branch = push(app, "experiment", branch=True).path[0]
    talk = app.caller("talk")
    app.remember([NewRecord(text="Numpy three is quick.", session_id="talk")], app.caller())
    app.remember([NewRecord(text="Numpy two is slow.")], talk)
    app.remember([NewRecord(text="Numpy one is gone.", session_id="trunk")], app.caller())
    (first,) = (r for r in app.records.list(visible_to(app.records, talk), "created", 9) if "three" in r.text)
    assert (first.task_id, first.branch_id, first.session_id) == (branch.id, branch.id, "talk")
    everything = {"Numpy three is quick.", "Numpy two is slow.", "Numpy one is gone."}
    assert texts(app, "numpy") == texts(app, "numpy", talk) == everything
    assert texts(app, "numpy", app.caller("trunk")) == {"Numpy one is gone."}


@pytest.mark.uncounted
def test_what_happened_in_a_finished_task_stays_out_beside_it_and_what_was_learnt_does_not(app: App) -> None:
    """T2.2: for its siblings and its parent; recall still finds it, as a whole or by its task."""
    push(app, "ship")
    task = push(app, "build").path[1]
    push(app, "compile")
    happened = [NewRecord(text="gcc said no", kind="tool_result"), NewRecord(text="We fought gcc.", kind="episode")]
    learnt = [NewRecord(text="gcc needs a flag."), NewRecord(text="Do not use gcc 4.", kind="censor")]
    app.remember([*happened, *learnt], app.caller())
    everything, kept = {item.text for item in (*happened, *learnt)}, {item.text for item in learnt}
    assert candidates(app) == everything
    pop(app, "compiled")
    assert candidates(app) == kept
    app.remember([NewRecord(text="gcc again", kind="message")], app.caller())
    assert candidates(app) == {*kept, "gcc again"}
    stack = pop(app, "built").stack
    assert candidates(app) == kept
    assert [done.result for done in stack.done] == ["built"]
    push(app, "test")
    assert candidates(app) == kept
    assert texts(app, "gcc") == {*everything, "gcc again"}
    asked = app.recall(RecallRequest(task_id=task.id), app.caller())
    assert [result["text"] for result in asked.results] == ["gcc again", "compile → compiled"]
    push(app, task_id=task.parent_id)
    pop(app, "shipped", cascade=True)
    assert candidates(app) == {*everything, "gcc again"}


@pytest.mark.uncounted
@pytest.mark.parametrize("status", ["complete", "failed", "abandoned"])
def test_a_branch_that_ended_leaves_its_result_and_what_was_learnt(app: App, status: Any) -> None:
    """T4.3, T1.3: hidden as long as it is open, blocked too; its log stays out of the trunk afterwards."""
    root = push(app, "ship").path[0]
    branch = push(app, "experiment", branch=True).path[1]
    app.remember([NewRecord(text="Numpy is quick."), NewRecord(text="numpy ran", kind="tool_call")], app.caller())
    pop(app, "no wheel yet", status="blocked")
    assert (candidates(app), texts(app, "numpy")) == (set(), set())
    push(app, task_id=branch.id)
    assert candidates(app) == {"Numpy is quick.", "numpy ran"}
    push(app, task_id=root.id)
    stack = pop(app, "that is that", task_id=branch.id, status=status).stack
    assert candidates(app) == {"Numpy is quick."}
    assert texts(app, "numpy") == {"Numpy is quick.", "numpy ran"}
    told = stack.done if status == "complete" else stack.dead_ends
    assert [task.result for task in told] == ["that is that"]


@pytest.mark.uncounted
def test_a_branch_of_a_branch_comes_up_one_level_at_a_time(app: App, open_memory: Callable[..., App]) -> None:
    """T4.3: to the branch around it first; to the trunk with that; another project that reads this one waits too."""
    bob, reader = open_memory(agent="bob"), open_memory(namespace="other", inherit=["test"])
    root = push(app, "ship").path[0]
    push(bob, task_id=root.id, takeover=True)
    push(app, "outer", branch=True)
    push(app, "inner", branch=True)
    app.remember([NewRecord(text="Numpy is quick.")], app.caller())
    pop(app, "inner result")
    assert texts(app, "numpy") == {"Numpy is quick."}
    assert texts(bob, "numpy") == texts(reader, "numpy") == set()
    pop(app, "outer result")
    assert texts(bob, "numpy") == texts(reader, "numpy") == {"Numpy is quick."}


@pytest.mark.uncounted
def test_a_task_is_opened_by_the_id_that_a_context_names(app: App, open_memory: Callable[..., App]) -> None:
    """T5.1, T1.3, T4.2: its whole result beside records, page by page; a dead end as one; not of another project."""
    push(app, "ship")
    (record,) = app.remember([NewRecord(text="Ports are open.")], app.caller())
    long = "word " * 3000
    task = push(app, "try pip", success_criteria="green").path[1]
    pop(app, long, status="failed", artifacts=("log.txt",))
    opened = app.recall(RecallRequest(ids=(task.id, record.id, "t00zzzz"), max_tokens=9000), app.caller())
    assert [result["id"] for result in opened.results] == [task.id, record.id]
    assert opened.not_found == ("t00zzzz",)
    shown = opened.results[0]
    assert shown["text"] == f"try pip → dead end (failed): {long.strip()}"
    assert (shown["kind"], shown["success_criteria"], shown["artifacts"]) == ("task", "green", ["log.txt"])
    page = app.recall(RecallRequest(ids=(task.id,), detail="full", max_tokens=500), app.caller())
    assert page.truncated
    rest = app.recall(
        RecallRequest(ids=(task.id,), detail="full", offset=page.next_offset or 0, max_tokens=9000), app.caller()
    )
    assert str(page.results[0]["text"]) + str(rest.results[0]["text"]) == shown["text"]
    assert app.recall(RecallRequest(ids=(task.parent_id or "",)), app.caller()).results[0]["text"] == "ship"
    other = open_memory(namespace="other")
    assert other.recall(RecallRequest(ids=(task.id,)), other.caller()).not_found == (task.id,)


@pytest.mark.uncounted
@pytest.mark.parametrize("query", ["", "how did gcc go"])
def test_a_context_shows_what_a_finished_task_came_to_in_place_of_what_happened_in_it(app: App, query: str) -> None:
    """T2.2, T1.3: also of a dead end; in the one above and the one beside it."""
    push(app, "make gcc build it")
    task = push(app, "build with gcc").path[1]
    happened = NewRecord(text="gcc said no such flag", kind="message")
    learnt = NewRecord(text="gcc wants the other flag.", kind="decision")
    app.remember([happened, learnt], app.caller())
    request = ContextRequest(query=query)
    assert happened.text in app.assemble_context(request, app.caller()).text
    pop(app, "gcc cannot build it", status="failed")
    for _ in range(2):
        shown = app.assemble_context(request, app.caller()).text
        assert happened.text not in shown
        assert learnt.text in shown
        assert f"dead end (failed) [{task.id}]: build with gcc → gcc cannot build it" in shown
        push(app, "use clang for gcc")
    inside = app.assemble_context(ContextRequest(query=query, task_id=task.id), app.caller())
    assert happened.text in inside.text
