"""How well confidence in decisions held up: figures, and a note for whoever is about to decide again."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean

from mcp_memory.domain.model.records import Outcome

Judged = tuple[float, Outcome]
"""How sure somebody was of a decision, in [0, 1], and what came of it."""

SUCCESS: Mapping[Outcome, float] = {"success": 1.0, "partial": 0.5, "failure": 0.0}
LEAST_REVIEWED = 5
BANDS = 5
SHOWN_BANDS = 3
TOLERATED_GAP = 0.1


@dataclass(frozen=True, slots=True, kw_only=True)
class Band:
    """Decisions held with a confidence in [low, high) percent, up to 100 in the last: how many, and how they went."""

    low: int
    high: int
    reviewed: int
    succeeded: int
    partly: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Calibration:
    """Confidence beside success over reviewed decisions, at least one.

    `brier` is the mean squared difference of the two, in [0, 1], 0 being the best (Brier, Monthly Weather Review 1950);
    `confidence` and `hit_rate` are means in [0, 1], a partial success counting one half. Bands that hold no decision
    are left out; the surest comes first.
    """

    reviewed: int
    brier: float
    confidence: float
    hit_rate: float
    bands: tuple[Band, ...]


def calibration(judged: Iterable[Judged]) -> Calibration | None:
    """The figures over these decisions; what is pending counts for nothing. None where nothing is left."""
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
    """What a context says of it, in at most about 100 tokens. None below five reviewed decisions."""
    figures = calibration(judged)
    if figures is None or figures.reviewed < LEAST_REVIEWED:
        return None
    fullest = sorted(figures.bands, key=lambda band: -band.reviewed)[:SHOWN_BANDS]
    first, *others = [band for band in figures.bands if band in fullest]
    held = f"{first.reviewed} reviewed decisions held with {first.low}–{first.high} % confidence, "
    told = [f"Of {held}{_went(first)} worked out", *(_told(band) for band in others)]
    means = f"Mean confidence {_percent(figures.confidence)}, success {_percent(figures.hit_rate)}"
    return f"{'; '.join(told)}. {means}: {_verdict(figures)}."


def _band(number: int, known: Sequence[Judged]) -> Band:
    """One fifth of the scale; full confidence belongs to the last."""
    outcomes = [outcome for confidence, outcome in known if min(int(confidence * BANDS), BANDS - 1) == number]
    return Band(
        low=100 * number // BANDS,
        high=100 * (number + 1) // BANDS,
        reviewed=len(outcomes),
        succeeded=outcomes.count("success"),
        partly=outcomes.count("partial"),
    )


def _told(band: Band) -> str:
    return f"of {band.reviewed} with {band.low}–{band.high} %, {_went(band)}"


def _percent(share: float) -> str:
    return f"{100 * share:.0f} %"


def _went(band: Band) -> str:
    return f"{band.succeeded} (and {band.partly} in part)" if band.partly else str(band.succeeded)


def _verdict(figures: Calibration) -> str:
    gap = figures.confidence - figures.hit_rate
    if abs(gap) <= TOLERATED_GAP:
        return "about as sure as right"
    return "be less sure" if gap > 0 else "be surer"
