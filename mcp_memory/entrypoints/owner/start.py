"""Starts what clients run: a window over standard input and output, or a hook. Imports nothing slow before it must."""

import gc
import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, NoReturn

from mcp_memory.bridge.relay import pass_on

if TYPE_CHECKING:
    from mcp_memory.bridge.door import Door


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
    from mcp_memory.entrypoints.server import stdio

    stdio.serve(settings, taken.door)


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
