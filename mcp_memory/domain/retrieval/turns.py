"""Reads what the form of a dialogue turn says about it as an answer to a query. Knows no store and no formula."""

import re
from collections.abc import Collection, Iterable
from dataclasses import dataclass

from mcp_memory.domain.text.words import query_terms

_ROLES = {"user": "user", "human": "user", "assistant": "assistant", "ai": "assistant"}
# e.g. "Assistant: Try a smaller batch."
_ROLE_IN_TEXT = re.compile(rf"\s*({'|'.join(_ROLES)})\s?:", re.IGNORECASE)
# e.g. the signs in "Really?! Yes. 好。"; not that in "v1.2"
_SENTENCE_END = re.compile(r"[.!?؟]+(?!\w)|[。！？]+")
_QUESTION_SIGNS = frozenset("?？؟")


@dataclass(frozen=True, slots=True, kw_only=True)
class Turn:
    """What a dialogue turn's form says about it as an answer to the query.

    `is_other` is True where somebody else spoke than the one whom the query names. `questions` is the share of
    questions in a turn between people, in [0, 1]. `is_dated` is True where the query asks for a time and the turn
    names one.
    """

    is_assistant: bool = False
    is_other: bool = False
    questions: float = 0.0
    is_dated: bool = False


PLAIN = Turn()
"""A turn whose form says nothing."""


def role_of(role: str | None, speaker: str | None, text: str) -> str | None:
    """Return the role, or "user" or "assistant" where only the speaker or the beginning of the text says so."""
    if role:
        return role
    if speaker:
        return _ROLES.get(speaker.strip().lower())
    said = _ROLE_IN_TEXT.match(text)
    return _ROLES[said[1].lower()] if said else None


def share_of_questions(text: str) -> float:
    """Return the share of the text's sentences that ask, in [0, 1]."""
    ends = _SENTENCE_END.findall(text)
    return sum(not _QUESTION_SIGNS.isdisjoint(end) for end in ends) / len(ends) if ends else 0.0


def named_speakers(speakers: Iterable[str], terms: Collection[str]) -> frozenset[str]:
    """Return the speakers whom the query's words name, by any part of their name."""
    return frozenset(speaker for speaker in speakers if not set(query_terms(speaker)).isdisjoint(terms))
