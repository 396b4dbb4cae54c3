"""Whatever the interleaving, no answered change of a task disappears without being named to whom it concerns."""

from __future__ import annotations

import random
import tempfile
import threading
from collections import defaultdict
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import count, pairwise
from pathlib import Path
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from mcp_memory.domain.model.scopes import Caller
from mcp_memory.domain.model.tasks import Task, TaskChange, window_place
from mcp_memory.errors import Conflict, InvalidRequest, NotFound
from mcp_memory.language.secrets_re2 import NoRedactor
from mcp_memory.services.access.client_windows import ClientWindows
from mcp_memory.services.tasks.task_stack import PopRequest, PushRequest, TaskStack
from mcp_memory.stores.process_locks import FileProcessLocks
from mcp_memory.stores.records import SqliteRecordStore

SEATS = [("ann", ""), ("ann", ""), ("ann", "talk"), ("bob", ""), ("bob", ""), ("cleo", "")]
"""Whose window it is, and the session that its calls name."""
Move = tuple[str, int, int | None, dict[str, Any]]
"""What is done, in which seat, with which of the tasks there are (None: where it stands), and how."""

seats, which = st.integers(0, len(SEATS) - 1), st.none() | st.integers(0, 20)
plans = st.integers(0, 2).map(lambda steps: tuple(f"step {n}" for n in range(steps)))
popping = st.fixed_dictionaries(
    {"status": st.sampled_from(["complete", "failed", "blocked", "abandoned"]), "cascade": st.booleans()}
)
leaving: st.SearchStrategy[dict[str, Any]] = st.just({})
moves: st.SearchStrategy[list[Move]] = st.lists(
    st.one_of(
        st.tuples(st.just("push"), seats, which, st.fixed_dictionaries({"plan": plans})),
        st.tuples(st.just("enter"), seats, which, st.fixed_dictionaries({"takeover": st.booleans()})),
        st.tuples(st.just("pop"), seats, which, popping),
        st.tuples(st.just("leave"), seats, st.none(), leaving),
    ),
    max_size=25,
)


@dataclass(frozen=True, slots=True)
class Answer:
    """What a move was told: `states` are the tasks as it shows them, `ended` those that it ended."""

    caller: Caller
    news: Sequence[TaskChange]
    states: Sequence[Task]
    ended: Sequence[Task] = ()


class Seat:
    """A process with one window, until it leaves; then the next sits down."""

    def __init__(self, number: int, store: SqliteRecordStore, folder: Path, clock: count[float]) -> None:
        self._agent, self._session = SEATS[number]
        self._store, self._clock = store, clock.__next__
        self._locks = FileProcessLocks(folder / "windows")
        self.sit()

    def sit(self) -> None:
        self._windows = ClientWindows(self._store, self._locks, self._clock)
        self._tasks = TaskStack(self._store, NoRedactor(), self._clock, elsewhere=self._windows.elsewhere)

    def leave(self) -> None:
        self._windows.close()
        self.sit()

    def caller(self) -> Caller:
        own = Caller(namespace="test", agent=self._agent, session_id="made up")
        return self._windows.placed(own).in_session(self._session or None)

    def pending(self) -> Sequence[TaskChange]:
        """What a context in this window names."""
        return self._tasks.stack(self.caller()).news

    def make(self, move: Move) -> Answer | None:
        """What the move was answered; None for a refusal. It insists where the first call is told who takes part."""
        if move[0] == "leave":
            self.leave()
            return None
        for _ in range(2):
            try:
                return self._make(*move)
            except Conflict as refused:
                if "call again to end it all the same" not in str(refused):
                    return None
            except (InvalidRequest, NotFound):
                return None
        return None

    def _make(self, what: str, _seat: int, number: int | None, fields: Mapping[str, Any]) -> Answer:
        caller, tasks = self.caller(), self._store.tasks("test")
        named = tasks[number % len(tasks)].id if number is not None and tasks else None
        if what == "pop":
            popped = self._tasks.pop(PopRequest(result=f"of {caller.agent}", task_id=named, **fields), caller)
            ended = (popped.popped, *popped.cascaded)
            return Answer(caller, popped.stack.news, ended, ended)
        target: dict[str, Any] = {"goal": f"goal {len(tasks)}", "parent_id": named}
        target = {"task_id": named} if what == "enter" else target
        stack = self._tasks.push(PushRequest(**target, **fields), caller)
        return Answer(caller, stack.news, (*stack.path, *stack.children))


@contextmanager
def seated(folder: Path, stores: int) -> Generator[list[Seat]]:
    """Every seat taken, over one memory that so many stores have open."""
    clock = count(1.0)
    opened = [SqliteRecordStore(folder, "none") for _ in range(stores)]
    taken = [Seat(number, opened[number % stores], folder, clock) for number in range(len(SEATS))]
    yield taken
    for seat in taken:
        seat.leave()
    for store in opened:
        store.close()


