"""Finds values that must stay literal: settings, amounts, versions, dates, hashes, codes, files and commands.

Each value keeps the words that name it, as the text has them. Independent of sessions and tokens.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain, islice
from typing import Literal, NamedTuple

from mcp_memory.domain.text import exact_forms as forms
from mcp_memory.domain.text.entity_extraction import STANDARD, formed_mentions
from mcp_memory.domain.text.words import REDACTED

Sort = Literal["files", "commands", "identifiers", "values"]

MAX_SCANNED, MAX_PRINTED = 20_000, 10_000
"""Characters read of a message, and of a tool's output; of a longer text its beginning and its end are read."""
MAX_WORDS = 1_000
"""Numbers, and words of one form, to examine in a text: a text with more is a table."""
MOST_FILES = 6
"""Most files of a search result worth naming; among more, none stands out."""
MAX_EXACT = 120
"""Longest value, identifier or file, in characters; a command may have twice as many."""
_CHUNK = 4_000
MOST_WORDS = 2
"""Most words that name a number, besides links such as "is" and "to"."""
_LEFT = 48
"""Characters before a number in which to look for the words that name it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Exact:
    """A literal stretch of a text. `worth` is higher for more informative values, in about [0.3, 2.5]."""

    text: str
    sort: Sort
    worth: float
    place: int


class _Label(NamedTuple):
    """The start of the words that name a value, the last of them ("" for none), and their link to the value."""

    place: int
    word: str
    is_linked: bool
    is_unspaced: bool


def exact_in(text: str, *, names: bool = True) -> list[Exact]:
    """Find the exact values in a text, in order, repeats included.

    Without `names`, only values and files: identifiers and commands in a listing are nobody's words.
    """
    read = _read(text, MAX_SCANNED if names else MAX_PRINTED)
    found = [*_files(read), *_settings(read), *_codes(read), *_dates(read), *_amounts(read)]
    if names:
        found += [*_commands(read), *_mentioned(read)]
    return _apart(found)


def files_hit(text: str) -> tuple[str, ...]:
    """Return the files that a search hit, where these are few."""
    files = dict.fromkeys(match[1] for match in islice(forms.HIT.finditer(text), MAX_WORDS))
    return tuple(files) if len(files) <= MOST_FILES else ()


def subject_of(value: str) -> str:
    """Return the name of a value: the same for two that contradict each other, "port 5432" and "Port = 5433"."""
    named = forms.AMOUNT_PART.split(value, maxsplit=1)[0]
    words = [word for word in named.casefold().split() if word not in forms.LINKS and word not in forms.ARTICLES]
    return " ".join(words).strip("\"'` :=") or value


def is_date(value: str) -> bool:
    """Return True where a value is a day or a time of day."""
    return any(pattern.search(value) for pattern in forms.DATES)


def _read(text: str, most: int) -> str:
    """Return the part of a text to read, with its skipped parts blanked and all else in place.

    Listings and the prefixes of output lines are blanked.
    """
    if len(text) > most:
        text = f"{text[: most * 3 // 4]}\n{text[-most // 4 :]}"
    text = REDACTED.sub(lambda match: " " * len(match.group()), text)
    return "\n".join(_shown(line) for line in text.split("\n"))


def _shown(line: str) -> str:
    if forms.LISTING.search(line):
        return " " * len(line)
    stamp = forms.STAMP.match(line)
    return " " * stamp.end() + line[stamp.end() :] if stamp else line


def _apart(found: list[Exact]) -> list[Exact]:
    """Return the matches in order, without overlaps: files and commands before values, then the earliest start."""
    first: dict[Sort, int] = {"files": 0, "commands": 0, "values": 1, "identifiers": 2}
    taken = bytearray(max((each.place + len(each.text) for each in found), default=0))
    files = bytearray(len(taken))
    kept: list[Exact] = []
    for each in sorted(found, key=lambda one: (first[one.sort], one.place, -len(one.text))):
        end = each.place + len(each.text)
        claimed = files if each.sort == "files" else taken
        if len(each.text) <= 1 or claimed.find(1, each.place, end) >= 0:
            continue
        taken[each.place : end] = b"\1" * len(each.text)
        if each.sort == "files":
            files[each.place : end] = b"\1" * len(each.text)
        kept.append(each)
    return sorted(kept, key=lambda one: one.place)


def _exact(text: str, start: int, end: int, worth: float, sort: Sort = "values") -> Iterator[Exact]:
    if end - start <= MAX_EXACT and not (sort == "values" and forms.MARKUP.search(text, start, end)):
        yield Exact(text=text[start:end], sort=sort, worth=worth, place=start)


def _files(text: str) -> Iterator[Exact]:
    for match in islice(forms.PATH_WORD.finditer(text), MAX_WORDS):
        word = forms.LINE_IN_FILE.sub(r"\g<file>", match.group().rstrip(".:/\\-+@~,"))
        if forms.FILE.fullmatch(word) and text[match.start() + len(word) : match.start() + len(word) + 1] != "(":
            yield from _exact(text, match.start(), match.start() + len(word), 1.0, "files")


def _commands(text: str) -> Iterator[Exact]:
    for match in forms.COMMAND.finditer(text):
        group = match.lastgroup or ""
        command = match[group].rstrip()
        if group == "bare" and (forms.PROSE_COMMAND.search(command) or not re.search(r"\s-|[/=]|\w\.\w", command)):
            continue
        yield Exact(text=command, sort="commands", worth=1.0, place=match.start(group))


def _mentioned(text: str) -> Iterator[Exact]:
    """Yield identifiers, issues, addresses and the other literal mentions that entity_extraction.py finds."""
    for begin in range(0, len(text), _CHUNK):
        chunk = text[begin : begin + _CHUNK]
        for kind, name in formed_mentions(chunk):
            place = chunk.find(name)
            if kind == "name" or place < 0 or STANDARD.match(name):
                continue
            sorts: dict[str, Sort] = {"url": "values", "path": "files"}
            yield from _exact(text, begin + place, begin + place + len(name), 1.0, sorts.get(kind, "identifiers"))


def _settings(text: str) -> Iterator[Exact]:
    """Yield `key = value` and `key: value`, except in sentences and calls."""
    for match in forms.SETTING.finditer(text):
        value = match["value"].rstrip(".:!?`*|")
        end = match.end() if match["unit"] else match.start("value") + len(value)
        if not value or value.startswith(("//", "=")) or text[end : end + 1] in ("(", "["):
            continue
        worth = _setting_worth(text, match, value)
        if worth:
            yield from _exact(text, match.start(), end, worth)


def _setting_worth(text: str, match: re.Match[str], value: str) -> float:
    """Return the worth of a setting; 0 for a label in a sentence, a loop's variable or the like."""
    key = match["key"]
    is_prose = value.lower() in forms.ARTICLES - forms.SWITCHES
    if is_prose or key.lower() in forms.NOISE or len(key) == 1 or key.endswith(("Error", "Exception", "Warning")):
        return 0.0
    is_known = _is_known(key)
    is_assigned = "=" in match["link"]
    is_named = is_known or bool(forms.NAMES_IT.search(key))
    if any(sign.isdigit() for sign in value):
        begins = not text[text.rfind("\n", 0, match.start()) + 1 : match.start()].strip(" \t-")
        return 0.9 + 0.4 * is_known if is_assigned or is_named or begins else 0.0
    is_plain = value[0] in "\"'" or value.lower() in forms.SWITCHES
    return 0.6 + 0.2 * is_known if is_named or (is_plain and is_assigned) else 0.0


