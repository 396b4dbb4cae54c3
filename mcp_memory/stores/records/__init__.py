"""The record store in one SQLite file."""

from mcp_memory.stores.records.backups import Copy, copies, restore
from mcp_memory.stores.records.data_folder import FILE_NAME
from mcp_memory.stores.records.store import SqlRecordStore
from mcp_memory.stores.records.store_sqlite import SqliteRecordStore

__all__ = ["FILE_NAME", "Copy", "SqlRecordStore", "SqliteRecordStore", "copies", "restore"]
