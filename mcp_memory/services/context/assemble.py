"""Assembly: builds the context for the current task inside a hard token budget, and reports on every candidate."""

import hashlib
import json
import time
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from typing import Protocol

from mcp_memory.domain.context.budget import LEARNT
from mcp_memory.domain.context.items import Measure
from mcp_memory.domain.context.scoring import CLUSTER_COSINE, Scored, clustered, ordered, repeated
from mcp_memory.domain.model.contexts import ContextReport, Omission
from mcp_memory.domain.model.records import LOG_KINDS, Instant, Json, Kind
from mcp_memory.domain.model.requests import ContextRequest, Occasion
from mcp_memory.domain.model.scopes import NO_SESSION, Caller, RecordFilter, filtered_by, partitions_of
from mcp_memory.domain.model.strategy import SECTION_SHARES, Strategy
from mcp_memory.domain.model.tasks import Stack
from mcp_memory.domain.model.token_factor import EXACT, ModelFactor
from mcp_memory.domain.text.intent import pick_strategy
from mcp_memory.domain.text.times import zone
from mcp_memory.errors import StoreUnavailable
from mcp_memory.ports.changes import Snapshots, newest_of
from mcp_memory.ports.records import RecordStore
from mcp_memory.ports.retrieval import FilterIndex, GraphStore, VectorStore
from mcp_memory.ports.shown import ShownContexts, ShownTexts
from mcp_memory.ports.text import Clock, TokenCounter
from mcp_memory.services.access.served_requests import gave
from mcp_memory.services.context.build_items import ItemBuilder
from mcp_memory.services.context.candidates import BY_HAND, CandidateFinder, FoundCandidates
from mcp_memory.services.context.choose_strategy import ChosenStrategy, StrategyChooser
from mcp_memory.services.context.exclusions import NEVER_HERE, excluded
from mcp_memory.services.context.fit_to_budget import Block, BlockDraft, compose, no_room
from mcp_memory.services.context.question import ContextQuestion
from mcp_memory.services.context.shown_contexts import Built, FollowUps
from mcp_memory.services.memory.follow_files import FROM_FILE
from mcp_memory.services.retrieval.as_of import reader_at, then_at
from mcp_memory.services.retrieval.event_types import of_event_types
from mcp_memory.services.retrieval.search import ParsedQuery, Searcher
from mcp_memory.services.tasks.branch_visibility import stack_of, visible_to
from mcp_memory.services.tasks.task_owners import Elsewhere

