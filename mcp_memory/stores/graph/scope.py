"""The graph of one scope: adds and removes the links of each record. Knows no caller."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence, Set
from typing import Any

from mcp_memory.domain.text.entity_extraction import MAX_LENGTH
from mcp_memory.ports.changes import RecordChange
from mcp_memory.ports.retrieval import GraphNode
from mcp_memory.stores.graph.file_maps import FiledMap, Table
from mcp_memory.stores.graph.map_codecs import NOTHING, SCOPE_MAPS, Links, Pair

ALIAS_WEIGHT = 1.0  # both names mean one thing
MAX_ALIASES = 20
"""Other names that one record may give an entity; longer lists name other things."""


class ScopeGraph:
    """Nodes are joined by mentions, tasks, corrections and relations between entities. Not thread-safe.

    A node without links does not exist. An edge's ends show its kind. Relations and aliases, which join entities, are
    kept beside the graph with the records that state them.
    """

    def __init__(self, table: Table, first: int | None) -> None:
        """Begin with what a table holds from its mapping `first` on; with nothing for None."""
        self.maps: Sequence[FiledMap[Any, Any]] = [
            FiledMap(table.part(None if first is None else first + place, codec))
            for place, codec in enumerate(SCOPE_MAPS)
        ]
        """All that it holds, in the order of a table."""
        self._links: FiledMap[GraphNode, Links] = self.maps[0]
        self._stated: FiledMap[Pair, dict[str, float]] = self.maps[1]
        self._aliases: FiledMap[str, dict[str, set[str]]] = self.maps[2]
        self._pairs_of: FiledMap[str, frozenset[Pair]] = self.maps[3]
        self._successors: FiledMap[str, str] = self.maps[4]
        self._relations_of: FiledMap[str, int] = self.maps[5]
        self._by_degree: FiledMap[int, dict[str, None]] = self.maps[6]

    def __contains__(self, node: object) -> bool:
        return node in self._links

    def degree(self, node: GraphNode) -> int:
        return len(self._links[node])

    def links(self, node: GraphNode) -> Collection[GraphNode] | None:
        """Return its neighbours; None where it does not exist."""
        if node not in self._links:  # `get` would raise an error, and catch it.
            return None
        return self._links[node]

    def neighbours(self, node: GraphNode) -> Iterator[GraphNode]:
        return iter(self._links[node])

    def nodes(self) -> Iterator[GraphNode]:
        return iter(self._links)

    def statements(self, one: str, other: str) -> Mapping[str, float]:
        """Return records that relate the two entities, aliases included, each with its weight."""
        return self._stated.get(_pair(one, other), NOTHING)

    def aliases(self, key: str) -> Mapping[str, Set[str]]:
        """Return other names of the entity, each with the records that state it."""
        return self._aliases.get(key, {})

    def relations(self) -> Mapping[str, int]:
        """Return the number of relations of each record that states any."""
        return self._relations_of

    def most_linked(self, most: int) -> Iterator[tuple[int, str]]:
        """Yield (links, key) of the entities with at most `most` links, seen or not, the most linked first.

        Ties go to those linked last. Discard the iterator once the graph has changed.
        """
        for degree in sorted(self._by_degree, reverse=True):
            if degree <= most:
                yield from ((degree, key) for key in reversed(self._by_degree[degree]))

    def join(self, one: GraphNode, other: GraphNode) -> None:
        one, other = self._fewest_first(one, other)
        if one != other and not self._is_joined(one, other):
            for end, far in ((one, other), (other, one)):
                self._links.own(end, dict)[far] = NOTHING
            for end in (one, other):
                self._move(end, self.degree(end) - 1, self.degree(end))

    def put(self, change: RecordChange) -> None:
        """Add the links of a record that has none here yet."""
        record: GraphNode = ("record", change.id)
        for key in change.mentions:
            self.join(record, ("entity", key))
        if change.task_id:
            self.join(record, ("task", change.task_id))
        if change.superseded_by:
            self._successors[change.id] = change.superseded_by
            self.join(record, ("record", change.superseded_by))
        if change.relations or change.aliases:
            self._state(change)

    def take_back(self, record_id: str) -> None:
        """Remove this record's own links; links from others stay, in case it returns."""
        record: GraphNode = ("record", record_id)
        successor = self._successors.pop(record_id, None)
        if record in self:
            for neighbour in list(self.neighbours(record)):
                is_own = neighbour[1] == successor and self._successors.get(neighbour[1]) != record_id
                if neighbour[0] != "record" or is_own:
                    self._part(record, neighbour)
        self._relations_of.pop(record_id, None)
        for pair in self._pairs_of.pop(record_id, ()):
            self._take_alias_back(pair, record_id)
            stated = self._stated.own(pair, dict)
            del stated[record_id]
            if not stated:
                del self._stated[pair]
                self._part(("entity", pair[0]), ("entity", pair[1]))

    def forget(self, record_id: str) -> None:
        """Remove others' links to a record that will not return."""
        record: GraphNode = ("record", record_id)
        if record in self:
            for neighbour in list(self.neighbours(record)):
                self._part(record, neighbour)

    def all_links(self) -> frozenset[tuple[str, ...]]:
        """Return all links, for comparison."""
        edges = ((*sorted((repr(node), repr(far))),) for node, near in self._links.items() for far in near)
        stated = ((*pair, record, str(weight)) for pair, by in self._stated.items() for record, weight in by.items())
        aliased = (
            ("alias", key, other, record)
            for key, others in self._aliases.items()
            for other, records in others.items()
            for record in records
        )
        return frozenset((*edges, *stated, *aliased))

    def _state(self, change: RecordChange) -> None:
        weights: dict[Pair, float] = {}
        for source, _, target, weight in change.relations:
            pair = _pair(source, target)
            weights[pair] = max(weight, weights.get(pair, 0.0))
        for one, other in _taken(change.aliases):
            weights[_pair(one, other)] = ALIAS_WEIGHT
            for key, name in ((one, other), (other, one)):
                self._aliases.own(key, dict).setdefault(name, set()).add(change.id)
        for pair, weight in weights.items():
            self._stated.own(pair, dict)[change.id] = weight
            self.join(("entity", pair[0]), ("entity", pair[1]))
        self._pairs_of[change.id] = frozenset(weights)
        self._relations_of[change.id] = len(change.relations)

    def _take_alias_back(self, pair: Pair, record_id: str) -> None:
        for key, name in (pair, pair[::-1]):
            if record_id in self.aliases(key).get(name, ()):
                names = self._aliases.own(key, dict)
                names[name].remove(record_id)
                if not names[name]:
                    del names[name]
                if not names:
                    del self._aliases[key]

    def _part(self, one: GraphNode, other: GraphNode) -> None:
        """Remove an edge, and each end without other edges. An entity related to itself has none."""
        one, other = self._fewest_first(one, other)
        if self._is_joined(one, other):
            for end, far in ((one, other), (other, one)):
                del self._links.own(end, dict)[far]
            for end in (one, other):
                self._move(end, self.degree(end) + 1, self.degree(end))
                if not self.degree(end):
                    del self._links[end]

    def _is_joined(self, one: GraphNode, other: GraphNode) -> bool:
        return other in self._links.get(one, NOTHING)

    def _fewest_first(self, one: GraphNode, other: GraphNode) -> tuple[GraphNode, GraphNode]:
        """Return them so that the links of the first are the fewer to read."""
        is_more = len(self._links.get(one, NOTHING)) > len(self._links.get(other, NOTHING))
        return (other, one) if is_more else (one, other)

    def _move(self, node: GraphNode, before: int, now: int) -> None:
        """Keep entities by their number of links; drop those without any."""
        if node[0] != "entity":
            return
        if before:
            same = self._by_degree.own(before, dict)
            del same[node[1]]
            if not same:
                del self._by_degree[before]
        if now:
            self._by_degree.own(now, dict)[node[1]] = None


def _taken(aliases: Sequence[Pair]) -> Iterator[Pair]:
    """Yield MAX_ALIASES of each entity, the first in the alphabet, without those too long for a name."""
    count: Counter[str] = Counter()
    for key, alias in sorted(aliases):
        if len(alias) <= MAX_LENGTH and count[key] < MAX_ALIASES:
            count[key] += 1
            yield key, alias


def _pair(one: str, other: str) -> Pair:
    """Sort the pair: a relation can be walked both ways, so it is kept once."""
    return (one, other) if one <= other else (other, one)
