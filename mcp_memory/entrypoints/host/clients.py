"""Lets the clients of an owner in, and gives each what it wants: a window its session, a hook or command its answer.

The first of each kind loads what serves it: the protocol of windows takes half of a start, and no hook needs it.
"""

import logging
import socket
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Final

import anyio
from anyio import CapacityLimiter, to_thread

from mcp_memory.bridge.door import LATER, LOOK_SECONDS, Arrival, refusal
from mcp_memory.entrypoints.server.server_log import log_defect
from mcp_memory.errors import is_starved

if TYPE_CHECKING:
    from mcp_memory.app import App
    from mcp_memory.bridge.door import Door
    from mcp_memory.entrypoints.server.shared_server import SharedServer

logger = logging.getLogger(__name__)

HOOKS_AT_ONCE: Final = 8
"""Hooks answered side by side; further ones wait."""
COMMANDS_AT_ONCE: Final = 32
"""Commands run side by side; each page that is open is one."""
BUSY_SECONDS: Final = 5.0
"""Time that a further command waits for one of these to end, before it is refused."""

Perform = Callable[["App", socket.socket, Mapping[str, object], threading.Event], None]
"""Runs a command of the client at the other end, which has said this; ends it soon once the event is set."""
COMMAND_SECONDS: Final = 1.0
"""Time that commands at work may still take at the end, before they are interrupted."""
_BUSY: Final = (
    "The process that owns this memory is at work on {most} commands, and as many as that it runs at once. Some may"
    " wait for a reader, as one piped into a pager does, or serve an open page. End one of them, and try again."
)


class Clients:
    """The clients of one memory, from `serve` to `leave`."""

    def __init__(
        self, app: "App", door: "Door", perform: Perform, should_end: threading.Event, stays: str = ""
    ) -> None:
        """`should_end` is set when the process must end: a client wants that or the memory, or is of a later build.

        A process that `stays` ends for the first of these only; the others are told this sentence. It is set, too,
        where the process cannot serve clients, as under limits of who started it.
        """
        self._app = app
        self._door = door
        self._perform = perform
        self._should_end = should_end
        self._stays = stays
        self._successor: socket.socket | None = None
        self._interrupted = threading.Event()
        self._windows: SharedServer | None = None
        self._opening, self._is_dismissed = threading.Lock(), False
        self._hooks, self._commands = CapacityLimiter(HOOKS_AT_ONCE), anyio.Semaphore(COMMANDS_AT_ONCE)
        self._answering = 0
        self._seen_at: float | None = None

    @property
    def are_present(self) -> bool:
        """False where none is there, though the calls of one that has left may go on."""
        return self._answering > 0 or (self._windows is not None and self._windows.has_windows)

    @property
    def seen_at(self) -> float | None:
        """The time at which a client was last there, by the monotonic clock in seconds; None before the first."""
        if self.are_present:
            self._seen_at = time.monotonic()
        return self._seen_at

    async def serve(self, first: Arrival | None = None) -> None:
        """Let clients in until the door is closed, and before them the `first` that has arrived."""
        at_the_door = CapacityLimiter(1)  # Waiting takes none of the threads that calls need.
        async with anyio.create_task_group() as tasks:
            if first is not None:
                tasks.start_soon(self._let_in, first)
            while arrival := await to_thread.run_sync(
                self._door.next_arrival, abandon_on_cancel=True, limiter=at_the_door
            ):
                tasks.start_soon(self._let_in, arrival)

    def dismiss(self, seconds: float, command_seconds: float = 0.0) -> None:
        """Let nobody in any more, and end the windows' sessions in an orderly way; wait for hooks and commands.

        Commands are interrupted after `command_seconds`, or after COMMAND_SECONDS where these are more.
        """
        until = time.monotonic() + seconds
        self._door.close()
        with self._opening:
            self._is_dismissed = True
        if self._windows is not None:
            self._windows.dismiss(seconds)
        interrupt = time.monotonic() + max(command_seconds, COMMAND_SECONDS)
        while self._answering and time.monotonic() < max(until, interrupt + COMMAND_SECONDS):
            if time.monotonic() > interrupt:
                self._interrupted.set()
            time.sleep(LOOK_SECONDS)

    def leave(self) -> None:
        """Leave the closed memory to the process that asked for it, else to any."""
        if self._successor is not None:
            self._door.hand_over(self._successor)
        self._door.release()

    async def _let_in(self, arrival: Arrival) -> None:
        self._seen_at = time.monotonic()
        hello, is_later = arrival.said, arrival.is_later
        if hello.get("kind") == "window" and not is_later:
            with suppress(OSError):
                if arrival.is_earlier:
                    arrival.connection.sendall(LATER)
            return await self._receive(arrival)
        self._answering += 1
        try:
            await self._answer(arrival, hello, is_later=is_later)
        except OSError:
            logger.info("A client left before its answer.")
        except Exception as error:  # noqa: BLE001 - the edge: the others are served on
            log_defect("A client", error)
            if is_starved(error):
                self._should_end.set()
        finally:
            self._answering -= 1
            self._seen_at = time.monotonic()
        return None

    async def _receive(self, arrival: Arrival) -> None:
        try:
            # Here, though others wait: the same imports take a tenth of a second more CPU in a thread beside it.
            windows = self._shared_server()
        except Exception as error:  # noqa: BLE001 - the edge: the others are served on
            log_defect("A window", error)
            self._should_end.set()  # Others would fare alike; a fresh process may have what this one lacks.
            windows = None
        if windows is None:
            return arrival.connection.close()
        return await windows.receive(arrival.connection, arrival.said)

    def _shared_server(self) -> "SharedServer | None":
        """Return what serves windows; None at the end, where nothing was loaded for them before."""
        with self._opening:
            if self._windows is None and not self._is_dismissed:
                from mcp_memory.entrypoints.server.mcp_server import build_server
                from mcp_memory.entrypoints.server.shared_server import SharedServer

                self._windows = SharedServer(self._app, build_server(self._app, warm_up=True), self._should_end.set)
            return self._windows

    async def _answer(self, arrival: Arrival, hello: Mapping[str, object], *, is_later: bool) -> None:
        kind, connection = hello.get("kind"), arrival.connection
        if self._stays and (is_later or kind == "take"):
            with connection:
                connection.sendall(refusal(self._stays))
        elif is_later:
            if self._windows:  # Else no window is here to be told.
                self._windows.tell(LATER)
            self._should_end.set()
            arrival.send_on()
        elif kind == "hook":
            from mcp_memory.entrypoints.hooks.answering import answer_hook

            await to_thread.run_sync(answer_hook, self._app, connection, hello, limiter=self._hooks)
        elif kind == "command":
            await self._run(connection, hello)
        elif kind == "take" and self._successor is None:
            self._successor = connection
            self._should_end.set()
        else:
            with connection:
                if kind == "stop":
                    self._should_end.set()
                elif kind != "take":
                    connection.sendall(refusal("This is no client of this version; update mcp-memory."))

    async def _run(self, connection: socket.socket, hello: Mapping[str, object]) -> None:
        """Run a command; refuse it where as many as may be are at work and none of them ends soon."""
        with anyio.move_on_after(BUSY_SECONDS) as waiting:
            await self._commands.acquire()
        if waiting.cancelled_caught:
            with connection:
                return connection.sendall(refusal(_BUSY.format(most=COMMANDS_AT_ONCE)))
        try:
            given = (self._app, connection, hello, self._interrupted)
            await to_thread.run_sync(self._perform, *given, abandon_on_cancel=True, limiter=CapacityLimiter(1))
        finally:
            self._commands.release()
        return None
