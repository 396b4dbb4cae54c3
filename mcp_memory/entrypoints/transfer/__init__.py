"""A memory as JSON Lines: what `export` writes and `import` reads. docs/moving.md describes the format."""

from mcp_memory.entrypoints.transfer.export_file import write_memory
from mcp_memory.entrypoints.transfer.import_file import MemoryFile

__all__ = ["MemoryFile", "write_memory"]
