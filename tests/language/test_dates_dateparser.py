"""What phrases about time mean, on Friday 2026-11-20 at noon."""

from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from importlib import import_module
from zoneinfo import ZoneInfo

import pytest
from dateparser.data.languages_info import language_order
from dateparser.languages.loader import LocaleDataLoader

from mcp_memory.domain.text.times import iso
from mcp_memory.language.dates_dateparser import MOST_LANGUAGES, DateParserReader

NOON = 1_795_176_000.0
READER = DateParserReader()


def span(phrase: str) -> tuple[str, str] | None:
    read = READER.read(phrase, NOON)
    return (iso(read[0]), iso(read[1])) if read else None


@pytest.mark.parametrize(
    ("phrase", "begin", "end"),
    [
        ("2026-11-20", "2026-11-20T00:00:00Z", "2026-11-21T00:00:00Z"),
        ("2026-11-20T10:00:00Z", "2026-11-20T10:00:00Z", "2026-11-20T10:00:01Z"),
        ("2026-11-20 10:00+02:00", "2026-11-20T08:00:00Z", "2026-11-20T08:00:01Z"),
        ("2023", "2023-01-01T00:00:00Z", "2024-01-01T00:00:00Z"),
        ("May 2023", "2023-05-01T00:00:00Z", "2023-06-01T00:00:00Z"),
        ("in May 2023", "2023-05-01T00:00:00Z", "2023-06-01T00:00:00Z"),
        ("December 2025", "2025-12-01T00:00:00Z", "2026-01-01T00:00:00Z"),
        ("in December", "2025-12-01T00:00:00Z", "2026-01-01T00:00:00Z"),
        ("today", "2026-11-20T00:00:00Z", "2026-11-21T00:00:00Z"),
        ("yesterday", "2026-11-19T00:00:00Z", "2026-11-20T00:00:00Z"),
        ("last week", "2026-11-09T00:00:00Z", "2026-11-16T00:00:00Z"),
        ("this week", "2026-11-16T00:00:00Z", "2026-11-23T00:00:00Z"),
        ("last month", "2026-10-01T00:00:00Z", "2026-11-01T00:00:00Z"),
        ("last year", "2025-01-01T00:00:00Z", "2026-01-01T00:00:00Z"),
        ("the last 3 days", "2026-11-17T12:00:00Z", "2026-11-20T12:00:00Z"),
        ("past two weeks", "2026-11-06T12:00:00Z", "2026-11-20T12:00:00Z"),
        ("past week", "2026-11-09T00:00:00Z", "2026-11-16T00:00:00Z"),
        ("on Friday", "2026-11-13T00:00:00Z", "2026-11-14T00:00:00Z"),
        ("5 minutes ago", "2026-11-20T11:55:00Z", "2026-11-20T11:55:01Z"),
        ("this morning", "2026-11-20T00:00:00Z", "2026-11-20T12:00:00Z"),
        ("昨日", "2026-11-19T00:00:00Z", "2026-11-20T00:00:00Z"),
        ("gestern", "2026-11-19T00:00:00Z", "2026-11-20T00:00:00Z"),
        ("the last ten minutes", "2026-11-20T11:50:00Z", "2026-11-20T12:00:00Z"),
        ("la semaine dernière", "2026-11-09T00:00:00Z", "2026-11-16T00:00:00Z"),
        ("9999-12-31", "9999-12-31T00:00:00Z", "9999-12-31T23:59:59Z"),
        ("9999", "9999-01-01T00:00:00Z", "9999-12-31T23:59:59Z"),
    ],
)
def test_a_phrase_is_the_whole_period_it_names(phrase: str, begin: str, end: str) -> None:
    """R6: the span [start, end), weeks from Monday; months without a year are past ones."""
    assert span(phrase) == (begin, end)


