"""Starts the program: `mcp-memory` alone serves stdio at once, because a client must not wait for its server or hook.

So does `mcp-memory serve`. Anything else goes to the command line, which loads more slowly.
"""

import gc
import sys

from mcp_memory.isolated_python import trusted_path

# Before anything else is imported: Python would look in the folder first for all but the interpreter's own modules.
sys.path[:] = trusted_path()


def main() -> None:
    """Run the console script."""
    if sys.argv[1:] in ([], ["serve"]):
        from mcp_memory.entrypoints.server.relay import pass_on

        taken = pass_on({})  # While another process serves this memory, nothing else is loaded.
        gc.disable()  # Until the warm-up has ended: what is loaded stays; to look through it takes a tenth of a start.
        from functools import partial

        from mcp_memory.entrypoints.hooks.answering import answer_hooks
        from mcp_memory.entrypoints.server.stdio import serve
        from mcp_memory.errors import McpMemoryError
        from mcp_memory.settings import load_settings

        try:
            settings = load_settings(**taken.names)
            if settings.url:
                from mcp_memory.entrypoints.hooks.remote import answer_hooks_remotely
                from mcp_memory.entrypoints.server.attach import attach

                attach(settings, partial(answer_hooks_remotely, {}, settings))
            serve(settings, partial(answer_hooks, {}), taken)
        except McpMemoryError as error:
            sys.exit(f"mcp-memory: {error}")
    elif sys.argv[1] == "hook" and not any(argument.startswith("-") for argument in sys.argv[2:]):
        from mcp_memory.entrypoints.hooks.runner import main as run_hook

        run_hook(" ".join(sys.argv[2:]), {})
    else:
        from mcp_memory.entrypoints.cli import app

        app()


if __name__ == "__main__":
    main()
