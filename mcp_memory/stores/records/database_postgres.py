"""The truth in a PostgreSQL database, shared by any number of servers on any number of machines. Knows no record.

Imported only where the settings name a database: psycopg is an extra.
"""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext, suppress
from typing import Any, TypeVar

import psycopg
from psycopg import errors
from psycopg.conninfo import conninfo_to_dict
from psycopg_pool import ConnectionPool, PoolTimeout

from mcp_memory.errors import StoreBusy, StoreUnavailable
from mcp_memory.ports.changes import Columns
from mcp_memory.stores.records import schema_postgres, schema_sqlite
from mcp_memory.stores.records.database import (
    WRITE_PATIENCE_SECONDS,
    Database,
    DatabaseSnapshot,
    Parameters,
    Query,
)
from mcp_memory.stores.records.postgres_connection import (
    IDLE_SECONDS,
    WRITING,
    PostgresConnection,
    PostgresWrite,
)
from mcp_memory.stores.records.postgres_journeys import (
    Foresight,
    Noting,
    WholeQuery,
    begun_with,
    note_at_once,
)
from mcp_memory.stores.records.postgres_values import adapt, named_rows, only_value
from mcp_memory.stores.records.walls_postgres import check_walls, place_of, raise_walls

READ_PATIENCE_SECONDS = 10.0
CONNECTIONS = 10
"""Most connections of one server; a request reads over one, and an idle one is closed after some minutes."""
CONNECTING_SECONDS = 0.5
"""The pool tries to connect for so long; each call that needs a connection asks it again: a standby may be ready."""
# A cursor is planned for a tenth of its rows otherwise, as if the rest were never fetched: to count the records of each
# scope of a partition it then read an index of all partitions.
_NEWEST = (
    "SELECT s.oldest, p.newest, p.last_write, set_config('cursor_tuple_fraction', '1', TRUE) FROM schema AS s"
    " LEFT JOIN (SELECT newest, last_write FROM partitions ORDER BY newest DESC LIMIT 1) AS p ON TRUE"
)
# A role that may not see others' sessions is told of its own; one that may not see standbys is told no `state`. The
# lag that PostgreSQL measures stands still while a standby does not answer, or has stopped to replay.
_GAUGES = """
SELECT
    (SELECT coalesce(max(extract(epoch FROM clock_timestamp() - xact_start)), 0) FROM pg_stat_activity
        WHERE datname = current_database() AND pid <> pg_backend_pid()) AS oldest_transaction_seconds,
    count(*) AS standbys,
    coalesce(max(behind), 0) AS replica_lag_bytes,
    coalesce(max(greatest(extract(epoch FROM replay_lag), CASE WHEN behind > 0 THEN silent END)), 0)
        AS replica_lag_seconds
FROM (
    SELECT replay_lag, extract(epoch FROM clock_timestamp() - reply_time) AS silent, pg_wal_lsn_diff(
        CASE WHEN pg_is_in_recovery() THEN pg_last_wal_receive_lsn() ELSE pg_current_wal_lsn() END, replay_lsn
    ) AS behind
    FROM pg_stat_replication WHERE state IS NOT NULL
) AS each
"""
_READ_ONLY = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"
_PAUSE_SECONDS = 0.05
_BUSY = "The memory store is busy with other servers; call again in a few seconds."
_TOO_SLOW = (
    f"This write asked nothing for more than {IDLE_SECONDS} s, so the memory's database ended it; nothing was changed."
    " Name fewer records in one call."
)
# A primary that dies ends its connections in one of these ways, and a standby refuses writes.
_LOST = (psycopg.OperationalError, psycopg.InterfaceError, errors.ReadOnlySqlTransaction, PoolTimeout)
_CALL_KEYS = "calls_done_pkey"
_Got = TypeVar("_Got")


