"""Things and how they are related, as a context shows them, and how much a thing stands out. Knows no store."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from math import fsum, log
from typing import Any, Generic, TypeVar

from mcp_memory.domain.model.records import Details, Json, Relation

DAMPING = 0.5
"""What is one step further away counts half, as activation does."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EntityFacts:
    """A thing under the name that most records use for it, with what they say of it, the newest word on each property.

    `keys` are all its names' keys, its own first. `salience` is in (0, 1]; `named` says that it was asked for.
    `records` are ids of the newest that mention it, newest first.
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
    """A relation `depth` steps from where the walk began, 1 for those of the entities themselves.

    `score` is its weight, halved for each step beyond the first, in (0, 1]; `record_id` is the record that says so.
    """

    relation: Relation
    depth: int
    score: float
    record_id: str


def entity_salience(links: int, most_links: int, weight: float, recency: float) -> float:
    """log(1 + links) / log(1 + most_links) × (2 + weight + recency) / 4, in (0, 1]: at most halved by the last two.

    `links` of at most `most_links`: to how many records and entities it is linked. `weight` in [0, 1] is that of its
    strongest relation, `recency` in [0, 1] how late in all that was stored it was last mentioned.
    """
    return log(1 + links) / log(1 + most_links) * (2 + weight + recency) / 4


def damped(weight: float, depth: int) -> float:
    """The weight of a relation seen from `depth` steps away, from 1 on."""
    return weight * DAMPING ** (depth - 1)


Node = TypeVar("Node", bound=tuple[Any, ...] | str)

HOPS = 3
"""From a name over two relations to a record: entity, entity, entity, record."""
DECAY = 0.5
"""What is one step further away counts half."""
MAX_TOUCHED = 2_000
"""Neighbours looked at in all; a few milliseconds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reached(Generic[Node]):
    """The activation of a node, in (0, 1] where the seeds sum to 1, and the node that gave it the most."""

    activation: float
    via: Node | None = None


def spread(
    seeds: Mapping[Node, float],
    neighbours: Callable[[Node], Sequence[tuple[Node, float]]],
    *,
    hops: int = HOPS,
    max_touched: int = MAX_TOUCHED,
) -> dict[Node, Reached[Node]]:
    """Every node that activation reaches, the seeds included.

    Breadth first: each node passes DECAY of what it has on, once, to its neighbours that are further from the seeds, in
    proportion to the weights (> 0) of its edges; what would go to nearer ones is lost. Where the bound on work ends it
    early, the least activated nodes are those that pass nothing on. The order of neighbours does not matter.
    """
    reached: dict[Node, Reached[Node]] = {node: Reached(activation=activation) for node, activation in seeds.items()}
    frontier: Mapping[Node, Reached[Node]] = reached
    for _ in range(hops):
        arriving: dict[Node, list[tuple[float, Node]]] = {}
        for node in sorted(frontier, key=lambda each: (-frontier[each].activation, each)):
            if max_touched <= 0:
                break
            near = neighbours(node)
            max_touched -= len(near)
            unit = frontier[node].activation * DECAY / (fsum(weight for _, weight in near) or 1.0)
            for neighbour, weight in near:
                if neighbour not in reached:
                    arriving.setdefault(neighbour, []).append((unit * weight, node))
        frontier = {node: _arrived(shares) for node, shares in arriving.items()}
        reached = {**reached, **frontier}
    return reached


def _arrived(shares: Sequence[tuple[float, Node]]) -> Reached[Node]:
    if len(shares) == 1:  # Most often by far.
        return Reached(activation=shares[0][0], via=shares[0][1])
    return Reached(activation=fsum(share for share, _ in shares), via=max(shares)[1])
