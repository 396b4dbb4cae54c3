"""Recall: searches records by word and meaning, or opens them by id, within a token budget."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import TYPE_CHECKING, get_args

from mcp_memory.domain.model.contexts import Component, ContextReport, Omission
from mcp_memory.domain.model.ids import CONTEXT, TASK
from mcp_memory.domain.model.records import OUT_OF_SEARCH, Json, Record
from mcp_memory.domain.model.requests import RecallRequest
from mcp_memory.domain.model.scopes import NO_SESSION, Caller, RecordFilter, filtered_by, partitions_of
from mcp_memory.domain.model.session_log import REPLACEMENT, Entry
from mcp_memory.domain.model.tasks import Stack
from mcp_memory.domain.model.token_factor import EXACT, ClientTokens, ModelFactor
from mcp_memory.domain.retrieval.fusion import Fused
from mcp_memory.domain.retrieval.gate import relevances
from mcp_memory.domain.text.prompt_safety import by, one_line
from mcp_memory.errors import InvalidRequest
from mcp_memory.ports.changes import Snapshots, newest_of
from mcp_memory.ports.records import MemoryReader, RecordStore
from mcp_memory.ports.retrieval import Facet, FilterIndex, Position
from mcp_memory.ports.session_logs import SessionLogStore
from mcp_memory.ports.shown import ShownTexts
from mcp_memory.ports.text import Clock, TokenCounter
from mcp_memory.services.access.served_requests import gave
from mcp_memory.services.retrieval.as_of import PastView, as_they_were, reader_at, then_at
from mcp_memory.services.retrieval.event_types import of_event_types
from mcp_memory.services.retrieval.result_rendering import (
    Result,
    cut,
    fit,
    open_task_result,
    replacement_result,
    result_of,
    task_result,
)
from mcp_memory.services.retrieval.search import CANDIDATES_PER_SOURCE, ParsedQuery, Searcher
from mcp_memory.services.review.supersede import earlier_values
from mcp_memory.services.tasks.branch_visibility import hidden_branches, is_visible, readable, standing, visible_to
from mcp_memory.services.tasks.task_marks_on_records import task_marks

if TYPE_CHECKING:
    from mcp_memory.domain.text.passages import Excerpt

FACET_VALUES = 30
"""Values of a facet that are counted, the most common ones: a memory may have thousands of sessions."""
ENVELOPE_TOKENS = 30
"""Tokens reserved for the names around the results."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RecallAnswer:
    """Results, best first, within the request's token budget.

    `truncated` is True where more matched than is shown. `degraded` names each search that failed and why.
    `next_offset` continues a long text or list, `next_before` a list that was asked for by position. `unknown` are
    names in the query that no record holds, `tie` says how two that it names are tied, "" where nothing does.
    """

    shown: tuple[Result, ...] = ()
    truncated: bool = False
    degraded: tuple[str, ...] = ()
    next_offset: int | None = None
    next_before: str | None = None
    not_found: tuple[str, ...] = ()
    unknown: tuple[str, ...] = ()
    tie: str = ""

    @property
    def results(self) -> tuple[Mapping[str, Json], ...]:
        """The results as JSON objects for programs."""
        return tuple(each.data for each in self.shown)


