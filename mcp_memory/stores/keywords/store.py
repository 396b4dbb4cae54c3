"""Keyword search in memory, updated by the change sequence. It trusts no stored index.

Scores are exact, and depend only on the query and the records of the given scopes, so that all processes that have seen
the same changes answer alike.
"""

from __future__ import annotations

import threading
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from math import log
from operator import neg
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from mcp_memory.domain.model.ids import RecordSet, number_of
from mcp_memory.domain.model.scopes import partition_of
from mcp_memory.domain.retrieval.fusion import PRIOR_RECORDS
from mcp_memory.domain.text.words import asked_terms, stems, term_number
from mcp_memory.ports.changes import ChangeFeed
from mcp_memory.ports.retrieval import Rarity
from mcp_memory.stores.follower import Follower
from mcp_memory.stores.keywords.postings import NewText, ScopePostings, Scores
from mcp_memory.stores.record_numbers import RecordRows, groups, numbers_of

FEW_IN = 2_000
"""A word is rare where at most one record in so many has it: none is in a smaller store, where most words are."""
RARE_IDENTIFIER, MIN_DIGITS = 3, 3
"""An identifier is rare up to so many records, in a store of any size; so many digits make one of a word."""
READ_ON = 0.75
"""Weight of a word in the turns directly before and after a dialogue turn, relative to the turn's own words."""
MOST_RELATIVE = 2.0
"""Maximum length counted, in average lengths.

In a longer text, such as a tool's output, the wanted words are in one passage: measured by the whole, its rarest word
would carry no information. On public data, recall is as good as unbounded.
"""


MOST_SAID = 4_096
"""Words of queries and names whose terms are kept."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Scored:
    """The rarity of a query's terms, and for each shelf the score of each of its rows."""

    rarity: Rarity
    scores: Sequence[tuple[ScopePostings, Scores]]


class _Question(NamedTuple):
    """The terms of a query, and the parts that answer it."""

    terms: tuple[str, ...]
    scopes: tuple[str, ...]
    unread: frozenset[str]
    parts: tuple[KeywordPart, ...]


class _Asked(NamedTuple):
    """A word of the query: the numbers of all terms that say it in the index, and its forms in the query."""

    numbers: list[int]
    words: list[str]


