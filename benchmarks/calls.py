"""The cost of a call after many others: the CPU of each tool around call 500, 5,000, 10,000 and 20,000 of one memory.

    python -m benchmarks.calls [--calls 20000] [--profile 20000]

Three agents work in sessions: they remember, ask, push and pop tasks, correct and forget, and feed and compact the logs
of their sessions; nearly all tasks end. It calls the services that the tools call, so that no transport is in a figure.
Upkeep embeds and compacts between the calls, outside of what is measured; it reviews nothing, which would take longer
than all calls. Nothing is erased: that rewrites the file (docs/decisions/0010). 20,000 calls take about ten minutes.
"""

from __future__ import annotations

import argparse
import cProfile
import pstats
import random
import statistics
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, field, replace
from itertools import count
from pathlib import Path

from rich.console import Console
from rich.table import Table

from benchmarks.speed import ms
from benchmarks.texts import memories, questions
from mcp_memory.app import App, open_app
from mcp_memory.domain.model.records import Entity, NewRecord
from mcp_memory.domain.model.scopes import Caller
from mcp_memory.encoders.embed_minilm import MiniLMEmbedder
from mcp_memory.errors import NotFound
from mcp_memory.services.context.assemble import ContextRequest
from mcp_memory.services.memory.revise import Revision
from mcp_memory.services.retrieval.recall import RecallRequest
from mcp_memory.services.sessions.compact import CompactRequest
from mcp_memory.services.tasks.task_stack import PopRequest, PushRequest
from mcp_memory.settings import load_settings

MIX = {
    "remember": 5, "recall": 3, "assemble_context": 2, "push_task": 3, "pop_task": 3, "revise, the text": 1,
    "revise, a rating": 1, "forget": 1, "compact, messages": 1, "compact": 1,
}  # fmt: skip
"""The calls of one round, which are shuffled."""
WINDOW = 420
"""Calls around a mark that are measured: twenty rounds."""
MARKS = (500, 5_000, 10_000, 20_000)
BOUND, NO_MORE_SECONDS = 2.5, 0.001
"""What a call may cost at the last mark as a multiple of the first, or beyond it."""
AGENTS = ("anna", "bob", "cleo")
SESSION_CALLS = 60
"""Calls of a session; the next one of the same agent then begins."""
LEFT_OPEN = 0.1
"""The share of sessions that leave their tasks open."""
PACE_SECONDS = 120.0
START = 1_767_225_600.0
UPKEEP_EVERY, UPKEEP_STEPS = 20, 10
FED = 4
DEEPEST = 5


class Clock:
    """A time that goes on with the calls, so that records age as they would in two months."""

    now = START

    def __call__(self) -> float:
        return self.now


@dataclass(slots=True)
class Desk:
    """Where an agent stands: its caller, the calls left in its session, the depth of its stack, and planned steps."""

    caller: Caller
    left: int
    depth: int = 0
    steps: list[str] = field(default_factory=list[str])


