"""Finds time expressions in a query, and shows instants as ISO 8601. A DateReader interprets the phrases.

Data holds UTC; what is read, the days above all, is in the time zone of the user at work (`use_zone`).
"""

import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, tzinfo
from functools import lru_cache
from math import inf
from typing import Literal

from mcp_memory.domain.model.records import Instant
from mcp_memory.domain.text.lexicon import (
    FOREIGN_BY_LANGUAGE,
    MONTHS,
    STOP_CHARACTERS,
    STOP_WORDS,
    UNSPACED,
    unspaced,
    word_set,
)
from mcp_memory.domain.text.time_phrases import relative_phrase
from mcp_memory.domain.text.words import latin_language, query_terms, split_words

_MONTH = f"(?:{MONTHS})"
_DAY = r"\d{1,2}(?:st|nd|rd|th)?"
_WEEKDAY = r"(?:mon|tues|wednes|thurs|fri|satur|sun)day"
# e.g. "2026-05-12", "3 May 2026", "in March", "last Friday"
_PHRASE = re.compile(
    rf"""\b(?:
        \d{{4}}-\d\d(?:-\d\d(?:[T ]\d\d:\d\d(?::\d\d)?Z?)?)?
      | {_DAY}\s+(?:of\s+)?{_MONTH}(?:,?\s+\d{{4}})?
      | {_MONTH}\s+{_DAY}(?:,?\s+\d{{4}})?(?!\d)
      | {_MONTH},?\s+\d{{4}}
      | (?:in|during|since)\s+{_MONTH}(?:\s+{_DAY})?(?:,?\s+\d{{4}})?
      | (?:in|during|since)\s+(?:19|20)\d\d
      | (?:last|past|this|on)\s+{_WEEKDAY}
    )\b""",
    re.IGNORECASE | re.VERBOSE,
)


# e.g. "since ", "before the ", "seit "
_SIDE = re.compile(
    r"\b(since|after|seit|depuis|desde|sinds|before|until|till|by|bis|avant|hasta|between)\s+(?:the\s+)?$",
    re.IGNORECASE,
)
_FROM = frozenset({"since", "after", "seit", "depuis", "desde", "sinds"})
_BEFORE = frozenset({"before", "until", "till", "by", "bis", "avant", "hasta"})
_EMPTY_QUESTION = word_set("empty_question")
_EMPTY_UNSPACED = re.compile(unspaced("empty_question"))
_UNSPACED = re.compile(f"[{UNSPACED}]")


def asks_only_when(text: str, phrase: str, language: str = "") -> bool:
    """Return True where a query holds only a time ("what did we do last week?"), which therefore narrows the search.

    `language` is the phrase's, where it is known.
    """
    rest = _EMPTY_UNSPACED.sub(" ", text.replace(phrase, " "))
    if not STOP_CHARACTERS.issuperset(_UNSPACED.findall(rest)):
        return False
    told = {language, latin_language(split_words(text))}
    empty = _EMPTY_QUESTION.union(STOP_WORDS, *(FOREIGN_BY_LANGUAGE.get(each, ()) for each in told))
    return empty.issuperset(query_terms(_UNSPACED.sub(" ", rest)))


def asks_of_a_time(text: str) -> bool:
    """Return True where a query names a time and nothing else."""
    when = time_phrase(text)
    return when is not None and asks_only_when(text, when.text, when.language)


Side = Literal["within", "from", "before"]


@dataclass(frozen=True, slots=True, kw_only=True)
class TimePhrase:
    """A time expression as the query has it, and the side of the named time that the query asks for."""

    text: str
    phrase: str
    side: Side = "within"
    language: str = ""
    is_alone: bool = False
    """True where it names a time only in a query that asks for nothing else."""
    is_rough: bool = False
    """True where it names a moment, and means about then."""
    is_past: bool = False
    """True within a time by its distance from now that is over."""

    def span(self, named: tuple[Instant, Instant], now: Instant) -> tuple[Instant, Instant]:
        """Return the span asked for, [start, end), given the one that the phrase names."""
        begin, end = named
        if self.is_rough and self.side == "within":
            return begin - (now - begin) / 2, begin + (now - begin) / 2
        if self.side == "from":
            return begin, inf
        return (-inf, begin) if self.side == "before" else (begin, end)


