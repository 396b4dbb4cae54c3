"""Starts the program: `mcp-memory` alone serves stdio at once, because a client must not wait for its server or hook.

So does `mcp-memory serve`. Anything else goes to the command line, which loads more slowly.
"""

import sys

from mcp_memory.isolated_python import trusted_path

# Before anything else is imported: Python would look in the folder first for all but the interpreter's own modules.
sys.path[:] = trusted_path()


def main() -> None:
    """Run the console script."""
    if sys.argv[1:] in ([], ["serve"]):
        from mcp_memory.entrypoints.owner.client_start import serve
        from mcp_memory.errors import McpMemoryError

        try:
            serve({})
        except McpMemoryError as error:
            sys.exit(f"mcp-memory: {error}")
    elif sys.argv[1] == "hook" and (hook := _hook_of(sys.argv[2:])):
        from mcp_memory.entrypoints.owner.client_start import run_hook

        run_hook(*hook)
    else:
        from mcp_memory.entrypoints.cli import app

        app()


def _hook_of(arguments: list[str]) -> tuple[str, dict[str, object], str] | None:
    """Return the event, no settings, and the client, of e.g. `PreToolUse --client cursor`; None for other options."""
    client = ""
    if arguments[-2:-1] == ["--client"]:
        *arguments, _, client = arguments
    return None if any(each.startswith("-") for each in arguments) else (" ".join(arguments), {}, client)


if __name__ == "__main__":
    main()