class History:
    """Makes one call after the other."""

    def __init__(self, app: App, clock: Clock, calls: int, seed: int = 11) -> None:
        self.app, self.clock = app, clock
        self.source = random.Random(seed)
        told = memories(4 * calls // 3 + 1_000, seed=seed)
        self._said = iter([item for item in told if item.kind == "message"])
        self._learnt = iter([item for item in told if item.kind != "message"])
        self._asked = iter(questions(calls + 100, seed=seed))
        self._sessions = count(1)
        self._stored: list[tuple[str, str]] = []
        self._desks = [self._begun(agent) for agent in AGENTS]
        self._calls: dict[str, Callable[[Desk], Callable[[], object]]] = {
            "remember": self._remember, "recall": self._recall, "assemble_context": self._assemble,
            "push_task": self._push, "pop_task": self._pop, "revise, the text": self._correct,
            "revise, a rating": self._rate, "forget": self._forget,
            "compact, messages": self._feed, "compact": self._compact,
        }  # fmt: skip

    def next(self, tool: str) -> Callable[[], object]:
        """Return the next call of a tool by one of the agents, ready to be made."""
        self.clock.now += self.source.expovariate(1 / PACE_SECONDS)
        return self._calls[tool](self._desk(tool))

    def _desk(self, tool: str) -> Desk:
        """Return who makes the call: a task is pushed by who is in few, and popped by who is in many."""
        for place, desk in enumerate(self._desks):
            if desk.left <= 0:
                self._desks[place] = self._begun(desk.caller.agent)
        if tool in ("push_task", "pop_task"):
            order = sorted(self._desks, key=lambda desk: (desk.depth, self.source.random()))
            desk = order[0] if tool == "push_task" else order[-1]
        else:
            desk = self.source.choice(self._desks)
        desk.left -= 1
        return desk

    def _begun(self, agent: str) -> Desk:
        """Begin an agent's next session. The first agent works in a window, whose tasks last; the others' do not."""
        caller = replace(self.app.caller(), agent=agent)
        session = f"{agent}-{next(self._sessions)}"
        former = next((desk for desk in getattr(self, "_desks", ()) if desk.caller.agent == agent), None)
        if agent == AGENTS[0]:
            caller = replace(caller, session_id=session)
            return replace(former, caller=caller, left=SESSION_CALLS) if former else Desk(caller, SESSION_CALLS)
        while former and former.depth and self.source.random() > LEFT_OPEN:
            self._pop(former)()
        return Desk(caller.in_session(session), SESSION_CALLS)

    def _record(self) -> NewRecord:
        item = replace(next(self._learnt), session_id=None, occurred_at=None)
        if self.source.random() < 1 / 3:
            named = Entity(name=item.tags[0], type="project", properties={"area": item.tags[1]})
            item = replace(item, entities=(named,))
        return item

    def _remember(self, desk: Desk) -> Callable[[], object]:
        item = self._record()

        def call() -> None:
            (told,) = self.app.remember([item], desk.caller)
            self._stored.append((told.id, item.text))

        return call

    def _recall(self, desk: Desk) -> Callable[[], object]:
        asked = RecallRequest(query=next(self._asked))
        return lambda: self.app.recall(asked, desk.caller)

    def _assemble(self, desk: Desk) -> Callable[[], object]:
        asked = ContextRequest(query=next(self._asked))
        return lambda: self.app.assemble_context(asked, desk.caller)

    def _push(self, desk: Desk) -> Callable[[], object]:
        if desk.depth >= DEEPEST:
            return self._pop(desk)
        step = desk.steps.pop() if desk.steps else None
        plan = () if step or self.source.random() > 1 / 4 else (self._goal(), self._goal())
        branch = not step and self.source.random() < 1 / 20
        asked = PushRequest(goal="" if step else self._goal(), task_id=step, plan=plan, branch=branch)

        def call() -> None:
            stack = self.app.tasks.push(asked, desk.caller)
            if len(stack.path) == 1:
                self.app.tasks.left_open(desk.caller, stack)
            desk.depth += 1
            desk.steps = [task.id for task in stack.children]

        return call

    def _goal(self) -> str:
        return self._record().text.split("\n")[0]

    def _pop(self, desk: Desk) -> Callable[[], object]:
        if not desk.depth:
            return self._push(desk)
        failed = self.source.random() < 1 / 10
        asked = PopRequest(result=self._goal(), status="failed" if failed else "complete", cascade=True)

        def call() -> None:
            popped = self.app.tasks.pop(asked, desk.caller)
            self.app.reviews.next_of(popped.popped.id, desk.caller)
            desk.depth = len(popped.stack.path)
            desk.steps = [task.id for task in popped.stack.children if task.status == "planned"]

        return call

    def _correct(self, desk: Desk) -> Callable[[], object]:
        record_id, text = self._taken()
        text = f"{text.split(' Since ')[0]} Since {self.source.randrange(10_000)} it is otherwise."
        self._stored.append((record_id, text))
        return self._revise(Revision(id=record_id, text=text, reason="it changed"), desk)

    def _rate(self, desk: Desk) -> Callable[[], object]:
        record_id, _ = self.source.choice(self._stored)
        return self._revise(Revision(id=record_id, importance=float(self.source.randint(1, 10))), desk)

    def _revise(self, revision: Revision, desk: Desk) -> Callable[[], object]:
        revision = replace(revision, version=self.app.records.revision())

        def call() -> None:
            with suppress(NotFound):  # Another agent's branch may hide the record.
                self.app.revise.advised(revision, desk.caller)

        return call

    def _forget(self, desk: Desk) -> Callable[[], object]:
        (record_id, _), version = self._taken(), self.app.records.revision()
        return lambda: self.app.forget([record_id], "retire", desk.caller, version)

    def _taken(self) -> tuple[str, str]:
        return self._stored.pop(self.source.randrange(len(self._stored)))

    def _feed(self, desk: Desk) -> Callable[[], object]:
        told = [replace(next(self._said), session_id=None, occurred_at=None) for _ in range(FED)]
        return lambda: self.app.feed(told, desk.caller)

    def _compact(self, desk: Desk) -> Callable[[], object]:
        return lambda: self.app.compact(CompactRequest(window=2_000, summarizer="extractive"), desk.caller)


def main() -> None:
    """Make the calls and print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--calls", type=int, default=MARKS[-1], help="the calls of the history")
    parser.add_argument("--profile", type=int, help="print where the calls around this mark spend their time")
    arguments = parser.parse_args()
    marks = [mark for mark in MARKS if mark + WINDOW // 2 <= arguments.calls - WINDOW] + [arguments.calls]
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        clock = Clock()
        settings = load_settings(data_dir=Path(folder), namespace="benchmark", agent=AGENTS[0])
        with closing(open_app(settings, clock, MiniLMEmbedder())) as app:
            app.warm()
            taken = measured(app, clock, arguments.calls, marks, arguments.profile)
            tasks = len(app.tasks.tree(app.caller()))
            sizes = f"{app.records.count_all():,} records and {tasks:,} tasks at the end"
    Console(width=130).print(table_of(taken, [mark for mark in marks if mark != arguments.profile]), sizes)


def measured(
    app: App, clock: Clock, calls: int, marks: Sequence[int], profiled: int | None
) -> dict[int, dict[str, list[float]]]:
    """Make the calls; the CPU seconds of those around each mark, by tool."""
    history = History(app, clock, calls)
    taken: dict[int, dict[str, list[float]]] = {mark: defaultdict(list) for mark in marks}
    profiles: dict[str, cProfile.Profile] = defaultdict(cProfile.Profile)
    for number, tool in zip(range(calls), _shuffled(history.source), strict=False):
        call = history.next(tool)
        mark = next((each for each in marks if _begin(each, calls) <= number < _begin(each, calls) + WINDOW), None)
        if mark is not None and mark == profiled:
            profiles[tool].runcall(call)
            continue
        begin = time.process_time()
        call()
        seconds = time.process_time() - begin
        if mark is not None:
            taken[mark][tool].append(seconds)
        if number % UPKEEP_EVERY == 0:
            for _ in range(UPKEEP_STEPS):
                if not app.keep_up(maintains=False):
                    break
    for tool, profile in profiles.items():
        print(f"=== {tool}")
        pstats.Stats(profile).sort_stats("cumulative").print_stats(45)
    return taken


def _begin(mark: int, calls: int) -> int:
    """Return the first call of the window around a mark; the last window ends with the history."""
    return max(0, min(mark - WINDOW // 2, calls - WINDOW))


def _shuffled(source: random.Random) -> Iterator[str]:
    """Yield the tools of the calls, round by round, without end; what is changed first was remembered."""
    yield from ["remember"] * 40
    while True:
        tools = [tool for tool, times in MIX.items() for _ in range(times)]
        source.shuffle(tools)
        yield from tools


def table_of(taken: dict[int, dict[str, list[float]]], marks: Sequence[int]) -> Table:
    """The median CPU of each tool at each mark, and the ratio of the last to the first."""
    table = Table("CPU of a call", *(f"at {mark:,}" for mark in marks), "last : first", f"bound {BOUND}")
    for tool in MIX:
        medians = [statistics.median(taken[mark][tool]) for mark in marks]
        first, last = medians[0], medians[-1]
        is_held = last <= BOUND * first or last - first < NO_MORE_SECONDS
        table.add_row(tool, *map(ms, medians), f"{last / first:.2f}", "held" if is_held else "BROKEN")
    return table


if __name__ == "__main__":
    main()
