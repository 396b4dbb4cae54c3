"""Puts a whole truth into an empty database, a piece at a time. Knows no form in which it was written down."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict

from mcp_memory.domain.model.ids import MADE_AT_MOST, number_of
from mcp_memory.domain.model.tasks import Task
from mcp_memory.domain.text.entity_extraction import entity_key
from mcp_memory.domain.text.words import packed_terms
from mcp_memory.errors import Conflict, InvalidRequest
from mcp_memory.ports.transfer import (
    EntityMentioned,
    ErasedRecord,
    KnownEntity,
    KnownPlace,
    KnownSession,
    Piece,
    UndoneSummary,
    WholeCompaction,
    WholeRecord,
    WholeReplacement,
)
from mcp_memory.stores.records.rows import record_to_columns, task_to_columns
from mcp_memory.stores.records.statements import statement
from mcp_memory.stores.records.transaction import UNEMBEDDED

_PLAIN: Mapping[type, str] = {
    KnownSession: "enter_session",
    KnownPlace: "enter_place",
    WholeCompaction: "enter_compaction",
    UndoneSummary: "enter_undone_summary",
}
"""Pieces that are a row as they are, and the statement that inserts it."""


def is_empty(connection: sqlite3.Connection) -> bool:
    """See `Transfer.is_empty`."""
    return not connection.execute(statement("anything_stored")).fetchone()[0]


def enter(connection: sqlite3.Connection, pieces: Iterable[Piece]) -> None:
    """See `Transfer.enter`; within a write transaction that is rolled back where this raises."""
    if not is_empty(connection):
        raise Conflict("This memory is not empty; import into an empty data directory.")
    entering = _Entering(connection)
    for piece in pieces:
        try:
            entering.put(piece)
        except sqlite3.IntegrityError as error:
            raise InvalidRequest("It is there twice, or refers to what did not come before it.") from error
    entering.finish()


class _Entering:
    def __init__(self, connection: sqlite3.Connection) -> None:
        self._db = connection
        self._change: int = connection.execute("SELECT value FROM sequence").fetchone()[0]
        self._newest_id = 0
        self._namespaces: dict[str, str] = {}
        """Those of the tasks so far: nobody stands in another project's tree, or below what comes later."""
        self._has_records = False

    def put(self, piece: Piece) -> None:
        if isinstance(piece, KnownPlace) and self._namespaces.get(piece.task_id) != piece.namespace:
            raise InvalidRequest(f"It refers to a task {piece.task_id!r} of its project that did not come before it.")
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
        elif isinstance(piece, KnownEntity):
            self._entity(piece)

    def finish(self) -> None:
        """No id that was brought is ever made again, and every record waits for its vectors."""
        self._db.execute(statement("raise_sequence"), (max(self._change, self._newest_id),))
        if self._has_records:
            self._run("put_meta", (UNEMBEDDED, str(self._change)))

    def _task(self, task: Task) -> None:
        self._known_id(task.id)
        if task.parent_id and self._namespaces.get(task.parent_id) != task.namespace:
            raise InvalidRequest(f"It refers to a task {task.parent_id!r} of its project that did not come before it.")
        self._namespaces[task.id] = task.namespace
        self._run("add_task", task_to_columns(task, self._next_change()))

    def _entity(self, entity: KnownEntity) -> None:
        key = entity_key(entity.name)
        self._run("enter_entity", {**asdict(entity), "name_key": key, "change": self._next_change()})

    def _erased(self, erased: ErasedRecord) -> None:
        self._known_id(erased.id)
        self._run("enter_tombstone", {**asdict(erased), "change": self._next_change()})

    def _record(self, whole: WholeRecord) -> None:
        record = whole.record
        self._known_id(record.id)
        self._has_records = True
        self._run("insert_record", record_to_columns(record, self._next_change()))
        self._run("put_tags", (record.id,))
        self._run("put_terms", {"id": record.id, "terms": packed_terms(record.searchable_text)})
        for earlier in whole.earlier:
            self._run("enter_text", {**asdict(earlier), "record_id": record.id, "change": self._next_change()})
        for session in whole.confirmed_in:
            self._db.execute("INSERT INTO confirmations (record_id, session_id) VALUES (?, ?)", (record.id, session))
        for mention in whole.mentions:
            self._mention(whole, mention)
        for relation in whole.relations:
            ends = {"source_key": entity_key(relation.source), "target_key": entity_key(relation.target)}
            where = {"record_id": record.id, "scope": record.scope, "change": self._next_change()}
            if not self._db.execute(statement("enter_relation"), {**asdict(relation), **ends, **where}).rowcount:
                raise InvalidRequest(f"Its relation {relation.type!r} has an end that did not come before it.")

    def _mention(self, whole: WholeRecord, mention: EntityMentioned) -> None:
        said = {
            "record_id": whole.record.id,
            "scope": whole.record.scope,
            "name_key": entity_key(mention.name),
            "type": mention.type,
            "properties": json.dumps(dict(mention.properties), ensure_ascii=False),
            "found": mention.found,
        }
        rows = self._db.execute(statement("enter_mention"), said).fetchall()
        if not rows:
            raise InvalidRequest(f"It mentions an entity of type {mention.type!r} that did not come before it.")
        for key in mention.aliases:
            self._run("add_alias", (rows[0]["entity"], whole.record.id, key))

    def _replacement(self, piece: WholeReplacement) -> None:
        columns = {name: value for name, value in asdict(piece).items() if name not in ("covers", "replaces")}
        added = self._db.execute(statement("add_replacement"), {**columns, "change": self._next_change()}).fetchone()
        if added is None:
            raise InvalidRequest("It is there twice.")
        self._run("cover_originals", {"ids": json.dumps(piece.covers), "replacement": added["row"]})
        for earlier in piece.replaces:
            self._run("enter_successor", {**columns, "id": earlier, "replacement": added["row"]})

    def _known_id(self, made_id: str) -> None:
        """No number but those that changes are likely to have had: see `MADE_AT_MOST`."""
        number = number_of(made_id)
        if not 0 < number <= MADE_AT_MOST:
            raise InvalidRequest(f"{made_id!r} is no id of a memory.")
        self._newest_id = max(self._newest_id, number)

    def _next_change(self) -> int:
        self._change += 1
        return self._change

    def _run(self, name: str, parameters: Sequence[object] | Mapping[str, object]) -> None:
        self._db.execute(statement(name), parameters)
