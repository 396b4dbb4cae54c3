"""Turns a record filter into the set of ids that pass, from memory updated by the change sequence.

Each field of a filter has one array, indexed by the number in the record's id; a filter takes a few operations on whole
arrays. Entities, what is an agent's own, and columns without an array are read from the truth: few filters name them,
and an entity's links are many.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mcp_memory.domain.model.ids import RECORD, RecordSet, make_id, number_of
from mcp_memory.domain.model.marks import Compares, marked
from mcp_memory.domain.model.records import Instant
from mcp_memory.domain.model.scopes import ISOLATED_KINDS, RecordFilter
from mcp_memory.domain.retrieval.turns import PLAIN, Turn, read_turn
from mcp_memory.ports.changes import RecordChange, TaskLink
from mcp_memory.ports.retrieval import Facet, Outline, Position
from mcp_memory.stores.follower import Follower
from mcp_memory.stores.id_rows import Flags, grown, held_against
from mcp_memory.stores.index_files import Arrays, packed_texts, unpacked_texts

_FIRST_CAPACITY = 1_024  # numbers; doubled as needed
_NONE = 0
"""The code of no value."""
_TEXTS = tuple("scope kind task_id session_id branch_id noted_in author status speaker".split())
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
    "valid_from": np.float64,
    "valid_until": np.float64,
}
"""The number of what replaced a record, 0 for nothing; the form of a turn; instants, NaN for none."""
_FEW = 16
"""Up to this many values, one comparison each is faster than a look-up for every record."""


class BitmapFilterIndex:
    """Implements `FilterIndex`."""

    name = "filters"

    def __init__(self, follower: Follower) -> None:
        self._follower = follower
        self._columns = _Columns()
        self._noted: tuple[str | None, frozenset[str]] = (None, frozenset())
        """The session that was last asked about, and what is noted in others."""

    def passing(self, where: RecordFilter) -> RecordSet:
        if where.passing is not None:
            return where.passing
        with self._follower.reading(self):
            flags = self._columns.passing(where)
            if not _UNINDEXED.isdisjoint(where.in_use):
                passing = RecordSet.of(self._follower.records.matching_ids(where))
                flags &= held_against(passing, np.arange(len(flags)))
        return RecordSet(flags.tobytes())

    def outlines(self, record_ids: Collection[str], scopes: Collection[str]) -> Mapping[str, Outline]:
        with self._follower.reading(self):
            return self._columns.outlines(list(record_ids), scopes)

    def noted_elsewhere(self, session: str) -> frozenset[str]:
        with self._follower.reading(self):
            asked, noted = self._noted
            if asked != session:  # Kept until the next change: each source of a recall asks.
                numbers: list[int] = self._columns.noted_elsewhere(session).tolist()
                noted = frozenset(make_id(RECORD, number) for number in numbers)
                self._noted = (session, noted)
        return noted

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

    def apply(self, changes: Sequence[RecordChange], tasks: Sequence[TaskLink]) -> None:
        self._noted = (None, frozenset())
        for change in changes:
            self._columns.put(change)

    def packed(self) -> Arrays:
        return self._columns.packed()

    def unpack(self, arrays: Arrays) -> None:
        self._columns = _Columns.unpacked(arrays)
        self._noted = (None, frozenset())


class _Columns:
    """One array for each field of a filter, by the record's number; texts as codes.

    A number without a record has no scope; the one after the newest never has one.
    """

    def __init__(self) -> None:
        self._codes: dict[str | None, int] = {None: _NONE}
        self._names: list[str | None] = [None]
        """The text of each code."""
        self._by_tag: dict[str, set[int]] = {}
        self._tags: dict[int, tuple[str, ...]] = {}
        self._filed_tags = np.zeros((2, 0), np.int64)
        """Numbers and codes of tags, as they were in the file; those of a record that changed since are removed."""
        self._size = 1
        self._texts = {name: np.zeros(_FIRST_CAPACITY, np.int32) for name in _TEXTS}
        self._outlined = {name: np.zeros(_FIRST_CAPACITY, type_) for name, type_ in _OUTLINED.items()}
        """The columns that only outlines need."""
        self._occurred = np.zeros(_FIRST_CAPACITY, np.float64)
        self._importance = np.zeros(_FIRST_CAPACITY, np.float64)
        self._live = np.zeros(_FIRST_CAPACITY, np.bool_)
        self._pinned = np.zeros(_FIRST_CAPACITY, np.bool_)

    def packed(self) -> Arrays:
        """Return the columns up to the newest number, the tags as pairs of number and code, and the texts in code."""
        codes = self._codes.copy()
        kept = self._filed_tags[:, self._filed_tags[1] != _NONE]
        later = [
            (number, codes.setdefault(tag, len(codes))) for number, tags in self._tags.items() for tag in set(tags)
        ]
        tags = np.concatenate([kept, np.array(later, np.int64).reshape(-1, 2).T], axis=1)
        columns = {
            **self._texts,
            **self._outlined,
            "occurred": self._occurred,
            "importance": self._importance,
            "live": self._live,
            "pinned": self._pinned,
        }
        packed = {name: column[: self._size].copy() for name, column in columns.items()}
        texts = packed_texts([text for text in codes if text is not None])  # None is the first.
        return {**packed, "tags": tags[:, np.argsort(tags[0], kind="stable")], **texts}

    @classmethod
    def unpacked(cls, arrays: Arrays) -> _Columns:
        columns = cls()
        columns._size = len(arrays["live"])
        columns._texts = {name: arrays[name] for name in columns._texts}
        columns._outlined = {name: arrays[name] for name in columns._outlined}
        columns._occurred, columns._live = arrays["occurred"], arrays["live"]
        columns._importance = arrays["importance"]
        columns._pinned, columns._filed_tags = arrays["pinned"], arrays["tags"]
        texts = unpacked_texts(arrays["texts"], arrays["ends"])
        columns._codes |= {text: code for code, text in enumerate(texts, _NONE + 1)}
        columns._names += texts
        return columns

    def put(self, change: RecordChange) -> None:
        number = number_of(change.id)
        self._make_room(number)
        for name, column in self._texts.items():
            value = None if change.is_erased else getattr(change, name)
            column[number] = self._code(value)
        self._outline(number, change)
        self._occurred[number], self._importance[number] = change.occurred_at, change.importance
        self._live[number] = change.is_live
        self._pinned[number] = change.pinned
        for tag in self._tags.pop(number, ()):
            self._by_tag[tag].discard(number)
        if self._filed_tags.size:
            self._filed_tags[1, slice(*self._filed_tags[0].searchsorted([number, number + 1]))] = _NONE
        if change.tags:
            self._tags[number] = change.tags
        for tag in change.tags:
            self._by_tag.setdefault(tag, set()).add(number)

    def _code(self, text: str | None) -> int:
        code = self._codes.setdefault(text, len(self._names))
        if code == len(self._names):
            self._names.append(text)
        return code

    def _outline(self, number: int, change: RecordChange) -> None:
        form, columns = read_turn(change.role, change.speaker, change.opening), self._outlined
        columns["is_assistant"][number], columns["is_brief"][number] = form.is_assistant, form.is_brief
        columns["questions"][number] = form.questions
        columns["successor"][number] = number_of(change.superseded_by) if change.superseded_by else _NONE
        for name, instant in (("valid_from", change.valid_from), ("valid_until", change.valid_until)):
            columns[name][number] = np.nan if instant is None else instant

    def outlines(self, record_ids: Sequence[str], scopes: Collection[str]) -> dict[str, Outline]:
        """Return the outlines of the known ones among these that are in the scopes."""
        numbers = np.minimum(np.fromiter(map(number_of, record_ids), np.int64, len(record_ids)), self._size - 1)
        wanted = {self._codes[scope] for scope in scopes if scope in self._codes}
        there = [place for place, code in enumerate(self._texts["scope"][numbers].tolist()) if code in wanted]
        rows = numbers[there]
        codes: dict[str, list[int]] = {name: self._texts[name][rows].tolist() for name in _OUTLINE_TEXTS}
        texts: dict[str, list[Any]] = {name: [self._names[code] for code in some] for name, some in codes.items()}
        told: dict[str, list[Any]] = {name: column[rows].tolist() for name, column in self._outlined.items()}
        forms = zip(told["is_assistant"], told["is_brief"], told["questions"], strict=True)
        outlines = map(
            Outline,
            texts["kind"],
            [make_id(RECORD, number) if number else None for number in told["successor"]],
            texts["task_id"],
            texts["session_id"],
            texts["speaker"],
            [Turn(is_assistant=a, is_brief=b, questions=q) if a or b or q else PLAIN for a, b, q in forms],
            *([None if each != each else each for each in told[name]] for name in ("valid_from", "valid_until")),
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
        if where.noted_in:
            yield self._any_of("noted_in", [None, where.noted_in])
        if where.isolated_tasks:
            yield ~(self._any_of("task_id", where.isolated_tasks) & self._any_of("kind", ISOLATED_KINDS))
        if where.only is not None:
            yield self._these(where.only)
        if where.exclude:
            yield ~self._these(where.exclude)

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
            codes = self._filed_tags[1, there[self._filed_tags[0]]]
            for tag, tagged in self._by_tag.items():
                counted[tag] = int(there[np.fromiter(tagged, np.int64, len(tagged))].sum())
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
            numbers = self._by_tag.get(tag, set())
            flags[np.fromiter(numbers, np.int64, len(numbers))] = True
            if (code := self._codes.get(tag)) is not None:
                flags[self._filed_tags[0][self._filed_tags[1] == code]] = True
        return flags

    def _these(self, record_ids: Collection[str]) -> Flags:
        flags = np.zeros(self._size, np.bool_)
        flags[[number for number in map(number_of, record_ids) if number < self._size]] = True
        return flags

    def _make_room(self, number: int) -> None:
        """Double the capacity as often as needed for that number and the one after it."""
        self._size = max(self._size, number + 2)
        while (more := len(self._live)) < self._size:
            self._texts = {name: grown(column, more) for name, column in self._texts.items()}
            self._occurred, self._live = grown(self._occurred, more), grown(self._live, more)
            self._outlined = {name: grown(column, more) for name, column in self._outlined.items()}
            self._pinned, self._importance = grown(self._pinned, more), grown(self._importance, more)
