"""Assembly: builds the context for the current task inside a hard token budget, and reports on every candidate."""

import hashlib
import json
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import partial

from mcp_memory.domain.context.budget import FOUND, LEARNT, OTHERS, REST, SPARE, Item
from mcp_memory.domain.context.items import (
    CHANGED_SECTION,
    EXCHANGE,
    EXCHANGE_SECTION,
    OPEN_SHOWN,
    SINCE,
    Measure,
    approach_item,
    entity_item,
    news_items,
    note_item,
    nothing_item,
    notice_item,
    open_items,
    other_censors_item,
    record_item,
    relation_item,
    retired_item,
    stack_items,
    tasks_beyond,
    text_item,
)
from mcp_memory.domain.context.near_duplicates import CLUSTER_COSINE, clustered, repeated
from mcp_memory.domain.context.rendering import SECTION_OF_KIND, group_title
from mcp_memory.domain.context.scoring import Candidate, Scored, ordered, scored
from mcp_memory.domain.model.contexts import ContextReport, Omission
from mcp_memory.domain.model.records import LOG_KINDS, Instant, Json, Kind, Record
from mcp_memory.domain.model.scopes import Caller, RecordFilter
from mcp_memory.domain.model.strategy import (
    SECTION_SHARES,
    Override,
    Share,
    Strategies,
    Strategy,
)
from mcp_memory.domain.model.tasks import DEAD_ENDS, Stack
from mcp_memory.domain.model.tokens import EXACT, ModelFactor
from mcp_memory.domain.text.intent import pick_strategy
from mcp_memory.domain.text.prompt_safety import author, is_own
from mcp_memory.domain.text.times import iso_minute, validity
from mcp_memory.errors import StoreUnavailable
from mcp_memory.ports.changes import Snapshots
from mcp_memory.ports.records import RecordStore
from mcp_memory.ports.retrieval import FilterIndex, GraphStore, VectorStore
from mcp_memory.ports.text import Clock, TokenCounter
from mcp_memory.services.context.candidates import NOT_HERE, CandidateFinder, FoundCandidates
from mcp_memory.services.context.choose_strategy import StrategyChooser
from mcp_memory.services.context.fit_to_budget import FLAT_SECTION, Block, BlockDraft, Order, compose
from mcp_memory.services.context.follow_up import Built, FollowUps
from mcp_memory.services.context.question import ContextQuestion
from mcp_memory.services.memory.branch_visibility import stack_of, visible_to
from mcp_memory.services.memory.echo_filter import EchoFilter
from mcp_memory.services.memory.emptiness import nothing_stored
from mcp_memory.services.memory.supersede import earlier_values
from mcp_memory.services.memory.task_owners import Elsewhere, told_change
from mcp_memory.services.retrieval.as_of import reader_at, then_at
from mcp_memory.services.retrieval.search import Read, Searcher

CALLER_TEXT_SHARE = 4
"""The caller's own additional text takes at most a quarter of the budget."""
LEAST_FORM_TOKENS = 20
"""Minimum tokens of an item: its frame alone takes about as much."""
LEAST_NOTES = 20
"""A note on confidence has a place where at least so many would fit."""
COMPARED = 400
"""The best candidates, of which every pair is compared to put similar items together."""
SHARE_OF_KIND: Mapping[Kind, Share] = {
    "decision": "decisions", "fact": "facts", "procedure": "procedures", "episode": "episodes", "summary": "episodes",
    "result": "episodes",
}  # fmt: skip
OF_WHAT_IS_NAMED: Mapping[str, float] = {"entities": 0.05, "relations": 0.05}
"""Shares where a strategy sets none: a few lines on the entities that the query names."""
OF_WHAT_WAS_LEARNT: Mapping[str, float] = {LEARNT: 0.6}
"""Share without a query, ahead of the log: an hour of work would fill any block with the latest entries."""
AS_OF = "What was believed at {} UTC. It may have changed since."
SHARE_OF_SOURCE: Mapping[str, Share] = {"recent": "recent", FOUND: "semantic"}


