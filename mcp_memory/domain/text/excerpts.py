"""Chooses what of a weighed text fits a number of tokens: its point, or an excerpt. Knows no model and no record."""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from mcp_memory.domain.text.salience import Weighed, overlap
from mcp_memory.domain.text.segments import EMOJI, PROSE, Role, Segment
from mcp_memory.domain.text.sentence_compression import condensed, condensed_line, ended, shortened, shorter_forms

MAX_SENTENCE_TOKENS = 60
"""A longer one is made shorter before it enters an excerpt, so that others find room."""
MAX_TRIED = 24
"""Pieces that are counted for one excerpt, the best."""
MIN_ROOM = 6
"""Tokens: for less, no further segment is looked for."""
REPEATED = 0.7
"""The share of a segment's words that others have said, from which on it is left out."""
MIN_WORTH = 0.3
"""What is worth less says nothing: a greeting, a rule."""
MAX_RIVALS = 4
MAX_LESS = 1.7
"""How many segments, and how much less worth, may take the place of one that cannot be made short enough."""
MAX_COUNTED = 40
"""Characters for each token of a limit: a longer text is not counted, it does not fit."""

_CLOSED = re.compile(rf"[.!?:;,。！？：；…{EMOJI}][\"'”’)\]]*$")
_UNSPACED_STOP = re.compile(r"[。！？]$")
_GLUE: dict[Role, str] = {"heading": ": ", "pair": ", ", "file": ", ", "error": " — "}
_LISTED: frozenset[Role] = frozenset({"pair", "file", "error"})
"""What says more together with what follows it."""

Count: TypeAlias = Callable[[str], int]
Truncate: TypeAlias = Callable[[str, int], str]


@dataclass(frozen=True, slots=True)
class Room:
    """How long a text may be: counts its tokens, and no more often than it must."""

    count: Count
    truncate: Truncate

    def holds(self, text: str, limit: int) -> bool:
        """Whether the text has at most so many tokens. A token is at least one byte, a character at most four."""
        if len(text) * 4 <= limit or (len(text) <= limit and text.isascii()):
            return True
        return len(text) <= limit * MAX_COUNTED and self.count(text) <= limit

    def condensed(self, segment: Segment, limit: int) -> str | None:
        """The segment, as little shorter as will do; None where it cannot be that short and still say what it does."""

        def fits(form: str) -> bool:
            return self.holds(form, limit)

        return condensed(segment.text, fits) if segment.role in PROSE else condensed_line(segment.text, fits)

    def shortened(self, segment: Segment, limit: int) -> str:
        """The segment, ended early."""
        text = segment.text[: limit * MAX_COUNTED]
        if segment.role not in PROSE:
            return ended(text, limit, self.count, self.truncate)
        *_, shortest = shorter_forms(text)
        return shortened(shortest, limit, self.count, self.truncate)


def point(ranked: Sequence[Weighed], limit: int, room: Room) -> str:
    """The segment that carries the point, made shorter where it must be, and what still fits behind it; one line."""
    best = sorted(ranked, key=lambda each: -each.worth)
    for each in best[:MAX_RIVALS]:
        if each.worth < best[0].worth - MAX_LESS:
            break
        short = room.condensed(each.segment, limit)
        if short is not None:
            return _with_more(each, short, ranked, limit, room)
    return room.shortened(best[0].segment, limit)


def excerpt(ranked: Sequence[Weighed], limit: int, room: Room) -> str:
    """The segments worth most in the order of the text, nothing said twice; an ellipsis stands for what is left out."""
    chosen: dict[int, str] = {}
    said: set[str] = set()
    left = limit - 1
    tried = 0
    for each in sorted(ranked, key=lambda each: -each.worth):
        if left < MIN_ROOM or tried == MAX_TRIED or (chosen and each.worth < MIN_WORTH):
            break
        if chosen and overlap(each.words, said) >= REPEATED:
            continue
        tried += 1
        text = room.condensed(each.segment, min(left - 2, MAX_SENTENCE_TOKENS))
        if text is not None:
            chosen[each.place] = text
            said |= each.words
            left -= room.count(text) + 2
    while chosen:
        joined = _joined(chosen, ranked)
        if room.holds(joined, limit):
            return joined
        del chosen[min(chosen, key=lambda place: ranked[place].worth)]
    return room.shortened(max(ranked, key=lambda each: each.worth).segment, limit)


def _with_more(first: Weighed, short: str, ranked: Sequence[Weighed], limit: int, room: Room) -> str:
    """The point, and the segments after it as far as they fit and say something new."""
    text, said, last = short, set(first.words), first
    for each in ranked[first.place + 1 : first.place + 4]:
        is_worth = each.segment.role in ("pair", "file", "frame") or each.worth > 1
        if short != first.segment.text or not is_worth or overlap(each.words, said) >= 0.5 or not each.segment.follows:
            break
        longer = text + _glue(last.segment) + each.segment.text
        if not room.holds(longer, limit):
            break
        text, last = longer, each
        said |= each.words
    return text


def _joined(chosen: dict[int, str], ranked: Sequence[Weighed]) -> str:
    parts: list[str] = []
    before: int | None = None
    for place in sorted(chosen):
        if before is not None:
            is_next = place == before + 1 and ranked[place].segment.follows
            parts.append(_glue(ranked[before].segment) if is_next else " … ")
        parts.append(chosen[place])
        before = place
    return "".join(parts) + ("" if before == len(ranked) - 1 else " …")


def _glue(segment: Segment) -> str:
    """What stands between a segment and the next: the break of a line was all that ended an item."""
    if _CLOSED.search(segment.text):
        return "" if _UNSPACED_STOP.search(segment.text) else " "
    return _GLUE.get(segment.role, "; ")
