"""Leaves out what its writer marked as not to be stored: `<private>…</private>`. It knows the marks, and no secret."""

import re
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from typing import Final

LEFT_OUT: Final = "[private]"
"""Replaces a passage, so that a reader knows that the text has a gap."""
# e.g. "<private>", "</private>", "<Private note>"
_TAG = re.compile(r"<(?P<closes>/?)private(?:\s[^<>]{0,200})?>", re.IGNORECASE)
_FENCE = re.compile(r" {0,3}(```|~~~)")  # e.g. "```toml"
_TICKS = re.compile(r"`+")  # e.g. "`", "``"
_QUOTES = {'"': '"', "'": "'", "“": "”", "‘": "’", "«": "»", "„": "“"}


def without_private(text: str, *, to_the_end: bool = True) -> str:
    """Return the text with LEFT_OUT for each private passage, from its opening tag to its closing one.

    One that is not closed goes to the end of the text; without `to_the_end`, as for what no user writes, it is none.
    A tag that is only talked about opens nothing: alone in quotation marks or in code, where the code does not close
    it. Takes time linear in the length of the text.
    """
    if "private" not in text.casefold():
        return text
    tags = list(_TAG.finditer(text))
    if not tags:
        return text
    code = list(_code(text))
    begins = [begin for begin, _ in code]
    ends = _ends(tags)
    parts, place = list[str](), 0
    for tag in tags:
        if tag["closes"] or tag.start() < place:
            continue
        end = ends.get(tag.start())
        if _is_mention(text, tag, _around(tag.start(), code, begins), end) or (end is None and not to_the_end):
            continue
        parts += [text[place : tag.start()], LEFT_OUT]
        place = len(text) if end is None else end
    return "".join([*parts, text[place:]])


def is_private(text: str) -> bool:
    """Return True for a text that says nothing beside what was left out."""
    return LEFT_OUT in text and not text.replace(LEFT_OUT, "").strip()


def _ends(tags: Sequence[re.Match[str]]) -> dict[int, int]:
    """Return where the passage of each opening tag ends, by its start; none for one that nothing closes.

    A passage inside another one ends first; a tag that has none of its own ends with the next closing one.
    """
    ends, opened = dict[int, int](), list[int]()
    for tag in tags:
        if not tag["closes"]:
            opened.append(tag.start())
        elif opened:
            ends[opened.pop()] = tag.end()
    following: int | None = None
    for tag in reversed(tags):
        if tag["closes"]:
            following = tag.end()
        elif following is not None:
            ends.setdefault(tag.start(), following)
    return ends


def _code(text: str) -> Iterator[tuple[int, int]]:
    """Yield the spans of code, in order: blocks between two fences, and text between equal rows of ticks."""
    place, fence, begin = 0, "", 0
    waiting: list[tuple[int, int]] = []
    for line in text.splitlines(keepends=True):
        mark = found[1] if (found := _FENCE.match(line)) else ""
        if not fence and not mark:
            waiting += [(place + start, place + end) for start, end in _inline(line)]
        elif not fence:
            yield from waiting
            waiting, fence, begin = [], mark, place
        elif mark == fence:
            yield begin, place + len(line)
            fence = ""
        place += len(line)
    yield from waiting


def _inline(line: str) -> Iterator[tuple[int, int]]:
    rows = [match.span() for match in _TICKS.finditer(line)]
    closing: list[int] = [0] * len(rows)
    later: dict[int, int] = {}
    for at in reversed(range(len(rows))):
        length = rows[at][1] - rows[at][0]
        closing[at] = later.get(length, 0)
        later[length] = at
    at = 0
    while at < len(rows):
        if closing[at]:
            yield rows[at][0], rows[closing[at]][1]
        at = max(closing[at], at) + 1


def _around(start: int, code: list[tuple[int, int]], begins: list[int]) -> tuple[int, int] | None:
    """Return the span of code that holds this place."""
    at = bisect_left(begins, start + 1) - 1
    return code[at] if at >= 0 and start < code[at][1] else None


def _is_mention(text: str, tag: re.Match[str], code: tuple[int, int] | None, end: int | None) -> bool:
    if code:
        return end is None or end > code[1]
    before, behind = text[tag.start() - 1 : tag.start()], text[tag.end() : tag.end() + 1]
    return bool(before) and _QUOTES.get(before) == behind