def test_days_are_those_of_the_zone() -> None:
    """W6.1: also where the clock is put back, and a day has 25 hours; what names its own zone keeps it."""
    reader = DateParserReader(lambda: ZoneInfo("America/New_York"))
    late = datetime(2026, 11, 20, 3, tzinfo=UTC).timestamp()  # 22:00 of the 19th there.

    def read(phrase: str) -> tuple[str, str]:
        begin, end = reader.read(phrase, late) or (0.0, 0.0)
        return iso(begin), iso(end)

    assert read("today") == ("2026-11-19T05:00:00Z", "2026-11-20T05:00:00Z")
    assert read("gestern") == ("2026-11-18T05:00:00Z", "2026-11-19T05:00:00Z")
    assert read("2026-11-01") == ("2026-11-01T04:00:00Z", "2026-11-02T05:00:00Z")
    assert read("3 November") == ("2026-11-03T05:00:00Z", "2026-11-04T05:00:00Z")
    assert read("2026-11-19 10:00") == ("2026-11-19T15:00:00Z", "2026-11-19T15:00:01Z")
    assert read("2026-11-19T10:00:00Z") == ("2026-11-19T10:00:00Z", "2026-11-19T10:00:01Z")


@pytest.mark.parametrize(
    "phrase",
    ["", "  ", "soon", "2026-13-45", "2026-02-29", "0000-00-00", "99999999 days ago", "last foo days", "x" * 500],
)
def test_what_is_no_time_is_none(phrase: str) -> None:
    """R6: no guess."""
    assert span(phrase) is None


def test_months_end_where_they_do() -> None:
    """R6: also in leap years."""
    assert span("February 2024") == ("2024-02-01T00:00:00Z", "2024-03-01T00:00:00Z")
    assert span("2024-02-29") == ("2024-02-29T00:00:00Z", "2024-03-01T00:00:00Z")


def test_threads_read_the_same() -> None:
    """R6: the reader is shared by all calls."""
    phrases = ["last week", "May 2023", "yesterday", "2026-11-20"] * 5
    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(span, phrases)) == [span(phrase) for phrase in phrases]


@pytest.mark.parametrize(
    ("phrase", "begin"),
    [
        ("вчера", "2026-11-19"),
        ("3 дня назад", "2026-11-17"),
        ("il y a deux jours à", "2026-11-18"),
        ("3 février 2024", "2024-02-03"),
        ("เมื่อวาน", "2026-11-19"),
        ("어제", "2026-11-19"),
        ("أمس", "2026-11-19"),
        ("٢٠٢٤-٠٥-٠١", "2024-05-01"),
        ("o‘tgan oy", "2026-10-01"),
        ("–3 mies", "2026-08-01"),
    ],
)
def test_other_languages_are_read_where_english_finds_nothing(phrase: str, begin: str) -> None:
    """R6: letters, accents, digits and quotation marks of their own; words that run together too."""
    read = span(phrase)
    assert read is not None
    assert read[0].startswith(begin)


def test_every_language_has_its_yesterday() -> None:
    """R6: of all that dateparser knows, as far as it is written with other letters than English ones."""
    data = (import_module(f"dateparser.data.date_translation_data.{language}").info for language in language_order)
    words = {word for info in data for word in info.get("relative-type", {}).get("1 day ago", []) if not word.isascii()}
    assert len(words) > 90
    assert [word for word in words if READER.read(word, NOON) is None] == []


@pytest.mark.parametrize(
    ("phrase", "most"),
    [
        ("昨日", 4),
        ("3 février 2024", 3),
        ("früher", 0),
        ("zażółć gęślą jaźń", 0),
        ("☃☃☃", 0),
        ("é" * 100, 0),
        ("à é ä", 2 * MOST_LANGUAGES),
        ("–3 min 3 min", 2 * MOST_LANGUAGES),
    ],
)
def test_only_languages_that_have_its_words_are_prepared_for_a_phrase(
    phrase: str, most: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """X3.1: each costs 14 ms of CPU, all of them three seconds, for whoever sends a phrase that none has."""
    prepared: dict[str, object] = {}
    monkeypatch.setattr(LocaleDataLoader, "_loaded_locales", prepared)
    READER.read(phrase, NOON)
    assert len(prepared.keys() - {"en"}) <= most
