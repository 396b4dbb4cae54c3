"""Finds in a changelog what broke, went or is going in the present major version, or in two years.

By form alone: an entry of a section that is headed "Breaking changes", "Removed" or "Deprecated" below the heading of
a version, or "Changed" where a version may break something. Of entries on the same names, and of those that differ in
numbers alone, the newest counts.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import takewhile
from typing import Final

from mcp_memory.entrypoints.transfer.learning.outlines import BOLD_LEVEL, Outlined, outline
from mcp_memory.entrypoints.transfer.learning.self_contained import (
    LEAST_WORDS,
    code_names,
    has_second_clause,
    is_distinctive,
    is_explained,
    shortened,
    without_numbers,
)

RECENT_SECONDS: Final = 2 * 365 * 86_400.0
"""The time in which an earlier major version counts as well: some projects have a new one each year."""
# "CHANGELOG.md", "docs/changes.rst", "HISTORY"
_NAMED = re.compile(
    r"(?:docs?/)?(?:changelog|changes|history|news|release[-_]?notes)(?:\.(?:md|markdown|rst|txt))?", re.IGNORECASE
)
# "[1.4.0] - 2024-03-01", "v0.28.0 (28th November, 2024)", "Version 3.1", "mylib 2.0.0", "1.0a36"
_VERSION = re.compile(
    r"\W{0,3}(?:[\w.-]{1,40}\s)?v?(\d{1,4}(?:\.\d{1,6}){1,3}(?:[-.]?(?:a|b|rc|alpha|beta|dev|pre)[\w.]*)?)\b",
    re.IGNORECASE,
)
_UNRELEASED = re.compile(r"\W{0,3}(?:unreleased|next|upcoming|main|master)\b.{0,40}", re.IGNORECASE)
_SECTIONS: Final[Mapping[str, re.Pattern[str]]] = {
    # "⚠ BREAKING CHANGES", "JSON API: breaking changes", "Backwards-incompatible changes"
    "breaking change": re.compile(
        r"(?:.{0,60}\W)?(?:breaking(?: changes?)?|(?:backwards?[ -])?incompatible(?: changes?)?)\W{0,3}", re.IGNORECASE
    ),
    "removed": re.compile(r"\W{0,3}(?:removed|removals?|removed features?)\W{0,3}", re.IGNORECASE),
    "removal or deprecation": re.compile(r"\W{0,3}deprecations? (?:and|&) removals?\W{0,3}", re.IGNORECASE),
    "deprecated": re.compile(r"\W{0,3}(?:deprecated|deprecations?|deprecated features?)\W{0,3}", re.IGNORECASE),
    "changed": re.compile(r"\W{0,3}(?:changed|behaviou?r changes|changes in behaviou?r)\W{0,3}", re.IGNORECASE),
}
_ISO_DAY = re.compile(r"\b\d{4}-\d{2}-\d{2}\b")
_ORDINAL = re.compile(r"(?<=\d)(?:st|nd|rd|th)\b")
# "28 November, 2024", "November 28, 2024"
_WRITTEN_DAY = re.compile(r"\b(?:\d{1,2} [A-Z][a-z]{2,8},? \d{4}|[A-Z][a-z]{2,8} \d{1,2},? \d{4})\b")
_WRITTEN: Final = ("%d %B %Y", "%d %b %Y", "%B %d %Y", "%b %d %Y")
_LEADING = re.compile(r"\d+(?:\.\d+)*")  # "2.0" of "2.0b1"
# "Removed `old`", "(core) Drop the `old` module", "rm the endpoint", "The module `old` has been removed"; but
# "Drop support for Python 3.9" says by itself what to use.
_GONE = re.compile(
    r"(?!.{0,80}\bsupport\b)(?:\([^()]{1,80}\) )?(?:(?:remov|dropp?|delet)(?:e|ed|es|ing|s)?|rm)\b"
    r"|(?!.{0,80}\bsupport\b).{0,80}\b(?:have|has|were|was)(?: been)? removed\b(?! and\b)",
    re.IGNORECASE,
)
# "(core) \#12 " with the number's sign escaped, "(core) #12 chore: ", "fix(core)!: "
_PREFIX = re.compile(
    r"(?:(\([^()]{1,80}\)) )?(?:\\?#\d{1,9}:? )?"
    r"(?:(?:build|chore|ci|deps|docs|feat|fix|imp|perf|refactor|style|test)(\([^()]{1,60}\))?!?: )?"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangelogEntry:
    """An entry: what sort of change it tells, in which version, at which line, and when that was; 0 where unknown."""

    sort: str
    version: str
    text: str
    line: int
    at: float = 0.0


def is_changelog(path: str) -> bool:
    """Return True for a path that names the changelog of a whole repository."""
    return _NAMED.fullmatch(path) is not None


def changelog_entries(text: str) -> list[ChangelogEntry]:
    """Return the entries that count, in the order of the file."""
    parts = outline(text)
    versions = {n: version for n, part in enumerate(parts) if (version := _version(part))}
    days = {place: _day(parts[place].title) for place in versions}
    present = major_of(next((version for version in versions.values() if version[0].isdigit()), ""))
    recent = max(days.values(), default=0.0) - RECENT_SECONDS
    standing = _Standing()
    for place, version in versions.items():
        if not version[0].isdigit() or major_of(version) == present or days[place] > max(recent, 0.0):
            inside = [*takewhile(lambda n: n not in versions, range(place + 1, len(parts)))]
            standing.add(_of_version([parts[n] for n in inside], version, days[place]))
            standing.mention(item.text for n in (place, *inside) for item in parts[n].items)
    return standing.entries


def _version(part: Outlined) -> str:
    """Return the version that a heading names, "unreleased" for none yet; "" for another heading."""
    if part.level in (0, BOLD_LEVEL):
        return ""
    if found := _VERSION.match(part.title):
        return found[1]
    return "unreleased" if _UNRELEASED.fullmatch(part.title) else ""


def _may_break(version: str) -> bool:
    """Return True for the first release of a major version, before 1.0 of a minor one: others should break nothing.

    "2.0.0", "2.0b1", "0.24.0"; not "2.1.0", "0.24.1".
    """
    numbers = [int(number) for number in found[0].split(".")] if (found := _LEADING.match(version)) else [1, 1]
    return not any(numbers[2:] if numbers[0] == 0 else numbers[1:])


def major_of(version: str) -> str:
    """Return the part of a version before its first full stop."""
    return version.partition(".")[0]


def _of_version(parts: Sequence[Outlined], version: str, at: float) -> Iterator[ChangelogEntry]:
    section, level = "", 0
    for part in parts:
        sort = next((name for name, heading in _SECTIONS.items() if heading.fullmatch(part.title)), "")
        if sort:
            section, level = sort, part.level
        elif part.level <= level:
            section = ""
        if section and (section != "changed" or _may_break(version)):
            told = _told(part, is_section=bool(sort))
            yield from (
                ChangelogEntry(sort=section, version=version, text=text, line=line, at=at)
                for line, text in told
                if len(text.split()) >= LEAST_WORDS and not _is_bare(sort or section, text)
            )


def _told(part: Outlined, *, is_section: bool) -> Iterator[tuple[int, str]]:
    """Yield the items of a section; below a heading of its own the title with the first paragraph."""
    if is_section:
        # Another sign begins another list, as what a commit's own message lists behind its footer.
        told = (each for each in part.items if each.sign == part.items[0].sign)
        yield from ((each.line, shortened(_without_prefix(each.text))) for each in told)
    elif part.paragraphs:
        yield part.line, shortened(f"{part.title.rstrip('.')}. {part.paragraphs[0]}")
    else:
        yield from ((each.line, shortened(f"{part.title}: {each.text}")) for each in part.items)


def _without_prefix(text: str) -> str:
    """Return an item without the number and the type of commit before it; a scope stays, in parentheses."""
    return _PREFIX.sub(lambda found: f"{scope} " if (scope := found[1] or found[2]) else "", text, count=1)


def _is_bare(sort: str, text: str) -> bool:
    """Return True for what only went, without a reason or what to use instead."""
    if _GONE.match(text):
        return not is_explained(text)
    return sort.startswith("remov") and len(code_names(text)) == 1 and not has_second_clause(text)


class _Standing:
    """The entries that nothing newer tells again. Newer versions come first.

    An item of any section does with the same words, with other numbers, or on the same names, as one that takes the
    change back: "`/-/plugins.json` once again returns an array".
    """

    def __init__(self) -> None:
        self.entries: list[ChangelogEntry] = []
        self._known: set[str] = set()
        self._named: set[str] = set()

    def add(self, entries: Iterable[ChangelogEntry]) -> None:
        """Add what a version tells."""
        for entry in entries:
            subject, *others = code_names(entry.text) or [""]
            names = {subject, *filter(is_distinctive, others)}
            if names.isdisjoint(self._named) and without_numbers(entry.text) not in self._known:
                self.entries.append(entry)
                self._known.add(without_numbers(entry.text))

    def mention(self, items: Iterable[str]) -> None:
        """Note all items of the same version, of any section."""
        for item in items:
            self._known.add(without_numbers(_without_prefix(item)))
            self._named.update(code_names(item))


def _day(title: str) -> float:
    """Return the day that a version's heading names as an instant, 0 for none."""
    if found := _ISO_DAY.search(title):
        with suppress(ValueError):
            return datetime.fromisoformat(found[0]).replace(tzinfo=UTC).timestamp()
    if written := _WRITTEN_DAY.search(_ORDINAL.sub("", title)):
        for form in _WRITTEN:
            with suppress(ValueError):
                return datetime.strptime(written[0].replace(",", ""), form).replace(tzinfo=UTC).timestamp()
    return 0.0
