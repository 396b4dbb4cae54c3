"""Keeps the log of reads: implements `ReadStore`."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from math import inf

from mcp_memory.domain.model.records import Instant
from mcp_memory.ports.reads import ReadEntry
from mcp_memory.stores.records.database import Database, Row


class SqlReads:
    """Implements `ReadStore` on the database of a record store; the port documents each method."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def add(self, entries: Sequence[ReadEntry]) -> None:
        rows = [asdict(each) | {"ids": json.dumps(each.ids, separators=(",", ":"))} for each in entries]
        with self._database.write(durable=False) as connection:
            connection.run_each("add_read", rows)
            by_record = [{name: row[name] for name in ("at", "request", "ids")} for row in rows]
            connection.run_each("add_read_records", by_record)

    def prune(self, before: Instant) -> None:
        oldest = self._database.rows("oldest_read")[0][0]
        if oldest is None or oldest >= before:
            return
        with self._database.write(durable=False) as connection:
            for name in ("prune_reads", "prune_read_records"):
                connection.run(name, (before,))

    def entries(
        self, namespace: str, limit: int, *, agent: str = "", before: tuple[Instant, str] | None = None
    ) -> Sequence[ReadEntry]:
        asked = {"namespace": namespace, "agent": agent, "limit": limit, **_place(before)}
        return [_entry(row) for row in self._database.rows("list_reads", asked)]

    def of_record(
        self, record_id: str, limit: int, *, namespace: str = "", agent: str = "",
        before: tuple[Instant, str] | None = None,
    ) -> Sequence[ReadEntry]:  # fmt: skip
        asked = {"id": record_id, "namespace": namespace, "agent": agent, "limit": limit, **_place(before)}
        return [_entry(row) for row in self._database.rows("reads_of_record", asked)]

    def between(self, since: Instant, until: Instant) -> Iterator[ReadEntry]:
        with self._database.read() as connection:
            yield from map(_entry, connection.stream("all_reads", {"since": since, "until": until}))


def _place(before: tuple[Instant, str] | None) -> dict[str, Instant | str]:
    at, request = before or (inf, "")
    return {"at": at, "request": request}


def _entry(row: Row) -> ReadEntry:
    columns = dict(row)
    return ReadEntry(ids=tuple(json.loads(columns.pop("ids"))), **columns)
