"""Any moves through one tree, by several agents and sessions: what the tree is like after each of them."""

from __future__ import annotations

import tempfile
from collections.abc import Collection, Mapping, Sequence
from itertools import count
from pathlib import Path
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from mcp_memory.domain.model.scopes import Caller
from mcp_memory.domain.model.tasks import Stack, Task, is_window, path_to, stack_at, window_place
from mcp_memory.errors import Conflict, InvalidRequest, NotFound
from mcp_memory.language.secrets_re2 import NoRedactor
from mcp_memory.services.tasks.task_stack import PopRequest, PushRequest, TaskStack
from mcp_memory.stores.records import SqliteRecordStore

CALLERS = [
    Caller(namespace="test", agent="ann", session_id="made up"),
    Caller(namespace="test", agent="ann", session_id="talk", named_session=True),
    Caller(namespace="test", agent="ann", session_id="code", named_session=True),
    Caller(namespace="test", agent="ann", session_id="made up", window=window_place(2)),
    Caller(namespace="test", agent="bob", session_id="made up"),
]
Move = tuple[str, int, int | None, dict[str, Any]]
"""What is done, by which caller, with which of the tasks there are (None: where it stands), and how."""

who, which = st.integers(0, len(CALLERS) - 1), st.none() | st.integers(0, 30)
plans = st.integers(0, 2).map(lambda steps: tuple(f"step {n}" for n in range(steps)))
pushing = st.fixed_dictionaries({"plan": plans, "branch": st.booleans()})
entering = st.fixed_dictionaries({"plan": plans, "branch": st.booleans(), "takeover": st.booleans()})
popping = st.fixed_dictionaries(
    {"status": st.sampled_from(["complete", "failed", "blocked", "abandoned"]), "cascade": st.booleans()}
)
moves: st.SearchStrategy[list[Move]] = st.lists(
    st.one_of(
        st.tuples(st.just("push"), who, which, pushing),
        st.tuples(st.just("enter"), who, which, entering),
        st.tuples(st.just("plan"), who, which, st.just({"plan": ("step",)})),
        st.tuples(st.just("pop"), who, which, popping),
    ),
    max_size=25,
)


@settings(max_examples=40)
@given(moves)
def test_whatever_is_moved_by_whom_the_tree_hangs_together(history: Sequence[Move]) -> None:
    """T1.1, T1.2, T3.2, T4.1, T4.3: after every move; what is refused changes nothing."""
    with tempfile.TemporaryDirectory() as folder:
        store = SqliteRecordStore(Path(folder), "none")
        service = TaskStack(store, NoRedactor(), count(1.0).__next__, elsewhere=other_windows)
        left: set[str] = set()
        for move in history:
            caller, before = CALLERS[move[1]], list(store.tasks("test"))
            places = [store.places(each) for each in CALLERS]
            try:
                left |= insisting(service, move, before, store.places(caller))
            except (Conflict, InvalidRequest, NotFound):
                assert list(store.tasks("test")) == before
                assert [store.places(each) for each in CALLERS] == places
            hangs_together(store.tasks("test"), left)
            for each in CALLERS:
                stands_soundly(service, store, each)
                if each.agent != caller.agent:
                    assert store.places(each) == places[CALLERS.index(each)]
        store.close()


def other_windows(caller: Caller, places: Mapping[str, str]) -> frozenset[str]:
    """Every window lives."""
    return frozenset(at for place, at in places.items() if place != caller.place and is_window(place))


def insisting(service: TaskStack, move: Move, before: Sequence[Task], places: Mapping[str, str]) -> frozenset[str]:
    """Make a move; once more where the first call was told that others take part."""
    try:
        return make(service, move, before, places)
    except Conflict as refused:
        if "call again to end it all the same" not in str(refused):
            raise
        return make(service, move, before, places)


def make(service: TaskStack, move: Move, before: Sequence[Task], places: Mapping[str, str]) -> frozenset[str]:
    """One move, and what it promises its caller, whose agent stood in these places; the tasks that a cascade left."""
    what, who_moves, number, fields = move
    caller = CALLERS[who_moves]
    named = before[number % len(before)] if number is not None and before else None
    stood = service.stack(caller)
    named_id = named.id if named else None
    if what == "pop":
        popped = service.pop(PopRequest(result="came to this", task_id=named_id, **fields), caller)
        assert popped.popped.status == fields["status"]
        stood_in = places.get(caller.place)
        assert named or stood_in == popped.popped.id or (stood_in is None and not caller.named_session)
        assert same_place(popped.stack, service.stack(caller))
        assert not {popped.popped.id, *(task.id for task in popped.cascaded)} & {task.id for task in popped.stack.path}
        assert all(task.status == "abandoned" for task in popped.cascaded)
        assert all(task.agent == caller.agent for task in popped.cascaded)
        return frozenset(task.id for task in popped.left)
    if what == "plan":
        stack = service.push(PushRequest(parent_id=named_id, **fields), caller)
        assert stack.children[-1].status == "planned"
        assert service.stack(caller).path == stood.path
        return frozenset()
    if what == "enter" and named:
        stack = service.push(PushRequest(task_id=named_id, **fields), caller)
        assert same_place(stack, service.stack(caller))
        assert all(task.status != "planned" for task in stack.path)
        assert (stack.branch_id == named.id) == (named.branch or (fields["branch"] and named.status == "planned"))
        assert fields["takeover"] or named.status != "active" or named.agent == caller.agent
        return frozenset()
    if what == "push":
        stack = service.push(PushRequest(goal="goal", parent_id=named_id, **fields), caller)
        assert same_place(stack, service.stack(caller))
        above = named or stood.current
        assert [task.id for task in stack.path[-2:-1]] == ([above.id] if above else [])
        assert [task.status for task in stack.children] == ["planned"] * len(fields["plan"])
        return frozenset()
    raise NotFound("no task to enter")


def same_place(moved: Stack, stack: Stack) -> bool:
    """A move's stack leaves ended tasks beside the path out, which it does not read."""
    return (moved.path, moved.planned, moved.open_threads) == (stack.path, stack.planned, stack.open_threads)


def hangs_together(tasks: Sequence[Task], left: Collection[str]) -> None:
    """No orphan, no wrong depth; open below what is finished is only what a cascade left, and what was begun there.

    Nothing is begun below what still waits.
    """
    by_id = {task.id: task for task in tasks}
    assert len(by_id) == len(tasks)
    for task in tasks:
        parent = by_id[task.parent_id] if task.parent_id else None
        assert task.depth == (parent.depth + 1 if parent else 0)
        assert [each.depth for each in path_to(task.id, tasks)] == list(range(task.depth + 1))
        if parent and not task.is_finished:
            assert not parent.is_finished or task.id in left
        if parent and task.status == "active":
            assert parent.status != "planned"
        assert bool(task.result) or not (task.is_finished or task.status == "blocked")


def stands_soundly(service: TaskStack, store: SqliteRecordStore, caller: Caller) -> None:
    """In an open task or in none; and a place is a task that there is."""
    stack = service.stack(caller)
    assert stack.current is None or not stack.current.is_finished
    assert set(store.places(caller).values()) <= {task.id for task in store.tasks("test")}
    assert stack.hidden_branches.isdisjoint(task.id for task in stack.path)
    assert stack.isolated.isdisjoint(task.id for task in stack.path)
    # What is read near the place is as good as the whole tree.
    assert stack == stack_at(stack.current.id if stack.current else None, store.tasks("test"))
