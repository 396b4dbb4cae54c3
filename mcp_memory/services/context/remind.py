"""Reminders: lists records relevant to a prompt and not shown before, in a few lines; nothing where none is."""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from mcp_memory.domain.context.budget import FOUND
from mcp_memory.domain.context.near_duplicates import repeated
from mcp_memory.domain.context.rendering import Line, record_line, render
from mcp_memory.domain.model.contexts import Component, ContextReport, Omission
from mcp_memory.domain.model.records import Detail, Kind, Record, is_valid
from mcp_memory.domain.model.scopes import Caller, RecordFilter
from mcp_memory.domain.model.sections import section_of
from mcp_memory.domain.model.tasks import Stack
from mcp_memory.domain.model.token_factor import EXACT, ModelFactor
from mcp_memory.domain.retrieval.fusion import Fused
from mcp_memory.domain.text.intent import pick_strategy
from mcp_memory.domain.text.prompt_safety import author, is_own
from mcp_memory.ports.changes import Snapshots
from mcp_memory.ports.records import RecordStore
from mcp_memory.ports.text import Clock, TokenCounter
from mcp_memory.services.context.assemble import circumstances, told_place
from mcp_memory.services.context.exclusions import excluded
from mcp_memory.services.retrieval.search import ParsedQuery, Searcher
from mcp_memory.services.tasks.branch_visibility import stack_of, visible_to

REMINDED_OF: frozenset[Kind] = frozenset({"fact", "decision", "procedure", "censor", "episode", "summary", "result"})
"""Kinds of records in reminders. Messages stay in the log for recall: a few lines have no room for them."""
LOOKED_AT = 12
"""Records looked at: more than a few lines hold, and still worth reading unrequested."""
READ_CHARACTERS = 1_200
"""Characters read of a prompt: one with a pasted file states its request at the beginning or at the end."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reminder:
    """A fenced block like a context's, and the records in it; empty without a reminder."""

    text: str = ""
    ids: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class _ShownRecord:
    """A record of the block, in one of its forms; `agent` names another agent that stored it."""

    hit: Fused
    record: Record
    detail: Detail
    text: str
    agent: str


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
        counter: TokenCounter,
        clock: Clock,
        settings: RemindSettings,
    ) -> None:
        self._takes_guidance = settings.guidance_from_others
        self._records = records
        self._snapshots = snapshots
        self._searcher = searcher
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
        with self._snapshots.snapshot():
            stack = stack_of(self._records, caller)
            found = self._found(read, known, stack, caller)
        shown = self._fitted(found, asked, max_tokens, caller, factor)
        if not shown:
            return Reminder()
        text, context_id = _rendered(shown, asked)
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
        )
        now = self._clock()
        report = replace(report, metadata=circumstances(caller, "prompt", max_tokens, now) | told_place(stack))
        self._records.keep_context(report, caller, now)
        self._records.touch(sorted(there), now)
        return Reminder(text=text, ids=tuple(each.record.id for each in shown))

    def _found(
        self, read: ParsedQuery, known: Collection[str], stack: Stack, caller: Caller
    ) -> list[tuple[Fused, Record]]:
        """Return the valid records above the floor, best first, without repeats."""
        ranking = self._searcher.rank(read, self._filter(known, stack, caller), is_unasked=True)
        near = [hit for hit in ranking.bearing if hit.id not in known]
        records = self._records.get([hit.id for hit in near[:LOOKED_AT]], caller.scopes)
        held = [
            (hit, records[hit.id]) for hit in near if hit.id in records and self._may_enter(records[hit.id], caller)
        ]
        repeats = repeated([record for _, record in held])
        return [(hit, record) for hit, record in held if record.id not in repeats]

    def _may_enter(self, record: Record, caller: Caller) -> bool:
        is_true = record.holds and is_valid(record, self._clock())
        return is_true and (record.kind != "censor" or self._takes_guidance or is_own(record, caller))

    def _filter(self, known: Collection[str], stack: Stack, caller: Caller) -> RecordFilter:
        visible = visible_to(self._records, caller)
        exclude = frozenset(known) | excluded(self._records, stack, caller)
        return replace(visible, kinds=REMINDED_OF, exclude=exclude, isolated_tasks=stack.isolated)

    def _fitted(
        self, found: Sequence[tuple[Fused, Record]], asked: str, max_tokens: int, caller: Caller, factor: ModelFactor
    ) -> list[_ShownRecord]:
        """Return the best that fit, each at the detail that fits, with the frame counted."""
        shown: list[_ShownRecord] = []
        for hit, record in found:
            for form in _forms(hit, record, author(record.author, caller)):
                more = [*shown, form]
                if factor.client(self._counter.count(_rendered(more, asked)[0])) <= max_tokens:
                    shown = more
                    break
        return shown

    def _component(self, each: _ShownRecord, factor: ModelFactor) -> Component:
        tokens = factor.client(self._counter.count(_line(each)))
        return Component(
            source=FOUND, kind=each.record.kind, id=each.record.id, tokens=tokens, score=each.hit.score,
            detail=each.detail, agent=each.agent, section=section_of(each.record).title,
        )  # fmt: skip


def _ends(prompt: str) -> str:
    """Return the prompt, or the beginning and the end of a long one."""
    prompt = prompt.strip()
    if len(prompt) <= READ_CHARACTERS:
        return prompt
    half = READ_CHARACTERS // 2
    return f"{prompt[:half]}\n{prompt[-half:]}"


def _forms(hit: Fused, record: Record, agent: str) -> tuple[_ShownRecord, _ShownRecord]:
    return (
        _ShownRecord(hit=hit, record=record, detail="summary", text=record.summary, agent=agent),
        _ShownRecord(hit=hit, record=record, detail="micro", text=record.micro, agent=agent),
    )


def _rendered(shown: Sequence[_ShownRecord], asked: str) -> tuple[str, str]:
    digest = hashlib.blake2b(asked.encode("utf-8", "replace"), digest_size=8).hexdigest()
    return render([Line(section=section_of(each.record).title, text=_line(each)) for each in shown], digest)


def _line(each: _ShownRecord) -> str:
    return record_line(each.record, each.text, each.detail, each.agent)
