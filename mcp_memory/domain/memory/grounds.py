"""Finds by rule what a record stands on, in the words of both, without a model.

Three rules: a reason restates what another record says; guidance names a file, a version, a command or a setting that
another record is about; a record names a task whose result another one reports. A false link is a false doubt later,
so each rule wants more in common than a subject.
"""

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

from mcp_memory.domain.model.records import Details, Json, Kind
from mcp_memory.domain.text.entity_extraction import STANDARD
from mcp_memory.domain.text.lexicon import spaced, unspaced
from mcp_memory.domain.text.words import letters_in_common, query_terms, stems

GUIDANCE: frozenset[Kind] = frozenset({"procedure", "censor"})
REASONED: frozenset[Kind] = frozenset({"decision", *GUIDANCE})
OUTCOMES: frozenset[Kind] = frozenset({"result", "episode"})
"""The kinds that report what a task came to."""
GROUND_KINDS: frozenset[Kind] = frozenset({"fact", "decision", "identity", *OUTCOMES})
"""The kinds that others stand on. Two procedures that name one file stand beside each other."""

MOST_PASSAGES = 6
READ_CHARACTERS = 4_000
LEAST_WORDS, LEAST_SHARE, LEAST_NUMBERED_SHARE = 3, 0.6, 0.5
"""The least number of words in common, and their least share of the shorter text; the same where a number is too."""
MOST_THINGS = 4
"""A record that names more things is a listing, about none of them."""

