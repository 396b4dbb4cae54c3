"""Facts and decisions that a text states outright, found by the shape of its sentences. Knows no model and no store."""

import re
from dataclasses import dataclass
from typing import Literal

from mcp_memory.domain.text import normal_hash

MAX_READ = 100_000
"""Characters of a text that are looked at."""
MAX_STATEMENTS = 20
LEAST_WORDS, MOST_WORDS = 3, 60
LEAST_CHARACTERS, MOST_CHARACTERS = 8, 400

_END = re.compile(r"(?<=[.!?])[\"')\]]*\s+|(?<=[。！？])|\n+")
_BULLET = re.compile(r"^(?:[-*+•]|\d{1,3}[.)])\s+|^#{1,6}\s+|^>\s*")
_FENCE = re.compile(r"^\s*(?:```|~~~).*?^\s*(?:```|~~~)\s*$", re.MULTILINE | re.DOTALL)
_DECISION = re.compile(
    r"\b(?:(?:we|i|team)(?:\s+(?:have|has|had|'ve|all|both|finally|then|also|now))*"
    r"\s+(?:decided|chose|agreed|opted|settled)\b|was decided\b|decided (?:to|on|against|not to)\b|decision (?:is|was)"
    r"|(?:we(?:'ll| will| are going to|'re going to)|let's|let us)\s+(?:use|go with|keep|drop|switch|stay)\b"
    r"|went with\b|settled on\b)|决定|決定|决议",
    re.IGNORECASE,
)
_RULE = re.compile(r"\b(?:must(?:\s+not|n't)?|never|always)\b|必须|必須|禁止|不得", re.IGNORECASE)
_USE = re.compile(r"\b(?:we|i)\s+(?:(?:now|currently|still|only|also)\s+)?use\b|我们用|我们使用|采用", re.IGNORECASE)
_STATE = re.compile(
    r"^(?:the|our|my|their|its?\s+own|each|every|all|both)?\s*[\w`'\"./@:#+-]+(?:\s+[\w`'\"./@:#+()-]+){0,7}?"
    r"\s+(?:is|are|uses?|runs on|requires?|needs?|depends on|lives in|belongs to|supports?|defaults to)\s+\S",
    re.IGNORECASE,
)
_LEANING = re.compile(
    r"^(?:it|its|this|that|these|those|there|here|he|she|they|him|his|her|you|your|what|who|which|where|when|why|how|if"
    r"|but|so|because|and|or|then|also|which|another|such|one|some|other|others|not|nothing|something|everything)\b"
    r"|^(?:i'm|i am|that's|it's|there's|here's|what's|who's|let me)\b|^(?:这|那|它|他|她|但|所以|因为|如果)",
    re.IGNORECASE,
)
"""How a sentence begins that cannot be understood without the one before it, or states nothing."""
_CONNECTIVE = re.compile(r"^(?:so|and|but|then|also|because)[\s,]+", re.IGNORECASE)
_UNSAID = ("?", "？", ":", "：", "{", ";")
"""How questions, headings and lines of code end."""
_HEDGE = re.compile(
    r"\b(?:maybe|perhaps|might|may be|could be|i think|i guess|i suppose|probably|possibly|not sure|seems?|apparently"
    r"|would|wonder|hopefully)\b|可能|也许|大概",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Statement:
    """One sentence that stands alone."""

    kind: Literal["fact", "decision"]
    text: str


def statements(text: str) -> list[Statement]:
    """What the text states, in its order, each once and at most 20: "decided to …", "we use …", "X is …", "must …".

    Questions, guesses, code, and what leans on the sentence before it are left out: better a few that hold than all.
    """
    found: dict[str, Statement] = {}
    for piece in _END.split(_FENCE.sub("\n", text[:MAX_READ])):
        sentence = _BULLET.sub("", " ".join(piece.split()))
        statement = _statement(sentence) if _is_whole(sentence) else None
        if statement:
            found.setdefault(normal_hash(statement.text), statement)
    return list(found.values())[:MAX_STATEMENTS]


def _is_whole(sentence: str) -> bool:
    """A sentence of some length that asserts something."""
    words = len(sentence.split())
    fits = LEAST_CHARACTERS <= len(sentence) <= MOST_CHARACTERS and words <= MOST_WORDS
    is_said = (words >= LEAST_WORDS or not sentence.isascii()) and not sentence.endswith(_UNSAID)
    return fits and is_said and not _HEDGE.search(sentence)


def _statement(sentence: str) -> Statement | None:
    if _DECISION.search(sentence):
        decided = _CONNECTIVE.sub("", sentence)
        return None if _LEANING.search(decided) else Statement(kind="decision", text=decided[0].upper() + decided[1:])
    if _LEANING.search(sentence):
        return None
    if _RULE.search(sentence) or _USE.search(sentence) or _STATE.search(sentence):
        return Statement(kind="fact", text=sentence)
    return None
