"""The truth in one SQLite file: implements `RecordStore`, keeps the file sound, and makes erased text unrecoverable."""

from __future__ import annotations

import json
import sqlite3
import time
from collections.abc import Sequence
from pathlib import Path

from mcp_memory.errors import StoreBusy
from mcp_memory.ports.text import Clock
from mcp_memory.stores.records.backups import back_up, copies_holding, delete_copies
from mcp_memory.stores.records.database_sqlite import SqliteDatabase
from mcp_memory.stores.records.erasures import REWRITTEN_ROWS, UNPURGED
from mcp_memory.stores.records.file_errors import UNREADABLE, wait_out
from mcp_memory.stores.records.migration_copies import drop_unfinished
from mcp_memory.stores.records.store import SqlRecordStore

PURGE_PATIENCE_SECONDS = 10.0
REWRITTEN = "rewritten"
"""Name in `meta` of the erasure since which the file was rewritten."""
_IN_USE = "Other processes keep the files in use; what was erased is in them until they pause."
_WAL_RESET_BUG = "its WAL-reset bug cannot happen to mcp-memory's own writes; let no other program write the file"


class SqliteRecordStore(SqlRecordStore):
    """Implements `RecordStore`; the port documents each method."""

    _database: SqliteDatabase  # pyrefly: ignore[bad-override-mutable-attribute] - nothing sets it anew

    def __init__(self, folder: Path, embedder: str, clock: Clock = time.time) -> None:
        """Open or create the store. Raises StoreUnavailable with the remedy where it can do neither."""
        super().__init__(SqliteDatabase(folder), embedder, clock)

    def purge(self, *, patiently: bool = True) -> Sequence[str]:
        """Rewrite the file and empty its log.

        secure_delete zeroes the rows themselves, but neither the copies that SQLite leaves in the slack of a page when
        it moves rows between pages, nor the log. Where only the log is kept in use, the next attempt begins with the
        log: the file is rewritten already.
        """
        pending = self._noted(UNPURGED)
        if pending is None:
            return ()
        deadline = time.monotonic() + (PURGE_PATIENCE_SECONDS if patiently else 0)
        try:
            with self._database.outside_transaction() as connection:
                if self._noted(REWRITTEN) != pending:
                    wait_out(lambda: connection.execute("VACUUM"), deadline)
                    wait_out(lambda: connection.run("put_meta", (REWRITTEN, pending)), deadline)
            wait_out(lambda: self._empty_log(deadline), deadline)
        except StoreBusy as error:
            raise StoreBusy(_IN_USE) from error
        path, rewritten = self._database.path, self._noted(REWRITTEN_ROWS) or "[]"
        erased = (row["id"] for row in self._database.rows("every_tombstone"))
        copies = copies_holding(path, [*erased, *json.loads(rewritten)])
        with self._database.write() as connection:  # Nobody migrates, and so copies, meanwhile.
            delete_copies(copies)
            drop_unfinished(path)
            done = [(UNPURGED, pending), (REWRITTEN, pending), (REWRITTEN_ROWS, rewritten)]
            connection.run_each("drop_meta", done)
        return [copy.name for copy in copies]

    def erased_remains(self) -> str:
        return ""

    def backup(self, target: str) -> None:
        back_up(self._database, Path(target))

    def defects(self) -> Sequence[str]:
        """Return SQLite's findings on the file."""
        with self._database.read() as connection:
            checked = [row[0] for row in connection.execute("PRAGMA integrity_check(10)")]
            found = [] if checked == ["ok"] else checked
            if dangling := connection.execute("PRAGMA foreign_key_check").fetchall():
                found.append(f"dangling references: {len(dangling)}")
            if unreadable := connection.execute(UNREADABLE).fetchone()[0]:
                found.append(f"records that cannot be read: {unreadable}")
        return found

    def engine(self) -> str:
        return engine(sqlite3.sqlite_version_info)

    def _empty_log(self, deadline: float) -> None:
        if not self._database.empty_log(max(deadline - time.monotonic(), 0.0)):
            raise StoreBusy(_IN_USE)  # A reader needs some of it.


def engine(version: tuple[int, int, int]) -> str:
    """Return the name of the SQLite of this version, with its known bug."""
    name = f"SQLite {'.'.join(map(str, version))}"
    return f"{name} ({_WAL_RESET_BUG})" if _has_wal_reset_bug(version) else name


def _has_wal_reset_bug(version: tuple[int, int, int]) -> bool:
    """Return True for every SQLite since write-ahead logs, 3.7.0, without the repair of 2026."""
    repaired = {(3, 44): 6, (3, 50): 7}  # Older lines, and the first release of each that has it.
    is_repaired = version >= (3, 51, 3) or version[2] >= repaired.get(version[:2], version[2] + 1)
    return version >= (3, 7, 0) and not is_repaired
