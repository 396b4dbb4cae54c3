"""The record store in one SQLite file."""

from mcp_memory.stores.records_sqlite.folder import FILE_NAME
from mcp_memory.stores.records_sqlite.restoring import restore
from mcp_memory.stores.records_sqlite.store import SqliteRecordStore

__all__ = ["FILE_NAME", "SqliteRecordStore", "restore"]
