"""The tree of tasks with many processes in it, and with one that is killed."""

import json
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from mcp_memory.domain.model.scopes import Caller
from mcp_memory.domain.model.tasks import path_to
from mcp_memory.language.secrets_re2 import NoRedactor
from mcp_memory.services.tasks.task_stack import PushRequest, TaskStack
from mcp_memory.stores.records import SqliteRecordStore
from tests.forked import ForkedProcess

PROCESSES, TASKS = 4, 12

OPENED = """
import itertools, json, sys
from pathlib import Path
from mcp_memory.domain.model.scopes import Caller
from mcp_memory.errors import Conflict
from mcp_memory.language.secrets_re2 import NoRedactor
from mcp_memory.services.tasks.task_stack import PopRequest, PushRequest, TaskStack
from mcp_memory.stores.records import SqliteRecordStore

store = SqliteRecordStore(Path(sys.argv[1]), "none")
tasks = TaskStack(store, NoRedactor(), itertools.count(1.0).__next__)
me = Caller(namespace="test", agent=sys.argv[2], session_id="s")
"""

CLIMBER = """
for turn in itertools.count():
    stack = tasks.push(PushRequest(goal=f"level {turn % 5}", plan=("step",)), me)
    print(json.dumps([task.id for task in stack.path]), flush=True)
    if turn % 5 == 4:
        stack = tasks.pop(PopRequest(result="over", task_id=stack.path[0].id, cascade=True), me).stack
        print(json.dumps([task.id for task in stack.path]), flush=True)
"""

RIVAL = """
for task_id in json.loads(sys.stdin.readline()):
    try:
        tasks.push(PushRequest(goal="below", parent_id=task_id), me)
        tasks.pop(PopRequest(result=me.agent), me)
    except Conflict:
        pass
    for _ in range(2):  # The first call may only tell whose task it is; the next one means it.
        try:
            tasks.pop(PopRequest(result=me.agent, task_id=task_id), me)
        except Conflict:
            continue
        print(task_id, flush=True)
        break
"""


def caller_named(agent: str) -> Caller:
    return Caller(namespace="test", agent=agent, session_id="s")


@pytest.fixture
def start(tmp_path: Path) -> Callable[[str, str], "subprocess.Popen[str]"]:
    def start_it(does: str, agent: str) -> "subprocess.Popen[str]":
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
        return ForkedProcess(str(tmp_path), agent, code=OPENED + does, **pipes, text=True)

    return start_it


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no SIGKILL")
def test_the_tree_and_ones_place_in_it_survive_a_kill(
    start: Callable[[str, str], "subprocess.Popen[str]"], tmp_path: Path
) -> None:
    """T3.1: where the agent was last told that it stands, or one move further; and every parent is there."""
    climber = start(CLIMBER, "ann")
    assert climber.stdout is not None
    told: list[list[str]] = [json.loads(climber.stdout.readline()) for _ in range(33)]
    climber.send_signal(signal.SIGKILL)
    # Read on by the same reader: `communicate` would pass over the lines that it has taken from the pipe already.
    with climber:
        rest = climber.stdout.read()
    told += [json.loads(line) for line in rest.splitlines(keepends=True) if line.endswith("\n")]
    store = SqliteRecordStore(tmp_path, "none")
    tasks = {task.id: task for task in store.tasks("test")}
    place = next(iter(store.places(caller_named("ann")).values()), None)
    path = [task.id for task in path_to(place, list(tasks.values()))]
    assert path == told[-1] or path[:-1] == told[-1] or (path == [] and len(told[-1]) == 5)
    assert {task_id for line in told for task_id in line} <= tasks.keys()
    assert all(task.parent_id in tasks for task in tasks.values() if task.parent_id)
    assert all(not tasks[task.parent_id].is_finished for task in tasks.values() if task.parent_id and not task.result)
    store.close()


def test_of_many_processes_that_end_a_task_one_does(
    start: Callable[[str, str], "subprocess.Popen[str]"], tmp_path: Path
) -> None:
    """T3.2, T1.2: each task once, by whom its result names; never above a subtask that another has open."""
    store = SqliteRecordStore(tmp_path, "none")
    service = TaskStack(store, NoRedactor(), lambda: 1.0)
    goals = tuple(f"task {number}" for number in range(TASKS))
    planned = [task.id for task in service.push(PushRequest(goal="root", plan=goals), caller_named("ann")).planned]
    rivals = {name: start(RIVAL, name) for name in (f"rival{number}" for number in range(PROCESSES))}
    for rival in rivals.values():
        assert rival.stdin is not None
        rival.stdin.write(json.dumps(planned) + "\n")
        rival.stdin.flush()
    ended = {name: rival.communicate()[0].split() for name, rival in rivals.items()}
    assert [rival.returncode for rival in rivals.values()] == [0] * PROCESSES
    times = Counter(task_id for ids in ended.values() for task_id in ids)
    assert times == Counter(planned)
    tasks = {task.id: task for task in store.tasks("test")}
    for name, ids in ended.items():
        assert {tasks[task_id].result for task_id in ids} <= {name}
    for task in tasks.values():
        if task.parent_id and tasks[task.parent_id].is_finished:
            assert task.is_finished
    store.close()
