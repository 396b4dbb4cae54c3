"""Tells which of the things that a message offers its answer takes: one side of an either/or, or a numbered option.

Only what is certain counts: an answer to another question, of both sides, or of neither, takes nothing.
"""

import re
from collections.abc import Iterator

from mcp_memory.domain.sessions.tool_lines import one_line
from mcp_memory.domain.text import lexicon
from mcp_memory.domain.text.segments import sentences_of
from mcp_memory.domain.text.words import text_stems

TAKEN = " → "
"""Stands between what was offered and the words that take it."""
OFFER_CHARACTERS, ANSWER_CHARACTERS = 160, 120
MOST_READ = 8_000
"""Characters read of the end of an offer."""
MOST_WORDS = 8
"""Most words with a meaning of an answer that takes a side: a longer one says something else as well."""

# "in cents or in euros", "ein Cent oder ein Euro", "用 Redis 还是 SQLite"
_OR = re.compile(rf"\b(?:{lexicon.spaced('or')})\b|{lexicon.unspaced('or')}", re.IGNORECASE)
# "Option 1: update the compose file", "2) a table of jobs", "**B.** Celery"
_OPTION = re.compile(
    r"^\W{0,8}(?:(?P<named>option|variante?)\s+)?(?P<mark>\d|[A-Da-d])[*_]{0,2}[.):][*_:]{0,2}\s+(?P<text>\S.{0,300})",
    re.IGNORECASE | re.MULTILINE,
)
# "do option 1 for me", "2", "(b)."
_CHOSEN = re.compile(
    r"\b(?:option|variante?)\s+(?P<named>\d|[a-d])\b(?!\s*(?:\?|or\b|and\b))|\A\W*(?P<alone>\d|[a-d])\W*\Z",
    re.IGNORECASE,
)
# "cents, | since floats round": what follows gives a reason
_REST = re.compile(rf"[,;:.!(—–]|\b(?:{lexicon.spaced('reasons')})(?=\W)|{lexicon.unspaced('reasons')}", re.IGNORECASE)
_DENIED = re.compile(
    rf"\b(?:{lexicon.DENIALS}|{lexicon.ABSENCES}|{lexicon.spaced('not')})\b|{lexicon.DENIALS_UNSPACED}", re.IGNORECASE
)


def taken_of(offer: str, answer: str) -> str:
    """Return what was offered and what an answer takes of it, "Cents or euros? → cents"; empty for nothing certain."""
    told = _option(offer[-MOST_READ:], answer) or _side(offer[-MOST_READ:], answer)
    return f"{one_line(told, OFFER_CHARACTERS)}{TAKEN}{one_line(answer, ANSWER_CHARACTERS)}" if told else ""


def _option(offer: str, answer: str) -> str:
    """Return the line of the one option with the mark that an answer gives; where some lines say "option", of those."""
    chosen = {(each["named"] or each["alone"]).lower() for each in _CHOSEN.finditer(answer)}
    if len(chosen) != 1 or answer.rstrip().endswith(lexicon.QUESTION_SIGNS):
        return ""
    found = [each for each in _OPTION.finditer(offer) if each["mark"].lower() in chosen]
    named = [each for each in found if each["named"]] or found
    return named[0][0].strip(" #*-\n") if len(named) == 1 else ""


def _side(offer: str, answer: str) -> str:
    """Return the last question with an "or" of which an answer takes one side."""
    first = next((part for part in _REST.split(answer) if _content(part)), "")
    own = _content(first)
    if len(own) > MOST_WORDS or _DENIED.search(first) or answer.rstrip().endswith(lexicon.QUESTION_SIGNS):
        return ""
    return next((question for question in _either_or(offer) if _takes_one(question, own)), "")


def _either_or(offer: str) -> Iterator[str]:
    for sentence in reversed([*sentences_of(offer)]):
        if sentence.endswith(lexicon.QUESTION_SIGNS) and all(part.strip() for part in _OR.split(sentence, maxsplit=1)):
            yield sentence


def _takes_one(question: str, own: frozenset[str]) -> bool:
    """Return True where most words of an answer are of one side alone, and none of another's."""
    sides = [_content(side) for side in _OR.split(question)]
    common = frozenset[str]().union(*(one & other for n, one in enumerate(sides) for other in sides[:n]))
    taken = [len(own & (side - common)) for side in sides]
    return len(sides) > 1 and sum(map(bool, taken)) == 1 and 2 * (max(taken) + len(own & common)) >= len(own)


def _content(text: str) -> frozenset[str]:
    return frozenset(text_stems(text)) - lexicon.STOP_WORDS - lexicon.FOREIGN