class Recall:
    """Answers recall requests. Thread-safe."""

    def __init__(
        self,
        records: RecordStore,
        snapshots: Snapshots,
        logs: SessionLogStore,
        searcher: Searcher,
        filters: FilterIndex,
        counter: TokenCounter,
        shown_texts: ShownTexts,
        clock: Clock,
    ) -> None:
        self._records = records
        self._snapshots = snapshots
        self._logs = logs
        self._searcher = searcher
        self._filters = filters
        self._counter = counter
        self._shown_texts = shown_texts
        self._clock = clock

    def __call__(self, request: RecallRequest, caller: Caller, factor: ModelFactor = EXACT) -> RecallAnswer:
        """Search by query, or open by ids; without either, list the newest that pass the filters.

        `max_tokens` is in the client's tokens; times `factor`, counted tokens are the client's.

        Raises:
            InvalidRequest: both a query and ids are given, or a time cannot be read.
            StoreUnavailable: no source could answer.
        """
        budget = factor.counted(ClientTokens(request.max_tokens)) - ENVELOPE_TOKENS
        if request.ids and request.query:
            raise InvalidRequest("Give either query or ids, not both.")
        if request.valid_at and not (request.ids or request.query.strip()):
            raise InvalidRequest("valid_at needs a query: what was true then?")
        # Embedding takes long: before the snapshot.
        read = self._searcher.read(request.query) if request.query.strip() else None
        with self._records.together():  # The end of what is read, and what is noted of it, are one journey.
            with self._snapshots.snapshot(caller.scopes):
                seen = newest_of(self._records.revisions(partitions_of(caller.scopes)))
                answer = self._answer(read, request, caller, budget)
            gave(() if is_account(request) else (each.id for each in answer.shown))
            is_looking = request.only_looks or is_account(request) or request.as_of
            shown = {} if is_looking else {each.id: each for each in answer.shown}
            if shown:
                # Either the words of the record alone or all that its line says may be stored again.
                echoes = [(i, text) for i, each in shown.items() for text in {each.words or each.text, each.text}]
                self._shown_texts.note(caller, echoes, seen)
                self._records.touch([*shown], self._clock())
        return answer

    def _answer(self, read: ParsedQuery | None, request: RecallRequest, caller: Caller, budget: int) -> RecallAnswer:
        if request.ids:
            return self._open(request, caller, budget)
        if read is not None:
            return self._search(read, request, caller, budget)
        if request.before is not None:
            return self._newest(request.before, request, caller, budget)
        return self._list(request, caller, budget)

    def _search(self, read: ParsedQuery, request: RecallRequest, caller: Caller, budget: int) -> RecallAnswer:
        wanted = max(CANDIDATES_PER_SOURCE, request.offset + request.limit + 1)
        self._records.ahead(
            self._records.open_branches,
            lambda: self._records.places(caller),
            lambda: self._records.tree_at(caller),
            lambda: self._records.tasks_near(caller.namespace, (), "open"),
            lambda: self._records.count_unembedded(RecordFilter(scopes=caller.scopes)),
        )
        where, then = self._asked(request, caller)
        stack = Stack() if then else standing(self._records, caller)
        _, true_at = self._searcher.moments(None, request.valid_at)
        work = None if then else self._searcher.open_work(read, where, caller)
        ranking = self._searcher.rank(read, where, wanted, stack=stack, then=then, work=work, true_at=true_at)
        # One more than is shown tells whether there are more.
        # What was replaced stands in brackets behind its successor.
        shows_replaced = request.include_inactive or true_at is not None
        left_out = set[str]() if shows_replaced else {i for hit in ranking.bearing for i in hit.replaces}
        left_out |= self._beside_their_sources({hit.id for hit in ranking.bearing}, caller)
        relevant = (hit for hit in ranking.bearing if hit.id not in left_out)
        hits = list(islice(relevant, request.offset + request.limit + 1))
        shown = hits[request.offset : request.offset + request.limit]
        ids = [hit.id for hit in shown if not work or hit.id not in work.tasks]
        if not then:
            self._records.ahead(
                lambda: self._records.get(ids, caller.scopes),
                lambda: self._records.predecessors(ids, where),
                lambda: self._searcher.unsettled(ids, where),
                lambda: task_marks(self._records.get(ids, caller.scopes).values(), stack, caller, self._records),
            )
        records = self._reader(then).get(ids, caller.scopes)
        budget -= sum(self._counter.count(name) for name in ranking.degraded)
        asked = [] if then else [*records.values()]
        earlier = earlier_values(asked, where, self._records)
        tasks = task_marks(asked, stack, caller, self._records)
        open_conflicts = self._searcher.unsettled([each.id for each in asked], where)
        at = then.at if then else self._clock()

        def result(record_id: str, room: int) -> Result:
            if work and record_id in work.tasks:
                return open_task_result(work.tasks[record_id], work.above[record_id], caller, at)
            record = records[record_id]
            excerpt = self._excerpt(record, read, request, room)
            marks = {
                "earlier": earlier.get(record_id, ""),
                "task": tasks.get(record_id, ""),
                "unsettled": open_conflicts.get(record_id, ""),
            }
            return result_of(record, request.detail, caller, at, excerpt=excerpt, **marks)

        # Depth before breadth: what answers best may take a quarter of the room, the next one an eighth, and so on.
        there = [hit for hit in shown if hit.id in records or (work and hit.id in work.tasks)]
        found = (
            _ranked(hit, told, request, result(hit.id, budget >> place + 2))
            for place, (hit, told) in enumerate(zip(there, relevances(there, ranking.hits), strict=True))
        )
        results = fit(found, budget, self._counter)
        end = request.offset + len(results)
        # Where fewer bear on the query than one source found, its weakest do not, and so nothing weaker does.
        is_deeper = max(ranking.found.values(), default=0) >= wanted <= len(ranking.bearing)
        more = end < len(hits) or (bool(hits) and is_deeper)
        return RecallAnswer(
            shown=results,
            truncated=more,
            degraded=ranking.degraded,
            next_offset=end if more and results else None,
            unknown=ranking.unknown,
            tie=ranking.tie.line if ranking.tie and not request.offset else "",
        )

    def _beside_their_sources(self, ids: Collection[str], caller: Caller) -> set[str]:
        """Return those that are only noted and whose source is among the ids: what was said or done stands alone."""
        noted = self._filters.noted_elsewhere(NO_SESSION, caller.scopes).intersection(ids)
        records = self._records.get([*noted], caller.scopes) if noted else dict[str, Record]()
        return {record.id for record in records.values() if record.details.get("source") in ids}

    def _excerpt(self, record: Record, read: ParsedQuery, request: RecallRequest, room: int) -> "Excerpt | None":
        """Return the passages of a long text that bear on the query; None where its own form says it."""
        if request.detail != "summary" or not record.is_shortened:
            return None
        # Slow to load, and most records are short.
        from mcp_memory.domain.text.micro_and_summary import SUMMARY_TOKENS
        from mcp_memory.domain.text.passages import best_part

        room = max(room, SUMMARY_TOKENS)
        return best_part(record.text, record.text_tokens, read.query.text, room, self._counter.count)

    def _list(self, request: RecallRequest, caller: Caller, budget: int) -> RecallAnswer:
        where, then = self._asked(request, caller)
        records = self._reader(then).list(where, "occurred", request.limit + 1, request.offset)
        at = then.at if then else self._clock()
        listed = self._listed(records[: request.limit], caller)
        results = fit((result_of(each, request.detail, caller, at) for each in listed), budget, self._counter)
        more = len(results) < len(listed) or len(records) > request.limit
        end = records.index(listed[len(results)]) if len(results) < len(listed) else request.limit
        return RecallAnswer(
            shown=results, truncated=more, next_offset=request.offset + end if more and results else None
        )

    def _listed(self, records: Sequence[Record], caller: Caller) -> list[Record]:
        beside = self._beside_their_sources({each.id for each in records}, caller)
        return [each for each in records if each.id not in beside]

    def _newest(self, before: str, request: RecallRequest, caller: Caller, budget: int) -> RecallAnswer:
        """List from a position on, which stays where it is whatever is stored meanwhile; the work is bounded."""
        where, _ = self._asked(request, caller)
        after = _position(before) if before else None
        found = self._filters.newest(self._filters.passing(where), where.scopes, request.limit + 1, after)
        records = [*self._records.get(found, where.scopes).values()]
        listed = self._listed(records[: request.limit], caller)
        shown = [result_of(each, request.detail, caller, self._clock()) for each in listed]
        results = fit(shown, budget, self._counter)
        is_more = len(results) < len(listed) or len(records) > request.limit
        last = listed[len(results) - 1] if is_more else None
        return RecallAnswer(
            shown=results, truncated=is_more, next_before=f"{last.occurred_at!r}~{last.id}" if last else None
        )

    def facets(
        self, request: RecallRequest, caller: Caller, named: Sequence[Facet] = ()
    ) -> Mapping[Facet, Mapping[str, int]]:
        """Count the most common values of these facets, by default of all, among what passes the request's filters.

        Its query narrows nothing.
        """
        with self._snapshots.snapshot(caller.scopes):
            where = self._asked(request, caller)[0]
            passing = self._filters.passing(where)
            wanted: Sequence[Facet] = named or get_args(Facet)
            return {facet: self._filters.counts(passing, where.scopes, facet, FACET_VALUES) for facet in wanted}

    def _open(self, request: RecallRequest, caller: Caller, budget: int) -> RecallAnswer:
        if is_account(request):
            report = self._records.context(request.ids[0], caller)
            return self._context_page(report, request, budget) if report else _nothing(request.ids)
        stand_ins = self._stand_ins(request, caller)
        if len(request.ids) == 1 and stand_ins:
            return self._covered_page(stand_ins[request.ids[0]], request, caller, budget)
        found = {**self._records_by_id(request, caller), **self._tasks_by_id(request, caller)}
        found |= {each: replacement_result(entry) for each, entry in stand_ins.items()}
        missing = tuple(each for each in request.ids if each not in found)
        opened = [found[each] for each in dict.fromkeys(request.ids) if each in found]
        if len(opened) == 1 and request.detail == "full":
            return replace(self._page(opened[0], request, budget), not_found=missing)
        results = fit(opened, budget, self._counter)
        return RecallAnswer(shown=results, truncated=len(results) < len(opened), not_found=missing)

    def _records_by_id(self, request: RecallRequest, caller: Caller) -> dict[str, Result]:
        hidden = hidden_branches(self._records, caller)
        records, at = self._records.get(request.ids, caller.scopes), self._clock()
        records = {i: record for i, record in records.items() if is_visible(record, caller, hidden)}
        if request.as_of:
            at = self._searcher.moment(request.as_of)
            records = as_they_were(records, at, self._records)
            records = {i: each for i, each in records.items() if each.scope in caller.scopes}
        return {i: result_of(record, request.detail, caller, at) for i, record in records.items()}

    def _tasks_by_id(self, request: RecallRequest, caller: Caller) -> dict[str, Result]:
        """Return the tasks among the ids with their full results; contexts name tasks beside records."""
        wanted = {each for each in request.ids if each.startswith(TASK)}
        tasks = self._records.tasks_near(caller.namespace, wanted) if wanted else ()
        return {task.id: task_result(task, caller) for task in tasks if task.id in wanted}

    def _stand_ins(self, request: RecallRequest, caller: Caller) -> Mapping[str, Entry]:
        """Return the log replacements among the ids, of any agent, whose originals the caller sees completely."""
        entries = self._logs.entries([each for each in request.ids if each.startswith(REPLACEMENT)], caller)
        return readable(entries, self._records, caller)

    def _page(self, shown: Result, request: RecallRequest, budget: int) -> RecallAnswer:
        """Return one full text from `offset` characters on, as far as the budget allows."""
        rest = shown.text[request.offset :]
        page, length = cut(shown, rest, budget, self._counter)
        more = length < len(rest)
        return RecallAnswer(
            shown=(page,), truncated=more, next_offset=request.offset + length if more and length else None
        )

    def _context_page(self, report: ContextReport, request: RecallRequest, budget: int) -> RecallAnswer:
        """Return the outcome of every candidate of an assembled context."""
        fates = [_fate(each) for each in (*report.components, *report.omitted)]
        results = fit(fates[request.offset : request.offset + request.limit], budget, self._counter)
        end = request.offset + len(results)
        more = end < len(fates)
        return RecallAnswer(shown=results, truncated=more, next_offset=end if more and results else None)

    def _covered_page(self, entry: Entry, request: RecallRequest, caller: Caller, budget: int) -> RecallAnswer:
        """Return the originals that a log replacement covers, in order."""
        end = request.offset + request.limit
        wanted = replace(request, ids=entry.covers[request.offset : end])
        records = self._records_by_id(wanted, caller)
        results = fit((records[each] for each in wanted.ids if each in records), budget, self._counter)
        if records and len(results) < len(records):  # The next page begins with the first one that did not fit.
            end = request.offset + wanted.ids.index(results[-1].id) + 1
        more = end < len(entry.covers)
        return RecallAnswer(shown=results, truncated=more, next_offset=end if more else None)

    def _asked(self, request: RecallRequest, caller: Caller) -> tuple[RecordFilter, PastView | None]:
        """Return the filter, and what was believed at the time where the request names one."""
        where = self._filter(request, caller)
        then = then_at(self._searcher.moment(request.as_of), where, self._records) if request.as_of else None
        return then.where if then else where, then

    def _reader(self, then: PastView | None) -> MemoryReader:
        return reader_at(self._records, then)

    def _filter(self, request: RecallRequest, caller: Caller) -> RecordFilter:
        since, until = self._searcher.between(request.since, request.until)
        where = filtered_by(visible_to(self._records, caller), request)
        return replace(
            of_event_types(where, request.event_types, self._filters),
            since=since,
            until=until,
            include_inactive=request.include_inactive or not OUT_OF_SEARCH.isdisjoint(request.statuses),
        )


