"""Strategies: how a context is put together. Data, and the rules that any of it must keep; knows no file format."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Literal

from mcp_memory.domain.model.records import Json, Kind
from mcp_memory.errors import InvalidRequest

Signal = Literal[
    "relevance", "cosine", "boost", "kind", "recency", "importance", "salience", "outcome", "usage", "access",
    "confidence", "lifecycle",
]  # fmt: skip
"""What a score may be made of; each is in [0, 1] for every candidate (domain/context/scoring.py)."""
Formula = Literal["weighted", "access", "importance", "balanced"]
Layout = Literal["flat", "by_kind", "clustered"]
Share = Literal[
    "decisions", "facts", "procedures", "episodes",  # by what a candidate is
    "recent", "semantic", "entities", "relations",  # by how it was found
]  # fmt: skip
SECTION_SHARES: frozenset[Share] = frozenset({"decisions", "facts", "procedures", "episodes"})
DEFAULT_DECAY_HOURS = 1.0
DEFAULT_HALF_LIFE_HOURS = 24.0
DEFAULT_PRIORITY = 0.5
DEFAULT_FLEXIBLE_TOKENS = 6_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Strategy:
    """A named way to put a context together.

    formula: `weighted` is the sum of signals times weights; `access`, `importance` and `balanced` order by one thing.
    decay_hours: of the hyperbolic curve of `access` and `balanced`; half_life_hours: of the signal `recency`.
    layout: `flat` keeps one order across kinds, `by_kind` groups into sections, `clustered` keeps like beside like.
    shares: of the flexible part of the budget, by section or by source, never both; what is missing takes what is left.
    priorities: per kind in [0, 1], for the signal `kind`. limits: most candidates per kind. least: per kind, so many
    pass the floor however little relevant. depth: how many relations the graph is followed. failures: False leaves out
    what failed. flexible_tokens: of the part for decisions, facts, procedures and episodes, in a budget of 8,000.
    """

    name: str
    description: str = ""
    formula: Formula = "weighted"
    weights: Mapping[Signal, float] = field(default_factory=dict[Signal, float])
    decay_hours: float = DEFAULT_DECAY_HOURS
    half_life_hours: float = DEFAULT_HALF_LIFE_HOURS
    layout: Layout = "by_kind"
    shares: Mapping[Share, float] = field(default_factory=dict[Share, float])
    priorities: Mapping[Kind, float] = field(default_factory=dict[Kind, float])
    limits: Mapping[Kind, int] = field(default_factory=dict[Kind, int])
    least: Mapping[Kind, int] = field(default_factory=dict[Kind, int])
    questions: tuple[str, ...] = ()
    domains: tuple[str, ...] = ()
    depth: int = 1
    failures: bool = True
    flexible_tokens: int = DEFAULT_FLEXIBLE_TOKENS


Strategies = Mapping[str, Strategy]
"""By name, the built-in ones and the user's."""
Override = Callable[[Strategy, Mapping[str, Json]], Strategy]
"""A strategy with some fields as a call wants them. Raises InvalidRequest."""


def named_strategy(strategies: Strategies, name: str) -> Strategy:
    """The strategy of that name. Raises InvalidRequest, which lists the known ones."""
    if name not in strategies:
        raise InvalidRequest(f"Unknown strategy {name[:40]!r}; known: {', '.join(sorted(strategies))}.")
    return strategies[name]


AUTO = "auto"
_AS_WEIGHTS: Mapping[Formula, Mapping[Signal, float]] = {
    "access": {"recency": 1.0},
    "importance": {"importance": 1.0},
    "balanced": {"importance": 2 / 3, "recency": 1 / 3},
}


def blended(auto: Strategy, picked: Strategy) -> Strategy:
    """The strategy that `auto` picked, as `auto` uses it: grouped by kind, with relevance before all else.

    Relevance weighs what it weighs in `auto`; the rest goes to what the picked one weighs. An `auto` that somebody made
    to go by one thing alone picks nothing.
    """
    if auto.formula != "weighted":
        return auto
    own = _AS_WEIGHTS.get(picked.formula, picked.weights)
    share = auto.weights.get("relevance", 0.0) / sum(auto.weights.values())
    total = sum(own.values())
    weights: dict[Signal, float] = {name: (1 - share) * weight / total for name, weight in own.items()}
    weights["relevance"] = weights.get("relevance", 0.0) + share
    layout: Layout = auto.layout if picked.layout == "flat" else picked.layout
    return replace(picked, name=auto.name, formula="weighted", weights=weights, layout=layout)
