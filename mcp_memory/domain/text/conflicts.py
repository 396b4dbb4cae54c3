"""Tells by their words alone that a newer text contradicts an older one, or says the same again.

Only what leaves no doubt about the subject counts: a change that was taken back by its title, a name that is said to be
gone, and the same words with one other value, or denied. The agent that reads both judges the rest.
"""

from __future__ import annotations

import re
from collections.abc import Container, Iterable, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from typing import NamedTuple

from mcp_memory.domain.text import lexicon
from mcp_memory.domain.text.entity_extraction import issues_in
from mcp_memory.domain.text.words import folded, has_name, stems

REVERTED, GONE, VALUE, DENIED, RELATION_CERTAINTY = 0.95, 0.7, 0.9, 0.9, 0.85
"""The certainty of each sort of contradiction, about: the share of right ones (docs/decisions/0092). A source that a
relation gives another target may have several."""
OUTDATED_CERTAINTY = 0.85
"""The certainty that a text says again what was corrected."""
EQUAL_COSINE = 0.95
"""Least cosine of near-duplicates; it says nothing of values, in which they may differ."""
ALIKE_COSINE, ALIKE_SHARE = 0.9, 0.7
"""Least cosine of two texts that say one thing in other words, and least share of words that they have in common."""
NEAR_COSINE, SHORT_WORDS, SHORT_COSINE, SHORT_SHARE = 0.92, 25, 0.65, 0.5
"""Least cosine of two texts of one thing; of short ones, of at most so many words, with the least share of words that
they have in common."""
SUBJECT_COSINE = 0.67
"""Least cosine of two texts that refer to one issue or title and are likely of it. With what is near in meaning, one of
seven records of real histories meets an earlier one so (docs/decisions/0092)."""
AGAIN_COSINE, AGAIN_SHARE = 0.65, 0.35
"""Least cosine and share of words of a text and corrected words whose dropped value it has."""
GONE_COSINE = 0.55
"""Least cosine of a text that says that a name is gone, and one that reports on it: others only mention it."""
MOST_READ = 4_000
"""Characters in which a text is searched for what it says to be gone."""
MOST_ALIGNED = 60
"""Words of the longest text that is compared word by word: a longer one says more than one thing."""
LEAST_FRAME, FRAME_SHARE, MOST_DIFFERING = 3, 0.6, 3
"""Least words that two statements of one thing share, the least share of the longer one, and the most that differ."""

