"""Search: turns a query's text into a fused ranking, by signals, sources and fusion.

Recall and assembly use it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import Executor, Future, wait
from contextlib import suppress
from contextvars import copy_context
from dataclasses import dataclass, field, replace
from functools import partial
from math import log
from typing import TypedDict

from mcp_memory.domain.model.records import LASTING_KINDS, LOG_KINDS, Instant, Kind, Record, is_valid
from mcp_memory.domain.model.scopes import Caller, RecordFilter, narrowed
from mcp_memory.domain.model.tasks import Stack, Task
from mcp_memory.domain.retrieval.boost_by_first_result import MOST_HOLDERS, hopped, starts_hop
from mcp_memory.domain.retrieval.fusion import Background, Fused, SourceTraits, below_successors, faded, fuse
from mcp_memory.domain.retrieval.gate import AskedQuery, bearing, bearing_unasked, chances, least_score
from mcp_memory.domain.retrieval.issue_threads import with_newest
from mcp_memory.domain.retrieval.log_lines import (
    COMPARED,
    SAME_COSINE,
    TextDigests,
    behind_answers,
    behind_stored,
    by_own_evidence,
    echoes,
    once,
    words_digest,
)
from mcp_memory.domain.retrieval.queries import LEAST_KNOWN, Query
from mcp_memory.domain.retrieval.turns import PLAIN, Turn, named_speakers, spoken
from mcp_memory.domain.text.control_characters import without_controls
from mcp_memory.domain.text.times import asks_only_when, time_phrase
from mcp_memory.domain.text.words import query_terms
from mcp_memory.errors import InvalidRequest, StoreUnavailable
from mcp_memory.ports.records import RecordStore
from mcp_memory.ports.retrieval import FilterIndex, GraphStore, KeywordStore, Outline, Source, VectorStore
from mcp_memory.ports.text import Clock, DateReader, Embedder
from mcp_memory.ports.tracing import traced
from mcp_memory.services.retrieval.as_of import PastView, earlier_scores, reader_at
from mcp_memory.services.retrieval.asked_query import BEST_READ, asked_about
from mcp_memory.services.retrieval.issue_threads import ThreadFinder
from mcp_memory.services.retrieval.open_work import OpenWork, WorkFinder, answering, searched_text, with_work
from mcp_memory.services.retrieval.paths_between_names import ForeseenPath, Tie, TieFinder, with_tie
from mcp_memory.services.review.corrected_values import COMPARED_KINDS, Corrections

CANDIDATES_PER_SOURCE = 60
"""R@20 and evidence in 1,000 tokens equal those of 100 and 400 (benchmarks/retrieval.py), at less work."""

LEAST_STORED = 10
"""Stored records among the candidates, as far as there are any, however many lines of the log are nearer."""

CORRECTED_READ = 10
"""The best hits among which restatements of corrected words are looked for: a reader sees no more."""

LEAST_SECONDS = 0.001
"""Seconds between the last moment of a span and its end."""
PATH_NATS = (4.0, 3.5, 3.0)
"""Most nats for a record of the current task, of its parent, and of one further up: they decide among near equals."""
DEAD_END_NATS = -3.0
ANSWERING = 0.99
"""The score of open work that is what the question asks for."""
_LINES = LOG_KINDS - {"event"}
"""Kinds of which an hour holds hundreds: of a time, what was done and learnt is told before what was said."""


class Validity(TypedDict, total=False):
    """From when, and until when (exclusive) something is true, as far as given."""

    valid_from: Instant
    valid_until: Instant


@dataclass(frozen=True, slots=True, kw_only=True)
class ParsedQuery:
    """A query's signals, and those that could not be read and why."""

    query: Query
    degraded: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """Evidence about a query's candidates before fusion.

    `rankings` holds each source's scores of all candidates, `neighbours` the candidate dialogue turns beside a
    candidate, `past` the candidates that are not true at the time asked about, `said` what each says that was not
    replaced, `echoes` the prompts that only ask what the query asks, `repeating` those with its very words, `found` the
    count of each source's finds, `degraded` each source that failed and why.
    """

    rankings: Mapping[str, Mapping[str, float]]
    traits: Mapping[str, SourceTraits]
    background: Background
    neighbours: Mapping[str, Sequence[str]]
    sessions: Mapping[str, str]
    turns: Mapping[str, Turn]
    superseded: frozenset[str]
    past: frozenset[str]
    tasks: Mapping[str, str]
    kinds: Mapping[str, Kind]
    said: Mapping[str, TextDigests]
    importance: Mapping[str, float]
    echoes: frozenset[str]
    repeating: frozenset[str]
    found: Mapping[str, int]
    degraded: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Ranking:
    """Candidates best first and their kinds, the count of each source's finds, and the sources that failed.

    `bearing` are those of the `hits` that bear on the query; the rest is shown to nobody. `unknown` are names in the
    query that no record holds. `repeated` names, for each record left out, the hit that says the same. All of the
    query's words together carry `information` nats. `least` is the score in [0, 1] that a hit needed, 0.0 where none
    was enough. `chances` in [0, 1] are those of the `hits` to answer.
    `restated` names, for each hit that says again what was corrected, the correction, and for what was reverted, what
    reverts it; `newest`, for the best record of a thread, its newest state, which is as likely to answer. `tie` is how
    two things that the query names are tied; its records are among those that bear on it.
    """

    hits: tuple[Fused, ...]
    bearing: tuple[Fused, ...]
    kinds: Mapping[str, Kind]
    found: Mapping[str, int]
    degraded: tuple[str, ...]
    unknown: tuple[str, ...] = ()
    repeated: Mapping[str, str] = field(default_factory=dict[str, str])
    information: float = 0.0
    least: float = 0.0
    chances: Mapping[str, float] = field(default_factory=dict[str, float])
    restated: Mapping[str, str] = field(default_factory=dict[str, str])
    newest: Mapping[str, str] = field(default_factory=dict[str, str])
    tie: Tie | None = None


