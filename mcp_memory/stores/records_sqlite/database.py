"""The database file: where it may lie, how it is opened, migrated and written. Knows no record."""

import logging
import os
import queue
import random
import re
import sqlite3
import sys
import threading
import time
from collections.abc import Generator, Iterable
from contextlib import contextmanager, suppress
from pathlib import Path, PurePath
from typing import Protocol

from mcp_memory.errors import McpMemoryError, SchemaTooNew, StoreBusy, StoreUnavailable
from mcp_memory.stores.file_identity import file_identity
from mcp_memory.stores.records_sqlite.statements import migrations

FILE_NAME = "memory.db"
WRITE_PATIENCE_SECONDS = 30.0
READ_PATIENCE_MS = 10_000
CACHE_KIB = 4_096
IDLE_READERS = 8
APPLICATION_ID = 0x6D636D6D
_NETWORK_FILE_SYSTEMS = frozenset(
    "afpfs afs beegfs ceph cifs davfs fuse.davfs2 fuse.glusterfs fuse.rclone fuse.s3fs fuse.sshfs glusterfs lustre"
    " ncpfs nfs nfs4 smb2 smb3 smbfs webdav remote".split()
)
_UNC = re.compile(r"\\\\(?![?.]\\)|\\\\\?\\UNC\\", re.IGNORECASE)
"""`\\\\server\\share`, also in its long form; not the long form of a local path."""
_log = logging.getLogger(__name__)


class _Damaged(StoreUnavailable):
    """The file holds what SQLite cannot have written."""


class Database:
    """One SQLite file, shared by threads and processes.

    A read borrows a connection from a pool, which keeps a few and opens more while more read at once; the process
    writes over one connection, guarded by a lock. WAL with synchronous=FULL: a commit is on disk before it is
    acknowledged, and needs no repair after a kill.
    """

    def __init__(self, folder: Path) -> None:
        """Open, creating and migrating where needed.

        Raises:
            StoreUnavailable: the folder is on a network file system, read-only or full, or the file is damaged, of a
                newer schema or of a draft of the first.
        """
        self.path = folder / FILE_NAME
        self._lock = threading.Lock()
        self._damage: str | None = None
        self._idle_readers: queue.LifoQueue[sqlite3.Connection] = queue.LifoQueue(IDLE_READERS)
        refuse_network_file_system(folder)
        with translated_errors(self.path):
            _create_private(folder, self.path)
            self._writer = self._connect()
            self._identity = file_identity(self.path)
            self._migrate()

    @property
    def schema_version(self) -> int:
        return len(migrations())

    @contextmanager
    def read(self) -> Generator[sqlite3.Connection]:
        """A connection for reading, this caller's alone until it is given back."""
        with self._translated_errors():
            try:
                connection = self._idle_readers.get_nowait()
            except queue.Empty:
                self._check_identity()  # SQLite would make an empty one in its place.
                connection = self._connect()
                connection.execute("PRAGMA query_only = ON")
            try:
                yield connection
            finally:
                self._give_back(connection)

    @contextmanager
    def write(self, patience: float = WRITE_PATIENCE_SECONDS, *, durable: bool = True) -> Generator[sqlite3.Connection]:
        """A write transaction: commits at exit, rolls back on any error.

        A commit that is not `durable` survives the process but not a power cut: it skips waiting for the disk, which
        suits telemetry. The next durable one brings it to the disk as well.
        The schema version is checked inside the transaction, so that a process of an older version, still running
        while a newer one migrates, never writes what it does not know.
        """
        deadline = time.monotonic() + patience
        if not self._lock.acquire(timeout=max(patience, 0.001)):
            raise StoreBusy("The memory store is busy in this process; call again.")
        try:
            with self._translated_errors():
                if self._damage is not None:
                    raise _Damaged(self._damage)
                self._writer.execute("PRAGMA busy_timeout = 0")
                self._writer.execute(f"PRAGMA synchronous = {'FULL' if durable else 'NORMAL'}")
                _patiently(self._writer, "BEGIN IMMEDIATE", deadline)
                try:
                    self._check_schema()
                    self._check_identity()
                    yield self._writer
                    self._writer.execute("COMMIT")
                except BaseException:
                    if self._writer.in_transaction:
                        self._writer.execute("ROLLBACK")
                    raise
        finally:
            self._lock.release()

    @contextmanager
    def outside_transaction(self) -> Generator[sqlite3.Connection]:
        """The writing connection for statements that cannot run in a transaction, such as a checkpoint."""
        with self._lock, translated_errors(self.path):
            yield self._writer

    def close(self) -> None:
        """Close every idle connection; the last process to close folds the log into the file."""
        with self._lock, suppress(sqlite3.Error):
            self._writer.close()
        while not self._idle_readers.empty():
            with suppress(sqlite3.Error, queue.Empty):
                self._idle_readers.get_nowait().close()

    @contextmanager
    def _translated_errors(self) -> Generator[None]:
        """Damage, once met, is kept in mind: what would still be written would be lost with the file."""
        try:
            with translated_errors(self.path):
                yield
        except _Damaged as error:
            self._damage = str(error)
            raise

    def _give_back(self, connection: sqlite3.Connection) -> None:
        try:
            self._idle_readers.put_nowait(connection)
        except queue.Full:
            connection.close()

    def _connect(self) -> sqlite3.Connection:
        connection = sqlite3.connect(self.path, isolation_level=None, check_same_thread=False, timeout=0)
        connection.row_factory = sqlite3.Row
        connection.execute(f"PRAGMA busy_timeout = {READ_PATIENCE_MS}")
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

    def _check_identity(self) -> None:
        """A file that was moved or replaced takes our writes with it: better none is acknowledged. Raises."""
        if file_identity(self.path) != self._identity:
            raise StoreUnavailable(f"{self.path} was moved or replaced while in use; restart the server.")

    def _refuse_draft(self) -> None:
        """Drafts of the first schema have its number, but not its tables."""
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


