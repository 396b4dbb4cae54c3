"""Finds phrases that name a time by its distance from now, in several languages, and says which time that is.

The phrases are data, in `time_phrases.toml`. "Last week" is the week before this one, Monday to Sunday, "the last ten
minutes" end now. Days are those of a given time zone.
"""

import re
import tomllib
from calendar import monthrange
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, time, timedelta, tzinfo
from functools import cache
from pathlib import Path

from mcp_memory.domain.model.records import Instant
from mcp_memory.domain.text.words import latin_language

_LANGUAGES: Mapping[str, Mapping[str, str]] = tomllib.loads(
    Path(__file__).with_name("time_phrases.toml").read_text("utf-8")
)
UNITS = ("minute", "hour", "day", "week", "month", "year")
_SECONDS = {"minute": 60, "hour": 3_600, "day": 86_400, "week": 604_800}
_SHORT = ("minute", "hour")
_JOINED = frozenset({"zh", "ja", "ko"})
"""Languages in which other words are written on to a word without a space."""
_UNSPACED = frozenset({"zh", "ja"})
_PRESENT = frozenset({"just_now", "today", "this_morning", "this_week", "this_month", "this_year"})
"""Kinds that may name what holds or is to come: "the deadline of this week"."""
JUST_NOW_MINUTES = 30
MOST_CHARACTERS = 1_000
"""Characters that are searched: a pasted log is no question about a time."""
MOST_YEARS = 1_000
# A phrase that is part of a longer one stands behind it: "gestern Abend" before "gestern".
_KINDS = (
    "just_now", "half_hour_back", "hour_back", "back", "ago", "before_yesterday", "last_night", "this_morning",
    "weekday_of_last_week", "weekday", "this_week", "last_week", "this_month", "last_month", "this_year", "last_year",
    "today", "yesterday",
)  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class RelativePhrase:
    """A phrase as the text has it, and where it begins. `kind` is its name in the data of the language."""

    text: str
    begin: int
    kind: str
    language: str

    @property
    def is_alone(self) -> bool:
        """True for what names a time only where nothing else is asked: "which server runs right now" asks what is."""
        return self.kind == "just_now"

    @property
    def is_past(self) -> bool:
        """True for a time that is over, in which only what happened then can be meant."""
        return self.kind not in _PRESENT

    @property
    def is_rough(self) -> bool:
        """True where it names a moment: a person who says "ten minutes ago" means about then."""
        return self.kind == "ago" and _patterns(self.language).unit(self.text) in _SHORT

    def span(self, now: Instant, zone: tzinfo) -> tuple[Instant, Instant] | None:
        """Return the time that the phrase names, [start, end); None for a count that no memory reaches."""
        at = datetime.fromtimestamp(now, zone)
        patterns = _patterns(self.language)
        if self.kind in ("back", "ago"):
            return _counted(at, patterns.count(self.text), patterns.unit(self.text), is_back=self.kind == "back")
        if self.kind.startswith("weekday"):
            weekday = patterns.weekday(self.text)
            back = (at.weekday() - weekday - 1) % 7 + 1 if self.kind == "weekday" else at.weekday() - weekday + 7
            return _calendar(at - timedelta(days=back), "day")
        return _named(self.kind, at)


def relative_phrase(text: str) -> RelativePhrase | None:
    """Return the first phrase in a text that names a time by its distance from now, the longest of several."""
    said = text[:MOST_CHARACTERS]
    found = [phrase for language in _languages_of(said.lower()) if (phrase := _patterns(language).find(said))]
    return min(found, key=lambda phrase: (phrase.begin, -len(phrase.text)), default=None)


def _languages_of(said: str) -> Iterator[str]:
    """Yield the languages whose phrases may be in a text: "hier" is French for yesterday, and German for here."""
    words = frozenset(re.findall(r"[^\W_]+", said))
    for language, data in _LANGUAGES.items():
        if language in _JOINED:
            is_likely = any(map(said.__contains__, data["words"].split()))
        else:
            shared = words.intersection(data.get("shared", "").split())
            is_told = bool(shared) and (words == shared or latin_language(words) == language)
            is_likely = is_told or not words.isdisjoint(data["words"].split())
        if is_likely:
            yield language


