"""Finds what a text speaks of, without a model: names, identifiers, paths, addresses, issues. Knows no store."""

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Literal, TypeAlias

from mcp_memory.domain.model.records import Details, Entity, searchable_text
from mcp_memory.domain.text.proper_names import find_names
from mcp_memory.domain.text.words import UNSPACED, normalized

FoundType: TypeAlias = Literal["name", "identifier", "path", "url", "issue", "handle"]
"""`handle` is an @name or a mail address; the others are what they are called."""

MAX_FOUND = 20
"""Entities per record: what names more is a listing, and ties everything to everything."""
MAX_SCANNED = 20_000
"""Characters read of a text; a tool's output can be megabytes."""
MAX_LENGTH = 160
"""Characters of a found name."""

_Patterns: TypeAlias = tuple[tuple[FoundType, re.Pattern[str]], ...]
_EXTENSIONS = (
    "bash|bat|c|cc|cfg|conf|cpp|cs|css|csv|db|docx?|env|gif|go|gz|h|hpp|html?|ini|ipynb|java|jpe?g|jsx?|json|jsonl|kt"
    "|lock|log|lua|md|mjs|pdf|php|png|proto|ps1|py|pyi|r|rb|rs|rst|scala|scss|sh|sql|sqlite|svg|swift|tar|toml|tsx?"
    "|txt|vue|wav|xlsx?|xml|ya?ml|zip|zsh"
)
_EDGE = r"(?<![\w/\\.@:+-])"
_DEFINITION = re.compile(r"(?:(?<=\bdef )|(?<=\bclass )|(?<=\bfunc )|(?<=\bfunction ))[^\W\d]\w{2,}(?=\s*[({:])")
_CALL = re.compile(r"\b[A-Za-z_]\w{2,}(?=\(\))")
_PATTERNS: _Patterns = (
    ("url", re.compile(r"\b(?:https?|ftp|ssh|git|file)://[^\s<>\"'`{}|\\^\[\]]*[\w/#&=+~-]", re.IGNORECASE)),
    ("handle", re.compile(r"(?<![\w.+-])[\w.+-]{1,64}@[\w-]+(?:\.[\w-]+)+\b")),
    ("issue", re.compile(r"(?<![\w/.-])[\w-]+(?:/[\w.-]+)?#\d{1,6}\b|(?<![\w&#/])#\d{1,5}\b")),
    ("issue", re.compile(r"(?<![\w-])[A-Z][A-Z0-9]{1,9}-\d{1,6}(?![\w-])|\bCVE-\d{4}-\d{4,}\b")),
    ("path", re.compile(r"\b[A-Za-z]:\\(?:[\w .()+-]+\\)*[\w.()+-]*\w")),
    ("path", re.compile(_EDGE + r"(?:~|\.{1,2})?/[\w.@+-]+(?:/[\w.@+-]+)+|" + _EDGE + r"(?:~|\.{1,2})/[\w.@+-]*\w")),
    ("path", re.compile(_EDGE + rf"(?:[\w.@+-]+[/\\])*[\w@+-][\w.@+-]*\.(?:{_EXTENSIONS})\b(?!\.?\w|\()")),
    ("identifier", re.compile(r"(?<=`)[A-Za-z_][\w.:-]*(?=(?:\(\))?`)")),
    ("identifier", _DEFINITION),
    ("identifier", re.compile(r"(?<![\w.@])(?!self\.|this\.|cls\.)[A-Za-z_]\w+(?:\.[A-Za-z_]\w+)+(?![\w@])")),
    ("identifier", re.compile(r"(?<![\w.])_?[A-Za-z][A-Za-z0-9]*(?:_[A-Za-z0-9]+)+_?\b|\b[a-z][a-z0-9]*[A-Z]\w*")),
)  # fmt: skip
"""In order: what one has taken is no longer there for the next."""
_PROSE_PATTERNS: _Patterns = (
    ("handle", re.compile(r"(?<![\w@./])@[A-Za-z]\w{1,38}\b(?![/(]|\.\w)")),
    ("identifier", _CALL),
)
"""In code an @ decorates, and most calls are to what every program has."""
_TITLES: _Patterns = (("name", re.compile(r"《[^《》\n]{1,40}》|『[^『』\n]{1,40}』")),)
_CODE_PATTERNS: _Patterns = (("identifier", re.compile(r"\b[A-Z]+[a-z0-9]+[A-Z][A-Za-z0-9]*\b")),)
_CODE_LINE = re.compile(
    r"^\s*(?:(?:def|fn|func|class|interface|struct)\s+\w+\s*[(:{<]|import\s+\w|from\s+\S+\s+import\b|return\b|elif\b"
    r"|(?:else|try)\s*[:{]|(?:const|let|var|public|private|static)\s+\w|#include|@\w+|[}\])]|//|/\*|\$\s|>>>|\#\s)"
    r"|^\s*[\w.]+\(.*\)\s*+(?::\s*+)?$|[;{]\s*+$|[\w\])]\s*(?:[-+*|]?=|:=|=>)\s*[\w\[{(\"']|->"
)
_FENCE = re.compile(r"^\s*(?:```|~~~)")
_MARKED = re.compile(r"\[REDACTED[^\]\n]{0,80}\]")
_SCRIPTS_MEET = re.compile(rf"(?<=[{UNSPACED}])(?=[A-Za-z0-9_@#~])|(?<=[A-Za-z0-9_])(?=[{UNSPACED}])")
"""Chinese text has no space around what it takes from elsewhere."""
_MISSING_SPACE = re.compile(r"[a-z]\.[A-Z][a-z]*$")
_ABBREVIATION = re.compile(r"(?:[A-Za-z]\.)+[A-Za-z]")
_INNER_CAPITAL = re.compile(r"[a-z0-9][A-Z]|[A-Z]{2}[a-z]")
_PIECE = re.compile(rf"[{UNSPACED}]|[^\W{UNSPACED}]+|[^\w\s]")