def _is_known(word: str) -> bool:
    """Return True for a word that names a number: timeout, DB_PORT, maxRetries."""
    lower = word.lower()
    return (
        lower in forms.KEYS
        or any(part.lower() in forms.KEYS for part in forms.PARTS.split(word))
        or (lower.startswith(forms.FOREIGN_KEYS))
    )


def _codes(text: str) -> Iterator[Exact]:
    for match in islice(forms.DIGIT_WORD.finditer(text), MAX_WORDS):
        word = match.group().rstrip(".:/+@-")
        form = forms.FORM.fullmatch(word)
        if form and form.lastgroup and not STANDARD.match(word):
            yield from _coded(text, match.start(), match.start() + len(word), form.lastgroup)
    for match in forms.NAMED_CODE.finditer(text):
        if not _goes_on(text, match.start()):
            yield from _exact(text, match.start(), match.end(), 1.3)


def _coded(text: str, place: int, end: int, form: str) -> Iterator[Exact]:
    """Yield a code with the words that name it, and alone, in case another value already took these words."""
    worth = forms.FORM_WORTH[form]
    told = _what(text, place)
    if told.word and text[place - 1 : place] not in ("(", "[", "{"):
        yield from _exact(text, told.place, end, worth)
    if form != "number":
        yield from _exact(text, place, end, worth if form == "code" else worth - 0.4)


