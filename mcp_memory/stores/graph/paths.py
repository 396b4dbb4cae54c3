"""Paths and topics: NetworkX finds them in the part of a graph that a request reaches.

It is imported with the first of these questions, in a tenth of a second, which no other search needs.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from heapq import heappop, heappush
from itertools import combinations, pairwise
from math import log
from typing import TYPE_CHECKING

from mcp_memory.domain.text.entity_extraction import MAX_FOUND
from mcp_memory.ports.retrieval import GraphNode, GraphTopic, Holders
from mcp_memory.stores.graph.lookup import most_linked
from mcp_memory.stores.graph.view import GraphView

if TYPE_CHECKING:
    import networkx as nx

MOST_NAMED = 3
"""Things, the rarest, among which two are tied."""
DIRECT_LINKS = 10
"""A record that mentions no more things ties any two of them; a longer one is a list, and ties them weakly."""
LEAST_PATH, MAX_PATH = 5, 9
"""Nodes of a tie: a single record is found by its words, and over more than four everything is tied to everything."""
MAX_MET = 1_500
"""Links read from either end, a few milliseconds: four records away where names are rare."""
MAX_TOPIC_ENTITIES, TOPIC_RECORDS = 200, 3
"""Entities that topics are made of, the most linked ones, and records that two must share to be of one topic."""
# "datasette#2127", "https://example.org/a"
_NO_TOPIC = re.compile(r".*#\d+|[a-z]+://.*")
"""Keys that nobody would call a topic: the number of an issue, an address."""
FEW_LINKS = 10
"""Links up to which an entity's name is looked for in texts, too: such a name is rare, and its records are few."""
_STATED_COST = log(2)
"""The cost of a relation of weight 1, below that of any record that mentions two things."""


def tie_among(view: GraphView, keys: Sequence[str], holders: Holders) -> Sequence[GraphNode]:
    """Return the strongest path between two of the entities that no short record mentions together.

    Empty where there are no such two, or nothing ties them.
    """
    for one, other in combinations(_rarest(view, keys), 2):
        path = () if _are_together(view, one, other) else strongest_path(view, one, other, holders)
        if LEAST_PATH <= len(path) <= MAX_PATH:
            return path
    return ()


def strongest_path(
    view: GraphView, ones: Sequence[GraphNode], others: Sequence[GraphNode], holders: Holders = lambda key, near: ()
) -> Sequence[GraphNode]:
    """Return the path that costs least from one thing to another, each given by its nodes; empty where there is none.

    What the rules for texts do not find may still be named in one: `ntp-brae`, which somebody gave with another record.
    A node costs the square of the logarithm of its links: what many records mention ties nothing, as a record that
    mentions many things, and two rare things tie more than one of these. Between two entities that a relation joins
    stands the record that states it. Tasks are no part of it.
    """
    start, end = ones[0], others[0]
    same: dict[GraphNode, GraphNode] = {**dict.fromkeys(others, end), **dict.fromkeys(ones, start)}
    if same[start] == same[end]:
        return ()
    met: dict[GraphNode, Mapping[GraphNode, float]] = {}
    for names in (ones, others):
        _meet(view, names, same, met, holders)
    # The outermost ones lead nowhere, but where both ends met them.
    outer = Counter(far for near in met.values() for far in near if far not in met)
    for node in sorted(node for node, times in outer.items() if times > 1):
        if near := view.neighbours(node):
            met[node] = {same.get(far, far): weight for far, weight in near.items()}
    path = _cheapest(met, start, end)
    return _with_records(view, path, {start: ones, end: others})


def _cheapest(
    met: Mapping[GraphNode, Mapping[GraphNode, float]], start: GraphNode, end: GraphNode
) -> Sequence[GraphNode]:
    """Return the path that costs least, both ends included; empty where there is none."""
    import networkx as nx

    graph: nx.Graph[GraphNode] = nx.Graph()
    costs = {node: _cost(near) / 2 for node, near in met.items()}
    done = set[GraphNode]()
    for node, near in met.items():
        done.add(node)
        # Of equally strong ones the newest record. A relation may weigh otherwise from its other end.
        ends = (far for far in near if far in met and (far not in done or node not in met[far] or node[0] == far[0]))
        for far in sorted(ends, reverse=True):
            step = _STATED_COST - log(near[far]) if node[0] == far[0] == "entity" else 0.0
            graph.add_edge(node, far, cost=step + (costs[node] + costs[far]))
    try:
        path: Sequence[GraphNode] = nx.bidirectional_dijkstra(graph, start, end, weight="cost")[1]
    except (nx.NodeNotFound, nx.NetworkXNoPath):
        return ()
    return path


def all_names(view: GraphView, node: GraphNode) -> Sequence[GraphNode]:
    """Return the nodes of a thing, its own first: an entity has one for each of its names."""
    return [("entity", name) for name in view.names_of(node[1])] if node[0] == "entity" else [node]


