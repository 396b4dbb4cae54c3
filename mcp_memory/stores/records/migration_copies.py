"""Copies the database beside itself before a migration: whole on the disk, or not there. Knows no record."""

import os
import sqlite3
import sys
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from mcp_memory.errors import StoreUnavailable

MIGRATED, FORMER = ".schema-", ".before-"
"""Suffixes of the database's name: "memory.db.schema-15" is a migration's copy, the other what `restore` keeps."""
_UNFINISHED = ".copying"


def write_copy(connection: sqlite3.Connection, path: Path) -> None:
    """Copy the database, as of one moment, into a new file of its owner alone; leave none where that fails.

    VACUUM leaves out the slack that may still hold what was erased. The connection reads, and is in no transaction.
    """
    path.touch(mode=0o600)
    try:
        connection.execute("PRAGMA query_only = OFF")
        try:
            connection.execute("VACUUM INTO CAST(? AS TEXT)", (os.fsencode(path),))  # Its name may be no text.
        finally:
            connection.execute("PRAGMA query_only = ON")
        with path.open("rb+") as copy:
            os.fsync(copy.fileno())
    except BaseException:
        path.unlink()
        raise


@contextmanager
def full_disk_told(message: str) -> Generator[None]:
    """Raise StoreUnavailable with this message where the disk of a copy is full: it may not be the database's."""
    try:
        yield
    except sqlite3.OperationalError as error:
        if error.sqlite_errorcode == sqlite3.SQLITE_FULL:
            raise StoreUnavailable(message) from error
        raise


def copy_before_migration(connection: sqlite3.Connection, database: Path, schema: int) -> None:
    """Copy the database beside itself; the write lock is held, so nobody else does, and nothing is written meanwhile.

    The copy gets its name once it is whole: what a killed process left has another, and is replaced here.
    """
    drop_unfinished(database)
    unfinished = database.with_name(database.name + _UNFINISHED)
    megabytes = -(-database.stat().st_size // 1_000_000)
    with full_disk_told(
        f"This version changes the layout of {database} and copies it beside itself first, but the disk is full;"
        f" free at least {megabytes} MB and start again. Nothing was changed."
    ):
        write_copy(connection, unfinished)
    unfinished.replace(database.with_name(f"{database.name}{MIGRATED}{schema}"))
    if sys.platform != "win32":  # Its name has to last through a power cut, as what the migration writes does.
        folder = os.open(database.parent, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)


def drop_other_copies(database: Path, schema: int) -> None:
    """Delete the copies that earlier migrations made; the one of this schema stays. The write lock is held."""
    for path in database.parent.glob(f"{database.name}{MIGRATED}*"):
        if path.name != f"{database.name}{MIGRATED}{schema}":
            path.unlink(missing_ok=True)


def drop_unfinished(database: Path) -> None:
    """Delete a copy that a killed process left, with its journal, which SQLite would play back into the next one."""
    for suffix in ("", "-journal"):
        database.with_name(database.name + _UNFINISHED + suffix).unlink(missing_ok=True)
