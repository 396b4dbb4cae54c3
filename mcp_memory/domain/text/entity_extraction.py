"""Finds the entities that a text mentions, without a model: names, identifiers, paths, addresses, issues."""

import re
from collections.abc import Iterable, Iterator, Sequence, Set
from dataclasses import dataclass
from typing import Literal, TypeAlias

from mcp_memory.domain.model.records import Details, Entity, searchable_text
from mcp_memory.domain.text import lexicon
from mcp_memory.domain.text.words import REDACTED, entity_key

MAX_NAME_WORDS = 4
"""A longer run of capitals is a heading."""
MAX_GAP = 8
"""Most characters between two words of one sentence, e.g. ", "."""

# "Anna-Lena", "O'Brien"
_NAME_WORD = re.compile(r"[^\W\d_](?:[^\W_]|['’](?=[^\W\d_])|[-+](?=[^\W_]))*")
# "Alice's" → "Alice"
_SUFFIX = re.compile(r"['’](?:s|m|re|ve|ll|d|t)$", re.IGNORECASE)
# between words of one sentence: ", ", " & "
_INSIDE_SENTENCE = re.compile(r"\s*+(?:[,;(]\s*+)?|\s++[&/]\s++")
# between words of one name: " ", " & "
_INSIDE_RUN = re.compile(r"[^\S\n]|\s&\s")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Word:
    """A word and its position. `base` is the word without a possessive or contracted ending.

    `opens` is True where it begins a sentence, and has its capital from that.
    """

    text: str
    base: str
    start: int
    end: int
    opens: bool

    @property
    def may_be_name(self) -> bool:
        """True for a capitalised word, other than those that are always capitalised."""
        lower = self.base.lower()
        if not self.base[0].isupper() or lower in lexicon.NEVER_NAMES:
            return False
        if self.opens and (lower in lexicon.OPENERS or (lower.endswith(("ing", "ed", "ly")) and len(lower) > 4)):
            return False
        return not (lower in lexicon.SHOUTED and self.base.isupper())


def find_names(text: str) -> Iterator[tuple[int, str]]:
    """Yield (position, name) of each name in a text without code, in order; repeated names repeat."""
    text = "\n".join(" " * len(line) if _is_heading(line) else line for line in text.split("\n"))
    words = list(_words(text))
    if sum(word.text in lexicon.GERMAN for word in words) * 8 > len(words) + 8:
        return
    inside = {word.base for word in words if not word.opens}
    for first, last in _runs(text, words):
        if last - first >= MAX_NAME_WORDS or _is_shouted(words, first, last):
            continue
        if first < last or not words[first].opens or _speaks_for_a_name(words, first, inside):
            yield words[first].start, text[words[first].start : words[last].start] + words[last].base


def _is_heading(line: str) -> bool:
    """Return True for a marked heading, or a line longer than a name whose words all begin with capitals."""
    words = line.split()
    return line.startswith("#") or (len(words) > MAX_NAME_WORDS and all(word[0].isupper() for word in words))


def _words(text: str) -> Iterator[_Word]:
    before: _Word | None = None
    for match in _NAME_WORD.finditer(text):
        gap = text[before.end : match.start()] if before else ""
        is_inside = before is not None and (
            (len(gap) < MAX_GAP and "\n" not in gap and bool(_INSIDE_SENTENCE.fullmatch(gap)))
            or _is_abbreviated(before, gap)
        )
        base = _SUFFIX.sub("", match.group())
        before = _Word(text=match.group(), base=base, start=match.start(), end=match.end(), opens=not is_inside)
        yield before


def _is_abbreviated(word: _Word, gap: str) -> bool:
    """Return True where a full stop ends no sentence: Dr. Smith, J. Smith."""
    return gap == ". " and (word.text.lower() in lexicon.PERSONAL_TITLES or len(word.text) == 1)


def _runs(text: str, words: Sequence[_Word]) -> Iterator[tuple[int, int]]:
    """Yield the first and last word of each run of capitalised words, "of" and the like inside it included."""
    position = 0
    while position < len(words):
        if words[position].may_be_name:
            last = position
            while (following := _next_in_run(text, words, last)) is not None:
                last = following
            yield position, last
            position = last
        position += 1


def _next_in_run(text: str, words: Sequence[_Word], last: int) -> int | None:
    """Return the next word of the run that has reached `last`, or None where it ends there."""
    if words[last].base != words[last].text:  # A possessive ends the name.
        return None
    following = last + 1
    if following < len(words) and words[following].text in lexicon.NAME_CONNECTORS and _touch(text, words, following):
        following += 1
    is_next = following < len(words) and words[following].may_be_name and _touch(text, words, following)
    return following if is_next else None


