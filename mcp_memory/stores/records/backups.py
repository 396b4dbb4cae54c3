"""Copies the database while it is in use, and restores a copy. Knows no record."""

import os
import shutil
import sqlite3
from collections.abc import Generator
from contextlib import closing, contextmanager
from pathlib import Path

from mcp_memory.bounded_files import open_regular
from mcp_memory.errors import InvalidRequest, StoreUnavailable
from mcp_memory.stores.records.data_folder import FILE_NAME
from mcp_memory.stores.records.database import Database
from mcp_memory.stores.records.file_errors import translated_errors
from mcp_memory.stores.records.sql_files import APPLICATION_ID


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
    """Name the disk of the copy where it is full: it may not be the database's."""
    try:
        yield
    except sqlite3.OperationalError as error:
        if error.sqlite_errorcode == sqlite3.SQLITE_FULL:
            raise StoreUnavailable(f"The disk that is to hold {path} is full; free space or name another.") from error
        raise


def restore(folder: Path, backup: Path, stamp: str) -> Path | None:
    """Make a copy of the backup the database of this folder; return the former one's new path.

    The write-ahead log is moved away with its database: otherwise SQLite would replay it onto the backup. Servers that
    still run find their file gone and refuse to write.

    Raises:
        InvalidRequest: the file is no sound backup.
        StoreUnavailable: the folder may not be written.
    """
    _require_sound(backup)
    path = folder / FILE_NAME
    with translated_errors(path):
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        fresh = path.with_name(f"{FILE_NAME}.restoring")
        with os.fdopen(os.open(fresh, os.O_CREAT | os.O_WRONLY | os.O_TRUNC, 0o600), "wb") as target:
            with open_regular(backup) as source:
                shutil.copyfileobj(source, target)
            target.flush()
            os.fsync(target.fileno())
        kept = path.with_name(f"{FILE_NAME}.before-{stamp}") if path.exists() else None
        for suffix in ("", "-wal", "-shm", "-overwritten"):  # First what tells others that this is not the memory.
            former = path.with_name(FILE_NAME + suffix)
            if former.exists():
                former.rename(path.with_name(f"{FILE_NAME}.before-{stamp}{suffix}"))
        fresh.rename(path)
    return kept


def _require_sound(backup: Path) -> None:
    """Raise InvalidRequest unless this is a sound backup of ours. SQLite leaves no file beside it.

    Triggers and views, which our schemas never have, would run with later writes.
    """
    try:
        open_regular(backup).close()
        uri = f"{backup.resolve().as_uri()}?mode=ro&immutable=1"
        with closing(sqlite3.connect(uri, uri=True)) as connection:
            is_ours = connection.execute("PRAGMA application_id").fetchone()[0] == APPLICATION_ID
            is_sound = connection.execute("PRAGMA quick_check").fetchone()[0] == "ok"
            foreign = connection.execute("SELECT 1 FROM sqlite_master WHERE type IN ('trigger', 'view')").fetchone()
    except OSError as error:
        raise InvalidRequest(f"{backup} cannot be read ({error.strerror}); name a file that `backup` wrote.") from error
    except sqlite3.Error as error:
        raise InvalidRequest(f"{backup} cannot be read as a backup; name a file that `backup` wrote.") from error
    if not (is_ours and is_sound) or foreign:
        raise InvalidRequest(f"{backup} is no sound backup of a memory; name another.")