class InformationKeywordStore:
    """Implements `KeywordStore` by sorted postings per scope.

    A shared word scores its information: -log of the chance that a random record of the same length has it. This is the
    binary case of divergence from randomness (Amati and van Rijsbergen, "Probabilistic models of information retrieval
    based on measuring the divergence from randomness", ACM TOIS 2002). BM25 also counts repetitions within a record,
    which added nothing for texts as short as memories.
    """

    def __init__(self, follower: Follower) -> None:
        self._follower = follower
        self._last: tuple[_Question, _Scored] | None = None
        self._unread = frozenset[str]()
        """Ids that the last query excluded; rarity does not depend on it."""
        self._said: dict[str, list[int]] = {}
        """The numbers of the terms that say a word, as far as words were asked for: of no text that was erased."""
        self._lock = threading.Lock()

    def new_part(self) -> KeywordPart:
        return KeywordPart()

    def forget(self, part: KeywordPart) -> None:
        with self._lock:
            self._said.clear()
            if self._last is not None and part in self._last[0].parts:
                self._last = None

    def search(
        self,
        terms: Sequence[str],
        scopes: Sequence[str],
        limit: int,
        only: RecordSet | None = None,
        exclude: Collection[str] = (),
    ) -> Mapping[str, float]:
        with self._follower.reading(self, scopes) as parts:
            scores = self._answer(terms, scopes, parts, exclude).scores
            found = [
                hit
                for shelf, scored in scores
                for hit in shelf.best(scored, limit, shelf.within(only, exclude, scored))
            ]
        return _best_first(found, limit)

    def scores(
        self,
        terms: Sequence[str],
        scopes: Sequence[str],
        record_ids: Collection[str],
        exclude: Collection[str] = (),
    ) -> Mapping[str, float]:
        wanted = [*set(record_ids).difference(exclude)]
        with self._follower.reading(self, scopes) as parts:
            scores = self._answer(terms, scopes, parts, exclude).scores
            return {i: score for shelf, scored in scores for i, score in shelf.scores_of(wanted, scored)}

    def holding(self, terms: Sequence[str], scopes: Sequence[str], limit: int, only: RecordSet) -> Sequence[str]:
        with self._follower.reading(self, scopes) as parts:
            with self._lock:
                words = [each.numbers for each in self._asked(terms).values()]
            shelves = _on(parts, scopes)
            found = [(shelf, shelf.holding(words, only)) for shelf in shelves]
            if sum(len(rows) for _, rows in found) <= limit:  # As for most names: then their order says nothing.
                return [i for shelf, rows in found for i in shelf.ids(rows)]
            mean_length, ranked = _mean_length(shelves), list[tuple[str, float]]()
            for shelf, rows in found:
                lengths: list[float] = _relative(shelf.lengths[rows], mean_length).tolist()
                ranked.extend(zip(shelf.ids(rows), map(neg, lengths), strict=True))
        return [*_best_first(ranked, limit)]

    def rarity(self, terms: Sequence[str], scopes: Sequence[str]) -> Rarity:
        with self._follower.reading(self, scopes) as parts:
            return self._answer(terms, scopes, parts, self._unread).rarity

    def neighbours(self, record_ids: Collection[str], scopes: Sequence[str]) -> Mapping[str, Sequence[str]]:
        with self._follower.reading(self, scopes) as parts:
            return {i: turns for part in parts.values() for i, turns in part.neighbours(record_ids, scopes)}

    def _answer(
        self, terms: Sequence[str], scopes: Sequence[str], parts: Mapping[str, KeywordPart], exclude: Collection[str]
    ) -> _Scored:
        """Keep the last answer: one recall searches, asks for rarity, and scores what others found."""
        with self._lock:
            self._unread = frozenset(exclude)
            asked = _Question(tuple(terms), tuple(scopes), self._unread, tuple(parts.values()))
            if self._last is None or self._last[0] != asked:
                scored = _score(self._asked(terms), _wholes(terms), _on(parts, scopes), self._unread)
                self._last = (asked, scored)
            return self._last[1]

    def _asked(self, terms: Sequence[str]) -> dict[int, _Asked]:
        """Return the terms by the number of their English stem, in the order of the first of each.

        A stem that two words share in another language belongs to the first: a text that holds it says one word.
        """
        if len(self._said) > MOST_SAID:
            self._said.clear()
        unknown = [term for term in terms if term not in self._said]
        for term, said_as in zip(unknown, asked_terms(unknown), strict=True):
            self._said[term] = [*map(term_number, said_as)]
        found: dict[int, _Asked] = {}
        taken = set[int]()
        for term in terms:
            number, *others = self._said[term]
            asked = found.setdefault(number, _Asked([number], []))
            asked.words.append(term)
            asked.numbers.extend(each for each in others if each not in taken)
            taken.update(others)
        return found


class KeywordPart:
    """The words of one partition: postings for each scope."""

    def __init__(self) -> None:
        self.shelves: dict[str, ScopePostings] = {}
        self._rows = RecordRows()

    @property
    def bytes(self) -> int:
        return self._rows.bytes + sum(shelf.bytes for shelf in self.shelves.values())

    def neighbours(self, record_ids: Collection[str], scopes: Collection[str]) -> Iterator[tuple[str, Sequence[str]]]:
        """Yield those of the records that have live turns beside them, with these."""
        here: dict[str, list[str]] = {}
        for record_id, scope in zip(record_ids, self._rows.scopes_of(record_ids), strict=True):
            if scope in scopes and scope is not None:
                here.setdefault(scope, []).append(record_id)
        for scope, ids in here.items():
            yield from self.shelves[scope].beside(ids).items()

    def follow(self, truth: ChangeFeed, since: int, partition: str) -> int:
        read = 0
        for columns in truth.index_rows("terms", since, partition=partition):
            numbers: list[int] = numbers_of(columns["id"]).tolist()
            rows = [*zip(numbers, map(bool, columns["is_live"]), columns["terms"], columns["session"], strict=True)]
            for scope, some in groups(columns["scope"]).items():
                places: list[int] = some.tolist()
                texts = [NewText(*rows[place]) for place in places if rows[place][2] is not None]
                if since:
                    self._put(scope, texts)
                else:
                    self._shelf(scope).append(texts)
            for number, _, terms, _ in rows:
                if terms is None:
                    self._remove(number)
            read += len(rows)
        for columns in truth.index_rows("erasures", since, partition=partition) if since else ():
            for record_id in columns["id"]:
                self._remove(number_of(record_id))
        return read

    def _put(self, scope: str, texts: Sequence[NewText]) -> None:
        for text in texts:
            if self._rows.scope_of(text.number) not in (None, scope):
                self._remove(text.number)
        self._shelf(scope).put(texts)

    def _remove(self, number: int) -> None:
        if (scope := self._rows.scope_of(number)) is not None:
            self.shelves[scope].remove(number)

    def _shelf(self, scope: str) -> ScopePostings:
        if scope not in self.shelves:
            self.shelves[scope] = ScopePostings(self._rows, self._rows.shelf(scope))
        return self.shelves[scope]


