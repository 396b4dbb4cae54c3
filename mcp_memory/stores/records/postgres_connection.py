"""A connection to PostgreSQL as the stores use it; a write's has its locks, its mark and the numbers of its changes."""

from __future__ import annotations

import random
import secrets
import time
from collections.abc import Callable, Generator, Iterable, Iterator, KeysView, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Any

import psycopg
from psycopg import sql
from psycopg.abc import Buffer
from psycopg.rows import tuple_row
from psycopg.types.numeric import Int8Dumper, NumericBinaryLoader, NumericLoader
from psycopg.types.string import StrDumper, StrDumperUnknown

from mcp_memory.ports.changes import Columns
from mcp_memory.ports.tracing import traced
from mcp_memory.stores.records.database import NO_PARTITION, Parameters, Row
from mcp_memory.stores.records.postgres_journeys import ArrayLiteral, given
from mcp_memory.stores.records.sql_files import postgres_statement
from mcp_memory.stores.records.walls_postgres import STAND, Place, place_of

MARKS_KEPT_SECONDS, FORGETTING = 86_400.0, 0.01
"""The time that marks of commits are kept, and the share of writes that delete older ones."""
NUMBERS_AT_ONCE, MOST_NUMBERS = 8, 1_024
"""Change numbers that a write takes with its first journey, and with each further one as many as it has, to a bound."""
_TAKING = "SELECT nextval('changes') FROM generate_series(1, {})"
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

    def run(self, name: str, parameters: Parameters = (), /, **parts: str) -> psycopg.Cursor[Any]:
        sql = postgres_statement(name, tuple(parts.items()))
        with traced("sql", name), self._standing(name):
            return self.raw.execute(sql.encode(), given(sql, parameters), binary=True)

    def run_each(self, name: str, rows: Iterable[Parameters], /) -> None:
        sql = postgres_statement(name)
        with traced("sql", name), self._standing(name), self.raw.cursor() as cursor:
            cursor.executemany(sql.encode(), [given(sql, row) for row in rows])

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
    for each other.
    """

    def __init__(self, connection: psycopg.Connection[Any], partition: str | None, upkeep_role: str = "") -> None:
        super().__init__(connection, upkeep_role)
        self.mark = secrets.token_hex(16)
        self._partition = partition
        self._held = {partition}
        self._holds_grounds = partition is None
        self._numbers: list[int] = []
        self._taken = self._first = 0

    def begin(self, seconds: float, *, durable: bool) -> int:
        """Begin with the lock of the partition; return the oldest schema that may be used. Raises psycopg's errors."""
        shared = "_shared" if self._partition is not None else ""
        steps = [
            "BEGIN",
            f"SET LOCAL lock_timeout = '{max(int(seconds * 1000), 1)}ms'",
            f"SET LOCAL idle_in_transaction_session_timeout = '{IDLE_SECONDS}s'",
            f"SET LOCAL synchronous_commit = {'on' if durable else 'off'}",
            f"SELECT pg_advisory_xact_lock{shared}({_WRITES})",
            *(self._locking(self._partition) if self._partition else ()),
            *([_TAKING.format(NUMBERS_AT_ONCE)] if self._partition != NO_PARTITION else ()),
            "SELECT oldest FROM schema",
        ]
        *_, taken, (oldest,) = self._found(steps)
        if self._partition != NO_PARTITION:
            self._keep(taken)
        return oldest[0]

    def together(self) -> AbstractContextManager[object]:
        return self.raw.pipeline()

    def hold(self, partition: str) -> bool:
        if self.holds(partition):
            return False
        self._found(self._locking(partition))
        self._held.add(partition)
        self._numbers.clear()  # Others have had higher ones there.
        return True

    def holds(self, partition: str) -> bool:
        return partition in self._held or None in self._held

    def hold_grounds(self) -> bool:
        if self._holds_grounds:
            return False
        self.raw.execute(f"SELECT pg_advisory_xact_lock({_GROUNDS})".encode())
        self._holds_grounds = True
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
        """Note the mark and commit, in one journey. Raises psycopg's errors."""
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
        self.raw.execute("; ".join(steps).encode())

    def _take(self) -> None:
        """Take further numbers, under the locks that are held: each is higher than any that was committed there."""
        assert self._partition != NO_PARTITION, "Such a write changes nothing that indexes follow."
        self._keep(self.raw.execute(_TAKING.format(min(max(self._taken, 1), MOST_NUMBERS)).encode()).fetchall())

    def _keep(self, taken: Sequence[Row]) -> None:
        self._numbers = sorted(row[0] for row in taken)
        self._taken += len(taken)

    def _locking(self, partition: str) -> tuple[str, str]:
        name = sql.Literal(partition).as_string(self.raw)
        return (
            f"INSERT INTO partitions (name, newest, last_write, records, bytes) VALUES ({name}, 0, '', 0, 0)"  # noqa: S608
            " ON CONFLICT DO NOTHING",
            f"SELECT 1 FROM partitions WHERE name = {name} FOR UPDATE",  # noqa: S608
        )

    def _found(self, steps: Sequence[str]) -> Sequence[Sequence[Row]]:
        """Run statements in one journey; return the rows of each."""
        cursor = self.raw.execute("; ".join(steps).encode())
        found = list[Sequence[Row]]()
        while True:
            found.append(cursor.fetchall() if cursor.description else ())
            if not cursor.nextset():
                return found


def only_value(found: psycopg.Cursor[Any]) -> Any:
    """Return the only value that a query finds."""
    row = found.fetchone()
    return row[0] if row else None


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


def named_rows(cursor: psycopg.Cursor[Any]) -> Callable[[Sequence[Any]], PostgresRow]:
    """Make rows that have their values by name and by place."""
    names = {column.name: place for place, column in enumerate(cursor.description or ())}
    return lambda values: PostgresRow(values, names)


class _TextDumper(StrDumper):
    """Dump a text as one, also where a statement does not say so; no text of PostgreSQL's holds NUL."""

    def dump(self, obj: str) -> Buffer | None:
        return super().dump(obj.replace("\0", "\N{REPLACEMENT CHARACTER}") if "\0" in obj else obj)

    def quote(self, obj: str) -> Buffer:
        """Say that it is a text where it is written into a statement: "json_each" is also a function of others."""
        return bytes(super().quote(obj)) + b"::text"


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


def adapt(connection: psycopg.Connection[Any]) -> None:
    """Make a connection take and give values as SQLite does: flags are 0 and 1, and sums are numbers."""
    connection.adapters.register_dumper(str, _TextDumper)
    connection.adapters.register_dumper(bool, _FlagDumper)
    connection.adapters.register_dumper(ArrayLiteral, StrDumperUnknown)  # Of the type that the statement names.
    connection.adapters.register_loader("numeric", _SumLoader)
    connection.adapters.register_loader("numeric", _BinarySumLoader)
