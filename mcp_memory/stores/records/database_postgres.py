"""The truth in a PostgreSQL database, shared by any number of servers on any number of machines. Knows no record.

Imported only where the settings name a database: psycopg is an extra.
"""

from __future__ import annotations

import random
import secrets
import threading
import time
from collections.abc import Callable, Generator, Iterable, Iterator, KeysView, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import Any, TypeVar

import psycopg
from psycopg import errors
from psycopg.abc import Buffer
from psycopg.conninfo import conninfo_to_dict
from psycopg.rows import tuple_row
from psycopg.types.numeric import Int8Dumper, NumericBinaryLoader, NumericLoader
from psycopg.types.string import StrDumper
from psycopg_pool import ConnectionPool, PoolTimeout

from mcp_memory.errors import StoreBusy, StoreUnavailable
from mcp_memory.ports.changes import Columns
from mcp_memory.ports.tracing import traced
from mcp_memory.stores.records import schema_postgres, schema_sqlite
from mcp_memory.stores.records.database import (
    WRITE_PATIENCE_SECONDS,
    Database,
    DatabaseSnapshot,
    Parameters,
)
from mcp_memory.stores.records.sql_files import postgres_statement

READ_PATIENCE_SECONDS = 10.0
CONNECTIONS = 10
"""Most connections of one server; a request reads over one, and an idle one is closed after some minutes."""
CONNECTING_SECONDS = 0.5
"""The pool tries to connect for so long; each call that needs a connection asks it again: a standby may be ready."""
MARKS_KEPT_SECONDS, FORGETTING = 86_400.0, 0.01
"""The time that marks of commits are kept, and the share of writes that delete older ones."""
_NEWEST = "SELECT q.value, s.oldest FROM sequence AS q, schema AS s"
_NEWEST_AND_MARK = (
    "SELECT q.value, s.oldest, (SELECT c.mark FROM commits AS c WHERE c.change = q.value ORDER BY c.at LIMIT 1) AS mark"
    " FROM sequence AS q, schema AS s"
)
# A role that may not see others' sessions is told of its own; one that may not see standbys is told no `state`.
_GAUGES = """
SELECT
    (SELECT coalesce(max(extract(epoch FROM clock_timestamp() - xact_start)), 0) FROM pg_stat_activity
        WHERE datname = current_database() AND pid <> pg_backend_pid()) AS oldest_transaction_seconds,
    (SELECT count(*) FROM pg_stat_replication WHERE state IS NOT NULL) AS standbys,
    (SELECT coalesce(max(extract(epoch FROM replay_lag)), 0) FROM pg_stat_replication) AS replica_lag_seconds
"""
_READ_ONLY = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"
_PAUSE_SECONDS = 0.05
# A primary that dies ends its connections in one of these ways, and a standby refuses writes.
_LOST = (psycopg.OperationalError, psycopg.InterfaceError, errors.ReadOnlySqlTransaction, PoolTimeout)
_Got = TypeVar("_Got")


class PostgresConnection:
    """Implements `Connection`."""

    def __init__(self, connection: psycopg.Connection[Any]) -> None:
        self.raw = connection

    def run(self, name: str, parameters: Parameters = (), /, **parts: str) -> psycopg.Cursor[Any]:
        sql = postgres_statement(name, tuple(parts.items()))
        with traced("sql", name):
            return self.raw.execute(sql.encode(), _given(sql, parameters), binary=True)

    def run_each(self, name: str, rows: Iterable[Parameters], /) -> None:
        sql = postgres_statement(name)
        with traced("sql", name), self.raw.cursor() as cursor:
            cursor.executemany(sql.encode(), [_given(sql, row) for row in rows])

    def count(self, name: str, parameters: Parameters = (), /) -> int:
        sql = f"SELECT count(*) FROM ({postgres_statement(name)}) AS counted"  # noqa: S608
        with traced("sql", name):
            return _value(self.raw.execute(sql.encode(), _given(sql, parameters), binary=True))

    def stream(self, name: str, parameters: Parameters = (), /) -> Iterator[Any]:
        sql = postgres_statement(name)
        with self.raw.cursor(f"stream_{secrets.token_hex(4)}", binary=True) as cursor:
            cursor.execute(sql.encode(), _given(sql, parameters))
            yield from cursor

    def columns(self, name: str, parameters: Mapping[str, object], most: int, /, **parts: str) -> Iterator[Columns]:
        sql = postgres_statement(name, tuple(parts.items()))
        with self.raw.cursor(f"columns_{secrets.token_hex(4)}", binary=True) as cursor:
            cursor.row_factory = tuple_row
            cursor.execute(sql.encode(), parameters)
            names = [column.name for column in cursor.description or ()]
            while rows := cursor.fetchmany(most):
                yield dict(zip(names, zip(*rows, strict=True), strict=True))


