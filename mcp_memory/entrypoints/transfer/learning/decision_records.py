"""Reads a decision record (ADR): its title, whether it holds, and the beginning of what was decided.

By form alone: a file with a number or a day in its name, in a folder for decisions or named "adr-4-…", with a section
"Decision". One that was superseded says so; what is only proposed, or was rejected, is none.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import pairwise, takewhile
from typing import Final

from mcp_memory.entrypoints.transfer.learning.outlines import BOLD_LEVEL, ListItem, Outlined, outline, plain
from mcp_memory.entrypoints.transfer.learning.self_contained import code_names, joined, sentences, title_names

_LEAST_DECIDED: Final = 7
"""Words of a decision; fewer say what the title says."""

_FOLDERS: Final = frozenset({
    "adr", "adrs", "decisions", "decision-records", "decision_records", "architecture-decisions",
    "architecture_decisions", "architectural-decisions", "architecture-decision-records",
})  # fmt: skip
_OTHERS = re.compile(
    r"(?:^|/)(?:[\w.-]*(?:tests?|fixtures?|examples?|samples?|templates?)|node_modules|vendor)/", re.IGNORECASE
)
"""Folders whose files are not the repository's own decisions."""
# "0004-use-sqlite.md", "adr-12_queue.md", "20200926-use-the-slug.md", "2024-01-03-cache.md"
_NAMED = re.compile(r"(?:adr[-_ ]?)?(?:\d{4}-\d{2}-\d{2}|\d{8}|\d{1,5})[-_. ][^/]+\.(?:md|markdown|rst)", re.IGNORECASE)
_NAMED_ADR = re.compile(r"adr[-_ ]?\d", re.IGNORECASE)  # "docs/architecture/adr-004-lock-fees.md"
# "ADR-0004: Use SQLite", "4. Use SQLite"
_NUMBER = re.compile(r"\W{0,2}(?:adr[-_ ]?)?\d{0,5}\s?[.:)–—-]\s+", re.IGNORECASE)
# "* Status: accepted", "- **Status**: Accepted", "status: superseded by ADR-0012"
_STATED = re.compile(r"\W{0,4}(status|date|decided on)\W{1,5}(\w.{0,200})", re.IGNORECASE)
_HOLDS = re.compile(r"(?:accepted|approved|adopted|agreed|decided|implemented|active|done|completed?)\b", re.IGNORECASE)
_OPEN = re.compile(r"\W{0,4}(?:provisional|proposed|draft|pending|in review)\b", re.IGNORECASE)
"""A status that may name another: "Provisional. Will be accepted once it is built."."""
_ENDED = re.compile(
    r"(?:superseded|superceded|deprecated|replaced|obsolete|retired|no longer)\b[^.]{0,120}", re.IGNORECASE
)
_DECIDED = re.compile(r"(?:the |our )?decisions?(?: outcome| made)?|outcome", re.IGNORECASE)
_PROPOSED = re.compile(r"(?:the |our )?(?:propos(?:al|ed solution)|solution)", re.IGNORECASE)
"""A section that tells what was decided where the status says that it was accepted."""
_DAY = re.compile(r"\d{4}-\d{2}-\d{2}")
# the first record of most: "Record architecture decisions", "Use Markdown Architectural Decision Records"
_OF_RECORDS = re.compile(
    r"(?:record|use|adopt|keep|write|document)\b.{0,30}\b(?:decisions?(?: (?:records?|logs?))?|adrs?)", re.IGNORECASE
)


@dataclass(frozen=True, slots=True, kw_only=True)
class DecisionRecord:
    """A decision that holds, or one that ended, as its status tells; `at` is the day in it, 0 where it has none."""

    title: str
    decided: str
    ended: str
    at: float

    @property
    def names(self) -> frozenset[str]:
        """The things that its title names and, in backticks, its text."""
        return frozenset((*title_names(self.title), *code_names(self.decided)))


def is_decision_record(path: str) -> bool:
    """Return True for a path that names a decision record of the repository's own."""
    folder, _, name = path.rpartition("/")
    is_there = folder.rpartition("/")[2].casefold() in _FOLDERS or _NAMED_ADR.match(name)
    return bool(is_there and _NAMED.fullmatch(name) and not _OTHERS.search(path))


def decision_record(text: str) -> DecisionRecord | None:
    """Return the decision that a file tells; None where its form shows none, or none that was taken."""
    parts = outline(text)
    title = next((part.title for part in parts if part.level == 1), "")
    statuses = [
        *_stated(text, "status"),
        *(told for part in parts if part.title.casefold() == "status" for told in _texts(part)),
        *(bold.title for part, bold in pairwise(parts) if part.title.casefold() == "status" and _is_in_bold(bold)),
    ]
    holds = any(_HOLDS.search(each) and not _OPEN.match(each) for each in statuses)
    decided = _section(parts, _DECIDED) or (_section(parts, _PROPOSED) if holds else "")
    ended = next((found[0] for each in statuses if (found := _ENDED.search(each))), "")
    title = _NUMBER.sub("", title, count=1).rstrip(".")
    is_bare = len(decided.split()) < _LEAST_DECIDED or _OF_RECORDS.fullmatch(title)
    if not title or is_bare or (statuses and not ended and not holds):
        return None
    return DecisionRecord(title=title, decided=decided, ended=ended, at=_day(text))


def _stated(text: str, name: str) -> list[str]:
    """Return what the first lines say of the status or the day: "* Status: accepted"."""
    found = (_STATED.fullmatch(line.strip()) for line in text.split("\n")[:40])
    return [plain(each[2]) for each in found if each and each[1].casefold() == name]


def _section(parts: Sequence[Outlined], heading: re.Pattern[str]) -> str:
    """Return the beginning of the first section of this heading, with what is headed inside it."""
    place = next((n for n, part in enumerate(parts) if heading.fullmatch(part.title)), len(parts))
    inside = takewhile(lambda part: part.level > parts[place].level, parts[place + 1 :])
    return joined(_units([each for part in (*parts[place : place + 1], *inside) for each in part.told]))


def _units(told: Sequence[str | ListItem]) -> Iterator[str]:
    """Yield sentences and items, a list with the sentence whose colon announces it, up to what leans on code."""
    place = 0
    while place < len(told):
        text, place = _text(told[place]), place + 1
        *before, last = sentences(text)
        yield from before
        if last.rstrip(";").endswith(":"):
            listed = [*takewhile(lambda each: isinstance(each, ListItem), told[place:])]
            following = listed or [*filter(None, told[place : place + 1])]
            if not following or any(_text(each).rstrip(";").endswith(":") for each in following):
                return
            place += len(following)
            last = " ".join([last, *map(_text, following)])
        if last:
            yield last


def _text(told: str | ListItem) -> str:
    """Return the words of a paragraph or an item; an item without an end of its own gets a semicolon."""
    if isinstance(told, str):
        return told
    return told.text if told.text.endswith((".", "!", "?", ":", ";", ",")) else f"{told.text};"


def _is_in_bold(part: Outlined) -> bool:
    """Return True for a line in bold that stands alone, as "**Provisional**" below "Status"."""
    return part.level == BOLD_LEVEL


def _texts(part: Outlined) -> list[str]:
    return [*part.paragraphs, *(each.text for each in part.items)]


def _day(text: str) -> float:
    for told in _stated(text, "date"):
        if found := _DAY.search(told):
            try:
                return datetime.fromisoformat(found[0]).replace(tzinfo=UTC).timestamp()
            except ValueError:
                return 0.0
    return 0.0
