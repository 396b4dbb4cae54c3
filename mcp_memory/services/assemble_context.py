"""Assemble: the context for the task at hand, inside a hard token budget, and the account of every candidate."""

import hashlib
import json
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Literal

from mcp_memory.domain.budget import Item, Placed, arranged, place
from mcp_memory.domain.contexts import Component, ContextReport, Omission
from mcp_memory.domain.items import Measure, record_item, stack_items, tasks_beyond, text_item
from mcp_memory.domain.records import Instant, Json, Kind
from mcp_memory.domain.rendering import SECTION_OF_KIND, SECTIONS, Line, render
from mcp_memory.domain.scopes import Caller, RecordFilter
from mcp_memory.domain.strategies import Strategy, choose_strategy, ordered
from mcp_memory.domain.tasks import Stack
from mcp_memory.domain.tokens import EXACT, ModelFactor
from mcp_memory.errors import BudgetTooSmall
from mcp_memory.ports import Clock, RecordStore, TokenCounter
from mcp_memory.services.gathering import Gathered, Gathering
from mcp_memory.services.given_out import GivenOut
from mcp_memory.services.querying import Querying
from mcp_memory.services.standing import stack_of, visible_to

FLAT_SECTION = "Relevant Content"
CALLER_TEXT_SHARE = 4
"""The caller's own additional text takes at most a quarter of the budget."""
EXPLAINED = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class ContextRequest:
    """What to assemble for. `max_tokens` is in the client's tokens; None means the configured default."""

    query: str = ""
    max_tokens: int | None = None
    strategy: str | None = None
    kinds: tuple[Kind, ...] = ()
    tags: tuple[str, ...] = ()
    entity_types: tuple[str, ...] = ()
    since: str | None = None
    until: str | None = None
    task_id: str | None = None
    exclude: tuple[str, ...] = ()
    additional_context: str = ""
    order: Literal["best_first", "reverse", "edges"] = "best_first"
    decay_hours: float | None = None
    previous: str | None = None
    compress: bool = False
    explain: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Context:
    """The fenced block, and the account of what is in it and what is not."""

    text: str
    report: ContextReport


class AssembleContext:
    """Assembles contexts. Thread-safe; never calls a language model."""

    def __init__(
        self,
        records: RecordStore,
        querying: Querying,
        counter: TokenCounter,
        given_out: GivenOut,
        clock: Clock,
        default_max_tokens: int,
    ) -> None:
        self._records = records
        self._gathering = Gathering(records, querying)
        self._querying = querying
        self._counter = counter
        self._given_out = given_out
        self._clock = clock
        self._default_max_tokens = default_max_tokens

    def __call__(self, request: ContextRequest, caller: Caller, factor: ModelFactor = EXACT) -> Context:
        """The block whose tokens, fence included, never exceed the budget.

        `factor` says how the client's tokens relate to those counted.

        Raises:
            BudgetTooSmall: not even the fence and the current goal fit; the message names the least that works.
            InvalidRequest: an unknown strategy, or a time that cannot be read.
            NotFound: an unknown task.
            StoreUnavailable: nothing could be read.
        """
        started, now = time.perf_counter(), self._clock()
        budget = request.max_tokens or self._default_max_tokens
        strategy = choose_strategy(
            request.strategy, has_query=bool(request.query.strip()), decay_hours=request.decay_hours
        )
        measure = Measure(count_raw=self._counter.count, truncate_raw=self._counter.truncate, factor=factor.factor)
        stack = stack_of(self._records, caller, request.task_id)
        gathered = self._gathering(request.query, self._filter(request, caller), stack, budget)
        items = self._items(request, strategy, gathered, stack, measure, budget, now)
        beyond = [Omission(id=each, reason="more tasks in memory://tasks") for each in tasks_beyond(stack, items)]
        gathered = replace(gathered, omitted=[*gathered.omitted, *beyond])
        text, report = self._compose(request, items, gathered, measure, budget)
        report = replace(report, truncated=report.truncated or bool(beyond))
        if request.previous and request.previous == report.id:
            text, report = _unchanged(text, report, measure)
        metadata = self._metadata(request, gathered, factor, started)
        report = replace(report, strategy=strategy.name, metadata={**metadata, **report.metadata})
        self._given_out.note(caller, ((component.id, component.text) for component in report.components))
        # The query stays with the caller: an erased text may have been asked for in its own words.
        kept = {name: value for name, value in report.metadata.items() if name != "query"}
        self._records.keep_context(replace(report, metadata=kept), caller, now)
        return Context(text=text, report=report)

    def _filter(self, request: ContextRequest, caller: Caller) -> RecordFilter:
        since, until = self._querying.between(request.since, request.until)
        return replace(
            visible_to(self._records, caller),
            kinds=frozenset(request.kinds),
            tags=frozenset(request.tags),
            entity_types=frozenset(request.entity_types),
            since=since,
            until=until,
            exclude=frozenset(request.exclude),
        )

    def _items(
        self,
        request: ContextRequest,
        strategy: Strategy,
        gathered: Gathered,
        stack: Stack,
        measure: Measure,
        budget: int,
        now: Instant,
    ) -> list[Item]:
        """Everything that competes, in the order in which it is served."""
        items = stack_items(stack, measure)
        for candidate in gathered.always:
            kind = candidate.record.kind
            section = SECTION_OF_KIND[kind]
            importance = candidate.record.importance
            items.append(record_item(candidate, importance, measure, section=section, share=kind))
        if request.additional_context.strip():
            room = budget // CALLER_TEXT_SHARE
            items.append(text_item(request.additional_context.strip(), "Additional Context", measure, room))
        ranked = ordered(strategy, gathered.candidates, now)
        ranked.sort(key=lambda pair: pair[0].source not in ("inherited", "pinned"))  # Stable: these go first.
        for candidate, score in ranked:
            by_kind = strategy.layout == "by_kind"
            section = SECTION_OF_KIND[candidate.record.kind] if by_kind else FLAT_SECTION
            items.append(record_item(candidate, score, measure, section=section, share="rest"))
        return items

    def _compose(
        self, request: ContextRequest, items: list[Item], gathered: Gathered, measure: Measure, budget: int
    ) -> tuple[str, ContextReport]:
        """Place by estimates, render, count the whole text, and give way until it holds."""
        self._require_least(items, measure, budget)
        titles = {section: measure.count(f"## {section}\n") for section in SECTIONS}
        fence = _most(render([]), measure)
        note = measure.scaled(80) if request.explain else 0
        placed, left_out = place(items, budget - fence - note, titles, cheapest_first=request.compress)
        digest = _request_digest(request)
        explain = request.explain
        while True:
            omitted = [*gathered.omitted, *(Omission(id=item.id, reason="no room in the budget") for item in left_out)]
            lines = _lines(arranged(placed, request.order), _note(omitted) if explain else "")
            text, context_id = render(lines, digest)
            raw = measure.count_raw(text)
            excess = measure.scaled(raw + _margin(context_id, measure)) - budget
            if excess <= 0:
                break
            if explain and all(each.item.required for each in placed):
                explain = False  # Not even the note alone fits: what it kept out may have its room.
                placed, left_out = place(items, budget - fence, titles, cheapest_first=request.compress)
                continue
            placed, dropped = _give_way(placed, excess)
            left_out = [*left_out, *dropped]
        truncated = bool(left_out)
        components = tuple(_component(each) for each in placed)
        return text, ContextReport(
            id=context_id, token_count=measure.scaled(raw), truncated=truncated, strategy="", components=components,
            omitted=tuple(omitted),
        )  # fmt: skip

    def _require_least(self, items: Sequence[Item], measure: Measure, budget: int) -> None:
        """Raise BudgetTooSmall where the fence and the required lines, at their shortest, do not fit."""
        required = [Line(section=item.section, text=item.forms[-1].text) for item in items if item.required]
        least = _most(render(required), measure)
        if least > budget:
            raise BudgetTooSmall(least)

    def _metadata(
        self, request: ContextRequest, gathered: Gathered, factor: ModelFactor, started: float
    ) -> dict[str, Json]:
        return {
            "query": request.query,
            "candidates": dict(gathered.found),
            "degraded": list(gathered.degraded),
            "order": request.order,
            "encoding": self._counter.name,
            "token_family": factor.family,
            "token_factor": factor.factor,
            "token_known_error": factor.known_error,
            "revision": self._records.revision(),
            "assembly_ms": round((time.perf_counter() - started) * 1000, 2),
        }


