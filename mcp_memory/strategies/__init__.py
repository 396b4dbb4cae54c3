"""Strategies as data: the built-in ones, users' own, and what a call changes."""

from mcp_memory.strategies.toml_files import overridden, read_strategies

__all__ = ["overridden", "read_strategies"]
