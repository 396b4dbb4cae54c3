"""The database file: finds its place, opens, migrates and writes it. Knows no record."""

import logging
import queue
import sqlite3
import threading
import time
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, closing, contextmanager, nullcontext, suppress
from pathlib import Path

from mcp_memory.errors import StoreBusy, StoreUnavailable
from mcp_memory.ports.changes import Columns
from mcp_memory.ports.tracing import traced
from mcp_memory.stores.records import schema_sqlite
from mcp_memory.stores.records.data_folder import FILE_NAME, create_private, refuse_network_file_system
from mcp_memory.stores.records.database import (
    WRITE_PATIENCE_SECONDS,
    Database,
    DatabaseSnapshot,
    Parameters,
    Query,
    newest_change,
)
from mcp_memory.stores.records.file_errors import (
    Damaged,
    is_broken,
    is_busy,
    refuse,
    refuse_overwritten,
    translated_errors,
    wait_out,
)
from mcp_memory.stores.records.file_integrity import Fault, Unsettled, Witness
from mcp_memory.stores.records.migration_copies import copy_before_migration, drop_other_copies
from mcp_memory.stores.records.sql_files import statement

READ_PATIENCE_MS = 10_000
IDLE_READERS = 8  # connections kept in the pool
CHECKPOINT_FRAMES = 1_000
"""Pages in the log, 4 MB, from which a write moves them into the database; SQLite's own default."""
SETTLE_ATTEMPTS, SETTLE_PATIENCE_SECONDS = 3, 0.25
OPEN_ATTEMPTS, OPEN_PAUSE_SECONDS = 20, 0.02
# With fullfsync a sync on macOS reaches the disk, not only the drive's cache. The cache's size is in KiB.
_PRAGMAS = "synchronous=FULL fullfsync=ON foreign_keys=ON secure_delete=ON temp_store=MEMORY cache_size=-4096".split()
_CLOSED = "The process closed the memory, as it ends; call again."
_log = logging.getLogger(__name__)


class SqliteConnection(sqlite3.Connection):
    """Implements `Write`."""

    mark = ""
    before = change = 0
    """The newest change when the write began, and now."""

    @property
    def first_change(self) -> int:
        return self.before + 1

    def next_change(self) -> int:
        self.change += 1
        return self.change

    def skip_changes(self, newest: int) -> None:
        self.change = max(self.change, newest)

    def defer(self, name: str, parameters: Parameters = (), /) -> None:
        with traced("sql", name):
            self.execute(statement(name), parameters)

    def read_ahead(self, reads: Iterable[Callable[[], object]], /) -> None:
        """Nothing: each read is near."""

    def adding(self) -> AbstractContextManager[None]:
        return nullcontext()

    def forget_ahead(self) -> None:
        """Nothing was read ahead."""

    def hold(self, partition: str) -> bool:
        return False  # The write lock is that of the whole file.

    def holds(self, partition: str) -> bool:
        return True

    def hold_grounds(self) -> bool:
        return False

    def run(self, name: str, parameters: Parameters = (), /, **parts: str) -> sqlite3.Cursor:
        with traced("sql", name):  # It ends with the first row, where PostgreSQL's ends with the last.
            return self.execute(statement(name, **parts), parameters)

    def run_each(self, name: str, rows: Iterable[Parameters], /) -> None:
        with traced("sql", name):
            self.executemany(statement(name), rows)

    def count(self, name: str, parameters: Parameters = (), /) -> int:
        sql = f"SELECT count(*) FROM ({statement(name).rstrip(';')})"  # noqa: S608
        with traced("sql", name):
            return self.execute(sql, parameters).fetchone()[0]

    def stream(self, name: str, parameters: Parameters = (), /) -> Iterator[sqlite3.Row]:
        # A cursor left half-read would hold its snapshot open.
        with closing(self.run(name, parameters)) as rows:
            yield from rows

    def columns(self, name: str, parameters: Mapping[str, object], most: int, /, **parts: str) -> Iterator[Columns]:
        with closing(self.cursor()) as cursor:
            cursor.row_factory = None  # Plain tuples: there may be a hundred thousand.
            cursor.execute(statement(name, **parts), parameters)
            names = [column[0] for column in cursor.description]
            while rows := cursor.fetchmany(most):
                yield dict(zip(names, zip(*rows, strict=True), strict=True))


