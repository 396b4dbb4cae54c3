"""Ends a process that serves a client over standard input and output: always, and soon. Imports nothing slow.

A host that starts a server for every session must be able to count on its going.
"""

import os
import select
import signal
import sys
import threading
from collections.abc import Callable
from typing import Final, NoReturn

from mcp_memory.errors import InvalidRequest

GRACE_SECONDS: Final = 1.0
"""Time that calls in flight may still take after the input has ended."""
WATCH_SECONDS: Final = 0.5


def check_standard_streams() -> None:
    """Raises InvalidRequest where there is no standard input or output."""
    if sys.__stdin__ is None or sys.__stdout__ is None:
        raise InvalidRequest("Standard input and output are closed; let an MCP client start the server.")


def end_with_client(end: Callable[[], None]) -> None:
    """Call `end`, which ends the process, at a signal, and when the client is gone though our input stays open.

    Another process may have inherited it. It may be called twice, by two threads.
    """
    for name in (signal.SIGTERM, signal.SIGINT):
        signal.signal(name, lambda _number, _frame: end())
    if sys.platform != "win32":
        told, tell = os.pipe()
        os.set_blocking(tell, False)
        # Python runs a handler once its main thread goes on. One that came just before it waits would wait with it.
        signal.set_wakeup_fd(tell, warn_on_full_buffer=False)
        arguments = (os.getppid(), os.dup(1), told, end)
        threading.Thread(target=_watch, args=arguments, name="watch-client", daemon=True).start()


def _watch(parent: int, output: int, told: int, end: Callable[[], None]) -> None:
    poll, signals = select.poll(), select.poll()
    # An error, that nobody reads any more, is always reported; by macOS only to who waits for something.
    poll.register(output, select.POLLOUT)
    signals.register(told, select.POLLIN)
    while os.getppid() == parent and not any(event & (select.POLLERR | select.POLLHUP) for _, event in poll.poll(0)):
        if signals.poll(1_000 * WATCH_SECONDS):
            break
    end()


def leave_within(seconds: float) -> None:
    """End the process after this time, whatever is running."""
    timer = threading.Timer(seconds, leave)
    timer.daemon = True
    timer.start()


def leave() -> NoReturn:
    """End at once. A regular exit would wait for threads, or unload libraries while threads still run in them."""
    os._exit(0)
