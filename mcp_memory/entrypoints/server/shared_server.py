"""Serves the windows of other processes: one memory and one model for all of them.

Each window is a session of its own, with a place of its own in the task tree. `relay` is what their processes run.
"""

from __future__ import annotations

import io
import logging
import select
import socket
import threading
import time
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, Final, cast

import anyio
from anyio import to_thread
from mcp.server.stdio import stdio_server

from mcp_memory.app import Seat
from mcp_memory.bridge import door
from mcp_memory.bridge.end_with_client import GRACE_SECONDS
from mcp_memory.bridge.window_state import CALL, read_object
from mcp_memory.entrypoints.server.identity import RequestSender, seat_at_hand, visited_by
from mcp_memory.entrypoints.server.line_streams import GuardedInput, LineOutput
from mcp_memory.entrypoints.server.pending_requests import WRITING_SECONDS, PendingRequests
from mcp_memory.entrypoints.server.server_log import log_defect
from mcp_memory.errors import McpMemoryError, StoreUnavailable, is_starved
from mcp_memory.ports.walls import within
from mcp_memory.settings import settings_of_client, working_for

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from mcp.server import MCPServer
    from mcp.server.context import CallNext, HandlerResult, ServerRequestContext

    from mcp_memory.app import App

logger = logging.getLogger(__name__)

THREADS_A_WINDOW: Final = 2
"""Threads that read from and write to a window; they are none of those that calls may take."""
WINDOW_GRACE_SECONDS: Final = 5.0
"""Time that windows' calls in flight may still take after this process's own client has left."""


