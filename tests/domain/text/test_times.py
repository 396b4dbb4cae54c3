"""Expressions of time in a query, and instants as text."""

from datetime import UTC
from math import inf
from zoneinfo import ZoneInfo

import pytest

from mcp_memory.domain.text.times import (
    asks_only_when,
    is_datable,
    is_midnight,
    iso,
    iso_day,
    iso_minute,
    last_day,
    time_phrase,
    use_zone,
)


@pytest.mark.parametrize(
    ("text", "phrase"),
    [
        ("what broke last week?", "last week"),
        ("deploys in May 2023", "in May 2023"),
        ("deploys of May 2023", "May 2023"),
        ("since May 3", "since May 3"),
        ("since May 3, 2024", "since May 3, 2024"),
        ("what happened in May", "in May"),
        ("since March, what changed", "since March"),
        ("on 3rd of July 2024", "3rd of July 2024"),
        ("notes of Dec 24", "Dec 24"),
        ("errors of 2026-11-20", "2026-11-20"),
        ("at 2026-11-20T10:30Z", "2026-11-20T10:30Z"),
        ("plans during 2025", "during 2025"),
        ("the last three days", "last three days"),
        ("5 minutes and two weeks ago", "two weeks ago"),
        ("this morning", "this morning"),
        ("on Friday we met", "on Friday"),
        ("Yesterday all was well", "Yesterday"),
    ],
)
def test_the_first_expression_of_time_is_found(text: str, phrase: str) -> None:
    """R6, B2.1: dates in a query."""
    found = time_phrase(text)
    assert found is not None
    assert found.phrase == phrase


@pytest.mark.parametrize(
    "text", ["may I deploy?", "march on", "CVE-2024-12345", "version 2.1", "the second step", "port 2023", "", "weekly"]
)
def test_what_is_no_time_is_not_taken_for_one(text: str) -> None:
    """R6: "May" counts only where it can be the month."""
    assert time_phrase(text) is None


@pytest.mark.parametrize(
    ("text", "is_only_time"),
    [("what did we do last week?", True), ("last week", True), ("which database did we pick last week?", False)],
)
def test_a_query_may_ask_for_nothing_but_a_time(text: str, is_only_time: bool) -> None:
    """R6: then the time narrows instead of boosting."""
    assert asks_only_when(text, "last week") is is_only_time


def test_instants_are_shown_in_utc() -> None:
    """B11.1: a date per item."""
    assert iso(1_795_176_000.9) == "2026-11-20T12:00:00Z"
    assert iso_minute(1_795_176_000.0) == "2026-11-20T12:00Z"
    assert [iso_day(at) for at in (1_795_176_000.0, -1.0, 0.0)] == ["2026-11-20", "1969-12-31", "1970-01-01"]


@pytest.mark.parametrize(
    ("text", "span"),
    [
        ("what did we do before March 2024?", (-inf, 10.0)),
        ("everything until the 5 March 2024", (-inf, 10.0)),
        ("decisions since March 2024", (10.0, inf)),
        ("after 2024-03-05 we moved", (10.0, inf)),
        ("in March 2024", (10.0, 20.0)),
    ],
)
def test_the_word_before_a_time_says_which_side_of_it_is_meant(text: str, span: tuple[float, float]) -> None:
    """R6: "since" and "before" mean opposite things."""
    found = time_phrase(text)
    assert found is not None
    assert found.span((10.0, 20.0), 30.0) == span


def test_a_moment_is_about_then() -> None:
    """W6.1: "ten minutes ago" is between five and fifteen minutes ago; after it is all that followed."""
    about, after = time_phrase("what did we do ten minutes ago?"), time_phrase("what changed since ten minutes ago?")
    assert about is not None
    assert after is not None
    assert about.span((1_000.0, 1_001.0), 1_600.0) == (700.0, 1_300.0)
    assert after.span((1_000.0, 1_001.0), 1_600.0) == (1_000.0, inf)


def test_of_a_date_and_a_phrase_the_first_counts() -> None:
    """R6."""
    told = [time_phrase(text) for text in ("on 3 May 2026 and yesterday", "yesterday and on 3 May 2026")]
    assert [each.phrase for each in told if each] == ["3 May 2026", "yesterday"]


def test_days_and_times_are_shown_in_the_zone_of_the_user_at_work() -> None:
    """W6.1: a date that is midnight in UTC stays that day; beyond the calendar there is no zone."""
    try:
        use_zone(lambda: ZoneInfo("America/New_York"))
        assert iso_minute(1_795_176_000.0) == "2026-11-20T07:00-05:00"
        assert [iso_day(at) for at in (1_795_143_600.0, 1_795_132_800.0)] == ["2026-11-19", "2026-11-20"]
        assert [is_midnight(at) for at in (1_795_150_800.0, 1_795_132_800.0, 1_795_150_860.0)] == [True, True, False]
        assert [last_day(at) for at in (1_795_150_800.0, 1_795_132_800.0)] == ["2026-11-19", "2026-11-19"]
        assert iso_day(-62_135_596_799.0) == "0001-01-01"
        use_zone(lambda: ZoneInfo("Asia/Tokyo"))
        assert iso_day(1_795_143_600.0) == "2026-11-20"
    finally:
        use_zone(lambda: UTC)


def test_between_two_times_nothing_is_understood() -> None:
    """R6: rather than half of it."""
    assert time_phrase("between January 2026 and March 2026") is None


@pytest.mark.parametrize(
    ("instant", "can_be"),
    [(0.0, True), (1e11, True), (1e15, False), (-1e15, False), (inf, False), (float("nan"), False)],
)
def test_only_years_of_four_digits_are_dates(instant: float, can_be: bool) -> None:
    assert is_datable(instant) == can_be
