"""Copies the database while it is in use. Knows no record."""

import os
import sqlite3
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from mcp_memory.errors import StoreUnavailable
from mcp_memory.stores.records.database import Database
from mcp_memory.stores.records.file_errors import translated_errors


def back_up(database: Database, path: Path) -> None:
    """See `RecordStore.backup`."""
    if path.exists():
        raise StoreUnavailable(f"{path} exists already; name a new file.")
    with translated_errors(path):
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        path.touch(mode=0o600)
        try:
            with database.read() as connection:
                # One snapshot, without the slack that may still hold what was erased.
                connection.execute("PRAGMA query_only = OFF")
                try:
                    with _full_disk_named(path):
                        connection.execute("VACUUM INTO ?", (str(path),))
                finally:
                    connection.execute("PRAGMA query_only = ON")
            with path.open("rb+") as copy:
                os.fsync(copy.fileno())
        except BaseException:
            path.unlink()
            raise


@contextmanager
def _full_disk_named(path: Path) -> Generator[None]:
    """The disk that has no room for the copy may be another than the database's."""
    try:
        yield
    except sqlite3.OperationalError as error:
        if error.sqlite_errorcode == sqlite3.SQLITE_FULL:
            raise StoreUnavailable(f"The disk that is to hold {path} is full; free space or name another.") from error
        raise
