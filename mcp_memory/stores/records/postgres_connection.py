"""A connection to PostgreSQL as the stores use it; a write's has its locks, its mark and the numbers of its changes."""

from __future__ import annotations

import random
import secrets
import time
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import psycopg
from psycopg import sql
from psycopg.rows import tuple_row

from mcp_memory.ports.changes import Columns
from mcp_memory.ports.tracing import traced
from mcp_memory.stores.records.database import NO_PARTITION, Cursor, Parameters, Row
from mcp_memory.stores.records.postgres_journeys import Foresight, WholeQuery, found_at_once, given
from mcp_memory.stores.records.postgres_values import FoundRows, each_result, only_value
from mcp_memory.stores.records.sql_files import is_change, postgres_statement
from mcp_memory.stores.records.walls_postgres import STAND, Place, place_of

MARKS_KEPT_SECONDS, FORGETTING = 86_400.0, 0.01
"""The time that marks of commits are kept, and the share of writes that delete older ones."""
NUMBERS_AT_ONCE, MOST_NUMBERS = 8, 1_024
"""Change numbers that a write takes with its first journey, and with each further one as many as it has, to a bound."""
_TAKING = "SELECT nextval('changes') FROM generate_series(1, {})"
MOST_AHEAD = 500
"""Queries that one journey reads ahead, of some 700 bytes each; more make several."""
MOST_WAITING = 4_000_000
"""Characters of statements that wait for a journey: PostgreSQL holds a whole message in memory, and its plans."""
IDLE_SECONDS = 60
"""A server that stops amid a write, as a frozen machine does, keeps others waiting for so long."""
_WRITES = 0x6D636D6D
"""The advisory lock of writes: each shares it, but for one of all partitions, which excludes the others."""
WRITING = (
    "SELECT l.virtualtransaction FROM pg_locks AS l JOIN pg_database AS d ON d.oid = l.database"  # noqa: S608
    f" WHERE d.datname = current_database() AND l.locktype = 'advisory' AND l.objid = {_WRITES} AND l.granted"
)
"""Finds the transactions that hold it."""
_GROUNDS = 0x6D636D67
"""The advisory lock of grounds in other partitions, whose rows the writes of two partitions change."""


class _Streaming(psycopg.ServerCursor[Any]):
    """A cursor of the server's that ends with its transaction, and is never ended before.

    A stream that is left in the middle, as by an exception, lives for longer than its connection is lent: what would
    end it then would run amid another transaction, and fail that.
    """

    def close(self) -> None:
        psycopg.Cursor.close(self)

    def __del__(self, *_: Any) -> None:
        """Say nothing of one that was left: it was none of the server's any more."""


class PostgresConnection:
    """Implements `Connection`."""

    def __init__(self, connection: psycopg.Connection[Any], upkeep_role: str = "") -> None:
        """Take a connection for one transaction; without a role for upkeep there are no walls."""
        self.raw = connection
        self._upkeep_role = upkeep_role
        self._place: Place | None = None

    def run(self, name: str, parameters: Parameters = (), /, **parts: str) -> Cursor:
        return self.execute(name, parameters, **parts)

    def execute(self, name: str, parameters: Parameters = (), /, **parts: str) -> psycopg.Cursor[Any]:
        """Run the statement of that name at once."""
        sql = postgres_statement(name, tuple(parts.items()))
        with traced("sql", name), self._standing(name):
            return self.raw.execute(sql.encode(), given(sql, parameters), binary=True)

    def run_each(self, name: str, rows: Iterable[Parameters], /) -> None:
        sql = postgres_statement(name)
        with traced("sql", name), self._standing(name), self.raw.cursor() as cursor:
            cursor.executemany(sql.encode(), [given(sql, row) for row in rows])

    def save(self) -> None:
        """Save the state of the transaction, for `go_back` where what follows fails."""
        self.raw.execute(b"SAVEPOINT saved")

    def go_back(self) -> None:
        """Go on with the transaction as it was saved; it may have stood elsewhere then."""
        self.raw.execute(b"ROLLBACK TO SAVEPOINT saved")
        self._place = None

    def at_once(self, queries: Sequence[WholeQuery]) -> dict[object, list[Any]]:
        """Return the rows of each query, by its key, in one journey; what walls hold stands in one place."""
        role, stand = self._upkeep_role, ""
        places = {place for each in queries if (place := place_of(each.name, role))} if role else set[Place]()
        if places and places != {self._place}:
            (self._place,) = places
            stand = psycopg.ClientCursor(self.raw).mogrify(STAND, self._place)
        return found_at_once(self.raw, queries, stand)

    def count(self, name: str, parameters: Parameters = (), /) -> int:
        sql = f"SELECT count(*) FROM ({postgres_statement(name)}) AS counted"  # noqa: S608
        with traced("sql", name), self._standing(name):
            return only_value(self.raw.execute(sql.encode(), given(sql, parameters), binary=True))

    def stream(self, name: str, parameters: Parameters = (), /) -> Iterator[Any]:
        sql = postgres_statement(name)
        self._stand(name)
        with self._streaming() as cursor:
            cursor.execute(sql.encode(), given(sql, parameters), binary=True)
            yield from cursor

    def columns(self, name: str, parameters: Mapping[str, object], most: int, /, **parts: str) -> Iterator[Columns]:
        sql = postgres_statement(name, tuple(parts.items()))
        self._stand(name)
        with self._streaming() as cursor:
            cursor.row_factory = tuple_row
            cursor.execute(sql.encode(), parameters, binary=True)
            names = [column.name for column in cursor.description or ()]
            while rows := cursor.fetchmany(most):
                yield dict(zip(names, zip(*rows, strict=True), strict=True))
                if len(rows) < most:
                    break  # To ask whether there is more costs a journey.

    def _streaming(self) -> _Streaming:
        return _Streaming(self.raw, f"stream_{secrets.token_hex(4)}")

    def _stand(self, name: str) -> None:
        with self._standing(name):
            pass  # No cursor of the server's is opened amid a pipeline.

    @contextmanager
    def _standing(self, name: str) -> Generator[None]:
        """Stand within the walls or beyond them, as the statement wants; with what is run inside it is one journey."""
        place = place_of(name, self._upkeep_role) if self._upkeep_role else None
        if place is None or place == self._place:
            yield
            return
        self._place = place
        with self.raw.pipeline():
            self.raw.execute(STAND, place)
            yield


