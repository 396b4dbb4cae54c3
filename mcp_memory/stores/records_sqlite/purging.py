"""Makes what was erased unrecoverable from the database's files. Knows no record."""

import sqlite3
import time
from collections.abc import Callable

from mcp_memory.errors import StoreBusy
from mcp_memory.stores.records_sqlite.database import Database
from mcp_memory.stores.records_sqlite.statements import statement
from mcp_memory.stores.records_sqlite.transaction import UNPURGED

PURGE_PATIENCE_SECONDS = 10.0


def purge(database: Database) -> None:
    """See `RecordStore.purge`. Rewrites the file and empties its log.

    secure_delete zeroes the rows themselves, but not the copies that SQLite leaves in the slack of a page when it
    moves rows between pages; nor does it reach the log.
    """
    with database.read() as connection:
        pending = connection.execute(statement("get_meta"), (UNPURGED,)).fetchone()
    if pending is None:
        return
    deadline = time.monotonic() + PURGE_PATIENCE_SECONDS
    with database.outside_transaction() as connection:
        _retry(lambda: _vacuum(connection), deadline)
    _retry(lambda: _empty_log(database), deadline)
    with database.write() as connection:
        connection.execute(statement("drop_meta"), (UNPURGED, pending["value"]))


def _retry(attempt: Callable[[], bool], deadline: float) -> None:
    """Attempt until it succeeds. Raises StoreBusy at the deadline."""
    while not attempt():
        if time.monotonic() > deadline:
            raise StoreBusy("Erased, but other processes kept the files in use; call forget again to purge them.")
        time.sleep(0.01)


def _vacuum(connection: sqlite3.Connection) -> bool:
    """True when done; False where another process is writing."""
    try:
        connection.execute("VACUUM")
    except sqlite3.OperationalError as error:
        if (error.sqlite_errorcode & 0xFF) not in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
            raise
        return False
    return True


def _empty_log(database: Database) -> bool:
    """True when done; False where another process is writing, or reads what is in the log."""
    try:
        return database.empty_log()
    except StoreBusy:
        return False
