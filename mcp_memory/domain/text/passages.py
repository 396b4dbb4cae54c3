"""Finds the passages of a long text that bear on a query: whole sentences, items, table rows and code, word for word.

A text is cut into units, each a span of its characters. A unit's evidence is the information of the query's words in
it, measured within the text: a word of every unit distinguishes none. Words of the neighbouring units and of the
heading above count in part.
"""

import re
from bisect import bisect_right
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import log1p

from mcp_memory.domain.text.cut_to_tokens import Count
from mcp_memory.domain.text.segments import SENTENCE_END, line_look
from mcp_memory.domain.text.words import LEAST_IN_COMMON, letters_in_common, query_terms

MAX_READ = 200_000
"""Characters read of a text: as many as the embedder reads as a whole."""
MAX_UNIT = 800
"""Characters of a block of code; a longer one is divided at its lines."""
_LINES = frozenset(
    ("log", "error", "frame", "command", "diff", "json", "pair", "signature", "comment", "code", "trace", "row")
)
"""The looks of lines that stand alone; other lines join into paragraphs."""
BESIDE: Mapping[int, float] = {0: 1.0, 1: 0.4, -1: 0.4, 2: 0.2, -2: 0.2}
"""The share of a word that stands that many units away."""
BELOW_HEADING = 0.4
"""The share of a word that stands in the heading above."""
REASONED = 1.5
"""Nats for a sign of a reason, where the query asks for one."""
COUNTED = 0.7
"""Nats for a number, where the query asks for one."""
LEAST_SHARE = 0.3
"""The least evidence of a unit, as a share of the best one's, that adds a passage of its own."""
LEAST_SENTENCE = 12
"""Characters: a shorter sentence stays with the next one."""
LEAST_ROOM = 8
"""Tokens: stop looking for units when fewer are left."""

