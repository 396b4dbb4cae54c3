"""Keeps stored texts data: none of them closes the fence of a context, or begins a line that reads as one of ours."""

import re

LINE_CHARACTERS = 160
"""A stored name, path or value within a line of ours is cut to this much."""

_UNSEEN = r"\s\u200b-\u200f\u2060-\u2064\ufeff"
"""Space, and characters that show as nothing."""
_FENCE = re.compile(rf"<(?=[{_UNSEEN}]*(?:/[{_UNSEEN}]*)?memory-context)", re.IGNORECASE)
_LOOKS_LIKE_OURS = re.compile(
    rf"^([{_UNSEEN}]*)"
    r"(#{1,6}(?=\s)|-(?=\s*\[|\s*\*\*|[^\[]{0,40}\[t[0-9a-z]{6}|[^\[]*--\[)|\[(?=r[0-9a-z]))"
)
_ID_BRACKET = re.compile(r"^\[|\[(?=\s*[rt][0-9a-z]{6})")


def neutralise(text: str) -> str:
    """A stored text as data: it cannot close the fence, nor begin a line that reads as our heading or item."""
    if text.isprintable() and "<" not in text:  # One line without a fence, as most are.
        return text
    lines = _FENCE.sub("&lt;", text).splitlines() or [""]
    safe = [lines[0], *(_LOOKS_LIKE_OURS.sub(r"\1\\\2", line) for line in lines[1:])]
    return "\n  ".join(line for line in safe if line.strip())


def one_line(text: str, most: int = LINE_CHARACTERS) -> str:
    """A stored name or value for the middle of a line of ours: no line break, no id in brackets, at most so long."""
    line = " ".join(text[: 4 * most].split())
    is_whole = len(line) <= most and len(text) <= 4 * most
    return neutralise(_ID_BRACKET.sub(r"\\[", line if is_whole else f"{line[: most - 1].rstrip()}…"))
