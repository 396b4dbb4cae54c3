"""The database as the stores ask it: named statements in transactions, and snapshots. Knows no engine and no record."""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, closing, contextmanager
from contextvars import ContextVar
from typing import Any, Protocol

from mcp_memory.domain.model.scopes import RecordFilter
from mcp_memory.errors import StoreUnavailable
from mcp_memory.ports.changes import Columns, Place
from mcp_memory.stores.records.where_clause import Parameter, where_clauses

WRITE_PATIENCE_SECONDS = 30.0  # for the write lock
NO_PARTITION = ""
"""The partition of a write that puts single rows of telemetry: any number of such writes may go on at once."""
_snapshot: ContextVar[DatabaseSnapshot | None] = ContextVar("_snapshot", default=None)

Parameters = Sequence[object] | Mapping[str, object]
Query = tuple[str, Parameters]
"""The name of a statement without parts, and its parameters."""


class Row(Protocol):
    """A row, whose values go by name and by position; `dict(row)` has them by name."""

    def __getitem__(self, key: str | int, /) -> Any: ...
    def __iter__(self) -> Iterator[Any]: ...
    def __len__(self) -> int: ...
    def keys(self) -> Iterable[str]: ...


class Cursor(Protocol):
    """The rows that a statement found, or the number of those that it changed."""

    @property
    def rowcount(self) -> int: ...
    def fetchone(self) -> Any: ...
    def fetchall(self) -> list[Any]: ...
    def __iter__(self) -> Iterator[Any]: ...
    def close(self) -> object: ...


class Connection(Protocol):
    """A connection in a transaction. `parts` replace a statement's markers, e.g. `where` that named `{where}`."""

    def run(self, name: str, parameters: Parameters = (), /, **parts: str) -> Cursor:
        """Run the statement of that name."""
        ...

    def run_each(self, name: str, rows: Iterable[Parameters], /) -> None:
        """Run the statement of that name once for each of these parameters."""
        ...

    def count(self, name: str, parameters: Parameters = (), /) -> int:
        """Count the rows of a query."""
        ...

    def stream(self, name: str, parameters: Parameters = (), /) -> Iterator[Any]:
        """Yield the rows of a query, of which few are in memory at once."""
        ...

    def columns(self, name: str, parameters: Mapping[str, object], most: int, /, **parts: str) -> Iterator[Columns]:
        """Yield what a query finds as columns by their names, `most` rows at once."""
        ...


class Write(Connection, Protocol):
    """The connection of a write: who has it numbers its changes."""

    def defer(self, name: str, parameters: Parameters = (), /) -> None:
        """Run the statement of that name, whose rows nobody asks for: where the database is far, with the next journey.

        What it finds fault with is raised then, at the latest by the commit.
        """
        ...

    def read_ahead(self, reads: Iterable[Callable[[], object]], /) -> None:
        """Make one journey of the queries of these reads, where the database is far; none depends on another's result.

        Later reads of the same have their rows, until the write changes something outside of `adding`.
        """
        ...

    def adding(self) -> AbstractContextManager[None]:
        """Keep what was read ahead while this adds rows: who reads ahead knows that none of them would be found."""
        ...

    def forget_ahead(self) -> None:
        """Forget what was read ahead, so that it is read again."""
        ...

    @property
    def mark(self) -> str:
        """The mark of this write, see `Place`."""
        ...

    @property
    def first_change(self) -> int:
        """The number of this write's first change, by which the write is known."""
        ...

    def next_change(self) -> int:
        """Return the number of a further change of this write, the first of them `first_change`."""
        ...

    def skip_changes(self, newest: int) -> None:
        """Give no number up to this one any more. Only for a write that nobody else writes beside."""
        ...

    def hold(self, partition: str) -> bool:
        """Keep others from writing this partition too; return True where what was read of it may have changed."""
        ...

    def holds(self, partition: str) -> bool:
        """Return True where others are kept from writing this partition."""
        ...

    def hold_grounds(self) -> bool:
        """Keep others from changing the grounds that lie in another partition; hold each partition before.

        Returns True where what was read of it may have changed.
        """
        ...


class DatabaseSnapshot:
    """The database as of one moment, for a request and the threads that work for it, which take turns.

    It holds a connection in a read transaction. While it is open, SQLite's log cannot be restarted, and PostgreSQL
    cannot vacuum what is deleted.
    """

    def __init__(self, database: Database, connection: Any, revision: int, last_write: str = "") -> None:
        self.database = database
        self.connection = connection
        self.revision = revision
        self.last_write = last_write
        self.turn = threading.RLock()
        self.ahead: dict[object, list[Any]] = {}
        """Rows that were read ahead, by the query."""
        self.read: dict[tuple[str, ...], dict[str, Any]] = {}
        """The records that were read of it by id, by the scopes that were read."""
        self.places: dict[str, Place | None] = {}
        """The newest changes of partitions that were read of it; None for one without changes."""

    @contextmanager
    def reading(self) -> Generator[int]:
        """Make every read in this context, and in copies of it, see the snapshot; see `Snapshot.reading`."""
        token = _snapshot.set(self)
        try:
            yield self.revision
        finally:
            _snapshot.reset(token)
        self.database.verify()

    def close(self, *, at_once: bool = True) -> None:
        """Release the snapshot, once nothing reads it any more; see `Snapshot.close`."""
        with self.turn:
            self.database.release(self.connection, at_once=at_once)