# "Commit 12f7e1dc: ", "2024-05-01: ", "Datasette 0.28 (Medium changes): "
_LABEL = re.compile(r"(?=[^:\n]{0,60}\d)[^:\n]{1,60}: ")
# 'Revert "Support for generated columns"'
_TAKEN_BACK = re.compile(
    rf"\b(?:{lexicon.spaced('reverts')})\b[^\n\"“„«]{{0,20}}[\"“„«]([^\"”“»\n]{{8,200}})[\"”“»]", re.IGNORECASE
)
# "`request.raw_args`", "--limit", "return_rows", "/-/config", "SQLITE_EXTENSIONS"
_NAME = (
    r"(?>`([^`\s]{3,60})[^`\n]{0,60}`"
    r"|(?<![\w`/.-])(--[a-z][\w-]+|\.[a-z]\w{2,}|[A-Za-z]\w*_\w+|[a-z]+[A-Z]\w+|\w{2,}\(\)|(?:/[\w.-]+)+\w)(?![\w-]))"
)
# "superseded by", "renamed to", "event when a table is renamed"
_LINKS = rf"(?i:{lexicon.spaced('gone_links')})\s"
# "Renamed the option `--limit`", "as a replacement for `--config`", "entfernt: `max_rows`"
_GONE_BEFORE = re.compile(rf"(?<!\()\b(?i:{lexicon.spaced('gone_before')}):?\s(?:(?!{_LINKS})[\w-]+\s){{0,3}}?{_NAME}")
# "Remove the deprecated `register_permissions` hook", as a title
_GONE_TITLE = re.compile(rf"(?i:{lexicon.spaced('gone_titles')})\s(?:(?!{_LINKS})[\w-]+\s){{0,3}}?{_NAME}")
# "The `canned_queries()` plugin hook has been removed", "`max_rows` wurde entfernt"
_IS_GONE = re.compile(rf"\s(?i:{lexicon.spaced('gone_behind')})\b")
_GONE_BEHIND = re.compile(rf"{_NAME}(?:\s(?!{_LINKS})[\w-]+){{0,3}}?{_IS_GONE.pattern}")
# "删除了 `max_rows`", "`max_rows` 已删除"
_GONE_UNSPACED = re.compile(
    rf"(?:{lexicon.unspaced('gone_before')})\s?{_NAME}|{_NAME}\s?(?:{lexicon.unspaced('gone_behind')})"
)
# 'the motion "Pave the east yard"'
_QUOTED = re.compile(r"[\"“„«]([^\"”“»\n]{12,120})[\"”»]")
_SIGN = re.compile(r"[\W_\d]|[a-z][A-Z]")
_WORD = re.compile(rf"[{lexicon.UNSPACED}]|\d[\d.,:/-]*\d|[^\W{lexicon.UNSPACED}]+(?:['’.-][^\W{lexicon.UNSPACED}]+)*")
_NOT = rf"{lexicon.DENIALS}|{lexicon.ABSENCES}|{lexicon.spaced('not')}"
_DENIAL = re.compile(rf"\b(?:{_NOT})\b|{lexicon.DENIALS_UNSPACED}|不", re.IGNORECASE)
# "30", "10:15", "1,200"; not "elk-4", nor "5.2", which may be a release
_AMOUNT = re.compile(r"\d+(?:[,:/-]\d+)*")
# "18:00"
_TIME_OF_DAY = re.compile(r"\d{1,2}:\d\d")
# the "hours" of "lasts 4 hours"
_UNIT = re.compile(rf"(?:{lexicon.spaced('units')})", re.IGNORECASE)
# "no longer", "nicht mehr", "was too slow"
_ENDED = re.compile(rf"\b(?:{lexicon.spaced('ended')})\b|(?:{lexicon.unspaced('ended')})", re.IGNORECASE)
# "limits. The export", or a new line
_SENTENCE_END = re.compile(r"(?<=[.!?])\s|[。！？\n]")
_COPULAS = lexicon.word_set("copulas")
# "る", "し"
_KANA = re.compile(r"[\u3040-\u309f]")
_RELATION_WORD = re.compile(r"[^\W_]+")
_AMOUNT_HEADS, _OF_ONE = lexicon.word_set("amount_heads"), lexicon.word_set("of_one")
# "not to", "if", "wenn"
_HEDGED = re.compile(
    rf"\b(?:{_NOT}|{lexicon.CONDITIONS}|when|whenever|wenn|falls|si|cuando|quand)\b[^.;\n]{{0,40}}\Z", re.IGNORECASE
)
# "removed from the logs each night"
_GOES_ON = re.compile(r"[^.;\n]{0,40}\b(?:from|each|every|nightly|daily|jede[nr]?|chaque|cada)\b", re.IGNORECASE)
_ONE_TARGET = lexicon.word_set("one_target")


@dataclass(frozen=True, slots=True, kw_only=True)
class Contradiction:
    """The reason why one text contradicts another, in a few words, and its certainty in (0, 1]."""

    why: str
    certainty: float


class ChangesNamed(NamedTuple):
    """The names that a text says to be removed, renamed or replaced, and the titles that it takes back."""

    names: Sequence[str]
    titles: Sequence[str]


class _Difference(NamedTuple):
    """The words of two texts in the one place where they differ, and the words around it in both."""

    old: Sequence[str]
    new: Sequence[str]
    before: Sequence[str]
    after: Sequence[str]


def contradiction(old: str, new: ChangesNamed, cosine: float, known_gone: Container[str] = ()) -> Contradiction | None:
    """Return that the newer text takes the older one back, or says that a name in it is gone; None where it does not.

    `new` is what the newer one names, `cosine` that of their vectors. Names that are `known_gone` are no news.
    """
    title = _title(_LABEL.sub("", old, count=1).partition("\n")[0])
    if any(title == _title(each) for each in new.titles):
        return Contradiction(why="the newer takes it back by its title", certainty=REVERTED)
    for name in new.names if cosine >= GONE_COSINE else ():
        if name not in known_gone and _reports_on(old, name):
            return Contradiction(why=f'"{name}" is said to hold no longer', certainty=GONE)
    return None


def _reports_on(text: str, name: str) -> bool:
    """Return True where a text has a name in a sentence that does not say that something ended: "previously"."""
    return any(has_name(each, name) and not _ENDED.search(each) for each in _SENTENCE_END.split(text))


