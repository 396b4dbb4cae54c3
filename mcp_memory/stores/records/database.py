"""The database file: finds its place, opens, migrates and writes it. Knows no record."""

import logging
import os
import queue
import random
import sqlite3
import threading
import time
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from contextvars import ContextVar
from pathlib import Path
from typing import Any

from mcp_memory.errors import SchemaTooNew, StoreBusy, StoreUnavailable
from mcp_memory.stores.records.data_folder import FILE_NAME, create_private, refuse_network_file_system
from mcp_memory.stores.records.file_errors import (
    FAULTS,
    Damaged,
    code_of,
    is_broken,
    note_of,
    refuse_overwritten,
    translated_errors,
)
from mcp_memory.stores.records.file_integrity import Fault, Unsettled, Witness
from mcp_memory.stores.records.statements import migrations

WRITE_PATIENCE_SECONDS = 30.0  # for the write lock
READ_PATIENCE_MS = 10_000
CACHE_KIB = 4_096
IDLE_READERS = 8  # connections kept in the pool
CHECKPOINT_FRAMES = 1_000
"""Pages in the log, 4 MB, from which a write moves them into the database; SQLite's own default."""
SETTLE_PATIENCE_SECONDS = 0.25
SETTLE_ATTEMPTS = 3
OPEN_ATTEMPTS = 20
OPEN_PAUSE_SECONDS = 0.02
APPLICATION_ID = 0x6D636D6D  # "mcmm" in ASCII
_log = logging.getLogger(__name__)
_snapshot: ContextVar["DatabaseSnapshot | None"] = ContextVar("_snapshot", default=None)


class DatabaseSnapshot:
    """The database as of one moment, for a request and the threads that work for it, which take turns.

    It holds a connection in a read transaction, and thereby the log: while it is open, no checkpoint restarts the log.
    """

    def __init__(self, database: "Database", connection: sqlite3.Connection) -> None:
        self.database = database
        self.connection = connection
        self.revision: int = connection.execute("SELECT value FROM sequence").fetchone()[0]
        self.turn = threading.RLock()

    @contextmanager
    def reading(self) -> Generator[int]:
        """Make every read in this context, and in copies of it, see the snapshot; yields the revision.

        Raises:
            StoreUnavailable: at the end, where the files were not sound; what was read is not to be used.
        """
        token = _snapshot.set(self)
        try:
            yield self.revision
        finally:
            _snapshot.reset(token)
        self.database.require_sound()

    def close(self) -> None:
        """Release the snapshot, once nothing reads it any more."""
        self.database.end(self)


