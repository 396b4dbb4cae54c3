"""Reads records' statements about entities and their relations, by the entities' keys."""

import json
import sqlite3
from collections.abc import Collection, Sequence

from mcp_memory.domain.model.records import Entity, Relation
from mcp_memory.domain.model.scopes import RecordFilter
from mcp_memory.ports.records import Mention, StatedRelation
from mcp_memory.stores.records.filters import Parameter, where_clause
from mcp_memory.stores.records.statements import statement


def mentions(
    connection: sqlite3.Connection, keys: Collection[str], where: RecordFilter, found_by: Collection[str]
) -> Sequence[Mention]:
    """See `RecordStore.mentions`."""
    named: dict[str, Parameter] = {"keys": json.dumps(list(keys)), "found_by": json.dumps(list(found_by))}
    return [
        Mention(
            key=key,
            entity=Entity(name=name, type=kind, properties=json.loads(properties), found=bool(found)),
            record_id=record_id,
        )
        for key, name, kind, properties, found, record_id in _rows(connection, "mentions_of", where, named)
    ]


def statements(
    connection: sqlite3.Connection, keys: Collection[str], where: RecordFilter, limit: int
) -> Sequence[StatedRelation]:
    """See `RecordStore.statements`."""
    named: dict[str, Parameter] = {"keys": json.dumps(list(keys)), "limit": limit}
    return [
        StatedRelation(relation=Relation(source=source, type=kind, target=target, weight=weight), record_id=record_id)
        for source, kind, target, weight, record_id in _rows(connection, "statements_about", where, named)
    ]


def _rows(
    connection: sqlite3.Connection, name: str, where: RecordFilter, named: dict[str, Parameter]
) -> list[sqlite3.Row]:
    clause, parameters = where_clause(where)
    return connection.execute(statement(name).replace("{where}", clause), {**parameters, **named}).fetchall()