def otherwise(old: str, new: str) -> Contradiction | None:
    """Return that two statements of the same words differ in a value of which there is one, or that one is denied."""
    labels = [match.group() if match else "" for match in map(_LABEL.match, (old, new))]
    found = _one_difference(old, new) if labels[0] == labels[1] else None
    if found is None:
        return None
    if not found.old or not found.new:
        extra = " ".join([*found.old, *found.new])
        is_denial = bool(_DENIAL.fullmatch(extra)) and not (found.after and found.after[0][0].isdigit())
        return Contradiction(why="one denies what the other says", certainty=DENIED) if is_denial else None
    if not _leads_to_value(found):
        return None
    why = f'"{" ".join(found.old)}" there, "{" ".join(found.new)}" here'
    return Contradiction(why=why, certainty=VALUE)


def _leads_to_value(found: _Difference) -> bool:
    """Return True where the words around lead to a value of which there is one: "expire after", "the flag of".

    So does what measures: "closes at 18:00", "lasts 4 hours". "I ate 3 apples", "the cat is black" and "the music of
    Bach" do not: another day, another sentence.
    """
    before = found.before
    if not before:
        return False
    is_amount = all(any(map(_AMOUNT.fullmatch, words)) for words in (found.old, found.new))
    same_unit = [word for word in found.old if not _AMOUNT.fullmatch(word)] == [
        word for word in found.new if not _AMOUNT.fullmatch(word)
    ]
    names_one = not _OF_ONE.isdisjoint(before)
    if is_amount and same_unit:
        return before[-1] in _AMOUNT_HEADS or (names_one and before[-1] in _COPULAS) or _is_measured(found)
    return names_one and not found.after and (before[-1] in _COPULAS or before[-1] == "of")


def _is_measured(found: _Difference) -> bool:
    """Return True where both amounts are times of day, or have the same unit of measurement behind them."""
    if all(_TIME_OF_DAY.fullmatch(word) for word in (*found.old, *found.new)):
        return True
    unit = found.old[-1] if not _AMOUNT.fullmatch(found.old[-1]) else next(iter(found.after), "")
    return bool(_UNIT.fullmatch(unit))


def value_frames(text: str) -> frozenset[tuple[str, tuple[str, ...]]]:
    """Return a statement without each value in it, with the value's words, and without each denial, with ().

    Where `otherwise` finds two statements to differ, they share one of these, and no word of its value.
    """
    words = _words(text)
    if not LEAST_FRAME <= len(words) <= MOST_ALIGNED:
        return frozenset()
    frames: set[tuple[str, tuple[str, ...]]] = {(" ".join(words), ())}
    for start in range(len(words)):
        for end in range(start + 1, min(start + MOST_DIFFERING, len(words)) + 1):
            own, before, after = words[start:end], words[:start], words[end:]
            # The other's words there may be an amount, too, or not.
            if any(_leads_to_value(_Difference(own, other, before, after)) for other in (own, ())):
                frames.add((" ".join([*before, "…", *after]), tuple(own)))
            if _DENIAL.fullmatch(" ".join(own)):
                frames.add((" ".join([*before, *after]), ()))
    return frozenset(frames)


def changes_named(text: str) -> ChangesNamed:
    """Return what a text says to be gone or taken back, in its words: 'Revert "Support for views"'."""
    titles = [match.group(1) for match in _TAKEN_BACK.finditer(text[:MOST_READ]) if _is_told(match)]
    return ChangesNamed(names=names_gone(text), titles=titles)


def _is_told(match: re.Match[str]) -> bool:
    """Return False for what is denied, supposed, or happens again and again: "not to revert", "removed each night"."""
    text, begin, end = match.string, match.start(), match.end()
    return not _HEDGED.search(text[max(begin - 60, 0) : begin]) and not _GOES_ON.match(text, end)


def _title(line: str) -> str:
    return line.strip(" .").casefold()


def names_gone(text: str) -> tuple[str, ...]:
    """Return the names with a form of their own that a text says are removed, renamed or replaced, as written.

    "Renamed `--limit` to `--config`" → "--limit"
    """
    read = text[:MOST_READ]
    patterns = (_GONE_BEFORE, _GONE_UNSPACED, *([_GONE_BEHIND] if _IS_GONE.search(read) else []))
    found = [match for pattern in patterns for match in pattern.finditer(read)]
    found += filter(None, [_GONE_TITLE.match(_LABEL.sub("", read, count=1))])
    told = (match for match in found if _is_told(match))
    names = (next(each for each in match.groups() if each).rstrip(".,:;") for match in told)
    return tuple(dict.fromkeys(name for name in names if _SIGN.search(name)))  # "`title`" is a word like others.