LEAST_FORM_TOKENS = 20
"""Minimum tokens of an item: its frame alone takes about as much."""
COMPARED = 400
"""The best candidates, of which every pair is compared to put similar items together."""
OF_WHAT_IS_NAMED: Mapping[str, float] = {"entities": 0.05, "relations": 0.05}
"""Shares where a strategy sets none: a few lines on the entities that the query names."""
OF_WHAT_WAS_LEARNT: Mapping[str, float] = {LEARNT: 0.6}
"""Share without a query, ahead of the log: an hour of work would fill any block with the latest entries."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Context:
    """The fenced block, and the report on its contents and omissions."""

    text: str
    report: ContextReport


class AssembleSettings(Protocol):
    """Settings that assembly reads."""

    max_tokens: int
    guidance_from_others: bool


class AssembleContext:
    """Assembles contexts. Thread-safe; never calls a language model."""

    def __init__(
        self,
        records: RecordStore,
        snapshots: Snapshots,
        vectors: VectorStore,
        searcher: Searcher,
        graph: GraphStore,
        filters: FilterIndex,
        counter: TokenCounter,
        shown_texts: ShownTexts,
        shown_contexts: ShownContexts,
        clock: Clock,
        chooser: Callable[[], StrategyChooser],
        elsewhere: Elsewhere,
        settings: AssembleSettings,
    ) -> None:
        """`chooser` returns the one of the client at work; `elsewhere` is that of `ClientWindows`."""
        self._elsewhere = elsewhere
        self._records = records
        self._snapshots = snapshots
        self._vectors = vectors
        self._finder_over = partial(
            CandidateFinder,
            searcher=searcher,
            graph=graph,
            filters=filters,
            takes_guidance=settings.guidance_from_others,
        )
        self._searcher = searcher
        self._filters = filters
        self._counter = counter
        self._shown_texts = shown_texts
        self._clock = clock
        self._chooser = chooser
        self._default_max_tokens = settings.max_tokens
        self._follow_ups = FollowUps(records, shown_contexts, clock)

    def __call__(self, request: ContextRequest, caller: Caller, factor: ModelFactor = EXACT) -> Context:
        """Return a block whose tokens, fence included, never exceed the budget.

        Times `factor`, counted tokens are the client's. The same request at the same revision within half a minute gets
        the same block. With `previous`, the block continues that one where it can.

        Raises:
            BudgetTooSmall: not even the fence and the current goal fit; the message names the least that works.
            InvalidRequest: an unknown strategy, or a time that cannot be read.
            NotFound: an unknown task.
            StoreUnavailable: nothing could be read.
        """
        started = time.perf_counter()
        measure, digest, chooser = self._measure(factor), _request_digest(request), self._chooser()
        # Two windows of one session may have other strategies and another time zone.
        key = (digest, request.explain, request.notice, caller, factor, chooser, zone())
        # Embedding takes long: do it before the snapshot, unless it is needless, or goals join the query.
        is_needed = not self._follow_ups.keeps(key) and pick_strategy(request.query.strip()).strategy != "recent"
        read = self._read(request.query.strip()) if is_needed else None
        with self._snapshots.snapshot(caller.scopes) as revision:
            places = self._records.revisions(partitions_of(caller.scopes))
            built = self._follow_ups.built(key, places)
            is_cached = built is not None
            if built is None:
                built = self._build(request, read, caller, chooser, measure, digest, newest_of(places))
                # A source that failed may work again at once, and no revision tells that a record was opened.
                if not built.metadata["degraded"] and not built.weighs_access:
                    self._follow_ups.keep(key, places, built)
            followed = self._follow_ups.follow(request.previous, built, caller, measure)
        self._follow_ups.kept(followed, caller)
        metadata = {**built.metadata, **self._told(factor, started, revision), **followed.told(), "cached": is_cached}
        text, report = followed.block.text, replace(followed.block.report, metadata=metadata)
        gave(each.id for each in report.components)
        if request.only_looks:
            return Context(text=text, report=report)
        if not request.as_of:
            self._shown_texts.note(caller, ((each.id, each.text) for each in report.components), newest_of(places))
        # The query stays with the caller: an erased text may have been asked for in its own words.
        kept, now = {name: value for name, value in metadata.items() if name not in ("query", "why")}, self._clock()
        account = replace(
            report,
            metadata=kept
            | circumstances(caller, request.occasion, built.draft.budget, now, asked=bool(request.query.strip())),
        )
        self._records.keep_context(account, caller, now, anew=not followed.is_short)
        return Context(text=text, report=report)

    def forget(self) -> None:
        """Drop all kept blocks, because a record in them was erased."""
        self._follow_ups.forget()

    def _read(self, asked: str) -> ParsedQuery | None:
        return self._searcher.read(asked) if asked else None

    def _build(
        self,
        request: ContextRequest,
        read: ParsedQuery | None,
        caller: Caller,
        chooser: StrategyChooser,
        measure: Measure,
        digest: str,
        revision: int,
    ) -> Built:
        """Build the whole block for a request, as if nothing had been shown before; `read` is its query, or None."""
        question, chosen, excluded = self._question(request, read, caller, chooser)
        gathered = self._finder_over(reader_at(self._records, question.then))(question)
        ranked = ordered(question.strategy, gathered.candidates, question.now, question.true_at)
        ranked, crowded_out = _with_room(_within_limits(ranked, question.strategy), question.budget)
        ranked, gathered = self._distinct(question, ranked, gathered)
        builder = ItemBuilder(self._records, self._elsewhere, question, gathered, ranked, measure)
        items, more_tasks = builder.build(
            request.notice, request.short_notice, request.additional_context, carries=request.occasion == "compaction"
        )
        beyond = [Omission(id=each, reason="more tasks in memory://tasks") for each in more_tasks]
        draft = BlockDraft(
            items=items,
            omitted=[*gathered.omitted, *beyond, *(Omission(id=each, reason=NEVER_HERE) for each in excluded)],
            budget=question.budget,
            digest=digest,
            strategy=chosen.strategy.name,
            crowded_out=crowded_out,
            is_cut=bool(beyond) or gathered.is_cut,
            answers=question.is_asked,
            order=request.order,
            shares={**OF_WHAT_IS_NAMED, **OF_WHAT_WAS_LEARNT, **question.strategy.shares},
            flexible=_flexible(request, question.strategy, measure),
            cheapest_first=request.compress,
            explain=request.explain,
        )
        block = compose(draft, measure)
        metadata: dict[str, Json] = {
            "query": request.query,
            **chosen.told,
            "candidates": dict(gathered.found),
            "degraded": list(gathered.degraded),
            "order": request.order,
            "utilisation": round(block.report.token_count / question.budget, 3),
            "relevance": _mean_relevance(ranked, block),
            **told_place(question.stack),
            **({"as_of": question.now} if question.then else {}),
        }
        return Built(
            draft=draft,
            block=block,
            metadata=metadata,
            asked=chosen.asked,
            vector=question.read.query.vector if question.read else None,
            where=replace(question.where, passing=None),
            strategy=chosen.name,
            revision=revision,
            weighs_access=chosen.strategy.weighs_access,
        )

    def _question(
        self, request: ContextRequest, read: ParsedQuery | None, caller: Caller, chooser: StrategyChooser
    ) -> tuple[ContextQuestion, ChosenStrategy, Collection[str]]:
        """Return the question that the request asks here, how its strategy was chosen, and what is excluded."""
        at, true_at = self._searcher.moments(request.as_of, request.valid_at)
        stack = stack_of(self._records, caller, request.task_id) if at is None else Stack()
        budget = request.max_tokens or caller.max_tokens or self._default_max_tokens
        overrides = dict(request.overrides)
        if request.decay_hours is not None:
            overrides["decay_hours"] = request.decay_hours
        query = request.query.strip()
        chosen = chooser(request.strategy, query, read, overrides, stack, budget)
        if read is None or chosen.asked != query:
            read = self._read(chosen.asked)
        where = self._filter(request, caller, stack)
        ids = excluded(self._records, stack, caller)
        seen = sorted(self._records.matching_ids(replace(where, only=ids))) if ids else ()
        where = replace(where, exclude=where.exclude | ids)
        then = None if at is None else then_at(at, where, self._records)
        question = ContextQuestion(
            read=read,
            where=then.where if then else where,
            then=then,
            stack=stack,
            strategy=chosen.strategy,
            caller=caller,
            budget=budget,
            now=self._clock() if at is None else at,
            shortens=request.compress,
            true_at=true_at,
            opens=not then and (not query or chosen.asked != query) and chosen.strategy.layout == "by_kind",
        )
        return question, chosen, seen

    def _filter(self, request: ContextRequest, caller: Caller, stack: Stack) -> RecordFilter:
        since, until = self._searcher.between(request.since, request.until)
        where = filtered_by(visible_to(self._records, caller), request)
        if request.occasion != "call":  # Nobody asked, and the client loads these files itself.
            where = replace(where, without_tags=frozenset({FROM_FILE}))
        return replace(
            of_event_types(where, request.event_types, self._filters),
            task_id=None,  # There it is the place that the context is for.
            since=since,
            until=until,
            isolated_tasks=stack.isolated,
            noted_in=NO_SESSION,  # Nobody confirmed it.
        )

    def _distinct(
        self, question: ContextQuestion, ranked: list[Scored], gathered: FoundCandidates
    ) -> tuple[list[Scored], FoundCandidates]:
        """Rank candidates without those that repeat a better one; in clusters where the strategy wants them."""
        repeats = repeated([each.candidate.record for each in ranked])
        omitted = [Omission(id=i, reason=f"says the same as {better}") for i, better in repeats.items()]
        ranked = [each for each in ranked if each.candidate.record.id not in repeats]
        gathered = replace(gathered, omitted=[*gathered.omitted, *omitted])
        if question.strategy.layout != "clustered":
            return ranked, gathered
        ids = [each.candidate.record.id for each in ranked]
        try:
            pairs = self._vectors.alike(question.where.scopes, ids[:COMPARED], CLUSTER_COSINE)
        except StoreUnavailable as error:
            return ranked, replace(gathered, degraded=(*gathered.degraded, f"clusters: {error}"))
        places = {record_id: place for place, record_id in enumerate(clustered(ids, pairs))}
        return sorted(ranked, key=lambda each: places[each.candidate.record.id]), gathered

    def _measure(self, factor: ModelFactor) -> Measure:
        return Measure(count_raw=self._counter.count, truncate_raw=self._counter.truncate, factor=factor)

    def _told(self, factor: ModelFactor, started: float, revision: int) -> dict[str, Json]:
        return {
            "encoding": self._counter.name,
            "token_family": factor.family,
            "token_factor": factor.factor,
            "token_known_error": factor.known_error,
            "revision": revision,
            "assembly_ms": round((time.perf_counter() - started) * 1000, 2),
        }


def circumstances(caller: Caller, occasion: Occasion, budget: int, at: Instant, *, asked: bool) -> dict[str, Json]:
    """Return `Circumstances` of a block as the metadata of its report keep them; `budget` is in the client's tokens."""
    who = {"agent": caller.agent, "session": caller.session_id, "client": caller.client}
    return {"at": at, "occasion": occasion, **who, "budget": budget, "asked": asked}


