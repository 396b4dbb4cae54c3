"""How confidence held up."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcp_memory.domain.model.health_figures import ConfidenceBand, Judged, calibration, calibration_note
from mcp_memory.encoders.tokens_tiktoken import TiktokenCounter

judgements = st.tuples(st.floats(0, 1), st.sampled_from(["success", "partial", "failure"]))


def test_the_figures_are_those_of_the_book() -> None:
    """C9.1: Brier score, means, and how each band went; what is pending is not counted."""
    judged: list[Judged] = [(1.0, "success"), (0.8, "failure"), (0.5, "partial"), (0.1, "failure"), (0.9, "pending")]
    figures = calibration(judged)
    assert figures is not None
    assert figures.reviewed == 4
    assert figures.brier == pytest.approx((0 + 0.64 + 0 + 0.01) / 4)
    assert (figures.confidence, figures.hit_rate) == (pytest.approx(0.6), pytest.approx(0.375))
    assert figures.bands == (
        ConfidenceBand(low=80, high=100, reviewed=2, succeeded=1, partly=0),
        ConfidenceBand(low=40, high=60, reviewed=1, succeeded=0, partly=1),
        ConfidenceBand(low=0, high=20, reviewed=1, succeeded=0, partly=0),
    )


@pytest.mark.parametrize("judged", [[], [(0.9, "pending")] * 9])
def test_of_nothing_there_are_no_figures(judged: list[Judged]) -> None:
    """C9.1: nor a note."""
    assert calibration(judged) is None
    assert calibration_note(judged) is None


def test_a_note_comes_with_five_reviewed_decisions() -> None:
    """C8.5."""
    sure: list[Judged] = [(0.9, "success"), (0.9, "failure")] * 2
    assert calibration_note(sure) is None
    assert calibration_note([*sure, (0.9, "partial")]) == (
        "Of 5 reviewed decisions held with 80–100 % confidence, 2 (and 1 in part) worked out. "
        "Mean confidence 90 %, success 50 %: be less sure."
    )


def test_a_note_tells_of_the_fullest_bands_the_surest_first() -> None:
    """C8.5: at most three."""
    went: list[Judged] = [(0.1, "success"), (0.5, "success"), (0.9, "success"), (0.3, "failure")]
    judged = [went[0]] * 2 + [went[1]] * 4 + [went[2]] * 3 + [went[3]]
    assert calibration_note(judged) == (
        "Of 3 reviewed decisions held with 80–100 % confidence, 3 worked out; of 4 with 40–60 %, 4; of 2 with 0–20 %,"
        " 2. Mean confidence 52 %, success 90 %: be surer."
    )
    right = calibration_note([went[2]] * 9 + [went[3]])
    assert right is not None
    assert right.endswith("about as sure as right.")


@given(st.lists(judgements, min_size=5, max_size=1000))
def test_figures_and_note_keep_their_bounds(judged: list[Judged]) -> None:
    """C8.5, C9.1: shares in [0, 1], every decision in one band, the note in 100 tokens."""
    figures = calibration(judged)
    assert figures is not None
    assert all(-1e-9 <= share <= 1 + 1e-9 for share in (figures.brier, figures.confidence, figures.hit_rate))
    assert sum(band.reviewed for band in figures.bands) == figures.reviewed == len(judged)
    assert TiktokenCounter("cl100k_base").count(calibration_note(judged) or "") <= 100