def references(text: str) -> Sequence[str]:
    """Return the issues and quoted titles that a text refers to, as written: "#42", "Add a cache"."""
    read = text[:MOST_READ]
    return [*dict.fromkeys([*issues_in(read), *_QUOTED.findall(read)])]


def is_same(old: str, new: str, cosine: float) -> bool:
    """Return True where two texts say the same: near in meaning, most words in common, the same values and denials."""
    if cosine < ALIKE_COSINE:
        return False
    one, other = _words(old), _words(new)
    if _values(one) != _values(other) or bool(_DENIAL.search(old)) != bool(_DENIAL.search(new)):
        return False
    return cosine >= EQUAL_COSINE or _share(one, other) >= ALIKE_SHARE


def is_near(old: str, new: str, cosine: float) -> bool:
    """Return True where two texts are likely of the same thing, so that the agent should read both."""
    if cosine >= NEAR_COSINE or cosine < SHORT_COSINE:
        return cosine >= NEAR_COSINE
    one, other = _words(old), _words(new)
    return max(len(one), len(other)) <= SHORT_WORDS and _share(one, other) >= SHORT_SHARE


def says_dropped(text: str, old: str, new: str) -> bool:
    """Return True where a text has a word that `new` dropped from `old`, and none that `new` brought.

    Where numbers stand instead of others, it is one of these. What says that it ended does not count: "Fly.io was
    too slow, so we moved to Hetzner".
    """
    said, former, present = (frozenset(_content(each)) for each in (text, old, new))
    if said & present - former or (_ENDED.search(text) and not _ENDED.search(old)):
        return False
    dropped = former - present
    numbers = _values(dropped) if _values(present) else set[str]()
    return not said.isdisjoint(numbers or dropped)


def says_again(text: str, old: str, cosine: float) -> bool:
    """Return True where a text, by the cosine and the words of both, says what an older one says.

    Another word instead of one names another subject: "downloads" for "uploads may have 20 MB".
    """
    one, other = _words(old), _words(text)
    if cosine < AGAIN_COSINE or bool(_DENIAL.search(old)) != bool(_DENIAL.search(text)):
        return False
    found = _one_difference(old, text)
    if found and len(found.old) == len(found.new):
        return False
    return _share(one, other) >= AGAIN_SHARE


def has_one_target(relation: str) -> bool:
    """Return True for a type of relation of which a source has one target: lives_in, unlike uses."""
    return any(word.lower() in _ONE_TARGET for word in _RELATION_WORD.findall(relation))


def _words(text: str) -> list[str]:
    return [folded(word) for word in _WORD.findall(text)]


def _content(text: str) -> list[str]:
    """Return the stems of a text's words but for function words and the endings of Japanese ones."""
    words = (word for word in _words(text) if word not in lexicon.FUNCTION_WORDS)
    return stems([word for word in words if not _KANA.fullmatch(word)])


def _values(words: Iterable[str]) -> set[str]:
    return {word for word in words if any(map(str.isdigit, word))}


def _share(one: Sequence[str], other: Sequence[str]) -> float:
    """Return the share of content words of the shorter text that the other has, too."""
    first, second = ({*stems([each for each in words if each not in lexicon.STOP_WORDS])} for words in (one, other))
    return len(first & second) / min(len(first), len(second)) if first and second else 0.0


def _one_difference(old: str, new: str) -> _Difference | None:
    """Return the one place where two statements of nearly the same words differ; None where there is more or less."""
    one, other = _words(old), _words(new)
    if not LEAST_FRAME <= min(len(one), len(other)) <= max(len(one), len(other)) <= MOST_ALIGNED:
        return None
    if len({*one} & {*other}) < min(LEAST_FRAME, len({*one})):
        return None
    changes = [each for each in SequenceMatcher(None, one, other, autojunk=False).get_opcodes() if each[0] != "equal"]
    if len(changes) != 1:
        return None
    _, start, end, new_start, new_end = changes[0]
    shared = len(one) - (end - start)
    if shared < max(LEAST_FRAME, FRAME_SHARE * max(len(one), len(other))):
        return None
    if max(end - start, new_end - new_start) > MOST_DIFFERING:
        return None
    return _Difference(one[start:end], other[new_start:new_end], one[:start], one[end:])
