"""Accounts of given contexts for people: each line as the agent read it, and what was left out, with its text and why.

A report keeps its block until anything is erased. Where it has none, the words come from the records as they were.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate, pairwise

from mcp_memory.domain.context.rendering import GROUP, record_line, render
from mcp_memory.domain.model.context_sections import CONTEXT_TITLES, SECTIONS
from mcp_memory.domain.model.contexts import BlockPart, Component, ContextReport
from mcp_memory.domain.model.records import KINDS, Instant, Record, Status
from mcp_memory.domain.model.scopes import Caller
from mcp_memory.domain.model.tasks import Task
from mcp_memory.errors import NotFound
from mcp_memory.ports.records import RecordStore
from mcp_memory.ports.text import TokenCounter
from mcp_memory.services.retrieval.as_of import as_they_were
from mcp_memory.services.tasks.branch_visibility import hidden_branches, is_visible

OMITTED_SHOWN = 50
OUT_OF_SIGHT = "- [{}] (out of sight)"
NOT_TOLD_AGAIN = "- {} (…)"
_OF_SEVERAL = frozenset({"entity", "relation", "tie"})
"""Beginnings of the ids of lines made from records that need not be in the block, and may be private since."""
_OTHER = "Note"


@dataclass(frozen=True, slots=True, kw_only=True)
class AccountLine:
    """One line of a block, in its words of then; "" where they were erased. `record` is as it is now.

    It `is_changed` where its text is another now, and `became` its status, where that is another.

    It `is_shortened` where it showed passages chosen by a question, and its block is gone: the words are a summary.
    `title` is that of a group which begins there: "### 2026-11-03 message".
    """

    component: Component
    text: str
    record: Record | None = None
    is_changed: bool = False
    became: Status | None = None
    is_shortened: bool = False
    title: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class AccountSection:
    """The lines below one title, and their tokens without it, which never exceed the block's with those of others."""

    title: str
    tokens: int
    lines: Sequence[AccountLine]


@dataclass(frozen=True, slots=True, kw_only=True)
class LeftOut:
    """A candidate that did not enter, its text of then, and why; without a text where it is out of sight.

    `score` and `needed` are those of its omission.
    """

    id: str
    kind: str
    text: str
    reason: str
    is_changed: bool = False
    became: Status | None = None
    score: float | None = None
    needed: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Account:
    """A given block. `left_out` are some of the report's omissions.

    `text` is the block as the agent read it, less what is out of the visitor's sight; "" where it is not kept any more.
    """

    report: ContextReport
    sections: Sequence[AccountSection]
    left_out: Sequence[LeftOut]
    text: str = ""


class ContextAccounts:
    """Puts blocks together again. Thread-safe."""

    def __init__(self, records: RecordStore, counter: TokenCounter) -> None:
        self._records = records
        self._counter = counter

    def __call__(self, context_id: str, caller: Caller, first: int = 0, *, of_all: bool = False) -> Account:
        """Return the account of a context, with at most OMITTED_SHOWN omissions from the one numbered `first`.

        With `of_all` it may be another agent's, and is read as that agent does. Raises NotFound where the agent, or
        none of them, was given one of that id.
        """
        with self._records.snapshot():
            report = self._records.context(context_id, caller, of_all=of_all)
            if report is None:
                raise NotFound(f"No context {context_id!r}; contexts are kept for two weeks.")
            reader = replace(caller, agent=report.circumstances.agent or caller.agent) if of_all else caller
            return self.told(report, reader, first)

    def given(
        self, caller: Caller, limit: int, before: tuple[Instant, str] | None = None, *, of_all: bool = False
    ) -> Sequence[tuple[Instant, ContextReport]]:
        """Return the latest reports of the caller's agent and when each was made, as `Telemetry.contexts` does."""
        return self._records.contexts(caller, limit, before, of_all=of_all)

    def naming(
        self, record_id: str, caller: Caller, limit: int, *, of_all: bool = False
    ) -> Sequence[tuple[Instant, ContextReport]]:
        """Return the latest reports that name a record, given or left out, as `Telemetry.contexts_naming` does."""
        return self._records.contexts_naming(record_id, caller, limit, of_all=of_all)

    def told(self, report: ContextReport, caller: Caller, first: int = 0) -> Account:
        """Return the account of a report."""
        omitted = report.omitted[first : first + OMITTED_SHOWN]
        ids = [*(each.id for each in report.components), *(each.id for each in omitted)]
        hidden = hidden_branches(self._records, caller)
        found = self._records.get(ids, caller.scopes)
        records = {record_id: each for record_id, each in found.items() if is_visible(each, caller, hidden)}
        tasks = {task.id: task for task in self._records.tasks(caller.namespace)}
        given = report.circumstances
        shown_as_of = given.at if given.as_of is None else given.as_of
        then = records if shown_as_of is None else as_they_were(records, shown_as_of, self._records)
        lines = [_line(each, records, then, tasks, shown_as_of) for each in self._components(report)]
        return Account(
            report=report,
            sections=_sections(_as_read(lines, report.block)),
            left_out=[
                replace(_left_out(each.id, each.reason, records, then, tasks), score=each.score, needed=each.needed)
                for each in omitted
            ],
            text=_text(lines, report.block),
        )

    def _components(self, report: ContextReport) -> Sequence[Component]:
        """Return the components with tokens that leave room for headings and fence within the block's total.

        A component's own are an estimate on the safe side, by which it was chosen: the total is counted over the whole
        text, where parts join to fewer tokens and grouped lines share a title.
        """
        estimates = [each.tokens for each in report.components]
        tokens = shared_out(estimates, max(report.token_count - self._frame(report), 0))
        return [replace(each, tokens=own) for each, own in zip(report.components, tokens, strict=True)]

    def _frame(self, report: ContextReport) -> int:
        """Return the tokens of the headings and the fence, in the client's unit."""
        headings = "".join(f"## {title}\n" for title in dict.fromkeys(map(_title, report.components)))
        factor = report.metadata.get("token_factor")
        counted = self._counter.count(f"{render([])[0]}{headings}")
        return math.ceil(counted * factor) if isinstance(factor, float) else counted


