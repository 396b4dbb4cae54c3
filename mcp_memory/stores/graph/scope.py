"""The graph of one scope: adds and removes the links of each record. Knows no caller."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence, Set
from typing import NamedTuple

from mcp_memory.domain.text.entity_extraction import MAX_LENGTH
from mcp_memory.ports.retrieval import GraphNode
from mcp_memory.stores.graph.links import Links, LoadedLinks

ALIAS_WEIGHT = 1.0  # both names mean one thing
MAX_ALIASES = 20
"""Other names that one record may give an entity; longer lists name other things."""
_SAID_BYTES = 400
"""Bytes of a pair of names that a record states, and of a record that states some, about."""
Pair = tuple[str, str]
_UNSTATED: Mapping[str, float] = {}


class Statements(NamedTuple):
    """The aliases and relations that a record states, by keys: (key, other name); (source, target, weight)."""

    aliases: list[Pair]
    relations: list[tuple[str, str, float]]

    def weights(self) -> Mapping[Pair, float]:
        """Return the weight of each pair that they join: the highest of its relations, or that of an alias."""
        weights: dict[Pair, float] = {}
        for source, target, weight in self.relations:
            pair = _pair(source, target)
            weights[pair] = max(weight, weights.get(pair, 0.0))
        return weights | {_pair(*names): ALIAS_WEIGHT for names in _taken(self.aliases)}


class LinkedRecord(NamedTuple):
    """A record with all that links it: keys of entities, a task, its successor, what it states."""

    id: str
    mentions: Collection[str]
    task_id: str | None
    superseded_by: str | None
    states: Statements | None

    def nodes(self) -> Iterator[GraphNode]:
        """Yield its own neighbours."""
        for key in self.mentions:
            yield ("entity", key)
        if self.task_id:
            yield ("task", self.task_id)
        if self.superseded_by:
            yield ("record", self.superseded_by)


class ScopeGraph:
    """Nodes are joined by mentions, tasks, corrections and relations between entities. Not thread-safe.

    A node without links does not exist. An edge's ends show its kind. Relations and aliases, which join entities, are
    kept beside the links with the records that state them.
    """

    def __init__(self, loaded: LoadedLinks) -> None:
        self._links = Links(loaded)
        self._stated: dict[Pair, dict[str, float]] = {}
        self._aliases: dict[str, dict[str, set[str]]] = {}
        self._pairs_of: dict[str, Collection[Pair]] = {}
        self._successors: dict[str, str] = {}
        self._relations_of: dict[str, int] = {}

    @property
    def bytes(self) -> int:
        """The memory that it takes beside the links that were loaded, about."""
        said = len(self._stated) + len(self._aliases) + len(self._pairs_of) + len(self._successors)
        return self._links.bytes + _SAID_BYTES * said

    def degree(self, node: GraphNode) -> int:
        """Return the number of its neighbours; 0 where it does not exist."""
        return self._links.count(node)

    def links(self, node: GraphNode) -> Collection[GraphNode] | None:
        """Return its neighbours; None where it does not exist."""
        return self._links.of(node) or None

    def things(self) -> Iterator[GraphNode]:
        """Yield its entities and tasks."""
        return self._links.things()

    def statements(self, one: str, other: str) -> Mapping[str, float]:
        """Return records that relate the two entities, aliases included, each with its weight."""
        return self._stated.get(_pair(one, other), _UNSTATED)

    def aliases(self, key: str) -> Mapping[str, Set[str]]:
        """Return other names of the entity, each with the records that state it."""
        return self._aliases.get(key, {})

    def relations(self) -> Mapping[str, int]:
        """Return the number of relations of each record that states any."""
        return self._relations_of

    def most_linked(self, most: int) -> Iterator[tuple[int, str]]:
        """Yield (links, key) of the entities with at most `most` links, seen or not.

        The most linked come first, ties by key. Discard the iterator once the graph has changed.
        """
        return ((count, node[1]) for count, node in self._links.most_linked(most) if node[0] == "entity")

    def join(self, one: GraphNode, other: GraphNode) -> None:
        self._links.join(one, other)

    def put(self, record: LinkedRecord) -> None:
        """Add the links of a record that has none here yet."""
        for node in record.nodes():
            self.join(("record", record.id), node)
        self.note(record)
        for one, other in self._pairs_of.get(record.id, ()):
            self.join(("entity", one), ("entity", other))

    def note(self, record: LinkedRecord) -> None:
        """Keep what a record says beside its links, which are there or follow."""
        if record.superseded_by:
            self._successors[record.id] = record.superseded_by
        if record.states:
            weights = record.states.weights()
            for one, other in _taken(record.states.aliases):
                for key, name in ((one, other), (other, one)):
                    self._aliases.setdefault(key, {}).setdefault(name, set()).add(record.id)
            for pair, weight in weights.items():
                self._stated.setdefault(pair, {})[record.id] = weight
            self._pairs_of[record.id] = list(weights)
            self._relations_of[record.id] = len(record.states.relations)

    def take_back(self, record_id: str) -> None:
        """Remove this record's own links; those from others go with a change of theirs, if it does not return."""
        record: GraphNode = ("record", record_id)
        successor = self._successors.pop(record_id, None)
        for neighbour in list(self._links.of(record)):
            is_own = neighbour[1] == successor and self._successors.get(neighbour[1]) != record_id
            if neighbour[0] != "record" or is_own:
                self._links.part(record, neighbour)
        self._relations_of.pop(record_id, None)
        for pair in self._pairs_of.pop(record_id, ()):
            self._take_alias_back(pair, record_id)
            stated = self._stated[pair]
            del stated[record_id]
            if not stated:
                del self._stated[pair]
                self._links.part(("entity", pair[0]), ("entity", pair[1]))

    def all_links(self) -> frozenset[tuple[str, ...]]:
        """Return all links, for comparison."""
        edges = ((*sorted((repr(node), repr(far))),) for node in self._links for far in self._links.of(node))
        stated = ((*pair, record, str(weight)) for pair, by in self._stated.items() for record, weight in by.items())
        aliased = (
            ("alias", key, other, record)
            for key, others in self._aliases.items()
            for other, records in others.items()
            for record in records
        )
        return frozenset((*edges, *stated, *aliased))

    def _take_alias_back(self, pair: Pair, record_id: str) -> None:
        for key, name in (pair, pair[::-1]):
            if record_id in self.aliases(key).get(name, ()):
                names = self._aliases[key]
                names[name].remove(record_id)
                if not names[name]:
                    del names[name]
                if not names:
                    del self._aliases[key]


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
