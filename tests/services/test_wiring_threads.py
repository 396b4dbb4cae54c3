"""Services are made at their first use, by whichever thread comes first."""

import threading
from collections.abc import Callable

import pytest

from mcp_memory.app import App


def test_a_service_that_asks_for_the_namespace_while_it_is_made_waits_for_none_that_decides_it(
    open_memory: Callable[..., App],
) -> None:
    """S5.1: idle compaction is made with the namespace, which is decided with the service of trust."""
    app = open_memory(namespace=None)
    deciding = threading.Thread(target=app.caller, daemon=True)

    def make() -> None:
        with app.making:
            deciding.start()
            deciding.join(0.3)
            _ = app.idle_compaction

    making = threading.Thread(target=make, daemon=True)
    making.start()
    making.join(20)
    deciding.join(20)
    assert not making.is_alive()
    assert not deciding.is_alive()


def test_closing_ends_the_threads_that_ask_the_sources(open_memory: Callable[..., App]) -> None:
    """S5.1: a closed memory takes no more searches."""
    app = open_memory()
    _ = app.searcher
    app.pool.submit(int).result()
    app.close()
    with pytest.raises(RuntimeError, match="shutdown"):
        app.pool.submit(int)