class PostgresWrite(PostgresConnection):
    """Implements `Write`. Its locks are the transaction's, so that none outlives it, whatever dies.

    A namespace is locked first, a person after it, and the grounds between partitions last, so that no two writes wait
    for each other. Statements without results wait for the next one with a result, or for the commit, and go with it.
    """

    def __init__(self, connection: psycopg.Connection[Any], partition: str | None, upkeep_role: str = "") -> None:
        super().__init__(connection, upkeep_role)
        self.mark = secrets.token_hex(16)
        self._partition = partition
        self._held = {partition}
        self._holds_grounds = partition is None
        self._numbers: list[int] = []
        self._taken = self._first = 0
        self._deferred: list[str] = []
        self._waiting = 0
        self._ahead: dict[object, list[Any]] = {}
        """Rows that were read ahead, by the query."""
        self._is_adding = False
        self._foresight = Foresight()
        self._writer = psycopg.ClientCursor(connection)

    def begin(self, seconds: float, foreseen: Sequence[WholeQuery], *, durable: bool) -> int:
        """Begin with the lock of the partition; return the oldest schema that may be used. Raises psycopg's errors."""
        shared = "_shared" if self._partition is not None else ""
        self._deferred = [
            "BEGIN",
            f"SELECT set_config('lock_timeout', '{max(int(seconds * 1000), 1)}ms', TRUE),"
            f" set_config('idle_in_transaction_session_timeout', '{IDLE_SECONDS}s', TRUE),"
            f" set_config('synchronous_commit', '{'on' if durable else 'off'}', TRUE)",
            f"SELECT pg_advisory_xact_lock{shared}({_WRITES})",
            *([self._locking(self._partition)] if self._partition else ()),
            *([_TAKING.format(NUMBERS_AT_ONCE)] if self._partition != NO_PARTITION else ()),
            "SELECT oldest FROM schema",
        ]
        *_, locked, taken, (oldest,) = self._read_with_deferred(foreseen)
        if self._partition != NO_PARTITION:
            self._keep(taken)
        if self._partition and not locked:
            self._lock_new(self._partition)
        return oldest[0]

    def run(self, name: str, parameters: Parameters = (), /, **parts: str) -> Cursor:
        if is_change(name):
            self._ahead.clear()
        elif self._ahead or self._foresight.is_on:
            query = WholeQuery.of(name, parameters, parts)
            if query.key in self._ahead:
                return FoundRows(self._ahead[query.key])
            self._foresight.meet(query)
        if not self._deferred:
            return self.execute(name, parameters, **parts)
        with traced("sql", name):
            self._defer(name, postgres_statement(name, tuple(parts.items())), parameters)
            cursor = self._sent()
            while cursor.nextset():
                pass
            return cursor

    def run_each(self, name: str, rows: Iterable[Parameters], /) -> None:
        for row in rows:
            self.defer(name, row)

    def defer(self, name: str, parameters: Parameters = (), /) -> None:
        if not self._is_adding:
            self._ahead.clear()
        self._defer(name, postgres_statement(name), parameters)
        self._waiting += len(self._deferred[-1])
        if self._waiting > MOST_WAITING:
            self._sent()

    def read_ahead(self, reads: Iterable[Callable[[], object]], /) -> None:
        asked = [*self._foresight.of(reads).values()]
        needed = max(NUMBERS_AT_ONCE, min(len(asked), MOST_NUMBERS))  # Of much that is read, much is changed.
        for first in range(0, len(asked), MOST_AHEAD):
            if is_short := self._partition != NO_PARTITION and len(self._numbers) < needed:
                self._deferred.append(_TAKING.format(needed))
            found = self._read_with_deferred(asked[first : first + MOST_AHEAD])
            if is_short:
                self._keep(found[-1])

    @contextmanager
    def adding(self) -> Generator[None]:
        self._is_adding = True
        try:
            yield
        finally:
            self._is_adding = False

    def forget_ahead(self) -> None:
        self._ahead.clear()

    def _read_with_deferred(self, asked: Iterable[WholeQuery]) -> Sequence[Sequence[Row]]:
        """Read these ahead, in the journey of what was deferred; return the rows of that."""
        before, places = len(self._deferred), dict[object, int]()
        for query in asked:
            self._defer(query.name, query.sql, query.parameters)
            places[query.key] = len(self._deferred) - 1
        found = each_result(self._sent())
        self._ahead.update({key: list(found[place]) for key, place in places.items()})
        return found[:before]

    def _defer(self, name: str, sql: str, parameters: Parameters) -> None:
        place = place_of(name, self._upkeep_role) if self._upkeep_role else None
        if place is not None and place != self._place:
            self._place = place
            self._deferred.append(self._writer.mogrify(STAND, place))
        self._deferred.append(self._writer.mogrify(sql.encode(), given(sql, parameters)))

    def _sent(self) -> psycopg.Cursor[Any]:
        """Send what was deferred; return its results, at the first of them."""
        said, self._deferred, self._waiting = "; ".join(self._deferred), [], 0
        return self.raw.execute(said.encode())

    @contextmanager
    def _standing(self, name: str) -> Generator[None]:
        if self._deferred:
            self._sent()
        with super()._standing(name):
            yield

    def hold(self, partition: str) -> bool:
        if self.holds(partition):
            return False
        if not self.raw.execute(self._locking(partition).encode()).fetchone():
            self._lock_new(partition)
        self._held.add(partition)
        self._ahead.clear()
        self._numbers.clear()  # Others have had higher ones there.
        return True

    def holds(self, partition: str) -> bool:
        return partition in self._held or None in self._held

    def hold_grounds(self) -> bool:
        if self._holds_grounds:
            return False
        self.raw.execute(f"SELECT pg_advisory_xact_lock({_GROUNDS})".encode())
        self._holds_grounds = True
        self._ahead.clear()
        return True

    @property
    def first_change(self) -> int:
        if not self._numbers and not self._first:
            self._take()
        self._first = self._first or self._numbers[0]
        return self._first

    def next_change(self) -> int:
        if not self._numbers:
            self._take()
        self._first = self._first or self._numbers[0]
        return self._numbers.pop(0)

    def skip_changes(self, newest: int) -> None:
        self.raw.execute("SELECT setval('changes', greatest(last_value, %s)) FROM changes", (newest,))
        self._numbers.clear()

    def commit(self) -> None:
        """Note the mark and commit, in one journey with what was deferred. Raises psycopg's errors."""
        now = time.time()
        steps = [f"INSERT INTO commits (mark, at) VALUES ('{self.mark}', {now})", "COMMIT"]  # noqa: S608
        if random.random() < FORGETTING:  # An index may be at the newest change, whenever it was made.
            # Another write that deletes at the same time passes over these rows, and so waits for nobody.
            steps.insert(
                1,
                "DELETE FROM commits WHERE mark IN (SELECT c.mark FROM commits AS c"  # noqa: S608
                f" WHERE c.at < {now - MARKS_KEPT_SECONDS}"
                " AND NOT EXISTS (SELECT 1 FROM partitions AS p WHERE p.last_write = c.mark) FOR UPDATE SKIP LOCKED)",
            )
        self._deferred += steps
        self._sent()

    def _take(self) -> None:
        """Take further numbers, under the locks that are held: each is higher than any that was committed there."""
        assert self._partition != NO_PARTITION, "Such a write changes nothing that indexes follow."
        self._keep(self.raw.execute(_TAKING.format(min(max(self._taken, 1), MOST_NUMBERS)).encode()).fetchall())

    def _keep(self, taken: Sequence[Row]) -> None:
        self._numbers += sorted(row[0] for row in taken)
        self._taken += len(taken)

    def _lock_new(self, partition: str) -> None:
        """Lock a partition that had no row, which another write may have made meanwhile: what was read may be old."""
        name = sql.Literal(partition).as_string(self.raw)
        making = f"INSERT INTO partitions (name, newest, last_write, records, bytes) VALUES ({name}, 0, '', 0, 0)"  # noqa: S608
        self.raw.execute(f"{making} ON CONFLICT DO NOTHING; {self._locking(partition)}".encode())
        self._ahead.clear()
        self._numbers.clear()

    def _locking(self, partition: str) -> str:
        name = sql.Literal(partition).as_string(self.raw)
        return f"SELECT 1 FROM partitions WHERE name = {name} FOR UPDATE"  # noqa: S608
