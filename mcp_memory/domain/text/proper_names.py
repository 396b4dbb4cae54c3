"""Finds names of people, products and places in prose by their capitals. Knows no model, no dictionary of names.

A name that is missed costs little, since words and meaning are searched too; a wrong one ties together records that
have nothing to do with each other. So a capital that begins a sentence counts only where something else speaks for it.
"""

import re
from collections.abc import Iterator, Sequence, Set
from dataclasses import dataclass

from mcp_memory.domain.text.words import STOP_WORDS

MAX_WORDS = 4
"""A longer run of capitals is a heading."""
MAX_GAP = 8
"""Characters between two words of a sentence."""

_WORD = re.compile(r"[^\W\d_](?:[^\W_]|['’](?=[^\W\d_])|[-+](?=[^\W_]))*")
_SUFFIX = re.compile(r"['’](?:s|m|re|ve|ll|d|t)$", re.IGNORECASE)
_INSIDE_SENTENCE = re.compile(r"\s*+(?:[,;(]\s*+)?|\s++[&/]\s++")
_INSIDE_RUN = re.compile(r"[^\S\n]|\s&\s")

_CONNECTORS = frozenset("da de del der di du la le of van von".split())
_TITLES = frozenset("dr mr mrs ms prof".split())
_NEVER = frozenset(
    """am apr april aug august dec december false feb february fri friday jan january jul july jun june mar march may
    mon monday none nov november null oct october pm sat saturday sep sept september sun sunday thu thursday today
    tomorrow tonight true tue tuesday wed wednesday yesterday""".split()
)
_SHOUTED = frozenset(
    """aka asap debug error eta faq fixme fyi id important info lol nb note ok omg pr ps tbd todo tv url warn warning
    wip yes""".split()
)
_OPENERS = frozenset(
    """absolutely actually add afterwards again age ah aha alas alone alright always amazing animals another anybody
    anyone anything anyway apparently art autumn avoid aw awesome aww balance basically basketball beautiful beer
    besides best better big books bread breakfast bug build bump business bye call cats change check cheers
    children class clearly coffee come commit compare config congrats congratulations consider contact cooking
    cool create cute dad dance data database day dear definitely delete deploy despite difficult dinner disable do
    document dogs don't drop education eh either else enable enjoy enough ensure epic error errors especially even
    eventually ever every everybody everyday everyone everything exactly example excellent exercise experience
    fair faith family fantastic fashion father file files finally fine fingers fire first fitness fix follow food
    football fortunately found friends friendship fun function funny game games gardening generally get give glad
    glass go god gold good goodbye got gotcha gotta grab grammar great guess guitar haha half happy hard have
    health hello help hence here here's hey hi history hmm hmmm home hope hopefully house however huge ill imagine
    implement import incredible indeed injury inside install instead interesting iron issue job keep kids know
    language last later latest law least less let life like likewise list literature little log long look looks
    lots love lovely luck luckily lunch made make many math mathematics maybe mean meanwhile meditation men mental
    merge met method milk mine module mom money mother move movie movies music my myself nah name nature need
    neither never new next nice night no nobody none nope normally nothing nowadays null number obviously oh ok
    okay old one only oops open otherwise ouch output outside overall package paint paper parents part patience
    people per perfect perhaps pets plants plenty plus poetry port pottery practice pretty previously price print
    probably progress project put quality query quick quite rain rather read really recently refactor regarding
    release religion remember remove rename replace request research result return returns revert rice right run
    salt same sand say school science see seems self-care send server set several short shortly show side silver
    similarly simply since sleep snow so soccer society somebody someone something sometimes somewhere soon sorry
    sounds spring start stay step still stone stop store stress students stuff such sugar summary summer super
    sure surely sweet table take task tasks tea teachers technology tell tennis test tests thank thanks that's
    then there's therefore things think three thus time together too totally tough traffic travel true truly trust
    try turn two type ugh unfortunately unless unlike update upon use used user users usually value version via
    visual wait want warning water way weather welcome well whatever whenever whereas wherever whether whoa
    whoever win wind wine winter without women wonderful wood words work wow write yay yeah yep yes yet yikes yoga
    yup""".split()
)
"""Words that open sentences, and common nouns that stand there without an article: no names in that place."""

_VERBS = frozenset(
    """bought built came can can't chose could did didn't does doesn't found gave got had has is isn't kept left made
    may met might must ran said should told took was wasn't went will won't would wrote""".split()
)
"""What follows a name that begins a sentence; so do words in -s or -ed ("Postgres listens")."""

