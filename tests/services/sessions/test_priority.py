"""Long work gives way to calls, and comes to an end all the same."""

import threading
from itertools import count

from mcp_memory.services.sessions.priority import GivingWay

PATIENCE_SECONDS = 20.0


def test_nothing_is_waited_for_while_nobody_calls() -> None:
    giving_way = GivingWay(clock=lambda: 1 / 0)
    giving_way.pause()
    with giving_way.ahead():
        pass
    giving_way.pause()


def test_long_work_goes_on_when_the_call_has_ended() -> None:
    """E7: other calls are answered meanwhile."""
    giving_way, paused = GivingWay(clock=count(step=1e9).__next__), threading.Event()
    order: list[str] = []

    def work() -> None:
        paused.set()
        while "call" not in order:
            giving_way.pause()
        order.append("work")

    with giving_way.ahead():
        worker = threading.Thread(target=work)
        worker.start()
        assert paused.wait(PATIENCE_SECONDS)
        order.append("call")
    worker.join(PATIENCE_SECONDS)
    assert order == ["call", "work"]


def test_long_work_is_paused_by_what_it_worked() -> None:
    """Calls that never end hold nothing up."""
    giving_way = GivingWay(clock=lambda: 5.0)
    with giving_way.ahead():
        giving_way.pause()
        for _ in range(1_000):
            giving_way.pause()  # No time has gone by since: there is nothing to pause for.
