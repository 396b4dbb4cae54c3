"""What one agent does to another's tasks is asked for, and told."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import pytest

from mcp_memory.app import App
from mcp_memory.domain.model.records import Record
from mcp_memory.domain.model.scopes import RecordFilter
from mcp_memory.errors import Conflict, InvalidRequest
from mcp_memory.services.context.assemble import ContextRequest
from mcp_memory.services.tasks import task_owners
from mcp_memory.services.tasks.task_owners import TOLD, told_change, told_changes
from tests.conftest import Clock
from tests.services.tasks.moves import goals, insist, pop, push, statuses

Team = Mapping[str, App]


@pytest.fixture
def team(open_memory: Callable[..., App]) -> Team:
    return {name: open_memory(agent=name) for name in ("ann", "bob")}


def told(app: App) -> list[str]:
    """What others did to the agent's tasks, without the times."""
    caller = app.caller()
    return [told_change(each, caller).replace(" at 2026-11-20T12:00Z", "") for each in app.tasks.stack(caller).news]


def test_anothers_active_task_is_entered_by_taking_it_over(team: Team, clock: Clock) -> None:
    """N5.2: refused with who is in it, since when, and the next moves; the owner is told once."""
    ann, bob = team["ann"], team["bob"]
    task = push(ann, "ship").path[0]
    clock.advance(hours=1)
    with pytest.raises(
        Conflict, match=rf"^ann is in {task.id} \(ship\) since 2026-11-20T12:00Z; .*takeover.*parent_id.*another task"
    ):
        push(bob, task_id=task.id)
    assert ann.tasks.stack(ann.caller()).news == ()
    push(bob, task_id=task.id, takeover=True)
    assert [told_change(each, ann.caller()) for each in ann.tasks.stack(ann.caller()).news] == [
        f"bob took over {task.id} (ship) at 2026-11-20T13:00Z"
    ]
    assert len(push(ann, "build").news) == 1
    assert push(ann, "test").news == ()


def test_what_waits_is_free_to_enter_and_its_planner_is_told(team: Team) -> None:
    """N5.2: planned or blocked, by whomever."""
    ann, bob = team["ann"], team["bob"]
    root = push(ann, "ship", plan=("build", "sign"))
    build, sign = root.planned
    pop(ann, "no key", task_id=sign.id, status="blocked")
    assert goals(push(bob, task_id=build.id)) == ["ship", "build"]
    push(bob, task_id=sign.id)
    pop(bob, "the key is lost", status="failed")
    assert told(ann) == [
        f"bob began {build.id} (build)",
        f"bob took up {sign.id} (sign)",
        f"bob ended {sign.id} (sign), failed: the key is lost",
    ]


def test_takeover_is_for_an_existing_task(team: Team) -> None:
    """S3.1."""
    with pytest.raises(InvalidRequest, match="takeover is for an existing task"):
        push(team["bob"], "ship", takeover=True)


def test_a_cascade_leaves_what_others_do_and_planned(team: Team) -> None:
    """N5.2: the measured case: a goal taken over and ended with its steps."""
    ann, bob = team["ann"], team["bob"]
    root = push(ann, "ship", plan=("build", "announce"))
    push(bob, task_id=root.path[0].id, takeover=True)
    push(bob, plan=("bob's own", "his other"))
    popped = pop(bob, "shipped", cascade=True)
    assert [task.goal for task in popped.cascaded] == ["bob's own", "his other"]
    assert [(task.goal, task.agent) for task in popped.left] == [("build", "ann"), ("announce", "ann")]
    assert statuses(ann) == {
        "ship": "complete", "build": "planned", "announce": "planned", "bob's own": "complete",
        "his other": "complete",
    }  # fmt: skip
    assert told(ann) == [
        f"bob took over {root.path[0].id} (ship)",
        f"bob ended {root.path[0].id} (ship): shipped",
    ]
    block = ann.assemble_context(ContextRequest(), ann.caller()).text
    assert f"- bob ended {root.path[0].id} (ship) at 2026-11-20T12:00Z: shipped" in block
    assert f"- [{root.planned[0].id} planned since 12:00] build (part of t000001: ship)" in block
    assert "bob ended" in ann.assemble_context(ContextRequest(query="how do we ship"), ann.caller()).text
    assert goals(push(ann, task_id=root.planned[0].id)) == ["ship", "build"]
    assert goals(pop(ann).stack) == []
    assert "bob ended" not in ann.assemble_context(ContextRequest(), ann.caller()).text