_REASONS = ("reasons", "reason")
_ALSO_READ = ("name", "description", "trigger")
# "Queue exports, because | the API allows 100 requests"
_PREMISE = re.compile(rf"\b(?:{spaced('premises')})(?!\w)|{unspaced('premises')}", re.IGNORECASE)
# "The API allows 100 requests, | so we queue exports"
_CONCLUSION = re.compile(rf"\b(?:{spaced('conclusions')})\b|{unspaced('conclusions')}", re.IGNORECASE)
# ends of a sentence: "requests. ", "请求。"; not the point in "3.11"
_END = re.compile(r"[.!?;](?=\s|$)|[。！？；\n]")
# "Python 3.11", "Node 20", "postgres v15.2"
_VERSION = re.compile(
    r"\b(?P<name>[A-Za-z][\w+#-]{1,30}(?:\.js)?) (?:version |v)?(?P<number>\d{1,5}(?:\.\d{1,5}){0,3})\b(?![%\w])"
)
# "`make release`"
_CODE = re.compile(r"`([^`\n]{2,200})`")
# "T-118", "PROJ-42"; not "UTF-8"
_LABEL = re.compile(r"(?<![\w./-])[A-Z][A-Z0-9]{0,9}-\d{1,6}(?![\w-])")
# what may be a path, a setting, a name in a program: "tests/golden/", "build:prod", "acme/setup@v1"
_SIGNS = re.compile(r"(?<![A-Za-z0-9_./@:#~-])[A-Za-z0-9_./@:#~-]{4,120}")
# "order_completed", "RETRY_LIMIT", "setup@v1", "build:prod", "retryLimit", "app.py", "/healthz", "golden/", "a/b/c"
_FORM = re.compile(
    r"[a-z\d]_[a-z\d]|[A-Z\d]_[A-Z\d]|\w@\w|[a-z]:[a-z]|[a-z][A-Z]|\w\w\.[a-z]|^[~.]{0,2}/[\w.@-]|\w/$|/[^/]*[/._@\d]"
)
# "100", "1,000", "3.11", "09:30"
_NUMBER = re.compile(r"\d+(?:[.,:]\d+)*")
# "numpy==2.1", "react@19.0.0"
_PINNED = re.compile(
    r"(?<![\w./@-])(?P<name>[A-Za-z][\w.-]{1,60})(?:==|@)v?(?P<number>\d{1,5}(?:\.\d{1,5}){0,3})(?![\w.])"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Wording:
    """A text as the rules read it: its words by their stems, its numbers, and what it names in an exact form."""

    text: str
    words: tuple[str, ...]
    numbers: frozenset[str]
    things: frozenset[str]


def read(text: str) -> Wording:
    """Read a text, or the beginning of a long one."""
    text = text[:READ_CHARACTERS]
    return Wording(
        text=text,
        words=tuple(dict.fromkeys(stems(query_terms(text, limit=None)))),
        numbers=frozenset(_NUMBER.findall(text)),
        things=frozenset(_things(text)),
    )


def passages_of(kind: Kind, text: str, details: Details) -> tuple[str, ...]:
    """Return the parts of a record that may name what it stands on, its reasons first; none for most records."""
    text = text[:READ_CHARACTERS]
    if kind not in REASONED:
        return (" ".join(dict.fromkeys(labels)),) if (labels := _LABEL.findall(text)) else ()
    given = [said for name in _REASONS for said in _texts(details.get(name))]
    stated = [part for sentence in _END.split(text) for part in _stated(sentence)]
    whole = ["\n".join([text, *(said for name in _ALSO_READ for said in _texts(details.get(name)))])]
    return tuple(dict.fromkeys([*given, *stated, *(whole if kind in GUIDANCE else ())]))[:MOST_PASSAGES]


def _stated(sentence: str) -> Iterator[str]:
    """Yield the parts of a sentence that give a reason: behind "because", and before "so"."""
    yield from (sentence[match.end() :].strip() for match in _PREMISE.finditer(sentence))
    yield from (sentence[: match.start()].strip() for match in _CONCLUSION.finditer(sentence))


def stands_on(passage: Wording, ground: Wording, kind: Kind, ground_kind: Kind) -> bool:
    """Return True where a passage of a record restates what another says, or names the thing that it is about."""
    things = named(passage, ground)
    if any(_LABEL.fullmatch(thing.upper()) for thing in things):
        return kind in REASONED or ground_kind in OUTCOMES
    if kind not in REASONED:
        return False
    is_about = bool(things) and ground_kind != "episode" and len(ground.things) <= MOST_THINGS
    return is_about or restates(passage, ground)


def restates(passage: Wording, ground: Wording) -> bool:
    """Return True where most of the shorter text's words are in the other, and no number contradicts."""
    if min(len(passage.words), len(ground.words)) < LEAST_WORDS:
        return False
    if passage.numbers and ground.numbers and not passage.numbers & ground.numbers:
        return False
    inside = stems(query_terms(" ".join(named(passage, ground))))
    shared = [word for word in passage.words if any(_is_alike(word, other) for other in ground.words)]
    share = len([word for word in shared if word not in inside]) / min(len(passage.words), len(ground.words))
    least = LEAST_NUMBERED_SHARE if passage.numbers & ground.numbers else LEAST_SHARE
    return len(shared) >= LEAST_WORDS and share >= least


def overtaken(guidance: Wording, gone: Collection[str], pinned: Mapping[str, str]) -> str:
    """Return the file or version that guidance names and a command did away with, "" for none.

    `gone` are the paths that it removed or moved: "scripts/release.sh" is also "release.sh". `pinned` are its `pins`:
    numpy at 2.1 replaces "numpy 1.26".
    """
    paths = [f"/{path.casefold().rstrip('/')}" for path in gone]
    for thing in sorted(guidance.things):
        name, _, number = thing.partition(" ")
        if any(path.endswith(f"/{thing.strip('/')}") for path in paths if "." in thing or "/" in thing):
            return thing
        if number and name in pinned and not _is_same_version(number, pinned[name]):
            return thing
    return ""


def pins(command: str) -> Mapping[str, str]:
    """Return the versions that a command installs, by name: "numpy==2.1", "react@19"."""
    return {match["name"].casefold(): match["number"] for match in _PINNED.finditer(command)}


def _is_same_version(one: str, other: str) -> bool:
    """Return True where one version is the other, or a part of it: 3.11 of 3.11.7."""
    return f"{one}.".startswith(f"{other}.") or f"{other}.".startswith(f"{one}.")


def named(passage: Wording, ground: Wording) -> frozenset[str]:
    """Return the things that both texts name; a thing of one may stand in the other as plain words."""
    mine, other = passage.text.casefold(), ground.text.casefold()
    return frozenset(
        thing for thing in passage.things | ground.things if _stands_in(thing, mine) and _stands_in(thing, other)
    )


def _stands_in(thing: str, text: str) -> bool:
    """Return True where a text holds the thing, and not within a longer word: a file also below its folder."""
    begin = text.find(thing)
    while begin >= 0:
        around = text[begin - 1 : begin] + text[begin + len(thing) : begin + len(thing) + 1]
        if not any(sign.isascii() and (sign.isalnum() or sign in "_-") for sign in around):
            return True
        begin = text.find(thing, begin + 1)
    return False


def _things(text: str) -> Iterator[str]:
    """Yield what a text names in an exact form: "config/limits.yaml", "node 20", "make release", "t-118"."""
    for match in _CODE.finditer(text):
        yield match[1].casefold()
    for match in _LABEL.finditer(text):
        yield match[0].casefold()
    for match in _SIGNS.finditer(text):
        word = match[0].rstrip(".:#-")
        if _FORM.search(word) and not STANDARD.match(word):
            yield word.casefold()
    for match in _VERSION.finditer(text):
        if match["name"][0].isupper() or "." in match["number"]:
            yield f"{match['name'].casefold()} {match['number']}"


def _is_alike(a: str, b: str) -> bool:
    needed = letters_in_common(min(len(a), len(b)))
    return a == b or (len(a) >= needed <= len(b) and a[:needed] == b[:needed])


def _texts(value: Json) -> Sequence[str]:
    if isinstance(value, str):
        return (value,)
    if isinstance(value, Sequence):
        return [each for each in value if isinstance(each, str)]
    return ()
