"""MCP over standard input and output, and an end that always comes. Knows no tool.

The protocol library waits for calls in flight when its input ends, and for the next line when it is told to stop.
"""

import io
import logging
import sys
import threading
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Final, NoReturn, Protocol

import anyio
import anyio.to_thread

from mcp_memory.entrypoints.server.line_streams import GuardedInput, LineOutput, take_stdin, take_stdout
from mcp_memory.entrypoints.server.pending_requests import PendingRequests
from mcp_memory.entrypoints.server.process_end import (
    GRACE_SECONDS,
    check_standard_streams,
    end_with_client,
    leave,
    leave_within,
)
from mcp_memory.entrypoints.server.relay import Takeover
from mcp_memory.entrypoints.server.window_state import WindowState

if TYPE_CHECKING:
    from mcp.server import MCPServer

    from mcp_memory.app import App
    from mcp_memory.entrypoints.server.shared_server import SharedServer
    from mcp_memory.settings import Settings

logger = logging.getLogger(__name__)

SWITCH_SECONDS: Final = 0.0005


class BackgroundWork(Protocol):
    """Work that a server does beside its client's calls, until it is stopped."""

    def stop(self, seconds: float) -> None:
        """Take nothing more, and wait for what has begun, about so long at the most."""


def serve(settings: "Settings", beside: "Callable[[App], BackgroundWork]", taken: Takeover) -> NoReturn:
    """Open the memory and serve it until the client leaves; ends the process. `beside` starts work beside its calls.

    Raises:
        InvalidRequest: there is no standard input or output.
        McpMemoryError: the memory cannot be opened.
    """
    check_standard_streams()
    log_to_stderr(settings.log_level)
    from mcp_memory.app import open_app
    from mcp_memory.entrypoints.server.mcp_server import build_server
    from mcp_memory.entrypoints.server.upkeep import upkeep_for

    app = open_app(settings, session=taken.window.session)
    if taken.window.place is not None:
        app.windows.expect(app.caller(), "", taken.window.place)
        app.windows.placed(app.caller())  # Before a new window takes it for one that was left.
    at_side = beside(app)
    upkeep = upkeep_for(app, settings)
    upkeep.start()
    # Long work and calls share one interpreter: a call that is ready to go on gets it sooner than in Python's own 5 ms.
    sys.setswitchinterval(SWITCH_SECONDS)
    if sys.stdin.isatty():
        sys.stderr.write(
            "Serving MCP for a client on standard input; `mcp-memory demo` shows it, `--help` lists commands.\n"
        )
    server = build_server(app, warm_up=True, notice=app.notice)
    serve_stdio(server, taken.window, _shared(app, server, taken))
    at_side.stop(GRACE_SECONDS)
    upkeep.stop()
    app.close()
    leave()


def _shared(app: "App", server: "MCPServer", taken: Takeover) -> "SharedServer | None":
    """Return what serves other windows of the memory, if this process leads them."""
    if not app.settings.share_server:
        if taken.lead is not None:
            taken.lead.turn_away()
        return None
    won = taken.claim()
    if won is None:
        return None
    from mcp_memory.entrypoints.server.shared_server import SharedServer

    return SharedServer(app, server, won)


def serve_stdio(server: "MCPServer", window: WindowState, shared: "SharedServer | None") -> None:
    """Serve one client, and windows that share the server. Ends the process within seconds after the client has left.

    Returns when it closed our input with nothing in flight. `window` is what it has said to another process.
    """
    end_with_client(lambda: _leave_windows(shared))
    pending = PendingRequests()
    server.middleware.append(pending)
    output = LineOutput(take_stdout(window.repeated, bytes(window.to_client)))
    guarded = GuardedInput(
        take_stdin(window.rest()),
        pending.add,
        refuse=lambda refusal: output.send_later(refusal.line),
        at_end=lambda: _let_end(pending, output, shared),
    )
    sys.stdin, sys.stdout = io.TextIOWrapper(io.BufferedReader(guarded)), io.TextIOWrapper(io.BufferedWriter(output))
    anyio.run(_serve_all, server, shared)


async def _serve_all(server: "MCPServer", shared: "SharedServer | None") -> None:
    async with anyio.create_task_group() as tasks:
        if shared is not None:
            tasks.start_soon(shared.run)
        try:
            await server.run_stdio_async()
        except* OSError:
            logger.info("Input or output is closed: the client is gone.")
        if shared is not None:
            grace = shared.grace_seconds
            leave_within(grace)
            await anyio.to_thread.run_sync(shared.dismiss, grace)


def _leave_windows(shared: "SharedServer | None") -> None:
    """End the process; where windows share it, once they have been told."""
    if shared is None or not shared.has_windows:
        leave()
    grace = shared.grace_seconds
    leave_within(grace)
    threading.Thread(target=lambda: (shared.dismiss(grace), leave()), name="leave", daemon=True).start()


def log_to_stderr(level: str) -> None:
    """Send the log to stderr, which may be a narrow console, or gone.

    Libraries say no more than INFO: at DEBUG they log whole messages, and so what is remembered.
    """
    logging.raiseExceptions = False
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(encoding="utf-8", errors="backslashreplace")
    of_libraries = "INFO" if level == "DEBUG" else level
    log = logging.StreamHandler()
    log.addFilter(without_words)
    logging.basicConfig(level=of_libraries, handlers=[log], format="%(levelname)s %(name)s: %(message)s")
    logging.getLogger("mcp_memory").setLevel(level)
    logger.debug("The log says all that this process has to say.")
    logging.captureWarnings(capture=True)


def without_words(entry: logging.LogRecord) -> bool:
    """Reduce a library's logged error to its type and place: its message may hold remembered text."""
    kind, _, trace = entry.exc_info or (None, None, None)
    if kind is None:
        return True
    places = [f" at {'/'.join(Path(each.filename).parts[-2:])}:{each.lineno}" for each in traceback.extract_tb(trace)]
    entry.msg, entry.args = f"{entry.getMessage()} ({kind.__name__}{''.join(places[-1:])})", None
    entry.exc_info = entry.exc_text = None
    return True


def _let_end(pending: PendingRequests, output: LineOutput, shared: "SharedServer | None") -> None:
    """Let calls in flight run for a while, and the process no longer than that."""
    grace = GRACE_SECONDS if shared is None else shared.grace_seconds
    leave_within(grace)
    if shared is not None:
        shared.dismiss(grace)
    pending.wait(GRACE_SECONDS)
    output.wait(GRACE_SECONDS)
