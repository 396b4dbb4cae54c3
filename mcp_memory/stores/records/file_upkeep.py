"""Keeps the database's file sound, and makes erased text unrecoverable from it: implements `StoreUpkeep`."""

from __future__ import annotations

import json
import sqlite3
import time
from collections.abc import Iterable, Sequence
from pathlib import Path

from mcp_memory.domain.text.words import packed_terms
from mcp_memory.errors import StoreBusy
from mcp_memory.stores.records.backups import back_up, copies_holding, delete_copies
from mcp_memory.stores.records.database import Database
from mcp_memory.stores.records.erasures import REWRITTEN_ROWS, UNPURGED
from mcp_memory.stores.records.file_errors import UNREADABLE, wait_out
from mcp_memory.stores.records.migration_copies import drop_unfinished
from mcp_memory.stores.records.rows import record_from_row
from mcp_memory.stores.records.sql_files import MIGRATED, meta, statement
from mcp_memory.stores.records.transaction import advance

PURGE_PATIENCE_SECONDS = 10.0
REWRITTEN = "rewritten"
"""Name in `meta` of the erasure since which the file was rewritten."""
TERMS, TERMS_VERSION = "terms", "3"
"""Name in `meta` of the rule that derived the terms, and of the last row looked at while some are left ("2 to 500").
The second rule finds what the line of an event shows, the third knows the languages of words."""
_IN_USE = "Other processes keep the files in use; what was erased is in them until they pause."
_WAL_RESET_BUG = "its WAL-reset bug cannot happen to mcp-memory's own writes; let no other program write the file"


class SqliteUpkeep:
    """Implements `StoreUpkeep` on the database of a record store; the port documents each method."""

    _database: Database

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
                    wait_out(lambda: connection.execute(statement("put_meta"), (REWRITTEN, pending)), deadline)
            wait_out(lambda: self._empty_log(deadline), deadline)
        except StoreBusy as error:
            raise StoreBusy(_IN_USE) from error
        path, rewritten = self._database.path, self._noted(REWRITTEN_ROWS) or "[]"
        erased = (row["id"] for row in self._database.rows("SELECT id FROM tombstones"))
        copies = copies_holding(path, [*erased, *json.loads(rewritten)])
        with self._database.write() as connection:  # Nobody migrates, and so copies, meanwhile.
            delete_copies(copies)
            drop_unfinished(path)
            done = [(UNPURGED, pending), (REWRITTEN, pending), (REWRITTEN_ROWS, rewritten)]
            connection.executemany(statement("drop_meta"), done)
        return [copy.name for copy in copies]

    def is_purge_pending(self) -> bool:
        return self._noted(UNPURGED) is not None

    def backup(self, target: str) -> None:
        back_up(self._database, Path(target))

    def defects(self) -> Sequence[str]:
        """Return SQLite's findings on the file."""
        checked = [row[0] for row in self._database.rows("PRAGMA integrity_check(10)")]
        found = [] if checked == ["ok"] else checked
        if dangling := self._database.rows("PRAGMA foreign_key_check"):
            found.append(f"dangling references: {len(dangling)}")
        if unreadable := self._database.rows(UNREADABLE)[0][0]:
            found.append(f"records that cannot be read: {unreadable}")
        return found

    def engine(self) -> str:
        return engine(sqlite3.sqlite_version_info)

    def migrated(self) -> str:
        return self._noted(MIGRATED) or ""

    def stale_terms(self) -> Sequence[str]:
        with self._database.read() as connection:
            return _stale(connection.execute(statement("terms_after"), {"after": 0, "limit": -1}))

    def catch_up_terms(self, limit: int) -> bool:
        version, _, after = (self._noted(TERMS) or "").partition(" to ")
        if version == TERMS_VERSION and not after:
            return False
        begin = int(after) if version == TERMS_VERSION else 0
        with self._database.read() as connection:
            rows = connection.execute(statement("terms_after"), {"after": begin, "limit": limit}).fetchall()
        if stale := _stale(rows):
            self.renew_terms(stale)
        is_left = len(rows) == limit
        with self._database.write() as connection:
            noted = f"{TERMS_VERSION} to {rows[-1]['row']}" if is_left else TERMS_VERSION
            connection.execute(statement("put_meta"), (TERMS, noted))
        return is_left

    def renew_terms(self, record_ids: Sequence[str]) -> None:
        with self._database.write() as connection:
            for row in connection.execute(statement("records_of"), (json.dumps(record_ids),)).fetchall():
                record = record_from_row(row)
                terms = {"id": record.id, "terms": packed_terms(record.indexed_text)}
                connection.execute(statement("put_terms"), terms)
            advance(connection, record_ids)

    def count_orphans(self) -> int:
        return self._database.rows(statement("count_orphans"))[0][0]

    def drop_orphans(self) -> None:
        with self._database.write() as connection:
            connection.execute(statement("drop_orphans"))

    def _noted(self, name: str) -> str | None:
        with self._database.read() as connection:
            return meta(connection, name)

    def _empty_log(self, deadline: float) -> None:
        if not self._database.empty_log(max(deadline - time.monotonic(), 0.0)):
            raise StoreBusy(_IN_USE)  # A reader needs some of it.


def _stale(rows: Iterable[sqlite3.Row]) -> list[str]:
    """Return ids of the records whose terms are not those of their text."""
    texts = ((terms, record_from_row(columns)) for _, terms, *columns in rows)
    return [record.id for terms, record in texts if terms != packed_terms(record.indexed_text)]


def engine(version: tuple[int, int, int]) -> str:
    """Return the name of the SQLite of this version, with its known bug."""
    name = f"SQLite {'.'.join(map(str, version))}"
    return f"{name} ({_WAL_RESET_BUG})" if _has_wal_reset_bug(version) else name


def _has_wal_reset_bug(version: tuple[int, int, int]) -> bool:
    """Return True for every SQLite since write-ahead logs, 3.7.0, without the repair of 2026."""
    repaired = {(3, 44): 6, (3, 50): 7}  # Older lines, and the first release of each that has it.
    is_repaired = version >= (3, 51, 3) or version[2] >= repaired.get(version[:2], version[2] + 1)
    return version >= (3, 7, 0) and not is_repaired
