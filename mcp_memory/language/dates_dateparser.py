"""Reads dates and phrases about time with dateparser, and turns its points and periods into spans.

Days are those of the reader's time zone. Phrases that name a distance from now, it reads by its own rules.

dateparser prepares a language when it first tries it, which takes 14 ms of CPU, and without a match tries all of its
two hundred. So a phrase is offered only to languages that have all of its words: that costs a word-list lookup.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Iterator, Mapping
from datetime import MAXYEAR, UTC, datetime, timedelta, tzinfo
from functools import cache
from importlib import import_module
from typing import Any, Final, cast

from mcp_memory.domain.model.records import Instant
from mcp_memory.domain.text.time_phrases import relative_phrase

_LEADING = re.compile(
    r"^(?:in|on|at|during|since|until|before|after|from|by|the|past(?= (?:week|month|year)))\s+", re.IGNORECASE
)
# e.g. "2026-11-20", "2026-11-20T09:30:00Z"
_ISO = re.compile(r"\d{4}-\d\d-\d\d(?:[T ]\d\d:\d\d(?::\d\d(?:\.\d+)?)?(?:Z|[+-]\d\d:?\d\d)?)?")
_LETTERS_ONLY = re.compile(r"[^\W\d_]+")
_WITHOUT_SPACES = re.compile("[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]")
"""Characters of scripts without spaces: Thai, Lao, Burmese, Khmer, Japanese and Chinese, Korean."""
MOST_SPOKEN: Final = 30
"""The number of languages tried first: dateparser orders them by their number of speakers."""
MOST_LANGUAGES: Final = 20
"""The most languages that a phrase is offered to in each group: each costs 14 ms."""
_PAST_PREFIX = re.compile(r"^past (?=week|month|year)", re.IGNORECASE)  # e.g. "past week"


class DateParserReader:
    """Implements `DateReader`. English phrases and ISO first; other languages where English finds nothing."""

    def __init__(self, zone: Callable[[], tzinfo] = lambda: UTC) -> None:
        """`zone` returns the one whose days count, and is asked for each phrase."""
        self._zone = zone
        self._lock = threading.Lock()

    def read(self, phrase: str, now: Instant, *, ahead: bool = False) -> tuple[Instant, Instant] | None:
        zone = self._zone()
        at = datetime.fromtimestamp(now, zone)
        phrase = _PAST_PREFIX.sub("last ", phrase.strip())
        if not phrase or len(phrase) > 100:
            return None
        if at_once := _iso_span(phrase, zone):
            return at_once
        bare = _LEADING.sub("", phrase)
        relative = relative_phrase(bare)
        if relative and relative.text == bare:
            return relative.span(now, zone)
        # "in two weeks" is ahead, and read as it stands.
        found = self._parse(phrase, at, ahead=True) if ahead else None
        found = found or self._parse(bare, at, ahead=ahead)
        return _span(found.date_obj.astimezone(zone), found.period) if found else None

    def _parse(self, phrase: str, at: datetime, *, ahead: bool = False) -> Any:
        """Return dateparser's answer, or None. Its parsers keep state, hence the lock."""
        settings: dict[str, Any] = {
            "PREFER_DATES_FROM": "future" if ahead else "past",
            "RETURN_AS_TIMEZONE_AWARE": True,
            "TIMEZONE": str(at.tzinfo),
            "RETURN_TIME_AS_PERIOD": True,
            "RELATIVE_BASE": at.replace(tzinfo=None),
        }
        with self._lock:
            from dateparser.date import DateDataParser

            found = DateDataParser(languages=["en"], settings=settings).get_date_data(phrase)
            for languages in _languages_with(phrase) if found.date_obj is None else ():
                found = DateDataParser(languages=languages, settings=settings).get_date_data(phrase)
                if found.date_obj is not None:
                    break
        return found if found.date_obj is not None else None


def _languages_with(phrase: str) -> Iterator[list[str]]:
    """Yield languages that a phrase with non-ASCII characters may be in, the most spoken ones first.

    They have every word with such a character, or, where no word has one ("–3 mies"), every word. If too many do,
    as all know "min", languages that have every word come first.
    """
    foreign = " ".join(word for word in phrase.split() if not word.isascii())
    every = frozenset(_parts(phrase)) if foreign else frozenset[str]()
    wanted = frozenset(_parts(foreign)) or every
    if not wanted:
        return
    from dateparser.data.languages_info import language_order

    for tier in (language_order[:MOST_SPOKEN], language_order[MOST_SPOKEN:]):
        having = [language for language in tier if wanted <= _vocabulary(language)]
        if len(having) > MOST_LANGUAGES:
            having.sort(key=lambda language: not every <= _vocabulary(language))
        if having:
            yield having[:MOST_LANGUAGES]


def _parts(text: str) -> Iterator[str]:
    """Yield a text's words as dateparser compares them, without accents; characters in scripts without spaces."""
    from dateparser.utils import normalize_unicode

    for word in _LETTERS_ONLY.findall(normalize_unicode(text.casefold())):
        yield from word if _WITHOUT_SPACES.search(word) else (word,)


@cache
def _vocabulary(language: str) -> frozenset[str]:
    """Return a language's words for days, months and distances in time, from dateparser's data, not prepared."""
    data: object = import_module(f"dateparser.data.date_translation_data.{language}").info
    return frozenset(_parts("\n".join(_texts(data))))


def _texts(data: object) -> Iterator[str]:
    """Yield the texts in a language's data. Its keys are English, except for patterns such as that of "3 дня"."""
    if isinstance(data, str):
        yield data
    elif isinstance(data, Mapping):
        for key, value in cast("Mapping[str, object]", data).items():
            yield from (key,) if isinstance(value, str) else _texts(value)
    elif isinstance(data, (list, tuple)):
        for each in cast("list[object]", data):
            yield from _texts(each)


def _iso_span(phrase: str, zone: tzinfo) -> tuple[Instant, Instant] | None:
    """Return the span of an ISO date or time, for which dateparser would take 1 to 2 ms."""
    if not _ISO.fullmatch(phrase):
        return None
    try:
        at = datetime.fromisoformat(phrase)
    except ValueError:
        return None
    at = at if at.tzinfo else at.replace(tzinfo=zone)
    return _span(at, "day" if len(phrase) == len("2026-11-20") else "time")


def _span(at: datetime, period: str) -> tuple[Instant, Instant]:
    """Return the whole period around a point: "May 2023" is the month, "last week" Monday to Sunday."""
    day = at.replace(hour=0, minute=0, second=0, microsecond=0)
    if at.year == MAXYEAR:  # The period's end would be in the year 10000.
        begin, end = (
            day.replace(month=1, day=1) if period == "year" else day,
            datetime(MAXYEAR, 12, 31, 23, 59, 59, tzinfo=at.tzinfo),
        )
    elif period == "year":
        begin, end = day.replace(month=1, day=1), day.replace(year=day.year + 1, month=1, day=1)
    elif period == "month":
        begin = day.replace(day=1)
        end = (begin + timedelta(days=32)).replace(day=1)
    elif period == "week":
        begin = day - timedelta(days=day.weekday())
        end = begin + timedelta(days=7)
    elif period == "day":
        begin, end = day, day + timedelta(days=1)
    elif period == "part_of_day":
        begin, end = at, at + timedelta(hours=6)
    else:
        begin, end = at, at + timedelta(seconds=1)
    return begin.timestamp(), end.timestamp()
