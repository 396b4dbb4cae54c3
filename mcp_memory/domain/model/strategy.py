"""Defines strategies, which say how to assemble a context. Data and its validation; independent of file formats."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Literal

from mcp_memory.domain.model.records import Json, Kind
from mcp_memory.errors import InvalidRequest

Signal = Literal[
    "relevance", "cosine", "kind", "recency", "decay", "importance", "salience", "outcome", "usage", "access",
    "confidence", "lifecycle",
]  # fmt: skip
"""Signals that a score may combine; each is in [0, 1] for every candidate (domain/context/scoring.py)."""
Formula = Literal["weighted", "product", "access", "importance", "balanced"]
COMBINING: frozenset[Formula] = frozenset({"weighted", "product"})
Layout = Literal["flat", "by_kind", "clustered"]
Share = Literal[
    "decisions", "facts", "procedures", "episodes",  # by kind of candidate
    "recent", "semantic", "entities", "relations",  # by source of candidate
]  # fmt: skip
SECTION_SHARES: frozenset[Share] = frozenset({"decisions", "facts", "procedures", "episodes"})
DEFAULT_DECAY_HOURS = 1.0
DEFAULT_HALF_LIFE_HOURS = 24.0
DEFAULT_PRIORITY = 0.5
DEFAULT_FLEXIBLE_TOKENS = 6_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Strategy:
    """A named way to assemble a context.

    formula: `weighted` is the sum of signals times weights, `product` that of signals to the power of their weights;
    `access`, `importance` and `balanced` rank by one formula.
    decay_hours: of the hyperbolic curve of `access`, `balanced` and the signal `decay`.
    half_life_hours: of the signal `recency`.
    layout: `flat` keeps one order across kinds, `by_kind` groups by section, `clustered` keeps similar ones together.
    shares: of the flexible part of the budget, by section or by source, never both; a missing share takes the rest.
    priorities: per kind in [0, 1], for the signal `kind`. limits: most candidates per kind.
    least: the number per kind that pass the floor whatever their relevance. depth: relations to follow in the graph.
    failures: False leaves out failed records.
    errors_first: of events and calls those that failed come first, then edits.
    flexible_tokens: of the part for decisions, facts, procedures and episodes, in a budget of 8,000.
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
    errors_first: bool = False
    flexible_tokens: int = DEFAULT_FLEXIBLE_TOKENS

    @property
    def combines(self) -> bool:
        """True where the score is made of weighed signals."""
        return self.formula in COMBINING

    @property
    def weighs_access(self) -> bool:
        """True where opening a record, which leaves the revision as it is, changes its score."""
        return self.formula == "access" or self.weights.get("access", 0.0) > 0


Strategies = Mapping[str, Strategy]
"""Strategies by name, the built-in ones and the user's."""
Override = Callable[[Strategy, Mapping[str, Json]], Strategy]
"""Returns a strategy with some fields replaced by a call's. Raises InvalidRequest."""


def named_strategy(strategies: Strategies, name: str) -> Strategy:
    """Return the strategy of that name. Raises InvalidRequest, which lists the known ones."""
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
    """Return the picked strategy as `auto` uses it: grouped by kind, with relevance weighted as in `auto`.

    The remaining weight goes to the picked strategy's own signals. An `auto` that ranks by a single measure stays
    unchanged.
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