class Searcher:
    """Ranks records for a query. Thread-safe."""

    def __init__(
        self,
        records: RecordStore,
        vectors: VectorStore,
        keywords: KeywordStore,
        filters: FilterIndex,
        graph: GraphStore,
        embedder: Embedder,
        dates: DateReader,
        sources: Sequence[Source],
        pool: Executor,
        clock: Clock,
        corrections: Corrections,
    ) -> None:
        self._records = records
        self._vectors = vectors
        self._keywords = keywords
        self._filters = filters
        self._graph = graph
        self._embedder = embedder
        self._dates = dates
        self._sources = sources
        self._pool = pool
        self._clock = clock
        self._corrections = corrections
        self._threads = ThreadFinder(graph, records)
        self.work = WorkFinder(records, embedder)
        """Finds open tasks by their meaning."""
        self._ties = TieFinder(records, keywords, filters, graph)

    def open_work(self, read: ParsedQuery, where: RecordFilter, caller: Caller) -> OpenWork | None:
        """Return the open tasks that may stand among the hits; None where there are none, or only records are asked."""
        return self.work(read.query, where, caller)

    def rank(
        self,
        read: ParsedQuery,
        where: RecordFilter,
        limit: int = CANDIDATES_PER_SOURCE,
        stack: Stack | None = None,
        then: PastView | None = None,
        true_at: Instant | None = None,
        is_goal: bool = False,
        is_unasked: bool = False,
        work: OpenWork | None = None,
    ) -> Ranking:
        """Rank all candidates of the query within the filter, superseded ones below their successors.

        What belongs to the path of the `stack` ranks before equal evidence from elsewhere, and dead ends behind it.
        What is not true now ranks below what is. With `then`, records are ranked by the words that they had, and by
        what was true then; `where` is made from its filter. With `true_at` they are ranked by what was true at that
        time instead. `is_goal` is True where the query is a task's goal, which asks nothing, `is_unasked` where it is
        a prompt, which asks others: then only outstanding hits bear on it. Tasks of `work` stand among the hits; where
        the query asks for open work and names no subject, they come first.
        """
        evidence = self.weigh(read, where, limit, then, true_at)
        if work:
            rankings, background = with_work(work, read.query, evidence.rankings, evidence.background)
            evidence = replace(evidence, rankings=rankings, background=background)
        # A time asks for the state of it, and a goal leads through what is true now.
        asks_threads = not (then or is_unasked or true_at is not None or read.query.span)
        asks_ties = asks_threads and not is_goal
        by_task = _by_task(evidence.tasks, stack, len(evidence.kinds))
        restated: Mapping[str, str] = {}
        foreseen: ForeseenPath | None = None
        hits = fuse(
            evidence.rankings,
            evidence.background,
            neighbours=evidence.neighbours,
            sessions=evidence.sessions,
            turns=evidence.turns,
            stack=by_task,
            traits=evidence.traits,
        )
        if not then:
            hits = self._rank_successors(hits, evidence, where)
            compared = [hit.id for hit in hits[:CORRECTED_READ] if evidence.kinds.get(hit.id) in COMPARED_KINDS]
            best = [hit.id for hit in hits[:BEST_READ] if hit.id in evidence.kinds]
            path = partial(self._ties.foreseen, read.query, where, evidence.background) if asks_ties else None
            foreseen = self._read_best(best, compared, where, path)
            restated = self.restatements(compared, where)
            hits = below_successors(hits, restated, is_replaced=False) if restated else hits
        hits = faded(hits, evidence.past)
        hits, repeated = self._behind_memory(hits, evidence, where, read.query.known)
        if read.query.is_only_time:
            hits.sort(key=lambda hit: evidence.kinds.get(hit.id) in _LINES)
        elif not then:
            hits = self._once_more(hits, read.query, evidence, where, restated)
        asked, unknown = AskedQuery(), tuple[str, ...]()
        if not is_unasked:
            best = partial(self._best, hits, where, then, work)
            knows = self._embedder.share_known
            asked, unknown = asked_about(read.query, hits, evidence.background, best, knows, is_goal=is_goal)
        answers = answering(work, read.query, evidence.background.absent)
        first = [Fused(id=each, score=ANSWERING, is_certain=True) for each in answers]
        hits = [hit for hit in hits if not (answers and work and hit.id in work.tasks)]
        relevant = bearing_unasked(hits) if is_unasked else bearing(hits, asked)
        ranking = Ranking(
            hits=(*first, *hits),
            bearing=(*first, *relevant),
            least=0.0 if is_unasked else least_score(hits, asked),
            kinds=evidence.kinds,
            found=evidence.found,
            degraded=evidence.degraded,
            unknown=() if then or where.include_inactive or answers else unknown,
            repeated=repeated,
            information=evidence.background.information,
            chances=chances(hits, asked),
            restated=restated,
        )
        if asks_threads:
            ranking = self._with_threads(ranking, evidence, where)
        return self._with_tie(ranking, read.query, where, evidence.background, foreseen) if asks_ties else ranking

    def unsettled(self, record_ids: Collection[str], where: RecordFilter) -> Mapping[str, str]:
        """Map records that contradict another one which the reader sees, and that nobody settled, to their marks."""
        return self._corrections.unsettled(record_ids, where)

    def _with_threads(self, ranking: Ranking, evidence: Evidence, where: RecordFilter) -> Ranking:
        """Add to what bears on the query the newest states of the same issues, and what reverts one of them."""
        records = [hit for hit in ranking.bearing if hit.id in evidence.kinds]
        threads = self._threads(records, ranking.hits, evidence.past, where)
        likely = dict(ranking.chances)
        for best, new in {**threads.newest, **threads.reverts}.items():
            likely[new] = max(likely.get(new, 0.0), likely.get(best, 0.0))
        return replace(
            ranking,
            bearing=with_newest(ranking.bearing, ranking.hits, threads.newest, threads.reverts),
            chances=likely,
            restated={**ranking.restated, **threads.reverts},
            newest=threads.newest,
        )

    def _with_tie(
        self,
        ranking: Ranking,
        query: Query,
        where: RecordFilter,
        background: Background,
        foreseen: ForeseenPath | None,
    ) -> Ranking:
        """Add how two things that the query names are tied, with its records, as likely as the best of the others."""
        tie: Tie | None = None
        with suppress(StoreUnavailable):  # It only adds to what was found.
            tie = self._ties(query, where, background, self._clock(), foreseen) if ranking.bearing else None
        if tie is None:
            return ranking
        likely = dict.fromkeys(tie.records, max(ranking.chances.values(), default=0.0))
        return replace(
            ranking,
            bearing=with_tie(ranking.bearing, ranking.hits, tie.records),
            chances={**ranking.chances, **likely},
            tie=tie,
        )

    def _best(
        self, hits: Sequence[Fused], where: RecordFilter, then: PastView | None, work: OpenWork | None
    ) -> Mapping[str, str]:
        """Return the texts of the best hits by id, best first, as they were then."""
        ids = [hit.id for hit in hits[:BEST_READ]]
        tasks: Mapping[str, Task] = work.tasks if work else {}
        records = reader_at(self._records, then).get([each for each in ids if each not in tasks], where.scopes)
        texts = {each: searched_text(tasks[each]) for each in ids if each in tasks}
        texts |= {each: record.searchable_text for each, record in records.items()}
        return {each: texts[each] for each in ids if each in texts}

    def _once_more(
        self,
        hits: list[Fused],
        query: Query,
        evidence: Evidence,
        where: RecordFilter,
        restated: Collection[str],
    ) -> list[Fused]:
        """Rank higher what shares a name with the first record that the query lacks."""
        if not starts_hop(hits) or hits[0].id not in evidence.kinds:
            return hits
        names = self._graph.named_beside(hits[0].id, where.scopes, MOST_HOLDERS, where.hidden_branches)
        fixed = {*evidence.superseded, *evidence.past, *restated}
        return hopped(hits, names, query.terms, evidence.background.records, fixed) if names else hits

    def _behind_memory(
        self, hits: list[Fused], evidence: Evidence, where: RecordFilter, known: float
    ) -> tuple[list[Fused], Mapping[str, str]]:
        """Rank the log behind what was stored, and each text once; of the query's words the model knows a share."""
        hits = behind_answers(hits, evidence.echoes, evidence.repeating)
        best = [hit.id for hit in hits[:COMPARED] if hit.id in evidence.kinds]
        if known >= LEAST_KNOWN and len({evidence.kinds[each] in LOG_KINDS for each in best}) > 1:
            with suppress(StoreUnavailable):  # It only orders what was found.
                pairs = self._vectors.alike(where.scopes, best, SAME_COSINE)
                hits = behind_stored(hits, evidence.kinds, pairs)
        hits = by_own_evidence(hits, evidence.kinds, evidence.turns)
        return once(hits, evidence.said, evidence.kinds, evidence.importance)

    def read(self, text: str) -> ParsedQuery:
        """Read the query's signals: its words, its time span, and its embedding, which takes time."""
        degraded: list[str] = []
        plain, _ = without_controls(text)
        return ParsedQuery(query=self._signals(plain, degraded), degraded=tuple(degraded))

    def gather(self, text: str, where: RecordFilter, limit: int = CANDIDATES_PER_SOURCE) -> Evidence:
        """Collect the evidence that recall weighs for a query."""
        return self.weigh(self.read(text), where, limit)

    def weigh(
        self,
        read: ParsedQuery,
        where: RecordFilter,
        limit: int,
        then: PastView | None = None,
        true_at: Instant | None = None,
    ) -> Evidence:
        """Ask every source, and let each score the candidates of the others."""
        degraded, query = list(read.degraded), read.query
        if waiting := self._records.count_unembedded(where):
            degraded.append(_waiting(waiting))
        if query.span and query.is_only_time:
            where = narrowed(where, query.span)
        said: Mapping[str, Mapping[str, float]] = {}
        if then:  # The indexes know what was reworded by its present words.
            said = self._said_then(query, where, then, degraded)
            where = replace(where, exclude=where.exclude | then.reworded, passing=None)
        if where.is_selective:
            where = replace(where, passing=self._filters.passing(where))
        rankings = self._ask_sources(query, where, limit, degraded)
        found = {name: len(scores) for name, scores in rankings.items()}
        outlines = self._outlined(rankings, where)
        if self._are_lines(outlines, where, rankings, limit):
            rankings = self._with_stored(query, where, rankings)
        rankings = self._complete(query, where, rankings, degraded)
        rankings |= {name: {**rankings.get(name, {}), **scores} for name, scores in said.items()}
        outlines |= self._outlined(rankings, where, outlines)
        background, neighbours = Background(), dict[str, Sequence[str]]()
        try:
            background = self._background(query, where, rankings)
            if then:
                holders = {i: nats for i, nats in background.holders.items() if i not in then.reworded}
                background = replace(background, holders=holders)
            neighbours.update(self._keywords.neighbours(outlines, where.scopes))
        except StoreUnavailable as error:  # Found all the same, only weighed less well.
            degraded.append(f"weighing: {error}")
        reworded = then.reworded if then else frozenset[str]()
        lines, query_words = _prompts(outlines, where), words_digest(query.text)
        said_now = {i: each.said for i, each in outlines.items() if not each.superseded_by and i not in reworded}
        return Evidence(
            rankings={name: _within(scores, outlines) for name, scores in rankings.items()},
            traits={source.name: source.traits for source in self._sources},
            background=background,
            neighbours=neighbours,
            sessions={i: outlines[i].session_id for i in neighbours if i in outlines},
            turns=_turns(query, outlines),
            kinds={i: outline.kind for i, outline in outlines.items()},
            tasks={i: outline.task_id for i, outline in outlines.items() if outline.task_id},
            superseded=frozenset(i for i, outline in outlines.items() if outline.superseded_by),
            past=_past(outlines, then.records if then else {}, then.at if then else self._clock(), true_at),
            said=said_now,
            importance={i: each.importance for i, each in outlines.items()},
            echoes=echoes((i for i in lines if outlines[i].form.only_asks), rankings, background.information),
            repeating=frozenset(i for i in lines if outlines[i].said.words == query_words),
            found=found,
            degraded=tuple(degraded),
        )

    def between(self, since: str | None, until: str | None) -> tuple[Instant | None, Instant | None]:
        """Return the start of the span of `since` and the end of that of `until`.

        Raises:
            InvalidRequest: one of them names no time, or nothing lies between them.
        """
        begin = self.instant(since) if since else None
        end = self.instant(until, end=True) if until else None
        if begin is not None and end is not None and begin >= end:
            raise InvalidRequest("since is not before until; exchange them.")
        return begin, end

    def instant(self, phrase: str, *, end: bool = False, ahead: bool = False) -> Instant:
        """Read an ISO time, a date or a phrase as an instant: the start of its span, or with `end` its end.

        With `ahead` a day without a year is the next one, not the last.

        Raises:
            InvalidRequest: the phrase names no time.
        """
        span = self._dates.read(phrase, self._clock(), ahead=ahead)
        if span is None:
            raise InvalidRequest(
                f"{phrase[:60]!r} is not a time; use ISO 8601 (2026-11-20), or a phrase like 'last week'."
            )
        return span[1] if end else span[0]

    def validity(self, begin: str, end: str) -> Validity:
        """Read the beginning and the end of a validity, "" where not given. Raises as `instant`.

        A day without a year is the last one for the beginning and the next one for the end, which it is part of.
        """
        read: Validity = {}
        if begin:
            read["valid_from"] = self.instant(begin)
        if end:
            read["valid_until"] = self.instant(end, end=True, ahead=True)
        return read

    def moments(self, as_of: str | None, valid_at: str | None) -> tuple[Instant | None, Instant | None]:
        """Read both as `moment` does, as far as they are given."""
        believed, true = (self.moment(phrase) if phrase else None for phrase in (as_of, valid_at))
        return believed, true

    def moment(self, phrase: str) -> Instant:
        """Read a phrase as the moment that "as of" it means: the last one of its span. Raises as `instant` does."""
        return self.instant(phrase, end=True) - LEAST_SECONDS

    def _signals(self, text: str, degraded: list[str]) -> Query:
        span, only_time, is_past = self._time_in(text)
        if only_time:  # Its words say nothing else: whatever was then answers it.
            return Query(text=text, terms=(), span=span, is_only_time=True)
        vector, known = None, 1.0
        try:
            with traced("embed"):
                vector, known = self._embedder.embed_query(text), self._embedder.share_known(text)
        except StoreUnavailable as error:
            degraded.append(f"vector: {error}")
        return Query(
            text=text,
            terms=tuple(query_terms(text)),
            vector=vector,
            embedder=self._embedder.id,
            known=known,
            span=span,
            is_past=is_past,
        )

    def _time_in(self, text: str) -> tuple[tuple[Instant, Instant] | None, bool, bool]:
        """Return the span that a query asks for, whether it asks for nothing else, and whether that time is over."""
        when, now = time_phrase(text), self._clock()
        named = self._dates.read(when.phrase, now) if when else None
        if when is None or named is None:
            return None, False, False
        only_time = asks_only_when(text, when.text, when.language)
        return (None if when.is_alone and not only_time else when.span(named, now)), only_time, when.is_past

    def _ask_sources(
        self, query: Query, where: RecordFilter, limit: int, degraded: list[str]
    ) -> dict[str, Mapping[str, float]]:
        """Ask all sources; one that fails is named in `degraded` and the others answer.

        Those that wait for something outside do so in threads, while this one computes the others' answers.
        """
        asked: dict[str, Future[Mapping[str, float]]] = {
            # Each reads the revision of the request, and is done before the request ends.
            source.name: self._pool.submit(copy_context().run, _searched, source, query, where, limit)
            for source in self._sources
            if source.waits(where)
        }
        rankings: dict[str, Mapping[str, float]] = {}
        failures: list[StoreUnavailable] = []

        def take(name: str, answer: Callable[[], Mapping[str, float]]) -> None:
            try:
                rankings[name] = answer()
            except StoreUnavailable as error:
                failures.append(error)
                degraded.append(f"{name}: {error}")

        try:
            for source in self._sources:
                if source.name not in asked:
                    take(source.name, partial(_searched, source, query, where, limit))
        finally:
            wait(asked.values())
        for name, future in asked.items():
            take(name, future.result)
        if failures and not rankings:
            raise failures[0]
        return {source.name: rankings[source.name] for source in self._sources if source.name in rankings}

    def _outlined(
        self, rankings: Mapping[str, Mapping[str, float]], where: RecordFilter, known: Collection[str] = ()
    ) -> dict[str, Outline]:
        found = set[str]().union(*rankings.values()).difference(known)
        return {**self._filters.outlines(found, where.scopes)} if found else {}

    def _are_lines(
        self,
        outlines: Mapping[str, Outline],
        where: RecordFilter,
        rankings: Mapping[str, Mapping[str, float]],
        limit: int,
    ) -> bool:
        """Return True where lines of the log took nearly every place, and stored records are searched, too."""
        if max(map(len, rankings.values()), default=0) < limit:
            return False
        is_log = where.kinds and where.kinds.isdisjoint(LASTING_KINDS)
        return not is_log and sum(each.kind in LASTING_KINDS for each in outlines.values()) < LEAST_STORED

    def _with_stored(
        self, query: Query, where: RecordFilter, rankings: Mapping[str, Mapping[str, float]]
    ) -> Mapping[str, Mapping[str, float]]:
        """Ask again for stored records alone.

        A question that was asked a hundred times fills a search that finds no more than the nearest.
        """
        stored = replace(where, kinds=(where.kinds or LASTING_KINDS) & LASTING_KINDS, passing=None)
        stored = replace(stored, passing=self._filters.passing(stored))
        if not stored.passing:
            return rankings
        more: Mapping[str, Mapping[str, float]] = {}
        with suppress(StoreUnavailable):
            more = self._ask_sources(query, stored, LEAST_STORED, [])
        return {name: {**more.get(name, {}), **scores} for name, scores in rankings.items()}

    def _complete(
        self,
        query: Query,
        where: RecordFilter,
        rankings: Mapping[str, Mapping[str, float]],
        degraded: list[str],
    ) -> dict[str, Mapping[str, float]]:
        """Have each source score the candidates that only others found, so that sums are comparable."""
        everyone = set[str]().union(*rankings.values())
        complete: dict[str, Mapping[str, float]] = {}
        for source in self._sources:
            if source.name in rankings:
                known = rankings[source.name]
                missing = everyone - known.keys()
                try:
                    complete[source.name] = {**known, **source.scores(query, where, missing)} if missing else known
                except StoreUnavailable as error:
                    complete[source.name] = known
                    degraded.append(f"{source.name}: {error}")
        return complete

    def _said_then(
        self, query: Query, where: RecordFilter, then: PastView, degraded: list[str]
    ) -> Mapping[str, Mapping[str, float]]:
        """Return the scores, by source, of what passes and was reworded since, by the words that it had."""
        among = self._filters.passing(replace(where, only=then.reworded, passing=None))
        try:
            reworded = [each for each in then.reworded if each in among]
            return earlier_scores(query, then, reworded, self._keywords, self._embedder)
        except StoreUnavailable as error:
            degraded.append(f"earlier texts: {error}")
            return {}

    def _background(self, query: Query, where: RecordFilter, rankings: Mapping[str, Mapping[str, float]]) -> Background:
        """Return the usual scores here. Cosines are left out where the vector search failed."""
        rarity = self._keywords.rarity(query.terms, where.scopes)
        background = Background(
            records=rarity.records,
            information=rarity.information,
            holders=rarity.holders,
            nats=rarity.nats,
            absent=rarity.absent,
        )
        if query.vector is None or not rankings.get("vector"):
            return background
        usual = self._vectors.usual_cosine(query.vector, where.scopes)
        windows = self._vectors.windows(where.scopes, rankings["vector"])
        return replace(
            background,
            cosine_mean=usual.mean,
            cosine_mean_square=usual.mean_square,
            windows=windows,
            known=query.known,
        )

    def _rank_successors(self, hits: list[Fused], evidence: Evidence, where: RecordFilter) -> list[Fused]:
        """Rank each replaced record below its successor; drop an earlier summary, which the later one contains."""
        known = {hit.id for hit in hits}
        successors = self._successors(evidence.superseded, where.scopes)
        if not successors:
            return hits
        allowed = known | self._allowed(set(successors.values()) - known, where)
        known_newer = {a: b for a, b in successors.items() if b in allowed and a != b}
        ranked = below_successors(hits, known_newer)
        if where.include_inactive:
            return ranked
        merged = {record_id for record_id in known_newer if evidence.kinds.get(record_id) == "summary"}
        return [hit for hit in ranked if hit.id not in merged]

    def _successors(self, record_ids: Collection[str], scopes: Sequence[str]) -> Mapping[str, str]:
        """Follow each chain of corrections to its end, in memory as far as it stays in these scopes."""
        newer: dict[str, str | None] = {}
        unread = set(record_ids)
        while unread:
            outlines = self._filters.outlines(unread, scopes)
            if len(outlines) < len(unread):
                return self._records.successors(record_ids)
            newer |= {record_id: each.superseded_by for record_id, each in outlines.items()}
            unread = {each for each in newer.values() if each}.difference(newer)
        ends: dict[str, str] = {}
        for record_id in record_ids:
            following = newer[record_id]
            for _ in newer:  # No chain is longer, even if it were a circle.
                if following:
                    ends[record_id] = following
                    following = newer[following]
        return ends

    def _read_best(
        self,
        best: Sequence[str],
        compared: Sequence[str],
        where: RecordFilter,
        path: Callable[[], ForeseenPath] | None,
    ) -> ForeseenPath | None:
        """Read the best records where they are far, with what is asked of others next, in one journey."""
        wanted: dict[str, None] = dict.fromkeys(best)
        foreseen: list[ForeseenPath] = []

        def read() -> None:
            with suppress(StoreUnavailable):  # It only adds to what was found.
                foreseen.extend([path()] if path else ())
            for each in foreseen:
                wanted.update(dict.fromkeys(sorted(set[str]().union(*each.holders.values()))))
            self._records.get(wanted, where.scopes)

        if self._records.ahead(read, lambda: self.restatements(compared, where)):
            self._records.get(wanted, where.scopes)
        return foreseen[0] if foreseen else None

    def restatements(self, record_ids: Collection[str], where: RecordFilter) -> Mapping[str, str]:
        """Map those of the records that say again, in other words, what was corrected, to the correction."""
        with suppress(StoreUnavailable):  # It only orders what was found.
            return self._corrections.restatements(record_ids, where) if len(record_ids) > 1 else {}
        return {}

    def _allowed(self, record_ids: Collection[str], where: RecordFilter) -> frozenset[str]:
        """Return the successors that pass the same filter as all candidates."""
        if not record_ids:
            return frozenset()
        return frozenset(filter(self._filters.passing(where).__contains__, record_ids))


