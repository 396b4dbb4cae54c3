"""Starts what clients run: a window over standard input and output, or a hook. Imports nothing slow before it must."""

import gc
import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, NoReturn

from mcp_memory.bridge.relay import pass_on

if TYPE_CHECKING:
    from mcp_memory.bridge.door import Door
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
    from mcp_memory.entrypoints.host.holding import held
    from mcp_memory.entrypoints.server.mcp_server import build_server
    from mcp_memory.entrypoints.server.stdio import SWITCH_SECONDS, log_to_stderr, serve_stdio
    from mcp_memory.entrypoints.server.upkeep import upkeep_for

    check_standard_streams()
    log_to_stderr(settings.log_level)
    with held(settings, door, perform) as app:
        upkeep = upkeep_for(app, settings)
        upkeep.start()
        # Long work and calls share one interpreter: a call that is ready to go on gets it sooner than in 5 ms.
        sys.setswitchinterval(SWITCH_SECONDS)
        serve_stdio(build_server(app, warm_up=True))
        upkeep.stop()
    leave()


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


def run_hook(name: str, chosen: Mapping[str, object]) -> None:
    """Run a hook over standard input and output, with settings by these arguments; ends the process."""
    from mcp_memory.bridge.hook import main

    main(name, chosen, _own, _alone)


def _own(door: "Door", data_dir: str, chosen: Mapping[str, object]) -> None:
    from mcp_memory.entrypoints.owner.main import own

    own(door, data_dir, chosen)


def _alone(name: str, raw: bytes, chosen: Mapping[str, object]) -> str:
    from mcp_memory.entrypoints.hooks.answering import run

    return run(name, raw, chosen)
