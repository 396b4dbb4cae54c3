"""Reminders: lists records relevant to a prompt and not shown before, in a few lines; nothing where none is."""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Protocol

from mcp_memory.domain.context.budget import FOUND
from mcp_memory.domain.context.rendering import Line, head, parts_of, render, said
from mcp_memory.domain.model.context_sections import section_of
from mcp_memory.domain.model.contexts import Component, ContextReport, Omission
from mcp_memory.domain.model.records import Instant, Kind, Record, ShownDetail, is_valid
from mcp_memory.domain.model.scopes import Caller, RecordFilter
from mcp_memory.domain.model.tasks import Stack
from mcp_memory.domain.model.token_factor import EXACT, ModelFactor
from mcp_memory.domain.retrieval.fusion import Fused
from mcp_memory.domain.sessions.carry_over import choices_in, gives_reason
from mcp_memory.domain.text.cut_to_tokens import Count
from mcp_memory.domain.text.intent import pick_strategy
from mcp_memory.domain.text.passages import Excerpt, best_part
from mcp_memory.domain.text.prompt_safety import author, is_own
from mcp_memory.errors import StoreUnavailable
from mcp_memory.ports.changes import Snapshots
from mcp_memory.ports.records import RecordStore
from mcp_memory.ports.text import Clock, TokenCounter
from mcp_memory.services.access.served_requests import gave
from mcp_memory.services.context.assemble import circumstances, told_place
from mcp_memory.services.context.exclusions import given_at
from mcp_memory.services.memory.follow_files import FROM_FILE
from mcp_memory.services.memory.reindex import Reindex
from mcp_memory.services.retrieval.search import ParsedQuery, Searcher
from mcp_memory.services.review.supersede import earlier_values
from mcp_memory.services.tasks.branch_visibility import stack_of
from mcp_memory.services.tasks.task_marks_on_records import task_marks

REMINDED_OF: frozenset[Kind] = frozenset({"fact", "decision", "procedure", "censor", "episode", "summary", "result"})
"""Kinds of records in reminders. Other messages stay in the log for recall: a few lines have no room for them."""
SPOKEN: frozenset[Kind] = frozenset({"message"})
CHOICES_SHOWN = 2
"""Messages of other sessions that say what was chosen and why, behind what was stored: nobody else tells the reason."""
LOOKED_AT = 12
"""Records looked at: more than a few lines hold, and still worth reading unrequested."""
EMBEDDED_TEXTS, EMBEDDED_TOKENS = 4, 1_000
"""Most of those texts that are embedded before: a prompt waits for them, a few milliseconds for each hundred tokens."""
PASSAGE_TOKENS = (100, 40)
"""The sizes at which a long text may be shown, in counted tokens."""
READ_CHARACTERS = 1_200
"""Characters read of a prompt: one with a pasted file states its request at the beginning or at the end."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reminder:
    """A fenced block like a context's, and the records in it; empty without a reminder."""

    text: str = ""
    ids: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class _ShownRecord:
    """A record of the block and its line; `agent` names another agent that stored it."""

    hit: Fused
    record: Record
    line: str
    detail: ShownDetail
    agent: str


@dataclass(frozen=True, slots=True, kw_only=True)
class _Lines:
    """Makes the lines of records, as of `now`."""

    asked: str
    caller: Caller
    now: Instant
    earlier: Mapping[str, str]
    tasks: Mapping[str, str]
    count: Count

    def forms(self, hit: Fused, record: Record) -> Iterator[_ShownRecord]:
        """Yield the record in each of its forms, longest first: whole, or what bears on the prompt, more and less."""
        rooms = PASSAGE_TOKENS if record.is_shortened else PASSAGE_TOKENS[:1]
        parts = [best_part(record.text, record.text_tokens, self.asked, room, self.count) for room in rooms]
        for part in dict.fromkeys(each for each in parts if each.text):
            yield self._form(hit, record, part, "passage" if part.place else "full")
        if not any(each.text for each in parts):  # One sentence is longer than that.
            yield self._form(hit, record, Excerpt(text=record.summary, place=""), "summary")

    def _form(self, hit: Fused, record: Record, part: Excerpt, detail: ShownDetail) -> _ShownRecord:
        agent = author(record.author, self.caller)
        line = head(record, now=self.now, author=agent, section=section_of(record).title) + said(
            record,
            part.text,
            detail,
            now=self.now,
            place=part.place,
            earlier=self.earlier.get(record.id, ""),
            task=self.tasks.get(record.id, ""),
        )
        return _ShownRecord(hit=hit, record=record, line=line, detail=detail, agent=agent)