class Database:
    """One SQLite file, shared by threads and processes.

    A read borrows a connection from a pool, which keeps a few and opens more for simultaneous reads; the process writes
    over one connection, guarded by a lock. WAL with synchronous=FULL: a commit is on disk before it is acknowledged,
    and needs no repair after a kill.

    A witness compares the files with one another before a write is acknowledged and before a read answers, so that
    neither reports on a database that was truncated, replaced or rolled back. SQLite's own checkpoints are off: the log
    is moved into the database only under the write lock, after the witness has found both sound.
    """

    def __init__(self, folder: Path) -> None:
        """Open, creating and migrating where needed.

        Raises:
            StoreUnavailable: the folder is on a network file system, read-only or full, or the file is damaged, of a
                newer schema or of a draft of the first, or was overwritten while servers used it.
        """
        self.path = folder / FILE_NAME
        self._lock = threading.Lock()
        self._damage: str | None = None
        self._newest: int | None = None
        self._newest_at_begin: int | None = None
        self._is_durable = True
        self._note = str(note_of(self.path))
        self._idle_readers: queue.LifoQueue[sqlite3.Connection] = queue.LifoQueue(IDLE_READERS)
        self._borrowed = 0
        self._borrowed_lock = threading.Lock()
        self._is_closed = False
        self._witness = Witness(self.path)
        refuse_network_file_system(folder)
        with translated_errors(self.path):
            create_private(folder, self.path)
            self._writer = self._open()
            try:
                self._migrate()
                self._newest = self._writer.execute("SELECT value FROM sequence").fetchone()[0]
            except BaseException:
                self.close()
                raise

    @property
    def schema_version(self) -> int:
        return len(migrations())

    @contextmanager
    def read(self) -> Generator[sqlite3.Connection]:
        """Borrow a connection for reading, this caller's alone until it is returned.

        Raises:
            StoreUnavailable: at the end too, where the files were not sound; what was read is not to be used.
        """
        snapshot = self._pinned()
        with self._translated_errors():
            self._require_touchable()
            if snapshot is None:
                with self._explained_errors(), self._reader() as connection:
                    yield connection
                self._require_sound()
            else:  # Its end looks at the files.
                with self._explained_errors(), snapshot.turn:
                    yield snapshot.connection

    def rows(self, sql: str, parameters: Sequence[object] | Mapping[str, object] = ()) -> list[Any]:
        """Return all rows of a query. Raises StoreUnavailable."""
        with self.read() as connection:
            return connection.execute(sql, parameters).fetchall()

    def pin(self) -> DatabaseSnapshot:
        """Return the database as it is now, readable until you close it. Raises StoreUnavailable."""
        with self._translated_errors():
            self._require_touchable()
            with self._explained_errors():
                connection = self._borrow()
                try:
                    connection.execute("BEGIN")
                    return DatabaseSnapshot(self, connection)
                except BaseException:
                    self._return(connection)
                    raise

    @contextmanager
    def snapshot(self) -> Generator[int]:
        """Read the database as of one moment in this context; inside another snapshot, as of that one's.

        Yields the revision. Raises StoreUnavailable, at the end too.
        """
        if (revision := self.pinned_revision()) is not None:
            yield revision
            return
        with closing(self.pin()) as snapshot, snapshot.reading():
            yield snapshot.revision

    def end(self, snapshot: DatabaseSnapshot) -> None:
        with snapshot.turn:
            self._return(snapshot.connection)

    def pinned_revision(self) -> int | None:
        """Return the revision of the snapshot that this context reads; None without one."""
        snapshot = self._pinned()
        return snapshot.revision if snapshot else None

    def require_sound(self) -> None:
        """Raise StoreUnavailable where the files are not those that this process knows."""
        with self._translated_errors():
            self._require_sound()

    def _pinned(self) -> DatabaseSnapshot | None:
        snapshot = _snapshot.get()
        return snapshot if snapshot is not None and snapshot.database is self else None

    @contextmanager
    def write(self, patience: float = WRITE_PATIENCE_SECONDS, *, durable: bool = True) -> Generator[sqlite3.Connection]:
        """Begin a write transaction: commits at exit, rolls back on any error.

        A commit that is not `durable` survives the process but not a power cut: it skips waiting for the disk, which
        suits telemetry. The next durable one brings it to the disk as well.
        The schema version is checked inside the transaction, so that a process of an older version, still running
        while a newer one migrates, never writes what it does not know. So are the files, and once more after the
        commit: what is acknowledged was in sound files before and after.
        """
        assert self._pinned() is None, "Nothing is written inside a snapshot, whose end others wait for."
        deadline = time.monotonic() + patience
        if not self._lock.acquire(timeout=max(patience, 0.001)):
            raise StoreBusy("The memory store is busy in this process; call again.")
        try:
            with self._translated_errors():
                if self._damage is not None:
                    raise Damaged(self._damage)
                self._require_touchable()
                self._wait_for_disk(durable)
                with self._explained_errors(is_locked=True):
                    _patiently(self._writer, "BEGIN IMMEDIATE", deadline, self._require_touchable)
                    try:
                        yield self._begun()
                        is_due = self._commit()
                    except BaseException:
                        if self._writer.in_transaction:
                            self._writer.execute("ROLLBACK")
                        raise
                self._require_sound(is_locked=True)
                if is_due:
                    self._checkpoint_quietly()
        finally:
            self._lock.release()

    @contextmanager
    def outside_transaction(self) -> Generator[sqlite3.Connection]:
        """Yield the writing connection for statements that cannot run in a transaction, such as VACUUM."""
        with self._lock, self._translated_errors():
            self._require_sound(is_locked=True)
            yield self._writer
            self._require_sound(is_locked=True)

    def empty_log(self, patience: float = WRITE_PATIENCE_SECONDS) -> bool:
        """Move the whole log into the database and truncate it; return False where readers still need some of it.

        Raises StoreBusy where other processes keep writing for `patience` seconds.
        """
        with self._lock, self._translated_errors():
            self._checkpoint()
        with self.write(patience) as connection:  # Restarts a fully applied log, and so may truncate it.
            connection.execute("PRAGMA journal_size_limit = 0")
            _raise_schema_number(connection)
        with self._lock:
            self._writer.execute("PRAGMA journal_size_limit = -1")
        index = self._witness.index()
        return index is not None and not index.applied and self._witness.log_size() == index.log_bytes

    def close(self) -> None:
        """Close every idle connection; the last process to close folds the log into the file, if both are sound."""
        with self._lock, suppress(sqlite3.Error, OSError):
            self._is_closed = True
            self._witness.lengthen_index()
            may_fold = self._may_fold()
            while not self._idle_readers.empty():
                with suppress(queue.Empty):
                    _close(self._idle_readers.get_nowait(), may_fold=may_fold)
            _close(self._writer, may_fold=may_fold)
            if not self._borrowed:  # Else their locks would fall with the witness's descriptors.
                self._witness.end()

    def _open(self) -> sqlite3.Connection:
        """Return the writing connection.

        It accepts the files as they are, unless a process that has them open lost one. The log and the index may be
        replaced meanwhile, by the last process that closes them or by hand; then SQLite has opened other files than the
        witness watches, and both begin again.
        """
        for _ in range(OPEN_ATTEMPTS):
            side_files = self._witness.side_files()
            try:
                self._writer = self._connect()
                self._writer.execute("PRAGMA busy_timeout = 0")  # It waits by itself, see `_patiently`.
                self._writer.execute("SELECT count(*) FROM sqlite_schema").fetchone()  # Opens the log and its index.
                self._witness.begin()
                self._require_sound(is_locked=True)
            except FileNotFoundError:
                pass
            except (sqlite3.Error, StoreUnavailable) as error:
                self._give_up_opening(error)
                raise
            if self._witness.is_watching and self._witness.holds(side_files):
                return self._writer
            _close(self._writer, may_fold=False)
            self._witness.end()
            time.sleep(OPEN_PAUSE_SECONDS)
        raise StoreBusy("Other processes replace the memory's files; call again in a few seconds.")

    def _give_up_opening(self, error: Exception) -> None:
        """Leave the files as they are. Raises StoreUnavailable where it is known which of them was lost."""
        if isinstance(error, sqlite3.Error) and is_broken(error):
            with suppress(OSError):
                self._witness.begin()
        fault = self._fault()
        if hasattr(self, "_writer"):
            _close(self._writer, may_fold=False)
        self._witness.end()
        self._refuse(fault)

    def _wait_for_disk(self, is_durable: bool) -> None:
        if is_durable != self._is_durable:
            self._writer.execute(f"PRAGMA synchronous = {'FULL' if is_durable else 'NORMAL'}")
            self._is_durable = is_durable

    def _begun(self) -> sqlite3.Connection:
        """Return the writing connection, whose transaction has just begun and may continue."""
        self._check_schema()
        self._newest_at_begin = self._check_sequence()
        return self._writer

    def _commit(self) -> bool:
        """Commit into files that are sound; return True where a checkpoint is due."""
        newest = self._check_sequence()
        self._refuse(self._fault())
        if is_due := self._is_checkpoint_due():
            _raise_schema_number(self._writer)
        before, is_change = self._witness.index_bytes(), newest != self._newest_at_begin
        self._writer.execute("COMMIT")
        if is_change and self._witness.index_bytes() == before:  # SQLite has another index open than the one watched.
            self._refuse("index")
        self._newest = newest
        return is_due

    def _require_touchable(self) -> None:
        """Raise StoreUnavailable where SQLite must not even look: touching the end of a cut index is fatal."""
        self._refuse(self._witness.index_fault())
        self._refuse_noted()

    def _require_sound(self, *, is_locked: bool = False) -> None:
        """Raise StoreUnavailable where the files are not those that this process knows.

        Questions that need the write lock wait for the next call where the lock is not free soon. With `is_locked` the
        caller holds the lock on the writing connection.
        """
        for _ in range(SETTLE_ATTEMPTS):
            with suppress(Unsettled):
                self._refuse(self._witness.fault(is_settled=False))
                return
        if not is_locked and not self._lock.acquire(timeout=SETTLE_PATIENCE_SECONDS):
            return
        try:
            self._refuse(self._settled_fault())
        finally:
            if not is_locked:
                self._lock.release()

    def _settled_fault(self) -> Fault | None:
        """Return the fault seen under the write lock; None too where the lock is not free soon."""
        try:
            with self._write_lock():
                return self._fault()
        except sqlite3.Error as error:  # A file in which SQLite finds no page 1 is as settled as can be.
            return self._fault() if is_broken(error) else None

    @contextmanager
    def _write_lock(self) -> Generator[None]:
        """Keep every other process from writing, and write nothing."""
        _patiently(self._writer, "BEGIN IMMEDIATE", time.monotonic() + SETTLE_PATIENCE_SECONDS)
        try:
            yield
        finally:
            self._writer.execute("ROLLBACK")

    def _fault(self) -> Fault | None:
        return self._witness.fault(is_settled=True)

    def _refuse(self, fault: Fault | None) -> None:
        if fault == "overwritten":
            with suppress(OSError):
                note_of(self.path).touch(mode=0o600)
        if fault is not None:
            raise StoreUnavailable(FAULTS[fault].format(path=self.path))

    def _refuse_noted(self) -> None:
        if os.access(self._note, os.F_OK):  # A fifteenth of the time of `Path.exists`, and part of every call.
            refuse_overwritten(self.path)

    def _is_checkpoint_due(self) -> bool:
        index = self._witness.index()
        return index is not None and index.frames - index.applied >= CHECKPOINT_FRAMES

    def _checkpoint_quietly(self) -> None:
        """Try a checkpoint: written data is safe without it, and the next write tries again."""
        try:
            self._checkpoint()
        except sqlite3.Error as error:
            if code_of(error) != sqlite3.SQLITE_BUSY:
                _log.warning("could not bring the log into the database: %s", error)

    def _checkpoint(self) -> None:
        """Move the log into the database, if both are sound.

        The write lock excludes every other writer and checkpoint: the race of SQLite up to 3.51.2, between a restarted
        log and a checkpoint, cannot happen.
        """
        with self._write_lock(), self._reader() as reader:
            self._refuse(self._fault())
            try:
                reader.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchone()
            finally:
                self._witness.note_checkpoint()

    def _may_fold(self) -> bool:
        try:
            fault = self._settled_fault()
        except (sqlite3.Error, OSError):
            return False
        return fault is None or (fault in ("log", "index") and self._witness.can_rescue())

    @contextmanager
    def _explained_errors(self, *, is_locked: bool = False) -> Generator[None]:
        """Name the lost file that causes an error of SQLite."""
        try:
            yield
        except sqlite3.Error:
            self._require_sound(is_locked=is_locked)
            raise

    @contextmanager
    def _translated_errors(self) -> Generator[None]:
        """Remember damage once found: later writes would be lost with the file."""
        try:
            with translated_errors(self.path):
                yield
        except Damaged as error:
            self._damage = str(error)
            raise

    @contextmanager
    def _reader(self) -> Generator[sqlite3.Connection]:
        connection = self._borrow()
        try:
            yield connection
        finally:
            self._return(connection)

    def _borrow(self) -> sqlite3.Connection:
        try:
            connection = self._idle_readers.get_nowait()
        except queue.Empty:
            self._refuse(self._witness.path_fault())  # SQLite would make an empty one in its place.
            connection = self._connect()
            connection.execute("PRAGMA query_only = ON")
        with self._borrowed_lock:
            self._borrowed += 1
        return connection

    def _return(self, connection: sqlite3.Connection) -> None:
        """Return a connection to the pool; an open transaction ends."""
        try:
            if connection.in_transaction:
                connection.execute("ROLLBACK")
            if self._is_closed:
                _close(connection, may_fold=False)
            else:
                self._idle_readers.put_nowait(connection)
        except (queue.Full, sqlite3.Error):
            connection.close()
        finally:
            with self._borrowed_lock:
                self._borrowed -= 1

    def _connect(self) -> sqlite3.Connection:
        connection = sqlite3.connect(self.path, isolation_level=None, check_same_thread=False, timeout=0)
        connection.row_factory = sqlite3.Row
        connection.execute(f"PRAGMA busy_timeout = {READ_PATIENCE_MS}")
        connection.execute("PRAGMA wal_autocheckpoint = 0")
        if connection.execute("PRAGMA journal_mode").fetchone()[0] != "wal":
            # Of processes that create a store together all but one find it locked here, whatever the timeout.
            _patiently(connection, "PRAGMA journal_mode = WAL", time.monotonic() + READ_PATIENCE_MS / 1000)
        connection.execute("PRAGMA synchronous = FULL")
        connection.execute(
            "PRAGMA fullfsync = ON"
        )  # On macOS a sync leaves it in the drive's cache; elsewhere nothing.
        connection.execute("PRAGMA foreign_keys = ON")
        connection.execute("PRAGMA secure_delete = ON")
        connection.execute("PRAGMA temp_store = MEMORY")
        connection.execute(f"PRAGMA cache_size = -{CACHE_KIB}")
        return connection

    def _check_schema(self) -> int:
        version: int = self._writer.execute("PRAGMA user_version").fetchone()[0]
        if version > self.schema_version:
            raise SchemaTooNew(
                f"This store was written by a newer mcp-memory (its schema is {version}, this one knows"
                f" {self.schema_version}); update mcp-memory and restart. Nothing was changed."
            )
        return version

    def _check_sequence(self) -> int | None:
        """Return the number of the newest change. Raises StoreUnavailable where it is behind an earlier one."""
        if self._newest is None:
            return None  # Not even migrated.
        newest: int = self._writer.execute("SELECT value FROM sequence").fetchone()[0]
        self._refuse("overwritten" if newest < self._newest else None)
        return newest

    def _refuse_draft(self) -> None:
        """Refuse drafts of the first schema, which have its number, but not its tables."""
        if not self._writer.execute("SELECT 1 FROM sqlite_schema WHERE name = 'terms'").fetchone():
            raise StoreUnavailable(
                f"{self.path} was written by mcp-memory as it was before its first release, which this one cannot read;"
                " it was left as it is. Move it away, or set MCP_MEMORY_DATA_DIR to a new folder, to begin anew."
            )

    def _migrate(self) -> None:
        version = self._check_schema()
        if version:
            self._refuse_draft()
        if version == self.schema_version:
            return
        with self.write():
            for number, script in enumerate(migrations()[self._check_schema() :], start=self._check_schema() + 1):
                for sql in _statements(script):
                    self._writer.execute(sql)
                self._writer.execute(f"PRAGMA user_version = {number}")
            self._writer.execute(f"PRAGMA application_id = {APPLICATION_ID}")


