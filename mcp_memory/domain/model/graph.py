"""Defines entities and relations as a context shows them, and an entity's salience. Independent of any store."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from heapq import heapify, heappop
from math import fsum, log
from typing import Any, TypeVar

from mcp_memory.domain.model.records import Details, Json, Relation

DAMPING = 0.5
"""Factor by which each further step halves a relation's weight, as in spreading activation."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EntityFacts:
    """An entity under the name that most records use for it, with the newest stated value of each property.

    `keys` are the keys of all its names, its own first. `salience` is in (0, 1]. `named` is True where the query
    named it. `records` are the ids of the newest records that mention it, newest first.
    """

    key: str
    keys: tuple[str, ...]
    name: str
    type: str
    salience: float
    named: bool
    records: tuple[str, ...]
    properties: Details = field(default_factory=dict[str, Json])


@dataclass(frozen=True, slots=True, kw_only=True)
class RelationFacts:
    """A relation `depth` steps from where the walk began: 1 for the relations of the entities themselves.

    `score` is its weight in (0, 1], halved for each step beyond the first. `record_id` is the record that states it.
    """

    relation: Relation
    depth: int
    score: float
    record_id: str


def aliases_of(properties: Details) -> tuple[str, ...]:
    """Return the other names that an entity's properties give it."""
    named = properties.get("aliases")
    if isinstance(named, str):
        return (named,)
    return tuple(name for name in named if isinstance(name, str)) if isinstance(named, Sequence) else ()


def entity_salience(links: int, most_links: int, weight: float, recency: float) -> float:
    """Return log(1 + links) / log(1 + most_links) × (2 + weight + recency) / 4, in (0, 1].

    Weight and recency at most halve it. `links`, at most `most_links`, counts the records and entities that it is
    linked to. `weight` in [0, 1] is that of its strongest relation. `recency` in [0, 1] is how late, within all that
    was stored, it was last mentioned.
    """
    return log(1 + links) / log(1 + most_links) * (2 + weight + recency) / 4


def damped(weight: float, depth: int) -> float:
    """Return the weight of a relation seen from `depth` steps away, from 1 on."""
    return weight * DAMPING ** (depth - 1)


Node = TypeVar("Node", bound=tuple[Any, ...] | str)

HOPS = 3
"""Steps from a name over two relations to a record: entity, entity, entity, record."""
DECAY = 0.5
"""Share of its activation that a node passes on; each further step counts half."""
MAX_TOUCHED = 2_000
"""Neighbours examined in all; takes a few milliseconds."""


def spread(
    seeds: Mapping[Node, float],
    neighbours: Callable[[Node], Mapping[Node, float]],
    *,
    hops: int = HOPS,
    max_touched: int = MAX_TOUCHED,
) -> dict[Node, float]:
    """Return the activation of every node that it reaches, the seeds included; in (0, 1] where these sum to 1.

    Breadth first: each node passes DECAY of its activation on, once, to its neighbours that are further from the
    seeds, in proportion to the weights (> 0) of its edges. The share of nearer neighbours is lost. Where
    `max_touched` ends the walk early, the least activated nodes pass nothing on. The order of neighbours does not
    matter.
    """
    reached = dict(seeds)
    frontier = reached
    for _ in range(hops):
        arriving: dict[Node, float] = {}
        several: dict[Node, list[float]] = {}  # Most nodes are reached from one side alone.
        waiting = [(-activation, node) for node, activation in frontier.items()]
        heapify(waiting)  # The walk often ends before it has come to most of them: no need to sort all.
        while waiting and max_touched > 0:
            _, node = heappop(waiting)
            near = neighbours(node)
            max_touched -= len(near)
            unit = frontier[node] * DECAY / (fsum(near.values()) or 1.0)
            for neighbour, weight in near.items():
                if neighbour in reached:
                    continue
                if neighbour in arriving:
                    several.setdefault(neighbour, [arriving[neighbour]]).append(unit * weight)
                else:
                    arriving[neighbour] = unit * weight
        for node, shares in several.items():
            arriving[node] = fsum(shares)
        frontier = arriving
        reached |= arriving
    return reached
