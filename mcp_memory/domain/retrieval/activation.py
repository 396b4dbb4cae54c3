"""Spreading activation: how near things are to where one starts in a graph. Knows nothing of what the things are.

Collins and Loftus, "A spreading-activation theory of semantic processing", Psychological Review 1975; bounded here in
steps and in work, with the fan effect of Anderson's ACT: what has many neighbours gives little to each.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import fsum
from typing import Any, Generic, TypeVar

Node = TypeVar("Node", bound=tuple[Any, ...] | str)

HOPS = 3
"""From a name over two relations to a record: entity, entity, entity, record."""
DECAY = 0.5
"""What is one step further away counts half."""
MAX_TOUCHED = 2_000
"""Neighbours looked at in all; a few milliseconds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reached(Generic[Node]):
    """How strongly a node is activated, in (0, 1] where the seeds sum to 1, and which node gave it the most."""

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
