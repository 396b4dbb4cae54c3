"""Explains faults of the database's files, each with its remedy: SQLite's errors, and the witness's findings.

Errors that pass by themselves, as others pause, are waited out.
"""

import os
import random
import sqlite3
import time
from collections.abc import Callable, Generator, Mapping
from contextlib import closing, contextmanager, suppress
from functools import cache
from pathlib import Path

from mcp_memory.errors import CHOOSE_FOLDER, McpMemoryError, StoreBusy, StoreUnavailable
from mcp_memory.stores.records.file_integrity import Fault


class Damaged(StoreUnavailable):
    """The file holds something that SQLite cannot have written."""


@contextmanager
def translated_errors(path: Path) -> Generator[None]:
    """Turn SQLite's and the system's errors into ours, each with its remedy."""
    try:
        yield
    except sqlite3.Error as error:
        raise _translate(error, path) from error
    except PermissionError as error:
        raise StoreUnavailable(f"{path.parent} may not be written; {CHOOSE_FOLDER}") from error
    except OSError as error:
        raise StoreUnavailable(f"{path.parent}: {error.strerror}; {CHOOSE_FOLDER}") from error


_DAMAGE = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)
_OF_CONTENT = (0, sqlite3.SQLITE_ERROR)
"""Codes of errors that a wrong statement causes, or a right one over content that nobody wrote."""
DAMAGED = (
    "{path} is damaged and was left as it is; run `mcp-memory restore-backup` with the newest backup,"
    " which keeps the damaged file beside it (`sqlite3 … .recover` saves what is readable)."
)
UNREADABLE = "SELECT count(*) FROM records WHERE NOT (json_valid(tags) AND json_valid(details)) OR instr(id, char(0))"
"""Counts the records in whose place is something else, as where pages were cut off and filled with zeros."""
_LOG_LOST = (
    "was deleted, cut or replaced while in use, so nothing more is written. Run `mcp-memory stop` and call again; where"
    " records are missing then, run `mcp-memory restore-backup` with the newest backup."
)
FAULTS: Mapping[Fault, str] = {
    "moved": "{path} was moved or replaced while in use; move it back, or run `mcp-memory stop` and call again.",
    "overwritten": "{path} was emptied, cut, replaced or written over while in use, so nothing more is written. Run"
    " `mcp-memory restore-backup` with the newest backup, which keeps what is there beside it, and call again.",
    "log": "{path}-wal " + _LOG_LOST,
    "index": "{path}-shm " + _LOG_LOST,
}


@cache
def note_of(path: Path) -> Path:
    """Return the path of the note that warns other processes, also later ones, of an overwritten database.

    The log of the lost database may still be beside the file: opening them together would mix the two.
    """
    return path.with_name(f"{path.name}-overwritten")


def refuse(fault: Fault | None, path: Path) -> None:
    """Raise StoreUnavailable where there is a fault; leave a note of an overwritten database."""
    if fault == "overwritten":
        with suppress(OSError):
            note_of(path).touch(mode=0o600)
    if fault is not None:
        raise StoreUnavailable(FAULTS[fault].format(path=path))


def refuse_overwritten(path: Path) -> None:
    """Raise StoreUnavailable where the database was found overwritten and not restored since."""
    if os.access(note_of(path), os.F_OK):  # A fifteenth of the time of `Path.exists`, and part of every call.
        raise StoreUnavailable(FAULTS["overwritten"].format(path=path))


def code_of(error: sqlite3.Error) -> int:
    """Return SQLite's primary code: SQLITE_IOERR for SQLITE_IOERR_SHORT_READ, for example."""
    return getattr(error, "sqlite_errorcode", 0) & 0xFF


def is_busy(error: sqlite3.Error) -> bool:
    """Return True where others hold a lock that the call needs."""
    return code_of(error) in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)


def wait_out(attempt: Callable[[], object], deadline: float) -> None:
    """Repeat an attempt while others keep the database busy, until the deadline.

    Our own jittered retry: SQLite's fixed delays let waiting processes starve each other.
    """
    pause = 0.001
    while True:
        try:
            attempt()
            return
        except (sqlite3.Error, StoreBusy) as error:
            if time.monotonic() > deadline or (isinstance(error, sqlite3.Error) and not is_busy(error)):
                raise
        time.sleep(pause * random.uniform(0.5, 1.5))
        pause = min(pause * 1.5, 0.05)


def is_broken(error: sqlite3.Error) -> bool:
    """Return True where a file holds less than, or other than, SQLite wrote there."""
    return code_of(error) in _DAMAGE or getattr(error, "sqlite_errorcode", 0) == sqlite3.SQLITE_IOERR_SHORT_READ


def _is_unreadable(error: sqlite3.Error, path: Path) -> bool:
    """Return True where the file's content caused the error: texts that are not UTF-8, fields that are not JSON."""
    if "decode to UTF-8" in str(error):  # Python's own error, which has no code.
        return True
    try:
        with closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)) as connection:
            is_whole = connection.execute("PRAGMA quick_check(1)").fetchone()[0] == "ok"
            return not is_whole or bool(connection.execute(UNREADABLE).fetchone()[0])
    except sqlite3.Error as another:
        return is_broken(another)


def _translate(error: sqlite3.Error, path: Path) -> McpMemoryError:
    code = code_of(error)
    if is_busy(error):
        return StoreBusy("The memory store is busy with other processes; call again in a few seconds.")
    if code == sqlite3.SQLITE_FULL:
        return StoreUnavailable(f"The disk that holds {path} is full; free space and call again.")
    if code in (sqlite3.SQLITE_READONLY, sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_PERM):
        return StoreUnavailable(f"{path} may not be written; {CHOOSE_FOLDER}")
    if code in _DAMAGE or (code in _OF_CONTENT and _is_unreadable(error, path)):
        return Damaged(DAMAGED.format(path=path))
    if code == sqlite3.SQLITE_IOERR:
        return StoreUnavailable(
            f"{path} cannot be read or written (disk error or full); check the disk and call again."
        )
    raise error
