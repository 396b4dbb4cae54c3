"""Long work gives way to calls, and comes to an end all the same."""

import threading
from itertools import count

from mcp_memory.services.sessions.call_priority import CallPriority

PATIENCE_SECONDS = 20.0


def test_nothing_is_waited_for_while_nobody_calls() -> None:
    call_priority = CallPriority(clock=lambda: 1 / 0)  # pyrefly: ignore[division-by-zero] - so that reading it fails
    call_priority.pause()
    with call_priority.ahead():
        pass
    call_priority.pause()


def test_long_work_goes_on_when_the_call_has_ended() -> None:
    """E7: other calls are answered meanwhile."""
    call_priority, paused = CallPriority(clock=count(step=1e9).__next__), threading.Event()
    order: list[str] = []

    def work() -> None:
        paused.set()
        while "call" not in order:
            call_priority.pause()
        order.append("work")

    with call_priority.ahead():
        worker = threading.Thread(target=work)
        worker.start()
        assert paused.wait(PATIENCE_SECONDS)
        order.append("call")
    worker.join(PATIENCE_SECONDS)
    assert order == ["call", "work"]


def test_long_work_is_paused_by_what_it_worked() -> None:
    """Calls that never end hold nothing up."""
    call_priority = CallPriority(clock=lambda: 5.0)
    with call_priority.ahead():
        call_priority.pause()
        for _ in range(1_000):
            call_priority.pause()  # No time has gone by since: there is nothing to pause for.
