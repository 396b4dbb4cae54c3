"""Dates and phrases about time, read by dateparser; this module turns its points and periods into spans. UTC."""

from __future__ import annotations

import re
import threading
from datetime import MAXYEAR, UTC, datetime, timedelta
from typing import Any

from mcp_memory.domain.records import Instant

_LAST_N = re.compile(r"(?:the )?(?:last|past|previous) (\w+) (hour|day|week|month|year)s?", re.IGNORECASE)
_LEADING = re.compile(
    r"^(?:in|on|at|during|since|until|before|after|from|by|the|past(?= (?:week|month|year)))\s+", re.IGNORECASE
)
_ISO = re.compile(r"\d{4}-\d\d-\d\d(?:[T ]\d\d:\d\d(?::\d\d(?:\.\d+)?)?(?:Z|[+-]\d\d:?\d\d)?)?")
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
            if found.date_obj is None and not phrase.isascii():
                found = DateDataParser(settings=settings).get_date_data(phrase)
        return found if found.date_obj is not None else None


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