_GERMAN = frozenset("auch auf das dem den der die ein eine einen für ich ist mit nicht sich und von wir zu".split())
"""German capitalises every noun, so that capitals say nothing there."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Word:
    """A word and where it stands. `base` is it without a possessive or contracted ending.

    `opens` is True where it begins a sentence, and has its capital from that.
    """

    text: str
    base: str
    start: int
    end: int
    opens: bool

    @property
    def may_be_name(self) -> bool:
        """True for a capitalised word that is none of those that are capitalised anyway."""
        lower = self.base.lower()
        if not self.base[0].isupper() or lower in STOP_WORDS or lower in _NEVER or lower in _TITLES:
            return False
        if self.opens and (lower in _OPENERS or (lower.endswith(("ing", "ed", "ly")) and len(lower) > 4)):
            return False
        return not (lower in _SHOUTED and self.base.isupper())


def find_names(text: str) -> Iterator[tuple[int, str]]:
    """(position, name) of each name in a text without code, in order; the same name as often as it occurs."""
    text = "\n".join(" " * len(line) if _is_heading(line) else line for line in text.split("\n"))
    words = list(_words(text))
    if sum(word.text in _GERMAN for word in words) * 8 > len(words) + 8:
        return
    inside = {word.base for word in words if not word.opens}
    for first, last in _runs(text, words):
        if last - first >= MAX_WORDS or _is_shouted(words, first, last):
            continue
        if first < last or not words[first].opens or _speaks_for_a_name(words, first, inside):
            yield words[first].start, text[words[first].start : words[last].start] + words[last].base


def _is_heading(line: str) -> bool:
    """True for a line that is marked as one, or all of whose words, more than a name has, begin with capitals."""
    words = line.split()
    return line.startswith("#") or (len(words) > MAX_WORDS and all(word[0].isupper() for word in words))


def _words(text: str) -> Iterator[_Word]:
    before: _Word | None = None
    for match in _WORD.finditer(text):
        gap = text[before.end : match.start()] if before else ""
        is_inside = before is not None and (
            (len(gap) < MAX_GAP and "\n" not in gap and bool(_INSIDE_SENTENCE.fullmatch(gap)))
            or _is_abbreviated(before, gap)
        )
        base = _SUFFIX.sub("", match.group())
        before = _Word(text=match.group(), base=base, start=match.start(), end=match.end(), opens=not is_inside)
        yield before


def _is_abbreviated(word: _Word, gap: str) -> bool:
    """True where a full stop ends no sentence: Dr. Smith, J. Smith."""
    return gap == ". " and (word.text.lower() in _TITLES or len(word.text) == 1)


def _runs(text: str, words: Sequence[_Word]) -> Iterator[tuple[int, int]]:
    """First and last word of each run of capitalised words, "of" and the like inside it included."""
    position = 0
    while position < len(words):
        if words[position].may_be_name:
            last = position
            while (following := _next_in_run(text, words, last)) is not None:
                last = following
            yield position, last
            position = last
        position += 1


def _next_in_run(text: str, words: Sequence[_Word], last: int) -> int | None:
    """The next word of the run that has come to `last`, or None where it ends there."""
    if words[last].base != words[last].text:  # A possessive ends the name.
        return None
    following = last + 1
    if following < len(words) and words[following].text in _CONNECTORS and _touch(text, words, following):
        following += 1
    is_next = following < len(words) and words[following].may_be_name and _touch(text, words, following)
    return following if is_next else None


def _touch(text: str, words: Sequence[_Word], at: int) -> bool:
    """Whether nothing that ends a name stands between a word and the one before."""
    gap = text[words[at - 1].end : words[at].start]
    return bool(_INSIDE_RUN.fullmatch(gap)) or _is_abbreviated(words[at - 1], gap)


def _speaks_for_a_name(words: Sequence[_Word], at: int, inside: Set[str]) -> bool:
    """Whether a capitalised word that begins a sentence is a name: by its shape, its use elsewhere, or what follows."""
    word = words[at]
    if len(word.base) == 1 or word.base.lower() in inside:
        return False
    has_shape = any(letter.isupper() or letter.isdigit() for letter in word.base[1:])
    if has_shape or word.base != word.text or word.base in inside:
        return True
    if at + 1 == len(words) or words[at + 1].opens:
        return False
    verb = words[at + 1].text
    is_inflected = len(verb) > 3 and verb.endswith(("s", "ed")) and not verb.endswith(("ss", "us"))
    return verb in _VERBS or (verb.islower() and is_inflected)


def _is_shouted(words: Sequence[_Word], first: int, last: int) -> bool:
    """True for capitals among other words in capitals ("DO NOT PUSH TO MAIN"), which say nothing there."""
    around = [*words[max(first - 1, 0) : first], *words[last + 1 : last + 2]]
    is_capital = all(word.text.isupper() for word in words[first : last + 1])
    return is_capital and (last - first > 1 or any(len(w.text) > 1 and w.text.isupper() for w in around))
