"""Phrases that name a time by its distance from now, in several languages, on Saturday 2026-11-28 at nine."""

import tomllib
from datetime import UTC, datetime
from importlib.resources import files
from zoneinfo import ZoneInfo

import pytest

from mcp_memory.domain.text.time_phrases import relative_phrase
from mcp_memory.domain.text.times import asks_of_a_time

NOW = datetime(2026, 11, 28, 9, tzinfo=UTC).timestamp()
DATA = tomllib.loads((files("mcp_memory.domain.text") / "time_phrases.toml").read_text("utf-8"))


def span(text: str, zone: str = "UTC") -> tuple[str, str] | None:
    """What is named, to the minute, in the zone."""
    found = relative_phrase(text)
    named = found.span(NOW, ZoneInfo(zone)) if found else None
    if named is None:
        return None
    begin, end = (datetime.fromtimestamp(at, ZoneInfo(zone)).strftime("%Y-%m-%d %H:%M") for at in named)
    return begin, end


YESTERDAY = ("2026-11-27 00:00", "2026-11-28 00:00")
LAST_WEEK = ("2026-11-16 00:00", "2026-11-23 00:00")
TEN_MINUTES = ("2026-11-28 08:50", "2026-11-28 09:00")
HALF_AN_HOUR = ("2026-11-28 08:30", "2026-11-28 09:00")


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("what happened in the last ten minutes?", TEN_MINUTES),
        ("what did I do just now?", HALF_AN_HOUR),
        ("was ist gestern passiert?", YESTERDAY),
        ("Was war letzte Woche los?", LAST_WEEK),
        ("Was habe ich in den letzten zehn Minuten gemacht?", TEN_MINUTES),
        ("今天发生了什么？", ("2026-11-28 00:00", "2026-11-29 00:00")),
        ("昨天发生了什么？", YESTERDAY),
        ("过去十分钟发生了什么？", TEN_MINUTES),
        ("上周一做了什么？", ("2026-11-16 00:00", "2026-11-17 00:00")),
        ("la semaine dernière", LAST_WEEK),
        ("Que s'est-il passé hier ?", YESTERDAY),
        ("Qu'est-ce que je viens de faire ?", HALF_AN_HOUR),
        ("¿Qué pasó ayer?", YESTERDAY),
        ("¿Qué hicimos en los últimos 10 minutos?", TEN_MINUTES),
        ("Cosa è successo ieri?", YESTERDAY),
        ("O que aconteceu ontem?", YESTERDAY),
        ("Wat is er gisteren gebeurd?", YESTERDAY),
        ("Что было вчера?", YESTERDAY),
        ("что произошло за последние десять минут?", TEN_MINUTES),
        ("昨日何があった？", YESTERDAY),
        ("先週の出来事を教えて", LAST_WEEK),
        ("어제 무슨 일이 있었나요?", YESTERDAY),
        ("지난주에 뭘 했어?", LAST_WEEK),
        ("what happened the day before yesterday?", ("2026-11-26 00:00", "2026-11-27 00:00")),
        ("Was haben wir heute Morgen gemacht?", ("2026-11-28 00:00", "2026-11-28 12:00")),
        ("what happened last night?", ("2026-11-27 17:00", "2026-11-28 06:00")),
        ("last month", ("2026-10-01 00:00", "2026-11-01 00:00")),
        ("this year", ("2026-01-01 00:00", "2027-01-01 00:00")),
        ("what did we do in the past half hour?", HALF_AN_HOUR),
        ("in the last hour", ("2026-11-28 08:00", "2026-11-28 09:00")),
        ("the last 3 months", ("2026-08-28 09:00", "2026-11-28 09:00")),
        ("vor zwei Tagen", ("2026-11-26 00:00", "2026-11-27 00:00")),
        ("an hour ago", ("2026-11-28 08:00", "2026-11-28 08:00")),
        ("fifteen minutes ago", ("2026-11-28 08:45", "2026-11-28 08:45")),
        ("letzten Freitag", YESTERDAY),
        ("Samstag war am Samstag", ("2026-11-21 00:00", "2026-11-22 00:00")),
    ],
)
def test_a_phrase_names_a_time(text: str, named: tuple[str, str]) -> None:
    """W6.1: in the languages of the people who ask."""
    assert span(text) == named


@pytest.mark.parametrize(
    "text",
    [
        "Wo ist der Hafen hier?",
        "Redis port",
        "0 days ago",
        "9999 years ago",
        "the day of the move",
        "下周一",
        "hour by hour",
    ],
)
def test_what_names_no_time_is_none(text: str) -> None:
    """W6.1: "hier" is French for yesterday, and German for here."""
    assert span(text) is None


def test_a_phrase_alone_needs_no_other_words_to_tell_its_language() -> None:
    """W6.1: as `since`, "hier" can be nothing but French."""
    assert span("hier") == YESTERDAY
    assert span("avant-hier") == span("vorgestern")


def test_days_are_those_of_the_zone() -> None:
    """W6.1: at nine in London it is still yesterday in Honolulu."""
    assert span("today", "Pacific/Kiritimati") == ("2026-11-28 00:00", "2026-11-29 00:00")
    assert span("today", "Pacific/Honolulu") == ("2026-11-27 00:00", "2026-11-28 00:00")
    assert span("last week", "Europe/Berlin") == LAST_WEEK


def test_a_month_ago_is_a_month_also_where_that_is_shorter() -> None:
    """R6."""
    found = relative_phrase("the last 9 months")
    assert found is not None
    begin, _ = found.span(datetime(2026, 11, 30, 9, tzinfo=UTC).timestamp(), UTC) or (0.0, 0.0)
    assert datetime.fromtimestamp(begin, UTC).date().isoformat() == "2026-02-28"


@pytest.mark.parametrize("language", sorted(DATA))
def test_each_number_and_unit_of_a_language_is_read(language: str) -> None:
    """W6.1: every form that the data lists has its place."""
    units = [unit.replace("(?:", "").split("|")[0] for unit in DATA[language]["units"].split()]
    assert len(units) == 6
    assert len(DATA[language]["weekdays"].split()) == 7 if "weekdays" in DATA[language] else language == "en"


@pytest.mark.parametrize(
    ("text", "is_only"),
    [
        ("what did we do last week?", True),
        ("¿qué pasó ayer?", True),
        ("昨天发生了什么？", True),
        ("昨日の作業", True),
        ("woran habe ich gestern gearbeitet?", True),
        ("what did we decide about Redis yesterday?", False),
        ("昨天数据库怎么了？", False),
        ("which server runs right now", False),
        ("which database?", False),
    ],
)
def test_a_query_may_ask_of_a_time_alone(text: str, is_only: bool) -> None:
    """W6.1: then the time selects; else it adds to what the other words find."""
    assert asks_of_a_time(text) is is_only