def _searched(source: Source, query: Query, where: RecordFilter, limit: int) -> Mapping[str, float]:
    with traced("source", source.name) as span:
        found = source.search(query, where, limit)
        span.tell(found=len(found))
    return found


def _within(scores: Mapping[str, float], known: Mapping[str, Outline]) -> Mapping[str, float]:
    return scores if scores.keys() <= known.keys() else {i: score for i, score in scores.items() if i in known}


def _past(
    outlines: Mapping[str, Outline], then: Mapping[str, Record], at: Instant, true_at: Instant | None
) -> frozenset[str]:
    """Return what is not true at that time, and what such a record replaced.

    What was replaced may have been true at an earlier time that is asked about: `true_at`.
    """
    past = {
        i for i, outline in outlines.items() if not is_valid(then.get(i, outline), at if true_at is None else true_at)
    }
    if true_at is not None:
        return frozenset(past)
    return frozenset(past | {i for i, outline in outlines.items() if outline.superseded_by in past})


def _prompts(outlines: Mapping[str, Outline], where: RecordFilter) -> list[str]:
    """Return the messages that are not the assistant's; none where the log alone is searched."""
    if where.kinds and where.kinds <= LOG_KINDS:
        return []
    return [i for i, each in outlines.items() if each.kind == "message" and not each.form.is_assistant]


