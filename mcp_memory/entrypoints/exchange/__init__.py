"""A memory as JSON Lines: what `export` writes and `import` reads. docs/moving.md describes the format."""

from mcp_memory.entrypoints.exchange.reading import MemoryFile
from mcp_memory.entrypoints.exchange.writing import write_memory

__all__ = ["MemoryFile", "write_memory"]