def _touch(text: str, words: Sequence[_Word], at: int) -> bool:
    """Return True where no sign that ends a name separates a word from the one before."""
    gap = text[words[at - 1].end : words[at].start]
    return bool(_INSIDE_RUN.fullmatch(gap)) or _is_abbreviated(words[at - 1], gap)


def _speaks_for_a_name(words: Sequence[_Word], at: int, inside: Set[str]) -> bool:
    """Return True where a capitalised word that begins a sentence is a name.

    By its shape, its use elsewhere, or the word after it.
    """
    word = words[at]
    if len(word.base) == 1 or word.base.lower() in inside:
        return False
    has_shape = any(letter.isupper() or letter.isdigit() for letter in word.base[1:])
    if has_shape or word.base != word.text or word.base in inside:
        return True
    if at + 1 == len(words) or words[at + 1].opens:
        return False
    verb = words[at + 1].text
    is_inflected = len(verb) > 3 and verb.endswith(("s", "ed")) and not verb.endswith(("ss", "us"))
    return verb in lexicon.VERBS_BEHIND_NAMES or (verb.islower() and is_inflected)


def _is_shouted(words: Sequence[_Word], first: int, last: int) -> bool:
    """Return True for capitals among other words in capitals ("DO NOT PUSH TO MAIN"), which carry no meaning there."""
    around = [*words[max(first - 1, 0) : first], *words[last + 1 : last + 2]]
    is_capital = all(word.text.isupper() for word in words[first : last + 1])
    return is_capital and (last - first > 1 or any(len(w.text) > 1 and w.text.isupper() for w in around))


FoundType: TypeAlias = Literal["name", "identifier", "path", "url", "issue", "handle"]
"""`handle` is an @name or a mail address; the other names speak for themselves."""

MAX_FOUND = 20
"""Entities per record: a text that names more is a listing, and would link everything to everything."""
MAX_SCANNED = 20_000
"""Characters read from the start of a text; a tool's output can be megabytes."""
MAX_LENGTH = 160
"""Longest found name, in characters."""

# "UTF-8", "SHA-256", "e.g"
STANDARD = re.compile(
    r"(?:UTF|utf|SHA|sha|base|ISO|RFC|HTTP|GPT|MD|AES|TLS|X|UTC|GMT|CP|WINDOWS|COVID|PEP|TODO|STEP)-\d|(?:e\.g|i\.e)$"
)
"""A name that looks like an issue or a code, and is a standard's."""