def _by_task(tasks: Mapping[str, str], stack: Stack | None, candidates: int) -> Mapping[str, float]:
    """Return the nats of each record of a task on the stack's path, or of a dead end beside it.

    Where half of the candidates belong to the path, that one does says little: a task may last for months.
    """
    if stack is None or not stack.path:
        return {}
    path = [task.id for task in reversed(stack.path)]
    on_path = sum(task in path for task in tasks.values())
    told = min(log((candidates + 1) / max(on_path, 1)) / PATH_NATS[0], 1.0)
    nats = {task.id: DEAD_END_NATS for task in stack.dead_ends}
    nats |= {task: told * PATH_NATS[min(above, len(PATH_NATS) - 1)] for above, task in enumerate(path)}
    return {record_id: nats[task] for record_id, task in tasks.items() if task in nats}


def _turns(query: Query, outlines: Mapping[str, Outline]) -> Mapping[str, Turn]:
    """Return the turns whose form says something about them as answers."""
    named = named_speakers({outline.speaker for outline in outlines.values() if outline.speaker}, query.terms)
    turns = {i: spoken(each.form, each.speaker, named) for i, each in outlines.items()}
    return {record_id: turn for record_id, turn in turns.items() if turn is not PLAIN}


def _waiting(records: int) -> str:
    """Say which records vector search leaves out for now."""
    are = "records are" if records > 1 else "record is"
    return (
        f"vector: {records} {are} not embedded yet, and found by words alone; all others are searched. A server embeds"
        " what waits, or `mcp-memory reindex`"
    )
