"""Goals of the same meaning, named when one is pushed."""

from collections.abc import Callable, Sequence

import pytest

from mcp_memory.app import App
from mcp_memory.errors import StoreUnavailable
from tests.services.tasks.moves import goals, pop, push, statuses

Open = Callable[..., App]


def alike(app: App, goal: str) -> list[str]:
    stack = push(app, goal)
    return [task.goal for task in app.alike_goals(stack, app.caller())]


@pytest.mark.parametrize(
    ("goal", "again"),
    [
        ("Migrate the crane slot service to gRPC", "migrate the crane slot service to gRPC."),
        ("Speed up search", "Make search faster"),
        ("Den Krandienst auf gRPC umstellen", "Krandienst umstellen auf gRPC"),
    ],
)
def test_a_goal_of_the_same_meaning_is_named_to_another(open_memory: Open, goal: str, again: str) -> None:
    """W4.2: while it is open, and when it has ended."""
    ann, bob, cleo = (open_memory(agent=name) for name in ("ann", "bob", "cleo"))
    push(ann, "Paint the shed")
    pop(ann, "green")
    push(ann, goal)
    assert alike(bob, again) == [goal]
    pop(ann, "no licence", status="failed")
    pop(bob, "gave up", status="abandoned")
    assert set(alike(cleo, again)) == {goal, again}


def test_another_number_or_thing_is_another_goal(open_memory: Open) -> None:
    """W4.2."""
    ann, bob = open_memory(agent="ann"), open_memory(agent="bob")
    push(ann, "Upgrade Postgres to 16")
    assert alike(bob, "Upgrade Postgres to 17") == []
    assert alike(bob, "Water the plants") == []


def test_without_a_model_equal_words_are_named(open_memory: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    ann, bob = open_memory(agent="ann"), open_memory(agent="bob")
    push(ann, "Upgrade Postgres to 16")

    def refuse(texts: Sequence[str]) -> None:
        raise StoreUnavailable("no model")

    monkeypatch.setattr(bob.searcher.work._embedder, "embed_many", refuse)  # noqa: SLF001
    assert alike(bob, "upgrade Postgres to 16!") == ["Upgrade Postgres to 16"]


def test_an_agent_that_says_its_goal_again_enters_it(app: App) -> None:
    """W4.2: it does not nest in itself, and what the plan has already is not planned twice."""
    push(app, "Ship the tables", plan=("Store", "Download"))
    again = push(app, "ship the tables", plan=("store", "Announce"))
    assert (goals(again), again.entered) == (["Ship the tables"], "active")
    assert [task.goal for task in again.planned] == ["Store", "Download", "Announce"]
    push(app, "Store")
    assert goals(push(app, "Ship the tables")) == ["Ship the tables"]
    pop(app, "no disk", status="blocked")
    back = push(app, "Ship the tables")
    assert (back.entered, statuses(app)["Ship the tables"]) == ("blocked", "active")


def test_a_goal_is_new_elsewhere_as_a_branch_or_after_its_end(app: App, open_memory: Open) -> None:
    """W4.2: a step of the same words below another goal, another attempt, what another agent has."""
    push(app, "Build the reader")
    push(app, "Write tests")
    parent = push(app, "Build the writer", parent_id=app.tasks.tree(app.caller())[0].id).path[-1]
    assert push(app, "Write tests").entered is None
    assert push(app, "Build the reader", parent_id=parent.id).entered is None
    assert push(app, "Write tests", branch=True).entered is None
    pop(app, "none")
    bob = open_memory(agent="bob")
    assert push(bob, "Build the reader").entered is None


def test_a_goal_that_another_window_is_in_is_named_and_not_entered(open_memory: Open) -> None:
    """W4.2."""
    one, two = open_memory(), open_memory()
    push(one, "Ship it", one.windows.placed(one.caller()))
    caller = two.windows.placed(two.caller())
    stack = push(two, "Ship it", caller)
    assert stack.entered is None
    assert [task.goal for task in two.alike_goals(stack, caller)] == ["Ship it"]
