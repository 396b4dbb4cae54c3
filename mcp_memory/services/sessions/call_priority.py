"""Gives waiting calls priority over long work in the same process, where one interpreter runs both in turns."""

import threading
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager

LONGEST_PAUSE_SECONDS = 0.05  # at each call of `pause`
PATIENCE = 4.0
"""Long work pauses at most this many times as long as it has worked."""


class CallPriority:
    """Counts the running calls, and pauses long work while there are any. Thread-safe.

    Calls without end slow long work down, to a fifth of its speed at most, and never stop it.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._calls = 0
        self._changed = threading.Condition()
        self._own = threading.local()

    @contextmanager
    def ahead(self) -> Generator[None]:
        """Mark a call that a client waits for."""
        with self._changed:
            self._calls += 1
        try:
            yield
        finally:
            with self._changed:
                self._calls -= 1
                self._changed.notify_all()

    def pause(self) -> None:
        """Wait a while for running calls to end. Long work calls this now and then."""
        if not self._calls:  # Read without the lock: the next pause sees a call that begins now.
            return
        began = self._clock()
        worked = began - getattr(self._own, "paused_until", began - LONGEST_PAUSE_SECONDS)
        with self._changed:
            self._changed.wait_for(lambda: not self._calls, min(PATIENCE * worked, LONGEST_PAUSE_SECONDS))
        self._own.paused_until = self._clock()
