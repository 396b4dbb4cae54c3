"""Finds secrets by rules (`secret_rules.toml`) on RE2, whose time is linear in the length of any text."""

from __future__ import annotations

import threading
import tomllib
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from operator import itemgetter
from pathlib import Path
from typing import Any, Protocol, cast

from mcp_memory.language.secret_values import JUDGES, LONGEST, SecretCandidate

RULES = Path(__file__).with_name("secret_rules.toml")
_WORD_EDGE = r"(?:^|\W|\\[abfnrtv]|%[0-9A-Fa-f]{2})"
"""The context before a key: line start, a non-word character, an escape ("\\nghp_…"), an encoded sign ("%3Dghp_…")."""
_MEMORY = 8 << 20
"""Bytes that a rule's automaton may take; only hostile texts need them."""
_ROUNDS = 8
_MARK = b"[REDACTED "
_LONGEST_MARK = 80
"""Length of a mark in bytes; the kinds of all rules are shorter."""


class _Match(Protocol):
    def span(self, group: int = 0) -> tuple[int, int]: ...


class _Pattern(Protocol):
    @property
    def groups(self) -> int: ...
    @property
    def groupindex(self) -> Mapping[bytes, int]: ...
    def finditer(self, text: bytes) -> Iterator[_Match]: ...


class _Filter(Protocol):
    """A filter that knows which strings a text must contain before a rule can match, such as "ghp_"."""

    def Add(self, pattern: bytes, options: object) -> int: ...  # noqa: N802 - as in C++
    def Compile(self) -> None: ...  # noqa: N802 - as in C++
    def Match(self, text: bytes, potential: bool) -> Sequence[int] | None: ...  # noqa: N802 - as in C++
    def re(self, index: int) -> _Pattern: ...


class _Library(Protocol):
    """The part of `re2` that is used here; the library has no type hints."""

    Options: Any

    def Filter(self) -> _Filter: ...  # noqa: N802 - as in C++


@dataclass(frozen=True, slots=True, kw_only=True)
class SecretRule:
    """The pattern of a kind of secret. The last group that takes part in the match is the secret."""

    kind: str
    form: str
    judge: Callable[[SecretCandidate], bool]


@dataclass(frozen=True, slots=True, order=True)
class _Cut:
    start: int
    end: int
    rule: int


def read_rules(path: Path = RULES) -> Sequence[SecretRule]:
    """Return the rules of a file, issuers' first: where two find the same secret, the first one's kind is shown."""
    tables = tomllib.loads(path.read_text("utf-8"))
    issued = [
        SecretRule(kind=each["kind"], form=f"{_WORD_EDGE}({form})", judge=JUDGES[each.get("value", "issued")])
        for each in tables["issued"]
        for form in each["forms"]
    ]
    placed = [
        SecretRule(kind=each["kind"], form=form, judge=JUDGES[each["value"]])
        for each in tables["placed"]
        for form in each["forms"]
    ]
    return (*issued, *placed)


class SecretRedactor:
    """Implements `Redactor`. Thread-safe; rules are read at first use, and compiled with the first text."""

    def __init__(self) -> None:
        self._finder: _Finder | None = None
        self._lock = threading.Lock()

    def redact(self, text: str) -> tuple[str, int]:
        finder = self._load()
        total = 0
        # A redacted value may have hidden another, as in "password=token=…".
        for _ in range(_ROUNDS):
            text, count = finder.cut(text)
            total += count
            if not count:
                break
        return text, total

    def _load(self) -> _Finder:
        with self._lock:
            if self._finder is None:
                self._finder = _Finder(read_rules())
            return self._finder


class _Finder:
    def __init__(self, rules: Sequence[SecretRule]) -> None:
        library = cast("_Library", import_module("re2"))
        options = library.Options()
        options.max_mem = _MEMORY
        options.log_errors = False
        self._rules = rules
        self._filter = library.Filter()
        for rule in rules:
            self._filter.Add(rule.form.encode(), options)
        self._filter.Compile()
        self._patterns = [self._filter.re(index) for index in range(len(rules))]
        self._shapes = [(each.groups, each.groupindex.get(b"name", 0)) for each in self._patterns]

    def cut(self, text: str) -> tuple[str, int]:
        # Bytes, since RE2 counts in them. A lone surrogate is no character to RE2, and comes back as it was.
        data = text.encode("utf-8", "surrogatepass")
        cuts = _joined(sorted(self._cuts(data)))
        if not cuts:
            return text, 0
        pieces: list[bytes] = []
        end = 0
        for each in cuts:
            pieces += (data[end : each.start], _MARK, self._rules[each.rule].kind.encode(), b"]")
            end = each.end
        pieces.append(data[end:])
        return b"".join(pieces).decode("utf-8", "surrogatepass"), len(cuts)

    def _cuts(self, data: bytes) -> Iterator[_Cut]:
        earlier = _marks(data)
        for index in self._filter.Match(data, potential=True) or ():
            judge, (groups, named) = self._rules[index].judge, self._shapes[index]
            for match in self._patterns[index].finditer(data):
                start, end = _before_marks(earlier, *_secret(match, groups))
                end = _without_stop(data, start, end)
                if start < end and judge(_candidate(data, start, end, match.span(named) if named else (0, 0))):
                    yield _Cut(start, end, index)


def _candidate(data: bytes, start: int, end: int, named: tuple[int, int]) -> SecretCandidate:
    return SecretCandidate(
        value=data[start : min(end, start + LONGEST)].decode("utf-8", "ignore"),
        name=data[slice(*named)][-LONGEST:].decode("utf-8", "ignore"),
        after=data[end : end + 1].decode("latin-1"),
    )


def _secret(match: _Match, groups: int) -> tuple[int, int]:
    return next(span for group in range(groups, -1, -1) if (span := match.span(group)) != (-1, -1))


def _without_stop(data: bytes, start: int, end: int) -> int:
    """Return the end of a span without the full stop or comma that ends its sentence, as in "The token is ghp_… ."."""
    is_last = end == len(data) or data[end : end + 1].isspace()
    return end - 1 if is_last and end - start > 1 and data[end - 1 : end] in (b".", b",") else end


def _marks(data: bytes) -> Sequence[tuple[int, int]]:
    """Return the spans of marks from earlier redactions."""
    found: list[tuple[int, int]] = []
    start = data.find(_MARK)
    while start >= 0:
        end = data.find(b"]", start, start + _LONGEST_MARK)
        if end >= 0:
            found.append((start, end + 1))
        start = data.find(_MARK, start + len(_MARK))
    return found


def _before_marks(marks: Sequence[tuple[int, int]], start: int, end: int) -> tuple[int, int]:
    """Return the part of a span before its first mark; nothing where the span begins inside one."""
    index = bisect_right(marks, start, key=itemgetter(1))
    return (start, min(end, marks[index][0])) if index < len(marks) else (start, end)


def _joined(cuts: Iterable[_Cut]) -> Sequence[_Cut]:
    """Merge overlapping cuts; each takes the kind that the rules name first."""
    joined: list[_Cut] = []
    for each in cuts:
        if joined and each.start < joined[-1].end:
            last = joined.pop()
            joined.append(_Cut(last.start, max(last.end, each.end), min(last.rule, each.rule)))
        else:
            joined.append(each)
    return joined


class NoRedactor:
    """Implements `Redactor` where redaction is switched off."""

    def redact(self, text: str) -> tuple[str, int]:
        return text, 0
