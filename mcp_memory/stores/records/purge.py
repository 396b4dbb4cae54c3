"""Makes erased text unrecoverable from the database's files. Knows no record."""

import sqlite3
import time
from collections.abc import Callable

from mcp_memory.errors import StoreBusy
from mcp_memory.stores.records.database import Database
from mcp_memory.stores.records.statements import statement
from mcp_memory.stores.records.transaction import UNPURGED

PURGE_PATIENCE_SECONDS = 10.0
REWRITTEN = "rewritten"
"""Name in `meta` of the erasure since which the file was rewritten."""


def is_pending(database: Database) -> bool:
    """See `RecordStore.is_purge_pending`."""
    return _noted(database, UNPURGED) is not None


def purge(database: Database, *, patiently: bool) -> None:
    """See `RecordStore.purge`. Rewrites the file and empties its log.

    secure_delete zeroes the rows themselves, but neither the copies that SQLite leaves in the slack of a page when it
    moves rows between pages, nor the log. Where only the log is kept in use, the next attempt begins with the log: the
    file is rewritten already.
    """
    pending = _noted(database, UNPURGED)
    if pending is None:
        return
    deadline = time.monotonic() + (PURGE_PATIENCE_SECONDS if patiently else 0)
    with database.outside_transaction() as connection:
        if _noted(database, REWRITTEN) != pending:
            _retry(lambda: _rewrite(connection, pending), deadline)
    _retry(lambda: _empty_log(database, deadline), deadline)
    with database.write() as connection:
        connection.execute(statement("drop_meta"), (UNPURGED, pending))
        connection.execute(statement("drop_meta"), (REWRITTEN, pending))


def _noted(database: Database, name: str) -> str | None:
    with database.read() as connection:
        row = connection.execute(statement("get_meta"), (name,)).fetchone()
    return row["value"] if row else None


def _retry(attempt: Callable[[], bool], deadline: float) -> None:
    """Attempt until it succeeds. Raises StoreBusy at the deadline."""
    while not attempt():
        if time.monotonic() >= deadline:
            raise StoreBusy("Other processes keep the files in use; what was erased is in them until they pause.")
        time.sleep(0.01)


def _rewrite(connection: sqlite3.Connection, pending: str) -> bool:
    """Rewrite the file and note it; return False where another process is writing."""
    try:
        connection.execute("VACUUM")
        connection.execute(statement("put_meta"), (REWRITTEN, pending))
    except sqlite3.OperationalError as error:
        if (error.sqlite_errorcode & 0xFF) not in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
            raise
        return False
    return True


def _empty_log(database: Database, deadline: float) -> bool:
    """Empty the log; return False where another process is writing, or reads the log."""
    try:
        return database.empty_log(max(deadline - time.monotonic(), 0.0))
    except StoreBusy:
        return False
