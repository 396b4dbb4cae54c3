"""Reads what the form of a dialogue turn says about it as an answer to a query. Knows no store and no formula."""

import re
from collections.abc import Collection, Iterable
from dataclasses import dataclass, replace
from functools import lru_cache

from mcp_memory.domain.text.words import query_terms

_ROLES = {"user": "user", "human": "user", "assistant": "assistant", "ai": "assistant"}
# e.g. "Assistant: Try a smaller batch."
_ROLE_IN_TEXT = re.compile(rf"\s*({'|'.join(_ROLES)})\s?:", re.IGNORECASE)
# e.g. the signs in "Really?! Yes. 好。"; not that in "v1.2"
_SENTENCE_END = re.compile(r"[.!?؟]+(?!\w)|[。！？]+")
_QUESTION_SIGNS = ("?", "？", "؟")
# e.g. "Hi!" and "Which port?" in "Hi! Which port?"; a line ends a sentence, too
_SENTENCE = re.compile(rf"([^\n]+?)({_SENTENCE_END.pattern}|$)", re.MULTILINE)
ASKING_CHARACTERS, ASKING_SHARE = 500, 0.75
"""A longer text says something beside its questions; a greeting, or an answer's format, may stand beside them."""
BRIEF_BYTES = 80
"""A shorter turn is mostly a reaction ("Wow, that sounds great!"). In bytes: a Chinese character says more."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Turn:
    """The form of a dialogue turn, as far as it bears on the turn as an answer.

    `is_other` is True where somebody else spoke than the one whom the query names. `is_brief` is True for a turn
    between people that is too short to tell much. `questions` is the share of questions in such a turn, in [0, 1].
    `only_asks` is True for a prompt, or an answer to one, that is hardly more than a question.
    """

    is_assistant: bool = False
    is_other: bool = False
    is_brief: bool = False
    questions: float = 0.0
    only_asks: bool = False


PLAIN = Turn()
"""A turn whose form says nothing."""


def read_turn(role: str | None, speaker: str | None, text: str, named: Collection[str] = ()) -> Turn:
    """Read the form of a turn, `text` being at least its beginning. `named` are the speakers whom the query names.

    Only turns between people lose by being brief or asking: to an assistant, a question says what its user is about.
    """
    role = role_of(role, speaker, text)
    is_between_people = bool(speaker and text) and role is None
    turn = Turn(
        is_assistant=role == "assistant",
        is_brief=is_between_people and len(text.encode("utf-8", "replace")) < BRIEF_BYTES,
        questions=share_of_questions(text) if is_between_people else 0.0,
        only_asks=not is_between_people and only_asks(text),
    )
    return spoken(turn, speaker, named)


def spoken(turn: Turn, speaker: str | None, named: Collection[str]) -> Turn:
    """Return a turn that was read where nobody was named as it is where these speakers are."""
    return replace(turn, is_other=True) if speaker and named and speaker not in named else turn


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
    if not any(sign in text for sign in _QUESTION_SIGNS):  # Most turns, and a tenth of the time.
        return 0.0
    ends = _SENTENCE_END.findall(text)
    return sum(any(sign in end for sign in _QUESTION_SIGNS) for end in ends) / max(len(ends), 1)


def only_asks(text: str) -> bool:
    """Return True where three quarters of a short text are questions: "Hi! Which port does staging use?" is."""
    if len(text) > ASKING_CHARACTERS or not any(sign in text for sign in _QUESTION_SIGNS):
        return False
    asking = [
        len(each[0].strip()) * any(sign in each[2] for sign in _QUESTION_SIGNS) for each in _SENTENCE.finditer(text)
    ]
    return sum(asking) >= ASKING_SHARE * len(text.strip())


def named_speakers(speakers: Iterable[str], terms: Collection[str]) -> frozenset[str]:
    """Return the speakers whom the query's words name, by any part of their name."""
    return frozenset(speaker for speaker in speakers if not _words_of(speaker).isdisjoint(terms))


@lru_cache(1_024)  # The same few speak in every conversation.
def _words_of(speaker: str) -> frozenset[str]:
    return frozenset(query_terms(speaker))