@contextmanager
def translated_errors(path: Path) -> Generator[None]:
    """Turn SQLite's and the system's errors into ours, each with its remedy."""
    try:
        yield
    except sqlite3.Error as error:
        raise _translate(error, path) from error
    except PermissionError as error:
        raise StoreUnavailable(f"{path.parent} may not be written; {_CHOOSE_FOLDER}") from error
    except OSError as error:
        raise StoreUnavailable(f"{path.parent}: {error.strerror}; {_CHOOSE_FOLDER}") from error


_CHOOSE_FOLDER = "make it writable or set MCP_MEMORY_DATA_DIR to a local folder that is."


def _translate(error: sqlite3.Error, path: Path) -> McpMemoryError:
    code = getattr(error, "sqlite_errorcode", 0) & 0xFF
    if code in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
        return StoreBusy("The memory store is busy with other processes; call again in a few seconds.")
    if code == sqlite3.SQLITE_FULL:
        return StoreUnavailable(f"The disk that holds {path} is full; free space and call again.")
    if code in (sqlite3.SQLITE_READONLY, sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_PERM):
        return StoreUnavailable(f"{path} may not be written; {_CHOOSE_FOLDER}")
    if code in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB):
        return _Damaged(
            f"{path} is damaged and was left as it is; stop the servers and run `mcp-memory restore` with the newest"
            " backup, which keeps the damaged file beside it (`sqlite3 … .recover` saves what is readable)."
        )
    if code == sqlite3.SQLITE_IOERR:
        return StoreUnavailable(
            f"{path} cannot be read or written (disk error or full); check the disk and call again."
        )
    raise error


def _patiently(connection: sqlite3.Connection, sql: str, deadline: float) -> None:
    """Execute with our own jittered retry: SQLite's fixed delays let waiting processes starve each other."""
    pause = 0.001
    while True:
        try:
            connection.execute(sql)
            return
        except sqlite3.OperationalError as error:
            if (error.sqlite_errorcode & 0xFF) != sqlite3.SQLITE_BUSY or time.monotonic() > deadline:
                raise
        time.sleep(pause * random.uniform(0.5, 1.5))
        pause = min(pause * 1.5, 0.05)


def _statements(script: str) -> Generator[str]:
    """Split a script where SQLite sees a complete statement; executescript would commit our transaction."""
    pending = ""
    for line in script.splitlines(keepends=True):
        pending += line
        if sqlite3.complete_statement(pending):
            yield pending
            pending = ""


def _refuse_lost_file(path: Path) -> None:
    """SQLite throws a log away that has no database: all that is left, where the file was emptied or deleted."""
    log = path.with_name(f"{path.name}-wal")
    with suppress(FileNotFoundError):
        if log.stat().st_size and not (path.exists() and path.stat().st_size):
            raise StoreUnavailable(
                f"{path} is empty or gone, but its log {log.name} is not; nothing was changed. Move the log away, then"
                " run `mcp-memory restore` with the newest backup, or begin anew."
            )


def _create_private(folder: Path, path: Path) -> None:
    """Make folder (0700) and file (0600); SQLite gives its log and index files the mode of the database."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    _refuse_lost_file(path)
    if sys.platform == "win32":
        return  # Windows profiles are private by their own access lists.
    is_ours = all(entry.name.startswith(FILE_NAME) for entry in folder.iterdir())
    if is_ours and folder.stat().st_mode & 0o077 and folder.stat().st_uid == os.geteuid():
        folder.chmod(0o700)
    if not path.exists():
        os.close(os.open(path, os.O_CREAT | os.O_RDWR, 0o600))
    elif path.stat().st_mode & 0o077:
        with suppress(PermissionError):
            path.chmod(0o600)


def refuse_network_file_system(folder: Path) -> None:
    """Raise StoreUnavailable where file locks and shared memory cannot be trusted."""
    import psutil  # Not needed before the first store is opened.

    existing = next((p for p in (folder, *folder.parents) if p.exists()), folder).resolve()
    try:
        mounts = psutil.disk_partitions(all=True)
    except OSError:
        return
    if kind := network_file_system(existing, mounts):
        raise StoreUnavailable(
            f"{folder} is on a network file system ({kind}), where SQLite's locks can lose writes;"
            " set MCP_MEMORY_DATA_DIR to a folder on a local disk."
        )


class Mount(Protocol):
    """One mounted file system, as psutil lists it."""

    @property
    def mountpoint(self) -> str: ...
    @property
    def fstype(self) -> str: ...
    @property
    def opts(self) -> str: ...


def network_file_system(path: PurePath, mounts: Iterable[Mount]) -> str | None:
    """The type of the network file system that holds an absolute path; None where a local or unknown one does.

    The deepest mount holds it, and of several on one point (an automount and what it mounted) the last.
    """
    if _UNC.match(path.drive):
        return "network share"  # which Windows does not list among the mounted
    holding = [mount for mount in mounts if path.is_relative_to(mount.mountpoint)]
    if not holding:
        return None
    depths = [len(type(path)(mount.mountpoint).parts) for mount in holding]
    mount = [mount for mount, depth in zip(holding, depths, strict=True) if depth == max(depths)][-1]
    is_remote = mount.fstype.lower() in _NETWORK_FILE_SYSTEMS or "remote" in mount.opts.split(",")
    return (mount.fstype or "remote") if is_remote else None
