"""Weighs each segment of a text: its worth to a reader of that segment alone. Independent of tokens and models.

A sum of small bonuses and penalties, in the tradition of Luhn (IBM Journal, 1958) and Edmundson (JACM, 1969): place,
the text's own frequent words, words that announce a point, names and numbers. Values lie in about [-3, 5].
"""

import re
from collections import Counter
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass
from itertools import chain

from mcp_memory.domain.model.records import Kind
from mcp_memory.domain.text import lexicon
from mcp_memory.domain.text.segments import PROSE, Segment, SegmentRole

_BASE: Mapping[SegmentRole, float] = {
    "sentence": 1.0, "item": 0.75, "heading": 0.4, "quote": 0.5, "row": 0.3, "pair": 0.7, "file": 1.2, "error": 2.0,
    "frame": 1.4, "command": 0.8, "output": 0.3, "signature": 1.3, "comment": 1.0, "code": -1.0,
}  # fmt: skip
TITLE, OPENING = 2.1, 1.0
"""The worth of the first place: as the title, and as the first sentence that is no greeting."""
_MAY_OPEN: frozenset[SegmentRole] = frozenset({"sentence", "item", "quote", "comment", "signature", "pair", "row"})

# "don't use x_y" → "don't", "use", "x_y"
_RUN = re.compile(rf"[{lexicon.UNSPACED}]+|[^\W{lexicon.UNSPACED}]+(?:['’]t\b)?")
_UNSPACED_SIGN = re.compile(rf"[{lexicon.UNSPACED}]")
_POINT = lexicon.word_set("point")
# "因为连接池太小"
_POINT_UNSPACED = re.compile(lexicon.unspaced("point"))
_STRONG = lexicon.word_set("strong_point")
# "必须先清空缓存"
_STRONG_UNSPACED = re.compile(lexicon.unspaced("strong_point"))
"""Words and stems of `_POINT` that seldom appear away from the point."""
_DECIDED = lexicon.word_set("decided")
# "决定改用 Redis"
_DECIDED_UNSPACED = re.compile(lexicon.unspaced("decided"))
_FORBIDDEN = lexicon.word_set("forbidden")
# "不要直接上传"
_FORBIDDEN_UNSPACED = re.compile(lexicon.unspaced("forbidden"))
# "Hi team!", "Great question!", "Sure, here is the fix:"
_GREETING = re.compile(
    r"(?:hi|hello|hey|dear|thanks|thank you|good (?:morning|afternoon|evening|question)|great question|cheers"
    r"|best regards|kind regards|happy to help|let me know|hope (?:this|you)|i hope|you're welcome|no problem|see you"
    r"|have a (?:nice|good|great))\b"
    r"|(?:sure|ok|okay|yes|yeah|absolutely|certainly|of course|got it|i'd be happy|i'll|let me|let's"
    r"|here(?:'s| is| are))\b"
    r"[^.]{0,80}[.!,:?]?$"
    r"|你好|大家好|谢谢|好的|こんにちは|ありがとう|お疲れ|よろしく|お願いします",
    re.IGNORECASE,
)
# "Perhaps it is the cache." → a guess
_HEDGE = re.compile(rf"\b(?:{lexicon.HEDGES})\b|{lexicon.HEDGES_UNSPACED}", re.IGNORECASE)
_BOILERPLATE = lexicon.word_set("boilerplate")
# "This broke the build." → not clear without the sentence before
_LEANS = re.compile(rf"(?:{lexicon.LEANING})\b|{lexicon.LEANING_UNSPACED}|然后|それ|これ|そして|しかし", re.IGNORECASE)
# "I was trying to export a report"
_LEAD_UP = re.compile(
    r"(?:(?:i|we) (?:was|were|looked|discussed|talked|have been|had|tried|started|am|wanted|met)"
    r"|yesterday|today|last (?:week|night)"
    r"|as you|in this (?:document|note|report|message))\b|.{0,16}(?:について|关于)",
    re.IGNORECASE,
)
"""Openings of a story."""
# "Root cause: a missing lock"
_ANNOUNCED = re.compile(
    r"(?:decisions?|decided|conclusion|results?|root cause|cause|fix|solution|action|important|warning|lesson)"
    r"(?: \w+)?:\s"
    r"|(?:决定|结论|原因|決定|結論)[：:]",
    re.IGNORECASE,
)
_CLOSING_SIGNS = "\"'”’)]*_` "
# "port: 5432", "error = timeout"
_SALIENT = re.compile(
    r"(?:name|id|title|type|kind|status|state|error|message|code|version|port|host|url|path|model|result|reason|level"
    r"|description|count|total|timeout|enabled|command|main|database|region|environment)\W*[:=]",
    re.IGNORECASE,
)
# "3 passed in 2 s", "exited with code 1"
_TELLING_OUTPUT = re.compile(
    r"\b\d+ (?:passed|failed|errors?|warnings?|tests?)\b|exit(?:ed)? (?:code|status)|\b(?:done|built|deployed|released"
    r"|finished|completed|success\w*)\b",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Weighed:
    """A segment, its place in the text, its worth, and its content words in lower case."""

    segment: Segment
    place: int
    worth: float
    words: frozenset[str]


@dataclass(frozen=True, slots=True)
class _Words:
    """The words of a segment: all in lower case, the content words, and the number of exact names."""

    all: frozenset[str]
    content: frozenset[str]
    exact: int


def weighed(segments: Sequence[Segment], kind: Kind) -> list[Weighed]:
    """Return each segment with its worth, in the order of the text."""
    words = [_words(segment.text) for segment in segments]
    counts = Counter(chain.from_iterable(each.content for each in words))
    gains = {word: min(count - 1, 4) for word, count in counts.items() if count > 1}
    has_title = bool(segments) and segments[0].role == "heading"
    opening = next((n for n in range(has_title, len(segments)) if _may_open(segments[n], words[n])), -1)
    return [
        Weighed(
            segment=segment,
            place=n,
            worth=_BASE[segment.role]
            + (TITLE if n == 0 and has_title else _place(n, opening, segments))
            + _common(words[n].content, gains)
            + _said(segment, words[n], kind),
            words=words[n].content,
        )
        for n, segment in enumerate(segments)
    ]


def overlap(words: Set[str], others: Set[str]) -> float:
    """Return the share of the words that the others contain too, in [0, 1]; 0 without words."""
    return len(words & others) / len(words) if words else 0.0


def _words(text: str) -> _Words:
    runs = _RUN.findall(text)
    exact = len([run for run in runs[1:] if not run.islower() or "_" in run])
    if not text.isascii():
        unspaced = [run for run in runs if _UNSPACED_SIGN.match(run)]
        exact -= len(unspaced)
        runs += [run[n : n + 2] for run in unspaced for n in range(len(run) - 1)]
    found = frozenset(run.lower() for run in runs)
    return _Words(found, found - lexicon.STOP_WORDS, exact)


def _may_open(segment: Segment, words: _Words) -> bool:
    is_label = segment.text.endswith(":")
    return not (_GREETING.match(segment.text) or words.all & _BOILERPLATE or segment.role not in _MAY_OPEN or is_label)


def _place(n: int, opening: int, segments: Sequence[Segment]) -> float:
    """Return the worth of a segment's place.

    Most texts begin with their subject and end with the result; of errors, the last is the one that stopped it.
    """
    if segments[n].role == "error":
        return 0.25 * n / len(segments)
    if segments[n].role == "frame":
        return 0.0
    if n == opening:
        return 2 * OPENING if segments[n].role == "comment" else OPENING
    is_last = n == len(segments) - 1
    return 0.5 * (1 - n / len(segments)) + (0.3 if is_last else 0.0)


def _common(words: Set[str], gains: Mapping[str, int]) -> float:
    """Return the worth of words that recur in the rest of the text, in [0, 0.8].

    Each word gains by its other uses, at most 4.
    """
    return min(0.35 * sum(gains[word] for word in words & gains.keys()) / (len(words) + 4), 0.8)


def _said(segment: Segment, words: _Words, kind: Kind) -> float:
    """Add up the evidence of the segment's words, kind and form, for and against."""
    text = segment.text
    value = min(0.12 * words.exact, 0.5)
    if segment.role not in PROSE:
        return value + _of_lines(segment)
    value += min(0.3 * _marks(text, words, _POINT, _POINT_UNSPACED), 0.6)
    value += min(0.6 * _marks(text, words, _STRONG, _STRONG_UNSPACED), 0.9)
    value += 0.4 if _ANNOUNCED.match(text) else 0.0
    if kind == "decision" and _marks(text, words, _DECIDED, _DECIDED_UNSPACED):
        value += 0.6
    if kind == "censor" and _marks(text, words, _FORBIDDEN, _FORBIDDEN_UNSPACED):
        value += 0.8
    return value - _against(text, words)


def _marks(text: str, words: _Words, wanted: Set[str], unspaced: re.Pattern[str]) -> int:
    """Count the wanted words in a text, in any script."""
    return len(words.all & wanted) + (0 if text.isascii() else len(unspaced.findall(text)))


def _of_lines(segment: Segment) -> float:
    if segment.role == "pair":
        return 0.6 if _SALIENT.search(segment.text) else 0.0
    return 0.9 if segment.role == "output" and _TELLING_OUTPUT.search(segment.text) else 0.0


def _against(text: str, words: _Words) -> float:
    """Add up the penalties of a sentence that reads badly alone."""
    end = text.rstrip(_CLOSING_SIGNS)
    length = (len(_UNSPACED_SIGN.findall(text)) // 2 if not text.isascii() else 0) or text.count(" ") + 1
    faults = (
        (bool(_GREETING.match(text)), 1.5),
        (bool(words.all & _BOILERPLATE), 1.5),
        (end.endswith(lexicon.QUESTION_SIGNS), 0.9),
        (bool(_HEDGE.search(text)), 0.5),
        (bool(_LEANS.match(text)), 0.35),
        (bool(_LEAD_UP.match(text)), 0.6),
        (end.endswith(lexicon.COLONS), 0.6),
        (length < 5, 0.3),
        (length < 3, 0.4),
        (length > 45, 0.3),
    )
    return sum(penalty for applies, penalty in faults if applies)
