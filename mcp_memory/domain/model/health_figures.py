"""Computes health figures over assembled contexts and kept records, each with its healthy range."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Literal

from mcp_memory.domain.model.records import Outcome

Judged = tuple[float, Outcome]
"""The confidence in a decision, in [0, 1], and its outcome."""

SUCCESS: Mapping[Outcome, float] = {"success": 1.0, "partial": 0.5, "failure": 0.0}
LEAST_REVIEWED = 5  # reviewed decisions below which no note is shown
BANDS = 5  # 0–20 %, 20–40 % and so on
SHOWN_BANDS = 3  # the fullest ones
TOLERATED_GAP = 0.1  # e.g. 80 % sure, 72 % right


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfidenceBand:
    """Counts decisions held with a confidence in [low, high) percent, up to 100 in the last band, by outcome."""

    low: int
    high: int
    reviewed: int
    succeeded: int
    partly: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Calibration:
    """Confidence against success over reviewed decisions, at least one.

    `brier` is the mean squared difference of the two, in [0, 1], 0 being the best (Brier, Monthly Weather Review
    1950). `confidence` and `hit_rate` are means in [0, 1], a partial success counting one half. Bands without
    decisions are left out; the highest confidence comes first.
    """

    reviewed: int
    brier: float
    confidence: float
    hit_rate: float
    bands: tuple[ConfidenceBand, ...]


def calibration(judged: Iterable[Judged]) -> Calibration | None:
    """Return the figures over these decisions, without pending ones. None where no decision is left."""
    known = [each for each in judged if each[1] in SUCCESS]
    if not known:
        return None
    return Calibration(
        reviewed=len(known),
        brier=fmean((confidence - SUCCESS[outcome]) ** 2 for confidence, outcome in known),
        confidence=fmean(confidence for confidence, _ in known),
        hit_rate=fmean(SUCCESS[outcome] for _, outcome in known),
        bands=tuple(band for low in reversed(range(BANDS)) if (band := _band(low, known)).reviewed),
    )


def calibration_note(judged: Iterable[Judged]) -> str | None:
    """Return the note that a context shows, in at most about 100 tokens. None below five reviewed decisions."""
    figures = calibration(judged)
    if figures is None or figures.reviewed < LEAST_REVIEWED:
        return None
    fullest = sorted(figures.bands, key=lambda band: -band.reviewed)[:SHOWN_BANDS]
    first, *others = [band for band in figures.bands if band in fullest]
    held = f"{first.reviewed} reviewed decisions held with {first.low}–{first.high} % confidence, "
    told = [f"Of {held}{_went(first)} worked out", *(_told(band) for band in others)]
    means = f"Mean confidence {_percent(figures.confidence)}, success {_percent(figures.hit_rate)}"
    return f"{'; '.join(told)}. {means}: {_verdict(figures)}."


def _band(number: int, known: Sequence[Judged]) -> ConfidenceBand:
    """Return one fifth of the scale; full confidence belongs to the last."""
    outcomes = [outcome for confidence, outcome in known if min(int(confidence * BANDS), BANDS - 1) == number]
    return ConfidenceBand(
        low=100 * number // BANDS,
        high=100 * (number + 1) // BANDS,
        reviewed=len(outcomes),
        succeeded=outcomes.count("success"),
        partly=outcomes.count("partial"),
    )


def _told(band: ConfidenceBand) -> str:
    return f"of {band.reviewed} with {band.low}–{band.high} %, {_went(band)}"


def _percent(share: float) -> str:
    return f"{100 * share:.0f} %"


def _went(band: ConfidenceBand) -> str:
    return f"{band.succeeded} (and {band.partly} in part)" if band.partly else str(band.succeeded)


def _verdict(figures: Calibration) -> str:
    gap = figures.confidence - figures.hit_rate
    if abs(gap) <= TOLERATED_GAP:
        return "about as sure as right"
    return "be less sure" if gap > 0 else "be surer"


Verdict = Literal["inside", "below", "above"]

USAGE_DAYS = 14
"""Days of contexts to include: as long as their accounts are kept."""
GROWTH_DAYS = 7
LEAST_FACTS = 10
"""Facts below which nothing follows from none being confirmed, and of which as many must be older than GROWTH_DAYS for
a verdict: before that nothing had the time to come up again."""
LEAST_CASES = 20
"""Contexts, follow-ups, judged records or judged decisions below which a figure has no verdict: one could turn it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Band:
    """The healthy range of a value.

    A single bound is outside of the band; two bounds both belong to it.
    """

    low: float | None = None
    high: float | None = None

    def __str__(self) -> str:
        if self.low is not None and self.high is not None:
            return f"{self.low:g} to {self.high:g}"
        return f"> {self.low:g}" if self.low is not None else f"< {self.high:g}"

    def verdict(self, value: float) -> Verdict:
        """Return the value's position: inside, below or above."""
        is_open = self.low is None or self.high is None
        if self.low is not None and (value < self.low or (is_open and value == self.low)):
            return "below"
        if self.high is not None and (value > self.high or (is_open and value == self.high)):
            return "above"
        return "inside"


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """One figure: None where no data exists yet. A figure without a band is neither good nor bad.

    It `is_early` where it is of so few cases that nothing follows from it: then it has no verdict either.
    """

    name: str
    value: float | None
    band: Band | None
    is_early: bool = False

    @property
    def verdict(self) -> Verdict | None:
        return None if self.value is None or self.band is None or self.is_early else self.band.verdict(self.value)


