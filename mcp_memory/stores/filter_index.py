"""Turns a record filter into the set of ids that pass, from memory updated by the change sequence.

Each field of a filter has one array in each partition, with a slot for each record; a filter takes a few operations
on whole arrays. Entities, what is an agent's own, and columns without an array are read from the truth: few filters
name them, and an entity's links are many; so are the lines that a session's log has in common with another one's.
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
from mcp_memory.stores.record_numbers import NONE, Flags, Numbers, RecordSlots, grown, held_against, numbers_of

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
Slots = NDArray[np.int32]
Instants = NDArray[np.float64]
_NONE_OF_ALL = (np.zeros(0, np.int64), np.zeros(0, np.float64), np.zeros(0, np.float64))
"""No numbers, instants and values, as of no partition."""
_TEXT_BYTES = 200
"""Bytes of a text with its code, about."""
_FEW = 16
"""Up to this many values, one comparison each is faster than a look-up for every record."""


class BitmapFilterIndex:
    """Implements `FilterIndex`."""

    def __init__(self, follower: Follower) -> None:
        self._follower = follower

    def new_part(self) -> FilterPart:
        return FilterPart()

    def forget(self, part: FilterPart) -> None:
        """Nothing: what is kept of a part is in it."""

    def passing(self, where: RecordFilter) -> RecordSet:
        if where.passing is not None:
            return where.passing
        with self._follower.reading(self, where.scopes) as parts:
            also = self._follower.records.also_told_in(where.session_id) if where.session_id else ()
            found = [part.passing(where, also) for part in parts.values()]
            if not _UNINDEXED.isdisjoint(where.in_use):
                passing = RecordSet.of(self._follower.records.matching_ids(where))
                found = [numbers[held_against(passing, numbers)] for numbers in found]
            newest = max((part.newest for part in parts.values()), default=0)
        flags = np.zeros(newest + 2, np.bool_)
        for numbers in found:
            flags[numbers] = True
        return RecordSet(flags.tobytes())

    def outlines(self, record_ids: Collection[str], scopes: Collection[str]) -> Mapping[str, Outline]:
        asked = list(record_ids)
        with self._follower.reading(self, tuple(scopes)) as parts:
            found = [part.outlines(asked, scopes) for part in parts.values()]
        every = {record_id: outline for each in found for record_id, outline in each.items()}
        return {record_id: every[record_id] for record_id in asked if record_id in every}

    def noted_elsewhere(self, session: str, scopes: Sequence[str]) -> frozenset[str]:
        with self._follower.reading(self, scopes) as parts:
            found = [noted for part in parts.values() if (noted := part.noted_elsewhere(session))]
        return found[0] if len(found) == 1 else frozenset[str]().union(*found)

    def newest(
        self, among: RecordSet, scopes: Sequence[str], limit: int, before: Position | None = None
    ) -> Sequence[str]:
        with self._follower.reading(self, scopes) as parts:
            found = [part.occurred(among, before) for part in parts.values()]
        numbers, occurred = map(np.concatenate, zip(_NONE_OF_ALL[:2], *found, strict=True))
        return _highest(numbers, occurred, occurred, limit)

    def counts(self, among: RecordSet, scopes: Sequence[str], facet: Facet, most: int) -> Mapping[str, int]:
        counted = Counter[str]()
        with self._follower.reading(self, scopes) as parts:
            for part in parts.values():
                counted.update(part.counts(among, facet))
        order = sorted(counted.items(), key=lambda each: (-each[1], each[0]))
        return {text: count for text, count in order[:most] if count}

    def balanced(self, where: RecordFilter, limit: int, at: Instant, decay_hours: float) -> Sequence[str]:
        with self._follower.reading(self, where.scopes) as parts:
            among = self.passing(where)
            found = [part.balanced(among, at, decay_hours) for part in parts.values()]
        numbers, occurred, values = map(np.concatenate, zip(_NONE_OF_ALL, *found, strict=True))
        return _highest(numbers, occurred, values, limit)


class FilterPart:
    """The columns of one partition that filters compare: an array for each field, by the record's slot; texts as codes.

    A slot without a record has no scope.
    """

    def __init__(self) -> None:
        self._slots = RecordSlots()
        self._codes: dict[str | None, int] = {None: _NONE}
        self._names: list[str | None] = [None]
        """The text of each code."""
        self._tag_records, self._tag_codes = np.zeros(0, np.int32), np.zeros(0, np.int32)
        """The slot of a record and, in the same place, the code of a tag of it; _NONE for one that was taken away."""
        self._tag_places = 0
        """The places that are taken."""
        self._texts = {name: np.zeros(0, np.int32) for name in _TEXTS}
        self._outlined = {name: np.zeros(0, type_) for name, type_ in _OUTLINED.items()}
        """The columns that only outlines need."""
        self._occurred = np.zeros(0, np.float64)
        self._importance = np.zeros(0, np.float64)
        self._live = np.zeros(0, np.bool_)
        self._pinned = np.zeros(0, np.bool_)
        self._is_tagged = np.zeros(0, np.bool_)
        self._noted: dict[str, frozenset[str]] = {}
        """The ids of what is noted elsewhere, by the session that was asked about since the last change."""

    @property
    def bytes(self) -> int:
        columns = [*self._texts.values(), *self._outlined.values(), self._tag_records, self._tag_codes]
        columns += [self._occurred, self._importance, self._live, self._pinned, self._is_tagged]
        return self._slots.bytes + sum(column.nbytes for column in columns) + _TEXT_BYTES * len(self._names)

    @property
    def newest(self) -> int:
        """The highest number of a record; 0 where there is none."""
        return int(self._numbers.max(initial=0))

    @property
    def _numbers(self) -> Numbers:
        return self._slots.numbers[: self._slots.count]

    def follow(self, truth: ChangeFeed, since: int, partition: str) -> int:
        self._noted.clear()
        read = 0
        for columns in truth.index_rows("columns", since, partition=partition):
            self._put(numbers_of(columns["id"]), columns)
            read += len(columns["id"])
        for columns in truth.index_rows("erasures", since, partition=partition) if since else ():
            self._remove(numbers_of(columns["id"]))
        return read

    def _put(self, numbers: Numbers, columns: Columns) -> None:
        """Set the values of these records."""
        slots = self._slots.add(numbers)
        self._make_room(self._slots.count)
        for name, column in self._texts.items():
            column[slots] = self._coded(columns[name])
        self._occurred[slots], self._importance[slots] = columns["occurred_at"], columns["importance"]
        self._live[slots], self._pinned[slots] = columns["is_live"], columns["pinned"]
        self._outline(slots, columns)
        self._tag(slots, columns["tags"])

    def _remove(self, numbers: Numbers) -> None:
        """Empty the slots of these records: without a scope nothing finds them."""
        slots = self._known(numbers)
        for column in self._texts.values():
            column[slots] = _NONE
        self._live[slots] = False
        self._tag(slots, ["[]"] * len(slots))

    def _known(self, numbers: Numbers) -> Slots:
        """Return the slots of those that have one."""
        slots = self._slots.find(numbers)
        return slots[slots != NONE]

    def _coded(self, texts: Sequence[str | None]) -> Sequence[int]:
        """Return the code of each text, a new one for those that have none."""
        codes = self._codes
        for text in set(texts) - codes.keys():
            codes[text] = len(self._names)
            self._names.append(text)
        return [codes[text] for text in texts]

    def _outline(self, slots: Slots, columns: Columns) -> None:
        outlined, said = self._outlined, zip(columns["role"], columns["speaker"], columns["opening"], strict=True)
        forms = [read_turn(*each) if any(each) else PLAIN for each in said]
        outlined["only_asks"][slots] = [form.only_asks for form in forms]
        outlined["words"][slots] = [digest_of(each) for each in columns["normal_hash"]]
        outlined["besides"][slots] = [*_besides(columns)]
        outlined["is_assistant"][slots] = [form.is_assistant for form in forms]
        outlined["is_brief"][slots] = [form.is_brief for form in forms]
        outlined["questions"][slots] = [form.questions for form in forms]
        outlined["successor"][slots] = [number_of(each) if each else _NONE for each in columns["superseded_by"]]
        for name in ("valid_from", "valid_until"):
            outlined[name][slots] = np.array(columns[name], np.float64)  # None becomes NaN.

    def _tag(self, slots: Slots, lists: Sequence[str]) -> None:
        """Replace the tags of these records; `lists` are JSON, and the same few again and again."""
        if (known := slots[self._is_tagged[slots]]).size:
            self._tag_codes[np.isin(self._tag_records, known)] = _NONE
        codes_of = {each: self._coded([*dict.fromkeys(json.loads(each))]) for each in set(lists)}
        codes = [code for each in lists for code in codes_of[each]]
        counts = [len(codes_of[each]) for each in lists]
        self._is_tagged[slots] = np.array(counts, np.bool_)
        start, end = self._room_for_tags(len(codes))
        self._tag_records[start:end], self._tag_codes[start:end] = np.repeat(slots, counts), codes

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
        slots = self._slots.find(np.fromiter(map(number_of, record_ids), np.int64, len(record_ids)))
        wanted = {self._codes[scope] for scope in scopes if scope in self._codes}
        if not wanted:
            return {}
        scoped: list[int] = np.where(slots == NONE, _NONE, self._texts["scope"][slots]).tolist()
        there = [place for place, code in enumerate(scoped) if code in wanted]
        rows = slots[there]
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

    def passing(self, where: RecordFilter, also: Collection[str]) -> Numbers:
        """Apply all of a filter but what is unindexed; return the numbers that pass.

        `also` are records that its session has in common with another one.
        """
        flags = self._any_of("scope", where.scopes)
        for condition in (*self._of_columns(where), *self._of_sets(where)):
            flags &= condition
        if where.session_id:
            told = self._any_of("session_id", [where.session_id])
            told[self._known(numbers_of(list(also)))] = True
            flags &= told
        return self._numbers[flags]

    def _of_columns(self, where: RecordFilter) -> Iterator[Flags]:
        if not where.include_inactive:
            yield self._live[: self._slots.count]
        for name in _BY_COLUMN.keys() & where.in_use:
            yield self._compared(_BY_COLUMN[name], getattr(where, name))

    def _compared(self, compares: Compares, wanted: Any) -> Flags:
        if compares.how == "from":
            return self._occurred[: self._slots.count] >= wanted
        if compares.how == "before":
            return self._occurred[: self._slots.count] < wanted
        among = self._any_of(compares.column, [wanted] if compares.how == "equal" else wanted)
        return ~among if compares.how == "none of" else among

    def _of_sets(self, where: RecordFilter) -> Iterator[Flags]:
        if where.pinned:
            yield self._pinned[: self._slots.count]
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

    def noted_elsewhere(self, session: str) -> frozenset[str]:
        """Return the ids of what is noted in another session."""
        if session not in self._noted:  # Each source of a recall asks.
            numbers: list[int] = self._numbers[~self._any_of("noted_in", [None, session])].tolist()
            self._noted[session] = frozenset(make_id(RECORD, number) for number in numbers)
        return self._noted[session]

    def occurred(self, among: RecordSet, before: Position | None) -> tuple[Numbers, Instants]:
        """Return the numbers of those of the records that are here, and when they occurred."""
        there = np.flatnonzero(self._held(among))
        numbers, occurred = self._numbers[there], self._occurred[there]
        if before:
            is_before = (occurred < before[0]) | ((occurred == before[0]) & (numbers < number_of(before[1])))
            return numbers[is_before], occurred[is_before]
        return numbers, occurred

    def balanced(self, among: RecordSet, at: Instant, decay_hours: float) -> tuple[Numbers, Instants, Instants]:
        """Return the numbers of those of the records that are here, when they occurred, and importance over age.

        One of the future is as young as can be.
        """
        there = np.flatnonzero(self._held(among))
        occurred = self._occurred[there]
        age = np.maximum(at - occurred, 0.0) / (3_600 * decay_hours)
        return self._numbers[there], occurred, self._importance[there] / (1.0 + age)

    def counts(self, among: RecordSet, facet: Facet) -> dict[str, int]:
        """Count the values of a facet among those of the records that are here."""
        there = self._held(among)
        if facet == "tag":
            places = self._tag_places
            codes = self._tag_codes[:places][there[self._tag_records[:places]]]
        else:
            codes = self._texts[facet][: self._slots.count][there]
        texts, by_code = self._names, np.bincount(codes)
        return {str(texts[code]): int(by_code[code]) for code in by_code.nonzero()[0] if code != _NONE}

    def _held(self, among: RecordSet) -> Flags:
        """Return for each slot whether its record is one of these, and still here: one that went elsewhere keeps it."""
        return held_against(among, self._numbers) & (self._texts["scope"][: self._slots.count] != _NONE)

    def _any_of(self, name: str, wanted: Collection[str | None]) -> Flags:
        codes = [self._codes[text] for text in wanted if text in self._codes]
        column = self._texts[name][: self._slots.count]
        if len(codes) > _FEW:
            is_wanted = np.zeros(len(self._codes), np.bool_)
            is_wanted[codes] = True
            return is_wanted[column]
        flags = np.zeros(self._slots.count, np.bool_)
        for code in codes:
            flags |= column == code
        return flags

    def _tagged(self, tags: Collection[str]) -> Flags:
        flags = np.zeros(self._slots.count, np.bool_)
        for tag in tags:
            if (code := self._codes.get(tag)) is not None:
                flags[self._tag_records[self._tag_codes == code]] = True
        return flags

    def _these(self, record_ids: Collection[str]) -> Flags:
        flags = np.zeros(self._slots.count, np.bool_)
        flags[self._known(np.fromiter(map(number_of, record_ids), np.int64, len(record_ids)))] = True
        return flags

    def _make_room(self, size: int) -> None:
        self._texts = {name: grown(column, size) for name, column in self._texts.items()}
        self._outlined = {name: grown(column, size) for name, column in self._outlined.items()}
        self._occurred, self._live = grown(self._occurred, size), grown(self._live, size)
        self._pinned, self._importance = grown(self._pinned, size), grown(self._importance, size)
        self._is_tagged = grown(self._is_tagged, size)


def _highest(numbers: Numbers, occurred: Instants, values: Instants, limit: int) -> list[str]:
    """Return ids of at most `limit` of the numbers, highest value first, ties by newest, then by the latest stored."""
    if 0 < limit < len(numbers):  # Sort only those that may be returned, with all ties.
        high = values >= np.partition(values, -limit)[-limit]
        numbers, occurred, values = numbers[high], occurred[high], values[high]
    highest: list[int] = numbers[np.lexsort((numbers, occurred, values))[::-1][:limit]].tolist()
    return [make_id(RECORD, number) for number in highest]


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
