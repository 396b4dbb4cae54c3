"""Services are made at their first use, by whichever thread comes first."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

from mcp_memory.app import App


def test_threads_that_ask_at_once_get_the_same_services_and_none_waits_for_ever(
    open_memory: Callable[..., App],
) -> None:
    """S5.1: one service is made with the namespace, which is decided with another service."""
    for _ in range(20):
        app = open_memory(namespace=None)
        start = Barrier(4)

        def ask(number: int, app: App = app, start: Barrier = start) -> object:
            start.wait(10)
            return (app.idle_compaction, app.caller())[number % 2]

        with ThreadPoolExecutor(4) as pool:
            made = [asked.result(30) for asked in [pool.submit(ask, number) for number in range(4)]]
        assert made[0] is made[2]
        assert made[1] == made[3]
        app.close()