def _position(text: str) -> Position:
    """Read a position, "1795176000.0~r00001k". Raises InvalidRequest."""
    at, _, record_id = text.partition("~")
    try:
        return float(at), record_id
    except ValueError:
        raise InvalidRequest(f"{text[:60]!r} is no position; pass `next_before` of the page before.") from None


def is_account(request: RecallRequest) -> bool:
    """Return True for a request for one context's report, which opens none of its records."""
    return len(request.ids) == 1 and request.ids[0].startswith(CONTEXT)


def _ranked(hit: Fused, relevance: float, request: RecallRequest, result: Result) -> Result:
    """Return the result with its score, the chance that it is relevant."""
    data = {**result.data, "score": round(relevance, 4)}
    if request.explain:
        data["signals"] = {name: round(part, 2) for name, part in hit.parts.items() if part}
    return replace(result, data=data)


def _fate(each: Component | Omission) -> Result:
    """Return what became of a candidate: `- [r000017 fact] shown as summary, 31 tokens`, `- [r000018] left out: …`."""
    if isinstance(each, Omission):
        data: dict[str, Json] = {"id": each.id, "omitted": each.reason}
        return Result(data=data, head=f"- [{one_line(each.id)}] left out: {each.reason}")
    data = {
        "id": each.id, "kind": each.kind, "detail": each.detail, "score": round(each.score, 4), "tokens": each.tokens,
    }  # fmt: skip
    data |= {"agent": each.agent} if each.agent else {}
    told = f"shown as {each.detail}, {each.tokens} tokens"
    return Result(data=data, head=f"- [{one_line(each.id)} {each.kind}{by(each.agent)}] {told}")


def _nothing(ids: tuple[str, ...]) -> RecallAnswer:
    return RecallAnswer(not_found=ids)
