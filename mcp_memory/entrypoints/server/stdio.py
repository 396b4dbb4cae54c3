"""MCP over standard input and output, and an end that always comes. Knows no tool.

The protocol library waits for calls in flight when its input ends, and for the next line when it is told to stop.
A host that starts a server for every session must be able to count on its going: the ways to end are decided here.
"""

import io
import logging
import os
import select
import signal
import sys
import threading
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NoReturn, Protocol

from mcp_memory.entrypoints.server.line_streams import GuardedInput, LineOutput, take_stdin, take_stdout
from mcp_memory.errors import InvalidRequest

if TYPE_CHECKING:
    from mcp.server import MCPServer
    from mcp.server.context import CallNext, HandlerResult, ServerRequestContext

    from mcp_memory.app import App
    from mcp_memory.settings import Settings

logger = logging.getLogger(__name__)

GRACE_SECONDS: Final = 1.0
"""Time that calls in flight may still take after the input has ended."""
WRITING_SECONDS: Final = 0.05
"""Time that an answer may take from its handler to the client."""
WATCH_SECONDS: Final = 0.5
SWITCH_SECONDS: Final = 0.0005


class BackgroundWork(Protocol):
    """Work that a server does beside its client's calls, until it is stopped."""

    def stop(self, seconds: float) -> None:
        """Take nothing more, and wait for what has begun, about so long at the most."""


def serve(settings: "Settings", beside: "Callable[[App], BackgroundWork]") -> NoReturn:
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

    app = open_app(settings)
    at_side = beside(app)
    upkeep = upkeep_for(app, settings)
    upkeep.start()
    # Long work and calls share one interpreter: a call that is ready to go on gets it sooner than in Python's own 5 ms.
    sys.setswitchinterval(SWITCH_SECONDS)
    if sys.stdin.isatty():
        sys.stderr.write(
            "Serving MCP for a client on standard input; `mcp-memory demo` shows it, `--help` lists commands.\n"
        )
    serve_stdio(build_server(app, warm_up=True, notice=app.notice))
    at_side.stop(GRACE_SECONDS)
    upkeep.stop()
    app.close()
    leave()


def check_standard_streams() -> None:
    """Raises InvalidRequest where there is no standard input or output."""
    if sys.__stdin__ is None or sys.__stdout__ is None:
        raise InvalidRequest("Standard input and output are closed; let an MCP client start the server.")


def serve_stdio(server: "MCPServer") -> None:
    """Serve one client. Returns when it closes our input with nothing in flight; else the process ends in seconds."""
    end_with_client()
    pending = PendingRequests()
    server.middleware.append(pending)
    output = LineOutput(take_stdout())
    guarded = GuardedInput(
        take_stdin(),
        pending.add,
        refuse=lambda refusal: output.send_later(refusal.line),
        at_end=lambda: _let_end(pending, output),
    )
    sys.stdin, sys.stdout = io.TextIOWrapper(io.BufferedReader(guarded)), io.TextIOWrapper(io.BufferedWriter(output))
    try:
        server.run("stdio")
    except* OSError:
        logger.info("Input or output is closed: the client is gone.")


class PendingRequests:
    """Counts the requests that are not answered yet; as middleware, it sees them go.

    The library drops answers that are due when the input ends. A script that pipes its requests in wants them.
    """

    def __init__(self) -> None:
        self._count = 0
        self._changed = threading.Condition()

    def add(self, method: str) -> None:
        self._change(method, 1)

    async def __call__(self, ctx: "ServerRequestContext[Any, Any]", call_next: "CallNext") -> "HandlerResult":
        """Pass the message on, and count it as answered."""
        try:
            return await call_next(ctx)
        finally:
            if ctx.request_id is not None:
                self._change(ctx.method, -1)

    def wait(self, seconds: float) -> None:
        """Wait until every request has been answered, at most so long."""
        with self._changed:
            was_busy = self._count > 0
            self._changed.wait_for(lambda: self._count <= 0, seconds)
        if was_busy:
            time.sleep(WRITING_SECONDS)

    def _change(self, method: str, by: int) -> None:
        if method != "subscriptions/listen":  # which is answered when it ends
            with self._changed:
                self._count += by
                self._changed.notify_all()


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


def end_with_client() -> None:
    """End the process at a signal, and when the client is gone though our input stays open.

    Another process may have inherited it.
    """
    for name in (signal.SIGTERM, signal.SIGINT):
        signal.signal(name, lambda _number, _frame: leave())
    if sys.platform != "win32":
        told, tell = os.pipe()
        os.set_blocking(tell, False)
        # Python runs a handler once its main thread goes on. One that came just before it waits would wait with it.
        signal.set_wakeup_fd(tell, warn_on_full_buffer=False)
        arguments = (os.getppid(), os.dup(1), told)
        threading.Thread(target=_watch, args=arguments, name="watch-client", daemon=True).start()


def _watch(parent: int, output: int, told: int) -> None:
    poll, signals = select.poll(), select.poll()
    # An error, that nobody reads any more, is always reported; by macOS only to who waits for something.
    poll.register(output, select.POLLOUT)
    signals.register(told, select.POLLIN)
    while os.getppid() == parent and not any(event & (select.POLLERR | select.POLLHUP) for _, event in poll.poll(0)):
        if signals.poll(1_000 * WATCH_SECONDS):
            break
    leave()


def _let_end(pending: PendingRequests, output: LineOutput) -> None:
    """Let calls in flight run for a while, and the process no longer than that."""
    leave_within(GRACE_SECONDS)
    pending.wait(GRACE_SECONDS)
    output.wait(GRACE_SECONDS)


def leave_within(seconds: float) -> None:
    """End the process after this time, whatever is running."""
    timer = threading.Timer(seconds, leave)
    timer.daemon = True
    timer.start()


def leave() -> NoReturn:
    """End at once. A regular exit would wait for threads, or unload libraries while threads still run in them."""
    os._exit(0)
