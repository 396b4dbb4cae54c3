"""What one thing is connected to, and how two are tied, as `mcp-memory graph` shows it."""

from collections.abc import Sequence
from dataclasses import asdict

from mcp_memory.domain.model.records import Json, Record
from mcp_memory.domain.model.scopes import Caller
from mcp_memory.domain.text.words import entity_key
from mcp_memory.errors import NotFound
from mcp_memory.ports.records import MemoryReader
from mcp_memory.ports.retrieval import GraphNode, GraphStore
from mcp_memory.services.retrieval.ties import told
from mcp_memory.services.status.overview import LINKS_SHOWN, Overview
from mcp_memory.services.tasks.branch_visibility import hidden_branches


class Connections:
    """Things are the entities that records mention, by any of their names, and records by id. Thread-safe."""

    def __init__(self, records: MemoryReader, graph: GraphStore, overview: Overview) -> None:
        self._records = records
        self._graph = graph
        self._overview = overview

    def about(self, thing: str, caller: Caller) -> dict[str, Json]:
        """Return what a thing is connected to, and what stands on it: on a record, or on the newest that mention it.

        Raises NotFound where the caller sees no such thing.
        """
        kind, key = self._node(thing, caller)
        if kind == "record":
            shown = self._overview.record(key, caller)
            names = ("id", "text", "entities", "relations", "near", "depends_on", "dependents", "further")
            return {name: shown[name] for name in names if shown.get(name)}
        hidden = hidden_branches(self._records, caller)
        [entity] = self._graph.entities([key], caller.scopes, 0, hidden)
        relations = self._graph.relations(entity.keys, caller.scopes, 1, LINKS_SHOWN, hidden)
        records = self._overview.seen_of(entity.records, caller)
        footings = [self._overview.footing(record_id, caller) for record_id in records]
        shown = {"name": entity.name, "records": _brief([*records.values()])}
        shown["relations"] = [asdict(each.relation) for each in relations]
        for name in ("dependents", "further"):
            found = {str(each["id"]): each for footing in footings for each in footing[name]}
            shown[name] = [each for record_id, each in found.items() if record_id not in records]
        return {name: value for name, value in shown.items() if value}

    def between(self, one: str, other: str, caller: Caller) -> dict[str, Json]:
        """Return the strongest path between two things and its records.

        Raises NotFound where the caller sees no such thing, or none.
        """
        ends = [self._node(thing, caller) for thing in (one, other)]
        path = self._graph.path(*ends, caller.scopes, hidden_branches(self._records, caller))
        if not path:
            raise NotFound(f"Nothing that is stored ties {one!r} to {other!r}.")
        tie = told(path, self._records)
        records = self._overview.seen_of(tie.records, caller)
        return {"tie": tie.line, "records": _brief([records[each] for each in tie.records if each in records])}

    def _node(self, thing: str, caller: Caller) -> GraphNode:
        """Return the node of a record by its id, or of an entity by one of its names. Raises NotFound."""
        if self._overview.seen_of([thing], caller):
            return ("record", thing)
        key = entity_key(thing)
        if not self._graph.entities([key], caller.scopes, 0, hidden_branches(self._records, caller)):
            raise NotFound(f"Nothing here names {thing!r}, or nearly everything does.")
        return ("entity", key)


def _brief(records: Sequence[Record]) -> list[Json]:
    return [{"id": each.id, "kind": each.kind, "text": each.micro} for each in records]