class SqliteDatabase(Database):
    """One SQLite file, shared by threads and processes.

    A read borrows a connection from a pool, which keeps a few and opens more for simultaneous reads; the process writes
    over one connection, guarded by a lock. WAL with synchronous=FULL: a commit is on disk before it is acknowledged,
    and needs no repair after a kill.

    A witness compares the files before a write is acknowledged and before a read answers. SQLite's own checkpoints are
    off: the log is moved into the database under the write lock, if both are sound (docs/decisions/0029).
    """

    def __init__(self, folder: Path) -> None:
        """Open, creating and migrating where needed. Raises StoreUnavailable with the reason where that is unsafe."""
        self.path = folder / FILE_NAME
        self._lock = threading.RLock()
        self._damage: str | None = None
        self._newest: int | None = None
        self._idle_readers: queue.LifoQueue[SqliteConnection] = queue.LifoQueue(IDLE_READERS)
        self._borrowed: set[SqliteConnection] = set()
        self._is_closed = False
        self._witness = Witness(self.path)
        refuse_network_file_system(folder)
        with translated_errors(self.path):
            create_private(folder, self.path)
            self._open()
            try:
                if schema_sqlite.needs_migration(self._writer, self.path):
                    self._migrate()
                self._newest = newest_change(self._writer)
            except BaseException:
                self.close()
                raise

    @property
    def schema_version(self) -> int:
        return len(schema_sqlite.migrations())

    @property
    def location(self) -> str:
        return str(self.path)

    @property
    def integrity_error(self) -> type[Exception]:
        return sqlite3.IntegrityError

    def size(self) -> int:
        return sum(path.stat().st_size for path in self.path.parent.glob(f"{FILE_NAME}*"))

    @contextmanager
    def read(self) -> Generator[SqliteConnection]:
        """Borrow a connection in a read transaction, this caller's alone until it is returned.

        Raises StoreUnavailable where a newer version has migrated the database; at the end too, where the files were
        not sound: discard what you read.
        """
        snapshot = self.pinned()
        with self.guarded():
            if snapshot is None:
                connection = self._begin_read()
                try:
                    yield connection
                finally:
                    self.release(connection)
                self.require_sound()
            else:  # Its end looks at the files.
                with snapshot.turn:
                    yield snapshot.connection

    def pin(self, *foreseen: Query) -> DatabaseSnapshot:
        """Return the database as it is now, readable until you close it. Raises StoreUnavailable."""
        with self.guarded():
            connection = self._begin_read()
            try:
                return DatabaseSnapshot(self, connection, newest_change(connection))
            except BaseException:
                self.release(connection)
                raise

    @contextmanager
    def write(
        self,
        patience: float = WRITE_PATIENCE_SECONDS,
        *,
        durable: bool = True,
        partition: str | None = None,
        foreseen: Sequence[Query] = (),
    ) -> Generator[SqliteConnection]:
        """Begin a write transaction: commits at exit, rolls back on any error.

        A commit that is not `durable` survives the process but not a power cut, until the next durable one: it does not
        wait for the disk. The schema is checked inside, as a newer version may have migrated it meanwhile; so are the
        files, and once more after the commit: what is acknowledged was in sound files before and after.
        """
        assert self.pinned() is None, "Nothing is written inside a snapshot, whose end others wait for."
        deadline = time.monotonic() + patience
        if not self._lock.acquire(timeout=max(patience, 0.001)):
            raise StoreBusy("The memory store is busy in this process; call again.")
        try:
            with self.guarded():
                if self._damage is not None:
                    raise Damaged(self._damage)
                if self._writer.in_transaction:
                    raise StoreBusy("The memory store is busy in this thread; end its write first.")
                self._writer.execute(f"PRAGMA synchronous = {'FULL' if durable else 'NORMAL'}")
                wait_out(self._begin, deadline)
                try:
                    schema_sqlite.check_schema(self._writer)
                    newest = self._check_sequence()
                    self._writer.before = self._writer.change = newest or 0
                    yield self._writer
                    is_due = self._commit(newest)
                except BaseException:
                    if self._writer.in_transaction:
                        self._writer.execute("ROLLBACK")
                    raise
                self.require_sound()
                if is_due:
                    try:
                        self._checkpoint()
                    except sqlite3.Error as error:  # What is written is safe without it; the next write tries again.
                        if not is_busy(error):
                            _log.warning("could not bring the log into the database: %s", error)
        finally:
            self._lock.release()

    @contextmanager
    def outside_transaction(self) -> Generator[SqliteConnection]:
        """Yield the writing connection for statements that cannot run in a transaction, such as VACUUM."""
        with self._lock, self.guarded():
            self.require_sound()
            yield self._writer
            self.require_sound()

    def empty_log(self, patience: float = WRITE_PATIENCE_SECONDS) -> bool:
        """Move the whole log into the database and truncate it; return False where readers still need some of it."""
        with self._lock, self.guarded():
            self._checkpoint()
        with self.write(patience) as connection:  # Restarts a fully applied log, and so may truncate it.
            connection.execute("PRAGMA journal_size_limit = 0")
            schema_sqlite.raise_schema_number(connection)
        with self._lock:
            self._writer.execute("PRAGMA journal_size_limit = -1")
        index = self._witness.index()
        return index is not None and not index.applied and self._witness.log_size() == index.log_bytes

    def close(self) -> None:
        """Close every idle connection; the last process to close folds the log into the file, if both are sound."""
        with self._lock, suppress(sqlite3.Error, OSError):
            self._is_closed = True
            self._witness.lengthen_index()
            fault: Fault | None = "moved"
            with suppress(sqlite3.Error, OSError):
                fault = self._settled_fault()
            may_fold = fault is None or (fault in ("log", "index") and self._witness.can_rescue())
            with suppress(queue.Empty):
                while True:
                    _close(self._idle_readers.get_nowait(), may_fold=may_fold)
            _close(self._writer, may_fold=may_fold)
            if not self._borrowed:  # Else their locks would fall with the witness's descriptors.
                self._witness.end()

    def _migrate(self) -> None:
        """Copy the file beside itself, bring its schema up to date, and drop older copies.

        The write lock keeps others from all three: a newer version may migrate in between, and keep a copy of its own.
        """
        with self.write() as connection:
            before = schema_sqlite.check_schema(connection)
            if is_old := 0 < before < self.schema_version:  # Neither new, nor migrated by another process just now.
                with closing(self._connect()) as reader:
                    copy_before_migration(reader, self.path, before)
            counted = schema_sqlite.migrate(connection)
        if is_old:
            if counted:
                _log.warning("brought the memory up to date: %s", counted)
            with self.write(), suppress(OSError):
                drop_other_copies(self.path, before)

    def _open(self) -> None:
        """Open the writing connection, unless a process that has the files open lost one.

        Both begin again where SQLite opened others than the witness watches: the last process to close replaces them.
        """
        for _ in range(OPEN_ATTEMPTS):
            side_files = self._witness.side_files()
            try:
                self._writer = self._connect()
                self._writer.execute("PRAGMA busy_timeout = 0")  # `wait_out` waits instead.
                wait_out(self._open_log, time.monotonic() + READ_PATIENCE_MS / 1000)
                self._witness.begin()
                self.require_sound()
            except FileNotFoundError:
                pass
            except (sqlite3.Error, StoreUnavailable) as error:
                if isinstance(error, sqlite3.Error) and is_broken(error):
                    with suppress(OSError):
                        self._witness.begin()
                fault = self._witness.fault()
                self._abandon()
                refuse(fault, self.path)  # Names the lost file where that is known.
                raise
            if self._witness.holds(side_files):
                return
            self._abandon()
            time.sleep(OPEN_PAUSE_SECONDS)
        raise StoreBusy("Other processes replace the memory's files; call again in a few seconds.")

    def _open_log(self) -> None:
        """Make SQLite open the log and its index, which another process may just recover, or delete at its end."""
        self._writer.execute("SELECT count(*) FROM sqlite_schema").fetchone()

    def _abandon(self) -> None:
        """Close the writing connection, and leave the files as they are."""
        if hasattr(self, "_writer"):
            _close(self._writer, may_fold=False)
        self._witness.end()

    def _commit(self, newest_before: int | None) -> bool:
        """Commit into files that are sound; return True where a checkpoint is due."""
        if self._writer.change != self._writer.before:
            self._writer.execute("UPDATE sequence SET value = ?", (self._writer.change,))
        newest = self._check_sequence()
        refuse(self._witness.fault(), self.path)
        index = self._witness.index()
        if is_due := index is not None and index.frames - index.applied >= CHECKPOINT_FRAMES:
            schema_sqlite.raise_schema_number(self._writer)
        before = self._witness.index_bytes()
        self._writer.execute("COMMIT")
        # SQLite has another index open than the one watched, where that did not change.
        is_elsewhere = newest != newest_before and self._witness.index_bytes() == before
        refuse("index" if is_elsewhere else None, self.path)
        self._newest = newest
        return is_due

    def _require_touchable(self) -> None:
        """Raise StoreUnavailable where SQLite must not even look: touching the end of a cut index is fatal."""
        refuse(self._witness.index_fault(), self.path)
        refuse_overwritten(self.path)

    def _begin(self) -> None:
        self._require_touchable()
        self._writer.execute("BEGIN IMMEDIATE")

    def verify(self) -> None:
        with self.guarded():
            self.require_sound()

    def require_sound(self) -> None:
        """Raise StoreUnavailable where the files are not those that this process knows, as far as that can be told."""
        for _ in range(SETTLE_ATTEMPTS):
            with suppress(Unsettled):
                refuse(self._witness.fault(is_settled=False), self.path)
                return
        if self._lock.acquire(timeout=SETTLE_PATIENCE_SECONDS):
            try:
                refuse(self._settled_fault(), self.path)
            finally:
                self._lock.release()

    def _settled_fault(self) -> Fault | None:
        """Return the fault seen under the write lock; None too where the lock is not free soon."""
        try:
            with self._write_lock():
                return self._witness.fault()
        except sqlite3.Error as error:  # A file in which SQLite finds no page 1 is as settled as can be.
            return self._witness.fault() if is_broken(error) else None

    @contextmanager
    def _write_lock(self) -> Generator[None]:
        """Keep every other process from writing, and write nothing."""
        wait_out(lambda: self._writer.execute("BEGIN IMMEDIATE"), time.monotonic() + SETTLE_PATIENCE_SECONDS)
        try:
            yield
        finally:
            self._writer.execute("ROLLBACK")

    def _checkpoint(self) -> None:
        """Move the log into the database, if both are sound.

        The write lock excludes the race of SQLite up to 3.51.2, between a restarted log and a checkpoint.
        """
        with self._write_lock():
            refuse(self._witness.fault(), self.path)
            reader = self._borrow()
            try:
                reader.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchone()
            finally:
                self.release(reader)
                self._witness.note_checkpoint()

    @contextmanager
    def guarded(self) -> Generator[None]:
        """Translate SQLite's errors, name the lost file behind one, and remember damage: it would take later writes.

        Nothing is opened any more once the database is closed: a thread of upkeep may be late.
        """
        if self._is_closed:
            raise StoreUnavailable(_CLOSED)
        try:
            with translated_errors(self.path):
                self._require_touchable()
                try:
                    yield
                except sqlite3.Error as error:
                    if self._is_closed:
                        raise StoreUnavailable(_CLOSED) from error
                    self.require_sound()
                    raise
        except Damaged as error:
            self._damage = str(error)
            raise

    def _borrow(self) -> SqliteConnection:
        try:
            connection = self._idle_readers.get_nowait()
        except queue.Empty:
            refuse(self._witness.path_fault(), self.path)  # SQLite would make an empty one in its place.
            connection = self._connect()
            connection.execute("PRAGMA query_only = ON")
        self._borrowed.add(connection)
        return connection

    def _begin_read(self) -> SqliteConnection:
        """Borrow a connection in a read transaction, whose schema this version knows."""
        connection = self._borrow()
        try:
            connection.execute("BEGIN")
            schema_sqlite.check_schema(connection)
        except BaseException:
            self.release(connection)
            raise
        return connection

    def release(self, connection: SqliteConnection, *, at_once: bool = True) -> None:
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
            self._borrowed.discard(connection)

    def _connect(self) -> SqliteConnection:
        connection = sqlite3.connect(
            self.path, isolation_level=None, check_same_thread=False, timeout=0, factory=SqliteConnection
        )
        connection.row_factory = sqlite3.Row
        connection.execute(f"PRAGMA busy_timeout = {READ_PATIENCE_MS}")
        connection.execute("PRAGMA wal_autocheckpoint = 0")
        if connection.execute("PRAGMA journal_mode").fetchone()[0] != "wal":
            # Of processes that create a store together all but one find it locked here, whatever the timeout.
            deadline = time.monotonic() + READ_PATIENCE_MS / 1000
            wait_out(lambda: connection.execute("PRAGMA journal_mode = WAL"), deadline)
        for pragma in _PRAGMAS:
            connection.execute(f"PRAGMA {pragma}")
        return connection

    def _check_sequence(self) -> int | None:
        """Return the number of the newest change. Raises StoreUnavailable where it is behind an earlier one."""
        if self._newest is None:
            return None  # Not even migrated.
        newest = newest_change(self._writer)
        refuse("overwritten" if newest < self._newest else None, self.path)
        return newest


def _close(connection: SqliteConnection, *, may_fold: bool) -> None:
    """Close; where it may not fold the log, an interrupt stops the checkpoint of the last connection to close."""
    if not may_fold:
        connection.interrupt()
    connection.close()
