"""Exports a whole memory from the database or imports it: implements `Transfer`."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, fields, replace
from typing import Any

from mcp_memory.domain.model.ids import MADE_AT_MOST, number_of
from mcp_memory.domain.model.records import Instant, Json
from mcp_memory.domain.model.reviews import Review
from mcp_memory.domain.model.tasks import Task
from mcp_memory.domain.model.versions import Version
from mcp_memory.domain.text.words import entity_key, packed_terms
from mcp_memory.errors import Conflict, InvalidRequest
from mcp_memory.ports.text import Clock
from mcp_memory.ports.transfer import (
    EntityMentioned,
    ErasedRecord,
    KnownPlace,
    KnownSession,
    Origin,
    Piece,
    RelationSaid,
    UndoneSummary,
    WholeCompaction,
    WholeEntity,
    WholeExclusion,
    WholeGround,
    WholeRecord,
    WholeReplacement,
)
from mcp_memory.stores.records.database import Connection, Database, Row, Write
from mcp_memory.stores.records.reviews import put_review, read_review
from mcp_memory.stores.records.rows import (
    record_from_row,
    record_to_columns,
    task_from_row,
    task_to_columns,
    version_to_columns,
)
from mcp_memory.stores.records.sql_files import ENTERED
from mcp_memory.stores.records.transaction import versions_of

_REPLACEMENT_FIELDS = tuple(
    each.name
    for each in fields(WholeReplacement)
    if each.name not in ("record_id", "failed", "pinned", "covers", "replaces")
)
_COMPACTION_FIELDS = tuple(each.name for each in fields(WholeCompaction))
_SESSION_FIELDS = tuple(each.name for each in fields(KnownSession))


def _leaving(connection: Connection, record_id: str | None, namespace: str | None) -> str | None:
    """Return the id of a record that another piece refers to, if it leaves too: an import fails without it."""
    if record_id is None or namespace is None:
        return record_id
    return record_id if connection.run("leaves", (record_id, namespace)).fetchone() else None


def _record(connection: Connection, row: Row, namespace: str | None) -> WholeRecord:
    record = record_from_row(row)
    record = replace(record, superseded_by=_leaving(connection, record.superseded_by, namespace))
    leaving = {"id": record.id, "namespace": namespace}

    def of(name: str) -> list[Row]:
        return connection.run(name, (record.id,)).fetchall()

    aliases: dict[int, list[str]] = {}
    for entity, key in of("leaving_aliases"):
        aliases.setdefault(entity, []).append(key)
    return WholeRecord(
        record=record,
        also_told_in=tuple(key for (key,) in of("leaving_shared_lines")),
        taken_back_in=tuple(key for (key,) in of("leaving_taken_back")),
        versions=tuple(_standing(versions_of(connection, [record.id]).get(record.id, ()))),
        confirmed_in=tuple(session for (session,) in of("leaving_confirmations")),
        mentions=tuple(_mention(each, aliases) for each in of("leaving_mentions")),
        relations=tuple(RelationSaid(**_columns(each)) for each in of("leaving_relations")),
        grounds=tuple(_ground(each) for each in connection.run("leaving_grounds", leaving)),
        exclusions=tuple(WholeExclusion(**_columns(each)) for each in connection.run("leaving_exclusions", leaving)),
    )


def _alone(whole: WholeRecord, beside: Collection[str]) -> WholeRecord:
    """Return a record as it is, without its past and without what leaves neither with it nor beside it."""
    record = whole.record
    successor = record.superseded_by if record.superseded_by in beside else None
    bare = replace(record, task_id=None, branch_id=None, superseded_by=successor)
    return WholeRecord(record=bare, versions=(), confirmed_in=(), mentions=whole.mentions, relations=whole.relations)


def _standing(versions: Iterable[Version]) -> Iterator[Version]:
    """Leave out what was undone, and its undo: the two come to nothing."""
    return (each for each in versions if not each.undone)


def _ground(row: Row) -> WholeGround:
    columns = _columns(row)
    return WholeGround(found=bool(columns.pop("found")), **columns)


def _mention(row: Row, aliases: Mapping[int, list[str]]) -> EntityMentioned:
    entity, name, kind, properties, found = row
    said: dict[str, Json] = json.loads(properties)
    return EntityMentioned(
        name=name, type=kind, properties=said, found=bool(found), aliases=tuple(aliases.get(entity, ()))
    )


def _replacement(connection: Connection, row: Row, namespace: str | None) -> WholeReplacement:
    def of(name: str) -> tuple[str, ...]:
        return tuple(each for (each,) in connection.run(name, (row["row"],)))

    return WholeReplacement(
        **{name: row[name] for name in _REPLACEMENT_FIELDS},
        record_id=_leaving(connection, row["record_id"], namespace),
        failed=bool(row["failed"]),
        pinned=bool(row["pinned"]),
        covers=tuple(each for each in of("leaving_covers") if _leaving(connection, each, namespace)),
        replaces=of("leaving_replaced"),
    )


def _columns(row: Row) -> dict[str, Any]:
    return {name: row[name] for name in row.keys()}  # noqa: SIM118 - iterating a row gives its values


_PIECES: Mapping[str, Callable[[Connection, Row, str | None], Piece]] = {
    "leaving_tasks": lambda _, row, __: task_from_row(row),
    "leaving_sessions": lambda _, row, __: KnownSession(**{name: row[name] for name in _SESSION_FIELDS}),
    "leaving_places": lambda _, row, __: KnownPlace(**_columns(row)),
    "leaving_entities": lambda _, row, __: WholeEntity(**_columns(row)),
    "leaving_records": _record,
    "leaving_tombstones": lambda _, row, __: ErasedRecord(**_columns(row)),
    "leaving_compactions": lambda _, row, __: WholeCompaction(**{name: row[name] for name in _COMPACTION_FIELDS}),
    "leaving_replacements": _replacement,
    "leaving_undone_summaries": lambda _, row, __: UndoneSummary(**_columns(row)),
    "leaving_reviews": lambda connection, row, _: read_review(connection, row),
}
"""The statements in the order of the pieces, each after those it refers to."""


_PLAIN: Mapping[type, str] = {
    KnownSession: "enter_session",
    KnownPlace: "enter_place",
    WholeCompaction: "enter_compaction",
    UndoneSummary: "enter_undone_summary",
}
"""Pieces that are stored as one unchanged row, and the statement that inserts it."""


class _Entering:
    def __init__(self, connection: Write) -> None:
        self._db = connection
        self._newest = 0
        self._namespaces: dict[str, str] = {}
        """Namespaces of the tasks so far: a place or parent must be an earlier task of the same project."""

    def put(self, piece: Piece) -> None:
        if isinstance(piece, KnownPlace):
            self._require_task(piece.task_id, piece.namespace)
        if name := _PLAIN.get(type(piece)):
            self._run(name, asdict(piece))
        elif isinstance(piece, WholeRecord):
            self._record(piece)
        elif isinstance(piece, WholeReplacement):
            self._replacement(piece)
        elif isinstance(piece, Task):
            self._task(piece)
        elif isinstance(piece, ErasedRecord):
            self._erased(piece)
        elif isinstance(piece, WholeEntity):
            self._entity(piece)
        elif isinstance(piece, Review):
            self._known_id(piece.id)
            for number in filter(None, (piece.asked_in, piece.settled_in)):
                self._known_number(number, f"{number} is no number of a change.")
            put_review(self._db, piece)

    def finish(self, at: Instant) -> None:
        """Reserve the imported numbers, so that none is made again, and note the time up to which records count as new.

        Their dates stay, so that the same bytes leave again.
        """
        self._db.skip_changes(self._newest)
        self._run("fill_partitions", {"last_write": self._db.mark})
        row = self._db.run("newest_row").fetchone()[0]
        self._run("put_meta", (ENTERED, f"{self._newest} {row} {at}"))

    def _task(self, task: Task) -> None:
        self._known_id(task.id)
        if task.parent_id:
            self._require_task(task.parent_id, task.namespace)
        self._namespaces[task.id] = task.namespace
        self._run("add_task", task_to_columns(task, self._next_change()))

    def _entity(self, entity: WholeEntity) -> None:
        key = entity_key(entity.name)
        self._run("enter_entity", {**asdict(entity), "name_key": key, "change": self._next_change()})

    def _erased(self, erased: ErasedRecord) -> None:
        self._known_id(erased.id)
        self._run("enter_tombstone", {**asdict(erased), "change": self._next_change()})

    def _record(self, whole: WholeRecord) -> None:
        record = whole.record
        self._known_id(record.id)
        versions = [self._numbered(version) for version in whole.versions]
        record = replace(record, changed=max((version.change for version in versions), default=0))
        self._run("insert_record", record_to_columns(record, self._next_change()))
        self._run("put_tags", (record.id,))
        self._run("put_terms", {"id": record.id, "terms": packed_terms(record.indexed_text)})
        self._run("await_vectors", (record.id,))
        for version in versions:
            self._run("add_version", version_to_columns(record.id, version))
        for ground in whole.grounds:
            for number in (ground.vouched, ground.change):
                self._known_number(number, f"{number} is no number of a change.")
            self._run("enter_ground", {**asdict(ground), "record_id": record.id})
        for exclusion in whole.exclusions:
            self._known_number(exclusion.write, f"{exclusion.write} is no number of a change.")
            self._run("enter_exclusion", {**asdict(exclusion), "record_id": record.id})
        for session in whole.confirmed_in:
            self._db.run("enter_confirmation", (record.id, session))
        self._lines(whole)
        for mention in whole.mentions:
            self._mention(whole, mention)
        for relation in whole.relations:
            ends = {"source_key": entity_key(relation.source), "target_key": entity_key(relation.target)}
            where = {"record_id": record.id, "scope": record.scope, "change": self._next_change()}
            if not self._db.run("enter_relation", {**asdict(relation), **ends, **where}).rowcount:
                raise InvalidRequest(f"Its relation {relation.type!r} has an end that did not come before it.")

    def _lines(self, whole: WholeRecord) -> None:
        for name, keys in (("enter_shared_line", whole.also_told_in), ("enter_taken_back", whole.taken_back_in)):
            for key in keys:
                agent, _, session = key.partition("/")
                self._run(name, {"id": whole.record.id, "agent": agent, "session_id": session})

    def _numbered(self, version: Version) -> Version:
        if not version.change:
            change = self._next_change()
            version = replace(version, change=change, write=change)
        for number in (version.change, version.write):
            self._known_number(number, f"{number} is no number of a change.")
        return version

    def _mention(self, whole: WholeRecord, mention: EntityMentioned) -> None:
        said = {
            "record_id": whole.record.id,
            "scope": whole.record.scope,
            "name_key": entity_key(mention.name),
            "type": mention.type,
            "properties": json.dumps(dict(mention.properties), ensure_ascii=False),
            "found": mention.found,
        }
        rows = self._db.run("enter_mention", said).fetchall()
        if not rows:
            raise InvalidRequest(f"It mentions an entity of type {mention.type!r} that did not come before it.")
        for key in mention.aliases:
            self._run("add_alias", (rows[0]["entity"], whole.record.id, key))

    def _replacement(self, piece: WholeReplacement) -> None:
        columns = {name: value for name, value in asdict(piece).items() if name not in ("covers", "replaces")}
        added = self._db.run("add_replacement", {**columns, "change": self._next_change()}).fetchone()
        if added is None:
            raise InvalidRequest("It is there twice.")
        self._run("cover_originals", {"ids": json.dumps(piece.covers), "replacement": added["row"]})
        for earlier in piece.replaces:
            self._run("enter_successor", {**columns, "id": earlier, "replacement": added["row"]})

    def _require_task(self, task_id: str, namespace: str) -> None:
        if self._namespaces.get(task_id) != namespace:
            raise InvalidRequest(f"It refers to a task {task_id!r} of its project that did not come before it.")

    def _known_id(self, made_id: str) -> None:
        self._known_number(number_of(made_id), f"{made_id!r} is no id of a memory.")

    def _known_number(self, number: int, otherwise: str) -> None:
        """Accept only numbers that changes can plausibly have had: see `MADE_AT_MOST`."""
        if not 0 < number <= MADE_AT_MOST:
            raise InvalidRequest(otherwise)
        self._newest = max(self._newest, number)

    def _next_change(self) -> int:
        return self._db.next_change()

    def _run(self, name: str, parameters: Sequence[object] | Mapping[str, object]) -> None:
        self._db.run(name, parameters)


class SqlTransfer:
    """Implements `Transfer` on the database of a record store."""

    def __init__(self, database: Database, clock: Clock) -> None:
        self._database = database
        self._clock = clock

    def leave(self, namespace: str | None = None) -> Iterator[Origin | Piece]:
        chosen = {"namespace": namespace}
        with self._database.read() as connection:  # One snapshot for all that follows.
            pieces = sum(connection.count(name, chosen) for name in _PIECES)
            yield Origin(schema=self._database.schema_version, namespace=namespace, pieces=pieces)
            for name, made in _PIECES.items():
                for row in connection.stream(name, chosen):
                    yield made(connection, row, namespace)

    def select(self, record_ids: Sequence[str]) -> Iterator[Origin | Piece]:
        chosen = {"ids": json.dumps(record_ids)}
        with self._database.read() as connection:
            entities = connection.run("selected_entities", chosen).fetchall()
            rows = connection.run("selected_records", chosen).fetchall()
            ids = {row["id"] for row in rows}
            yield Origin(schema=self._database.schema_version, namespace=None, pieces=len(entities) + len(rows))
            yield from (WholeEntity(**_columns(row)) for row in entities)
            yield from (_alone(_record(connection, row, None), ids) for row in rows)

    def is_empty(self) -> bool:
        return not self._database.rows("anything_stored")[0][0]

    def enter(self, pieces: Iterable[Piece]) -> None:
        with self._database.write() as connection:
            if connection.run("anything_stored").fetchone()[0]:
                raise Conflict("This memory is not empty; import into an empty data directory.")
            entering = _Entering(connection)
            for piece in pieces:
                try:
                    entering.put(piece)
                except self._database.integrity_error as error:
                    raise InvalidRequest("It is there twice, or refers to what did not come before it.") from error
            entering.finish(self._clock())