def told_place(stack: Stack) -> dict[str, Json]:
    """Return the task that a block is given in, as the metadata keep it; nothing where there is none."""
    return {"task": stack.current.id} if stack.current else {}


def _within_limits(ranked: Sequence[Scored], strategy: Strategy) -> list[Scored]:
    """Put what is beyond the strategy's limit for its kind behind all others: it takes what they leave."""
    seen: Counter[Kind] = Counter()
    within: list[Scored] = []
    beyond: list[Scored] = []
    for each in ranked:
        kind = each.candidate.record.kind
        seen[kind] += 1
        (within if seen[kind] <= strategy.limits.get(kind, len(ranked)) else beyond).append(each)
    return within + beyond


def _with_room(ranked: list[Scored], budget: int) -> tuple[list[Scored], list[Omission]]:
    """Put chosen candidates first, then the best, as many as fit if all were short; return the rest as left out.

    What was chosen, the log and the lasting kinds each have this limit, so that none crowds out another.
    """
    ranked.sort(key=lambda each: each.candidate.source not in BY_HAND)  # Stable: these go first.
    most = max(budget // LEAST_FORM_TOKENS, 1)
    seen: Counter[tuple[bool, bool]] = Counter()
    kept: list[Scored] = []
    crowded_out: list[Omission] = []
    for each in ranked:
        sort = (each.candidate.source in BY_HAND, each.candidate.record.kind in LOG_KINDS)
        seen[sort] += 1
        if seen[sort] <= most:
            kept.append(each)
        else:
            crowded_out.append(Omission(id=each.candidate.record.id, reason=no_room(each.candidate.source)))
    return kept, crowded_out


def _flexible(request: ContextRequest, strategy: Strategy, measure: Measure) -> int | None:
    """Return the tokens of which a short question takes less than a plan. A caller's own budget is used in full."""
    is_by_section = bool(strategy.shares.keys() & SECTION_SHARES)
    return measure.scaled(strategy.flexible_tokens) if is_by_section and request.max_tokens is None else None


def _mean_relevance(ranked: Sequence[Scored], block: Block) -> float | None:
    """Return the mean relevance, in [0, 1], of the found records in the block."""
    shown = {component.id for component in block.report.components}
    known = [each.candidate.relevance for each in ranked if each.candidate.record.id in shown]
    return round(sum(known) / len(known), 3) if known else None


def _request_digest(request: ContextRequest) -> str:
    shape = {
        key: value
        for key, value in asdict(request).items()
        if key not in ("previous", "explain", "notice", "short_notice", "occasion", "only_looks")
    }
    return hashlib.blake2b(json.dumps(shape, sort_keys=True).encode("utf-8", "replace"), digest_size=8).hexdigest()
