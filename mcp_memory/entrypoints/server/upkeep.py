"""Background maintenance of a server: a thread that takes small steps. Knows no transport, and delays no shutdown."""

import logging
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from mcp_memory.entrypoints.server.server_log import log_defect
from mcp_memory.errors import StoreUnavailable
from mcp_memory.freed_memory import give_back_memory

if TYPE_CHECKING:
    from mcp_memory.app import App
    from mcp_memory.settings import Settings

logger = logging.getLogger(__name__)

FIRST_SECONDS: Final = 60.0
"""Most servers live as long as one session of their client, which may be shorter than the interval."""
PAUSE_SECONDS: Final = 1.0
"""Pause between two steps, so that calls come first."""
DAY_MINUTES: Final = 1_440.0
SWITCH_SECONDS: Final = 0.0005
"""For the interpreter: long work and calls share it, and a call that is ready to go on gets it sooner than in 5 ms."""


class Upkeep:
    """Takes steps in the background, one after the other until nothing is done, then again after the interval.

    `step` says whether it did anything. Where the store is busy or away, the next attempt follows after the interval.
    Set `wake` when there is something to do: then the next step follows after a pause.
    """

    def __init__(
        self,
        step: Callable[[], bool],
        seconds: float,
        first: float = FIRST_SECONDS,
        pause: float = PAUSE_SECONDS,
        wake: threading.Event | None = None,
    ) -> None:
        self._step = step
        self._wake = wake or threading.Event()
        self._seconds = seconds
        self._first = min(first, seconds)
        self._pause = pause
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name="upkeep", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Take no further step. Returns at once: a step under way is one transaction, which an end rolls back."""
        self._stopped.set()
        self._wake.set()

    def wait(self, seconds: float) -> bool:
        """Wait for the last step to end; True where it has."""
        self._thread.join(seconds)
        return not self._thread.is_alive()

    def _run(self) -> None:
        wait = self._first
        while not self._stopped.is_set():
            if self._wake.wait(wait):
                self._wake.clear()
                self._stopped.wait(self._pause)
            if not self._stopped.is_set():
                is_done = not self._take_step()
                wait = self._seconds if is_done else self._pause
                if is_done:
                    give_back_memory()

    def _take_step(self) -> bool:
        try:
            return self._step()
        except StoreUnavailable as error:
            logger.info("Maintenance was put off: %s.", type(error).__name__)
        except Exception as error:  # noqa: BLE001 - the edge: nobody else would hear of it
            if not self._stopped.is_set():  # After that the store may be closed under a step.
                log_defect("Maintenance", error)
        return False


def upkeep_for(app: "App", settings: "Settings", first: Callable[["App"], bool] = lambda app: False) -> Upkeep:
    """Return the upkeep of a server: as often as the settings ask for, and when there is something to do.

    `first` is a step that is taken before the others, until it has nothing to do.
    """
    maintains = settings.maintain_minutes > 0
    minutes = [settings.maintain_minutes, settings.compaction_idle_minutes if settings.compaction != "off" else 0.0]
    seconds = 60 * min((each for each in minutes if each), default=DAY_MINUTES)
    return Upkeep(lambda: first(app) or app.keep_up(maintains=maintains), seconds, wake=app.stirred)
