"""Commands over a memory: run by their own process, or by the one that owns the memory (`performing`)."""

from mcp_memory.entrypoints.commands import (
    access,
    corrections,
    examining,
    learn,
    maintenance,
    overviews,
    projects,
    records,
    review,
    transfer,
)

__all__ = [
    "access", "corrections", "examining", "learn", "maintenance", "overviews", "projects", "records", "review",
    "transfer",
]  # fmt: skip
