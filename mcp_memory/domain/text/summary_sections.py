"""Defines the sections of a session's summary, and finds them in a text by any writer. Independent of sessions."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from typing import Literal, TypeAlias, get_args

from mcp_memory.domain.text.lexicon import section_titles

Section: TypeAlias = Literal[
    "goal", "constraints", "instructions", "facts", "state", "completed", "in_progress", "next_steps", "open_items",
    "decisions", "dead_ends", "fixes", "changes", "files", "commands", "identifiers", "values",
]  # fmt: skip
SECTIONS: tuple[Section, ...] = get_args(Section)
_KNOWN_TITLES = section_titles()
TITLES: Mapping[Section, str] = {section: _KNOWN_TITLES[section][0] for section in SECTIONS}
LISTED: tuple[Section, ...] = ("files", "commands", "identifiers", "values")
"""Sections of the ledger: literal values, whichever writer makes the rest."""

_Heading: TypeAlias = Section | Literal["artifacts", "other"]
_TITLED: dict[str, _Heading] = {
    title.lower(): section for section in (*SECTIONS, "artifacts") for title in _KNOWN_TITLES[section]
}

# "## Next steps: add the index"
_HASHES = re.compile(r"\s{0,3}#{1,6}\s*(?P<title>[^\s:][^:]{0,80})(?::(?P<rest>.*))?$")
# "**Next steps:** add the index"
_BOLD = re.compile(r"\s{0,3}(?:\*\*|__)(?P<title>[^*_\n]{1,60})(?:\*\*|__)(?P<rest>.*)$")
# "Next steps: add the index"
_PLAIN_HEADING = re.compile(r"\s{0,3}(?P<title>(?:\d{1,2}[.)]\s?)?[A-Za-z][A-Za-z' /-]{1,40}):(?P<rest>.*)$")
# "3. Next steps"
_NUMBERED = re.compile(r"\s{0,3}\d{1,2}[.)]\s+(?P<title>[A-Za-z][A-Za-z' /-]{1,40})(?P<rest>)$")
# "5. Problem Solving:", of another writer
_NUMBERED_TITLE = re.compile(r"\d{1,2}[.)]\s+[^\W\d][\w' /&-]{2,50}:?\s{0,9}$")
# "3. Next steps (open)" → "Next steps"
_AROUND_TITLE = re.compile(r"^[\d.)*_\s]+|\s{0,80}\([^)]{0,80}\)\s{0,80}$|[*_:\s]{1,80}$")
# "- add the index", "2) add the index"
_ITEM = re.compile(r"(?<!\s)\s*+(?:[-*+•]|\d{1,3}[.)])(?:\s+|$)")
# "`pool_size`" → "pool_size"
_TICKED = re.compile(r"`([^`]+)`")
_SAYS_NONE = (
    "|none|nothing|n/a|none yet|not applicable|nothing yet|none so far|none mentioned|keine|nichts|aucun|无|没有|なし"
)
_QUOTES = frozenset({"“”", "„“", "«»", "「」", '""'})


def says_none(line: str) -> bool:
    """Return True where a line only says that there is nothing to report."""
    return len(line) < 30 and line.strip("()[]*_.。- ").casefold() in _SAYS_NONE.split("|")


def unticked(line: str) -> str:
    """Return a value, an identifier or the like without the marks of code around it."""
    ticked = _TICKED.fullmatch(line)
    return ticked[1].strip() if ticked else line


def quote(instruction: str) -> str:
    """Return the user's words to the byte, in a form that fits any block: `> ` before each of their lines.

    Put a line without that sign behind it, and begin no other line of the block with ">".
    """
    return "\n".join(f"> {line}" for line in instruction.split("\n"))


def quoted_instructions(text: str) -> tuple[str, ...]:
    """Return the quotations in a block, to the byte, in order."""
    return tuple("\n".join(run) for is_quoted, run in _runs(text.split("\n")) if is_quoted)


def stated(text: str) -> dict[Section, list[str]]:
    """Return the sections of a text, with their lines unchanged: also those that say "none", or nothing.

    Lines before the first heading are left out; lines under an unknown heading are facts.
    """
    return _gathered(_blocks(text, with_items=False)) or _gathered(_blocks(text, with_items=True))


def whole_items(text: str, section: Section) -> Iterator[str]:
    """Yield the items of a section, each in one line with what is indented under it, without code.

    The section ends at the next title: a known one, one behind "#", or a numbered line of a few words.
    """
    now: _Heading | None = None
    lines: list[str] = []
    for line in text.split("\n"):
        title, rest = (None, "") if line[:1].isspace() else _heading(line)
        is_title = title is not None or _NUMBERED_TITLE.match(line)
        if is_title:
            yield from _whole(lines)
            now, lines = title, []
        lines += [rest if is_title else line] if now == section else []
    yield from _whole(lines)


def _whole(lines: Iterable[str]) -> Iterator[str]:
    parts, depth, is_code = list[str](), -1, False
    for line in lines:
        shown = line.strip()
        is_fence = shown.startswith("```")
        is_code ^= is_fence
        if is_code or is_fence or not shown:
            continue
        indent = len(line) - len(line.lstrip())
        if _ITEM.match(line) and (depth < 0 or indent <= depth):
            if parts:
                yield " ".join(parts)
            parts, depth = [], indent
        parts.append(_ITEM.sub("", line, count=1).strip())
    if parts:
        yield " ".join(parts)


def _gathered(blocks: Iterable[tuple[_Heading, list[str]]]) -> dict[Section, list[str]]:
    found: dict[Section, list[str]] = {}
    for heading, lines in blocks:
        if heading == "artifacts":
            for section, line in _artifacts(lines):
                found.setdefault(section, []).append(line)
        elif heading == "instructions":
            found.setdefault("instructions", []).extend(_instructions(lines))
        else:
            found.setdefault("facts" if heading == "other" else heading, []).extend(_items(lines))
    return found


def _blocks(text: str, *, with_items: bool) -> Iterator[tuple[_Heading, list[str]]]:
    """Yield each heading with the lines under it; an item may be one `with_items`."""
    now: _Heading | None = None
    lines: list[str] = []
    for line in text.split("\n"):
        title, rest = _heading(_ITEM.sub("", line, count=1) if with_items else line)
        if title is None or (title == "other" and now is None):
            lines.append(line)
            continue
        if now:
            yield now, lines
        now, lines = title, [rest] if rest else []
    if now:
        yield now, lines


def _heading(line: str) -> tuple[_Heading | None, str]:
    """Return the section that a line begins and the rest of the line; None where it is no heading."""
    hashes = _HASHES.match(line)
    match = hashes or _BOLD.match(line) or _PLAIN_HEADING.match(line) or _NUMBERED.match(line)
    if match is None:
        return None, ""
    title = _AROUND_TITLE.sub("", _AROUND_TITLE.sub("", match["title"])).casefold()
    section = _TITLED.get(title)
    if section is None and hashes:
        section = "other"
    return section, (match["rest"] or "").strip(" \t:*_")


def _items(lines: Sequence[str]) -> Iterator[str]:
    """Yield items without their marks; an indented line continues the one before."""
    item = ""
    for line in lines:
        shown = line.strip()
        goes_on = line[:1].isspace() and shown and not _ITEM.match(line)
        if goes_on and item:
            item = f"{item} {shown}"
            continue
        if item:
            yield item
        item = "" if shown.startswith("```") else _ITEM.sub("", line, count=1).strip()
    if item:
        yield item


def _instructions(lines: Sequence[str]) -> Iterator[str]:
    """Yield quotations to the byte, and anything else as items."""
    for is_quoted, run in _runs(lines):
        if is_quoted:
            yield "\n".join(run)
        else:
            yield from (_unquoted(item) for item in _items(run) if not says_none(item))


def _runs(lines: Iterable[str]) -> Iterator[tuple[bool, list[str]]]:
    """Yield quoted lines, without the sign, and other lines, in turn."""
    for is_quoted, run in groupby(lines, key=lambda line: line.startswith(">")):
        yield is_quoted, [line.removeprefix(">").removeprefix(" ") if is_quoted else line for line in run]


def _unquoted(item: str) -> str:
    return item[1:-1] if len(item) > 2 and item[0] + item[-1] in _QUOTES else item


def _artifacts(lines: Sequence[str]) -> Iterator[tuple[Section, str]]:
    """Yield the items of a section of several sorts.

    An item without a sort is an identifier, a file, a command or a value, by its form.
    """
    now: Section | None = None
    for item in _items([line.strip() for line in lines]):
        title, rest = _heading(item)
        if title not in ("files", "commands", "identifiers", "values"):
            yield now or _sort_of(item), item
            continue
        now = title
        for part in rest.split(", "):
            if part.strip():
                yield now, part.strip()


def _sort_of(item: str) -> Section:
    bare = unticked(item)
    if " " in bare:
        return "commands" if bare != item else "values"
    return "files" if "/" in bare or "." in bare else "identifiers"
