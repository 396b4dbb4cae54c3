"""Copies the database while it is in use, and restores a copy. Knows no record."""

import json
import os
import shutil
import sqlite3
from collections.abc import Iterable, Sequence
from contextlib import closing, suppress
from itertools import chain, count
from pathlib import Path
from typing import NamedTuple

from mcp_memory.bounded_files import open_regular
from mcp_memory.errors import InvalidRequest, StoreUnavailable
from mcp_memory.stores.records.data_folder import FILE_NAME
from mcp_memory.stores.records.database_sqlite import SqliteDatabase
from mcp_memory.stores.records.file_errors import note_of, translated_errors
from mcp_memory.stores.records.migration_copies import FORMER, MIGRATED, full_disk_told, write_copy
from mcp_memory.stores.records.schema_sqlite import APPLICATION_ID

_SIDE_FILES = ("-wal", "-shm", "-overwritten")
_HOLDS = """
    SELECT 1 FROM records WHERE id IN (SELECT value FROM json_each(?1))
    UNION ALL SELECT 1 FROM tasks WHERE id IN (SELECT value FROM json_each(?1)) LIMIT 1
"""


class Copy(NamedTuple):
    """A database that lies beside the memory's; `schema` is None where it is damaged."""

    path: Path
    size: int  # bytes
    schema: int | None


def back_up(database: SqliteDatabase, path: Path) -> None:
    """See `RecordStore.backup`."""
    if path.exists():
        raise StoreUnavailable(f"{path} exists already; name a new file.")
    with translated_errors(path):
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        full = f"The disk that is to hold {path} is full; free space or name another."
        with database.read() as connection, full_disk_told(full):
            connection.execute("COMMIT")  # VACUUM begins a transaction of its own.
            write_copy(connection, path)


def restore(folder: Path, backup: Path, stamp: str) -> Path | None:
    """Make a copy of the backup the database of this folder; return the former one's new path.

    The write-ahead log is moved away with its database: otherwise SQLite would replay it onto the backup. Servers that
    still run find their file gone and refuse to write.

    Raises:
        InvalidRequest: the file is no sound backup.
        StoreUnavailable: the folder may not be written.
    """
    _schema_of(backup)
    path = folder / FILE_NAME
    with translated_errors(path):
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        fresh = path.with_name(f"{FILE_NAME}.restoring")
        _copy_whole(backup, fresh)
        former = _free_name(path, stamp)
        kept = former if path.exists() else None
        for suffix in ("", *_SIDE_FILES):  # First what tells others that this is not the memory.
            moved = path.with_name(FILE_NAME + suffix)
            if moved.exists():
                moved.rename(former.with_name(former.name + suffix))
        fresh.rename(path)
    return kept


def _free_name(database: Path, stamp: str) -> Path:
    """Return a path for the former database that nothing has: two may be kept within a second."""
    names = chain([stamp], (f"{stamp}-{number}" for number in count(2)))
    paths = (database.with_name(f"{FILE_NAME}{FORMER}{name}") for name in names)
    return next(p for p in paths if not any(p.with_name(p.name + side).exists() for side in ("", *_SIDE_FILES)))


def _copy_whole(backup: Path, fresh: Path) -> None:
    """Copy a backup, with what its log alone holds: a former file of `restore` may have one."""
    fresh.unlink(missing_ok=True)
    if _has_log(backup):
        with closing(_reading(backup)) as connection:
            write_copy(connection, fresh)
        return
    with os.fdopen(os.open(fresh, os.O_CREAT | os.O_WRONLY | os.O_EXCL, 0o600), "wb") as target:
        with open_regular(backup) as source:
            shutil.copyfileobj(source, target)
        target.flush()
        os.fsync(target.fileno())


def _reading(copy: Path) -> sqlite3.Connection:
    """Open a copy for reading, with its log if it has one; without, SQLite leaves no file beside it."""
    how = "ro" if _has_log(copy) else "ro&immutable=1"
    return sqlite3.connect(f"{copy.resolve().as_uri()}?mode={how}", uri=True)


def _has_log(database: Path) -> bool:
    log = database.with_name(f"{database.name}-wal")
    return log.exists() and log.stat().st_size > 0


def copies(database: Path) -> Sequence[Copy]:
    """Return what migrations and `restore` kept beside the database, by name."""
    kept = (path for kind in (MIGRATED, FORMER) for path in sorted(database.parent.glob(f"{database.name}{kind}*")))
    return [_copy(path) for path in kept if not path.name.endswith(_SIDE_FILES)]


def copies_holding(database: Path, record_ids: Iterable[str]) -> list[Path]:
    """Return the sound copies that hold any of these records and tasks.

    A damaged one may be all that is left of a memory.
    """
    wanted = json.dumps(list(record_ids))
    return [copy.path for copy in copies(database) if copy.schema is not None and _holds(copy.path, wanted)]


def delete_copies(paths: Iterable[Path]) -> None:
    """Delete copies, each with the log that belonged to it."""
    for path in paths:
        for suffix in ("", *_SIDE_FILES):
            path.with_name(path.name + suffix).unlink(missing_ok=True)


def _copy(path: Path) -> Copy:
    schema = None
    if not note_of(path).exists():
        with suppress(InvalidRequest):
            schema = _schema_of(path)
    return Copy(path, path.stat().st_size, schema)


def _holds(copy: Path, record_ids: str) -> bool:
    """Return True where the copy, read with its log if it has one, holds any record or task of a JSON list of ids."""
    with closing(_reading(copy)) as connection:
        return connection.execute(_HOLDS, (record_ids,)).fetchone() is not None


def _schema_of(backup: Path) -> int:
    """Return the number of its schema. Raises InvalidRequest unless this is a sound backup of ours.

    Triggers and views, which our schemas never have, would run with later writes.
    """
    try:
        open_regular(backup).close()
        with closing(_reading(backup)) as connection:
            is_ours = connection.execute("PRAGMA application_id").fetchone()[0] == APPLICATION_ID
            schema: int = connection.execute("PRAGMA user_version").fetchone()[0]
            is_sound = connection.execute("PRAGMA quick_check").fetchone()[0] == "ok"
            foreign = connection.execute("SELECT 1 FROM sqlite_master WHERE type IN ('trigger', 'view')").fetchone()
    except OSError as error:
        raise InvalidRequest(f"{backup} cannot be read ({error.strerror}); name a file that `backup` wrote.") from error
    except sqlite3.Error as error:
        raise InvalidRequest(f"{backup} cannot be read as a backup; name a file that `backup` wrote.") from error
    if not (is_ours and is_sound) or foreign:
        raise InvalidRequest(f"{backup} is no sound backup of a memory; name another.")
    return schema
