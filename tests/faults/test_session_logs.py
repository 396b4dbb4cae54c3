"""Many processes at one session's log: what was said stays, each thing once, whoever compacts, undoes or is killed."""

import contextlib
import random
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from mcp_memory.app import App, open_app
from mcp_memory.domain.model.records import NewRecord
from mcp_memory.domain.model.scopes import Caller, RecordFilter
from mcp_memory.errors import Conflict
from mcp_memory.services.sessions.compact import CompactRequest
from mcp_memory.settings import load_settings
from tests.e2e.conftest import Lines
from tests.forked import ForkedProcess
from tests.services.sessions.conversations import covered, session

PROCESSES = 3

WORKER = """
import itertools, random, sys
from mcp_memory.app import open_app
from mcp_memory.errors import Conflict
from mcp_memory.services.sessions.compact import CompactRequest
from mcp_memory.settings import load_settings
from tests.services.sessions.conversations import session

rng = random.Random(int(sys.argv[2]))
app = open_app(load_settings(data_dir=sys.argv[1], namespace="test", agent="ann"))
me, told, turns = app.caller("work"), session(int(sys.argv[3]), output_lines=6), itertools.count(1, 3)
while True:
    until = 5 * next(turns) + rng.randrange(5)
    stored = app.feed(told[:until], me).stored
    try:
        if rng.random() < 0.3:
            app.compact(CompactRequest(undo=True), me)
        elif rng.random() < 0.6:
            passes = rng.choice((("mask",), ("tool_calls", "goal_batch"), ("threshold",)))
            app.compact(CompactRequest(window=rng.choice((1_500, 4_000)), force=True, passes=passes), me)
    except Conflict:
        pass
    print(stored, until, flush=True)
    if until >= len(told):
        break
app.close()
"""

UPKEEP = """
import sys, time
from mcp_memory.app import open_app
from mcp_memory.settings import load_settings

app = open_app(load_settings(data_dir=sys.argv[1], namespace="test", agent="bob", compaction_window=4_000))
print("ready", flush=True)
while True:
    if app.idle_compaction.step():
        print("compacted", flush=True)
    time.sleep(0.002)
"""


@pytest.fixture
def upkeep(tmp_path: Path) -> Iterator[Lines]:
    """What another process says that compacts all logs near a window of 4,000 tokens, as its upkeep would."""
    other = ForkedProcess(str(tmp_path / "data"), code=UPKEEP, stdout=subprocess.PIPE)
    assert other.stdout is not None
    yield Lines(other.stdout)
    other.kill()
    other.wait()
    other.stdout.close()


def start(folder: Path, seed: int, turns: int) -> "subprocess.Popen[str]":
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    return ForkedProcess(str(folder), str(seed), str(turns), code=WORKER, **pipes, text=True)


def assert_sound(app: App, me: Caller, told: list[NewRecord]) -> None:
    """The conversation is stored once, every original is covered once, and undoing everything gives it back."""
    where = RecordFilter(scopes=me.scopes, kinds=frozenset({"message", "tool_call", "tool_result"}))
    stored = Counter((record.kind, record.text) for record in app.records.list(where, "created", 100_000))
    assert stored == Counter((record.kind, record.text) for record in told)
    said = [each.id for each in app.logs.said(me)]
    assert sorted(covered(app.logs.log(me))) == sorted(said)
    for _ in app.logs.compactions(me):
        with contextlib.suppress(Conflict):
            app.compact(CompactRequest(undo=True), me)
    assert [entry.id for entry in app.logs.log(me).entries] == said
    assert app.records.list(RecordFilter(scopes=me.scopes, kinds=frozenset({"summary"})), "created", 10) == []


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no SIGKILL")
@pytest.mark.parametrize("turns", [12, pytest.param(40, marks=pytest.mark.rounds)])
@pytest.mark.parametrize("are_killed", [False, True])
def test_processes_that_feed_compact_and_undo_one_log_lose_and_double_nothing(
    tmp_path: Path, are_killed: bool, turns: int
) -> None:
    """E2.4, R2, S1.1, S2.1: also where they are killed in the middle of it, and others go on."""
    rng = random.Random(11)
    workers = [start(tmp_path / "data", seed, turns) for seed in range(PROCESSES)]
    for place in range(PROCESSES if are_killed else 0):
        output = workers[place].stdout
        assert output is not None
        output.readline()
        time.sleep(rng.uniform(0, 0.5))
        workers[place].kill()
        workers[place].communicate()
        workers[place] = start(tmp_path / "data", PROCESSES + place, turns)
    for worker in workers:
        errors = worker.communicate(timeout=240)[1]
        assert (worker.returncode, "Traceback" in errors) == (0, False), errors
    app = open_app(load_settings(data_dir=tmp_path / "data", namespace="test", agent="ann"))
    assert_sound(app, app.caller("work"), session(turns, output_lines=6))
    app.close()


def test_another_process_joins_no_call_that_chose_its_passes(tmp_path: Path, upkeep: Lines) -> None:
    """D12.1: neither while the call feeds and compacts, nor after it or an undo, until the log grows."""
    app = open_app(load_settings(data_dir=tmp_path / "data", namespace="test", agent="ann", compaction_window=4_000))
    me, told = app.caller("work"), session(40, output_lines=6)
    assert upkeep.next() == b"ready\n"
    for until in range(30, len(told), 30):
        with app.idle_compaction.kept_off(me):
            app.feed(told[:until], me)
            app.compact(CompactRequest(passes=("mask",)), me)
    with app.idle_compaction.kept_off(me):
        app.compact(CompactRequest(undo=True), me)
    assert app.idle_compaction.due() == 0
    assert {one.trigger for one in app.logs.compactions(me)} == {"call"}
    assert {one.pass_name for one in app.logs.stand_ins(me)} <= {"mask", "ceiling"}
    app.feed(told, me)
    assert upkeep.next() == b"compacted\n"
    assert [one.trigger for one in app.logs.compactions(me)][-1] == "forced"
    assert_sound(app, me, told)
    app.close()
