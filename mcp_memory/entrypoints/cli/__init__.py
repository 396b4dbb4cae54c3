"""The command line: what a person can do with the memory, beside the agents."""

from mcp_memory.entrypoints.cli.program import app

__all__ = ["app"]
