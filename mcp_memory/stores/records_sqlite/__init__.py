"""The record store in one SQLite file."""

from mcp_memory.stores.records_sqlite.store import SqliteRecordStore

__all__ = ["SqliteRecordStore"]
