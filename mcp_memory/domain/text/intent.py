"""Picks the strategy of `auto` for a query by its words alone.

Uses rules of words as data (`IntentRule`), of English and of a dozen other languages: no model, nothing learnt.
Independent of the strategies' content.
"""

import re
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from mcp_memory.domain.text.lexicon import STOP_WORDS, UNSPACED, word_set
from mcp_memory.domain.text.words import index_terms, query_terms, split_words, stems

ASKING = word_set("asking")
"""A query that begins with one of these is a question, with or without its question mark."""
REQUESTING = frozenset({"can you", "could you", "will you", "would you"})
"""These openings request something in the form of a question."""

TURN_WORDS = word_set("turn_words")
"""A turn of only these and stop words names no subject: the turn before gives it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class IntentRule:
    """A rule for a strategy: one of the cues, or a word of `beside` in the same query as one of `words`.

    told: the rule applies only to requests, not to questions: "Write a post" against "Who wrote the post?"
    elsewhere: beginnings of words in other languages.
    """

    strategy: str
    reason: str
    cues: tuple[str, ...]
    words: frozenset[str] = frozenset()
    beside: frozenset[str] = frozenset()
    told: bool = False
    elsewhere: tuple[str, ...] = ()


_TABLES = tomllib.loads(Path(__file__).with_name("intent_rules.toml").read_text("utf-8"))


def _listed(text: str) -> tuple[str, ...]:
    return tuple(" ".join(text.split()).split(", ")) if text else ()


INFORMING = _listed(_TABLES["informing"])
INTENT_RULES = tuple(
    IntentRule(
        strategy=table["strategy"],
        reason=table["reason"],
        cues=_listed(_TABLES.get(table.get("also"), "")) + _listed(table["cues"]),
        words=frozenset(_listed(table.get("words", ""))),
        beside=frozenset(_listed(table.get("beside", ""))),
        told=table.get("told", False),
        elsewhere=_listed(table.get("elsewhere", "")),
    )
    for table in _TABLES["rule"]
)
"""In order: a query gets the strategy of the first rule that matches."""


_READ_CHARACTERS = 500
"""Characters read: a request states its aim at the beginning; pasted text may follow."""
_GAP = 6
"""Most words that a cue's `*` matches."""
_SHORT = 12
"""Most words of a query in which an "or" is likely the question."""
_LONG = 7
"""A word with this many letters is recognised even when misspelt."""
_QUESTION_MARK = re.compile(r"[?？؟](?!\w)")
"""A question mark, but not one inside an address: "Which port?", not "/search?q=1"."""
_UNSPACED = re.compile(f"[{UNSPACED}]")
"""A sign of a script that writes no words apart: "计划"."""
_CODE_NAME = re.compile(
    r"\w_\w|\w\(\)|(?<!\w)--\w|\b[a-z]+[A-Z]|\w\.(?:c|cpp|cs|go|java|js|kt|php|py|rb|rs|sh|sql|swift|ts)\b"
)
"""A name written as code: snake_case, call(), --option, camelCase, file.py."""


def pick_strategy(query: str) -> tuple[str, str]:
    """Return the strategy for the query, and the reason in a few words.

    `recent` for a turn of a conversation, `important` for a question of direction, a way of working where the query
    shows one, `question` for any other question, `balanced` otherwise.
    """
    query = query[:_READ_CHARACTERS]
    words = stems([_respelt(word) for word in split_words(query)])
    if not words:
        return "balanced", "there is no query"
    if all(word in TURN_WORDS or word in STOP_WORDS for word in query_terms(query)):
        return "recent", "it names no subject of its own"
    begins_asking = words[0] in _stems(ASKING)
    asks = begins_asking or _QUESTION_MARK.search(query) is not None
    tells = not asks or " ".join(words[:2]) in REQUESTING
    # A code name counts as the word "code".
    for_rules = [*words, "code"] if _CODE_NAME.search(query) else words
    for rule in INTENT_RULES:
        if (tells or not rule.told) and (reason := _reason(rule, for_rules)):
            return rule.strategy, reason
    for rule in INTENT_RULES:
        if found := _elsewhere(rule.elsewhere).search(query):
            return rule.strategy, f'{rule.reason} ("{found[0]}")'
    if not begins_asking and "or" in words and len(words) <= _SHORT:
        return "decision", "it asks for one of several"
    if asks or _cue(words, INFORMING):
        return "question", "it asks something"
    return "balanced", "nothing in it shows a way of working"


def _reason(rule: IntentRule, words: Sequence[str]) -> str | None:
    """Return the reason where the rule matches, else None."""
    if cue := _cue(words, rule.cues):
        return f'{rule.reason} ("{cue.replace("*", "…")}")'
    together = not _stems(rule.words).isdisjoint(words) and not _stems(rule.beside).isdisjoint(words)
    return rule.reason if together else None


def _respelt(word: str) -> str:
    """Return the cue word that this one is a typing error of, or the word itself."""
    written = word.lower()
    if len(written) < _LONG or written in _long_words():
        return word
    return next((meant for meant in _long_words() if _is_slip(written, meant)), word)


def _is_slip(written: str, meant: str) -> bool:
    """Return True where two neighbours are swapped, or one letter is missing or extra, but not the first."""
    short, long = sorted((written, meant), key=len)
    if written[0] != meant[0] or len(long) - len(short) > 1:
        return False
    at = next((at for at, letter in enumerate(short) if letter != long[at]), len(short))
    if len(short) == len(long):
        return short[at + 1 : at + 2] + short[at : at + 1] + short[at + 2 :] == long[at:]
    return short[at:] == long[at + 1 :]


@cache
def _long_words() -> tuple[str, ...]:
    """Return the words of all cues that are long enough to recognise despite a typing error, in alphabetical order."""
    cues = (cue for rule in INTENT_RULES for cue in (*rule.cues, *rule.words, *rule.beside))
    return tuple(sorted({word for cue in cues for word in cue.split() if len(word) >= _LONG}))


def _cue(words: Sequence[str], cues: tuple[str, ...]) -> str | None:
    """Return the first of the cues that occurs among the words."""
    there, row = set(words), f" {' '.join(words)} "
    return next((cue for first, pattern, cue in _patterns(cues) if first in there and pattern.search(row)), None)


@cache
def _patterns(cues: tuple[str, ...]) -> tuple[tuple[str, re.Pattern[str], str], ...]:
    """Return for each cue its first stem, its pattern, and the cue itself."""
    found: list[tuple[str, re.Pattern[str], str]] = []
    for cue in cues:
        parts = [" ".join(index_terms(part)) for part in cue.split("*")]
        pattern = re.compile(f" {f' (?:[^ ]+ ){{0,{_GAP}}}'.join(parts)} ")
        found.append((parts[0].partition(" ")[0], pattern, cue))
    return tuple(found)


@cache
def _elsewhere(beginnings: tuple[str, ...]) -> re.Pattern[str]:
    """Match the beginning of a word in another language; anywhere in a script that writes no words apart."""
    parts = [f" (?:[^ ]+ ){{0,{_GAP}}}".join(map(re.escape, each.split(" * "))) for each in beginnings]
    spaced = [part for part, each in zip(parts, beginnings, strict=True) if not _UNSPACED.match(each)]
    unspaced = [part for part, each in zip(parts, beginnings, strict=True) if _UNSPACED.match(each)]
    return re.compile("|".join([*(rf"(?<!\w){part}" for part in spaced), *unspaced]) or r"(?!)", re.IGNORECASE)


@cache
def _stems(words: frozenset[str]) -> frozenset[str]:
    return frozenset(index_terms(" ".join(words)))
