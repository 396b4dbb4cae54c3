"""Finds values of which one excludes another: amounts with units, dates, times of day, weekdays, versions, paths.

Units are converted, so that "15 minutes" equals "900 s". Independent of their subject.
"""

import re
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

from mcp_memory.domain.text.lexicon import UNSPACED

Value: TypeAlias = float | str | tuple[int | None, int | None, int | None]
"""A number in the sort's base unit, a name, or year, month and day, None where they are not said."""

_DATA = tomllib.loads(Path(__file__).with_suffix(".toml").read_text("utf-8"))
LEAST_STEM, LONGEST_ENDING = 3, 5
"""Letters of a listed beginning of a word, at least, and of the rest of a word that begins so, at most."""
_A_DAY = 86_400
_A_YEAR = 300 * 86_400
"""Seconds: a year is twelve months or 365 days, as a kilobyte is 1,000 bytes or 1,024."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Quantity:
    """A value as said in a text from `start` on. `noun` is the word behind a number that has no unit, else ""."""

    sort: str
    value: Value
    said: str
    start: int
    noun: str = ""


class Words:
    """Maps words to their meanings. A word that ends with "*" in the data includes its inflections."""

    def __init__(self, table: Mapping[str, Mapping[str, str]]) -> None:
        self._meanings: dict[str, tuple[str, str]] = {}
        for sort, names in table.items():
            for name, words in names.items():
                self._meanings.update((word.casefold(), (sort, name)) for word in words.split())
        stems = [word for word in self._meanings if word.endswith("*")]
        self._stems = {word[:-1]: self._meanings[word] for word in stems}
        self._beginnings = frozenset(stem[:LEAST_STEM] for stem in self._stems)
        unspaced = sorted((word for word in self._meanings if re.match(f"[{UNSPACED}]", word)), key=len, reverse=True)
        self.unspaced = "|".join(map(re.escape, unspaced))
        """Alternatives of the words in scripts without spaces, longest first."""

    def get(self, word: str) -> tuple[str, str] | None:
        """Return the sort and the name that a word means."""
        word = word.casefold()
        if exact := self._meanings.get(word):
            return exact
        if word[:LEAST_STEM] not in self._beginnings:
            return None
        ends = range(len(word), max(LEAST_STEM, len(word) - LONGEST_ENDING) - 1, -1)
        return next((self._stems[word[:end]] for end in ends if word[:end] in self._stems), None)


_UNITS = Words(_DATA["units"])
_SCALES = Words({"scale": _DATA["scales"]})
_NUMBERS = Words({"number": _DATA["numbers"]})
_CHOICES = Words(_DATA["choices"])
_AMBIGUOUS = frozenset(_DATA["ambiguous"]["words"].split())
_DIGITS = {sign: number for number, sign in enumerate("零一二三四五六七八九")} | {"两": 2, "〇": 0}

_SURNAMES = "".join(_DATA["persons"]["surnames"].split())
_LETTER = rf"[^\W\d_{UNSPACED}]"
# "1,000.50", "5 000", "5432", "3.11", "1.2.3"
_NUMERAL = r"\d{1,3}(?:[,'’ \u00a0\u202f]\d{3}){1,5}(?![\d:])(?:\.\d{1,9})?|\d{1,19}(?:\.\d{1,9}){0,4}(?:,\d{1,9})?"
# "十五", "两"
_HAN_NUMERAL = "[零〇一二两三四五六七八九十百]{1,5}"
# "$29", "10 MB", "三十秒", "10k users", "v1.2.3", "10-20 %"
_AMOUNT = re.compile(
    rf"""(?:(?<![\w.:/\\\#+@-])(?<!\d,)|(?<=[{UNSPACED}]))(?P<money>[$€£¥]\s?)?(?P<v>v\.?)?
    (?P<number>{_NUMERAL}|(?P<han>{_HAN_NUMERAL})(?=\s?(?:{_UNITS.unspaced}|[个次台条名人份遍点])))
    (?:\s?[-–~至到]\s?(?P<upper>\d{{1,9}}(?:[.,]\d{{1,9}})?)(?![\d.:-]))?
    (?P<scale>\s?(?:[kKM]|[mM]illion\w{{0,3}}|Mio\.?|milliards?|Milliarden?|billion|thousand|[千万亿])(?![\w%]))?
    (?P<unit>\s?(?:%|‰|[€$£¥]|°[CF])|\s?(?:{_UNITS.unspaced})|[ \u00a0\u202f-]?{_LETTER}{{1,24}})?""",
    re.VERBOSE,
)
# "30.000": as a decimal it would say no more than 30
_THOUSANDS = re.compile(r"[1-9]\d{0,2}\.000")
# "fifteen minutes"
_IN_WORDS = re.compile(rf"(?<![\w-])(?P<number>{_LETTER}{{2,20}})(?=[ -](?P<unit>{_LETTER}{{1,24}})(?!\w))")
# the "/min" of "100/min", "requests per minute" of "100 requests per minute"
_PER = re.compile(
    rf"(?:\s?{_LETTER}{{2,20}}){{0,2}}?\s?(?:/|\b(?:per|pro|par|por|je|an?)\s)\s?(?P<unit>{_LETTER}{{1,10}})\b"
)
# "every" before "two weeks"
_EVERY = re.compile(r"(?:\b(?:every|alle|tou(?:te)?s les|cada)\s|每)$", re.IGNORECASE)
_RHYTHMS = {86_400: "day", 604_800: "week", 1_209_600: "fortnight", 2_592_000: "month", 31_536_000: "year"}
# "每分钟最多" before "100"
_EACH = re.compile(rf"每(?P<unit>{_UNITS.unspaced})[{UNSPACED}]{{0,4}}\s?$")
_MONTH = rf"{_LETTER}{{3,10}}"
_HAN_DAY = r"\d{1,2}|[一二三四五六七八九十]{1,3}"
# "2026-05-12"; "12.5.2026"; "am 12.5."; "5月12日", "2026年"; "3 May 2026"; "May 3"; "May 2026"; "2026"
_DATES = tuple(
    re.compile(pattern)
    for pattern in (
        r"(?<![\w.])(?P<year>\d{4})[-/](?P<month>\d\d)(?:[-/](?P<day>\d\d))?(?!\w)",
        r"(?<![\w.])(?P<day>\d{1,2})\.\s?(?P<month>\d{1,2})\.(?P<year>\d{4})(?!\w)",
        r"(?<=(?:am|en|om|um|is|ab) )(?P<day>\d{1,2})\.\s?(?P<month>\d{1,2})\.",
        rf"(?:(?P<year>\d{{4}})\s?年\s?)?(?P<month>{_HAN_DAY})\s?月(?:份|\s?(?P<day>{_HAN_DAY})\s?[日号])?",
        r"(?P<year>(?:19|20)\d\d)\s?年",
        rf"(?<!\w)(?P<day>\d{{1,2}})(?:st|nd|rd|th|er|\.)?\s(?:of\s|de\s)?(?P<name>{_MONTH})\.?"
        r"(?:,?\s(?:de\s)?(?P<year>(?:19|20)\d\d))?(?!\w)",
        rf"(?<!\w)(?P<name>{_MONTH})\.?\s(?P<day>\d{{1,2}})(?:st|nd|rd|th)?(?:,?\s(?P<year>(?:19|20)\d\d))?(?![\w:.])",
        rf"(?<!\w)(?P<name>{_MONTH})\s(?:de\s)?(?P<year>(?:19|20)\d\d)(?!\w)",
        r"(?<![\w.:/$€£#-])(?P<year>(?:19|20)\d\d)(?![\w:/%-]|\.\w)",
    )
)
# "14:30", "2 pm", "14 Uhr", "halb zehn", "à 14 h 30", "下午3点"
_CLOCKS = tuple(
    re.compile(pattern, re.IGNORECASE)
    for pattern in (
        r"(?<![\w:.])(?P<hour>\d{1,2}):(?P<minute>\d\d)(?::\d\d)?\s?(?P<half>[ap]\.?m\b\.?)?(?:\s?Uhr)?(?![\w:])",
        r"(?<![\w:.])(?P<hour>\d{1,2})\s?(?P<half>[ap]\.?m\b\.?)",
        r"(?<![\w:.])(?P<hour>\d{1,2})(?:[:.](?P<minute>\d\d))?\sUhr\b",
        r"\bhalb (?P<next>\w{3,8})",
        r"(?<=à )(?P<hour>\d{1,2})\s?(?:h|heures)\s?(?P<minute>\d\d)?\b",
        r"(?<!\w)(?P<hour>\d{1,2})h(?P<minute>\d\d)\b",
        rf"(?P<part>凌晨|早上|上午|中午|下午|晚上)?\s?(?P<hour>\d{{1,2}}|{_HAN_NUMERAL})点(?P<minute>半|\d{{1,2}}分)?",
    )
)
_WORD = re.compile(rf"(?<![\w./-]){_LETTER}(?:{_LETTER}|\d|\.(?=\w))*+(?![\w/]|-\w)")
# "每周三" names the day
_CHOICE_UNSPACED = re.compile(rf"每(?=周[一二三四五六日天])|{_CHOICES.unspaced}")
# "`make test`"
_COMMAND = re.compile(r"`([^`\n ]{1,80} [^`\n]{1,80})`")
# "/etc/hosts", "~/.ssh", "src/app/main.py", "locales/"
_PATH = re.compile(
    r"(?<![\w/.:~@+-])(?:(?:~|\.{1,2})?/[\w.@+-]+(?:/[\w.@+-]+)*+|\w[\w.-]*+(?:/[\w.-]+){2,20}|\w[\w.-]*+/(?!\w))"
)


# "Mr. Grant", "Frau Seidel", "周老师"
_PERSON = re.compile(
    rf"(?<!\w)(?:Mr|Mrs|Ms|Miss|Dr|Prof|Frau|Herrn?|M|Mme|Mlle|Monsieur|Madame|Señora?|Sra?)\.?\s(?P<name>[A-ZÀ-Þ]{_LETTER}{{1,30}})"
    rf"|(?P<unspaced>[{_SURNAMES}])(?:老师|先生|女士|医生|教授|经理)"
)
# "ops@acme.example"; "https://api.acme.example/v1"; "#ops-alerts"
# By sort, and a sign that each has: most texts have none.
_ADDRESSES = {
    ("mailbox", "@"): re.compile(r"(?<![\w.+-])\w[\w.+-]{0,60}@[\w-]{1,60}(?:\.[\w-]{1,30}){1,4}"),
    ("host", "."): re.compile(
        r"(?:https?://[^\s,;()]{1,200}|(?<![\w.@/-])(?:[\w*<>-]{1,60}\.){1,5}"
        r"(?:com|org|net|dev|io|app|example|internal|corp|local|cn|eu)(?![\w-])(?:/[\w./-]{0,100})?)"
    ),
    ("channel", "#"): re.compile(r"(?<![\w&#/])#[a-z][\w-]{1,60}"),
}
# "eu-central-1", "us-gov-west-1", "europe-west4"
_DIGIT = re.compile(r"\d")
_REGION = re.compile(
    r"(?<![\w-])(?:[a-z]{2}(?:-gov)?|europe|asia|australia|africa|(?:north|south)america)-"
    r"(?:north|south|central)?(?:east|west|north|south|central)-?\d(?![\w-])"
)


def quantities_in(text: str) -> list[Quantity]:
    """Find the values in one sentence, in order and without overlaps."""
    has_digits = _DIGIT.search(text) is not None
    found = [*_written(text)]
    found += [*_dates(text), *_clocks(text)] if has_digits or not text.isascii() or "halb " in text else []
    found += [*_persons(text), *_choices(text), *_amounts(text)]
    taken = bytearray(len(text))
    kept: list[Quantity] = []
    for each in found:
        end = each.start + len(each.said)
        if taken.find(1, each.start, end) < 0:
            taken[each.start : end] = b"\1" * len(each.said)
            kept.append(each)
    return sorted(kept, key=lambda each: each.start)


def is_equal(one: Quantity, other: Quantity) -> bool:
    """Return True where two values of one sort may be the same: a day without its year is that day of any."""
    if isinstance(one.value, tuple) and isinstance(other.value, tuple):
        return all(a == b for a, b in zip(one.value, other.value, strict=True) if a is not None and b is not None)
    if isinstance(one.value, float) and isinstance(other.value, float):
        larger = max(abs(one.value), abs(other.value))
        is_rough = one.sort == "size" or (one.sort == "time" and larger > _A_YEAR)
        return abs(one.value - other.value) <= larger * (0.03 if is_rough else 1e-9)
    return one.value == other.value


def _quantity(sort: str, value: Value, match: re.Match[str]) -> Quantity:
    return Quantity(sort=sort, value=value, said=match.group(), start=match.start())


def _written(text: str) -> Iterator[Quantity]:
    for match in _COMMAND.finditer(text):
        yield _quantity("command", match[1], match)
    for (sort, sign), pattern in _ADDRESSES.items():
        for match in pattern.finditer(text) if sign in text else ():
            yield _quantity(sort, match.group().casefold().rstrip("./"), match)
    for match in _REGION.finditer(text):
        yield _quantity("region", match.group(), match)
    for match in _PATH.finditer(text):
        yield _quantity("path", match.group().rstrip("./"), match)


def _persons(text: str) -> Iterator[Quantity]:
    for match in _PERSON.finditer(text):
        name = match["name"] or match["unspaced"]
        yield _quantity("person", name.casefold().split()[-1], match)


def _dates(text: str) -> Iterator[Quantity]:
    for pattern in _DATES:
        for match in pattern.finditer(text):
            parts = match.groupdict()
            month = _month(parts["name"]) if "name" in parts else _han(parts.get("month"))
            if "name" not in parts or month:
                yield _quantity("date", (_han(parts.get("year")), month, _han(parts.get("day"))), match)


def _month(name: str) -> int | None:
    meaning = None if name in _AMBIGUOUS else _CHOICES.get(name)
    return int(meaning[1]) if meaning and meaning[0] == "month" else None


def _clocks(text: str) -> Iterator[Quantity]:
    """Yield times of day, in minutes since midnight, as text: no time is nearly another."""
    for pattern in _CLOCKS:
        for match in pattern.finditer(text):
            parts = match.groupdict()
            if "next" in parts:
                if number := _NUMBERS.get(parts["next"]):
                    yield _quantity("clock", str(int(number[1]) * 60 - 30), match)
                continue
            hour, said = _han(parts["hour"]) or 0, (parts.get("minute") or "0").removesuffix("分")
            is_late = (parts.get("half") or "").lower().startswith("p") or parts.get("part") in ("下午", "晚上")
            minutes = 30 if said == "半" else int(said)
            yield _quantity("clock", str((hour % 12 + 12 if is_late else hour) * 60 + minutes), match)


def _han(digits: str | None) -> int | None:
    """Return the number that Arabic or Chinese digits write, up to 999."""
    if not digits or digits.isdecimal():
        return int(digits) if digits else None
    total, last = 0, 0
    for sign in digits:
        if sign in "十百":
            total += (last or 1) * (10 if sign == "十" else 100)
            last = 0
        else:
            last = _DIGITS[sign]
    return total + last


def _choices(text: str) -> Iterator[Quantity]:
    for match in (*_WORD.finditer(text), *(() if text.isascii() else _CHOICE_UNSPACED.finditer(text))):
        meaning = None if match.group() in _AMBIGUOUS else _CHOICES.get(match.group())
        if meaning and meaning[0] == "month":
            yield _quantity("date", (None, int(meaning[1]), None), match)
        elif meaning:
            yield _quantity(*meaning, match)


def _amounts(text: str) -> Iterator[Quantity]:
    for match in _AMOUNT.finditer(text):
        yield _amount(text, match)
    for match in _IN_WORDS.finditer(text):
        number, unit = _NUMBERS.get(match["number"]), match["unit"]
        is_counted = number and (_UNITS.get(unit) or float(number[1]) > 1 or match["number"] == "single")
        if number and is_counted:
            yield _measured(text, float(number[1]), unit, match.start(), (match.end(), match.end("unit")))


def _amount(text: str, match: re.Match[str]) -> Quantity:
    """Return an amount in figures; of a span, its upper end."""
    start = match.start("v") if match["v"] else match.start("number")
    written = match["upper"] or match["number"]
    if match["v"] or written.count(".") > 1:
        end = match.end("number")
        return Quantity(sort="version", value=match["number"], said=text[start:end], start=start)
    number = float(_han(written) or 0) if match["han"] else _number(written)
    scale = (match["scale"] or "").strip().rstrip(".")
    if scale:
        number *= 1e6 if scale == "M" else float((_SCALES.get(scale) or ("", "1"))[1])
    end = max(match.end("number"), match.end("upper"), match.end("scale"))
    if match["money"]:
        return _measured(text, number, match["money"].strip(), match.start(), (end, end))
    measured = _measured(text, number, (match["unit"] or "").strip(" -\u00a0\u202f"), start, (end, match.end()))
    if (
        measured.sort == "number" and "." in written and not scale and not _THOUSANDS.fullmatch(written)
    ):  # 3.10 is not 3.1.
        return Quantity(sort="number", value=written, said=measured.said, start=start, noun=measured.noun)
    return measured


def _number(written: str) -> float:
    """Read a number; a sign before three digits parts thousands, another comma is a decimal one."""
    written = re.sub(r"[,'’ \u00a0\u202f](?=\d{3}(?!\d))", "", written).replace(",", ".")
    return float(written.replace(".", "") if _THOUSANDS.fullmatch(written) else written)


def _measured(text: str, number: float, unit: str, start: int, ends: tuple[int, int]) -> Quantity:
    """Return an amount with its unit, as a rate where a time follows; without one, with the noun behind it.

    `ends` are those of the number and of its unit.
    """
    bare, end = ends
    meaning = _UNITS.get(unit) if unit else None
    if unit == "m" and text[bare : bare + 1] == "m":
        meaning = ("time", "60")  # "30m": minutes, unlike "30 m".
    if unit in _AMBIGUOUS or (len(unit) == 1 and unit.isupper()):
        meaning = None  # "9 to 17"; French bytes have a capital.
    after, before = _PER.match(text, end if meaning else bare), _EACH.search(text, max(start - 12, 0), start)
    each = after or before
    per = _UNITS.get(each["unit"]) if each else None
    sort, factor = (meaning[0], float(meaning[1])) if meaning else ("number", 1.0)
    if per and per[0] == "time" != sort:
        end = after.end() if after else end if meaning else bare
        return Quantity(sort=f"{sort} a time", value=number * factor / float(per[1]), said=text[start:end], start=start)
    if sort == "time" and number * factor >= _A_DAY and _EVERY.search(text, max(start - 12, 0), start):
        seconds = int(number * factor)
        return Quantity(sort="rhythm", value=_RHYTHMS.get(seconds, str(seconds)), said=text[start:end], start=start)
    noun = "" if meaning else unit.casefold()
    return Quantity(
        sort=sort, value=number * factor, said=text[start : end if meaning else bare], start=start, noun=noun
    )
