"""Statements that go to PostgreSQL together, as one journey over the network: their values are written into them."""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NamedTuple

import psycopg
from psycopg import generators, sql

from mcp_memory.errors import StoreUnavailable
from mcp_memory.stores.records.database import Parameters
from mcp_memory.stores.records.sql_files import postgres_statement

NOTING_MILLISECONDS = 1
"""The longest wait for a lock of a write that may be lost."""
_LIST = "list_"
"""Names of lists begin so in a statement of PostgreSQL's."""
# e.g. "= ANY (%(list_scopes)s::text[])", and "= ANY (%s::text[])"
_NAMED, _MARK = re.compile(r"%\((\w+)\)s"), re.compile(r"%s(::\w+\[\])?")


class ArrayLiteral(str):
    """An array as PostgreSQL writes it, e.g. `{"a", "b"}`: a JSON list in other brackets, half the cost of a list."""

    __slots__ = ()


class Foreseen(Exception):
    """A read that was foreseen: what it asks is known now, and no row is."""


class WholeQuery(NamedTuple):
    """A query: its name, text and parameters. `key` is the same for the same query."""

    key: object
    name: str
    sql: str
    parameters: Parameters

    @classmethod
    def of(cls, name: str, parameters: Parameters, parts: Mapping[str, str]) -> WholeQuery:
        key = (name, repr(parameters), *parts.items())
        return cls(key, name, postgres_statement(name, tuple(parts.items())), parameters)

    def written(self, connection: psycopg.Connection[Any]) -> str:
        """Return the statement with its values in it."""
        return psycopg.ClientCursor(connection).mogrify(self.sql.encode(), given(self.sql, self.parameters))


@dataclass(frozen=True, slots=True, kw_only=True)
class Noting:
    """Statements of telemetry that are run together, as a role if any, and what to do where they could not be."""

    queries: Sequence[WholeQuery]
    failed: Callable[[StoreUnavailable], object]
    waits: bool
    role: str

    def steps(self, connection: psycopg.Connection[Any]) -> Iterator[str]:
        """Yield the statements of a transaction, with their values in them."""
        yield "BEGIN"
        yield "SET LOCAL synchronous_commit = off"
        if not self.waits:
            yield f"SET LOCAL lock_timeout = '{NOTING_MILLISECONDS}ms'"
        if self.role:
            yield f"SET LOCAL ROLE {sql.Identifier(self.role).as_string(connection)}"
        yield from (each.written(connection) for each in self.queries)
        yield "COMMIT"


class Foresight(threading.local):
    """The queries of a thread's reads, while these are foreseen."""

    def __init__(self) -> None:
        self._asked: dict[object, WholeQuery] | None = None

    @property
    def is_on(self) -> bool:
        """True while reads are foreseen."""
        return self._asked is not None

    def meet(self, query: WholeQuery) -> None:
        """Note the query, and end its read, where reads are foreseen."""
        if self._asked is not None:
            self._asked[query.key] = query
            raise Foreseen

    def of(self, reads: Iterable[Callable[[], object]]) -> Mapping[object, WholeQuery]:
        """Return what the reads ask that are not answered yet; within another foresight they join that one."""
        outer = self._asked
        found = self._asked = {} if outer is None else outer
        try:
            for read in reads:
                with suppress(Foreseen):
                    read()
        finally:
            self._asked = outer
        return found if outer is None else {}


def given(sql: str, parameters: Parameters) -> Parameters:
    """Return the parameters as a statement of PostgreSQL's takes them: lists, which are JSON, as arrays.

    Numbered placeholders have names, e.g. `p4` for `?4`.
    """
    is_named, lists = _placeholders(sql)
    if not isinstance(parameters, Mapping):
        if not is_named:
            pairs = zip(parameters, lists, strict=True) if lists else ()
            return [_array(value) if is_list else value for value, is_list in pairs] or parameters
        parameters = {f"p{place}": value for place, value in enumerate(parameters, start=1)}
    arrays = {name: _array(parameters[name.removeprefix(_LIST)]) for name in lists}
    return {**parameters, **arrays} if arrays else parameters


@lru_cache(maxsize=1_024)
def _placeholders(sql: str) -> tuple[bool, Sequence[str]]:
    """Return whether placeholders have names, and the names of lists; else a text for each, "" for what is no list."""
    if named := _NAMED.findall(sql):
        return True, sorted({name for name in named if name.startswith(_LIST)})
    marks = _MARK.findall(sql)
    return False, marks if any(marks) else ()


def _array(value: object) -> ArrayLiteral | Sequence[object]:
    text = "[]" if value is None else str(value)
    if "\\" in text:  # Only escapes differ, e.g. "\\u00e9".
        return json.loads(text)
    return ArrayLiteral(f"{{{text[1:-1]}}}")


def found_at_once(
    connection: psycopg.Connection[Any], queries: Sequence[WholeQuery], stand: str = ""
) -> dict[object, list[Any]]:
    """Return the rows of each query, by its key; `stand` is a statement that goes before them."""
    cursor = connection.execute("; ".join([*filter(None, [stand]), *(q.written(connection) for q in queries)]).encode())
    if stand:
        cursor.nextset()
    return _taken(cursor, queries)


def begun_with(
    connection: psycopg.Connection[Any], begin: str, asked: Sequence[WholeQuery]
) -> tuple[list[Any], dict[object, list[Any]]]:
    """Begin a transaction by two statements, the second of which finds rows; return these, and those of the queries."""
    said = "; ".join([begin, *(query.written(connection) for query in asked)])
    cursor = connection.execute(said.encode())
    cursor.nextset()
    first = cursor.fetchall()
    cursor.nextset()
    return first, _taken(cursor, asked)


def note_at_once(connection: psycopg.Connection[Any], left: list[Noting]) -> None:
    """Run each in a transaction of its own, one after the other until one fails; take out of the list what is stored.

    None waits for the disk. A transaction that the connection is still in, which has only read, ends first.
    Raises psycopg's errors.
    """
    is_idle = connection.info.transaction_status == psycopg.pq.TransactionStatus.IDLE
    steps = [] if is_idle else ["ROLLBACK"]
    steps += (step for each in left for step in each.steps(connection))
    with connection.lock:  # `execute` would tell of the failure alone, and not of what was stored before it.
        connection.pgconn.send_query("; ".join(steps).encode())
        results = connection.wait(generators.execute(connection.pgconn))
    del left[: sum(result.command_status == b"COMMIT" for result in results)]
    for result in results:
        if result.status == psycopg.pq.ExecStatus.FATAL_ERROR:
            raise psycopg.errors.error_from_result(result)


def _taken(cursor: psycopg.Cursor[Any], queries: Sequence[WholeQuery]) -> dict[object, list[Any]]:
    found: dict[object, list[Any]] = {}
    for query in queries:
        found[query.key] = cursor.fetchall()
        cursor.nextset()
    return found
