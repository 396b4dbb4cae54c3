"""Finds in commits what was reverted for a reason that is told, and footers that name a breaking change.

By git's own form of a revert, and the form of conventional commits. A revert that was reverted, or whose change came
again, does not stand.
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

PATTERNS: Final = (
    '^Revert "', '^Reapply "', "^revert(\\(.*\\))?: ", "^This reverts commit [0-9a-f]{7}", "^BREAKING[ -]CHANGE: ",
)  # fmt: skip
"""Lines of the messages that are read here, as git's extended regular expressions."""
# 'Revert "Add a cache (#12)" (#14)', 'Revert "Support for views" - it failed CI'
_REVERT = re.compile(r'Revert "(?P<title>.{3,300})"(?: \(#\d+\))?(?P<why>.{0,200})')
# "revert: feat(api): add a cache"
_REVERT_TYPE = re.compile(r'revert(?:\([^)]*\))?!?: "?(?P<title>.{3,300}?)"?(?: \(#\d+\))?(?P<why>)')
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
# a word of "Refs #1658", "Reverts org/lib#1912, fixes #2533", "See https://…", "Reverts 98dcabcc"
_OF_REFERENCES = re.compile(
    r"(?:refs?|references|fix(?:es|ed)?|close[sd]?|resolve[sd]?|reverts?|see|related|to|and|issue|pr|bug)[:,.;]?"
    r"|[\w./-]{0,100}#\d{1,9}[:,.;]?|https?://\S{1,1000}|[0-9a-f]{7,40}[,.;]?",
    re.IGNORECASE,
)
_TRAILER = re.compile(r"[A-Z][A-Za-z]{1,30}(?:-[A-Za-z]{1,30}){1,4}: ")  # "Signed-off-by: "
_NO_PROSE: Final = ("\t", "    ", "* ", "#", ">", "(cherry picked from", "Merge ", "Conflicts:")
_BREAKING = re.compile(r"^BREAKING[ -]CHANGE: (?P<text>(?:.+\n?)+)", re.MULTILINE)
# a line behind the text of a footer: another footer, an item of a list, a rule
_NEXT = re.compile(r"(?:[A-Z][A-Za-z]*(?:-[A-Za-z]+)*|BREAKING CHANGE)(?:: | #)|[*-] |-{3,}|\(#\d+\)$")
_BLOCK = re.compile(r"[ \t]*(?:```|~~~|\|)| {4}|\t")
# "feat(rules)!: ", "chore: "
_TYPE = re.compile(r"[a-z]{2,12}(?:\([^)]{0,60}\))?!?: ")
_WORD = re.compile(r"[^\W\d_]{2,}")


@dataclass(frozen=True, slots=True, kw_only=True)
class ToldCommit:
    """A commit that tells something for good: `sort` is "revert" or "breaking change"."""

    commit: GitCommit
    sort: str
    text: str
    about: str
    """The title of what was reverted, or the footer alone."""


@dataclass(slots=True)
class _TakenBack:
    """The commits that later ones took back: by hashes, as far as they are given, and by titles."""

    hashes: set[str]
    titles: set[str]

    def has(self, commit: GitCommit) -> bool:
        return same_title(commit.subject) in self.titles or any(map(commit.hash.startswith, self.hashes))


def told_by(commits: Iterable[GitCommit], unexplained: list[str]) -> list[ToldCommit]:
    """Return what these commits tell, newest first as they are; `unexplained` gets reverts without a reason."""
    found: list[ToldCommit] = []
    later = _TakenBack(set(), set())
    known: set[str] = set()
    for commit in commits:
        if later.has(commit):
            continue
        if again := _REAPPLY.match(commit.subject):
            later.titles.add(same_title(f'Revert "{again["title"]}"'))
        revert = _REVERT.fullmatch(commit.subject) or _REVERT_TYPE.fullmatch(commit.subject)
        if revert:
            _note(commit, revert, later)
        if revert and not revert["title"].startswith(('Revert "', "revert: ")):
            if why := shortened(_reason(commit, revert)):
                text = f'Reverted "{_NUMBERS_BEHIND.sub("", revert["title"])}": {why}'
                found.append(ToldCommit(commit=commit, sort="revert", text=text, about=same_title(revert["title"])))
            else:
                unexplained.append(commit.hash)
        elif not revert:
            found += _breaking(commit, known)
    return found


def not_landed_again(told: list[ToldCommit], subjects: Iterable[tuple[str, str]]) -> list[ToldCommit]:
    """Leave out reverts of what a later commit of the same title brought again; the subjects are newest first."""
    waiting = {each.commit.hash: each.about for each in told if each.sort == "revert"}
    titles, came, again = frozenset(waiting.values()), set[str](), set[str]()
    for commit, subject in subjects:
        if waiting.pop(commit, None) in came:
            again.add(commit)
        if not waiting:
            break
        if (title := same_title(subject)) in titles:
            came.add(title)
    return [each for each in told if each.commit.hash not in again]


def same_title(subject: str) -> str:
    """Return a subject without the numbers of pull requests and issues behind it."""
    return _NUMBERS_BEHIND.sub("", subject.strip()).casefold()


def _note(commit: GitCommit, revert: re.Match[str], later: _TakenBack) -> None:
    given = _REVERTED.findall(commit.body)
    later.hashes.update(given)
    if not given:
        later.titles.add(same_title(revert["title"]))


def _reason(commit: GitCommit, revert: re.Match[str]) -> str:
    """Return the words for a revert: behind its title, or the paragraphs that are not form; "" without any."""
    body = _REVERTED.sub("\n\n", commit.body)
    paragraphs = (" ".join(_lines(each)) for each in re.split(r"\n\s*\n", body))
    behind = revert["why"].strip(" -–—:,.")
    own = same_title(revert["title"])
    told = [
        each
        for each in (behind, *map(plain, paragraphs))
        if len(_WORD.findall(each)) >= LEAST_WORDS - 1
        and not each.startswith('Revert "')
        and same_title(each) not in {own, same_title(commit.subject)}
    ]
    return " ".join(told[:2])


def _lines(paragraph: str) -> Iterator[str]:
    for line in paragraph.split("\n"):
        is_formal = line.startswith(_NO_PROSE) or _TRAILER.match(line)
        if not is_formal and not all(map(_OF_REFERENCES.fullmatch, line.split())):
            yield line.strip()


def _breaking(commit: GitCommit, known: set[str]) -> Iterator[ToldCommit]:
    """Yield the footers; one does not stand that differs from a newer one in numbers alone, or has its subject."""
    for match in _BREAKING.finditer(commit.body):
        text = shortened(_footer(match["text"].strip(), commit.body[match.end() :]))
        told = {without_numbers(text), *code_names(text)[:1]}
        is_told = len(text.split()) >= LEAST_WORDS and (names_new_state(text) or has_second_clause(text))
        if is_told and known.isdisjoint(told):
            subject = _TYPE.sub("", _NUMBERS_BEHIND.sub("", commit.subject))
            beside = "" if subject.casefold() in text.casefold() else f" ({subject})"
            told_text = f"Breaking change: {text}{beside}"
            yield ToldCommit(commit=commit, sort="breaking change", text=told_text, about=text)
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
