"""Dates and phrases about time, read by dateparser; this module turns its points and periods into spans. UTC.

dateparser prepares a language when it first tries it, which takes 14 ms of CPU, and tries all of its two hundred where
none fits. So a phrase is offered only to languages that have all of its words: that costs a look into their word lists.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Iterator, Mapping
from datetime import MAXYEAR, UTC, datetime, timedelta
from functools import cache
from importlib import import_module
from typing import Any, Final, cast

from mcp_memory.domain.model.records import Instant

_LAST_N = re.compile(r"(?:the )?(?:last|past|previous) (\w+) (hour|day|week|month|year)s?", re.IGNORECASE)
_LEADING = re.compile(
    r"^(?:in|on|at|during|since|until|before|after|from|by|the|past(?= (?:week|month|year)))\s+", re.IGNORECASE
)
_ISO = re.compile(r"\d{4}-\d\d-\d\d(?:[T ]\d\d:\d\d(?::\d\d(?:\.\d+)?)?(?:Z|[+-]\d\d:?\d\d)?)?")
_WORD = re.compile(r"[^\W\d_]+")
_UNSPACED = re.compile("[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]")
"""A sign of a script that runs words together: Thai, Lao, Burmese, Khmer, Japanese and Chinese, Korean."""
MOST_SPOKEN: Final = 30
"""So many languages are looked through first: dateparser has them in the order of their speakers."""
MOST_LANGUAGES: Final = 20
"""A phrase is offered to so many at the most, of those and of the others: one for each 14 ms."""
_PAST = re.compile(r"^past (?=week|month|year)", re.IGNORECASE)


class DateParserReader:
    """Implements `DateReader`. English phrases and ISO first; other languages where English finds nothing."""

    def __init__(self) -> None:
        self._lock = threading.Lock()

    def read(self, phrase: str, now: Instant) -> tuple[Instant, Instant] | None:
        at = datetime.fromtimestamp(now, UTC)
        phrase = _PAST.sub("last ", phrase.strip())
        if not phrase or len(phrase) > 100:
            return None
        if at_once := _iso_span(phrase):
            return at_once
        if recent := _LAST_N.fullmatch(phrase):
            begin = self._parse(f"{recent[1]} {recent[2]}s ago", at)
            return (begin.date_obj.timestamp(), now) if begin else None
        found = self._parse(_LEADING.sub("", phrase), at)
        return _span(found.date_obj, found.period) if found else None

    def _parse(self, phrase: str, at: datetime) -> Any:
        """dateparser's answer, or None. Its parsers keep state, hence the lock."""
        settings: dict[str, Any] = {
            "PREFER_DATES_FROM": "past",
            "RETURN_AS_TIMEZONE_AWARE": True,
            "TIMEZONE": "UTC",
            "TO_TIMEZONE": "UTC",
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
    """Languages that a phrase with other signs than ASCII may be in: first of those that most people speak.

    They have every word that holds such a sign, or where none does ("–3 mies"), every word. Of too many, as all know
    "min", those are taken first that have every word.
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
    """The words of a text as dateparser compares them, without accents; each sign where words run together."""
    from dateparser.utils import normalize_unicode

    for word in _WORD.findall(normalize_unicode(text.casefold())):
        yield from word if _UNSPACED.search(word) else (word,)


@cache
def _vocabulary(language: str) -> frozenset[str]:
    """What a language says days, months and distances in time with; read from dateparser's data, not prepared by it."""
    data: object = import_module(f"dateparser.data.date_translation_data.{language}").info
    return frozenset(_parts("\n".join(_texts(data))))


def _texts(data: object) -> Iterator[str]:
    """The texts in a language's data. Its keys are English, but for those that are patterns, such as of "3 дня"."""
    if isinstance(data, str):
        yield data
    elif isinstance(data, Mapping):
        for key, value in cast("Mapping[str, object]", data).items():
            yield from (key,) if isinstance(value, str) else _texts(value)
    elif isinstance(data, list | tuple):
        for each in cast("list[object]", data):
            yield from _texts(each)


def _iso_span(phrase: str) -> tuple[Instant, Instant] | None:
    """That of an ISO date or time, which dateparser takes a millisecond or two to read alike."""
    if not _ISO.fullmatch(phrase):
        return None
    try:
        at = datetime.fromisoformat(phrase)
    except ValueError:
        return None
    at = at.astimezone(UTC) if at.tzinfo else at.replace(tzinfo=UTC)
    return _span(at, "day" if len(phrase) == len("2026-11-20") else "time")


def _span(at: datetime, period: str) -> tuple[Instant, Instant]:
    """The whole period around a point: "May 2023" is the month, "last week" Monday to Sunday."""
    day = at.replace(hour=0, minute=0, second=0, microsecond=0)
    if at.year == MAXYEAR:  # No later year exists for its end to lie in.
        begin, end = (
            day.replace(month=1, day=1) if period == "year" else day,
            datetime(MAXYEAR, 12, 31, 23, 59, 59, tzinfo=UTC),
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
