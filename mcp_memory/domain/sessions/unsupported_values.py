"""Finds exact values in a text that none of its sources holds, without a model. In doubt a value is supported."""

import re
from collections.abc import Iterable, Sequence
from functools import cached_property

from mcp_memory.domain.text.exact_values import Exact, exact_in, is_date

SMALL = 12
"""A number up to this may count the text's own list."""
# e.g. "4,200", "3.14"
_NUMERALS = re.compile(r"\d[\d,.'’_]{0,30}")
# e.g. "4,200", "1'000'000"
_GROUPED = re.compile(r"\d{1,3}(?:[.,'’_]\d{3})+")
# e.g. "v1.2.3", "10:30", "POOL_SIZE"
_PART = re.compile(r"(?<![\w.:/-])[\w.:/-]*\d(?:[\w.:/-]|[,'’](?=\d))*|\b[A-Z][A-Z0-9_]{3,}\b")
# e.g. "pool.size"
_TERM = re.compile(r"[\w.-]{3,}")
# e.g. "15 minutes", "1.2.3", "2026-11-03"
_AMOUNT = re.compile(r"(?P<number>\d+(?:[.,:/-]\d+)*)(?: ?[^\W\d_]+)?")
_FACTORS = (1.0, 1000.0, 1024.0, 60.0, 3600.0, 24.0, 7.0, 100.0)
"""Factors between equivalent units: seconds and minutes, megabytes and gigabytes, shares and percent."""


def invented(text: str, sources: Iterable[str]) -> tuple[str, ...]:
    """Return the text's files, commands, identifiers and values that occur in no source, each once, in order.

    A path matches by its last part, a command by its words, an amount also in another unit or rounded. Dates and
    small numbers are not checked.
    """
    known = _Sources(sources)
    return tuple(dict.fromkeys(each.text for each in exact_in(text) if not known.hold(each)))


def lost(text: str, sources: Sequence[str]) -> tuple[str, ...]:
    """Return the exact values of the sources that a text to replace all of them lacks, each once, in order.

    Stricter than `invented`: each number has to be there as it is written, also a small one or a date.
    """
    numbers = {match["number"] for match in _AMOUNT.finditer(text)}
    missing = [match[0] for source in sources for match in _AMOUNT.finditer(source) if match["number"] not in numbers]
    return tuple(dict.fromkeys([*missing, *(each for source in sources for each in invented(source, [text]))]))


class _Sources:
    """The sources as one text, and the numbers in them."""

    def __init__(self, sources: Iterable[str]) -> None:
        self._text = "\n".join(sources).casefold()

    @cached_property
    def _numbers(self) -> frozenset[float]:
        return frozenset(number for match in _NUMERALS.finditer(self._text) for number in _readings(match.group()))

    @cached_property
    def _rounded(self) -> frozenset[int]:
        return frozenset(round(number) for number in self._numbers)

    def hold(self, each: Exact) -> bool:
        if each.sort == "files":
            return self._has(re.split(r"[/\\]", each.text)[-1])
        if each.sort == "commands":
            return all(self._has(word.strip("\"'`;,()")) for word in each.text.split())
        if each.sort == "identifiers":
            name = each.text.removesuffix("()")
            return self._has(name) or self._has(re.split(r"[.:/#]+", name)[-1] or name)
        return self._has(each.text.rstrip("/")) or is_date(each.text) or self._holds_parts(each.text)

    def _has(self, words: str) -> bool:
        return words.casefold() in self._text

    def _holds_parts(self, value: str) -> bool:
        parts = [part.strip(".:-/") for part in _PART.findall(value) or _TERM.findall(value)]
        return all(self._knows(part) for part in parts)

    def _knows(self, part: str) -> bool:
        if _is_number(part):
            return self._has_number(part)
        pieces = [piece for piece in part.split(":") if piece]
        return self._has(part) or (len(pieces) > 1 and all(self._knows(piece) for piece in pieces))

    def _has_number(self, part: str) -> bool:
        return any(self._is_known(number) for match in _NUMERALS.findall(part)[:1] for number in _readings(match))

    def _is_known(self, number: float) -> bool:
        if number <= SMALL and number.is_integer():
            return True
        scaled = {number * factor for factor in _FACTORS} | {number / factor for factor in _FACTORS}
        return not self._numbers.isdisjoint(scaled) or (number.is_integer() and int(number) in self._rounded)


def _is_number(part: str) -> bool:
    """Return True for an amount, with or without a unit, rather than a version, a hash or a name."""
    number = _NUMERALS.match(part)
    if not number or not _readings(number.group()):
        return False
    unit = part[number.end() :]
    return len(unit) <= 4 and not any(sign.isdigit() for sign in unit)


def _readings(written: str) -> tuple[float, ...]:
    """Return the possible meanings of a number: 4,200 may be 4200 or 4.2. None for a version or an address."""
    plain = written.rstrip(",.'’_")
    readings: list[float] = []
    if _GROUPED.fullmatch(plain):
        readings.append(float(re.sub(r"[.,'’_]", "", plain)))
    decimal = re.sub(r"(?<=\d)[,'’_](?=\d{3}(?:\D|$))", "", plain).replace(",", ".")
    if decimal.count(".") <= 1 and decimal.replace(".", "").isdecimal():
        readings.append(float(decimal))
    return tuple(readings)