def _most(rendered: tuple[str, str], measure: Measure) -> int:
    """The tokens of a block, whatever its id turns out to be."""
    text, context_id = rendered
    return measure.scaled(measure.count_raw(text) + _margin(context_id, measure))


def _margin(context_id: str, measure: Measure) -> int:
    """What another id could cost more: one token per character at most, so that no digest tips the balance."""
    return len(context_id) - measure.count_raw(context_id)


def _lines(placed: Sequence[Placed], note: str) -> list[Line]:
    """In reading order within each section: by position where items have one, else as arranged."""
    lines = [
        Line(section=each.item.section, text=each.form.text)
        for each in sorted(placed, key=lambda each: each.item.position)
    ]
    return [*lines, Line(section="Note", text=note)] if note else lines


def _note(omitted: Sequence[Omission]) -> str:
    """How many candidates were left out for which reason, and the first few by id."""
    if not omitted:
        return "Nothing was left out."
    reasons: dict[str, list[str]] = {}
    for omission in omitted:
        reason = "superseded" if omission.reason.startswith("superseded") else omission.reason
        reasons.setdefault(reason, []).append(omission.id)
    parts = [f"{len(ids)} {reason} ({', '.join(ids[:EXPLAINED])})" for reason, ids in sorted(reasons.items())]
    return f"Left out: {'; '.join(parts)}. `recall` with an id opens it."


def _give_way(placed: Sequence[Placed], excess: int) -> tuple[list[Placed], list[Item]]:
    """Drop the least wanted items until their estimates cover the excess; once all are gone, shorten the required."""
    dropped: dict[str, Item] = {}
    for each in reversed(placed):
        if excess > 0 and not each.item.required:
            dropped[each.item.id] = each.item
            excess -= each.form.tokens
    kept = [each for each in placed if each.item.id not in dropped]
    if all(each.item.required for each in kept):
        kept = [Placed(item=each.item, form=each.item.forms[-1]) for each in kept]
    return kept, list(dropped.values())


def _component(placed: Placed) -> Component:
    item = placed.item
    return Component(
        source=item.source, kind=item.kind, id=item.id, tokens=placed.form.tokens, score=item.score,
        detail=placed.form.detail, text=placed.form.text,
    )  # fmt: skip


def _unchanged(text: str, report: ContextReport, measure: Measure) -> tuple[str, ContextReport]:
    """The client still shows the same block: say so instead of repeating it, where that is shorter."""
    shorter = f'<memory-context id="{report.id}">\nunchanged\n</memory-context>'
    tokens = measure.count(shorter)
    if tokens > report.token_count:
        return text, report
    return shorter, replace(report, token_count=tokens, metadata={"unchanged": True})


def _request_digest(request: ContextRequest) -> str:
    shape = {key: value for key, value in asdict(request).items() if key not in ("previous", "explain")}
    return hashlib.blake2b(json.dumps(shape, sort_keys=True).encode("utf-8", "replace"), digest_size=8).hexdigest()