def conclusion(verdicts: Iterable[Verdict | None], *, waiting: int, failed_hooks: int) -> str:
    """Return how many things need attention, in a line: figures off target, reviews that wait, and hooks that failed.

    `verdicts` are those of all figures. The reviews that wait, any number of them, are one thing.
    """
    judged = [each for each in verdicts if each is not None]
    if count := sum(each != "inside" for each in judged) + bool(waiting) + failed_hooks:
        return "One thing needs your attention." if count == 1 else f"{count} things need your attention."
    early = "" if judged else " There is too little use yet to judge how well it works."
    return f"Nothing needs your attention.{early}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Assembled:
    """Counts of the contexts that one agent received, or all of a namespace. Every answer counts, also a repeat.

    `strategies` counts the answers by strategy; `picked` counts those by `auto`, by the strategy it picked.
    `relevance` and `utilisation` are means in [0, 1] over the answers that report them. `cold_build_ms` is the
    median over rebuilt contexts.
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
    """Counts of records: recently stored ones, facts, those stored before, those met again, and feedback on use."""

    stored: int
    facts: int
    older_facts: int
    confirmed_facts: int
    used: int
    ignored: int


HEALTHY: Mapping[str, Band] = {
    "context_relevance": Band(low=0.6),
    "budget_utilisation": Band(low=0.5, high=0.9),
    "refresh_rate": Band(high=0.3),
    "used_share": Band(low=0.4),
    "cold_build_ms": Band(high=500),
    "fact_confirmation_rate": Band(low=0.2),
    "brier_score": Band(high=0.25),  # A constant confidence of 50 % scores 0.25.
}
"""The healthy range of each figure that has one, in the figure's unit."""


def figures(assembled: Assembled, tally: Tally, judged: Iterable[Judged]) -> tuple[Figure, ...]:
    """Return every figure in the order in which status shows them; shares and the Brier score in [0, 1].

    `refresh_rate` is the share of follow-ups that were rebuilt; `used_share` is the share of judged items that were
    used. The share of confirmed facts is not known before there are LEAST_FACTS. What has few cases has no verdict.
    """
    calibrated = calibration(judged)
    values = {
        "context_relevance": assembled.relevance,
        "budget_utilisation": assembled.utilisation,
        "refresh_rate": _share(assembled.rebuilt, assembled.follow_ups),
        "used_share": _share(tally.used, tally.used + tally.ignored),
        "cold_build_ms": assembled.cold_build_ms,
        f"growth_{GROWTH_DAYS}_days": tally.stored,
        "fact_confirmation_rate": _share(tally.confirmed_facts, tally.facts) if tally.facts >= LEAST_FACTS else None,
        "brier_score": calibrated.brier if calibrated else None,
    }
    judged_items, reviewed = tally.used + tally.ignored, calibrated.reviewed if calibrated else 0
    early = {
        "refresh_rate": assembled.follow_ups < LEAST_CASES,
        "used_share": judged_items < LEAST_CASES,
        "fact_confirmation_rate": tally.older_facts < LEAST_FACTS,
        "brier_score": reviewed < LEAST_CASES,
    }
    is_new = assembled.contexts < LEAST_CASES
    return tuple(
        Figure(
            name=name, value=value, band=(band := HEALTHY.get(name)), is_early=bool(band) and early.get(name, is_new)
        )
        for name, value in values.items()
    )


def _share(part: int, whole: int) -> float | None:
    return part / whole if whole else None
