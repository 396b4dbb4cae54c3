"""Turns values into HTML: templates, times in words, hidden characters made visible, and texts compared by words."""

from __future__ import annotations

import hashlib
import re
import threading
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any, Final, Literal, cast

from jinja2 import Environment, PackageLoader, StrictUndefined, Template
from markupsafe import Markup, escape

from mcp_memory.domain.context.rendering import clauses, said
from mcp_memory.domain.model.counted_nouns import counted
from mcp_memory.domain.model.kind_words import kind_in_words
from mcp_memory.domain.model.projects import short_name
from mcp_memory.domain.model.records import Instant, Record
from mcp_memory.domain.text.prompt_safety import spelled_out
from mcp_memory.domain.text.segments import headline
from mcp_memory.domain.text.times import is_datable, iso, iso_day, iso_minute
from mcp_memory.entrypoints.page.context_lines import quiet, section_in_words
from mcp_memory.entrypoints.page.markdown import drawn, inline
from mcp_memory.entrypoints.page.wording import (
    counted_kind,
    detail_in_words,
    goal_in_words,
    line_in_words,
    promotion_in_words,
    reason_in_words,
    result_in_words,
    shortfall,
    signal_in_words,
    source_in_words,
    way_in_words,
    why_in_words,
)

MINUTE, HOUR, DAY = 60.0, 3600.0, 86_400.0
MOST_WORDS: Final = 400
"""Words, or lines, on either side that a comparison looks at, once their common beginning and end are left out."""
MOST_CHARACTERS: Final = 20_000
MOST_STEPS: Final = 1_000_000
"""The work of all comparisons on one page; further texts are shown as replaced whole."""
CONTEXT_CHARACTERS: Final = 80
WORD_CHARACTERS: Final = 200
"""Characters that a word has at most; a change within a longer run of letters is shown from there."""
SHOWN_CHARACTERS: Final = 2_000
"""Characters of one changed part that are shown."""
MORE_CHARACTERS: Final = 1_000
"""Characters behind a headline in a list, where at most four lines are seen."""
_LINE_READ: Final = 200
"""Characters of a text in which its first line ends, where a list shows that as a headline."""
COLOURS: Final = 21
"""The tones of a bar, which begin again after the last one: as many as a context has sections, and its frame."""
_NO_TONES: Final[Mapping[str, int]] = {}
_MEDIA: Final[Mapping[str, str]] = {
    "css": "text/css; charset=utf-8", "js": "text/javascript; charset=utf-8", "svg": "image/svg+xml"
}  # fmt: skip
_MONTHS: Final = "Jan Feb Mar Apr May Jun Jul Aug Sep Oct Nov Dec".split()
_SIGNS = re.compile(r"⟦(U\+[0-9A-F]{4,6})(?: × \d+)?⟧")  # "⟦U+200B × 2⟧"
_COMMAND = re.compile(r"`([^`\n]+)`")  # "run `mcp-memory reindex`"
_PARTS = re.compile(r"\s+|\w+|[^\w\s]")  # "port 8080." is "port", " ", "8080", "."


class Verbatim(str):
    """A text whose characters a form must give back unchanged: it is escaped, and nothing in it is spelled out."""

    __slots__ = ()


def finished(value: Any) -> Any:
    """Return a value as a page shows it: of a text, each sign that hides or turns text is spelled out.

    Every value that a template shows passes here, before it is escaped.
    """
    if isinstance(value, Markup | Verbatim) or not isinstance(value, str):
        return value
    return value if value.isascii() and value.isprintable() else spelled_out(value)


def with_commands(text: str) -> Markup:
    """Return a message with its commands set as commands, without the marks around them that a terminal shows."""
    parts = (escape(finished(part)) for part in _COMMAND.split(text))
    return Markup().join(
        Markup('<code class="long">{}</code>').format(each) if at % 2 else each for at, each in enumerate(parts)
    )


def hidden_signs(text: str) -> list[str]:
    """Return the signs of a text that `finished` spells out, each once, as it spells them: "U+202E"."""
    found: Sequence[str] = () if text.isascii() and text.isprintable() else _SIGNS.findall(spelled_out(text))
    own = set(_SIGNS.findall(text))  # Somebody may write "⟦U+202E⟧".
    return [sign for sign in dict.fromkeys(found) if sign not in own]


