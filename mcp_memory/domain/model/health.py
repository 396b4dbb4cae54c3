"""How well memory serves: figures over what was assembled and kept, each beside the band it should lie in."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Literal

from mcp_memory.domain.model.calibration import Judged, calibration

Verdict = Literal["inside", "below", "above"]

USAGE_DAYS = 14
"""How far back contexts are looked at: as long as their accounts are kept."""
GROWTH_DAYS = 7


@dataclass(frozen=True, slots=True, kw_only=True)
class Band:
    """Where a value should lie. One bound alone is outside of the band; where there are two, both belong to it."""

    low: float | None = None
    high: float | None = None

    def __str__(self) -> str:
        if self.low is not None and self.high is not None:
            return f"{self.low:g} to {self.high:g}"
        return f"> {self.low:g}" if self.low is not None else f"< {self.high:g}"

    def verdict(self, value: float) -> Verdict:
        """Where the value lies."""
        is_open = self.low is None or self.high is None
        if self.low is not None and (value < self.low or (is_open and value == self.low)):
            return "below"
        if self.high is not None and (value > self.high or (is_open and value == self.high)):
            return "above"
        return "inside"


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """One figure: None where nothing is known yet. One without a band is neither good nor bad."""

    name: str
    value: float | None
    band: Band | None

    @property
    def verdict(self) -> Verdict | None:
        return None if self.value is None or self.band is None else self.band.verdict(self.value)


@dataclass(frozen=True, slots=True, kw_only=True)
class Assembled:
    """What one agent was given. Every answer counts, also one that gives the same context again.

    `strategies` counts the answers by strategy, `picked` those by `auto` by what it picked. `relevance` and
    `utilisation` are means in [0, 1] over those that tell; `cold_build_ms` is the median of those built anew.
    """

    contexts: int
    strategies: Mapping[str, int]
    picked: Mapping[str, int]
    relevance: float | None
    utilisation: float | None
    follow_ups: int
    rebuilt: int
    cold_build_ms: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Tally:
    """Counts over records: those stored lately, facts, facts met again, and what feedback says of use."""

    stored: int
    facts: int
    confirmed_facts: int
    used: int
    ignored: int


_BANDS: Mapping[str, Band] = {
    "context_relevance": Band(low=0.6),
    "budget_utilisation": Band(low=0.5, high=0.9),
    "refresh_rate": Band(high=0.3),
    "used_share": Band(low=0.4),
    "cold_build_ms": Band(high=500),
    "fact_confirmation_rate": Band(low=0.2),
    "brier_score": Band(high=0.25),  # Who is always 50 % sure has 0.25.
}


def figures(assembled: Assembled, tally: Tally, judged: Iterable[Judged]) -> tuple[Figure, ...]:
    """Every figure in the order in which status shows them; shares and the Brier score in [0, 1].

    `refresh_rate` is the share of follow-ups that were rebuilt, `used_share` that of judged items that were used.
    """
    calibrated = calibration(judged)
    values = {
        "context_relevance": assembled.relevance,
        "budget_utilisation": assembled.utilisation,
        "refresh_rate": _share(assembled.rebuilt, assembled.follow_ups),
        "used_share": _share(tally.used, tally.used + tally.ignored),
        "cold_build_ms": assembled.cold_build_ms,
        f"growth_{GROWTH_DAYS}_days": tally.stored,
        "fact_confirmation_rate": _share(tally.confirmed_facts, tally.facts),
        "brier_score": calibrated.brier if calibrated else None,
    }
    return tuple(Figure(name=name, value=value, band=_BANDS.get(name)) for name, value in values.items())


def _share(part: int, whole: int) -> float | None:
    return part / whole if whole else None
