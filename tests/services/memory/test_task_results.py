"""What tasks came to, as records."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from mcp_memory.app import App
from mcp_memory.domain.model.records import NewRecord
from mcp_memory.domain.model.tasks import ERASED
from mcp_memory.errors import StoreUnavailable
from mcp_memory.services.context.assemble import ContextRequest
from mcp_memory.services.memory.task_results import result_in
from mcp_memory.services.retrieval.recall import RecallRequest
from mcp_memory.services.tasks.branch_visibility import visible_to
from mcp_memory.services.tasks.task_stack import PopRequest, PushRequest, TaskStack


def ended(app: App, goal: str, result: str, *, root: str = "Speed up search", **ending: Any) -> None:
    """A task that ended below a root that ended as well."""
    app.tasks.push(PushRequest(goal=root), app.caller())
    app.tasks.push(PushRequest(goal=goal), app.caller())
    app.tasks.pop(PopRequest(result=result, **ending), app.caller())
    app.tasks.pop(PopRequest(result="Over."), app.caller())


def texts(app: App, query: str) -> list[str]:
    return [str(each["text"]) for each in app.recall(RecallRequest(query=query), app.caller()).results]


def test_a_result_is_found_after_its_root_has_ended_by_every_agent(app: App, open_memory: Callable[..., App]) -> None:
    """F2.1: by goal, result and artifact; a dead end is marked as one."""
    ended(app, "Drop the index", "Ten times slower; rolled back.", status="failed", artifacts=("plan.sql",))
    dead_end = "Drop the index → dead end (failed): Ten times slower; rolled back."
    for memory in (app, open_memory(agent="bob")):
        assert texts(memory, "what happened when the index was dropped")[0] == dead_end
        assert dead_end in texts(memory, "plan.sql")


@pytest.mark.parametrize("status", ["failed", "complete"])
def test_a_record_tells_the_result_as_long_as_its_words_are_the_tasks(app: App, status: str) -> None:
    """U1.1: without the goal and the mark of a dead end."""
    ended(app, "Drop the index", "Ten times slower.", status=status)
    [task] = [each for each in app.tasks.tree(app.caller()) if each.goal == "Drop the index"]
    answer = app.recall(RecallRequest(kinds=("result",), query="drop the index"), app.caller())
    [found] = [str(each["id"]) for each in answer.results if "slower" in str(each["text"])]
    record = app.inspect.visible(found, app.caller())
    assert result_in(record, task) == "Ten times slower."
    assert result_in(replace(record, text="It was slow."), task) == ""


@pytest.mark.uncounted
def test_a_task_with_a_similar_goal_is_shown_what_the_earlier_one_came_to(app: App) -> None:
    """F2.2: dead ends first; what the stack shows is not said twice."""
    ended(app, "Drop the index on orders", "Ten times slower; rolled back.", status="failed")
    ended(app, "Add an index on orders", "Twice as fast.")
    app.tasks.push(PushRequest(goal="Drop the index on orders by the end of the month"), app.caller())
    text = app.assemble_context(ContextRequest(max_tokens=1_000), app.caller()).text
    assert "## Earlier Tasks\n" in text
    assert text.index("dead end (failed): Ten times slower") < text.index("Twice as fast.")
    app.tasks.push(PushRequest(goal="Measure it"), app.caller())
    app.tasks.pop(PopRequest(result="It takes 3 s."), app.caller())
    assert app.assemble_context(ContextRequest(max_tokens=1_000), app.caller()).text.count("It takes 3 s.") == 1


def test_an_erased_result_leaves_the_task_too_and_does_not_come_back(app: App) -> None:
    """F2.1, R9."""
    ended(app, "Call Ines", "Her number is 555-0199.")
    [record] = app.recall(RecallRequest(kinds=("result",), query="number of Ines"), app.caller()).results[:1]
    app.forget([str(record["id"])], "erase", app.caller())
    assert [task.result for task in app.tasks.tree(app.caller()) if task.goal == ERASED] == [ERASED]
    assert app.task_results.catch_up(app.caller()) == 0
    assert not [text for text in texts(app, "number of Ines") if "555" in text]


def test_results_of_an_earlier_version_are_stored_later_and_once(app: App) -> None:
    """F2.1: also those that a killed process left out."""
    assert app.task_results.catch_up(app.caller()) == 0
    bare = TaskStack(app.records, app.redactor, lambda: 1.0)
    bare.push(PushRequest(goal="Sort the seeds"), app.caller())
    bare.pop(PopRequest(result="Forty bags."), app.caller())
    assert texts(app, "seeds") == []
    assert [app.task_results.catch_up(app.caller()) for _ in range(2)] == [1, 0]
    assert texts(app, "seeds") == ["Sort the seeds → Forty bags."]
    [task] = app.tasks.tree(app.caller())
    assert app.task_results([task, replace(task, status="active"), replace(task, result="")], app.caller()) == 1
    assert len(texts(app, "seeds")) == 1


def test_the_result_of_a_task_that_was_reopened_is_stored_later_too(app: App) -> None:
    """F2.1, U1.1: the retired record of its earlier end tells another; one that a person retires stays retired."""
    ended(app, "Sort the seeds", "Forty bags.")
    [task] = [each for each in app.tasks.tree(app.caller()) if each.goal == "Sort the seeds"]
    [before] = app.waiting_tasks.results(task, app.caller())
    app.waiting_tasks.reopen(task.id, app.caller())
    assert app.waiting_tasks.results(task, app.caller()) == []
    [retired] = app.waiting_tasks.results(task, app.caller(), include_inactive=True)
    assert (retired.id, retired.status) == (before.id, "retired")
    bare = TaskStack(app.records, app.redactor, lambda: task.updated_at + 60)
    bare.pop(PopRequest(task_id=task.id, result="Fifty bags."), app.caller())
    assert [app.task_results.catch_up(app.caller()) for _ in range(2)] == [1, 0]
    assert texts(app, "seeds") == ["Sort the seeds → Fifty bags."]
    [record] = app.recall(RecallRequest(query="seeds"), app.caller()).results
    app.forget([str(record["id"])], "retire", app.caller())
    assert app.task_results.catch_up(app.caller()) == 0


def test_a_task_ends_even_where_its_record_cannot_be_stored(app: App, monkeypatch: pytest.MonkeyPatch) -> None:
    """R9: it is stored later."""

    def refuse(*given: object) -> None:
        raise StoreUnavailable("busy")

    tasks = TaskStack(app.records, app.redactor, lambda: 1.0, refuse)
    tasks.push(PushRequest(goal="Sort the seeds"), app.caller())
    assert tasks.pop(PopRequest(result="Forty bags."), app.caller()).popped.status == "complete"
    monkeypatch.setattr(app.reindex, "catch_up", refuse)
    assert app.task_results.catch_up(app.caller()) == 1


def test_a_result_that_only_repeats_what_was_recalled_is_stored_by_no_record(app: App) -> None:
    """F2.1: and one that adds to it by what it adds."""
    app.remember([NewRecord(text="The port is 5432.")], app.caller())
    block = app.assemble_context(ContextRequest(query="port"), app.caller()).text
    ended(app, "Find the port", block)
    ended(app, "Find it again", f"{block} It is the staging port.")
    results = app.recall(RecallRequest(kinds=("result",)), app.caller()).results
    assert {str(each["text"]) for each in results if "Find" in str(each["text"])} == {
        "Find it again → It is the staging port."
    }


def test_steps_that_ended_with_a_complete_parent_are_no_dead_ends(app: App, open_memory: Callable[..., App]) -> None:
    """W4.3: neither in the tree nor as records of whoever starts next."""
    app.tasks.push(PushRequest(goal="Fix the off-by-one", plan=("Write a test", "Fix the range query")), app.caller())
    app.tasks.push(PushRequest(goal="Ask Ines"), app.caller())
    app.tasks.pop(PopRequest(result="she is away", status="blocked"), app.caller())
    popped = app.tasks.pop(PopRequest(result="Fixed.", cascade=True), app.caller())
    assert [(task.status, task.result) for task in popped.cascaded] == [
        ("complete", f"ended with its parent {popped.popped.id}"),
        ("complete", f"ended with its parent {popped.popped.id}"),
        ("complete", f"ended with its parent {popped.popped.id}; it was blocked: she is away"),
    ]
    assert open_memory(agent="bob").task_results.catch_up(app.caller()) == 0
    assert texts(app, "fix the range query") == ["Fix the off-by-one → Fixed."]


def test_a_result_that_is_stored_later_belongs_to_who_made_it(app: App, open_memory: Callable[..., App]) -> None:
    """W4.3: whichever process stores it: the agent that ended the task, else the one that was in it."""
    ann, bob = open_memory(agent="ann"), open_memory(agent="bob")
    bare = TaskStack(app.records, app.redactor, lambda: 1.0)
    bare.push(PushRequest(goal="Sort the seeds"), ann.caller("morning"))
    bare.pop(PopRequest(result="Forty bags."), ann.caller("morning"))
    task = bare.push(PushRequest(goal="Count the rakes"), ann.caller()).path[0]
    bare.push(PushRequest(task_id=task.id, takeover=True), bob.caller())
    bare.pop(PopRequest(result="Nine rakes.", task_id=task.id), bob.caller())
    assert app.task_results.catch_up(app.caller()) == 2
    found = {each.text: each for each in app.records.list(visible_to(app.records, app.caller()), "occurred", 9)}
    seeds, rakes = found["Sort the seeds → Forty bags."], found["Count the rakes → Nine rakes."]
    assert (seeds.agent, seeds.session_id, rakes.agent) == ("ann", "morning", "bob")