def in_words(at: Instant, now: Instant) -> str:
    """Return a time as a person says it: "3 minutes ago", "in 2 days", and its day where that is far away."""
    if not is_datable(at):
        return "at an unknown time"
    seconds = abs(now - at)
    if seconds < MINUTE:
        return "just now"
    for unit, name, most in ((MINUTE, "minute", HOUR), (HOUR, "hour", DAY), (DAY, "day", 14 * DAY)):
        if seconds < most:
            number = int(seconds // unit)
            told = counted(number, name)
            return f"{told} ago" if at <= now else f"in {told}"
    return iso_day(at)


def when(at: Instant | None, now: Instant) -> Markup:
    """Return a time in words, with the exact one for programs and for a pointer that rests on it."""
    if at is None or not is_datable(at):
        return Markup("<span>at an unknown time</span>")
    return _time(at, in_words(at, now))


def _time(at: Instant, words: str) -> Markup:
    exact = iso_minute(at).replace("T", " ").replace("Z", " UTC")
    # Digits and words of ours: Markup.format, which escapes, takes five times as long.
    return Markup(f'<time datetime="{iso(at)}" title="{exact}">{words}</time>')


def moment(at: Instant, now: Instant) -> str:
    """Return a time by which like things are told apart: "today 14:05", "Nov 3, 14:05"."""
    if not is_datable(at):
        return "undated"
    day, clock = iso_day(at), iso_minute(at)[11:16]
    return f"today {clock}" if day == iso_day(now) else f"{_MONTHS[int(day[5:7]) - 1]} {int(day[8:])}, {clock}"


def day_in_words(at: Instant, now: Instant) -> str:
    """Return a day as a person says it: "Today", "Yesterday", "Nov 3", "2025-11-03"."""
    day = iso_day(at)
    return {iso_day(now): "Today", iso_day(now - DAY): "Yesterday"}.get(day) or _day_of(at, now)


def _day_of(at: Instant, now: Instant) -> str:
    """Return the day, with its year where that is another: "Nov 3", "2025-11-03"."""
    day = iso_day(at)
    return day if day[:4] != iso_day(now)[:4] else f"{_MONTHS[int(day[5:7]) - 1]} {int(day[8:])}"


def ago(at: Instant, now: Instant) -> Markup:
    """Return a time as a column has it: "4 h ago", "in 2 d", "Nov 3", "2025-11-03"; the exact one is for a pointer."""
    if not is_datable(at):
        return Markup("<span>undated</span>")
    seconds, short = abs(now - at), ""
    for unit, sign, most in ((MINUTE, "min", HOUR), (HOUR, "h", DAY), (DAY, "d", 14 * DAY)):
        if not short and seconds < most:
            number = int(seconds // unit)
            short = (f"{number} {sign} ago" if at <= now else f"in {number} {sign}") if number else "just now"
    return _time(at, short or _day_of(at, now))


def status_in_words(status: str) -> str:
    """Return a status as people say it: what was proven wrong is wrong."""
    return "wrong" if status == "inactive" else status


def in_a_line(record: Record, now: Instant) -> str:
    """Return what a line says about a record, as an agent reads it."""
    return said(record, record.summary, now=now)


@dataclass(frozen=True, slots=True)
class ListedRecord:
    """Shows what a list says about a record: its headline, what follows, and when it applies and why, "" for none."""

    headline: Markup
    more: Markup
    why: Markup


def listed(record: Record, told: str, words: re.Pattern[str] | None = None) -> ListedRecord:
    """Return a record as a list shows it, of what a line says about it; each match of `words` is marked."""
    told, trigger, reason = clauses(record, told)
    line, is_first, _ = record.text[:_LINE_READ].lstrip().partition("\n")
    if is_first and told.startswith(line):  # A summary of several lines is one line.
        told = f"{line}\n{told.removeprefix(line).lstrip()}"
    told, arrow, result = told.partition(" → ") if record.kind == "result" else (told, "", "")
    first, rest = headline(told)
    rest = f"{rest}{arrow}{result}".strip()
    name = record.details.get("name") if record.kind == "procedure" else None
    if isinstance(name, str) and name.strip() and not told.casefold().startswith(name.casefold()):
        first, rest = name, f"{first} {rest}"
    rest = rest if len(rest) <= MORE_CHARACTERS else f"{rest[:MORE_CHARACTERS]}…"
    why = " · ".join(filter(None, (trigger and f"when {trigger}", reason and f"because {reason}")))
    return ListedRecord(inline(first, words), inline(rest, words), inline(why, words))


@dataclass(frozen=True, slots=True, kw_only=True)
class BarPart:
    """A part of a bar, from `start` on, both in percent of the whole; `tone` is the number of its colour."""

    title: str
    tokens: int
    start: float
    width: float
    tone: int


def bar_of(parts: Iterable[tuple[str, int]], whole: int, tones: Mapping[str, int] = _NO_TONES) -> list[BarPart]:
    """Return titles with their tokens as parts of a bar, one after the other; empty ones are left out.

    `tones` are the numbers of the titles that have one of their own; any other has that of its place.
    """
    made: list[BarPart] = []
    start = 0.0
    for place, (title, tokens) in enumerate(parts):
        if tokens > 0:
            width = 100 * tokens / max(whole, 1)
            tone = tones.get(title, place) % COLOURS
            made.append(BarPart(title=title, tokens=tokens, start=start, width=width, tone=tone))
            start += width
    return made


@dataclass(frozen=True, slots=True)
class DiffPart:
    """A part of two texts: in both, only in the old one, or only in the new one. `cut` characters are not shown."""

    kind: Literal["same", "old", "new"]
    text: str
    cut: int = 0


class WordDiff:
    """Compares texts by words, for one page: all its comparisons together take a bounded number of steps."""

    def __init__(self, steps: int = MOST_STEPS) -> None:
        self._steps = steps

    def __call__(self, old: str, new: str) -> list[DiffPart]:
        """Return what both share and where they differ, in order; long common parts are cut to what is near a change.

        By words where few changed, else by lines, else as replaced whole.
        """
        head = _common(old, new)
        tail = _common(old[head:][::-1], new[head:][::-1])
        if tail or head:  # A change begins and ends with a word: "18080" for "8080" shares no part with it.
            head = _at_boundary(old, new, head)
            tail = _tail_at_boundary(old, new, head, tail)
        middle = self._compared(old[head : len(old) - tail], new[head : len(new) - tail])
        before, after = old[:head], old[len(old) - tail :] if tail else ""
        shown = [DiffPart("same", before[-CONTEXT_CHARACTERS:], max(len(before) - CONTEXT_CHARACTERS, 0))]
        shown += [DiffPart(part.kind, *_cut(part.text)) for part in middle]
        shown += [DiffPart("same", after[:CONTEXT_CHARACTERS], max(len(after) - CONTEXT_CHARACTERS, 0))]
        return [part for part in shown if part.text]

    def _compared(self, old: str, new: str) -> list[DiffPart]:
        if max(len(old), len(new)) <= MOST_CHARACTERS:
            for old_parts, new_parts in (
                (_PARTS.findall(old), _PARTS.findall(new)),
                (old.splitlines(keepends=True), new.splitlines(keepends=True)),
            ):
                if max(len(old_parts), len(new_parts)) <= MOST_WORDS:
                    cost = (len(old_parts) + 1) * (len(new_parts) + 1)
                    if cost <= self._steps:
                        self._steps -= cost
                        return _joined(_differences(old_parts, new_parts))
                    break
        return [DiffPart("old", old), DiffPart("new", new)]


def _common(one: str, other: str) -> int:
    """Return the length of the common beginning, by halving: each step compares at the speed of memory."""
    low, high = 0, min(len(one), len(other))
    while low < high:
        middle = (low + high + 1) // 2
        if one[low:middle] == other[low:middle]:
            low = middle
        else:
            high = middle - 1
    return low


def _at_boundary(old: str, new: str, head: int) -> int:
    """Move the end of the common beginning back to where a word begins in both."""
    is_within = head in (len(old), len(new)) or old[head].isalnum() or new[head].isalnum()
    return head - len(_word_at_end(old[:head])) if is_within else head


def _tail_at_boundary(old: str, new: str, head: int, tail: int) -> int:
    """Shorten the common end, until it begins where a word begins in both and leaves the common beginning alone."""
    tail = min(tail, len(old) - head, len(new) - head)
    is_within = any(len(text) > tail and text[len(text) - tail - 1].isalnum() for text in (old, new))
    start = len(old) - tail
    return tail - len(_word_at_end(old[start : start + WORD_CHARACTERS][::-1])) if is_within else tail


def _word_at_end(text: str) -> str:
    """Return the letters and digits at the end of a text, as many as a word has at most."""
    end = text[-WORD_CHARACTERS:]
    return next((end[at + 1 :] for at in range(len(end) - 1, -1, -1) if not end[at].isalnum()), end)


def _differences(old: Sequence[str], new: Sequence[str]) -> list[DiffPart]:
    """Return the differences by the longest common subsequence, in time and space of the product of both lengths."""
    lengths = [[0] * (len(new) + 1)]
    for word in reversed(old):
        below, row = lengths[-1], [0]
        for at in range(len(new) - 1, -1, -1):
            row.append(below[at + 1] + 1 if word == new[at] else max(below[at], row[-1]))
        row.reverse()
        lengths.append(row)
    lengths.reverse()
    found: list[DiffPart] = []
    i = j = 0
    while i < len(old) or j < len(new):
        if i < len(old) and j < len(new) and old[i] == new[j]:
            found.append(DiffPart("same", old[i]))
            i, j = i + 1, j + 1
        elif i < len(old) and (j == len(new) or lengths[i + 1][j] >= lengths[i][j + 1]):
            found.append(DiffPart("old", old[i]))
            i += 1
        else:
            found.append(DiffPart("new", new[j]))
            j += 1
    return found


def _joined(parts: Sequence[DiffPart]) -> list[DiffPart]:
    """Join neighbours of one kind; what was there comes before what is there now, and blanks alone part no change."""
    runs: list[DiffPart] = []
    old, new, held = "", "", ""
    for part in parts:
        if part.kind == "same" and (old or new) and part.text.isspace():
            held += part.text
        elif part.kind == "same":
            runs += [DiffPart("old", old), DiffPart("new", new), DiffPart("same", held + part.text)]
            old = new = held = ""
        else:
            old, new, held = old + held, new + held, ""
            old, new = (old + part.text, new) if part.kind == "old" else (old, new + part.text)
    runs += [DiffPart("old", old), DiffPart("new", new), DiffPart("same", held)]
    merged: list[DiffPart] = []
    for run in runs:
        if run.text and merged and merged[-1].kind == run.kind == "same":
            merged[-1] = DiffPart("same", merged[-1].text + run.text)
        elif run.text:
            merged.append(run)
    return merged


def _cut(text: str) -> tuple[str, int]:
    return text[:SHOWN_CHARACTERS], max(len(text) - SHOWN_CHARACTERS, 0)


@dataclass(frozen=True, slots=True)
class Asset:
    """A file that every browser may load: its content, its type and the beginning of its digest."""

    content: bytes
    media_type: str
    version: str


@cache
def assets() -> Mapping[str, Asset]:
    """Return the files of the folder `static` by name."""
    found: dict[str, Asset] = {}
    for file in (files("mcp_memory.entrypoints.page") / "static").iterdir():
        media_type = _MEDIA.get(file.name.rpartition(".")[2])
        if media_type:
            content = file.read_bytes()
            found[file.name] = Asset(content, media_type, hashlib.sha256(content).hexdigest()[:16])
    return found


def asset(name: str) -> str:
    """Return the address of a file: it changes with the content, so that browsers may keep it for ever."""
    return f"/ui/static/{name}?v={assets()[name].version}"


class Templates(Environment):
    """Compiles a template once for all threads: several that ask for it at first would each take 0.1 s."""

    _compiling = threading.RLock()  # A template asks for those that it imports.

    def get_template(self, *args: Any, **kwargs: Any) -> Template:
        with self._compiling:
            return super().get_template(*args, **kwargs)


@cache
def environment() -> Environment:
    """Return the templates. All values are escaped, and what is missing is an error."""
    made = Templates(
        loader=PackageLoader("mcp_memory.entrypoints.page"),
        autoescape=True,
        finalize=finished,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        auto_reload=False,
    )
    cast("dict[str, Any]", made.filters).update(
        when=when,
        ago=ago,
        moment=moment,
        inline=inline,
        drawn=drawn,
        quiet=quiet,
        section=section_in_words,
        counted_kind=counted_kind,
        said=in_a_line,
        listed=listed,
        verbatim=Verbatim,
        status=status_in_words,
        kind=kind_in_words,
        hidden_signs=hidden_signs,
        day=iso_day,
        commands=with_commands,
        reason=reason_in_words,
        shortfall=shortfall,
        signal=signal_in_words,
        source=source_in_words,
        detail=detail_in_words,
        line=line_in_words,
        goal=goal_in_words,
        result=result_in_words,
        promotion=promotion_in_words,
        why=why_in_words,
        way=way_in_words,
        project=short_name,
    )
    cast("dict[str, Any]", made.globals).update(asset=asset)
    return made