def _goes_on(text: str, place: int) -> bool:
    """Return True where a place is inside a word."""
    before = text[place - 1] if place else " "
    return before in forms.WITHIN or (before.isascii() and before.isalnum())


def _dates(text: str) -> Iterator[Exact]:
    found = chain.from_iterable(islice(pattern.finditer(text), MAX_WORDS) for pattern in forms.DATES)
    for match in found:
        if _goes_on(text, match.start()):
            continue
        told = _what(text, match.start())
        if told.word:
            yield from _exact(text, told.place, match.end(), 0.9)
        yield from _exact(text, match.start(), match.end(), 0.4)


def _amounts(text: str) -> Iterator[Exact]:
    """Yield numbers with the words before them that name them; a bare number is worth nothing."""
    for match in islice(forms.MUCH.finditer(text), MAX_WORDS):
        place = match.start()
        money = forms.MONEY.search(text, max(place - 2, 0), place)
        begin = money.start() if money else place
        if _goes_on(text, begin):
            continue
        told = _what(text, begin)
        unit = (match["unit"] or "").strip()
        if told.is_unspaced:
            worth = _unspaced_worth(told.word, unit)
        else:
            worth = _amount_worth(match["number"], unit, told, has_price=bool(money or match["per"]))
        if worth and (told.place < begin or money):
            yield from _exact(text, told.place, match.end(), worth)


def _amount_worth(number: str, unit: str, told: _Label, *, has_price: bool) -> float:
    if told.word in forms.SPANS:
        return 0.6 if unit else 0.0
    if told.word.lower() in forms.NOISE:
        return 0.0
    if has_price:
        return 1.3 if told.word else 0.7
    if not told.word:
        return 0.0
    is_named = _is_known(told.word) or bool(forms.NAMES_IT.search(told.word))
    if unit:
        return 1.5 if is_named else 0.8
    is_telling = len(number) > 2 or "." in number
    is_version = "." in number and told.word[0].isupper()
    return 1.2 if is_named else 0.7 if is_version or (told.is_linked and is_telling) else 0.0


def _unspaced_worth(what: str, unit: str) -> float:
    if forms.UNSPACED_KEY.search(what):
        return 1.3
    return 0.8 if unit and unit not in forms.COUNTED else 0.0


def _what(text: str, place: int) -> _Label:
    """Return the words before a place that name the value there: at most two, and the link between."""
    floor = max(text.rfind("\n", 0, place) + 1, place - _LEFT)
    left = text[floor:place]
    unspaced = forms.HAN_WORD.search(left)
    if unspaced:
        return _Label(floor + unspaced.start(), unspaced.group().strip(), False, True)
    words = list(forms.WORDS.finditer(left))
    if words and words[0].start() == 0 and floor and not text[floor - 1].isspace():
        del words[0]  # Its beginning is cut off.
    start, told, is_linked = place, list[str](), False
    for number in range(len(words) - 1, -1, -1):
        bare = words[number].group().strip(forms.MARKS).rstrip(":=")
        is_link = bare.lower() in forms.LINKS or not bare or _is_number(words, number, bare)
        if _is_end(words[number].group(), bare, is_link, len(told)):
            break
        if is_link:
            is_linked = is_linked or bare.lower() in forms.COPULAS
            continue
        start = floor + words[number].start()
        told.append(bare)
    if not told and words and words[-1].group() in forms.SPANS:
        return _Label(floor + words[-1].start(), words[-1].group(), False, False)
    skipped = len(text[start:place]) - len(text[start:place].lstrip(forms.MARKS))
    return _Label(start + skipped, told[0], is_linked, False) if told else _Label(place, "", False, False)


def _is_number(words: list[re.Match[str]], number: int, bare: str) -> bool:
    """Return True where a word is part of a range: another number, or its unit."""
    if forms.NUMERIC.fullmatch(bare):
        return True
    return bool(number and forms.IS_UNIT.fullmatch(bare) and forms.NUMERIC.fullmatch(words[number - 1].group()))


def _is_end(word: str, bare: str, is_link: bool, told: int) -> bool:
    """Return True where the words that name a number begin behind this word."""
    if told and (is_link or told == MOST_WORDS or word.endswith(":")):
        return True
    is_word = is_link or any(sign.isalnum() for sign in bare)
    return not is_word or word.endswith(forms.ENDS) or bare.lower() in forms.ARTICLES