def _on(parts: Mapping[str, KeywordPart], scopes: Sequence[str]) -> list[ScopePostings]:
    found = ((parts[partition_of(scope)].shelves, scope) for scope in dict.fromkeys(scopes))
    return [shelves[scope] for shelves, scope in found if scope in shelves]


def _best_first(found: list[tuple[str, float]], limit: int) -> dict[str, float]:
    """Sort ids and scores, best first, ties by newest; keep `limit`."""
    return dict(sorted(found, key=lambda hit: (hit[1], hit[0]), reverse=True)[:limit])


def _score(
    asked: Mapping[int, _Asked], wholes: Mapping[int, int], shelves: Sequence[ScopePostings], unread: Collection[str]
) -> _Scored:
    """Count the words over all shelves together, and sum each row's information in the order of the words.

    `wholes` maps the number of each part of a compound word to it.
    """
    numbers, identifiers = list(asked), [any(map(_is_identifier, each.words)) for each in asked.values()]
    matches = [[shelf.find(each.numbers) for each in asked.values()] for shelf in shelves]
    pairs = list(zip(shelves, matches, strict=True))
    records = sum(shelf.live_records for shelf in shelves)
    mean_length = _mean_length(shelves)
    having = [sum(shelf.count_live(found[column]) for shelf, found in pairs) for column in range(len(numbers))]
    chances = [(count + 0.5) / (records + PRIOR_RECORDS + 1) for count in having]
    for found in matches:
        for part, whole in wholes.items():  # A text that has the whole word has said all that its parts say.
            column = numbers.index(part)
            found[column] = np.setdiff1d(found[column], found[numbers.index(whole)], assume_unique=True)
    scores: list[tuple[ScopePostings, Scores]] = []
    for shelf, found in pairs:
        informed = (
            (rows, _information(chance, _relative(shelf.lengths[rows], mean_length)))
            for rows, chance in zip(found, chances, strict=True)
        )
        scores.append((shelf, shelf.summed(informed, READ_ON, shelf.heard(unread))))
    holders: dict[str, float] = {}
    for column, (chance, count) in enumerate(zip(chances, having, strict=True)):
        if 0 < count <= max(records // FEW_IN, RARE_IDENTIFIER * identifiers[column]):
            for shelf, found in pairs:
                for record_id in shelf.live_ids(found[column]):
                    holders[record_id] = holders.get(record_id, 0.0) - log(chance)
    known = {number for number, count in zip(numbers, having, strict=True) if count}
    information = sum(-log(c) for n, c in zip(numbers, chances, strict=True) if wholes.get(n) not in known)
    told = {term: -log(chance) for each, chance in zip(asked.values(), chances, strict=True) for term in each.words}
    absent = frozenset(
        term for each, count in zip(asked.values(), having, strict=True) if not count for term in each.words
    )
    rarity = Rarity(records=records, information=information, holders=holders, nats=told, absent=absent)
    return _Scored(rarity=rarity, scores=scores)


def _mean_length(shelves: Sequence[ScopePostings]) -> float:
    return sum(shelf.live_length for shelf in shelves) / max(sum(shelf.live_records for shelf in shelves), 1) or 1.0


def _relative(lengths: NDArray[np.int64], mean_length: float) -> Scores:
    return np.clip(lengths / mean_length, 1.0, MOST_RELATIVE)


def _information(chance: float, relative: Scores) -> Scores:
    """Return -log of the chance that a text, `relative` (>= 1) times the average length, has a word; in nats."""
    return -np.log(-np.expm1(relative * np.log1p(-chance)))


def _wholes(terms: Sequence[str]) -> dict[int, int]:
    """Map the number of each part of a compound word to that of the word, as in "sqlite", "sq", "lite"."""
    numbers = [term_number(stem) for stem in stems(terms)]
    wholes: dict[int, int] = {}
    for place, term in enumerate(terms):
        end, joined = place + 1, ""
        while end < len(terms) and len(joined) < len(term):
            joined += terms[end]
            end += 1
        if joined == term:
            wholes |= {part: numbers[place] for part in numbers[place + 1 : end] if part != numbers[place]}
    return wholes


def _is_identifier(term: str) -> bool:
    """Return True for letters and three digits, or both in turns: "err4021", "q7x2"; not for "python2" or "18th"."""
    runs = [is_digit for is_digit, _ in groupby(term, str.isdigit)]
    return len(runs) > 2 or (len(runs) == 2 and sum(map(str.isdigit, term)) >= MIN_DIGITS)