# "why did we …", "Warum …", "reason for …"
_ASKS_WHY = re.compile(
    r"\b(?:why|reasons?|rationale|how come|warum|wieso|weshalb|por qu[eé]|pourquoi|perch[eé]|waarom|dlaczego|зачем"
    r"|почему)\b|为什么|為什麼|なぜ|どうして|왜|لماذا",
    re.IGNORECASE,
)
# "because it is slow", "so that", "weil", "因为"
_GIVES_REASON = re.compile(
    r"\b(?:because|since|due to|so that|otherwise|reasons?|therefore|in order to|would (?:have|be|lose|need|cost)"
    r"|cannot|weil|da|damit|sonst|grund|porque|ya que|parce que|car|perch[eé]|omdat|ponieważ|потому)\b|因为|由于|から"
    r"|ため|ので",
    re.IGNORECASE,
)
# "how many", "what time", "when", "wie viele", "多少"
_ASKS_NUMBER = re.compile(
    r"\b(?:when|how (?:many|much|long|often|far|old|big|large|high|fast)|what (?:time|date|year|version|port|price"
    r"|number|percentage|size|limit)|which (?:version|port|day|date|year)|wann|wie ?viele?|wie lange"
    r"|cu[aá]nt[oa]s?|cu[aá]ndo|combien|quand|quanti|quando)\b|多少|几|何時|いくつ|いくら|何",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Unit:
    """A span [start, end) of a text that makes sense alone. `heading` is the number of the unit above it, -1 for none.

    `header` is the number of the table's first row, for a row.
    """

    start: int
    end: int
    heading: int = -1
    header: int = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class Excerpt:
    """Passages of a text, and where the best one stands in it; "" for a whole text."""

    text: str
    place: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Passages:
    """The text's units and the evidence of each (>= 0, in nats)."""

    text: str
    units: Sequence[Unit]
    evidence: Sequence[float]

    def excerpt(self, room: int, count: Count) -> Excerpt:
        """Return the passages with the most evidence in at most `room` tokens, in the text's order; "" without room.

        An ellipsis marks each omission. Units with a small share of the best one's evidence only widen a passage.
        """
        best = max(self.evidence, default=0.0)
        order = sorted(range(len(self.units)), key=lambda place: (-self.evidence[place], place))
        clear = [place for place in order if self.evidence[place] > best * LEAST_SHARE] or order[:1]
        near = [at for place in clear for at in (place + 1, place - 1, place + 2, place - 2) if 0 <= at < len(order)]
        chosen: set[int] = set()
        left = room
        for place in dict.fromkeys((*clear, *near)):
            if place != order[0] and not chosen:
                break  # Without the best one, the others mislead.
            # A gap costs a token or two on either side, unless it closes another.
            cost = count(self.text[self.units[place].start : self.units[place].end]) + 2
            if cost <= left:
                chosen.add(place)
                left -= cost
            elif left < LEAST_ROOM:
                break
        while chosen:
            shown = self._joined(sorted(chosen))
            if count(shown) <= room:
                return Excerpt(text=shown, place=self._place(chosen))
            chosen.remove(min(chosen, key=lambda place: (self.evidence[place], -place)))
        return Excerpt(text="", place="")

    def shown(self, room: int, count: Count, tokens: int) -> Excerpt:
        """Return an excerpt, and its place with the size of the whole, "part 12 of 41, 1900 tokens"; "" without room.

        The place, in brackets, is counted as well.
        """
        if not self.units:  # Nothing but rules, e.g. rows of dashes.
            return Excerpt(text="", place="")
        ending = f", {tokens} tokens"
        found = self.excerpt(room - count(f" ({self._place(range(len(self.units)))}{ending})"), count)
        return replace(found, place=f"{found.place}{ending}") if found.text else found

    def _place(self, chosen: Collection[int]) -> str:
        """Say where the best chosen unit stands, e.g. "part 12 of 41"."""
        best = max(chosen, key=lambda place: (self.evidence[place], -place))
        return f"part {best + 1} of {len(self.units)}"

    def _joined(self, places: Sequence[int]) -> str:
        """Join neighbours as they stand in the text; rows follow their table's header."""
        runs: list[list[int]] = []
        for place in places:
            if runs and place == runs[-1][-1] + 1:
                runs[-1].append(place)
            else:
                runs.append([place])
        shown = ["…"] if runs[0][0] > 0 else []
        for run in runs:
            header = self.units[run[0]].header
            if header >= 0 and header not in places:
                shown.append(self._said(header, header))
            shown.append(self._said(run[0], run[-1]))
            if run[-1] < len(self.units) - 1:
                shown.append("…")
        lined = any("\n" in part for part in shown) or self.units[places[0]].header >= 0
        return ("\n" if lined else " ").join(shown)

    def _said(self, first: int, last: int) -> str:
        return self.text[self.units[first].start : self.units[last].end].strip()


def best_part(text: str, tokens: int, query: str, room: int, count: Count) -> Excerpt:
    """Return a text of so many tokens whole where there is room, else the passages that bear on the query."""
    if tokens <= room:
        return Excerpt(text=text, place="")
    return passages(text, query).shown(room, count, tokens)


def passages(text: str, query: str) -> Passages:
    """Weigh a text's units against a query."""
    text = text[:MAX_READ]
    units = list(_units(text))
    words, worth = _words(text, units, query_terms(query))
    asks_why, asks_number = _ASKS_WHY.search(query), _ASKS_NUMBER.search(query)
    evidence: list[float] = []
    for place, unit in enumerate(units):
        nats = sum(share * worth[term] for term, share in _shares(place, units, words).items())
        body = text[unit.start : unit.end]
        nats += REASONED * bool(asks_why and _GIVES_REASON.search(body))
        nats += COUNTED * bool(asks_number and any(map(str.isdigit, body)))
        evidence.append(nats)
    return Passages(text=text, units=units, evidence=evidence)


def _words(text: str, units: Sequence[Unit], terms: Sequence[str]) -> tuple[Sequence[set[int]], Mapping[int, float]]:
    """Return the numbers of the terms in each unit, and each term's information within this text, in nats."""
    within: list[set[int]] = [set() for _ in units]
    starts = [unit.start for unit in units]
    for match in inflections_of(terms).finditer(text) if terms and units else ():
        within[max(bisect_right(starts, match.start()) - 1, 0)].add(match.lastindex or 0)
    having = Counter(term for found in within for term in found)
    return within, {term: log1p(len(units) / number) for term, number in having.items()}


def _shares(place: int, units: Sequence[Unit], words: Sequence[Collection[int]]) -> Mapping[int, float]:
    """Return how much each term counts for a unit: in full inside, in part beside it and in the heading above."""
    places = [(place + away, part) for away, part in BESIDE.items() if 0 <= place + away < len(units)]
    places += [(units[place].heading, BELOW_HEADING)] if units[place].heading >= 0 else []
    shares = dict[int, float]()
    for beside, part in places:
        shares |= {term: part for term in words[beside] if shares.get(term, 0.0) < part}
    return shares


def inflections_of(terms: Sequence[str]) -> re.Pattern[str]:
    """Match any inflection of each term: "deploy" finds "deployed"; the number of the group is the term's."""
    return re.compile("|".join(f"({_inflected(term)})" for term in terms), re.IGNORECASE)


def _inflected(term: str) -> str:
    if not term[:1].isascii() or not term.isalpha():
        return re.escape(term)
    stem = term[: letters_in_common(len(term))]
    return rf"(?<![^\W_]){re.escape(stem)}" + (r"\w{0,5}" if len(term) > LEAST_IN_COMMON else r"(?:s|es|ed)?(?!\w)")


def _units(text: str) -> Iterator[Unit]:
    number = 0
    heading = header = -1
    for start, end, look in _blocks(text):
        header = (number if header < 0 else header) if look == "row" else -1
        heading = number if look == "heading" else heading
        for a, b in _divided(text, start, end, look):
            if text[a:b].strip():  # Code that nobody closed may end in blank lines.
                above = heading if heading != number else -1
                yield Unit(start=a, end=b, heading=above, header=header if header != number else -1)
                number += 1


def _blocks(text: str) -> Iterator[tuple[int, int, str]]:
    """Yield spans of lines that belong together, with their look: a paragraph, an item, a block of code, a line."""
    start, look, position, is_fenced = 0, "", 0, False
    for line in text.splitlines(keepends=True):
        here, position = position, position + len(line)
        now = line_look(line.rstrip("\n"))
        if is_fenced:
            if now == "fence" or position - start > MAX_UNIT:
                yield start, position, "code"
                start, is_fenced = position, now != "fence"
                look = "code" if is_fenced else ""
            continue
        joins = look in ("prose", "item", "quote") and now == "prose"
        if look and not joins:
            yield start, here, look
            look = ""
        if now == "fence":
            start, look, is_fenced = here, "code", True
        elif now in ("blank", "rule"):
            look = ""
        elif not joins:
            start, look = here, now
    if look:
        yield start, position, look


def _divided(text: str, start: int, end: int, look: str) -> Iterator[tuple[int, int]]:
    if look in _LINES or look == "heading":
        yield start, end
        return
    begin = start
    for match in SENTENCE_END.finditer(text, start, end):
        if match.end() - begin >= LEAST_SENTENCE:
            yield begin, match.end()
            begin = match.end()
    if begin < end:
        yield begin, end