_Patterns: TypeAlias = tuple[tuple[FoundType, re.Pattern[str]], ...]
_Found: TypeAlias = tuple[int, FoundType, str]
_EXTENSIONS = lexicon.spaced("file_endings")
# e.g. the place before "/" in " /etc/hosts", but not in "a/etc"
_START = r"(?<![\w/\\.@:+-])"
# "def parse(" → parse
_DEFINITION = re.compile(r"(?:(?<=\bdef )|(?<=\bclass )|(?<=\bfunc )|(?<=\bfunction ))[^\W\d]\w{2,}(?=\s*[({:])")
# "connect()" → connect
_CALL = re.compile(r"\b[A-Za-z_]\w{2,}(?=\(\))")
_PATTERNS: _Patterns = (
    ("url", re.compile(r"\b(?:https?|ftp|ssh|git|file)://[^\s<>\"'`{}|\\^\[\]]*[\w/#&=+~-]", re.IGNORECASE)),
    ("handle", re.compile(r"(?<![\w.+-])[\w.+-]{1,64}@[\w-]+(?:\.[\w-]+)+\b")),
    ("issue", re.compile(r"(?<![\w/.-])[\w-]+(?:/[\w.-]+)?#\d{1,6}\b|(?<![\w&#/])#\d{1,5}\b")),
    ("issue", re.compile(r"(?<![\w-])[A-Z][A-Z0-9]{1,9}-\d{1,6}(?![\w-])|\bCVE-\d{4}-\d{4,}\b")),
    ("path", re.compile(r"\b[A-Za-z]:\\(?:[\w .()+-]+\\)*[\w.()+-]*\w")),
    ("path", re.compile(_START + r"(?:~|\.{1,2})?/[\w.@+-]+(?:/[\w.@+-]+)+|" + _START + r"(?:~|\.{1,2})/[\w.@+-]*\w")),
    ("path", re.compile(_START + rf"(?:[\w.@+-]+[/\\])*[\w@+-][\w.@+-]*\.(?:{_EXTENSIONS})\b(?!\.?\w|\()")),
    ("identifier", re.compile(r"(?<=`)[A-Za-z_][\w.:-]*(?=(?:\(\))?`)")),
    ("identifier", _DEFINITION),
    ("identifier", re.compile(r"(?<![\w.@])(?!self\.|this\.|cls\.)[A-Za-z_]\w+(?:\.[A-Za-z_]\w+)+(?![\w@])")),
    ("identifier", re.compile(r"(?<![\w.])_?[A-Za-z][A-Za-z0-9]*(?:_[A-Za-z0-9]+)+_?\b|\b[a-z][a-z0-9]*[A-Z]\w*")),
)  # fmt: skip
"""In order: text matched by one pattern is hidden from the next."""
_ISSUE_PATTERNS = _PATTERNS[:4]
"""Issues, and what hides them."""
_PROSE_PATTERNS: _Patterns = (
    ("handle", re.compile(r"(?<![\w@./])@[A-Za-z]\w{1,38}\b(?![/(]|\.\w)")),
    ("identifier", _CALL),
)
"""Patterns for prose only: in code an @ decorates, and most calls go to common functions."""
# "《三体》", "『雪国』"
_QUOTED_TITLES: _Patterns = (("name", re.compile(r"《[^《》\n]{1,40}》|『[^『』\n]{1,40}』")),)
# "HttpClient", "OAuthToken"
_CODE_PATTERNS: _Patterns = (("identifier", re.compile(r"\b[A-Z]+[a-z0-9]+[A-Z][A-Za-z0-9]*\b")),)
# "tide-api", "ledger-sync"; not "multi-server", "my-app"
_PROGRAM_PATTERNS: _Patterns = (
    ("identifier", re.compile(
        r"(?<![\w/.@$-])(?!(?:all|auto|cross|in|inter|intra|many|multi|my|no|non|of|on|one|other|per|pre|re|self|single|two"
        rf"|your)-)[a-z][a-z0-9]{{2,}}(?:-[a-z0-9]+)*-(?:{lexicon.spaced('program_endings')})(?![\w/@(-]|\.\w)"
    )),
)  # fmt: skip
# "import os", "x = 3", "return y;"
_CODE_LINE = re.compile(
    r"^\s*(?:(?:def|fn|func|class|interface|struct)\s+\w+\s*[(:{<]|import\s+\w|from\s+\S+\s+import\b|return\b|elif\b"
    r"|(?:else|try)\s*[:{]|(?:const|let|var|public|private|static)\s+\w|#include|@\w+|[}\])]|//|/\*|\$\s|>>>|\#\s)"
    r"|^\s*[\w.]+\(.*\)\s*+(?::\s*+)?$|[;{]\s*+$|[\w\])]\s*(?:[-+*|]?=|:=|=>)\s*[\w\[{(\"']|->"
)
# "```py"
_FENCE_SIGN = re.compile(r"^\s*(?:```|~~~)")
_SCRIPTS_MEET = re.compile(rf"(?<=[{lexicon.UNSPACED}])(?=[A-Za-z0-9_@#~])|(?<=[A-Za-z0-9_])(?=[{lexicon.UNSPACED}])")
"""Boundaries between scripts: Chinese text has no space around foreign words, as in "用Redis缓存"."""
# "the end.Then"
_MISSING_SPACE = re.compile(r"[a-z]\.[A-Z][a-z]*$")
# "e.g", "U.S.A"
_DOTTED_LETTERS = re.compile(r"(?:[A-Za-z]\.)+[A-Za-z]")
# "camelCase", "HTTPServer"
_INNER_CAPITAL = re.compile(r"[a-z0-9][A-Z]|[A-Z]{2}[a-z]")
# "src/app.py" → src, /, app, ., py
_NAME_PART = re.compile(rf"[{lexicon.UNSPACED}]|[^\W{lexicon.UNSPACED}]+|[^\w\s]")

MAX_CODE_LINE = 400
"""Longest line of hand-written code, in characters; a longer line that looks like code was generated."""
MAX_PARTS = 24
"""Words and signs of the longest name to look for in a query: a path of some depth."""
MAX_QUERY_PARTS = 256