def _close(connection: sqlite3.Connection, *, may_fold: bool) -> None:
    """Close; where it may not fold the log, an interrupt stops the checkpoint of the last connection to close."""
    if not may_fold:
        connection.interrupt()
    connection.close()


def _raise_schema_number(connection: sqlite3.Connection) -> None:
    """Mark the database's first page, so that no two states of the file after a checkpoint share a header."""
    number: int = connection.execute("PRAGMA schema_version").fetchone()[0]
    connection.execute(f"PRAGMA schema_version = {number + 1}")


def _patiently(
    connection: sqlite3.Connection, sql: str, deadline: float, check: Callable[[], None] = lambda: None
) -> None:
    """Execute with our own jittered retry: SQLite's fixed delays let waiting processes starve each other.

    Each attempt begins with the check, which raises where SQLite must not be called any more.
    """
    pause = 0.001
    while True:
        check()
        try:
            connection.execute(sql)
            return
        except sqlite3.OperationalError as error:
            if (error.sqlite_errorcode & 0xFF) != sqlite3.SQLITE_BUSY or time.monotonic() > deadline:
                raise
        time.sleep(pause * random.uniform(0.5, 1.5))
        pause = min(pause * 1.5, 0.05)


def _statements(script: str) -> Generator[str]:
    """Split a script at each complete statement; executescript would commit our transaction."""
    pending = ""
    for line in script.splitlines(keepends=True):
        pending += line
        if sqlite3.complete_statement(pending):
            yield pending
            pending = ""
