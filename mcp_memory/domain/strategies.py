"""Strategies: how candidates are scored and laid out. Data first, then the few formulas they name."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from mcp_memory.domain.records import MAX_IMPORTANCE, Instant, Record
from mcp_memory.errors import InvalidRequest

Formula = Literal["access", "importance", "balanced", "relevance"]
Layout = Literal["flat", "by_kind"]
DEFAULT_DECAY_HOURS = 1.0
RECENCY_HALF_LIFE_HOURS = 24.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Strategy:
    """A named way to put a context together. `flat` keeps the order across kinds, `by_kind` groups into sections."""

    name: str
    formula: Formula
    layout: Layout = "flat"
    decay_hours: float = DEFAULT_DECAY_HOURS


STRATEGIES: Mapping[str, Strategy] = {
    "recent": Strategy(name="recent", formula="access"),
    "important": Strategy(name="important", formula="importance"),
    "balanced": Strategy(name="balanced", formula="balanced"),
    "auto": Strategy(name="auto", formula="relevance", layout="by_kind"),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """A record that might enter a context. `relevance` in [0, 1] is 0 where nothing was asked."""

    record: Record
    source: str
    relevance: float = 0.0


def choose_strategy(name: str | None, *, has_query: bool, decay_hours: float | None = None) -> Strategy:
    """The named strategy; by default `auto` with a query, `balanced` without.

    Raises:
        InvalidRequest: the name is unknown; the message lists the known ones.
    """
    chosen = STRATEGIES.get(name or ("auto" if has_query else "balanced"))
    if chosen is None:
        raise InvalidRequest(f"Unknown strategy {str(name)[:40]!r}; known: {', '.join(sorted(STRATEGIES))}.")
    if decay_hours is None:
        return chosen
    return Strategy(name=chosen.name, formula=chosen.formula, layout=chosen.layout, decay_hours=decay_hours)


def hyperbolic_decay(age_hours: float, decay_hours: float) -> float:
    """1 / (1 + age/decay), in (0, 1]: one half at `decay_hours`, a quarter at three times that."""
    return 1.0 / (1.0 + max(age_hours, 0.0) / decay_hours)


def recency(age_hours: float) -> float:
    """2^(-age/24 h), in (0, 1]."""
    return 2.0 ** (-max(age_hours, 0.0) / RECENCY_HALF_LIFE_HOURS)


def score(strategy: Strategy, candidate: Candidate, now: Instant) -> float:
    """The candidate's score under the strategy; higher is better. Scores of different strategies do not compare.

    access: hyperbolic decay of the time since the last access. importance: 0 to 10. balanced: importance times
    hyperbolic decay of age. relevance: 0.7 relevance + 0.2 importance/10 + 0.1 recency, in [0, 1].
    """
    record = candidate.record
    age_hours = (now - record.occurred_at) / 3600
    if strategy.formula == "access":
        return hyperbolic_decay((now - record.accessed_at) / 3600, strategy.decay_hours)
    if strategy.formula == "importance":
        return record.importance
    if strategy.formula == "balanced":
        return record.importance * hyperbolic_decay(age_hours, strategy.decay_hours)
    return 0.7 * candidate.relevance + 0.2 * record.importance / MAX_IMPORTANCE + 0.1 * recency(age_hours)


def ordered(strategy: Strategy, candidates: list[Candidate], now: Instant) -> list[tuple[Candidate, float]]:
    """Candidates with their scores, best first. Ties: the newest first, by occurrence, then by creation."""
    scored = [(candidate, score(strategy, candidate, now)) for candidate in candidates]

    def key(pair: tuple[Candidate, float]) -> tuple[float, ...]:
        record = pair[0].record
        # The access score is a function of the time alone, which tells apart what rounding makes equal.
        first = record.accessed_at if strategy.formula == "access" else pair[1]
        newest = record.created_at if strategy.formula == "access" else record.occurred_at
        return (first, newest, record.created_at)

    scored.sort(key=lambda pair: pair[0].record.id, reverse=True)
    scored.sort(key=key, reverse=True)
    return scored