def time_phrase(text: str) -> TimePhrase | None:
    """Return the first time expression in a text, or None. "May" counts only where it can be the month.

    A time after "since" or "after" is a beginning; one after "before", "until" or "by" is an end. A range with
    "between" is not understood and gives None.
    """
    dated, relative = _PHRASE.search(text), relative_phrase(text)
    if relative is not None and dated is not None and dated.start() < relative.begin:
        relative = None
    if relative is not None:
        phrase, at = relative.text, relative.begin
    elif dated is not None:
        phrase, at = dated.group(), dated.start()
    else:
        return None
    before = _SIDE.search(text[:at])
    word = before[1].lower() if before else phrase.partition(" ")[0].lower()
    if word == "between":
        return None
    side = "from" if word in _FROM else "before" if word in _BEFORE else "within"
    return TimePhrase(
        text=(before.group() if before else "") + phrase,
        phrase=phrase,
        side=side,
        language=relative.language if relative else "",
        is_alone=relative is not None and relative.is_alone,
        is_rough=relative is not None and relative.is_rough,
        is_past=relative is not None and relative.is_past and side == "within",
    )


_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_EARLIEST, _LATEST = -62_135_596_800.0, 253_402_300_800.0
_DAY_SECONDS, _QUARTER_SECONDS = 86_400, 900
"""Zones differ from UTC by whole quarters of an hour."""


class _Zone:
    """The way to the time zone of the user at work."""

    def __init__(self) -> None:
        self.find: Callable[[], tzinfo] = lambda: UTC


_zone = _Zone()


def use_zone(find: Callable[[], tzinfo]) -> None:
    """Let this process show days and times in the zone that `find` returns; it is called for each of them."""
    _zone.find = find


def zone() -> tzinfo:
    """Return the zone of the days that are read and shown now, by default UTC."""
    return _zone.find()


def is_datable(instant: Instant) -> bool:
    """Return True within the years 1 to 9999, the only ones that dates can express; False for NaN."""
    return _EARLIEST <= instant < _LATEST


def iso(instant: Instant) -> str:
    """Return the instant as `2026-11-20T18:17:28Z`."""
    return _at(instant).isoformat(timespec="seconds").replace("+00:00", "Z")


def iso_exact(instant: Instant) -> str:
    """Return the instant as `2026-11-20T18:17:28.250000Z`."""
    return _at(instant).isoformat(timespec="microseconds").replace("+00:00", "Z")


def iso_day(instant: Instant) -> str:
    """Return the day in the user's zone. Midnight in UTC is that day in every zone: a date gave it, and no more."""
    if not instant % _DAY_SECONDS:
        return _at(instant).date().isoformat()
    return _day(int(instant // _QUARTER_SECONDS), zone())


def last_day(end: Instant) -> str:
    """Return the last day before an end that is exclusive."""
    return iso_day(end - (1 if end % _DAY_SECONDS else _DAY_SECONDS))


def iso_minute(instant: Instant) -> str:
    """Return the instant as `2026-11-20T18:17Z`, or in the user's zone as `2026-11-20T19:17+01:00`."""
    return _local(instant).isoformat(timespec="minutes").replace("+00:00", "Z")


def is_midnight(instant: Instant) -> bool:
    """Return True where only the day of an instant is known: it is midnight in the user's zone, or in UTC."""
    return not instant % _DAY_SECONDS or (not instant % 60 and _local(instant).strftime("%H:%M") == "00:00")


def validity(begin: Instant | None, end: Instant | None, at: Instant | None = None) -> str:
    """Return "from 2026-01-01 until 2026-03-31", or what is given of it; an end is told by its last day.

    With `at`, what is not true then begins with "past: " or "not yet: ". Empty where neither side is given.
    """
    sides = [f"from {iso_day(begin)}"] if begin is not None else []
    sides += [f"until {last_day(end)}"] if end is not None else []
    mark = ""
    if at is not None and end is not None and end <= at:
        mark = "past: "
    elif at is not None and begin is not None and at < begin:
        mark = "not yet: "
    return mark + " ".join(sides)


@lru_cache(maxsize=4096)
def _day(quarters: int, at: tzinfo) -> str:
    """Return the day as ISO 8601. Cached: a context names hundreds of days, most of them the same."""
    return _local(quarters * float(_QUARTER_SECONDS), at).date().isoformat()


def _local(instant: Instant, at: tzinfo | None = None) -> datetime:
    """Return the instant as a datetime in a zone, by default the user's; at the ends of the calendar in UTC."""
    try:
        return _at(instant).astimezone(at or zone())
    except (OverflowError, ValueError):
        return _at(instant)


def _at(instant: Instant) -> datetime:
    """Return the instant as a datetime; not by fromtimestamp, which some systems refuse before 1970."""
    return _EPOCH + timedelta(seconds=instant)