class PostgresDatabase(Database):
    """One PostgreSQL database, reached over a pool of connections.

    A write locks the row that holds the newest change, so that writes follow each other as in one file, over all
    servers; a read sees one moment. Nothing is kept in a connection between transactions, so a pooler may hand
    connections on in between.
    """

    def __init__(self, url: str, migrate_url: str = "") -> None:
        """Open, creating and migrating where needed, over `migrate_url` where a pooler stands between.

        Raises StoreUnavailable with the reason where that fails.
        """
        self._url = url
        self._own = threading.local()
        schema_postgres.migrate(migrate_url or url)
        self._pool: ConnectionPool[psycopg.Connection[Any]] = ConnectionPool(
            url,
            min_size=0,
            max_size=CONNECTIONS,
            timeout=CONNECTING_SECONDS,
            # By itself a pool waits for one second, two, four and so on before it tries again to connect.
            reconnect_timeout=CONNECTING_SECONDS,
            open=False,
            # No prepared statements: a pooler hands connections on, and a plan made for one scope serves none other.
            kwargs={"autocommit": True, "prepare_threshold": None, "row_factory": _named_rows},
            configure=_adapt,
        )
        self._pool.open()

    @property
    def schema_version(self) -> int:
        """The number of SQLite's schema that says the same: exports carry it, wherever they were made."""
        return len(schema_sqlite.migrations())

    @property
    def location(self) -> str:
        told = conninfo_to_dict(self._url)
        return f"{told.get('host') or 'localhost'}/{told.get('dbname') or ''}"

    @property
    def integrity_error(self) -> type[Exception]:
        return psycopg.IntegrityError

    def size(self) -> int:
        with self._lent() as connection:
            return _value(connection.execute("SELECT pg_database_size(current_database())"))

    def gauges(self) -> Mapping[str, float]:
        with _translated(), self._lent() as connection:
            row = connection.execute(_GAUGES.encode()).fetchone()
        told = {name: float(value) for name, value in dict(row or {}).items()}
        if not told["standbys"]:
            del told["replica_lag_seconds"]
        return told

    def engine(self) -> str:
        with self._lent() as connection:
            version: str = _value(connection.execute("SHOW server_version"))
        return f"PostgreSQL {version.split(maxsplit=1)[0]}"

    def rows(self, name: str, parameters: Parameters = (), /, **parts: str) -> list[Any]:
        if (snapshot := self.pinned()) is not None:
            with _translated(), snapshot.turn:
                return snapshot.connection.run(name, parameters, **parts).fetchall()

        def read() -> list[Any]:
            with self._lent() as connection:  # One statement is one moment.
                return PostgresConnection(connection).run(name, parameters, **parts).fetchall()

        return _again(read, READ_PATIENCE_SECONDS)

    def alone(self, name: str, parameters: Parameters) -> None:
        """Run one statement in a transaction of its own, also amid a write, which may fail afterwards."""
        with _translated(), self._lent() as connection:
            PostgresConnection(connection).run(name, parameters)

    @contextmanager
    def read(self) -> Generator[PostgresConnection]:
        if (snapshot := self.pinned()) is not None:
            with _translated(), snapshot.turn:
                yield snapshot.connection
            return
        snapshot = self.pin()
        try:
            with _translated():
                yield snapshot.connection
        finally:
            snapshot.close()

    def pin(self) -> DatabaseSnapshot:
        return _again(self._pin, READ_PATIENCE_SECONDS)

    def _pin(self) -> DatabaseSnapshot:
        connection = self._borrow()
        try:
            connection.execute(_READ_ONLY)
            newest = _checked(connection, _NEWEST_AND_MARK)
            return DatabaseSnapshot(self, PostgresConnection(connection), newest["value"], newest["mark"] or "")
        except BaseException:
            self._return(connection)
            raise

    def has_write(self, mark: str) -> bool:
        with self.read() as connection:
            return _has_mark(connection.raw, mark)

    def release(self, connection: PostgresConnection) -> None:
        self._return(connection.raw)

    def verify(self) -> None:
        """Nothing: a transaction that was not sound has failed."""

    @contextmanager
    def write(self, patience: float = WRITE_PATIENCE_SECONDS, *, durable: bool = True) -> Generator[PostgresConnection]:
        assert self.pinned() is None, "Nothing is written inside a snapshot, whose end others wait for."
        if getattr(self._own, "is_writing", False):
            raise StoreBusy("The memory store is busy in this thread; end its write first.")
        deadline = time.monotonic() + patience
        connection = _again(lambda: self._begin(deadline, durable=durable), patience)
        self._own.is_writing = True
        try:
            with _translated():
                yield PostgresConnection(connection)
            self._commit(connection, deadline)
        finally:
            self._own.is_writing = False
            self._return(connection)

    def close(self) -> None:
        self._pool.close()

    def _begin(self, deadline: float, *, durable: bool) -> psycopg.Connection[Any]:
        """Return a connection in a transaction that holds the lock of writes."""
        left = max(deadline - time.monotonic(), 0.001)
        connection = self._borrow(max(left, READ_PATIENCE_SECONDS))
        try:
            begin = (
                f"BEGIN; SET LOCAL lock_timeout = '{max(int(left * 1000), 1)}ms';"
                f" SET LOCAL synchronous_commit = {'on' if durable else 'off'}"
            )
            connection.execute(begin.encode())
            _checked(connection, f"{_NEWEST} FOR UPDATE OF q")
        except BaseException:
            self._return(connection)
            raise
        return connection

    def _commit(self, connection: psycopg.Connection[Any], deadline: float) -> None:
        """Commit, and where the answer is lost with the server, find out at the next one whether it was done."""
        mark, now = secrets.token_hex(16), time.time()
        # One journey, of values that are made here.
        noted = f"INSERT INTO commits (mark, at, change) SELECT '{mark}', {now}, value FROM sequence; "  # noqa: S608
        if random.random() < FORGETTING:  # Indexes are at the newest change, whenever it was made.
            noted += f"DELETE FROM commits USING sequence WHERE at < {now - MARKS_KEPT_SECONDS} AND change < value; "  # noqa: S608
        try:
            connection.execute(f"{noted}COMMIT".encode())
        except _LOST as error:
            if not self._was_committed(mark, max(deadline, time.monotonic() + READ_PATIENCE_SECONDS)):
                raise StoreBusy("The memory's database went away; nothing was stored, call again.") from error

    def _was_committed(self, mark: str, deadline: float) -> bool:
        def ask() -> bool:
            connection = self._begin(deadline, durable=False)  # Waits until the lost transaction has ended.
            try:
                return _has_mark(connection, mark)
            finally:
                self._return(connection)

        return _again(ask, deadline - time.monotonic())

    def _borrow(self, patience: float = READ_PATIENCE_SECONDS) -> psycopg.Connection[Any]:
        """Take a connection from the pool. Raises StoreBusy where there is none for so long."""
        return _again(self._pool.getconn, patience)

    @contextmanager
    def _lent(self) -> Generator[psycopg.Connection[Any]]:
        connection = self._borrow()
        try:
            yield connection
        finally:
            self._return(connection)

    def _return(self, connection: psycopg.Connection[Any]) -> None:
        """Return a connection to the pool; an open transaction ends, and a broken connection is dropped."""
        with suppress(psycopg.Error):
            if connection.info.transaction_status != psycopg.pq.TransactionStatus.IDLE:
                connection.execute("ROLLBACK")
        self._pool.putconn(connection)