def test_a_cascade_leaves_what_lies_below_others_tasks(team: Team) -> None:
    """N5.2: the caller's own too; without cascade, others are named."""
    ann, bob = team["ann"], team["bob"]
    root = push(ann, "ship").path[0]
    review = push(bob, "review", parent_id=root.id).path[-1]
    push(ann, plan=("answer",), parent_id=review.id)
    push(ann, plan=("pack",))
    with pytest.raises(Conflict, match=r"3 unfinished subtasks: .*t\w+ by bob \(review\)"):
        pop(ann)
    popped = pop(ann, cascade=True)
    assert [task.goal for task in popped.cascaded] == ["pack"]
    assert [task.goal for task in popped.left] == ["review", "answer"]
    assert popped.stack.path == ()
    pop(bob, "reviewed", cascade=True)
    assert statuses(bob)["answer"] == "planned"


def test_a_task_that_others_are_in_or_changed_is_ended_by_asking_twice(team: Team) -> None:
    """N5.1: for each state of it once; what the caller's last answer told is seen."""
    ann, bob = team["ann"], team["bob"]
    push(ann, "ship")
    task = push(ann, "build").path[1]
    pop(bob, "no key", task_id=push(ann, plan=("sign",)).planned[0].id, status="blocked")
    with pytest.raises(Conflict, match="ann is in"):
        pop(bob, "no machine", task_id=task.id, status="blocked")
    pop(bob, "no machine", task_id=task.id, status="blocked")
    with pytest.raises(
        Conflict, match=r"bob blocked t\w+ \(build\) at .*: no machine\. Nothing was changed; call again"
    ):
        pop(ann, "built", cascade=True)
    assert pop(ann, "built", cascade=True).stack.news[-1].deed == "blocked"
    other = push(ann, "test").path[1]
    insist(bob, "waits", task_id=other.id, status="blocked")
    assert len(push(ann, plan=("more",)).news) == 1
    assert pop(ann, "tested", cascade=True).popped.result == "tested"


def test_of_many_changes_the_latest_are_told_in_words(team: Team) -> None:
    """N5.1: the earlier ones by who and where, so that none is lost and the answer stays short."""
    ann, bob = team["ann"], team["bob"]
    steps = push(ann, "ship", plan=tuple(f"step {number}" for number in range(TOLD + 2))).planned
    for step in steps:
        push(bob, task_id=step.id)
    before, *words = told_changes(push(ann, "more").news, ann.caller())
    assert before == f"before that bob changed {steps[0].id}, {steps[1].id}"
    assert [each.split()[2] for each in words] == [step.id for step in steps[2:]]


def test_a_result_is_told_with_the_change_that_gave_it(team: Team) -> None:
    """N5.1: not with an earlier one."""
    ann, bob = team["ann"], team["bob"]
    task = push(ann, "ship").path[0]
    insist(bob, "no key", task_id=task.id, status="blocked")
    push(bob, task_id=task.id)
    pop(bob, "shipped")
    assert told(ann) == [
        f"bob blocked {task.id} (ship)",
        f"bob took up {task.id} (ship)",
        f"bob ended {task.id} (ship): shipped",
    ]


def test_a_process_remembers_so_many_warnings(team: Team, monkeypatch: pytest.MonkeyPatch) -> None:
    """N5.1: beyond, it asks again."""
    monkeypatch.setattr(task_owners, "WARNED", 1)
    ann, bob = team["ann"], team["bob"]
    tasks = [push(ann, f"part {number}").path[-1] for number in range(2)]
    for task in (*tasks, tasks[0]):
        with pytest.raises(Conflict, match="ann is in"):
            pop(bob, task_id=task.id)
    assert statuses(ann) == {"part 0": "active", "part 1": "active"}