class RemindSettings(Protocol):
    """Settings that reminders read."""

    guidance_from_others: bool


class Remind:
    """Thread-safe. Gives less than `assemble_context`: no tasks, no always-included records, and no chance finds."""

    def __init__(
        self,
        records: RecordStore,
        snapshots: Snapshots,
        searcher: Searcher,
        reindex: Reindex,
        counter: TokenCounter,
        clock: Clock,
        settings: RemindSettings,
    ) -> None:
        self._takes_guidance = settings.guidance_from_others
        self._records = records
        self._snapshots = snapshots
        self._searcher = searcher
        self._reindex = reindex
        self._counter = counter
        self._clock = clock

    def __call__(
        self, prompt: str, known: Collection[str], max_tokens: int, caller: Caller, factor: ModelFactor = EXACT
    ) -> Reminder:
        """Return relevant records for the prompt, minus known ids, in at most `max_tokens` of the client's tokens.

        Raises StoreUnavailable where every search fails.
        """
        asked = _ends(prompt)
        if pick_strategy(asked).strategy == "recent":  # It names no subject: "go on".
            return Reminder()
        read = self._searcher.read(asked)  # Embedding takes long: before the snapshot.
        self._embed_choices(read, known, caller)
        with self._snapshots.snapshot(caller.scopes) as revision:
            stack = stack_of(self._records, caller)
            where = self._filter(known, stack, caller)
            found = self._found(read, known, where, caller)
            records = [record for _, record in found]
            lines = _Lines(
                asked=asked,
                caller=caller,
                now=self._clock(),
                earlier=earlier_values(records, where, self._records),
                tasks=task_marks(records, stack, caller, self._records),
                count=self._counter.count,
            )
        shown = self._fitted(found, lines, max_tokens, factor)
        if not shown:
            return Reminder()
        text, context_id = _rendered(shown, asked)
        given = circumstances(caller, "prompt", max_tokens, lines.now, asked=True)
        told = given | told_place(stack) | {"revision": revision}
        there = {each.record.id for each in shown}
        report = ContextReport(
            id=context_id,
            token_count=factor.client(self._counter.count(text)),
            truncated=len(shown) < len(found),
            strategy="reminder",
            components=tuple(self._component(each, factor) for each in shown),
            omitted=tuple(
                Omission(id=record.id, reason="no room in the budget") for _, record in found if record.id not in there
            ),
            metadata=told,
            block=parts_of(text, _lines(shown)),
        )
        self._records.keep_context(report, caller, lines.now)
        self._records.touch(sorted(there), lines.now)
        gave(there)
        return Reminder(text=text, ids=tuple(each.record.id for each in shown))

    def _embed_choices(self, read: ParsedQuery, known: Collection[str], caller: Caller) -> None:
        """Embed the few choices, nearest by their words, that hooks have logged and no server has embedded since.

        Words alone are not enough to show unrequested what was said.
        """
        said = RecordFilter(scopes=caller.scopes, kinds=SPOKEN)
        if read.query.vector is None or not self._records.count_unembedded(said):
            return
        with self._snapshots.snapshot(caller.scopes):
            where = replace(self._filter(known, stack_of(self._records, caller), caller), kinds=SPOKEN)
            ranking = self._searcher.rank(read, where, is_unasked=True)
            ids = [hit.id for hit in ranking.hits if "vector" not in hit.raw][:LOOKED_AT]
            records = self._records.get(ids, caller.scopes)
        room, waiting = EMBEDDED_TOKENS, list[str]()
        for record in (records[each] for each in ids if each in records):
            if len(waiting) < EMBEDDED_TEXTS and record.text_tokens <= room and _states_choice(record, caller):
                room -= record.text_tokens
                waiting.append(record.id)
        with suppress(StoreUnavailable):  # The others are given.
            self._reindex.embed(waiting)

    def _found(
        self, read: ParsedQuery, known: Collection[str], where: RecordFilter, caller: Caller
    ) -> list[tuple[Fused, Record]]:
        """Return the valid records above the floor, best first, without repeats."""
        learnt = self._near(read, known, where, caller)
        said = self._near(read, known, replace(where, kinds=SPOKEN), caller)
        choices = [(hit, record) for hit, record in said if _states_choice(record, caller)]
        return [*learnt, *choices[:CHOICES_SHOWN]]

    def _near(
        self, read: ParsedQuery, known: Collection[str], where: RecordFilter, caller: Caller
    ) -> list[tuple[Fused, Record]]:
        ranking = self._searcher.rank(read, where, is_unasked=True)
        near = [hit for hit in ranking.bearing if hit.id not in known]
        records = self._records.get([hit.id for hit in near[:LOOKED_AT]], caller.scopes)
        return [
            (hit, records[hit.id]) for hit in near if hit.id in records and self._may_enter(records[hit.id], caller)
        ]

    def _may_enter(self, record: Record, caller: Caller) -> bool:
        is_true = record.holds and is_valid(record, self._clock())
        return is_true and (record.kind != "censor" or self._takes_guidance or is_own(record, caller))

    def _filter(self, known: Collection[str], stack: Stack, caller: Caller) -> RecordFilter:
        where = given_at(self._records, stack, caller, REMINDED_OF, known)
        return replace(where, without_tags=frozenset({FROM_FILE}))

    def _fitted(
        self, found: Sequence[tuple[Fused, Record]], lines: _Lines, max_tokens: int, factor: ModelFactor
    ) -> list[_ShownRecord]:
        """Return the best that fit, each in the longest form that fits, with the frame counted."""
        shown: list[_ShownRecord] = []
        for hit, record in found:
            for form in lines.forms(hit, record):
                more = [*shown, form]
                if factor.client(self._counter.count(_rendered(more, lines.asked)[0])) <= max_tokens:
                    shown = more
                    break
        return shown

    def _component(self, each: _ShownRecord, factor: ModelFactor) -> Component:
        tokens = factor.client(self._counter.count(each.line))
        return Component(
            source=FOUND, kind=each.record.kind, id=each.record.id, tokens=tokens, score=each.hit.score,
            detail=each.detail, agent=each.agent, section=section_of(each.record).title,
        )  # fmt: skip


def _states_choice(record: Record, caller: Caller) -> bool:
    """Return True for what was said in another session of a choice and its reason; this one's window holds its own."""
    is_elsewhere = record.session_id != caller.session_id
    return is_elsewhere and any(map(gives_reason, choices_in(record.text)))


def _ends(prompt: str) -> str:
    """Return the prompt, or the beginning and the end of a long one."""
    prompt = prompt.strip()
    if len(prompt) <= READ_CHARACTERS:
        return prompt
    half = READ_CHARACTERS // 2
    return f"{prompt[:half]}\n{prompt[-half:]}"


def _rendered(shown: Sequence[_ShownRecord], asked: str) -> tuple[str, str]:
    digest = hashlib.blake2b(asked.encode("utf-8", "replace"), digest_size=8).hexdigest()
    return render(_lines(shown), digest)


def _lines(shown: Sequence[_ShownRecord]) -> Sequence[Line]:
    return [Line(section=section_of(each.record).title, text=each.line, id=each.record.id) for each in shown]