def _has_mark(connection: psycopg.Connection[Any], mark: str) -> bool:
    return connection.execute("SELECT 1 FROM commits WHERE mark = %s", (mark,)).fetchone() is not None


def _checked(connection: psycopg.Connection[Any], sql: str) -> PostgresRow:
    """Return the row of a query of _NEWEST. Raises SchemaTooNew where this version may not use the schema any more."""
    row = connection.execute(sql.encode()).fetchone()
    assert row is not None, "Both tables have one row."
    schema_postgres.refuse_newer(row["oldest"])
    return row


def _value(found: psycopg.Cursor[Any]) -> Any:
    """Return the only value that a query finds."""
    row = found.fetchone()
    return row[0] if row else None


def _given(sql: str, parameters: Parameters) -> Parameters:
    """Return the parameters by the names of numbered placeholders, e.g. `p4` for `?4`."""
    if "%(p1)s" in sql and not isinstance(parameters, Mapping):
        return {f"p{place}": value for place, value in enumerate(parameters, start=1)}
    return parameters


def _again(attempt: Callable[[], _Got], patience: float) -> _Got:
    """Repeat an attempt that changes nothing while the database cannot be reached, as while a standby takes over."""
    deadline = time.monotonic() + patience
    while True:
        try:
            return attempt()
        except _LOST as error:
            if time.monotonic() > deadline:
                raise _told(error) from error
        except psycopg.Error as error:
            raise _told(error) from error
        time.sleep(_PAUSE_SECONDS * random.uniform(0.5, 1.5))