def test_the_words_of_a_planned_step_enter_it(team: Team) -> None:
    """N5.3: below the current task, whatever their case and punctuation; only there, and none twice while it waits."""
    ann = team["ann"]
    root = push(ann, "ship", plan=("Build the wheel.", "Announce it"))
    entered = push(ann, "build the  wheel", success_criteria="it installs")
    assert entered.entered == "planned"
    assert entered.current is not None
    assert (entered.current.id, entered.current.success_criteria) == (root.planned[0].id, "it installs")
    assert push(ann, "announce it").entered is None
    pop(ann)
    pop(ann)
    announced = push(ann, "Announce it!")
    assert goals(announced) == ["ship", "Announce it"]
    assert announced.entered == "planned"
    assert push(ann, "Build the wheel").entered is None


def test_the_nearest_of_several_steps_of_the_same_words_is_meant(team: Team) -> None:
    """N5.3: and the whole plan above it has begun."""
    ann = team["ann"]
    build, deploy = push(ann, "ship", plan=("build", "deploy")).planned
    push(ann, plan=("test it",), parent_id=build.id)
    push(ann, plan=("test it", "watch it"), parent_id=deploy.id)
    entered = push(ann, "test it")
    assert goals(entered) == ["ship", "build", "test it"]
    assert entered.path[1].status == "active"


def test_the_first_block_says_who_is_where_and_how_to_go_on(team: Team, clock: Clock) -> None:
    """N5.2, F9.1: others' tasks, and one's own that were left."""
    ann, bob = team["ann"], team["bob"]
    push(ann, "Ship the importer")
    named = bob.caller("draw")
    push(bob, "Draw the chart", named)
    clock.advance(hours=1)
    block = bob.assemble_context(ContextRequest(), bob.caller()).text
    assert "- [t000001 open, ann since 12:00] Ship the importer" in block
    assert "- [t000005 open since 12:00] Draw the chart (push_task with task_id resumes it)" in block


def test_the_first_block_names_the_task_of_the_agents_other_window(open_memory: Callable[..., App]) -> None:
    """N5.3."""
    one, two = open_memory(), open_memory()
    push(one, "ship", one.windows.placed(one.caller()))
    block = two.assemble_context(ContextRequest(), two.windows.placed(two.caller())).text
    assert "- [t000001 open, another window of yours since 12:00] ship" in block


def test_a_task_that_is_handed_over_waits_for_its_new_agent_and_both_are_told(team: Team) -> None:
    """N5.2, U1.1: who was in it is named first; nobody is moved; the new one enters it without a takeover."""
    ann, bob = team["ann"], team["bob"]
    task = push(ann, "ship").path[0]
    with pytest.raises(Conflict, match=r"^ann is in .* call again to hand it over all the same"):
        bob.waiting_tasks.hand_over(task.id, "cy", bob.caller())
    waiting = bob.waiting_tasks.hand_over(task.id, "cy", bob.caller())
    assert (waiting.status, waiting.agent, waiting.session_id) == ("planned", "cy", "")
    assert told(ann) == [f"bob handed over {task.id} (ship)"]
    assert goals(ann.tasks.stack(ann.caller())) == ["ship"]
    cy = replace(bob.caller(), agent="cy")
    assert [told_change(each, cy) for each in bob.tasks.stack(cy).news] == [
        f"bob handed over {task.id} (ship) at 2026-11-20T12:00Z"
    ]
    assert goals(push(bob, task_id=task.id, caller=cy)) == ["ship"]


