"""Start: `mcp-memory` alone serves stdio at once; anything else goes to the command line, which is slower to load."""

import sys


def main() -> None:
    """The console script."""
    if len(sys.argv) == 1:
        from mcp_memory.entrypoints.stdio import serve
        from mcp_memory.errors import McpMemoryError
        from mcp_memory.settings import load_settings

        try:
            serve(load_settings())
        except McpMemoryError as error:
            sys.exit(f"mcp-memory: {error}")
    else:
        from mcp_memory.entrypoints.cli import app

        app()


if __name__ == "__main__":
    main()
