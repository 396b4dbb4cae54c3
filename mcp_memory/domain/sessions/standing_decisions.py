"""Leaves of decisions those that hold: one that takes another back stands in its place, and says so.

Only what names the thing that it replaces takes a decision back. In doubt both stay, the newest last.
"""

import re
from collections.abc import Hashable, Iterable, Iterator, Set
from itertools import count, dropwhile, takewhile
from typing import TypeAlias

from mcp_memory.domain.sessions.chosen_options import TAKEN
from mcp_memory.domain.sessions.tool_lines import one_line
from mcp_memory.domain.text.conflicts import otherwise, value_frames
from mcp_memory.domain.text.lexicon import FUNCTION_WORDS, spaced, unspaced
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


_Key: TypeAlias = tuple[str, Hashable]
"""A thing that decisions may have in common: its sort, and itself."""


def standing(decisions: Iterable[str], before: Iterable[str] = ()) -> tuple[str, ...]:
    """Return the decisions that hold, in their order: a later one that takes an earlier one back replaces it.

    Those `before` have been looked through already.
    """
    held = _HeldDecisions()
    for each in before:
        held.add(each)
    for each in decisions:
        former = held.taken_back_by(each)
        if former is None:
            held.add(each)
            continue
        held.remove(former)
        own = words_of(former)
        held.add(each if FORMER in each else f"{each}{FORMER}{one_line(own, FORMER_CHARACTERS)})")
    return tuple(held.by_place.values())


class _HeldDecisions:
    """The decisions that hold so far, by their places, found by what they have in common with a later one.

    To compare each with each takes minutes for some thousands.
    """

    def __init__(self) -> None:
        self.by_place: dict[int, str] = {}
        self._chosen: dict[int, frozenset[str]] = {}
        self._with: dict[_Key, dict[int, None]] = {}
        self._places = count()

    def add(self, decision: str) -> None:
        place = next(self._places)
        self.by_place[place] = decision
        self._chosen[place] = _content(_IN_PLACE.sub(" ", words_of(decision)))
        for key in _keys(decision, self._chosen[place]):
            self._with.setdefault(key, {})[place] = None

    def remove(self, decision: str) -> None:
        """Remove the earliest of these words."""
        place = next(iter(self._with["words", decision]))
        del self.by_place[place]
        for key in _keys(decision, self._chosen.pop(place)):
            del self._with[key][place]

    def taken_back_by(self, decision: str) -> str | None:
        """Return the latest one that this decision names as replaced, or denies; None where there is none."""
        own = words_of(decision)
        found = {
            place
            for named, told in _given_up(own)
            for place in self._with_all(named)
            if told is None or self._chosen[place] <= told
        }
        if TAKEN in own:
            found |= self._with.get(_offer_key(own), {}).keys()
        alike = {place for frame, *values in _value_keys(own) for place in self._with_other(frame, values)}
        found |= {place for place in alike if _differs_in_value(words_of(self.by_place[place]), own)}
        return self.by_place[max(found)] if found else None

    def _with_other(self, frame: _Key, values: Iterable[_Key]) -> Set[int]:
        """Return the places of the decisions that have that in common, and none of the values."""
        alike = {*self._with.get(frame, ())}
        for each in values:
            alike.difference_update(self._with.get(each, ()))
        return alike

    def _with_all(self, words: Iterable[str]) -> Iterator[int]:
        """Yield the places of the decisions that chose something with all these words."""
        rarest, *others = sorted((self._with.get(("word", word), {}) for word in words), key=len)
        yield from (place for place in rarest if all(place in each for each in others))


def _keys(decision: str, chosen: Iterable[str]) -> frozenset[_Key]:
    own = words_of(decision)
    words = (("word", word) for word in chosen)
    values = (key for keys in _value_keys(own) for key in keys)
    return frozenset([("words", decision), _offer_key(own), *words, *values])


def _offer_key(own: str) -> _Key:
    return "offer", own.partition(TAKEN)[0]


def _value_keys(own: str) -> Iterator[tuple[_Key, ...]]:
    """Yield keys of which two decisions share the first, and no other, where they differ in a value or a denial."""
    names = _names(own)
    for frame, value in value_frames(own):
        yield ("frame", (names, frame)), *(("value", (names, frame, word)) for word in value)


def words_of(decision: str) -> str:
    """Return what the decision itself says, without what it replaces."""
    return decision.removeprefix(REFUSED).partition(FORMER)[0]


def _differs_in_value(former: str, later: str) -> bool:
    """Return True where the same words hold another number, or are denied; another name is another subject."""
    return former != later and _names(former) == _names(later) and bool(otherwise(former, later))


def _names(text: str) -> frozenset[str]:
    return frozenset(word for word in _content(text) if not any(map(str.isdigit, word)))


def _given_up(own: str) -> Iterator[tuple[frozenset[str], frozenset[str] | None]]:
    """Yield the words of each name that a decision gives up, and those of its sentence.

    A decision with the name is replaced where the sentence has all that it chose. What is given up outright, as in
    "scrap X: …", needs only its name: None in place of the sentence.
    """
    for sentence in sentences_of(own):
        for match in _IN_PLACE.finditer(sentence):
            is_outright = bool(match["outright"])
            named = _content(match["what"]) if is_outright else _named(match["what"])
            if named:
                yield named, None if is_outright else _content(sentence)


def _named(phrase: str) -> frozenset[str]:
    """Return the words that a phrase begins with, up to a function word: "requests in the client" → "requests"."""
    words = dropwhile(_is_function_word, phrase.split())
    return _content(" ".join(takewhile(lambda word: not _is_function_word(word), words)))


def _is_function_word(word: str) -> bool:
    return word.casefold() in FUNCTION_WORDS


def _content(text: str) -> frozenset[str]:
    return frozenset(text_stems(text)) - FUNCTION_WORDS
