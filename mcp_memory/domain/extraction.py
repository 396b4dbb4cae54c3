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
_FENCE = re.compile(r"[ \t]{0,3}(`{3,}|~{3,})(.*)")
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
_UNDECIDED = re.compile(
    r"\b(?:not|never|yet|no|nobody|none|neither|nothing|cannot|hardly|if|unless|until|whether|used to"
    r"|(?:have|has|had|do|does|did|is|was)nt)\b|n['’]t\b|[没沒未尚]",
    re.IGNORECASE,
)
"""What stands before "decided" where nothing was."""
_PAST = re.compile(
    r"(?<!\bis )(?<!\bare )(?<!\bbe )(?<!\bbeing )(?<!\bbeen )\bused to\b"
    r"|\b(?:before that|yesterday|formerly|previously|back then|at (?:the|that) time|in the past"
    r"|last (?:week|month|year))\b|昨天|曾经",
    re.IGNORECASE,
)
"""What was so, and need not be so now. "Is used to" tells a purpose."""
_INSTRUCTION = re.compile(
    r"\byou(?:['’](?:ll|re))?\s+(?:must|should|shall|need|have|ought|will|may|can|cannot|are|do|never|always|now)\b|"
    r"\b(?:ignore|disregard|please|instructions?|system prompts?)\b"
    r"|\b(?:previous|prior|earlier|above) (?:prompts?|rules?|messages?|commands?|directions?)\b"
    r"|\b(?:assistants?|ai|llms?|chatbots?|language models?) (?:must|should|shall|will|may|can|cannot|has to|have to"
    r"|needs?|always|never|(?:is|are) (?:now|to|required|allowed))\b|[你您](?:必须|应该|要|需要|不得)|忽略|无视|指令",
    re.IGNORECASE,
)
"""How a text addresses its reader: what it demands is neither a fact nor decided."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Statement:
    """One sentence that stands alone."""

    kind: Literal["fact", "decision"]
    text: str


def statements(text: str) -> list[Statement]:
    """What the text states, in its order, each once and at most 20: "decided to …", "we use …", "X is …", "must …".

    Questions, guesses, code, what is past or undecided, what tells the reader to do something, and what leans on the
    sentence before it are left out: better a few that hold than all.
    """
    found: dict[str, Statement] = {}
    for piece in _END.split(_unfenced(text[:MAX_READ])):
        sentence = _BULLET.sub("", " ".join(piece.split()))
        statement = _statement(sentence) if _is_whole(sentence) else None
        if statement:
            found.setdefault(normal_hash(statement.text), statement)
    return list(found.values())[:MAX_STATEMENTS]


def _unfenced(text: str) -> str:
    """The text without its blocks of code; one that nothing closes goes on to the end."""
    kept: list[str] = []
    fence = ""
    for line in text.split("\n"):
        mark = _FENCE.match(line)
        if not mark:
            kept += [] if fence else [line]
        elif fence:
            is_end = mark[1].startswith(fence) and not mark[2].strip()
            fence = "" if is_end else fence
        elif "`" in mark[2]:
            kept.append(line)  # Code within a line.
        else:
            fence = mark[1]
            kept.append("")
    return "\n".join(kept)


def _is_whole(sentence: str) -> bool:
    """A sentence of some length that asserts something."""
    words = len(sentence.split())
    fits = LEAST_CHARACTERS <= len(sentence) <= MOST_CHARACTERS and words <= MOST_WORDS
    is_said = (words >= LEAST_WORDS or not sentence.isascii()) and not sentence.endswith(_UNSAID)
    return fits and is_said and not _HEDGE.search(sentence) and not _INSTRUCTION.search(sentence)


def _statement(sentence: str) -> Statement | None:
    if decision := _DECISION.search(sentence):
        decided = _CONNECTIVE.sub("", sentence)
        is_open = _UNDECIDED.search(sentence, 0, decision.start())
        return (
            None
            if is_open or _LEANING.search(decided)
            else Statement(kind="decision", text=decided[0].upper() + decided[1:])
        )
    if _LEANING.search(sentence) or _PAST.search(sentence):
        return None
    if _RULE.search(sentence) or _USE.search(sentence) or _STATE.search(sentence):
        return Statement(kind="fact", text=sentence)
    return None
