"""Takes the whole truth out, a piece at a time. Knows no form in which it is written down."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from dataclasses import fields, replace
from typing import Any

from mcp_memory.domain.model.records import Json
from mcp_memory.ports.transfer import (
    EarlierText,
    EntityMentioned,
    ErasedRecord,
    KnownEntity,
    KnownPlace,
    KnownSession,
    Origin,
    Piece,
    RelationSaid,
    UndoneSummary,
    WholeCompaction,
    WholeRecord,
    WholeReplacement,
)
from mcp_memory.stores.records.database import Database
from mcp_memory.stores.records.rows import record_from_row, task_from_row
from mcp_memory.stores.records.statements import statement

_REPLACEMENT_FIELDS = tuple(
    each.name
    for each in fields(WholeReplacement)
    if each.name not in ("record_id", "failed", "pinned", "covers", "replaces")
)
_COMPACTION_FIELDS = tuple(each.name for each in fields(WholeCompaction))
_SESSION_FIELDS = tuple(each.name for each in fields(KnownSession))


def leave(database: Database, namespace: str | None) -> Iterator[Origin | Piece]:
    """See `Transfer.leave`."""
    chosen = {"namespace": namespace}
    with database.read() as connection:
        connection.execute("BEGIN")  # One snapshot for all that follows.
        try:
            pieces = sum(_count(connection, name, chosen) for name in _PIECES)
            yield Origin(schema=database.schema_version, namespace=namespace, pieces=pieces)
            for name, made in _PIECES.items():
                with closing(connection.execute(statement(name), chosen)) as rows:
                    for row in rows:
                        yield made(connection, row, namespace)
        finally:
            connection.execute("ROLLBACK")


def _count(connection: sqlite3.Connection, name: str, chosen: Mapping[str, str | None]) -> int:
    sql = statement(name).rstrip(";")
    return connection.execute(f"SELECT count(*) FROM ({sql})", chosen).fetchone()[0]  # noqa: S608 - a file of ours


def _leaving(connection: sqlite3.Connection, record_id: str | None, namespace: str | None) -> str | None:
    """The id of a record that another piece refers to, where it leaves as well: else nobody could take the piece in."""
    if record_id is None or namespace is None:
        return record_id
    return record_id if connection.execute(statement("leaves"), (record_id, namespace)).fetchone() else None


def _record(connection: sqlite3.Connection, row: sqlite3.Row, namespace: str | None) -> WholeRecord:
    record = record_from_row(row)
    record = replace(record, superseded_by=_leaving(connection, record.superseded_by, namespace))

    def of(name: str) -> list[sqlite3.Row]:
        return connection.execute(statement(name), (record.id,)).fetchall()

    aliases: dict[int, list[str]] = {}
    for entity, key in of("leaving_aliases"):
        aliases.setdefault(entity, []).append(key)
    return WholeRecord(
        record=record,
        earlier=tuple(EarlierText(**_columns(each)) for each in of("leaving_texts")),
        confirmed_in=tuple(session for (session,) in of("leaving_confirmations")),
        mentions=tuple(_mention(each, aliases) for each in of("leaving_mentions")),
        relations=tuple(RelationSaid(**_columns(each)) for each in of("leaving_relations")),
    )


def _mention(row: sqlite3.Row, aliases: Mapping[int, list[str]]) -> EntityMentioned:
    entity, name, kind, properties, found = row
    said: dict[str, Json] = json.loads(properties)
    return EntityMentioned(
        name=name, type=kind, properties=said, found=bool(found), aliases=tuple(aliases.get(entity, ()))
    )


def _replacement(connection: sqlite3.Connection, row: sqlite3.Row, namespace: str | None) -> WholeReplacement:
    def of(name: str) -> tuple[str, ...]:
        return tuple(each for (each,) in connection.execute(statement(name), (row["row"],)))

    return WholeReplacement(
        **{name: row[name] for name in _REPLACEMENT_FIELDS},
        record_id=_leaving(connection, row["record_id"], namespace),
        failed=bool(row["failed"]),
        pinned=bool(row["pinned"]),
        covers=tuple(each for each in of("leaving_covers") if _leaving(connection, each, namespace)),
        replaces=of("leaving_replaced"),
    )


def _columns(row: sqlite3.Row) -> dict[str, Any]:
    return {name: row[name] for name in row.keys()}  # noqa: SIM118 - iterating a row gives its values


_PIECES: Mapping[str, Callable[[sqlite3.Connection, sqlite3.Row, str | None], Piece]] = {
    "leaving_tasks": lambda _, row, __: task_from_row(row),
    "leaving_sessions": lambda _, row, __: KnownSession(**{name: row[name] for name in _SESSION_FIELDS}),
    "leaving_places": lambda _, row, __: KnownPlace(**_columns(row)),
    "leaving_entities": lambda _, row, __: KnownEntity(**_columns(row)),
    "leaving_records": _record,
    "leaving_tombstones": lambda _, row, __: ErasedRecord(**_columns(row)),
    "leaving_compactions": lambda _, row, __: WholeCompaction(**{name: row[name] for name in _COMPACTION_FIELDS}),
    "leaving_replacements": _replacement,
    "leaving_undone_summaries": lambda _, row, __: UndoneSummary(**_columns(row)),
}
"""The statements in the order of the pieces, each after those it refers to."""
