"""Finds time expressions in a query, and shows instants as ISO 8601 UTC. A DateReader interprets the phrases."""

import re
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from math import inf
from typing import Literal

from mcp_memory.domain.model.records import Instant
from mcp_memory.domain.text.lexicon import MONTHS, STOP_WORDS, word_set
from mcp_memory.domain.text.words import query_terms

_MONTH = f"(?:{MONTHS})"
_DAY = r"\d{1,2}(?:st|nd|rd|th)?"
_WEEKDAY = r"(?:mon|tues|wednes|thurs|fri|satur|sun)day"
_COUNT = r"(?:\d{1,3}|a|an|one|two|three|four|five|six|seven|eight|nine|ten|few)"
# e.g. "2026-05-12", "3 May 2026", "last two weeks", "3 days ago", "on Friday"
_PHRASE = re.compile(
    rf"""\b(?:
        \d{{4}}-\d\d(?:-\d\d(?:[T ]\d\d:\d\d(?::\d\d)?Z?)?)?
      | {_DAY}\s+(?:of\s+)?{_MONTH}(?:,?\s+\d{{4}})?
      | {_MONTH}\s+{_DAY}(?:,?\s+\d{{4}})?(?!\d)
      | {_MONTH},?\s+\d{{4}}
      | (?:in|during|since)\s+{_MONTH}(?:\s+{_DAY})?(?:,?\s+\d{{4}})?
      | (?:in|during|since)\s+(?:19|20)\d\d
      | yesterday | today | this\s+morning
      | (?:last|past|previous)\s+{_COUNT}\s+(?:hour|day|week|month|year)s?
      | (?:last|past|this)\s+(?:week|month|year|{_WEEKDAY})
      | {_COUNT}\s+(?:hour|day|week|month|year)s?\s+ago
      | on\s+{_WEEKDAY}
    )\b""",
    re.IGNORECASE | re.VERBOSE,
)


# e.g. "since ", "before the "
_SIDE = re.compile(r"\b(since|after|before|until|till|by|between)\s+(?:the\s+)?$", re.IGNORECASE)
_EMPTY_QUESTION = word_set("empty_question")


def asks_only_when(text: str, phrase: str) -> bool:
    """Return True where a query holds only a time ("what did we do last week?"), which therefore narrows the search."""
    return (_EMPTY_QUESTION | STOP_WORDS).issuperset(query_terms(text.replace(phrase, " ")))


Side = Literal["within", "from", "before"]


@dataclass(frozen=True, slots=True, kw_only=True)
class TimePhrase:
    """A time expression as the query has it, and the side of the named time that the query asks for."""

    text: str
    phrase: str
    side: Side = "within"

    def span(self, named: tuple[Instant, Instant]) -> tuple[Instant, Instant]:
        """Return the span asked for, [start, end), given the one that the phrase names."""
        begin, end = named
        if self.side == "from":
            return begin, inf
        return (-inf, begin) if self.side == "before" else (begin, end)


def time_phrase(text: str) -> TimePhrase | None:
    """Return the first time expression in a text, or None. "May" counts only where it can be the month.

    A time after "since" or "after" is a beginning; one after "before", "until" or "by" is an end. A range with
    "between" is not understood and gives None.
    """
    match = _PHRASE.search(text)
    if match is None:
        return None
    phrase = match.group()
    before = _SIDE.search(text[: match.start()])
    word = before[1].lower() if before else phrase.partition(" ")[0].lower()
    if word == "between":
        return None
    side = "from" if word in ("since", "after") else "before" if word in ("before", "until", "till", "by") else "within"
    return TimePhrase(text=(before.group() if before else "") + phrase, phrase=phrase, side=side)


_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_EARLIEST, _LATEST = -62_135_596_800.0, 253_402_300_800.0


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
    return _day(int(instant // 86_400))


def iso_minute(instant: Instant) -> str:
    return _at(instant).isoformat(timespec="minutes").replace("+00:00", "Z")


def validity(begin: Instant | None, end: Instant | None, at: Instant | None = None) -> str:
    """Return "from 2026-01-01 until 2026-03-31", or what is given of it; an end is told by its last day.

    With `at`, what is not true then begins with "past: " or "not yet: ". Empty where neither side is given.
    """
    sides = [f"from {iso_day(begin)}"] if begin is not None else []
    sides += [f"until {iso_day(end - 1)}"] if end is not None else []
    mark = ""
    if at is not None and end is not None and end <= at:
        mark = "past: "
    elif at is not None and begin is not None and at < begin:
        mark = "not yet: "
    return mark + " ".join(sides)


@lru_cache(maxsize=4096)
def _day(days: int) -> str:
    """Return the day as ISO 8601. Cached: a context names hundreds of days, most of them the same."""
    return _at(days * 86_400.0).date().isoformat()


def _at(instant: Instant) -> datetime:
    """Return the instant as a datetime; not by fromtimestamp, which some systems refuse before 1970."""
    return _EPOCH + timedelta(seconds=instant)