MAX_CODE_LINE = 400
"""Characters; what is longer and looks like code was not written by anybody."""
MAX_PIECES = 24
"""Words and signs of the longest name that is looked for in a query: a path of some depth."""
MAX_QUERY_PIECES = 256


def entity_key(name: str) -> str:
    """What two spellings of one entity share: Unicode form, case and space do not count."""
    return " ".join(normalized("NFKC", name).casefold().split())


def aliases_of(properties: Details) -> tuple[str, ...]:
    """The other names that an entity's properties give it."""
    named = properties.get("aliases")
    if isinstance(named, str):
        return (named,)
    return tuple(name for name in named if isinstance(name, str)) if isinstance(named, Sequence) else ()


def found_entities(
    text: str, speaker: str | None = None, details: Details | None = None, given: Iterable[Entity] = ()
) -> tuple[Entity, ...]:
    """What a record's speaker, text and telling details mention, in order of appearance; not what was given with it.

    At most MAX_FOUND entities, their types FoundType, marked as found.
    """
    details = details or {}
    found = {entity_key(speaker): Entity(name=speaker, type="name", found=True)} if speaker else {}
    path = details.get("path")
    whole = "\n".join([path if isinstance(path, str) else "", searchable_text(text, None, details)])
    known = {entity_key(entity.name) for entity in given}
    for kind, name in _mentions(whole[:MAX_SCANNED]):
        found.setdefault(entity_key(name), Entity(name=name, type=kind, found=True))
        if len(found) >= MAX_FOUND + len(known):
            break
    return tuple(entity for key, entity in found.items() if key and key not in known)[:MAX_FOUND]


def formed_mentions(text: str) -> tuple[tuple[FoundType, str], ...]:
    """Type and name of what a text mentions in a form of its own, in order, each once: all but names that are words."""
    return tuple(dict.fromkeys(_mentions(text[:MAX_SCANNED], with_words=False)))


