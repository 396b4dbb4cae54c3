"""Turns a record filter into the set of ids that pass, from memory updated by the change sequence.

Each field of a filter has one array, indexed by the number in the record's id; a filter takes a few operations on whole
arrays. Entities, what is an agent's own, and columns without an array are read from the truth: few filters name them,
and an entity's links are many; so are the lines that a session's log has in common with another one's.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mcp_memory.domain.model.field_marks import Compares, marked
from mcp_memory.domain.model.ids import RECORD, RecordSet, make_id, number_of
from mcp_memory.domain.model.records import Instant
from mcp_memory.domain.model.scopes import ISOLATED_KINDS, RecordFilter
from mcp_memory.domain.retrieval.log_lines import TextDigests, besides, digest_of
from mcp_memory.domain.retrieval.turns import PLAIN, Turn, read_turn
from mcp_memory.ports.changes import ChangeFeed, Columns
from mcp_memory.ports.retrieval import Facet, Outline, Position
from mcp_memory.stores.follower import Follower
from mcp_memory.stores.record_numbers import Flags, Numbers, grown, held_against, numbers_of

_NONE = 0
"""The code of no value."""
_TEXTS = tuple("scope kind task_id session_id branch_id noted_in author status speaker event_type".split())
_BY_COLUMN = {
    name: each for name, each in marked(RecordFilter, Compares).items() if each.column in (*_TEXTS, "occurred_at")
}
"""The fields of a filter that compare a column."""
_UNINDEXED = marked(RecordFilter, Compares).keys() - _BY_COLUMN.keys() | {"entities", "entity_types", "own_of"}
_OUTLINE_TEXTS = ("kind", "task_id", "session_id", "speaker")
_OUTLINED: Mapping[str, type[np.generic]] = {
    "successor": np.int64,
    "is_assistant": np.bool_,
    "is_brief": np.bool_,
    "questions": np.float64,
    "only_asks": np.bool_,
    "words": np.int64,
    "besides": np.int64,
    "valid_from": np.float64,
    "valid_until": np.float64,
}
"""The number of what replaced a record, 0 for nothing; the form of a turn; what is said; instants, NaN for none."""
_FEW = 16
"""Up to this many values, one comparison each is faster than a look-up for every record."""


class BitmapFilterIndex:
    """Implements `FilterIndex`."""

    def __init__(self, follower: Follower) -> None:
        self._follower = follower
        self._columns = _Columns()
        self._noted: dict[str, frozenset[str]] = {}
        """The ids of what is noted elsewhere, by the session that was asked about since the last change."""

    def passing(self, where: RecordFilter) -> RecordSet:
        if where.passing is not None:
            return where.passing
        with self._follower.reading(self):
            flags = self._columns.passing(where)
            if where.session_id:
                also = self._follower.records.also_told_in(where.session_id)
                flags &= self._columns.in_session(where.session_id, also)
            if not _UNINDEXED.isdisjoint(where.in_use):
                passing = RecordSet.of(self._follower.records.matching_ids(where))
                flags &= held_against(passing, np.arange(len(flags)))
        return RecordSet(flags.tobytes())

    def outlines(self, record_ids: Collection[str], scopes: Collection[str]) -> Mapping[str, Outline]:
        with self._follower.reading(self):
            return self._columns.outlines(list(record_ids), scopes)

    def noted_elsewhere(self, session: str) -> frozenset[str]:
        with self._follower.reading(self):
            if session not in self._noted:  # Each source of a recall asks.
                numbers: list[int] = self._columns.noted_elsewhere(session).tolist()
                self._noted[session] = frozenset(make_id(RECORD, number) for number in numbers)
            return self._noted[session]

    def newest(self, among: RecordSet, limit: int, before: Position | None = None) -> Sequence[str]:
        numbers = np.flatnonzero(np.frombuffer(among.flags, np.bool_))
        with self._follower.reading(self):
            newest = self._columns.newest(numbers, limit, before)
        return [make_id(RECORD, number) for number in newest]

    def counts(self, among: RecordSet, facet: Facet, most: int) -> Mapping[str, int]:
        numbers = np.flatnonzero(np.frombuffer(among.flags, np.bool_))
        with self._follower.reading(self):
            return self._columns.counts(numbers, facet, most)

    def balanced(self, where: RecordFilter, limit: int, at: Instant, decay_hours: float) -> Sequence[str]:
        with self._follower.reading(self):
            numbers = np.flatnonzero(np.frombuffer(self.passing(where).flags, np.bool_))
            best = self._columns.balanced(numbers, limit, at, decay_hours)
        return [make_id(RECORD, number) for number in best]

    def follow(self, truth: ChangeFeed, since: int) -> None:
        self._noted.clear()
        if not since:
            self._columns = _Columns()
        for columns in truth.index_rows("columns", since):
            self._columns.put(numbers_of(columns["id"]), columns)
        for columns in truth.index_rows("erasures", since) if since else ():
            self._columns.remove(numbers_of(columns["id"]))


class _Columns:
    """One array for each field of a filter, by the record's number; texts as codes.

    A number without a record has no scope; the one after the newest never has one.
    """

    def __init__(self) -> None:
        self._codes: dict[str | None, int] = {None: _NONE}
        self._names: list[str | None] = [None]
        """The text of each code."""
        self._tag_records, self._tag_codes = np.zeros(0, np.int64), np.zeros(0, np.int32)
        """The number of a record and, in the same place, the code of a tag of it; _NONE for one that was taken away."""
        self._tag_places = 0
        """The places that are taken."""
        self._size = 1
        self._texts = {name: np.zeros(1, np.int32) for name in _TEXTS}
        self._outlined = {name: np.zeros(1, type_) for name, type_ in _OUTLINED.items()}
        """The columns that only outlines need."""
        self._occurred = np.zeros(1, np.float64)
        self._importance = np.zeros(1, np.float64)
        self._live = np.zeros(1, np.bool_)
        self._pinned = np.zeros(1, np.bool_)
        self._is_tagged = np.zeros(1, np.bool_)

    def put(self, numbers: Numbers, columns: Columns) -> None:
        """Set the values of these records."""
        self._make_room(int(numbers.max()))
        for name, column in self._texts.items():
            column[numbers] = self._coded(columns[name])
        self._occurred[numbers], self._importance[numbers] = columns["occurred_at"], columns["importance"]
        self._live[numbers], self._pinned[numbers] = columns["is_live"], columns["pinned"]
        self._outline(numbers, columns)
        self._tag(numbers, columns["tags"])

    def remove(self, numbers: Numbers) -> None:
        """Empty these numbers: without a scope nothing finds them."""
        there = numbers[numbers < self._size]
        for column in self._texts.values():
            column[there] = _NONE
        self._live[there] = False
        self._tag(there, ["[]"] * len(there))

    def _coded(self, texts: Sequence[str | None]) -> Sequence[int]:
        """Return the code of each text, a new one for those that have none."""
        codes = self._codes
        for text in set(texts) - codes.keys():
            codes[text] = len(self._names)
            self._names.append(text)
        return [codes[text] for text in texts]

    def _outline(self, numbers: Numbers, columns: Columns) -> None:
        outlined, said = self._outlined, zip(columns["role"], columns["speaker"], columns["opening"], strict=True)
        forms = [read_turn(*each) if any(each) else PLAIN for each in said]
        outlined["only_asks"][numbers] = [form.only_asks for form in forms]
        outlined["words"][numbers] = [digest_of(each) for each in columns["normal_hash"]]
        outlined["besides"][numbers] = [*_besides(columns)]
        outlined["is_assistant"][numbers] = [form.is_assistant for form in forms]
        outlined["is_brief"][numbers] = [form.is_brief for form in forms]
        outlined["questions"][numbers] = [form.questions for form in forms]
        outlined["successor"][numbers] = [number_of(each) if each else _NONE for each in columns["superseded_by"]]
        for name in ("valid_from", "valid_until"):
            outlined[name][numbers] = np.array(columns[name], np.float64)  # None becomes NaN.

    def _tag(self, numbers: Numbers, lists: Sequence[str]) -> None:
        """Replace the tags of these records; `lists` are JSON, and the same few again and again."""
        if (known := numbers[self._is_tagged[numbers]]).size:
            self._tag_codes[np.isin(self._tag_records, known)] = _NONE
        codes_of = {each: self._coded([*dict.fromkeys(json.loads(each))]) for each in set(lists)}
        codes = [code for each in lists for code in codes_of[each]]
        counts = [len(codes_of[each]) for each in lists]
        self._is_tagged[numbers] = np.array(counts, np.bool_)
        start, end = self._room_for_tags(len(codes))
        self._tag_records[start:end], self._tag_codes[start:end] = np.repeat(numbers, counts), codes

    def _room_for_tags(self, more: int) -> tuple[int, int]:
        """Take so many places; where there are too few, first leave out tags that were taken away."""
        if self._tag_places + more > len(self._tag_codes):
            kept = np.flatnonzero(self._tag_codes)
            self._tag_places, needed = len(kept), len(kept) + more
            self._tag_records = grown(self._tag_records[kept], needed)
            self._tag_codes = grown(self._tag_codes[kept], needed)
        start = self._tag_places
        self._tag_places += more
        return start, self._tag_places

    def outlines(self, record_ids: Sequence[str], scopes: Collection[str]) -> dict[str, Outline]:
        """Return the outlines of the known ones among these that are in the scopes."""
        numbers = np.minimum(np.fromiter(map(number_of, record_ids), np.int64, len(record_ids)), self._size - 1)
        wanted = {self._codes[scope] for scope in scopes if scope in self._codes}
        there = [place for place, code in enumerate(self._texts["scope"][numbers].tolist()) if code in wanted]
        rows = numbers[there]
        codes: dict[str, list[int]] = {name: self._texts[name][rows].tolist() for name in _OUTLINE_TEXTS}
        texts: dict[str, list[Any]] = {name: [self._names[code] for code in some] for name, some in codes.items()}
        told: dict[str, list[Any]] = {name: column[rows].tolist() for name, column in self._outlined.items()}
        forms = zip(*(told[name] for name in ("is_assistant", "is_brief", "questions", "only_asks")), strict=True)
        outlines = map(
            Outline,
            texts["kind"],
            [make_id(RECORD, number) if number else None for number in told["successor"]],
            texts["task_id"],
            texts["session_id"],
            texts["speaker"],
            [_form(*each) for each in forms],
            *([None if each != each else each for each in told[name]] for name in ("valid_from", "valid_until")),
            map(TextDigests, told["words"], told["besides"]),
            self._importance[rows].tolist(),
        )
        return dict(zip([record_ids[place] for place in there], outlines, strict=True))

    def passing(self, where: RecordFilter) -> Flags:
        """Apply all of a filter but what is unindexed; return a flag for each number, and one more."""
        flags = self._any_of("scope", where.scopes)
        for condition in (*self._of_columns(where), *self._of_sets(where)):
            flags &= condition
        return flags

    def _of_columns(self, where: RecordFilter) -> Iterator[Flags]:
        if not where.include_inactive:
            yield self._live[: self._size]
        for name in _BY_COLUMN.keys() & where.in_use:
            yield self._compared(_BY_COLUMN[name], getattr(where, name))

    def _compared(self, compares: Compares, wanted: Any) -> Flags:
        if compares.how == "from":
            return self._occurred[: self._size] >= wanted
        if compares.how == "before":
            return self._occurred[: self._size] < wanted
        among = self._any_of(compares.column, [wanted] if compares.how == "equal" else wanted)
        return ~among if compares.how == "none of" else among

    def _of_sets(self, where: RecordFilter) -> Iterator[Flags]:
        if where.pinned:
            yield self._pinned[: self._size]
        if where.tags:
            yield self._tagged(where.tags)
        for tag in where.all_tags:
            yield self._tagged((tag,))
        if where.without_tags:
            yield ~self._tagged(where.without_tags)
        if where.noted_in:
            yield self._any_of("noted_in", [None, where.noted_in])
        if where.isolated_tasks:
            yield ~(self._any_of("task_id", where.isolated_tasks) & self._any_of("kind", ISOLATED_KINDS))
        if where.only is not None:
            yield self._these(where.only)
        if where.exclude:
            yield ~self._these(where.exclude)

    def in_session(self, session_id: str, also: Collection[str]) -> Flags:
        flags, numbers = self._any_of("session_id", [session_id]), numbers_of(list(also))
        flags[numbers[numbers < self._size]] = True
        return flags

    def noted_elsewhere(self, session: str) -> NDArray[np.int64]:
        return np.flatnonzero(~self._any_of("noted_in", [None, session]))

    def newest(self, numbers: NDArray[np.int64], limit: int, before: Position | None = None) -> list[int]:
        """Return at most `limit` of the numbers, newest `occurred_at` first, then the latest stored."""
        if before:
            at, occurred = before[0], self._occurred[numbers]
            numbers = numbers[(occurred < at) | ((occurred == at) & (numbers < number_of(before[1])))]
        return self._highest(numbers, self._occurred[numbers], limit)

    def balanced(self, numbers: NDArray[np.int64], limit: int, at: Instant, decay_hours: float) -> list[int]:
        """Return at most `limit` of the numbers, by importance over age; one of the future is as young as can be."""
        age = np.maximum(at - self._occurred[numbers], 0.0) / (3_600 * decay_hours)
        return self._highest(numbers, self._importance[numbers] / (1.0 + age), limit)

    def counts(self, numbers: NDArray[np.int64], facet: Facet, most: int) -> dict[str, int]:
        """Count the values of a facet among the numbers; return the `most` common ones, ties by the value."""
        counted = Counter[str]()
        if facet == "tag":
            there = np.zeros(self._size, np.bool_)
            there[numbers] = True
            codes = self._tag_codes[there[self._tag_records]]
        else:
            codes = self._texts[facet][numbers]
        texts, by_code = self._names, np.bincount(codes)
        counted.update({str(texts[code]): int(by_code[code]) for code in by_code.nonzero()[0] if code != _NONE})
        order = sorted(counted.items(), key=lambda each: (-each[1], each[0]))
        return {text: count for text, count in order[:most] if count}

    def _highest(self, numbers: NDArray[np.int64], values: NDArray[np.float64], limit: int) -> list[int]:
        """Return at most `limit` of the numbers, highest value first, ties by newest, then by the latest stored."""
        if 0 < limit < len(numbers):  # Sort only those that may be returned, with all ties.
            high = values >= np.partition(values, -limit)[-limit]
            numbers, values = numbers[high], values[high]
        order = np.lexsort((numbers, self._occurred[numbers], values))[::-1][:limit]
        highest: list[int] = numbers[order].tolist()
        return highest

    def _any_of(self, name: str, wanted: Collection[str | None]) -> Flags:
        codes = [self._codes[text] for text in wanted if text in self._codes]
        column = self._texts[name][: self._size]
        if len(codes) > _FEW:
            is_wanted = np.zeros(len(self._codes), np.bool_)
            is_wanted[codes] = True
            return is_wanted[column]
        flags = np.zeros(self._size, np.bool_)
        for code in codes:
            flags |= column == code
        return flags

    def _tagged(self, tags: Collection[str]) -> Flags:
        flags = np.zeros(self._size, np.bool_)
        for tag in tags:
            if (code := self._codes.get(tag)) is not None:
                flags[self._tag_records[self._tag_codes == code]] = True
        return flags

    def _these(self, record_ids: Collection[str]) -> Flags:
        flags = np.zeros(self._size, np.bool_)
        flags[[number for number in map(number_of, record_ids) if number < self._size]] = True
        return flags

    def _make_room(self, number: int) -> None:
        """Have a place for that number and the one after it."""
        self._size = size = max(self._size, number + 2)
        self._texts = {name: grown(column, size) for name, column in self._texts.items()}
        self._outlined = {name: grown(column, size) for name, column in self._outlined.items()}
        self._occurred, self._live = grown(self._occurred, size), grown(self._live, size)
        self._pinned, self._importance = grown(self._pinned, size), grown(self._importance, size)
        self._is_tagged = grown(self._is_tagged, size)


@lru_cache(1_024)  # Most turns have one of a few forms.
def _form(is_assistant: bool, is_brief: bool, questions: float, only_asks: bool) -> Turn:
    if not (is_assistant or is_brief or questions or only_asks):
        return PLAIN
    return Turn(is_assistant=is_assistant, is_brief=is_brief, questions=questions, only_asks=only_asks)


def _besides(columns: Columns) -> Iterator[int]:
    """Return of each record what tells it apart from another one of the same words."""
    validity = zip(columns["valid_from"], columns["valid_until"], strict=True)
    told = zip(columns["speaker"], columns["outcome"], validity, columns["details"], strict=True)
    for speaker, outcome, valid, details in told:
        yield besides(speaker, outcome, valid, json.loads(details) if details != "{}" else None)
