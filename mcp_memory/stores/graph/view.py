"""One caller's view of the graph: every walk, every count and every name passes through here."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from math import fsum, log
from operator import itemgetter
from typing import TYPE_CHECKING, NamedTuple

from mcp_memory.domain.model.graph import DECAY
from mcp_memory.domain.model.ids import RecordSet
from mcp_memory.domain.text.entity_extraction import name_candidates
from mcp_memory.domain.text.lexicon import STOP_WORDS
from mcp_memory.ports.retrieval import GraphNode, GraphSummary

if TYPE_CHECKING:
    from mcp_memory.stores.graph.scope import ScopeGraph

MAX_FAN = 500
"""Maximum visible links of a useful node: one with more distinguishes nothing, and nothing is found through it."""
MAX_LOOKED_AT = 20 * MAX_FAN
"""Links of a node, seen or not, that are read: a bound on work, far above what branches hide in practice."""
MAX_KNOWN = 50_000
"""Records of which a view keeps whether it shows them, about 5 MB."""
MAX_NAMES = 50
"""Names of one entity; one with more is a mistake that ties everything to everything."""

_KIND = itemgetter(0)


class Known(dict[str, bool]):
    """Keeps what was found by record: a walk asks for that of every neighbour, hence no mapping of ours."""

    def __init__(self, find: Callable[[str], bool]) -> None:
        super().__init__()
        self._find = find

    def __missing__(self, record_id: str) -> bool:
        if len(self) >= MAX_KNOWN:
            self.clear()
        found = self[record_id] = self._find(record_id)
        return found


class RecordPlace(NamedTuple):
    """A place decides who sees a record: its scope and branch, and whether another one replaced it."""

    scope: str
    branch_id: str | None
    is_replaced: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class GraphView:
    """The graphs of a caller's scopes as one, without the records of hidden branches. Not thread-safe.

    `place_of` returns that of a live record, and None for any other; `visible` counts the records in each place that
    the caller sees; `is_whole` is True if these are all places in its scopes. `shows[id]` is True for a record that is
    part of the view.
    """

    graphs: Sequence[ScopeGraph]
    hidden: frozenset[str]
    place_of: Callable[[str], RecordPlace | None]
    visible: Mapping[RecordPlace, int]
    is_whole: bool
    shows: Mapping[str, bool]
    is_narrowed: bool = False

    def narrowed(self, only: RecordSet | None, exclude: Collection[str]) -> GraphView:
        """Return the view as if only records of `only` existed, none of `exclude`, and none superseded."""
        visible = {place: count for place, count in self.visible.items() if not place.is_replaced}
        is_narrowed = only is not None or bool(exclude) or len(visible) < len(self.visible)
        without = frozenset(exclude)

        def shows(record_id: str) -> bool:
            passes = record_id not in without and (only is None or record_id in only)
            return passes and self.place_of(record_id) in visible

        return replace(self, visible=visible, shows=Known(shows), is_narrowed=is_narrowed)

    def sees(self, node: GraphNode) -> bool:
        """Return True where the caller may see a node. An entity beside a visible one is as visible as their link."""
        if node[0] == "record":
            return self.shows[node[1]]
        return node[0] == "entity" or node[1] not in self.hidden

    def neighbours(self, node: GraphNode) -> Mapping[GraphNode, float]:
        """Return visible neighbours with the weights of their links; none where there are too many."""
        return self.links_of(node) or {}

    def links_of(self, node: GraphNode) -> Mapping[GraphNode, float] | None:
        """Return the same as `neighbours`, but None where there are too many."""
        linked = self._linked(node)
        counts = [len(links) for _, links in linked]
        # Where nothing is hidden, all links of an entity in one scope are visible: no need to look at each.
        is_plain = self.is_whole and not self.is_narrowed and node[0] == "entity"
        if (is_plain and max(counts, default=0) > MAX_FAN) or sum(counts) > MAX_LOOKED_AT:
            return None
        near: dict[GraphNode, float] = {}
        # So are all entities beside a visible record or task.
        usual = "entity" if node[0] != "entity" else "record" if is_plain else ""
        for graph, links in linked:
            if usual and {usual}.issuperset(map(_KIND, links)):
                near |= dict.fromkeys(links, 1.0)
            elif not self._look_at(graph, node, links, near):
                return None
        return near if len(near) <= MAX_FAN else None

    def _linked(self, node: GraphNode) -> list[tuple[ScopeGraph, Collection[GraphNode]]]:
        """Return the graphs that have a node, each with its links there."""
        found = ((graph, graph.links(node)) for graph in self.graphs)
        return [(graph, links) for graph, links in found if links is not None]

    def _look_at(
        self, graph: ScopeGraph, node: GraphNode, links: Collection[GraphNode], near: dict[GraphNode, float]
    ) -> bool:
        """Add the visible ones of a node's links, with their weights; return False once there are too many."""
        shows = self.shows  # Looked up for every neighbour.
        for neighbour in links:
            if neighbour[0] == "record":
                if shows[neighbour[1]]:
                    near[neighbour] = 1.0
            elif weight := self._weight(graph, node, neighbour):
                near[neighbour] = max(weight, near.get(neighbour, 0.0))
            if len(near) > MAX_FAN:
                return False
        return True

    def strongest_paths(
        self, start: GraphNode, reached: Collection[GraphNode]
    ) -> Mapping[GraphNode, Sequence[GraphNode]]:
        """Return the paths from the start to these nodes through each other on which most activation comes.

        Both ends are part of a path. Imports networkx.
        """
        if not reached:
            return {}
        import networkx as nx  # A tenth of a second, which no search needs.

        walked: nx.DiGraph[GraphNode] = nx.DiGraph()
        for node in sorted(reached):  # Of equally strong paths, the first is taken.
            near = self.neighbours(node)
            passed_on = DECAY / (fsum(near.values()) or 1.0)
            steps = ((node, far, -log(passed_on * weight)) for far, weight in sorted(near.items()) if far in reached)
            walked.add_weighted_edges_from(steps)
        return nx.single_source_dijkstra_path(walked, start)

    def stated(self, one: str, other: str) -> Mapping[str, float]:
        """Return the visible records that relate two entities, each with its weight."""
        stated = (each for graph in self.graphs for each in graph.statements(one, other).items())
        return {record_id: weight for record_id, weight in stated if self.sees(("record", record_id))}

    def is_everywhere(self, node: GraphNode) -> bool:
        """Return True for too many links to be useful; most nodes need no look for that."""
        links = sum(graph.degree(node) for graph in self.graphs)
        return links > MAX_FAN and self.links_of(node) is None

    def named_in(self, text: str) -> Sequence[str]:
        """Return keys of visible entities in a text, in order, the longest of those that overlap."""
        keys: dict[str, None] = {}
        taken = 0
        for start, end, key in name_candidates(text):
            is_free = start >= taken and self._is_joined(("entity", key), MAX_LOOKED_AT)
            # "It" or "Will" may be a name, but a question that begins with it does not mean the name.
            if is_free and (key not in STOP_WORDS or (start > 0 and text[start].isupper())):
                keys[key] = None
                taken = end
        return list(keys)

    def named_beside(self, record_id: str, most: int, is_key: Callable[[str], bool]) -> Mapping[str, Sequence[str]]:
        """Return the keys of the entities that a record mentions, with the other records of each; at most `most`."""
        start: GraphNode = ("record", record_id)
        beside: dict[str, Sequence[str]] = {}
        for node in self.neighbours(start) if self.sees(start) else ():
            # Most names that many mention are told by their links alone, which are quicker counted than read.
            if node[0] != "entity" or not is_key(node[1]) or sum(graph.degree(node) for graph in self.graphs) > MAX_FAN:
                continue
            others = [far[1] for far in self.neighbours(node) if far[0] == "record" and far != start]
            if 0 < len(others) <= most:
                beside[node[1]] = others
        return beside

    def weights(self, keys: Sequence[str]) -> Mapping[str, float]:
        """Weight the keys and their aliases by how few records mention their entity, in (0, 1]."""
        everyone = sum(self.visible.values())
        weights: dict[str, float] = {}
        counts: dict[str, int | None] = {}  # An entity that is named twice is counted once.
        for key in keys:
            names = self.names_of(key)
            counts |= {name: self._count_mentions(name) for name in names if name not in counts}
            known = [count for name in names if (count := counts[name]) is not None]
            if len(known) < len(names) or not sum(known):
                continue
            # Each name has its share, so that a record counts the same by any name of the entity.
            unit = log(1 + everyone / sum(known)) / log(1 + everyone) / sum(known)
            for name, count in zip(names, known, strict=True):
                if count:
                    weights[name] = max(weights.get(name, 0.0), unit * count)
        return weights

    def summary(self) -> GraphSummary:
        things = {node for graph in self.graphs for node in graph.things() if self.sees(node)}
        entities = [node for node in things if node[0] == "entity"]
        if self.hidden:
            entities = [node for node in entities if self._is_joined(node)]
        return GraphSummary(
            records=sum(self.visible.values()),
            entities=len(entities),
            relations=sum(
                count
                for graph in self.graphs
                for record_id, count in graph.relations().items()
                if self.sees(("record", record_id))
            ),
            tasks=sum(node[0] == "task" for node in things),
        )

    def _is_joined(self, node: GraphNode, most: int | None = None) -> bool:
        """Return True where the caller sees any neighbour of the node, among the first `most` links where given."""
        linked = self._linked(node)
        if not linked:  # Most words of a query name nothing.
            return False
        every = ((graph, near) for graph, links in linked for near in links)
        return any(self._weight(graph, node, near) for graph, near in islice(every, most))

    def _weight(self, graph: ScopeGraph, node: GraphNode, neighbour: GraphNode) -> float:
        """Return the weight of an edge; 0 where its far end, or every record that states the relation, is hidden."""
        if neighbour[0] == "entity":
            if node[0] != "entity":
                return 1.0
            statements = graph.statements(node[1], neighbour[1]).items()
            return max((weight for record_id, weight in statements if self.sees(("record", record_id))), default=0.0)
        return float(self.sees(neighbour))

    def names_of(self, key: str) -> Sequence[str]:
        """Return the key and its synonyms by visible records; the nearest MAX_NAMES."""
        names: dict[str, None] = {key: None}
        latest = [key]
        while latest and len(names) < MAX_NAMES:
            others = {other for name in latest for other in self._aliases_of(name)}
            # Alphabetical: the order of storage, perhaps of unseen records, must not decide which are left out.
            latest = sorted(others - names.keys())[: MAX_NAMES - len(names)]
            names |= dict.fromkeys(latest)
        return list(names)

    def _aliases_of(self, key: str) -> Iterator[str]:
        """Yield its other names by visible records."""
        aliases = (alias for graph in self.graphs for alias in graph.aliases(key).items())
        for other, stated in islice(aliases, MAX_LOOKED_AT):
            if any(self.sees(("record", record_id)) for record_id in stated):
                yield other

    def _count_mentions(self, key: str) -> int | None:
        """Count the visible records that mention it; None for too many."""
        near = self.links_of(("entity", key))
        return None if near is None else sum(node[0] == "record" for node in near)