def shared_out(estimates: Sequence[int], most: int) -> Sequence[int]:
    """Return the estimates, or where their sum is more than `most`, whole numbers in their proportion that sum to it.

    Of 10, 20 and 30 with 54 at most: 9, 18 and 27.
    """
    total = sum(estimates)
    if total <= most:
        return estimates
    ends = [most * end // total for end in accumulate(estimates)]
    return [end - start for start, end in pairwise([0, *ends])]


def _line(
    component: Component,
    records: Mapping[str, Record],
    then: Mapping[str, Record],
    tasks: Mapping[str, Task],
    now: Instant | None,
) -> AccountLine:
    record, was = records.get(component.id), then.get(component.id)
    if component.kind not in KINDS:
        task = tasks.get(component.id)
        # Of "relation:Ada --[leads]--> Babbage" the id says it all.
        return AccountLine(component=component, text=task.goal if task else component.id.partition(":")[2])
    if record is None or was is None:
        return AccountLine(component=component, text="", record=record, is_changed=True)
    texts = {"micro": was.micro, "full": was.text}
    return AccountLine(
        component=component,
        text=record_line(
            was,
            texts.get(component.detail, was.summary),
            component.detail,
            now=now,
            author=component.agent,
            section=component.section,
        ),
        record=record,
        is_changed=was.text != record.text,
        became=_became(was, record),
        is_shortened=component.detail == "passage",
    )


def _became(was: Record, record: Record) -> Status | None:
    """Return the status that a record has now, where it had another one then."""
    return None if was.status == record.status else record.status


def _as_read(lines: Sequence[AccountLine], block: Sequence[BlockPart]) -> Sequence[AccountLine]:
    """Return the lines in the order and the words of the block; as they are without one.

    What the visitor may not see keeps its empty text.
    """
    told, title = dict[str, tuple[str, str]](), ""
    for component_id, text in block:
        if component_id:
            told[component_id] = (text, title)
        title = text if text.startswith(GROUP) else ""
    if not told:
        return lines
    places = {each: place for place, each in enumerate(told)}
    read = [
        replace(line, component=replace(line.component, text=own[0]), text=own[0], title=own[1], is_shortened=False)
        if (own := told.get(line.component.id)) and _is_seen(line) and not _is_of_several(line.component.id)
        else line
        for line in lines
    ]
    return sorted(read, key=lambda line: places.get(line.component.id, len(places)))


def _text(lines: Sequence[AccountLine], block: Sequence[BlockPart]) -> str:
    hidden = {line.component.id for line in lines if not _is_seen(line)}
    return "\n".join(
        OUT_OF_SIGHT.format(each)
        if each in hidden
        else NOT_TOLD_AGAIN.format(each.partition(":")[2] or each)
        if _is_of_several(each)
        else text
        for each, text in block
    )


def _is_of_several(component_id: str) -> bool:
    return component_id.partition(":")[0] in _OF_SEVERAL


def _is_seen(line: AccountLine) -> bool:
    return bool(line.text) or line.component.kind not in KINDS


def _sections(lines: Sequence[AccountLine]) -> Sequence[AccountSection]:
    """Put lines below their titles, in the order of a block."""
    below: dict[str, list[AccountLine]] = {}
    for line in lines:
        below.setdefault(_title(line.component), []).append(line)
    return [
        AccountSection(title=title, tokens=sum(line.component.tokens for line in below[title]), lines=below[title])
        for title in sorted(below, key=CONTEXT_TITLES.index)
    ]


def _title(component: Component) -> str:
    """Return the title above a component; in reports of earlier versions the one that its kind has."""
    if component.section in CONTEXT_TITLES:
        return component.section
    return next((each.title for each in SECTIONS if component.kind in each.kinds), _OTHER)


def _left_out(
    candidate: str,
    reason: str,
    records: Mapping[str, Record],
    then: Mapping[str, Record],
    tasks: Mapping[str, Task],
) -> LeftOut:
    if (record := records.get(candidate)) and (was := then.get(candidate)):
        return LeftOut(
            id=candidate, kind=record.kind, text=was.summary, reason=reason, is_changed=was.text != record.text,
            became=_became(was, record),
        )  # fmt: skip
    task = tasks.get(candidate)
    return LeftOut(id=candidate, kind="task" if task else "", text=task.goal if task else "", reason=reason)