def topics(view: GraphView, most: int) -> Sequence[GraphTopic]:
    """Return at most `most` topics, the largest first: entities that records mention together, by their links.

    What nearly everything mentions is of no topic, and a listing, with as many things as are found in a text, ties none
    of them.
    """
    known = most_linked(view, MAX_TOPIC_ENTITIES, TOPIC_RECORDS)
    things = [thing for thing in known if not _NO_TOPIC.fullmatch(thing.names[0])]
    links = {thing.names[0]: thing.links for thing in things}
    by_record: dict[str, list[str]] = {}
    for thing in things:
        for node in {node for name in thing.names for node in view.neighbours(("entity", name))}:
            if node[0] == "record":
                by_record.setdefault(node[1], []).append(thing.names[0])
    telling = (keys for each, keys in by_record.items() if len(view.neighbours(("record", each))) < MAX_FOUND)
    together = Counter(pair for keys in telling for pair in combinations(sorted(keys), 2))
    shared = sorted((*pair, count) for pair, count in together.items() if count >= TOPIC_RECORDS)
    if not shared:
        return ()
    import networkx as nx

    graph: nx.Graph[str] = nx.Graph()
    graph.add_weighted_edges_from(shared)
    found: Sequence[Collection[str]] = nx.community.louvain_communities(graph, seed=0)
    ranked = [sorted(keys, key=lambda key: (-links[key], key)) for keys in found]
    largest = sorted(ranked, key=lambda keys: (-len(keys), keys))[:most]
    topic_of = {key: place for place, keys in enumerate(largest) for key in keys}
    inside: list[dict[tuple[str, str], int]] = [{} for _ in largest]
    for one, other, count in shared:
        if (place := topic_of.get(one)) is not None and place == topic_of.get(other):
            inside[place][one, other] = count
    return [GraphTopic(keys=keys, together=pairs) for keys, pairs in zip(largest, inside, strict=True)]


def _rarest(view: GraphView, keys: Sequence[str]) -> Sequence[Sequence[GraphNode]]:
    """Return the rarest of these things in their order, each by all its names."""
    weights = view.weights(keys)
    things: list[Sequence[GraphNode]] = []
    for key in keys:
        if key in weights and not any(("entity", key) in names for names in things):
            things.append(all_names(view, ("entity", key)))
    rarest = sorted(things, key=lambda names: -weights[names[0][1]])[:MOST_NAMED]
    return [names for names in things if names in rarest]


def _are_together(view: GraphView, ones: Sequence[GraphNode], others: Sequence[GraphNode]) -> bool:
    """Return True where a record that mentions few things mentions both, or one names the other."""
    near, far = ({node for name in names for node in view.neighbours(name)} for names in (ones, others))
    return any(len(view.neighbours(node)) <= DIRECT_LINKS for node in near & far if node[0] == "record")


def _meet(
    view: GraphView,
    names: Sequence[GraphNode],
    same: Mapping[GraphNode, GraphNode],
    met: dict[GraphNode, Mapping[GraphNode, float]],
    holders: Holders,
) -> None:
    """Add what is met from one end, the cheapest first, each with its neighbours; `same` names both ends once."""
    left, done, start = MAX_MET, set[GraphNode](), same[names[0]]
    waiting = [(0.0, start)]
    while waiting and left > 0:
        so_far, node = heappop(waiting)
        if node in done:
            continue
        done.add(node)
        if node not in met:
            every = (view.neighbours(name) for name in (names if node == start else (node,)))
            near = {same.get(far, far): weight for each in every for far, weight in each.items() if far[0] != "task"}
            near.pop(node, None)
            if node[0] == "entity" and 0 < len(near) <= FEW_LINKS:
                also: list[GraphNode] = [("record", each) for each in holders(node[1], near)]
                near |= {record: 1.0 for record in also if view.sees(record)}
            if not near:  # Too many have it.
                continue
            met[node] = near
        left -= len(met[node])
        cost = so_far + _cost(met[node])
        for far in met[node]:
            if far not in done:
                heappush(waiting, (cost, far))


def _cost(near: Collection[GraphNode]) -> float:
    return log(1 + len(near)) ** 2


def _with_records(
    view: GraphView, path: Sequence[GraphNode], names: Mapping[GraphNode, Sequence[GraphNode]]
) -> Sequence[GraphNode]:
    """Put between two related entities the record that says so."""
    whole = [*path[:1]]
    for one, other in pairwise(path):
        if one[0] == other[0] == "entity":
            ends = ((near, far) for near in names.get(one, (one,)) for far in names.get(other, (other,)))
            whole += _latest(view, ends)
        whole.append(other)
    return tuple(whole)


def _latest(view: GraphView, ends: Iterator[tuple[GraphNode, GraphNode]]) -> list[GraphNode]:
    """Return the record that relates two entities with the most weight, the latest of several."""
    stated = {record_id: weight for one, other in ends for record_id, weight in view.stated(one[1], other[1]).items()}
    best = sorted(stated, key=lambda record_id: (stated[record_id], len(record_id), record_id))
    return [("record", record_id) for record_id in best[-1:]]
