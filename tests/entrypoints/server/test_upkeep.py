"""Steps beside serving: when they are taken, and that nothing stops or delays anybody."""

import ctypes
import sys
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING

import psutil
import pytest

from mcp_memory.app import App
from mcp_memory.domain.model.records import NewRecord
from mcp_memory.entrypoints.server.upkeep import Upkeep
from mcp_memory.errors import StoreBusy
from mcp_memory.freed_memory import give_back_memory

if TYPE_CHECKING:
    from tests.conftest import Clock

PATIENCE_SECONDS = 20.0
NEVER = 1e6


class Steps:
    """Says of each step what it is told to, and when the last of them was taken."""

    def __init__(self, *outcomes: bool | Exception) -> None:
        self._outcomes = list(outcomes)
        self.taken = 0
        self.all_taken = threading.Event()

    def __call__(self) -> bool:
        self.taken += 1
        if not self._outcomes:
            return False
        outcome = self._outcomes.pop(0)
        if not self._outcomes:
            self.all_taken.set()
        if isinstance(outcome, Exception):
            raise outcome
        return outcome


def ended(upkeep: Upkeep) -> bool:
    upkeep.stop()
    return upkeep.wait(PATIENCE_SECONDS)


def test_steps_follow_each_other_until_nothing_is_done_then_the_interval_goes_by() -> None:
    """C8.7: in the background."""
    steps = Steps(True, True, False)
    upkeep = Upkeep(steps, NEVER, first=0.0, pause=0.0)
    upkeep.start()
    assert steps.all_taken.wait(PATIENCE_SECONDS)
    assert ended(upkeep)
    assert steps.taken == 3


def test_the_first_step_is_not_later_than_the_interval() -> None:
    """C8.7: nor sooner than a session of a few seconds lasts."""
    steps = Steps(False)
    upkeep = Upkeep(steps, 0.01, first=NEVER)
    upkeep.start()
    assert steps.all_taken.wait(PATIENCE_SECONDS)
    upkeep.stop()
    late = Upkeep(Steps(), NEVER)
    late.start()
    assert ended(late)


def test_whoever_knows_of_something_to_do_wakes_it() -> None:
    """D1.1: a log that has grown past its threshold does not wait for the interval."""
    steps, wake = Steps(False), threading.Event()
    upkeep = Upkeep(steps, NEVER, first=NEVER, pause=0.0, wake=wake)
    upkeep.start()
    wake.set()
    assert steps.all_taken.wait(PATIENCE_SECONDS)
    assert ended(upkeep)


@pytest.mark.skipif(
    not sys.platform.startswith("linux") or not hasattr(ctypes.CDLL(None), "malloc_trim"), reason="needs glibc"
)
def test_freed_memory_is_given_back_when_nothing_is_left_to_do() -> None:
    """L1: what loading and a long call took for a while is not the server's for good."""

    def own_megabytes() -> float:
        return psutil.Process().memory_full_info().uss / 2**20

    kept = bytes(1_000)

    def step() -> bool:
        nonlocal kept
        passing = [bytes(1_000) for _ in range(100_000)]
        kept = passing[-1]  # Behind all the others, so that they are not at the heap's end.
        return False

    step()
    before = own_megabytes()
    upkeep = Upkeep(step, NEVER, first=0.0)
    give_back_memory()
    assert own_megabytes() < before - 50
    upkeep.start()
    assert ended(upkeep)
    assert own_megabytes() < before - 50
    assert kept


def test_a_step_that_fails_is_taken_again_later(caplog: pytest.LogCaptureFixture) -> None:
    """C8.7: a busy store is no defect, and a defect is told without its words."""
    steps = Steps(StoreBusy("busy with a secret"), ValueError("a secret"), False)
    upkeep = Upkeep(steps, 0.0, first=0.0)
    with caplog.at_level("INFO", "mcp_memory"):
        upkeep.start()
        assert steps.all_taken.wait(PATIENCE_SECONDS)
    upkeep.stop()
    assert "Maintenance was put off: StoreBusy." in caplog.text
    assert "Maintenance failed: ValueError" in caplog.text
    assert "secret" not in caplog.text


def test_a_step_in_a_memory_that_was_closed_is_no_defect(
    open_memory: Callable[..., App], clock: "Clock", caplog: pytest.LogCaptureFixture
) -> None:
    """C8.7: stopping waits for nothing."""
    memory = open_memory()
    memory.remember([NewRecord(text="A day went by.", kind="episode")], memory.caller())
    clock.advance(days=31)
    is_in_step, may_go_on = threading.Event(), threading.Event()

    def step() -> bool:
        is_in_step.set()
        may_go_on.wait(PATIENCE_SECONDS)
        return memory.maintain.step(patiently=False).records > 0

    upkeep = Upkeep(step, NEVER, first=0.0)
    upkeep.start()
    assert is_in_step.wait(PATIENCE_SECONDS)
    upkeep.stop()
    memory.close()
    may_go_on.set()
    assert upkeep.wait(PATIENCE_SECONDS)
    assert "failed" not in caplog.text
