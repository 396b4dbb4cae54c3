"""The sentences of an agent's messages that are kept to the letter where its work is told in short.

What it decided, found out, ruled out and left to do, known by the shape of the words. Knows no tokens and no model.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal, TypeAlias

from mcp_memory.domain.text.salience import weighed
from mcp_memory.domain.text.segments import PROSE, pieces_of
from mcp_memory.domain.text.statements import dead_ends, statements

MAX_CHARACTERS = 400
"""A longer piece is no sentence."""
MAX_READ = 20_000
"""Characters of a message that are looked at."""
_DECIDED, _LED_NOWHERE, _LEFT_TO_DO, _FOUND_OUT, _STATED, _NAMES_SOMEBODY = 3.0, 3.0, 2.0, 2.0, 1.0, 0.6
"""What each shape adds to a sentence's own worth."""
SAME = 20
"""Characters at their beginnings or their ends by which a statement and a sentence are known to be the same."""
LEAST = 2.0
"""What is worth less is told only where it shows one of the shapes."""

_OPEN = re.compile(
    r"^(?:next(?: steps?)?|to-?do|still to do|left to do|remaining|outstanding|follow[- ]?ups?"
    r"|open (?:questions?|points?|issues?))\b[^.:]{0,40}:|\bstill (?:needs?|have to|has to|open|missing|to be|to do)\b"
    r"|\byet to be\b|\bneeds? to be\b|\bremains? to\b|下一步|待办|还需要|尚未|剩下|残り|これから|まだ",
    re.IGNORECASE,
)
_FINDING = re.compile(
    r"\b(?:turn(?:s|ed) out|(?:found|figured) out|found that|worth (?:knowing|noting)|note that|noticed that"
    r"|learn(?:ed|t) that|discovered|confirmed that|root cause|(?:cause|reason|culprit|problem|issue) (?:is|was))\b"
    r"|原因|发现|發現|判明|分かっ|わかっ",
    re.IGNORECASE,
)
_PERSON = re.compile(r"(?<=[^\s.!?:] )[A-Z][a-zà-ÿ]{1,20} [A-Z][a-zà-ÿ]{1,20}\b")
_MARKUP = re.compile(r"[\s*_`\[\]]+")
_ANNOUNCEMENT = re.compile(
    r"(?:(?:now|first|next|so),? )?(?:let me|let's see|i(?:'ll| will| am going to)) ", re.IGNORECASE
)


_ASKS = ("?", "？", ":", "：")
Kind: TypeAlias = Literal["fact", "decision", "episode"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Telling:
    """A sentence, and how much it tells: about [1, 6]. A dead end is what was tried or thought of, and led nowhere."""

    text: str
    worth: float
    is_dead_end: bool = False


def telling(text: str) -> list[Telling]:
    """The sentences worth keeping, in their order; no questions, no code, and not what is about to be done."""
    text = text[:MAX_READ]
    stated: dict[str, Kind] = {each.text: each.kind for each in [*statements(text), *dead_ends(text)]}
    told: list[Telling] = []
    for each in weighed(pieces_of(text), "message"):
        sentence = each.piece.text
        kind = stated.pop(_stated(sentence, stated), None)
        shape = _shape(sentence, kind)
        is_telling = bool(shape) or each.worth >= LEAST
        if is_telling and (kind or (each.piece.role in PROSE and _may_be_told(sentence))):
            told.append(Telling(text=sentence, worth=each.worth + shape, is_dead_end=kind == "episode"))
    rest = stated.items()  # Stated across the pieces that the text was cut into, or with much markup.
    return told + [
        Telling(text=said, worth=LEAST + _shape(said, kind), is_dead_end=kind == "episode") for said, kind in rest
    ]


def _stated(sentence: str, stated: Iterable[str]) -> str:
    """Which of the statements the sentence makes, "" for none; they come with their markup, without "so" and "but"."""
    letters = _MARKUP.sub("", sentence)
    for said in stated:
        its = _MARKUP.sub("", said)
        if its[1:SAME] in letters or its.endswith(letters[-SAME:]):
            return said
    return ""


def _may_be_told(sentence: str) -> bool:
    is_short = len(sentence) <= MAX_CHARACTERS
    return is_short and not sentence.endswith(_ASKS) and not _ANNOUNCEMENT.match(sentence)


def _shape(sentence: str, kind: Kind | None) -> float:
    if kind in ("decision", "episode"):
        return _DECIDED if kind == "decision" else _LED_NOWHERE
    if _OPEN.search(sentence):
        return _LEFT_TO_DO
    if _FINDING.search(sentence):
        return _FOUND_OUT
    return _STATED if kind else _NAMES_SOMEBODY if _PERSON.search(sentence) else 0.0
