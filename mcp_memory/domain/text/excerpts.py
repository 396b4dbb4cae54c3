"""Chooses the segments of a weighed text that fit a number of tokens: the best one, or several in their order.

A segment that does not fit ends early, with an ellipsis. No word is added.
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from mcp_memory.domain.text.lexicon import ABSENCES, DENIALS, EXCEPTIONS, LIMITS_UNSPACED
from mcp_memory.domain.text.salience import Weighed, overlap
from mcp_memory.domain.text.segments import EMOJI, PROSE, Segment, SegmentRole

MAX_SENTENCE_TOKENS = 60
"""A longer sentence does not enter an excerpt, so that others find room."""
MAX_TRIED = 24
"""Segments to count for one excerpt, best first."""
MIN_ROOM = 6
"""Tokens: stop looking for segments when fewer are left."""
REPEATED = 0.7
"""A segment is left out when the others already hold this share of its words."""
MIN_WORTH = 0.3
"""The least worth of a segment with content; greetings and rules are below it."""
MAX_COUNTED = 40
"""Characters for each token of a limit: a longer text does not fit and is not counted."""

# "It works." and "It works.)" end by themselves, "Postgres 16" does not.
_CLOSED = re.compile(rf"[.!?:;,。！？：；…{EMOJI}][\"'”’)\]]*$")
_UNSPACED_STOP = re.compile(r"[。！？]$")  # "完成。"
_GLUE: dict[SegmentRole, str] = {"heading": ": ", "pair": ", ", "file": ", ", "error": " — "}

# "2026-05-12T02:13:52Z ERROR lock timeout" → "ERROR lock timeout"; "total.ts:14:7 - error TS2322" → "error TS2322"
_LINE_OPENER = re.compile(
    r"^(?:\[?\d{4}-\d\d-\d\d[T ]\d\d:\d\d[\d:.,+Z]*\]?\s+|\[?\d\d:\d\d:\d\d[\d.,]*\]?\s+"
    r"|[\w./\\-]+:\d+(?::\d+)?:?\s+(?:-\s+)?)+"
)
# "…, but never to write", "… apart from billing", "… cannot be deleted", "不要 …"
_DENIAL = re.compile(rf"(?<![a-z])(?:{DENIALS}|{ABSENCES}|{EXCEPTIONS})(?![a-z])|{LIMITS_UNSPACED}", re.IGNORECASE)
# A reason may contain denials: "…, because it is not fast" leaves the words before it unchanged.
_REASON = re.compile(r"[,;]?\s(?:because|since|due to|so that|in order to|(?:even )?though|although)\s")
# Where a clause begins, "… on Fridays, | but never …", and where it ends, "… never on Fridays |, as …".
_CLAUSE_START = re.compile(
    r"(?<=[,;:])\s|(?<=[，；：])|\s(?=[—–(]|(?:but|and|or|so|because|unless|except|only|may|must|should|can|will"
    r"|shall|is|are)\s)"
)
_CLAUSE_END = re.compile(r"[,;:，；：](?=\s|[^\s\x00-\x7f])|\s[-–—(]\s?|(?<=[、。])")
MAX_SENTENCE = 600
"""Characters: a longer segment is no sentence and is not searched for denials."""
MAX_STARTS = 6
"""Clause beginnings before a denial from which the ending may start."""

Count: TypeAlias = Callable[[str], int]
Truncate: TypeAlias = Callable[[str, int], str]


@dataclass(frozen=True, slots=True)
class Room:
    """Counts the tokens of texts, no more often than needed, and cuts them."""

    count: Count
    truncate: Truncate

    def holds(self, text: str, limit: int) -> bool:
        """Return True for a text of at most `limit` tokens. A token is at least one byte, a character at most four."""
        if len(text) * 4 <= limit or (len(text) <= limit and text.isascii()):
            return True
        return len(text) <= limit * MAX_COUNTED and self.count(text) <= limit

    def whole(self, segment: Segment, limit: int) -> str | None:
        """Return the segment, an output line without its time or place if that helps; None where it does not fit."""
        if self.holds(segment.text, limit):
            return segment.text
        line = "" if segment.role in PROSE else _LINE_OPENER.sub("", segment.text, count=1)
        return line if line and self.holds(line, limit) else None

    def cut(self, segment: Segment, limit: int) -> str:
        """Return as much of the segment as fits, with an ellipsis behind it.

        Where that would drop a sentence's denial, the denial's clause follows the ellipsis.
        """
        if segment.role not in PROSE:
            return self._begun(_LINE_OPENER.sub("", segment.text, count=1) or segment.text, limit)
        text = segment.text
        return (self._with_denial(text, limit) if len(text) <= MAX_SENTENCE else "") or self._begun(text, limit)

    def _begun(self, text: str, limit: int, end: str = "…") -> str:
        """Return the longest beginning that ends with a word, else any character; at most `limit` tokens with `end`."""
        head = self.truncate(text[: limit * MAX_COUNTED], limit - self.count(end))
        word = head.rfind(" ")
        while True:
            shown = (head[:word] if word > len(head) // 2 else head).rstrip(" ,;:—–-，；、") + end
            if self.count(shown) <= limit or not head:
                return shown
            head = head[:-1]
            word = head.rfind(" ")

    def _with_denial(self, text: str, limit: int) -> str:
        """Return the beginning, an ellipsis and the denial's clause that the beginning drops; "" where it drops none.

        "Use the database for all of the manual tests, but never write to it." → "Use the database … but never write
        to it."
        """
        reason = _REASON.search(text)
        said = text[: reason.start()] if reason else text
        denial = _DENIAL.search(said)
        if not denial or denial.end() < len(self._begun(text, limit)):
            return ""
        end = _CLAUSE_END.search(said, denial.start())
        starts = [0, *(m.end() for m in _CLAUSE_START.finditer(said) if m.end() <= denial.start()), denial.start()]
        clauses = (said[start : end.start() if end else None].strip() for start in starts[-MAX_STARTS:])
        tail = next((tail for clause in clauses if self.count(tail := f"… {clause}") <= limit), "")
        left = limit - self.count(tail)
        return self._begun(said[: denial.start()], limit, f" {tail}") if tail and left >= MIN_ROOM else tail


def point(ranked: Sequence[Weighed], limit: int, room: Room) -> str:
    """Return the segment worth most, cut if needed, and any following text that still fits; one line."""
    best = max(ranked, key=lambda each: each.worth)
    whole = room.whole(best.segment, limit)
    if whole is None:
        return room.cut(best.segment, limit)
    return _with_more(best, ranked, limit, room) if whole == best.segment.text else whole


def excerpt(ranked: Sequence[Weighed], limit: int, room: Room) -> str:
    """Return the segments worth most in the order of the text, without repeats; an ellipsis marks each omission."""
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
        text = room.whole(each.segment, min(left - 2, MAX_SENTENCE_TOKENS))
        if text is not None:
            chosen[each.place] = text
            said |= each.words
            left -= room.count(text) + 2
    while chosen:
        joined = _joined(chosen, ranked)
        if room.holds(joined, limit):
            return joined
        del chosen[min(chosen, key=lambda place: ranked[place].worth)]
    return room.cut(max(ranked, key=lambda each: each.worth).segment, limit)


def _with_more(first: Weighed, ranked: Sequence[Weighed], limit: int, room: Room) -> str:
    """Return the point and the segments after it, as far as they fit and add something new."""
    text, said, last = first.segment.text, set(first.words), first
    for each in ranked[first.place + 1 : first.place + 4]:
        is_worth = each.segment.role in ("pair", "file", "frame") or each.worth > 1
        if not is_worth or overlap(each.words, said) >= 0.5 or not each.segment.follows:
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
    """Return the signs between a segment and the next: an item may have ended only with its line."""
    if _CLOSED.search(segment.text):
        return "" if _UNSPACED_STOP.search(segment.text) else " "
    return _GLUE.get(segment.role, "; ")
