"""Exports and imports a memory as JSON Lines; docs/moving.md describes the format."""

from mcp_memory.entrypoints.transfer.memory_file import MemoryFile, write_memory

__all__ = ["MemoryFile", "write_memory"]
