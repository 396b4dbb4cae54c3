"""Finds in commits the footers that name a breaking change, in the form of conventional commits.

One of a commit that was reverted, by git's own form, does not stand.
"""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import takewhile
from typing import Final

from mcp_memory.entrypoints.transfer.learning.git_repository import GitCommit
from mcp_memory.entrypoints.transfer.learning.outlines import plain
from mcp_memory.entrypoints.transfer.learning.self_contained import (
    LEAST_WORDS,
    code_names,
    has_second_clause,
    names_new_state,
    shortened,
    without_numbers,
)

PATTERNS: Final = ('^Revert "', '^Reapply "', "^revert(\\(.*\\))?: ", "^BREAKING[ -]CHANGE: ")
"""Lines of the messages that are read here, as git's extended regular expressions."""
# 'Revert "Add a cache (#12)" (#14)', 'Revert "Support for views" - it failed CI'
_REVERT = re.compile(r'Revert "(?P<title>.{3,300})"(?: \(#\d+\))?.{0,200}')
# "revert: feat(api): add a cache"
_REVERT_TYPE = re.compile(r'revert(?:\([^)]*\))?!?: "?(?P<title>.{3,300}?)"?(?: \(#\d+\))?')
_REAPPLY = re.compile(r'Reapply "(?P<title>.{3,300})"(?: \(#\d+\))?')
# "This reverts commit 98dcabcc, reversing changes made to 1234567."
_REVERTED = re.compile(
    r"This reverts commits? (?P<hash>[0-9a-f]{7,40})(?: \(\"[^\"]{0,200}\"\))?[.,;]?"
    r"(?:\s*reversing\s+changes made to [0-9a-f]{7,40}\.?)?"
)
# "Add a cache (#12)", "Add a cache, closes #11"
_NUMBERS_BEHIND = re.compile(
    r"(?:[\s,;-]{1,3}(?:\(#\d{1,9}\)|(?:refs?|close[sd]?|fix(?:es|ed)?) #\d{1,9})){1,9}$", re.IGNORECASE
)
_BREAKING = re.compile(r"^BREAKING[ -]CHANGE: (?P<text>(?:.+\n?)+)", re.MULTILINE)
# a line behind the text of a footer: another footer, an item of a list, a rule
_NEXT = re.compile(r"(?:[A-Z][A-Za-z]*(?:-[A-Za-z]+)*|BREAKING CHANGE)(?:: | #)|[*-] |-{3,}|\(#\d+\)$")
_BLOCK = re.compile(r"[ \t]*(?:```|~~~|\|)| {4}|\t")
# "feat(rules)!: ", "chore: "
_TYPE = re.compile(r"[a-z]{2,12}(?:\([^)]{0,60}\))?!?: ")


@dataclass(frozen=True, slots=True, kw_only=True)
class BreakingChange:
    """A footer that can be understood alone; `text` says what it is, and names its commit's subject."""

    commit: GitCommit
    text: str
    footer: str


@dataclass(slots=True)
class _TakenBack:
    """The commits that later ones took back: by hashes, as far as they are given, and by titles."""

    hashes: set[str]
    titles: set[str]

    def has(self, commit: GitCommit) -> bool:
        return _same_title(commit.subject) in self.titles or any(map(commit.hash.startswith, self.hashes))


def breaking_changes(commits: Iterable[GitCommit]) -> Iterator[BreakingChange]:
    """Yield what broke by these commits, newest first as they are."""
    later = _TakenBack(set(), set())
    known: set[str] = set()
    for commit in commits:
        if later.has(commit):
            continue
        if again := _REAPPLY.match(commit.subject):
            later.titles.add(_same_title(f'Revert "{again["title"]}"'))
        if revert := _REVERT.fullmatch(commit.subject) or _REVERT_TYPE.fullmatch(commit.subject):
            _note(commit, revert["title"], later)
        else:
            yield from _breaking(commit, known)


def _same_title(subject: str) -> str:
    """Return a subject without the numbers of pull requests and issues behind it."""
    return _NUMBERS_BEHIND.sub("", subject.strip()).casefold()


def _note(commit: GitCommit, title: str, later: _TakenBack) -> None:
    given = _REVERTED.findall(commit.body)
    later.hashes.update(given)
    if not given:
        later.titles.add(_same_title(title))


def _breaking(commit: GitCommit, known: set[str]) -> Iterator[BreakingChange]:
    """Yield the footers; one does not stand that differs from a newer one in numbers alone, or has its subject."""
    for match in _BREAKING.finditer(commit.body):
        text = shortened(_footer(match["text"].strip(), commit.body[match.end() :]))
        told = {without_numbers(text), *code_names(text)[:1]}
        is_told = len(text.split()) >= LEAST_WORDS and (names_new_state(text) or has_second_clause(text))
        if is_told and known.isdisjoint(told):
            subject = _TYPE.sub("", _NUMBERS_BEHIND.sub("", commit.subject))
            beside = "" if subject.casefold() in text.casefold() else f" ({subject})"
            yield BreakingChange(commit=commit, text=f"Breaking change: {text}{beside}", footer=text)
        known.update(told, code_names(text))


def _footer(paragraph: str, behind: str) -> str:
    """Return a footer's text with the list that its colon announces; "" where code or a table ends its sentence."""
    lines = paragraph.split("\n")
    end = next(
        (n for n, line in enumerate(lines[1:], 1) if _NEXT.match(line.strip()) or _BLOCK.match(line)), len(lines)
    )
    text = plain(" ".join(line.strip() for line in lines[:end]))
    rest = "\n".join(lines[end:]) or behind.strip("\n")
    if text.endswith(":"):
        items = takewhile(str.strip, rest.split("\n"))
        listed = [line.strip() for line in items]
        is_list = bool(listed) and all(line.startswith(("* ", "- ")) for line in listed)
        return f"{text} {'; '.join(plain(line[2:]) for line in listed)}" if is_list else ""
    is_cut = not text.endswith((".", "!", "?")) and _BLOCK.match(rest) is not None
    return "" if is_cut else text
