"""maintain, over a memory of long ago."""

import signal
import subprocess
import sys
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest

from mcp_memory.app import App
from mcp_memory.domain.model.records import NewRecord
from tests.entrypoints.cli.conftest import INTERRUPTIBLE
from tests.forked import ForkedProcess
from tests.services.sessions.conversations import fed

if TYPE_CHECKING:
    from tests.conftest import Clock
    from tests.entrypoints.cli.conftest import Run

OpenMemory = Callable[..., App]
DAYS = 86_400.0


def remember(memory: App, clock: "Clock", *texts: str, days: float) -> None:
    """Store episodes so long ago."""
    clock.now = time.time() - days * DAYS
    memory.remember([NewRecord(text=text, kind="episode") for text in texts], memory.caller())


def test_maintain_moves_on_what_is_due_and_tells_what_that_was(
    run: "Run", open_memory: OpenMemory, clock: "Clock"
) -> None:
    """C8.2, C8.7, S7.1: once."""
    memory = open_memory(clock=clock)
    remember(memory, clock, "A day went by.", "Another day went by.", days=40)
    remember(memory, clock, "A long day went by.", days=100)
    ran = run("maintain")
    assert ran.out.splitlines() == ["Done: 2 events summarized, 1 event archived."]
    assert ran.err == ""
    ran = run("maintain")
    assert (ran.out.splitlines(), ran.err) == (["Done: nothing."], "")


def test_a_dry_run_only_says_what_is_due(run: "Run", open_memory: OpenMemory, clock: "Clock") -> None:
    """C8.7, S7.1."""
    remember(open_memory(clock=clock), clock, "A day went by.", days=40)
    due = {"summarized": 1, "archived": 0, "judged": 0, "compacted": 0}
    for _ in range(2):
        assert run("maintain", "--dry-run", "--json").json == due
    ran = run("maintain", "--dry-run")
    assert (ran.out.splitlines(), ran.err) == (["Due: 1 event summarized."], "")
    assert run("maintain", "--json").json == due
    assert run("maintain", "--json").json == dict.fromkeys(due, 0)


def test_maintain_compacts_the_logs_that_are_due(
    run: "Run", open_memory: OpenMemory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """D1.1, S7.1."""
    monkeypatch.setenv("MCP_MEMORY_COMPACTION_WINDOW", "3000")
    memory = open_memory()
    fed(memory, memory.caller("work"), 20)
    assert run("maintain", "--dry-run").out.splitlines() == ["Due: 1 session log compacted."]
    assert run("maintain").out.splitlines() == ["Done: 1 session log compacted."]
    assert run("maintain", "--dry-run", "--json").json["compacted"] == 0


def test_no_memory_is_made_for_being_maintained(run: "Run") -> None:
    """S7.1."""
    ran = run("maintain")
    assert (ran.code, ran.out) == (1, "")
    assert "No memory" in ran.err


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no signal for one process alone")
def test_a_person_who_interrupts_maintain_is_told_how_to_go_on(open_memory: OpenMemory, clock: "Clock") -> None:
    """C8.7, S7.1: what is done is kept."""
    memory = open_memory(clock=clock)
    remember(memory, clock, *(f"Day {number} went by." for number in range(200)), days=40)
    stored = memory.records.revision()
    pipes: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with ForkedProcess("maintain", code=INTERRUPTIBLE, **pipes) as process:
        while memory.records.revision() == stored:
            assert process.poll() is None
        process.send_signal(signal.SIGINT)
        out, err = process.communicate()
    assert (process.returncode, out) == (130, b"")
    assert b"Run `mcp-memory maintain` again" in err
    assert b"Traceback" not in err
    clock.now = time.time()
    assert 0 < memory.maintain.due().summarized < 200
