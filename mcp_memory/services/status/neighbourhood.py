"""A record's links for display: entities, relations, its task, the records it replaced, and the nearest records."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict

from mcp_memory.domain.model.records import Entity, Json, Record
from mcp_memory.domain.model.scopes import Caller
from mcp_memory.domain.text.entity_extraction import entity_key
from mcp_memory.ports.records import MemoryReader
from mcp_memory.ports.retrieval import GraphNeighbour, GraphStore

NEAR_SHOWN = 5
NEAR_LOOKED_AT = 20
"""Records looked at, more than are shown, because the ones that the record replaced are among them."""
LINKS_SHOWN = 20
"""Limit on entities, and the same on relations; a caller who stored a hundred knows them."""


def neighbourhood(
    record: Record, caller: Caller, hidden: frozenset[str], records: MemoryReader, graph: GraphStore
) -> dict[str, Json]:
    """Return the links of a record that the caller sees, and through them other visible records; about 500 tokens."""
    entities, relations = records.links(record.id)
    connections = graph.neighbourhood(record.id, caller.scopes, NEAR_LOOKED_AT, hidden)
    near = records.get([connection.id for connection in connections], caller.scopes)
    replaced = [other.id for other in near.values() if other.superseded_by == record.id]
    others = [c for c in connections if c.id in near and c.id not in (*replaced, record.superseded_by)][:NEAR_SHOWN]
    names = _names([*entities, *(entity for c in others for entity in records.links(c.id)[0])])
    return {
        "entities": [_shown_entity(entity) for entity in entities[:LINKS_SHOWN]],
        "relations": [asdict(relation) for relation in relations[:LINKS_SHOWN]],
        "task": _task(record, caller, records),
        "supersedes": replaced,
        "near": [_shown_connection(connection, near[connection.id], names) for connection in others],
    }


def _names(entities: Iterable[Entity]) -> Mapping[str, str]:
    """Map keys of entities to their spellings."""
    return {entity_key(entity.name): entity.name for entity in entities}


def _shown_entity(entity: Entity) -> dict[str, Json]:
    """Show the caller's statements about an entity, or that the text mentions it."""
    if entity.found:
        return {"name": entity.name, "type": entity.type, "found": True}
    return {"name": entity.name, "type": entity.type, "properties": dict(entity.properties)}


def _shown_connection(connection: GraphNeighbour, record: Record, names: Mapping[str, str]) -> dict[str, Json]:
    """Show a near record and the nodes between; for a superseded one, the id that links the two."""
    via: Sequence[str] = [names.get(key, key) if kind == "entity" else key for kind, key in connection.path]
    return {"id": record.id, "kind": record.kind, "text": record.micro, "via": via}


def _task(record: Record, caller: Caller, records: MemoryReader) -> Json:
    """Return the task in which the record was made, where it is in the caller's namespace."""
    tasks = {task.id: task for task in records.tasks(caller.namespace)} if record.task_id else {}
    task = tasks.get(record.task_id or "")
    return {"id": task.id, "goal": task.goal, "status": task.status} if task else None
