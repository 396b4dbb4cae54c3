"""Reads the statements of records: texts, entities, relations, confidences. Implements `StatementReader`."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence

from mcp_memory.domain.model.records import Entity, Instant, Outcome, Relation
from mcp_memory.domain.model.scopes import RecordFilter
from mcp_memory.ports.records import Mention, StatedRelation
from mcp_memory.stores.records.database import Database
from mcp_memory.stores.records.filters import filtered
from mcp_memory.stores.records.statements import statement
from mcp_memory.stores.records.transaction import learnt

DECISIONS_JUDGED = 1000


class SqliteStatementReader:
    """Implements `StatementReader` on the database of a record store; the port documents each method."""

    _database: Database

    def find_texts(self, texts: Collection[tuple[str, str]]) -> set[tuple[str, str]]:
        rows = self._database.rows(statement("find_texts"), {"pairs": json.dumps(list(texts))})
        return {(scope, digest) for scope, digest in rows}

    def find_learnt(self, said: Collection[tuple[str, str]]) -> Mapping[tuple[str, str], Collection[str | None]]:
        with self._database.read() as connection:
            return learnt(connection, said)

    def old_texts(self, record_id: str) -> Sequence[tuple[Instant, str]]:
        return [(at, text) for at, text in self._database.rows(statement("old_texts"), (record_id,))]

    def links(self, record_id: str) -> tuple[Sequence[Entity], Sequence[Relation]]:
        mentioned = self._database.rows(statement("entities_of"), (record_id,))
        related = self._database.rows(statement("relations_of"), (record_id,))
        return [_entity(*row) for row in mentioned], [_relation(*row) for row in related]

    def mentions(self, keys: Collection[str], where: RecordFilter, found_by: Collection[str] = ()) -> Sequence[Mention]:
        named = {"keys": json.dumps(list(keys)), "found_by": json.dumps(list(found_by))}
        rows = self._database.rows(*filtered("mentions_of", where, **named))
        return [Mention(key=key, entity=_entity(*entity), record_id=said_by) for key, *entity, said_by in rows]

    def statements(self, keys: Collection[str], where: RecordFilter, limit: int) -> Sequence[StatedRelation]:
        rows = self._database.rows(*filtered("statements_about", where, keys=json.dumps(list(keys)), limit=limit))
        return [StatedRelation(relation=_relation(*relation), record_id=said_by) for *relation, said_by in rows]

    def judged_confidences(self, where: RecordFilter) -> Sequence[tuple[float, Outcome]]:
        rows = self._database.rows(*filtered("judged_confidences", where, limit=DECISIONS_JUDGED))
        return [(confidence, outcome) for confidence, outcome in rows]


def _entity(name: str, kind: str, properties: str, found: int) -> Entity:
    return Entity(name=name, type=kind, properties=json.loads(properties), found=bool(found))


def _relation(source: str, kind: str, target: str, weight: float) -> Relation:
    return Relation(source=source, type=kind, target=target, weight=weight)