class SharedServer:
    """The windows of other processes that this one serves. As middleware it sees their calls come and go."""

    def __init__(self, app: App, server: MCPServer, at_loss: Callable[[], object]) -> None:
        """`at_loss` is called when another process must serve.

        That is where the files of the memory are no more those that this one knows, or it gets no more memory or
        threads.
        """
        self._app = app
        self._at_loss = at_loss
        self._protocol = server._lowlevel_server  # noqa: SLF001
        self._windows: dict[Seat, _Window] = {}
        """By their seats: settings may give the sessions of several windows one label."""
        self._arriving = 0
        self._is_dismissed = False
        self._lock, self._dismissing = threading.Lock(), threading.Lock()
        server.middleware.append(self)

    @property
    def has_windows(self) -> bool:
        """True while one is there, and for a while after it has left, in which its calls may end."""
        left = time.monotonic() - WINDOW_GRACE_SECONDS
        here = (window.lines.left_at is None or window.lines.left_at > left for window in list(self._windows.values()))
        return self._arriving > 0 or any(here)

    async def __call__(self, ctx: ServerRequestContext[Any, Any], call_next: CallNext) -> HandlerResult:
        """Pass the message on; tell the window its place, should it need another owner."""
        seat = seat_at_hand()
        window = self._windows.get(seat) if seat else None
        if window is None:
            return await call_next(ctx)
        client = ctx.session.client_params
        try:
            if window.returns_to and not window.seat.awaits_folder:
                place, window.returns_to = window.returns_to, None
                await to_thread.run_sync(self._come_back, window.seat, place)
            number = window.calls.pop(ctx.request_id, 0)
            call = f"{window.seat.label}/{number}" if number else ""
            with visited_by(replace(window.sender, client=client.client_info.name if client else "", call=call)):
                return await call_next(ctx)
        except Exception as error:
            if is_starved(error):
                self._at_loss()
            raise
        finally:
            if ctx.request_id is not None:
                window.pending.settle(ctx.method)
            place = self._app.windows.place_of(window.seat.session)
            if place is not None and place != window.place:
                window.place = place
                window.output.send_later(b"%b%b\n" % (door.PLACE, place.encode()))
                # Ahead of the answer: a window that knew of no place would start no owner after a kill.
                await to_thread.run_sync(window.output.wait, GRACE_SECONDS)

    def tell(self, word: bytes) -> None:
        """Say this word to each window's process."""
        for window in list(self._windows.values()):
            window.output.send_later(word)

    def dismiss(self, seconds: float) -> None:
        """Read no more from any window, tell it so, and wait for its calls in flight. Thread-safe.

        Who comes second waits for the first.
        """
        until = time.monotonic() + seconds
        with self._dismissing:
            if not self._is_dismissed:
                self._dismiss(until)

    def _dismiss(self, until: float) -> None:
        with self._lock:
            windows, self._is_dismissed = list(self._windows.values()), True
        for window in windows:
            window.lines.end()
            window.output.send_later(door.FAREWELL)
        for window in windows:
            window.lines.wait(max(0.0, until - time.monotonic()))
            window.pending.wait(max(0.0, until - time.monotonic()))
        if windows:
            time.sleep(WRITING_SECONDS)  # One may have been answered just before.
        for window in windows:
            window.output.wait(max(0.0, until - time.monotonic()))

    async def receive(self, connection: socket.socket, hello: Mapping[str, Any]) -> None:
        """Serve the window at the other end, which has said this, until it leaves."""
        self._arriving += 1
        try:
            try:
                window = await to_thread.run_sync(self._window, connection, hello)
            finally:
                self._arriving -= 1
            if window is None:
                return connection.close()
            threads = to_thread.current_default_thread_limiter()
            threads.total_tokens += THREADS_A_WINDOW
            try:
                window.output.send_later(door.HERE)
                with visited_by(window.sender), working_for(window.seat.settings):
                    await self._serve(window)
            finally:
                threads.total_tokens -= THREADS_A_WINDOW
                await to_thread.run_sync(self._take_leave, window)
                await to_thread.run_sync(window.release)
        except* (OSError, anyio.BrokenResourceError):
            logger.info("A window is gone.")
        except* Exception as error:  # noqa: BLE001 - the edge: the other windows are served on
            log_defect("A window", error)
            if is_starved(error):
                self._at_loss()
            connection.close()

    def _window(self, connection: socket.socket, hello: Mapping[str, Any]) -> _Window | None:
        """Return a window that has arrived; None for one that cannot be served, which is told why.

        One that arrives while this process ends is told nothing, and looks for the next owner.
        """
        try:
            settings, differing = settings_of_client(self._app.settings, hello)
            try:
                begun = self._app.revision()
            except StoreUnavailable:
                self._at_loss()  # A fresh process may open them.
                return None
            folder, session = Path(hello["folder"]), hello["session"]
            seat = Seat(self._app, settings, folder, session=session, differing=differing, begun=begun)
            return self._taken_in(connection, seat, cast("str | None", hello["place"]))
        except McpMemoryError as error:
            why = str(error)
        except (KeyError, TypeError, ValueError):
            why = "This is no window of this version; update mcp-memory."
        with suppress(OSError):
            connection.sendall(door.refusal(why))
        return None

    def _taken_in(self, connection: socket.socket, seat: Seat, place: str | None) -> _Window | None:
        """Return the window of that seat, at the place that it had with another owner; None while this one ends."""
        for former in [each for each in list(self._windows.values()) if each.seat.label == seat.label]:
            self._take_leave(former)  # Its process gave that connection up.
        with self._lock:
            if self._is_dismissed:
                with suppress(OSError):
                    connection.sendall(door.FAREWELL)
                return None
            window = self._windows[seat] = _Window(connection, seat, place)
        self._app.take_seat(seat)
        self._app.welcome(seat)
        if seat.awaits_folder:
            window.returns_to = place
        elif place is not None:
            self._come_back(seat, place)
        return window

    def _come_back(self, seat: Seat, place: str) -> None:
        caller = self._app.caller(seat=seat)
        with within(caller.scopes):
            self._app.windows.come_back(caller, seat.session, place)

    def _take_leave(self, window: _Window) -> None:
        with self._lock:
            if self._windows.pop(window.seat, None) is None:
                return
        self._app.leave_seat(window.seat)
        self._app.windows.end(window.seat.settings.agent, window.seat.session)
        window.close()  # Its process looks for another owner once its place is free.

    async def _serve(self, window: _Window) -> None:
        guarded = GuardedInput(
            cast("BinaryIO", window.lines),
            window.pending.add,
            refuse=lambda refusal: window.output.send_later(refusal.line),
            at_end=lambda: self._let_end(window),
        )
        source = io.TextIOWrapper(io.BufferedReader(guarded), encoding="utf-8", errors="replace")
        target = io.TextIOWrapper(io.BufferedWriter(window.output), encoding="utf-8")
        async with stdio_server(anyio.wrap_file(source), anyio.wrap_file(target)) as (read, write):
            try:
                await self._protocol.run(read, write, self._protocol.create_initialization_options())
            finally:
                with suppress(OSError):  # A thread waits there for the next line.
                    window.connection.shutdown(socket.SHUT_RD)

    def _let_end(self, window: _Window) -> None:
        """End a window's input. Where this process ends, its calls in flight are answered before."""
        if self._is_dismissed:
            window.pending.wait(WINDOW_GRACE_SECONDS)
            time.sleep(WRITING_SECONDS)  # The library drops answers that are due when the input ends.
        window.output.wait(GRACE_SECONDS)