def found_entities(
    text: str, speaker: str | None = None, details: Details | None = None, given: Iterable[Entity] = ()
) -> tuple[Entity, ...]:
    """Find the entities in a record's speaker, text and searched details, in order, without those given with it.

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
    """Return type and name of each mention with a form of its own, in order, each once: all but plain-word names."""
    return tuple(dict.fromkeys(_mentions(text[:MAX_SCANNED], with_words=False)))


def issues_in(text: str) -> tuple[str, ...]:
    """Return the issues that a text mentions, in order, each once."""
    found: list[_Found] = []
    _take(_untitled(text[:MAX_SCANNED], found), _ISSUE_PATTERNS, found)
    return tuple(dict.fromkeys(name for kind, name in _in_order(found) if kind == "issue"))


def name_candidates(text: str) -> Iterator[tuple[int, int, str]]:
    """Yield (start, end, key) of every stretch of a query that may be an entity's name, longest first at each start.

    Stretches begin and end at the edges of words; each character of a script without spaces counts as a word.
    """
    pieces = [match.span() for match in _NAME_PART.finditer(text[: MAX_SCANNED // 4])][:MAX_QUERY_PARTS]
    for first in range(len(pieces)):
        start = pieces[first][0]
        for last in range(min(first + MAX_PARTS, len(pieces)) - 1, first - 1, -1):
            end = pieces[last][1]
            yield start, end, entity_key(text[start:end])


def _mentions(text: str, *, with_words: bool = True) -> Iterator[tuple[FoundType, str]]:
    """Return type and name of each mention, in order of position; plain-word names take longest to find."""
    found: list[_Found] = []
    prose, code = _prose_and_code(_untitled(text, found))
    prose = _take(prose, _PATTERNS + _PROSE_PATTERNS + (_PROGRAM_PATTERNS if with_words else _CODE_PATTERNS), found)
    _take(code, _PATTERNS + _CODE_PATTERNS, found)
    for position, name in find_names(prose) if with_words else ():
        written_as_one = " " not in name and _INNER_CAPITAL.search(name)
        found.append((position, "identifier" if written_as_one else "name", name))
    return _in_order(found)


def _untitled(text: str, found: list[_Found]) -> str:
    """Return the text without secrets' marks and the titles that it quotes, which are found, its scripts apart."""
    return _SCRIPTS_MEET.sub(" ", _take(REDACTED.sub("", text), _QUOTED_TITLES, found))


def _in_order(found: Iterable[_Found]) -> Iterator[tuple[FoundType, str]]:
    for _, kind, name in sorted(found, key=lambda mention: mention[0]):
        if 1 < len(name) <= MAX_LENGTH:
            yield kind, name


def _prose_and_code(text: str) -> tuple[str, str]:
    """Return the text twice, line for line: once without its code, once without its prose."""
    prose: list[str] = []
    code: list[str] = []
    balance, is_fenced = 0, False
    for line in text.split("\n"):
        is_fence = bool(_FENCE_SIGN.match(line))
        is_fenced = is_fenced != is_fence
        looks_like_code = len(line) <= MAX_CODE_LINE and bool(_CODE_LINE.search(line))
        is_code = is_fenced or is_fence or looks_like_code
        if line.strip() and not is_fenced:
            balance += 1 if is_code else -1
        blank = " " * len(line)
        prose.append(blank if is_code else line)
        code.append(line if is_code else blank)
    if balance > 0:
        # Mostly code: the rest is comments, whose capitals name nothing.
        return " " * len(text), text
    return "\n".join(prose), "\n".join(code)


def _take(text: str, patterns: _Patterns, found: list[_Found]) -> str:
    """Add the patterns' matches, and return the text with each match blanked out by signs that no name contains."""
    if not text.strip():
        return text
    for kind, pattern in patterns:

        def blank(match: re.Match[str], kind: FoundType = kind, pattern: re.Pattern[str] = pattern) -> str:
            name = match.group()
            if kind == "identifier" and not _is_identifier(name):
                return name
            if pattern in (_DEFINITION, _CALL) and name.islower() and "_" not in name:
                name += "()"  # A plain word: a query about how to connect does not mean connect().
            found.extend((match.start(), kind, each) for each in _with_parts(kind, name.strip("《》『』")))
            return "|" * len(match.group())

        text = pattern.sub(blank, text)
    return text


def _is_identifier(name: str) -> bool:
    """Return False for names that every program has, and for prose that looks like code: "e.g", "the end.Then"."""
    is_dunder = name.startswith("__") and name.endswith("__")
    is_prose = _MISSING_SPACE.search(name) or _DOTTED_LETTERS.fullmatch(name)
    return not (is_dunder or is_prose or name in ("None", "True", "False"))


def _with_parts(kind: FoundType, name: str) -> Iterator[str]:
    """Yield the name and its short form: a path's file, the last part of a dotted identifier."""
    yield name
    if kind == "path":
        file = re.split(r"[/\\]", name)[-1]
        if file != name and "." in file:
            yield file
    elif kind == "identifier" and "." in name:
        last = name.rpartition(".")[2]
        if "_" in last.strip("_") or _INNER_CAPITAL.search(last):
            yield last