def test_a_task_that_ended_by_mistake_is_reopened(team: Team) -> None:
    """U1.1: it waits for its agent without the result, whose record is retired; ended as before, it has one again."""
    ann, bob = team["ann"], team["bob"]

    def found() -> Sequence[Record]:
        where = RecordFilter(scopes=ann.caller().scopes, kinds=frozenset({"result"}))
        return ann.records.list(where, "created", 9)

    def results() -> list[str]:
        return [each.text for each in found()]

    other = push(ann, "pack").path[0]
    task = push(ann, "weigh").path[1]
    with pytest.raises(InvalidRequest, match="has not ended; it is active"):
        bob.waiting_tasks.reopen(task.id, bob.caller())
    pop(ann, "3 kg")
    pop(ann, "packed")
    waiting = bob.waiting_tasks.reopen(task.id, bob.caller())
    assert (waiting.status, waiting.agent, waiting.result) == ("planned", "ann", None)
    assert told(ann) == [f"bob reopened {task.id} (weigh)"]
    [change] = bob.waiting_tasks.changes(bob.caller().namespace, [task.id], 1)
    assert (change.by_agent, change.deed) == ("bob", "reopened")
    assert results() == ["pack → packed"]
    assert goals(push(ann, task_id=task.id)) == ["pack", "weigh"]
    pop(ann, "3 kg")
    assert sorted(results()) == ["pack → packed", "weigh → 3 kg"]
    [packed] = [each.id for each in found() if "packed" in each.text]
    ann.forget([packed], "retire", ann.caller())
    assert bob.waiting_tasks.reopen(other.id, bob.caller()).status == "planned"


def test_a_task_that_ended_with_many_steps_is_reopened_without_its_result(team: Team) -> None:
    """U1.1: whatever ended in the same moment."""
    ann = team["ann"]
    task = push(ann, "pack").path[0]
    for start in (0, 60):
        push(ann, plan=tuple(f"box {n}" for n in range(start, start + 60)))
    pop(ann, "packed", task_id=task.id, cascade=True)
    ann.task_results.catch_up(ann.caller())
    ann.waiting_tasks.reopen(task.id, ann.caller())
    where = RecordFilter(scopes=ann.caller().scopes, kinds=frozenset({"result"}))
    assert [each.text for each in ann.records.list(where, "created", 200) if each.details["task"] == task.id] == []


def test_a_branch_is_not_reopened(team: Team) -> None:
    """U1.1: others see what it hid, and might rely on it."""
    ann = team["ann"]
    task = push(ann, "try", branch=True).path[0]
    pop(ann, "works")
    with pytest.raises(Conflict, match="was a branch"):
        ann.waiting_tasks.reopen(task.id, ann.caller())


def test_a_blocked_task_waits_for_its_own_agent_again(team: Team) -> None:
    """N5.2, U1.1."""
    ann, bob = team["ann"], team["bob"]
    task = push(ann, "sign").path[0]
    with pytest.raises(InvalidRequest, match="is ann's already"):
        bob.waiting_tasks.hand_over(task.id, "ann", bob.caller())
    pop(ann, "no key", status="blocked")
    waiting = bob.waiting_tasks.hand_over(task.id, "ann", bob.caller())
    assert (waiting.status, waiting.agent, waiting.session_id) == ("planned", "ann", task.session_id)
    assert told(ann) == [f"bob unblocked {task.id} (sign)"]
    assert goals(push(ann, task_id=task.id)) == ["sign"]
    pop(ann)
    with pytest.raises(Conflict, match="push its goal again"):
        bob.waiting_tasks.hand_over(task.id, "ann", bob.caller())


def test_the_changes_of_a_task_are_kept_from_the_first_one_by_another_agent_on(team: Team, clock: Clock) -> None:
    """U1.1: also those that nobody is to be told of; a task that was never shared has none."""
    ann, bob = team["ann"], team["bob"]
    alone = push(ann, "pack").path[0]
    pop(ann, "packed")
    task = push(ann, "ship").path[0]
    insist(bob, "lost", status="failed", task_id=task.id)
    clock.advance(hours=1)
    with pytest.raises(Conflict, match=r"^bob ended"):
        ann.waiting_tasks.reopen(task.id, ann.caller())
    ann.waiting_tasks.reopen(task.id, ann.caller())
    push(ann, task_id=task.id)
    kept = ann.records.task_changes(task.namespace, [task.id, alone.id], 9)
    assert [(each.by_agent, each.agent, each.deed, each.task_id) for each in kept] == [
        ("ann", "", "began", task.id),
        ("ann", "", "reopened", task.id),
        ("bob", "ann", "ended", task.id),
    ]
    assert told(bob) == []
    assert ann.records.task_changes(task.namespace, [task.id], 1) == kept[:1]
    assert ann.records.task_changes("toys", [task.id], 9) == []