class _Window:
    """A window of another process: its connection and seat, and the place in the task tree that it knows it has."""

    def __init__(self, connection: socket.socket, seat: Seat, place: str | None) -> None:
        self.connection = connection
        self.seat = seat
        self.place = place
        self.returns_to: str | None = None
        """The place to come back to once its client has said which folder is open: it is in that project's tasks."""
        self.sender = RequestSender(grant=None, session=seat.session, seat=seat)
        self.pending = PendingRequests()
        self.calls: dict[object, int] = {}
        """The numbers of its calls that are on their way, by the ids of their requests."""
        self._source, self._target = connection.makefile("rb"), connection.makefile("wb")
        self.output = LineOutput(self._target)
        self.lines = _PassedLines(connection, self._source, self._say_here, self.calls)

    def close(self) -> None:
        """End the connection for both sides."""
        self.output.send_no_more()
        with suppress(OSError):
            self.connection.shutdown(socket.SHUT_RDWR)
        self.connection.close()

    def release(self) -> None:
        """Close the files that were made of the closed connection; they keep it until nobody reads or writes them."""
        for file in (self._source, self._target):
            with suppress(OSError):  # What could not be written any more.
                file.close()

    def _say_here(self) -> None:
        self.output.send_later(door.HERE)


class _PassedLines:
    """The lines that a window's process passes on. Thread-safe."""

    def __init__(
        self, connection: socket.socket, source: BinaryIO, heard: Callable[[], None], numbers: dict[object, int]
    ) -> None:
        """`source` is the connection, read as a file; `numbers` takes the numbers of calls, by their requests' ids."""
        self._connection = connection
        self._source = source
        self._heard = heard
        self._numbers = numbers
        self.left_at: float | None = None
        """The time at which the window's process left, by the monotonic clock in seconds."""
        self._has_ended = False
        self._is_over = threading.Event()
        self._lock = threading.Lock()

    def readline(self, most: int) -> bytes:
        """Return the next line, or as much of it; b"" at the end, and where the connection is lost."""
        try:
            line = self._passed(most)
        except (OSError, ValueError):  # As where the window's process was killed before it read what it was sent.
            line = b""
        if not line:
            self.left_at = time.monotonic()
        with self._lock:
            if self._has_ended or self._is_left():
                self._is_over.set()
                return b""
            return line

    def _passed(self, most: int) -> bytes:
        """Return the next line that is the client's, not the process's own. Raises OSError."""
        line, number = self._source.readline(most), 0
        while line.startswith(b"\0"):
            if line == door.STILL_HERE:
                self._heard()
            elif line.startswith(CALL) and line[len(CALL) :].strip().isdigit():
                number = int(line[len(CALL) :])
            line = self._source.readline(most)
        if number and isinstance(request_id := read_object(line).get("id"), int | str):
            self._numbers[request_id] = number
        return line

    def end(self) -> None:
        """Return no further line."""
        with self._lock:
            self._has_ended = True
        with suppress(OSError):
            self._connection.shutdown(socket.SHUT_RD)

    def _is_left(self) -> bool:
        """True where nobody awaits answers: the window has told its client that they will not come, or is gone too."""
        poll = select.poll()
        poll.register(self._connection, 0)
        return bool(poll.poll(0))

    def wait(self, seconds: float) -> None:
        """Wait until the reading thread has seen the end, and so has counted every request before it."""
        self._is_over.wait(seconds)
