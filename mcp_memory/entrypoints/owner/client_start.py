"""Starts what clients run: a window over standard input and output, or a hook. Imports nothing slow before it must."""

import gc
import io
import sys
from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING, NoReturn

from mcp_memory.bridge.relay import pass_on

if TYPE_CHECKING:
    from mcp.server import MCPServer

    from mcp_memory.bridge.door import Door
    from mcp_memory.entrypoints.server.line_streams import LineOutput
    from mcp_memory.entrypoints.server.pending_requests import PendingRequests
    from mcp_memory.settings import Settings


def serve(chosen: Mapping[str, object]) -> NoReturn:
    """Serve one client over standard input and output, with settings by these arguments; ends the process.

    Raises McpMemoryError.
    """
    if sys.stdin is not None and sys.stdin.isatty():
        sys.stderr.write(
            "Serving MCP for a client on standard input; `mcp-memory demo` shows it, `--help` lists commands.\n"
        )
    taken = pass_on(chosen, _own)  # While another process owns this memory, nothing else is loaded.
    gc.disable()  # Until the warm-up has ended: what is loaded stays; to look through it takes a tenth of a start.
    from mcp_memory.settings import load_settings

    settings = load_settings(**{**chosen, **taken.names})
    if settings.url:
        from mcp_memory.entrypoints.server.attach import attach

        attach(settings)
    _serve_here(settings, taken.door)


def _serve_here(settings: "Settings", door: "Door | None") -> NoReturn:
    """Own the memory in this process until its client leaves, where no process could be started beside it.

    Raises InvalidRequest where there is no standard input or output, and McpMemoryError as the memory does.
    """
    from mcp_memory.bridge.end_with_client import check_standard_streams, leave
    from mcp_memory.entrypoints.commands.performing import perform
    from mcp_memory.entrypoints.host.holding import held, read_files
    from mcp_memory.entrypoints.server.mcp_server import build_server
    from mcp_memory.entrypoints.server.server_log import log_to_stderr
    from mcp_memory.entrypoints.server.upkeep import SWITCH_SECONDS, upkeep_for

    check_standard_streams()
    log_to_stderr(settings.log_level, settings.log_format)
    with held(settings, door, perform) as app:
        app.welcome(app.own)
        upkeep = upkeep_for(app, settings, read_files)
        upkeep.start()
        sys.setswitchinterval(SWITCH_SECONDS)
        _serve_stdio(build_server(app, warm_up=True))
        upkeep.stop()
    leave()


def _serve_stdio(server: "MCPServer") -> None:
    """Serve one client. Ends the process within seconds after it has left; returns when nothing was in flight.

    The library waits for calls in flight when its input ends, and for the next line when it is told to stop.
    """
    import anyio

    from mcp_memory.bridge.end_with_client import end_with_client, leave
    from mcp_memory.entrypoints.server.line_streams import GuardedInput, LineOutput, take_stdin, take_stdout
    from mcp_memory.entrypoints.server.pending_requests import PendingRequests

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
        import logging

        logging.getLogger(__name__).info("Input or output is closed: the client is gone.")


def _let_end(pending: "PendingRequests", output: "LineOutput") -> None:
    """Let calls in flight run for a while, and the process no longer than that."""
    from mcp_memory.bridge.end_with_client import GRACE_SECONDS, leave_within

    leave_within(GRACE_SECONDS)
    pending.wait(GRACE_SECONDS)
    output.wait(GRACE_SECONDS)


def ensure_owner(data_dir: str, chosen: Mapping[str, object]) -> None:
    """Start an owner of the memory where there is none and one can be started. No thread may have been started.

    Raises StoreUnavailable where the memory can have none.
    """
    from mcp_memory.bridge.door import Door
    from mcp_memory.bridge.owner_start import start
    from mcp_memory.bridge.private_sockets import are_possible

    claimed = Door.claim(data_dir) if are_possible() else None
    if claimed and not start(claimed, data_dir, chosen, _own):
        claimed.release()


def run_hook(name: str, chosen: Mapping[str, object], client: str = "") -> None:
    """Run a client's hook over standard input and output, with settings by these arguments; ends the process.

    Without a name the client is Claude Code.
    """
    from mcp_memory.bridge.hook import main

    main(name, chosen, _own, partial(_alone, client=client), client)


def _own(door: "Door", data_dir: str, chosen: Mapping[str, object]) -> None:
    from mcp_memory.entrypoints.owner.main import own

    own(door, data_dir, chosen)


def _alone(name: str, raw: bytes, chosen: Mapping[str, object], client: str) -> str:
    from mcp_memory.entrypoints.hooks.answering import run

    return run(name, raw, chosen, client)
