"""Values and rows of PostgreSQL, which a connection takes and gives as SQLite does."""

from __future__ import annotations

from collections.abc import Callable, Iterator, KeysView, Mapping, Sequence
from typing import Any

import psycopg
from psycopg.abc import Buffer
from psycopg.types.numeric import Int8Dumper, NumericBinaryLoader, NumericLoader
from psycopg.types.string import StrDumper, StrDumperUnknown

from mcp_memory.stores.records.database import Cursor, Row
from mcp_memory.stores.records.postgres_journeys import ArrayLiteral


class FoundRows:
    """Implements `Cursor` on rows that were found before."""

    def __init__(self, rows: Sequence[Any]) -> None:
        self.rowcount = len(rows)
        self._left = iter(rows)

    def fetchone(self) -> Any:
        return next(self._left, None)

    def fetchall(self) -> list[Any]:
        return list(self._left)

    def __iter__(self) -> Iterator[Any]:
        return self._left

    def close(self) -> None:
        """Nothing is open."""


def each_result(cursor: psycopg.Cursor[Any]) -> list[Sequence[Row]]:
    """Return the rows of each statement that was sent; none of one that finds none."""
    found = list[Sequence[Row]]()
    while True:
        found.append(cursor.fetchall() if cursor.pgresult and cursor.pgresult.nfields else ())
        if not cursor.nextset():
            return found


def only_value(found: Cursor) -> Any:
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
    result = cursor.pgresult  # Its `description` would make an object of each column.
    names = {(result.fname(place) or b"").decode(): place for place in range(result.nfields)} if result else {}
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