class PostgresDatabase(Database):
    """One PostgreSQL database, reached over a pool of connections.

    A write locks the row of its partition, so that writes there follow each other as in one file, over all servers; a
    read sees one moment. Nothing is kept in a connection between transactions, so a pooler may hand
    connections on in between.
    """

    def __init__(self, url: str, migrate_url: str = "", upkeep_role: str = "") -> None:
        """Open, creating and migrating where needed, over `migrate_url` where a pooler stands between.

        With a role for upkeep, walls stand around each request. Raises StoreUnavailable with the reason where it fails.
        """
        self._url = url
        self._upkeep_role = upkeep_role
        self._own = threading.local()
        self._foresight = Foresight()
        schema_postgres.migrate(migrate_url or url)
        if upkeep_role:
            raise_walls(migrate_url or url)
        self._pool: ConnectionPool[psycopg.Connection[Any]] = ConnectionPool(
            url,
            min_size=0,
            max_size=CONNECTIONS,
            timeout=CONNECTING_SECONDS,
            # By itself a pool waits for one second, two, four and so on before it tries again to connect.
            reconnect_timeout=CONNECTING_SECONDS,
            open=False,
            # No prepared statements: a pooler hands connections on, and a plan made for one scope serves none other.
            # As UTF-8 whole statements are sent, whatever a role or an address says of encodings.
            kwargs={
                "autocommit": True,
                "prepare_threshold": None,
                "row_factory": named_rows,
                "client_encoding": "UTF8",
            },
            configure=adapt,
        )
        self._pool.open()
        with self._lent() as connection:
            check_walls(connection, upkeep_role)

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
            return only_value(connection.execute("SELECT pg_database_size(current_database())"))

    def gauges(self) -> Mapping[str, float]:
        with _translated(), self._lent() as connection:
            row = connection.execute(_GAUGES.encode()).fetchone()
        told = {name: float(value) for name, value in dict(row or {}).items()}
        if not told["standbys"]:
            del told["replica_lag_seconds"], told["replica_lag_bytes"]
        return told

    def engine(self) -> str:
        with self._lent() as connection:
            version: str = only_value(connection.execute("SHOW server_version"))
        return f"PostgreSQL {version.split(maxsplit=1)[0]}"

    def dead_rows(self) -> tuple[int, bool]:
        """Return how many rows wait for a vacuum, and whether the log is archived."""
        asked = "SELECT coalesce(sum(n_dead_tup), 0)::bigint, current_setting('archive_mode') FROM pg_stat_user_tables"
        with self._lent() as connection:
            dead, archiving = connection.execute(asked.encode()).fetchone() or (0, "off")
        return dead, archiving != "off"

    def rows(self, name: str, parameters: Parameters = (), /, **parts: str) -> list[Any]:
        if (snapshot := self.pinned()) is not None:
            query = WholeQuery.of(name, parameters, parts)
            if query.key in snapshot.ahead:
                return snapshot.ahead[query.key]
            self._foresight.meet(query)
            with _translated(), snapshot.turn:
                return snapshot.connection.run(name, parameters, **parts).fetchall()

        def read() -> list[Any]:
            with self._lent_for(name) as connection:  # One statement is one moment.
                return connection.run(name, parameters, **parts).fetchall()

        return _again(read, READ_PATIENCE_SECONDS)

    def columns(self, name: str, parameters: Mapping[str, object], most: int, /, **parts: str) -> Iterator[Columns]:
        if (snapshot := self.pinned()) is not None and (snapshot.ahead or self._foresight.is_on):
            query = WholeQuery.of(name, parameters, parts)
            if (known := snapshot.ahead.get(query.key)) is not None:
                if known:
                    yield dict(zip(known[0].keys(), zip(*known, strict=True), strict=True))
                return
            self._foresight.meet(query)
        yield from super().columns(name, parameters, most, **parts)

    def rows_amid(self, name: str, parameters: Parameters) -> list[Any]:
        """Return all rows, amid a write of this thread over its connection: another one might not be free."""
        writing: PostgresConnection | None = getattr(self._own, "writing", None)
        return self.rows(name, parameters) if writing is None else writing.run(name, parameters).fetchall()

    def alone(self, name: str, parameters: Parameters) -> list[Any]:
        """Run one statement in a transaction of its own, also amid a write, which may fail afterwards; return its rows.

        It is not repeated where its answer is lost. Raises StoreUnavailable.
        """
        with _translated(), self._lent_for(name) as connection:
            found = connection.execute(name, parameters)
            return found.fetchall() if found.description else []

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

    def read_ahead(self, reads: Iterable[Callable[[], object]], *, beyond: bool = False) -> bool:
        snapshot = self.pinned()
        if snapshot is None or (self._upkeep_role and not beyond):  # Requests that share it stand within other walls.
            return False
        if len(asked := self._foresight.of(reads)) > 1:
            with _translated(), snapshot.turn:
                snapshot.ahead.update(snapshot.connection.at_once([*asked.values()]))
        return True

    def note(
        self,
        name: str,
        rows: Sequence[Parameters],
        failed: Callable[[StoreUnavailable], object],
        *,
        waits: bool = False,
    ) -> None:
        queries = [WholeQuery.of(name, row, {}) for row in rows]
        role = self._upkeep_role if self._has_walls(name) else ""
        noting = Noting(queries=queries, failed=failed, waits=waits, role=role)
        gathered: list[Noting] | None = getattr(self._own, "gathered", None)
        if gathered is None:
            self._note([noting])
        else:
            gathered.append(noting)

    @contextmanager
    def together(self) -> Generator[None]:
        gathered, ended = list[Noting](), list[psycopg.Connection[Any]]()
        self._own.gathered, self._own.ended = gathered, ended
        try:
            yield
        finally:
            self._own.gathered = self._own.ended = None
            kept = ended.pop() if gathered and ended else None
            for connection in ended:
                self._return(connection)
            if gathered:
                self._note(gathered, kept)

    def _note(self, left: list[Noting], ended: psycopg.Connection[Any] | None = None) -> None:
        """Run what was gathered, over the connection of a snapshot that has ended but for its transaction, if any."""
        try:
            with _translated(), self._lent(ended) as connection:
                note_at_once(connection, left)
        except StoreUnavailable as error:
            for each in left:
                each.failed(error)

    def pin(self, *foreseen: Query) -> DatabaseSnapshot:
        while ended := getattr(self._own, "ended", None):  # Nobody who waits for a connection keeps one.
            self._return(ended.pop())
        asked = [WholeQuery.of(*query, {}) for query in foreseen]
        return _again(lambda: self._pin(asked), READ_PATIENCE_SECONDS)

    def _pin(self, foreseen: Sequence[WholeQuery]) -> DatabaseSnapshot:
        connection = self._borrow()
        try:
            (newest,), ahead = begun_with(connection, f"{_READ_ONLY}; {_NEWEST}", foreseen)
            schema_postgres.refuse_newer(newest["oldest"])
            pinned = PostgresConnection(connection, self._upkeep_role)
            snapshot = DatabaseSnapshot(self, pinned, newest["newest"] or 0, newest["last_write"] or "")
            snapshot.ahead.update(ahead)
            return snapshot
        except BaseException:
            self._return(connection)
            raise

    def release(self, connection: PostgresConnection, *, at_once: bool = True) -> None:
        ended: list[psycopg.Connection[Any]] | None = getattr(self._own, "ended", None)
        if at_once or ended is None:
            self._return(connection.raw)
        else:
            ended.append(connection.raw)

    def verify(self) -> None:
        """Nothing: a transaction that was not sound has failed."""

    @contextmanager
    def write(
        self,
        patience: float = WRITE_PATIENCE_SECONDS,
        *,
        durable: bool = True,
        partition: str | None = None,
        foreseen: Sequence[Query] = (),
    ) -> Generator[PostgresWrite]:
        assert self.pinned() is None, "Nothing is written inside a snapshot, whose end others wait for."
        if getattr(self._own, "writing", None) is not None:
            raise StoreBusy("The memory store is busy in this thread; end its write first.")
        deadline = time.monotonic() + patience
        asked = [WholeQuery.of(*query, {}) for query in foreseen]
        write = _again(lambda: self._begin(deadline, partition, asked, durable=durable), patience)
        self._own.writing = write
        try:
            with _translated():
                yield write
            self._commit(write, partition, deadline)
        finally:
            self._own.writing = None
            self._return(write.raw)

    def settled(self) -> int:
        newest, before = self._numbers_on_their_way()
        deadline = time.monotonic() + WRITE_PATIENCE_SECONDS
        while before & self._numbers_on_their_way()[1]:  # Whoever began since has higher numbers alone.
            if time.monotonic() > deadline:
                raise StoreBusy(_BUSY)
            time.sleep(_PAUSE_SECONDS)
        return newest

    def _numbers_on_their_way(self) -> tuple[int, frozenset[str]]:
        """Return the newest number that any write has taken, and then the transactions that write."""

        def ask() -> tuple[int, frozenset[str]]:
            with self._lent() as connection:
                newest = only_value(connection.execute("SELECT last_value FROM changes"))
                return newest, frozenset(row[0] for row in connection.execute(WRITING.encode()))

        return _again(ask, READ_PATIENCE_SECONDS)

    def close(self) -> None:
        self._pool.close()

    def _begin(
        self, deadline: float, partition: str | None, foreseen: Sequence[WholeQuery] = (), *, durable: bool
    ) -> PostgresWrite:
        """Return a write whose transaction has begun, with its locks."""
        left = max(deadline - time.monotonic(), 0.001)
        connection = self._borrow(left)
        try:
            write = PostgresWrite(connection, partition, self._upkeep_role)
            schema_postgres.refuse_newer(write.begin(left, foreseen, durable=durable))
        except BaseException:
            self._return(connection)
            raise
        return write

    def _commit(self, write: PostgresWrite, partition: str | None, deadline: float) -> None:
        """Commit, and where the answer is lost with the server, find out at the next one whether it was done."""
        try:
            write.commit()
        except _LOST as error:
            if not write.raw.closed:  # A refusal, as of a lock that took too long, and no loss.
                raise _told(error) from error
            if not self._was_committed(write.mark, partition, max(deadline, time.monotonic() + READ_PATIENCE_SECONDS)):
                raise StoreBusy("The memory's database went away; nothing was stored, call again.") from error
        except psycopg.Error as error:
            raise _told(error) from error

    def _was_committed(self, mark: str, partition: str | None, deadline: float) -> bool:
        def ask() -> bool:
            # It waits for a lock that the lost transaction holds until it has ended.
            write = self._begin(deadline, partition, durable=False)
            try:
                return _has_mark(write.raw, mark)
            finally:
                self._return(write.raw)

        return _again(ask, deadline - time.monotonic())

    def _borrow(self, patience: float = READ_PATIENCE_SECONDS) -> psycopg.Connection[Any]:
        """Take a connection from the pool. Raises StoreBusy where there is none for so long."""
        return _again(self._pool.getconn, patience)

    @contextmanager
    def _lent(self, ended: psycopg.Connection[Any] | None = None) -> Generator[psycopg.Connection[Any]]:
        connection = ended or self._borrow()
        try:
            yield connection
        finally:
            self._return(connection)

    @contextmanager
    def _lent_for(self, name: str) -> Generator[PostgresConnection]:
        """Lend a connection for one statement; where that stands within walls, in a transaction."""
        with self._lent() as connection, _transaction(connection) if self._has_walls(name) else nullcontext():
            yield PostgresConnection(connection, self._upkeep_role)

    def _has_walls(self, name: str) -> bool:
        """Return True for a statement that has to stand within walls, or beyond them."""
        return bool(self._upkeep_role) and place_of(name, self._upkeep_role) is not None

    def _return(self, connection: psycopg.Connection[Any]) -> None:
        """Return a connection to the pool; an open transaction ends, and a broken connection is dropped."""
        with suppress(psycopg.Error):
            if connection.info.transaction_status != psycopg.pq.TransactionStatus.IDLE:
                connection.execute("ROLLBACK")
        self._pool.putconn(connection)


@contextmanager
def _transaction(connection: psycopg.Connection[Any]) -> Generator[None]:
    """Begin a transaction in the journey of its first statement."""
    with connection.pipeline(), connection.transaction():
        yield


def _has_mark(connection: psycopg.Connection[Any], mark: str) -> bool:
    return connection.execute("SELECT 1 FROM commits WHERE mark = %s", (mark,)).fetchone() is not None


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
        return StoreBusy(_BUSY)
    if isinstance(error, errors.UniqueViolation) and error.diag.constraint_name == _CALL_KEYS:
        return StoreBusy(_BUSY)  # Another server noted the call's key meanwhile.
    if isinstance(error, errors.IdleInTransactionSessionTimeout):
        return StoreUnavailable(_TOO_SLOW)
    if isinstance(error, errors.DiskFull):
        return StoreUnavailable("The disk of the memory's database is full; free space there and call again.")
    if isinstance(error, _LOST):
        return StoreBusy("The memory's database cannot be reached at present; call again in a few seconds.")
    return StoreUnavailable(f"The memory's database refused this ({type(error).__name__}); its log says why.")