@dataclass(frozen=True, slots=True, kw_only=True)
class ContextRequest:
    """A request for a context. `max_tokens` is in the client's tokens; None means the configured default.

    `overrides` are fields of the strategy to change in this call. The `notice`, a fact about this memory that the
    reader needs, is always in the block; in a small one the `short_notice`. As of a time (`as_of`, a phrase) the block
    shows what was believed then, without tasks.
    """

    query: str = ""
    max_tokens: int | None = None
    strategy: str | None = None
    overrides: Mapping[str, Json] = field(default_factory=dict[str, Json])
    kinds: tuple[Kind, ...] = ()
    tags: tuple[str, ...] = ()
    entity_types: tuple[str, ...] = ()
    since: str | None = None
    until: str | None = None
    task_id: str | None = None
    exclude: tuple[str, ...] = ()
    additional_context: str = ""
    order: Order = "best_first"
    decay_hours: float | None = None
    previous: str | None = None
    compress: bool = False
    explain: bool = False
    notice: str = ""
    short_notice: str = ""
    as_of: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Context:
    """The fenced block, and the report on its contents and omissions."""

    text: str
    report: ContextReport


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
        echo_filter: EchoFilter,
        clock: Clock,
        strategies: Strategies,
        overridden: Override,
        default_max_tokens: int,
        elsewhere: Elsewhere,
        *,
        takes_guidance: bool = True,
    ) -> None:
        """Take identities and constraints of other agents where `takes_guidance`; `elsewhere` is that of `Windows`."""
        self._elsewhere = elsewhere
        self._records = records
        self._snapshots = snapshots
        self._vectors = vectors
        self._finder_over = partial(
            CandidateFinder, searcher=searcher, graph=graph, filters=filters, takes_guidance=takes_guidance
        )
        self._searcher = searcher
        self._counter = counter
        self._echo_filter = echo_filter
        self._clock = clock
        self._strategy_chooser = StrategyChooser(strategies, overridden)
        self._default_max_tokens = default_max_tokens
        self._follow_ups = FollowUps(records, clock)

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
        measure, digest = self._measure(factor), _request_digest(request)
        key = (digest, request.explain, request.notice, caller, factor)
        # Embedding takes long: do it before the snapshot, unless it is needless, or goals join the query.
        is_needed = not self._follow_ups.keeps(key) and pick_strategy(request.query.strip())[0] != "recent"
        read = self._read(request.query.strip()) if is_needed else None
        with self._snapshots.snapshot() as revision:
            built = self._follow_ups.built(key, revision)
            is_cached = built is not None
            if built is None:
                built = self._build(request, read, caller, measure, digest)
                if not built.metadata["degraded"]:  # A source that failed may work again at once.
                    self._follow_ups.keep(key, revision, built)
            block, told = self._follow_ups.follow(request.previous, built, caller, measure)
        metadata = {**built.metadata, **self._told(factor, started, revision), **told, "cached": is_cached}
        report = replace(block.report, metadata=metadata)
        if not request.as_of:
            self._echo_filter.note(caller, ((each.id, each.text) for each in report.components), revision)
        # The query stays with the caller: an erased text may have been asked for in its own words.
        kept = {name: value for name, value in metadata.items() if name != "query"}
        account = replace(report, metadata=kept)
        self._records.keep_context(account, caller, self._clock(), anew="unchanged" not in told)
        return Context(text=block.text, report=report)

    def forget(self) -> None:
        """Drop all kept blocks, because a record in them was erased."""
        self._follow_ups.forget()

    def _read(self, asked: str) -> Read | None:
        return self._searcher.read(asked) if asked else None

    def _build(
        self, request: ContextRequest, read: Read | None, caller: Caller, measure: Measure, digest: str
    ) -> Built:
        """Build the whole block for a request, as if nothing had been shown before; `read` is its query, or None."""
        at = self._searcher.moment(request.as_of) if request.as_of else None
        now = self._clock() if at is None else at
        stack = stack_of(self._records, caller, request.task_id) if at is None else Stack()
        budget = request.max_tokens or self._default_max_tokens
        overrides = dict(request.overrides)
        if request.decay_hours is not None:
            overrides["decay_hours"] = request.decay_hours
        chosen = self._strategy_chooser(request.strategy, request.query, overrides, stack, budget)
        if read is None or chosen.asked != request.query.strip():
            read = self._read(chosen.asked)
        where = self._filter(request, caller, stack)
        then = None if at is None else then_at(at, where, self._records)
        question = ContextQuestion(
            read=read,
            where=then.where if then else where,
            then=then,
            stack=stack,
            strategy=chosen.strategy,
            caller=caller,
            budget=budget,
            now=now,
            opens=not then and not request.query.strip() and chosen.strategy.layout == "by_kind",
        )
        gathered = self._finder_over(reader_at(self._records, then))(question)
        ranked, crowded_out = _with_room(ordered(question.strategy, gathered.candidates, now), budget)
        ranked, gathered = self._distinct(question, ranked, gathered)
        items = self._items(request, question, gathered, ranked, measure, now)
        more_tasks = tasks_beyond(stack, items)
        items += news_items([told_change(each, caller) for each in stack.news], measure)
        if question.opens:
            open_tasks = self._open_items(stack, caller, measure)
            items += open_tasks[:OPEN_SHOWN]
            more_tasks += [item.id for item in open_tasks[OPEN_SHOWN:]]
        beyond = [Omission(id=each, reason="more tasks in memory://tasks") for each in more_tasks]
        if not items and (line := nothing_stored(self._records, caller)):
            items = [nothing_item(line, measure)]
        draft = BlockDraft(
            items=items,
            omitted=[*gathered.omitted, *beyond],
            budget=budget,
            digest=digest,
            strategy=chosen.strategy.name,
            crowded_out=crowded_out,
            is_cut=bool(beyond) or gathered.is_cut,
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
            "utilisation": round(block.report.token_count / budget, 3),
            "relevance": _mean_relevance(ranked, block),
        }
        return Built(
            draft=draft,
            block=block,
            metadata=metadata,
            asked=chosen.asked,
            vector=read.query.vector if read else None,
            where=replace(question.where, passing=None),
            strategy=chosen.name,
        )

    def _filter(self, request: ContextRequest, caller: Caller, stack: Stack) -> RecordFilter:
        since, until = self._searcher.between(request.since, request.until)
        return replace(
            visible_to(self._records, caller),
            kinds=frozenset(request.kinds),
            tags=frozenset(request.tags),
            entity_types=frozenset(request.entity_types),
            since=since,
            until=until,
            exclude=frozenset(request.exclude),
            isolated_tasks=stack.isolated,
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

    def _items(
        self,
        request: ContextRequest,
        question: ContextQuestion,
        gathered: FoundCandidates,
        ranked: Sequence[Scored],
        measure: Measure,
        now: Instant,
    ) -> list[Item]:
        """Return all competing items, in the order in which they get room."""
        strategy = question.strategy
        caller = question.caller
        items = stack_items(question.stack, measure, lambda agent: author(agent, caller))
        if strategy.questions and (ranked or gathered.always or items):
            items.append(approach_item(strategy, measure))
        if request.notice:
            items.insert(0, notice_item(request.notice, request.short_notice, measure))
        if question.then:
            told = AS_OF.format(iso_minute(question.now).rstrip("Z"))
            items.insert(0, notice_item(told, told, measure))
        shown = (*gathered.always, *gathered.focus, *gathered.since.changed, *(each.candidate for each in ranked))
        replaced = () if question.then else [candidate.record for candidate in shown]
        earlier = earlier_values(replaced, question.where, self._records)
        items += _guidance(gathered.always, caller, measure, earlier, now)
        if elsewhere := sum(omission.reason == NOT_HERE for omission in gathered.omitted):
            items.append(other_censors_item(elsewhere, measure))
        items += self._at_hand_items(question, gathered, measure, earlier)
        if request.additional_context.strip():
            room = question.budget // CALLER_TEXT_SHARE
            items.append(text_item(request.additional_context.strip(), "Additional Context", measure, room))
        if gathered.note:
            note = note_item(gathered.note, measure)
            items += [note] if note.forms[0].tokens * LEAST_NOTES <= question.budget else []
        has_part = question.read is None and _crowds(ranked, strategy)
        dead_ends = self._dead_ends(question)
        groups = _groups(ranked) if strategy.layout == "by_kind" else frozenset[str]()
        for each in ranked:
            kind = each.candidate.record.kind
            section = SECTION_OF_KIND[kind] if strategy.layout == "by_kind" else FLAT_SECTION
            share = LEARNT if has_part and kind not in LOG_KINDS else _share(each, strategy)
            name = author(each.candidate.record.author, caller)
            said = earlier.get(each.candidate.record.id, "")
            mark = _validity(each.candidate.record, now)
            mark += dead_ends.get(each.candidate.record.task_id, "") if kind != "result" else ""
            item = record_item(
                each, measure, section=section, share=share, author=name, earlier=said, groups=groups, mark=mark
            )
            # Dead ends first: they are what a new attempt must not repeat.
            is_done = kind == "result" and each.candidate.record.details.get("status") == "complete"
            items.append(replace(item, position=int(is_done)))
        items += [entity_item(entity, measure) for entity in gathered.entities]
        items += [relation_item(each, measure) for each in gathered.relations]
        return items

    def _at_hand_items(
        self, question: ContextQuestion, gathered: FoundCandidates, measure: Measure, earlier: Mapping[str, str]
    ) -> list[Item]:
        """Return the focus and, without a query, the last exchange and what changed since, in reading order."""
        items: list[Item] = []
        for place, candidate in enumerate((*gathered.focus, *gathered.since.changed)):
            section, share = "Current Focus", "focus"
            if question.opens and candidate.source == EXCHANGE:
                section, share = EXCHANGE_SECTION, EXCHANGE
            elif candidate.source == SINCE:
                section, share = CHANGED_SECTION, SINCE
            each = scored(question.strategy, candidate, question.now)
            name = author(candidate.record.author, question.caller)
            said = earlier.get(candidate.record.id, "")
            mark = _validity(candidate.record, question.now)
            item = record_item(each, measure, section=section, share=share, author=name, earlier=said, mark=mark)
            items.append(replace(item, position=place))
        return [*items, retired_item(gathered.since.retired, measure)] if gathered.since.retired else items

    def _dead_ends(self, question: ContextQuestion) -> Mapping[str | None, str]:
        """Map the tasks that failed or were given up to the mark of what belongs to them; a result says it itself."""
        tasks = () if question.then else self._records.tasks(question.caller.namespace)
        return {task.id: f" (task {task.status})" for task in tasks if task.status in DEAD_ENDS}

    def _open_items(self, stack: Stack, caller: Caller, measure: Measure) -> list[Item]:
        tasks = self._records.tasks(caller.namespace)
        elsewhere = self._elsewhere(caller, self._records.places(caller))
        return open_items(tasks, stack, measure, lambda agent: author(agent, caller), elsewhere)

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


def _validity(record: Record, now: Instant) -> str:
    """Return the mark that says from when until when a record is true, and whether it is; "" where nobody said."""
    told = validity(record.valid_from, record.valid_until, now)
    return f" ({told})" if told else ""


def _guidance(
    always: Sequence[Candidate], caller: Caller, measure: Measure, earlier: Mapping[str, str], now: Instant
) -> list[Item]:
    """Return identity and constraints, the caller's own first, in their sections and in the budget."""
    items: list[Item] = []
    for place, candidate in enumerate(sorted(always, key=lambda each: not is_own(each.record, caller))):
        record = candidate.record
        each = Scored(candidate=candidate, score=record.importance, parts={})
        item = record_item(
            each,
            measure,
            section=SECTION_OF_KIND[record.kind],
            share=record.kind if is_own(record, caller) else OTHERS,
            author=author(record.author, caller),
            earlier=earlier.get(record.id, ""),
            mark=_validity(record, now),
        )
        warns = record.kind == "censor" and record.details.get("action") != "block"
        items.append(replace(item, position=warns * len(always) + place))
    return items


def _groups(ranked: Sequence[Scored]) -> frozenset[str]:
    """Return days of the log with several candidates of one kind, which share a title."""
    sizes = Counter(group_title(each.candidate.record) for each in ranked)
    return frozenset(title for title, size in sizes.items() if title and size > 1)


def _with_room(ranked: list[Scored], budget: int) -> tuple[list[Scored], list[str]]:
    """Put chosen candidates first, then the best, as many as fit if all were short; return the rest's ids too.

    The log and the lasting kinds each have this limit, so that neither crowds out the other.
    """
    ranked.sort(key=lambda each: each.candidate.source not in ("inherited", "pinned"))  # Stable: these go first.
    most = max(budget // LEAST_FORM_TOKENS, 1)
    seen: Counter[bool] = Counter()
    kept: list[Scored] = []
    crowded_out: list[str] = []
    for each in ranked:
        is_log = each.candidate.record.kind in LOG_KINDS
        seen[is_log] += 1
        if seen[is_log] <= most:
            kept.append(each)
        else:
            crowded_out.append(each.candidate.record.id)
    return kept, crowded_out


def _flexible(request: ContextRequest, strategy: Strategy, measure: Measure) -> int | None:
    """Return the tokens of which a short question takes less than a plan. A caller's own budget is used in full."""
    is_by_section = bool(strategy.shares.keys() & SECTION_SHARES)
    return measure.scaled(strategy.flexible_tokens) if is_by_section and request.max_tokens is None else None


def _crowds(ranked: Sequence[Scored], strategy: Strategy) -> bool:
    """Return True where the log competes and no kind has its own share; a strategy for the latest keeps the log."""
    if strategy.shares.keys() & SECTION_SHARES or strategy.formula == "access":
        return False
    return any(each.candidate.record.kind in LOG_KINDS for each in ranked)


def _share(each: Scored, strategy: Strategy) -> str:
    """Name the candidate's share of the budget: its section's or its source's, as the strategy divides it."""
    if each.candidate.is_spare:
        return SPARE
    if strategy.shares.keys() & SECTION_SHARES:
        share = SHARE_OF_KIND.get(each.candidate.record.kind)
    else:
        share = SHARE_OF_SOURCE.get(each.candidate.source)
    return share or REST


def _mean_relevance(ranked: Sequence[Scored], block: Block) -> float | None:
    """Return the mean relevance, in [0, 1], of the found records in the block."""
    shown = {component.id for component in block.report.components}
    known = [each.candidate.relevance for each in ranked if each.candidate.record.id in shown]
    return round(sum(known) / len(known), 3) if known else None


def _request_digest(request: ContextRequest) -> str:
    shape = {
        key: value
        for key, value in asdict(request).items()
        if key not in ("previous", "explain", "notice", "short_notice")
    }
    return hashlib.blake2b(json.dumps(shape, sort_keys=True).encode("utf-8", "replace"), digest_size=8).hexdigest()