class Database(ABC):
    """A database of records, shared by threads and processes."""

    @property
    @abstractmethod
    def schema_version(self) -> int: ...

    @property
    @abstractmethod
    def location(self) -> str:
        """The file, or the address without its secrets, for people."""

    @property
    @abstractmethod
    def integrity_error(self) -> type[Exception]:
        """The engine's error for a row that is there twice or refers to nothing."""

    @abstractmethod
    def size(self) -> int:
        """Return the bytes that the database takes on disk."""

    def gauges(self) -> Mapping[str, float]:
        """Return the engine's own figures that cost little, by the names of `Telemetry.gauges`."""
        return {}

    @abstractmethod
    def read(self) -> AbstractContextManager[Connection]:
        """Borrow a connection in a read transaction, this caller's alone until it is returned.

        Raises StoreUnavailable where a newer version has migrated the database; at the end too, where what was read is
        not sound: discard it.
        """

    @abstractmethod
    def write(
        self,
        patience: float = WRITE_PATIENCE_SECONDS,
        *,
        durable: bool = True,
        partition: str | None = None,
        foreseen: Sequence[Query] = (),
    ) -> AbstractContextManager[Write]:
        """Begin a write transaction: commits at exit, rolls back on any error.

        Writes of one partition follow each other, so that what one reads there holds until it commits; in a file those
        of all partitions do. With None a write has all of them: nobody else writes meanwhile. With `NO_PARTITION`
        it waits for those of None alone, and numbers no changes. A commit that is not `durable` survives the process
        but not a power cut, until the next durable one: it does not wait for the disk. Where the
        database is far, the write has what the `foreseen` queries find with its first journey.
        The schema is checked inside, as a newer version may have migrated it meanwhile. Raises StoreBusy where another
        write does not end within `patience` seconds.
        """

    @abstractmethod
    def pin(self, *foreseen: Query) -> DatabaseSnapshot:
        """Return the database as it is now, readable until you close it. Raises StoreUnavailable.

        Where it is far, it has what the queries find with the same journey.
        """

    def read_ahead(self, reads: Iterable[Callable[[], object]], *, beyond: bool = False) -> bool:
        """Make one journey of the queries of these reads, where the database is far; none depends on another's result.

        Only within a snapshot: later reads of the same have their rows. Return False where it is near, and where walls
        stand, unless all of the queries are `beyond` them.
        """
        return False

    def note(
        self,
        name: str,
        rows: Sequence[Parameters],
        failed: Callable[[StoreUnavailable], object],
        *,
        waits: bool = False,
    ) -> None:
        """Run a statement for each of these parameters, all or none, durable or not; call `failed` where it could not.

        It waits for locks only if you say so.
        """
        try:
            patience = WRITE_PATIENCE_SECONDS if waits else 0
            with self.write(patience, durable=False, partition=NO_PARTITION) as connection:
                connection.run_each(name, rows)
        except StoreUnavailable as error:
            failed(error)

    @contextmanager
    def together(self) -> Generator[None]:
        """Make one journey of what this thread notes inside, at the end, where the database is far."""
        yield

    def settled(self) -> int:
        """Return a change number up to which every change is committed, in whatever partition. Not in a snapshot."""
        return self.rows("newest_change")[0][0]

    @abstractmethod
    def release(self, connection: Any, *, at_once: bool = True) -> None:
        """Return a connection that was pinned; its transaction ends, with what is noted together unless `at_once`."""

    @abstractmethod
    def verify(self) -> None:
        """Raise StoreUnavailable where what a snapshot read may not be sound."""

    @abstractmethod
    def close(self) -> None:
        """Close every idle connection."""

    def rows(self, name: str, parameters: Parameters = (), /, **parts: str) -> list[Any]:
        """Return all rows that the query of that name finds. Raises StoreUnavailable."""
        with self.read() as connection:
            return connection.run(name, parameters, **parts).fetchall()

    def columns(self, name: str, parameters: Mapping[str, object], most: int, /, **parts: str) -> Iterator[Columns]:
        """Yield what a query finds as columns by their names, `most` rows at once. Raises StoreUnavailable."""
        with self.read() as connection:
            yield from connection.columns(name, parameters, most, **parts)

    def matching(self, name: str, where: RecordFilter, /, **more: Parameter) -> list[Any]:
        """Return all rows that the query of that name finds among the records that pass the filter."""
        parts, parameters = where_clauses(where)
        return self.rows(name, {**parameters, **more}, **parts)

    def pinned(self) -> DatabaseSnapshot | None:
        """Return the snapshot that this context reads; None without one."""
        snapshot = _snapshot.get()
        return snapshot if snapshot is not None and snapshot.database is self else None

    @contextmanager
    def snapshot(self) -> Generator[int]:
        """Read the database as of one moment in this context; see `ChangeFeed.snapshot`."""
        if (held := self.pinned()) is not None:
            yield held.revision
            return
        with closing(self.pin()) as snapshot, snapshot.reading():
            yield snapshot.revision


def newest_change(connection: Connection) -> int:
    """Return the number of the newest change, which is the revision."""
    return connection.run("newest_change").fetchone()[0]


def meta(connection: Connection, name: str) -> str | None:
    """Return the value of that name in `meta`."""
    row = connection.run("get_meta", (name,)).fetchone()
    return row["value"] if row else None