def name_candidates(text: str) -> Iterator[tuple[int, int, str]]:
    """(start, end, key) of every stretch of a query that may be an entity's name, the longest first from each start.

    Stretches begin and end at words' edges; characters of scripts without spaces are words by themselves.
    """
    pieces = [match.span() for match in _PIECE.finditer(text[: MAX_SCANNED // 4])][:MAX_QUERY_PIECES]
    for first in range(len(pieces)):
        start = pieces[first][0]
        for last in range(min(first + MAX_PIECES, len(pieces)) - 1, first - 1, -1):
            end = pieces[last][1]
            yield start, end, entity_key(text[start:end])


def _mentions(text: str, *, with_words: bool = True) -> Iterator[tuple[FoundType, str]]:
    """Type and name of each mention, in order of position; names that are words take longest."""
    found: list[tuple[int, FoundType, str]] = []
    text = _take(_MARKED.sub("", text), _TITLES, found)
    prose, code = _prose_and_code(_SCRIPTS_MEET.sub(" ", text))
    prose = _take(prose, _PATTERNS + _PROSE_PATTERNS + (() if with_words else _CODE_PATTERNS), found)
    _take(code, _PATTERNS + _CODE_PATTERNS, found)
    for position, name in find_names(prose) if with_words else ():
        written_as_one = " " not in name and _INNER_CAPITAL.search(name)
        found.append((position, "identifier" if written_as_one else "name", name))
    for _, kind, name in sorted(found, key=lambda mention: mention[0]):
        if 1 < len(name) <= MAX_LENGTH:
            yield kind, name


def _prose_and_code(text: str) -> tuple[str, str]:
    """The text twice, line for line: once without its code, once without its prose."""
    prose: list[str] = []
    code: list[str] = []
    balance, is_fenced = 0, False
    for line in text.split("\n"):
        is_fence = bool(_FENCE.match(line))
        is_fenced = is_fenced != is_fence
        looks_like_code = len(line) <= MAX_CODE_LINE and bool(_CODE_LINE.search(line))
        is_code = is_fenced or is_fence or looks_like_code
        if line.strip() and not is_fenced:
            balance += 1 if is_code else -1
        blank = " " * len(line)
        prose.append(blank if is_code else line)
        code.append(line if is_code else blank)
    if balance > 0:
        # Mostly code: the rest of it is comments, whose capitals name nothing.
        return " " * len(text), text
    return "\n".join(prose), "\n".join(code)


def _take(text: str, patterns: _Patterns, found: list[tuple[int, FoundType, str]]) -> str:
    """Add what the patterns find, and return the text with that blanked out by signs that are part of no name."""
    if not text.strip():
        return text
    for kind, pattern in patterns:

        def blank(match: re.Match[str], kind: FoundType = kind, pattern: re.Pattern[str] = pattern) -> str:
            name = match.group()
            if kind == "identifier" and not _is_identifier(name):
                return name
            if pattern in (_DEFINITION, _CALL) and name.islower() and "_" not in name:
                name += "()"  # A plain word: who asks how to connect does not ask for connect().
            found.extend((match.start(), kind, each) for each in _with_parts(kind, name.strip("《》『』")))
            return "|" * len(match.group())

        text = pattern.sub(blank, text)
    return text


def _is_identifier(name: str) -> bool:
    """False for what every program has, and for prose that only looks like code: "e.g", "the end.Then"."""
    is_dunder = name.startswith("__") and name.endswith("__")
    is_prose = _MISSING_SPACE.search(name) or _ABBREVIATION.fullmatch(name)
    return not (is_dunder or is_prose or name in ("None", "True", "False"))


def _with_parts(kind: FoundType, name: str) -> Iterator[str]:
    """The name, and what it is called for short: a path's file, the last part of a dotted identifier."""
    yield name
    if kind == "path":
        file = re.split(r"[/\\]", name)[-1]
        if file != name and "." in file:
            yield file
    elif kind == "identifier" and "." in name:
        last = name.rpartition(".")[2]
        if "_" in last.strip("_") or _INNER_CAPITAL.search(last):
            yield last