@contextmanager
def _translated() -> Generator[None]:
    try:
        yield
    except psycopg.IntegrityError:
        raise  # Of what was to be stored: an import says so.
    except psycopg.Error as error:
        raise _told(error) from error


def _told(error: Exception) -> StoreUnavailable:
    if isinstance(error, errors.LockNotAvailable | errors.DeadlockDetected | errors.SerializationFailure):
        return StoreBusy("The memory store is busy with other servers; call again in a few seconds.")
    if isinstance(error, errors.DiskFull):
        return StoreUnavailable("The disk of the memory's database is full; free space there and call again.")
    if isinstance(error, _LOST):
        return StoreBusy("The memory's database cannot be reached at present; call again in a few seconds.")
    return StoreUnavailable(f"The memory's database refused this ({type(error).__name__}); its log says why.")


class PostgresRow:
    """Implements `Row`."""

    __slots__ = ("_names", "_values")

    def __init__(self, values: Sequence[Any], names: Mapping[str, int]) -> None:
        self._values = values
        self._names = names

    def __getitem__(self, key: str | int) -> Any:
        return self._values[self._names[key] if isinstance(key, str) else key]

    def __iter__(self) -> Iterator[Any]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def keys(self) -> KeysView[str]:
        return self._names.keys()


def _named_rows(cursor: psycopg.Cursor[Any]) -> Callable[[Sequence[Any]], PostgresRow]:
    """Make rows that have their values by name and by place."""
    names = {column.name: place for place, column in enumerate(cursor.description or ())}
    return lambda values: PostgresRow(values, names)


class _TextDumper(StrDumper):
    """Dump a text as one, also where a statement does not say so; no text of PostgreSQL's holds NUL."""

    def dump(self, obj: str) -> Buffer | None:
        return super().dump(obj.replace("\0", "\N{REPLACEMENT CHARACTER}") if "\0" in obj else obj)


class _FlagDumper(Int8Dumper):
    def dump(self, obj: bool) -> Buffer | None:
        return super().dump(int(obj))


class _SumLoader(NumericLoader):
    def load(self, data: Buffer) -> Any:
        return _plain(super().load(data))


class _BinarySumLoader(NumericBinaryLoader):
    def load(self, data: Buffer) -> Any:
        return _plain(super().load(data))


def _plain(value: Any) -> int | float:
    """Return the sum of whole numbers, which PostgreSQL makes a decimal number, as one."""
    return int(value) if value == value.to_integral_value() else float(value)


def _adapt(connection: psycopg.Connection[Any]) -> None:
    """Make a connection take and give values as SQLite does: flags are 0 and 1, and sums are numbers."""
    connection.adapters.register_dumper(str, _TextDumper)
    connection.adapters.register_dumper(bool, _FlagDumper)
    connection.adapters.register_loader("numeric", _SumLoader)
    connection.adapters.register_loader("numeric", _BinarySumLoader)
