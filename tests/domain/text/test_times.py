"""Expressions of time in a query, and instants as text."""

from math import inf

import pytest

from mcp_memory.domain.text.times import asks_only_when, is_datable, iso, iso_day, iso_minute, time_phrase


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
    assert found.span((10.0, 20.0)) == span


def test_between_two_times_nothing_is_understood() -> None:
    """R6: rather than half of it."""
    assert time_phrase("between January 2026 and March 2026") is None


@pytest.mark.parametrize(
    ("instant", "can_be"),
    [(0.0, True), (1e11, True), (1e15, False), (-1e15, False), (inf, False), (float("nan"), False)],
)
def test_only_years_of_four_digits_are_dates(instant: float, can_be: bool) -> None:
    assert is_datable(instant) == can_be
