"""Leaves of decisions those that hold: one that takes another back stands in its place, and says so.

Only what names the thing that it replaces takes a decision back. In doubt both stay, the newest last.
"""

import re
from collections.abc import Iterable, Sequence
from itertools import dropwhile, takewhile

from mcp_memory.domain.sessions.offers import TAKEN
from mcp_memory.domain.sessions.tool_lines import one_line
from mcp_memory.domain.text.conflicts import otherwise
from mcp_memory.domain.text.lexicon import FOREIGN, STOP_WORDS, spaced, unspaced
from mcp_memory.domain.text.segments import sentences_of
from mcp_memory.domain.text.words import text_stems

FORMER_CHARACTERS = 80
FORMER = " (no longer: "
"""Opens the decision that another one replaces."""
REFUSED = "Refused: "
"""Opens what the user refused."""
# "instead of tabs", "scrap the half resolution: use a quarter", "不用 Redis 了"; not "never drop the table"
_IN_PLACE = re.compile(
    rf"(?:(?P<outright>(?<!not )(?<!n['’]t )(?<!never )\b(?:{spaced('given_up')})\b|{unspaced('given_up')})"
    rf"|\b(?:{spaced('in_place_of')})\b)"
    r"\s?(?P<what>(?:(?!\.(?:\s|\Z))[^,;:!?，。；：！？()\n了]){1,80})",
    re.IGNORECASE,
)


def standing(decisions: Iterable[str], before: Iterable[str] = ()) -> tuple[str, ...]:
    """Return the decisions that hold, in their order: a later one that takes an earlier one back replaces it.

    Those `before` have been looked through already.
    """
    kept = [*before]
    for each in decisions:
        former = _taken_back_by(each, kept)
        if former is None:
            kept.append(each)
            continue
        kept.remove(former)
        own = words_of(former)
        kept.append(each if FORMER in each else f"{each}{FORMER}{one_line(own, FORMER_CHARACTERS)})")
    return tuple(kept)


def _taken_back_by(decision: str, earlier: Sequence[str]) -> str | None:
    """Return the latest earlier decision that this one names as replaced, or denies; None where there is none."""
    own = words_of(decision)
    for other in reversed(earlier):
        chosen = words_of(other)
        is_again = TAKEN in own and own.partition(TAKEN)[0] == chosen.partition(TAKEN)[0]
        if is_again or _differs_in_value(chosen, own) or any(_replaces(each, chosen) for each in sentences_of(own)):
            return other
    return None


def words_of(decision: str) -> str:
    """Return what the decision itself says, without what it replaces."""
    return decision.removeprefix(REFUSED).partition(FORMER)[0]


def _differs_in_value(former: str, later: str) -> bool:
    """Return True where the same words hold another number, or are denied; another name is another subject."""
    names = [word for word in _content(former) ^ _content(later) if not any(map(str.isdigit, word))]
    return not names and bool(otherwise(former, later))


def _replaces(sentence: str, former: str) -> bool:
    """Return True where a sentence names what the former decision chose, and is about all else that it says.

    What is given up outright, as in "scrap X: …", needs only its name.
    """
    chosen = _content(_IN_PLACE.sub(" ", former))
    for match in _IN_PLACE.finditer(sentence):
        if match["outright"]:
            named, is_about = _content(match["what"]), True
        else:
            named, is_about = _named(match["what"]), chosen <= _content(sentence)
        if is_about and named and named <= chosen:
            return True
    return False


def _named(phrase: str) -> frozenset[str]:
    """Return the words that a phrase begins with, up to a function word: "requests in the client" → "requests"."""
    words = dropwhile(_is_function_word, phrase.split())
    return _content(" ".join(takewhile(lambda word: not _is_function_word(word), words)))


def _is_function_word(word: str) -> bool:
    return word.casefold() in STOP_WORDS | FOREIGN


def _content(text: str) -> frozenset[str]:
    return frozenset(text_stems(text)) - STOP_WORDS - FOREIGN
