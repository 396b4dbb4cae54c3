"""Lets calls that somebody waits for go before long work in the same process, which one interpreter runs in turns."""

import threading
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager

LONGEST_PAUSE_SECONDS = 0.05
PATIENCE = 4.0
"""Long work is paused so many times as long as it has worked, at most."""


class GivingWay:
    """Counts the calls under way, and pauses long work while there are any. Thread-safe.

    Calls that never cease slow long work down, to a fifth of its speed at most, and never stop it.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._calls = 0
        self._changed = threading.Condition()
        self._own = threading.local()

    @contextmanager
    def ahead(self) -> Generator[None]:
        """A call that somebody waits for."""
        with self._changed:
            self._calls += 1
        try:
            yield
        finally:
            with self._changed:
                self._calls -= 1
                self._changed.notify_all()

    def pause(self) -> None:
        """To be called now and then by long work: waits until no call is under way, for a while."""
        if not self._calls:  # Read without the lock: whoever comes just now is seen the next time.
            return
        began = self._clock()
        worked = began - getattr(self._own, "paused_until", began - LONGEST_PAUSE_SECONDS)
        with self._changed:
            self._changed.wait_for(lambda: not self._calls, min(PATIENCE * worked, LONGEST_PAUSE_SECONDS))
        self._own.paused_until = self._clock()
