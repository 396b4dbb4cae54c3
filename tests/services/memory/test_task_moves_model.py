"""Any moves through one tree, by several agents and sessions: what the tree is like after each of them."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Sequence
from itertools import count
from pathlib import Path
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from mcp_memory.domain.model.scopes import Caller
from mcp_memory.domain.model.tasks import Task, path_to
from mcp_memory.errors import Conflict, InvalidRequest, NotFound
from mcp_memory.language.secrets_re2 import NoRedactor
from mcp_memory.services.memory.task_stack import PopRequest, PushRequest, Tasks
from mcp_memory.stores.records import SqliteRecordStore

CALLERS = [
    Caller(namespace="test", agent="ann", session_id="made up"),
    Caller(namespace="test", agent="ann", session_id="talk", named_session=True),
    Caller(namespace="test", agent="ann", session_id="code", named_session=True),
    Caller(namespace="test", agent="bob", session_id="made up"),
]
Move = tuple[str, int, int | None, dict[str, Any]]
"""What is done, by which caller, with which of the tasks there are (None: where it stands), and how."""

who, which = st.integers(0, len(CALLERS) - 1), st.none() | st.integers(0, 30)
plans = st.integers(0, 2).map(lambda steps: tuple(f"step {n}" for n in range(steps)))
pushing = st.fixed_dictionaries({"plan": plans, "branch": st.booleans()})
popping = st.fixed_dictionaries(
    {"status": st.sampled_from(["complete", "failed", "blocked", "abandoned"]), "cascade": st.booleans()}
)
moves: st.SearchStrategy[list[Move]] = st.lists(
    st.one_of(
        st.tuples(st.just("push"), who, which, pushing),
        st.tuples(st.just("enter"), who, which, pushing),
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
        service = Tasks(store, NoRedactor(), count(1.0).__next__)
        for move in history:
            caller, before = CALLERS[move[1]], list(store.tasks("test"))
            places = [store.places(each) for each in CALLERS]
            try:
                make(service, move, before, store.places(caller))
            except (Conflict, InvalidRequest, NotFound):
                assert list(store.tasks("test")) == before
                assert [store.places(each) for each in CALLERS] == places
            tasks = store.tasks("test")
            hangs_together(tasks)
            for each in CALLERS:
                stands_soundly(service, store, each)
                if each.agent != caller.agent:
                    assert store.places(each) == places[CALLERS.index(each)]
        store.close()


def make(service: Tasks, move: Move, before: Sequence[Task], places: Mapping[str, str]) -> None:
    """One move, and what it promises its caller, whose agent stood in these places."""
    what, who_moves, number, fields = move
    caller = CALLERS[who_moves]
    named = before[number % len(before)] if number is not None and before else None
    stood = service.stack(caller)
    named_id = named.id if named else None
    if what == "pop":
        popped = service.pop(PopRequest(result="came to this", task_id=named_id, **fields), caller)
        assert popped.popped.status == fields["status"]
        stood_in = places.get(caller.session_id if caller.named_session else "")
        assert named or stood_in == popped.popped.id or (stood_in is None and not caller.named_session)
        assert popped.stack == service.stack(caller)
        assert not {popped.popped.id, *(task.id for task in popped.cascaded)} & {task.id for task in popped.stack.path}
        assert all(task.status == "abandoned" for task in popped.cascaded)
    elif what == "plan":
        stack = service.push(PushRequest(parent_id=named_id, **fields), caller)
        assert stack.children[-1].status == "planned"
        assert service.stack(caller).path == stood.path
    elif what == "enter" and named:
        stack = service.push(PushRequest(task_id=named_id, **fields), caller)
        assert stack == service.stack(caller)
        assert all(task.status != "planned" for task in stack.path)
        assert (stack.branch_id == named.id) == (named.branch or (fields["branch"] and named.status == "planned"))
    elif what == "push":
        stack = service.push(PushRequest(goal="goal", parent_id=named_id, **fields), caller)
        assert stack == service.stack(caller)
        above = named or stood.current
        assert [task.id for task in stack.path[-2:-1]] == ([above.id] if above else [])
        assert [task.status for task in stack.children] == ["planned"] * len(fields["plan"])


def hangs_together(tasks: Sequence[Task]) -> None:
    """No orphan, no wrong depth; nothing open below what is finished, nothing begun below what still waits."""
    by_id = {task.id: task for task in tasks}
    assert len(by_id) == len(tasks)
    for task in tasks:
        parent = by_id[task.parent_id] if task.parent_id else None
        assert task.depth == (parent.depth + 1 if parent else 0)
        assert [each.depth for each in path_to(task.id, tasks)] == list(range(task.depth + 1))
        if parent and not task.is_finished:
            assert not parent.is_finished
        if parent and task.status == "active":
            assert parent.status != "planned"
        assert bool(task.result) or not (task.is_finished or task.status == "blocked")


def stands_soundly(service: Tasks, store: SqliteRecordStore, caller: Caller) -> None:
    """In an open task or in none; and a place is a task that there is."""
    stack = service.stack(caller)
    assert all(not task.is_finished for task in stack.path)
    assert set(store.places(caller).values()) <= {task.id for task in store.tasks("test")}
    assert stack.hidden_branches.isdisjoint(task.id for task in stack.path)
    assert stack.isolated.isdisjoint(task.id for task in stack.path)