def keys(changes: Sequence[TaskChange]) -> set[tuple[str, float]]:
    """Each change by its task and time, which is another for each write here."""
    return {(change.task_id, change.at) for change in changes}


@settings(max_examples=20)
@given(moves)
def test_every_change_is_told_at_every_place_of_the_agent_whose_task_it_was(history: Sequence[Move]) -> None:
    """N5.1, N5.2, N5.3: by the place's next answer, however windows come and go between; also where one stood in it."""
    with tempfile.TemporaryDirectory() as folder, seated(Path(folder), 1) as taken:
        store = SqliteRecordStore(Path(folder), "none")
        owed: dict[tuple[str, str], set[tuple[str, float]]] = {}
        """For each place that ever moved what its next answer must name; at "?" any other place of the agent."""
        for move in history:
            before = {task.id: task for task in store.tasks("test")}
            stood = {agent: store.places(Caller(namespace="test", agent=agent, session_id="")) for agent, _ in SEATS}
            if (answer := taken[move[1]].make(move)) is None:
                assert {task.id: task for task in store.tasks("test")} == before
                continue
            agent, place = answer.caller.agent, answer.caller.place
            assert owed.get((agent, place), owed.get((agent, "?"), set())) <= keys(answer.news)
            assert not store.news(answer.caller)
            owed |= {(agent, place): set(), (agent, "?"): set()}
            for task in store.tasks("test"):
                old = before.get(task.id)
                if old is None or old == task:
                    continue
                for other, at in owed:
                    if old.agent == other != agent or (
                        stood[other].get(at) == task.id and (other, at) != (agent, place)
                    ):
                        owed[other, at].add((task.id, task.updated_at))
            for (other, at), changes in owed.items():
                there = Caller(namespace="test", agent=other, session_id="", window=window_place(99))
                if at != "?":
                    there = replace(there, session_id=at, named_session=True)
                assert changes <= keys(store.news(there))
        store.close()


def test_of_moves_made_at_once_none_is_lost_or_untold(tmp_path: Path) -> None:
    """N5.1, N5.2: as answers alone tell it: each agent's task that another changed is named to the agent."""
    with seated(tmp_path, len(SEATS)) as taken:
        answers: list[Answer] = []

        def play(seat: int, turn: int) -> None:
            draw = random.Random(f"{turn} {seat}")
            for _ in range(8):
                what = draw.choices(["push", "enter", "pop", "leave"], [4, 5, 5, 1])[0]
                fields: dict[str, dict[str, Any]] = {
                    "push": {"plan": ("step",) * draw.randrange(2)},
                    "enter": {"takeover": draw.random() < 0.8},
                    "pop": {"status": draw.choice(["complete", "blocked", "failed"]), "cascade": draw.random() < 0.5},
                    "leave": {},
                }
                number = draw.randrange(20) if what == "enter" or draw.random() < 0.5 else None
                if answer := taken[seat].make((what, seat, number, fields[what])):
                    answers.append(answer)

        for turn in range(4):
            threads = [threading.Thread(target=play, args=(seat, turn)) for seat in range(len(SEATS))]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
        told: dict[str, set[tuple[str, float]]] = defaultdict(set)
        for answer in answers:
            told[answer.caller.agent] |= keys(answer.news)
        for seat in taken:
            told[seat.caller().agent] |= keys(seat.pending())
        concerned = list(changed_by_others(answers))
        assert len(concerned) > 5  # How many depends on how the threads take turns.
        for agent, task in concerned:
            assert (task.id, task.updated_at) in told[agent]
        latest = {task.id: task for line in histories(answers) for task in line[-1:]}
        with_all = SqliteRecordStore(tmp_path, "none")
        assert latest == {task.id: task for task in with_all.tasks("test")}
        with_all.close()


def histories(answers: Sequence[Answer]) -> list[list[Task]]:
    """The states of each task that answers showed, in their order."""
    states = {(task.id, task.updated_at): task for answer in answers for task in answer.states}
    lines: dict[str, list[Task]] = defaultdict(list)
    for key in sorted(states):
        lines[key[0]].append(states[key])
    return list(lines.values())


def changed_by_others(answers: Sequence[Answer]) -> Iterator[tuple[str, Task]]:
    """Each state that another agent than the task's own made, with the agent that it was of."""
    ended_by = {(task.id, task.updated_at): each.caller.agent for each in answers for task in each.ended}
    for line in histories(answers):
        for old, new in pairwise(line):
            if ended_by.get((new.id, new.updated_at), new.agent) != old.agent:
                yield old.agent, new
