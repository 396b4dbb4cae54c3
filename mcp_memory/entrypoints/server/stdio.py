"""MCP over standard input and output, and an end that always comes. Knows no tool.

The protocol library waits for calls in flight when its input ends, and for the next line when it is told to stop.
"""

import io
import logging
import sys
import traceback
from pathlib import Path
from typing import TYPE_CHECKING, Final

import anyio

from mcp_memory.bridge.end_with_client import (
    GRACE_SECONDS,
    end_with_client,
    leave,
    leave_within,
)
from mcp_memory.entrypoints.server.line_streams import GuardedInput, LineOutput, take_stdin, take_stdout
from mcp_memory.entrypoints.server.pending_requests import PendingRequests

if TYPE_CHECKING:
    from mcp.server import MCPServer

logger = logging.getLogger(__name__)

SWITCH_SECONDS: Final = 0.0005


def serve_stdio(server: "MCPServer") -> None:
    """Serve one client. Ends the process within seconds after it has left; returns when nothing was in flight."""
    end_with_client(leave)
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
    anyio.run(_run, server)


async def _run(server: "MCPServer") -> None:
    try:
        await server.run_stdio_async()
    except* OSError:
        logger.info("Input or output is closed: the client is gone.")


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


def _let_end(pending: PendingRequests, output: LineOutput) -> None:
    """Let calls in flight run for a while, and the process no longer than that."""
    leave_within(GRACE_SECONDS)
    pending.wait(GRACE_SECONDS)
    output.wait(GRACE_SECONDS)