class _Patterns:
    """The patterns of a language."""

    def __init__(self, language: str) -> None:
        data = _LANGUAGES[language]
        self._language = language
        before = "" if language in _UNSPACED else r"(?<!\w)"
        after = "" if language in _JOINED else r"(?!\w)"
        numbers = [word.rpartition("=") for word in data["numbers"].split()]
        units, weekdays = data["units"].split(), data.get("weekdays", "").split()
        slots = {
            "n": "|".join([r"\d{1,4}", *sorted((word for _, _, word in numbers), key=len, reverse=True)]),
            "unit": "|".join(units),
            "weekday": "|".join(weekdays),
        }
        alternatives = [f"(?P<{kind}>{_filled(data[kind], slots, language)})" for kind in _KINDS if kind in data]
        self._pattern = re.compile(f"{before}(?:{'|'.join(alternatives)}){after}", re.IGNORECASE)
        self._numbers = [
            (re.compile(f"{before}(?:{word}){after}", re.IGNORECASE), int(value or place))
            for place, (value, _, word) in enumerate(numbers, 1)
        ]
        self._units = [re.compile(unit, re.IGNORECASE) for unit in units]
        self._weekdays = [re.compile(day, re.IGNORECASE) for day in weekdays]

    @property
    def all(self) -> Sequence[re.Pattern[str]]:
        return [self._pattern, *(word for word, _ in self._numbers), *self._units, *self._weekdays]

    def find(self, said: str) -> RelativePhrase | None:
        match = self._pattern.search(said)
        if match is None or match.lastgroup is None:
            return None
        return RelativePhrase(text=match.group(), begin=match.start(), kind=match.lastgroup, language=self._language)

    def count(self, phrase: str) -> int:
        """Return the number in a phrase; of words for several, the longest one's: "fifteen" holds no five."""
        if digits := re.search(r"\d+", phrase):
            return int(digits.group())
        said = [(len(match.group()), value) for word, value in self._numbers if (match := word.search(phrase))]
        return max(said)[1]

    def unit(self, phrase: str) -> str:
        return UNITS[_last(self._units, phrase)]

    def weekday(self, phrase: str) -> int:
        """Return the weekday that a phrase names, 0 for Monday."""
        return _last(self._weekdays, phrase)


def patterns() -> Iterator[re.Pattern[str]]:
    """Yield every pattern that a text may be searched with."""
    for language in _LANGUAGES:
        yield from _patterns(language).all


@cache
def _patterns(language: str) -> _Patterns:
    return _Patterns(language)


def _last(patterns: Sequence[re.Pattern[str]], phrase: str) -> int:
    """Return the place of the pattern that matches last in a phrase, and most: 周一 is a Monday, whatever 一 counts."""
    found = [
        (match.end(), len(match.group()), place)
        for place, pattern in enumerate(patterns)
        for match in pattern.finditer(phrase)
    ]
    return max(found)[2]


def _filled(pattern: str, slots: Mapping[str, str], language: str) -> str:
    for name, alternatives in slots.items():
        pattern = pattern.replace(f"{{{name}}}", f"(?:{alternatives})")
    return pattern.replace(" ", r"\s?" if language in _JOINED else r"\s{1,3}")


def _counted(at: datetime, count: int, unit: str, *, is_back: bool) -> tuple[Instant, Instant] | None:
    """Return so many units up to now, or the one so long ago; of minutes and hours, the moment."""
    if not count or (unit == "year" and count > MOST_YEARS):
        return None
    then = _before(at, unit, count)
    if is_back:
        return then.timestamp(), at.timestamp()
    return (then.timestamp(), then.timestamp() + 1) if unit in _SHORT else _calendar(then, unit)


def _named(kind: str, at: datetime) -> tuple[Instant, Instant]:
    """Return the span of a phrase that counts nothing."""
    backs = {"just_now": JUST_NOW_MINUTES * 60, "half_hour_back": 1_800, "hour_back": 3_600}
    if kind in backs:
        return at.timestamp() - backs[kind], at.timestamp()
    if kind == "this_morning":
        return _hours(at, 0, 12)
    if kind == "last_night":
        begin, _ = _hours(at - timedelta(days=1), 17, 24)
        return begin, _hours(at, 0, 6)[1]
    days = {"today": 0, "yesterday": 1, "before_yesterday": 2}
    if kind in days:
        return _calendar(at - timedelta(days=days[kind]), "day")
    which, _, unit = kind.partition("_")
    return _calendar(_before(at, unit, 1) if which == "last" else at, unit)


def _hours(at: datetime, first: int, last: int) -> tuple[Instant, Instant]:
    begin, end = _calendar(at, "day")
    midnight = datetime.fromtimestamp(begin, at.tzinfo)
    until = midnight.replace(hour=last).timestamp() if last < 24 else end
    return midnight.replace(hour=first).timestamp(), until


def _before(at: datetime, unit: str, count: int) -> datetime:
    """Return the same time of day so many days, weeks, months or years before; of shorter units, so long before."""
    if unit in _SHORT:
        return datetime.fromtimestamp(at.timestamp() - count * _SECONDS[unit], at.tzinfo)
    if unit in ("day", "week"):
        return at - timedelta(seconds=count * _SECONDS[unit])
    months = at.year * 12 + at.month - 1 - count * (12 if unit == "year" else 1)
    year, month = max(months // 12, 1), months % 12 + 1
    return at.replace(year=year, month=month, day=min(at.day, monthrange(year, month)[1]))


def _calendar(at: datetime, unit: str) -> tuple[Instant, Instant]:
    """Return the day, the week from Monday, the month or the year that holds a time, in its zone."""
    day = at.date()
    if unit == "week":
        day -= timedelta(days=day.weekday())
        end = day + timedelta(days=7)
    elif unit == "month":
        day = day.replace(day=1)
        end = (day + timedelta(days=32)).replace(day=1)
    elif unit == "year":
        day = day.replace(month=1, day=1)
        end = day.replace(year=day.year + 1)
    else:
        end = day + timedelta(days=1)
    begin, end_at = (datetime.combine(each, time.min, at.tzinfo) for each in (day, end))
    return begin.timestamp(), end_at.timestamp()
