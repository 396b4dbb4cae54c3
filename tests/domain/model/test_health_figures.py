"""What figures say of how memory serves, and where they should lie."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcp_memory.domain.model.health_figures import (
    LEAST_FACTS,
    Assembled,
    Band,
    Figure,
    Judged,
    Tally,
    conclusion,
    figures,
)

NOTHING = Assembled(
    contexts=0, strategies={}, picked={}, relevance=None, utilisation=None, follow_ups=0, rebuilt=0, cold_build_ms=None
)
NO_RECORDS = Tally(stored=0, facts=0, older_facts=0, confirmed_facts=0, used=0, ignored=0)
counts = st.integers(0, 1000)


def told(assembled: Assembled = NOTHING, tally: Tally = NO_RECORDS, judged: tuple[Judged, ...] = ()) -> list[object]:
    """Every figure as name, value, band and verdict."""
    return [
        (figure.name, figure.value, str(figure.band) if figure.band else None, figure.verdict)
        for figure in figures(assembled, tally, judged)
    ]


def test_figures_stand_beside_the_bands_they_should_lie_in() -> None:
    """C9.1: relevance, utilisation, refreshes, use, cold builds, growth, confirmed facts, calibration."""
    assembled = Assembled(
        contexts=27, strategies={"auto": 27}, picked={"coding": 27}, relevance=0.7, utilisation=0.95, follow_ups=20,
        rebuilt=5, cold_build_ms=120.5,
    )  # fmt: skip
    tally = Tally(stored=30, facts=20, older_facts=10, confirmed_facts=2, used=15, ignored=5)
    judged: tuple[Judged, ...] = ((1.0, "success"), (0.5, "failure")) * 10
    assert told(assembled, tally, judged) == [
        ("context_relevance", 0.7, "> 0.6", "inside"),
        ("budget_utilisation", 0.95, "0.5 to 0.9", "above"),
        ("refresh_rate", 0.25, "< 0.3", "inside"),
        ("used_share", 0.75, "> 0.4", "inside"),
        ("cold_build_ms", 120.5, "< 500", "inside"),
        ("growth_7_days", 30, None, None),
        ("fact_confirmation_rate", 0.1, "> 0.2", "below"),
        ("brier_score", 0.125, "< 0.25", "inside"),
    ]


def test_few_cases_alarm_nobody() -> None:
    """C9.1: each figure is known from its first case on, and judged once one more would not turn it."""
    assembled = Assembled(
        contexts=19, strategies={}, picked={}, relevance=0.1, utilisation=0.95, follow_ups=19, rebuilt=19,
        cold_build_ms=793.0,
    )  # fmt: skip
    tally = Tally(stored=30, facts=30, older_facts=9, confirmed_facts=0, used=0, ignored=19)
    known = figures(assembled, tally, ((1.0, "failure"),) * 19)
    assert {figure.verdict for figure in known} == {None}
    assert None not in {figure.value for figure in known}
    assert [figure.name for figure in known if not figure.is_early] == ["growth_7_days"]


def test_one_line_says_what_needs_attention() -> None:
    """All groups that wait are one thing, as is each hook that failed."""
    told = [
        conclusion(["inside", "below", None, "above"], waiting=7, failed_hooks=2),
        conclusion(["inside"], waiting=1, failed_hooks=0),
        conclusion(["inside", None], waiting=0, failed_hooks=0),
        conclusion([None], waiting=0, failed_hooks=0),
    ]
    assert told[:3] == [
        "5 things need your attention.", "One thing needs your attention.", "Nothing needs your attention."
    ]  # fmt: skip
    assert told[3].endswith("There is too little use yet to judge how well it works.")


def test_what_is_not_known_yet_is_neither_good_nor_bad() -> None:
    """C9.1: of an empty memory, growth alone is known."""
    known = {figure.name: figure.value for figure in figures(NOTHING, NO_RECORDS, ()) if figure.value is not None}
    assert known == {"growth_7_days": 0}
    assert {figure.verdict for figure in figures(NOTHING, NO_RECORDS, ())} == {None}


@pytest.mark.parametrize(
    ("band", "verdicts"),
    [
        (Band(low=0.5), ["below", "below", "inside", "inside"]),
        (Band(high=0.9), ["inside", "inside", "inside", "above"]),
        (Band(low=0.5, high=0.9), ["below", "inside", "inside", "inside"]),
        (Band(low=0.5, high=0.8), ["below", "inside", "inside", "above"]),
    ],
)
def test_a_bound_belongs_to_a_band_of_two(band: Band, verdicts: list[str]) -> None:
    """C9.1: over 0.6 is more than that; from 50 to 90 % both belong to it."""
    values = (0.4, 0.5, 0.7, 0.9)
    assert [Figure(name="x", value=value, band=band).verdict for value in values] == verdicts


@given(counts, counts, counts, counts, counts, counts)
def test_shares_are_shares(a: int, b: int, c: int, d: int, e: int, f: int) -> None:
    """C9.1: of follow-ups, of judged items, of facts: in [0, 1], absent where there are none."""
    assembled = Assembled(
        contexts=a + b, strategies={}, picked={}, relevance=None, utilisation=None, follow_ups=a + b, rebuilt=a,
        cold_build_ms=None,
    )  # fmt: skip
    tally = Tally(stored=0, facts=c + d, older_facts=0, confirmed_facts=c, used=e, ignored=f)
    values = {figure.name: figure.value for figure in figures(assembled, tally, ())}
    for name, part, rest in (("refresh_rate", a, b), ("fact_confirmation_rate", c, d), ("used_share", e, f)):
        share = values[name]
        least = LEAST_FACTS if name == "fact_confirmation_rate" else 1
        assert share is None if part + rest < least else share == part / (part + rest)
