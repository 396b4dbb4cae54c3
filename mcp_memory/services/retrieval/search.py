"""From a query's text to a fused ranking: signals, sources side by side, fusion. Recall and assembly begin here."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from concurrent.futures import Executor, Future, wait
from contextvars import copy_context
from dataclasses import dataclass, replace

from mcp_memory.domain.model.records import Instant, Kind
from mcp_memory.domain.model.scopes import RecordFilter, narrowed
from mcp_memory.domain.retrieval.fusion import Background, Fused, below_successors, fuse
from mcp_memory.domain.retrieval.queries import Query
from mcp_memory.domain.text.control_characters import without_controls
from mcp_memory.domain.text.times import asks_only_when, time_phrase
from mcp_memory.domain.text.words import query_terms
from mcp_memory.errors import InvalidRequest, StoreUnavailable
from mcp_memory.ports.records import RecordStore
from mcp_memory.ports.retrieval import FilterIndex, KeywordStore, Source, VectorStore
from mcp_memory.ports.text import Clock, DateReader, Embedder

CANDIDATES_PER_SOURCE = 60
"""R@20 and evidence in 1,000 tokens are those of 100 and 400 (benchmarks/retrieval.py), at less work."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Read:
    """A query's signals, and what could not be made out and why."""

    query: Query
    degraded: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """What is known of a query's candidates before they are weighed.

    `rankings` holds each source's scores of all candidates, `neighbours` the dialogue turns beside a candidate that are
    candidates themselves; `found` says how many each source found, `degraded` which could not be asked and why.
    """

    rankings: Mapping[str, Mapping[str, float]]
    background: Background
    neighbours: Mapping[str, Sequence[str]]
    assistants: frozenset[str]
    superseded: frozenset[str]
    kinds: Mapping[str, Kind]
    found: Mapping[str, int]
    degraded: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Ranking:
    """Candidates best first and their kinds, how many each source found, and which sources could not be asked.

    All of the query's words together would tell `information` nats.
    """

    hits: tuple[Fused, ...]
    kinds: Mapping[str, Kind]
    found: Mapping[str, int]
    degraded: tuple[str, ...]
    information: float = 0.0


class Querying:
    """Ranks records for a query. Thread-safe."""

    def __init__(
        self,
        records: RecordStore,
        vectors: VectorStore,
        keywords: KeywordStore,
        filters: FilterIndex,
        embedder: Embedder,
        dates: DateReader,
        sources: Sequence[Source],
        pool: Executor,
        clock: Clock,
    ) -> None:
        self._records = records
        self._vectors = vectors
        self._keywords = keywords
        self._filters = filters
        self._embedder = embedder
        self._dates = dates
        self._sources = sources
        self._pool = pool
        self._clock = clock

    def rank(
        self, read: Read, where: RecordFilter, limit: int = CANDIDATES_PER_SOURCE, also: Collection[str] = ()
    ) -> Ranking:
        """All candidates of the query within the filter, superseded ones below what replaced them.

        `also` names further candidates, which pass the filter.
        """
        evidence = self.weigh(read, where, limit, also)
        hits = fuse(
            evidence.rankings,
            evidence.background,
            neighbours=evidence.neighbours,
            assistants=evidence.assistants,
        )
        hits = self._rank_successors(hits, evidence, where)
        return Ranking(
            hits=tuple(hits),
            kinds=evidence.kinds,
            found=evidence.found,
            degraded=evidence.degraded,
            information=evidence.background.information,
        )

    def read(self, text: str) -> Read:
        """The query's signals: its words, the time it speaks of, and its embedding, which is what takes time."""
        degraded: list[str] = []
        plain, _ = without_controls(text)
        return Read(query=self._signals(plain, degraded), degraded=tuple(degraded))

    def gather(self, text: str, where: RecordFilter, limit: int = CANDIDATES_PER_SOURCE) -> Evidence:
        """What recall weighs for a query."""
        return self.weigh(self.read(text), where, limit)

    def weigh(self, read: Read, where: RecordFilter, limit: int, also: Collection[str] = ()) -> Evidence:
        """Ask every source, and let each score what the others found."""
        degraded, query = list(read.degraded), read.query
        if waiting := self._records.count_unembedded(where):
            degraded.append(_waiting(waiting))
        if query.span and query.is_only_time:
            where = narrowed(where, query.span)
        if where.is_selective:
            where = replace(where, passing=self._filters.passing(where))
        if where.passing is not None:
            also = [record_id for record_id in also if record_id in where.passing]
        rankings = self._ask_sources(query, where, limit, degraded)
        found = {name: len(scores) for name, scores in rankings.items()}
        rankings = self._complete(query, where, rankings, also, degraded)
        outlines = self._records.outlines({i for scores in rankings.values() for i in scores}, where.scopes)
        background, neighbours = Background(), dict[str, Sequence[str]]()
        try:
            background = self._background(query, where, rankings)
            neighbours.update(self._keywords.neighbours(outlines))
        except StoreUnavailable as error:  # Found all the same, only weighed less well.
            degraded.append(f"weighing: {error}")
        return Evidence(
            rankings={name: {i: s for i, s in scores.items() if i in outlines} for name, scores in rankings.items()},
            background=background,
            neighbours=neighbours,
            assistants=frozenset(i for i, outline in outlines.items() if outline.role == "assistant"),
            kinds={i: outline.kind for i, outline in outlines.items()},
            superseded=frozenset(i for i, outline in outlines.items() if outline.superseded_by),
            found=found,
            degraded=tuple(degraded),
        )

    def between(self, since: str | None, until: str | None) -> tuple[Instant | None, Instant | None]:
        """Where the span of `since` begins and that of `until` ends.

        Raises:
            InvalidRequest: one of them names no time, or nothing lies between them.
        """
        begin = self.instant(since) if since else None
        end = self.instant(until, end=True) if until else None
        if begin is not None and end is not None and begin >= end:
            raise InvalidRequest("since is not before until; exchange them.")
        return begin, end

    def instant(self, phrase: str, *, end: bool = False) -> Instant:
        """An ISO time, a date or a phrase as an instant: where its span begins, or with `end` where it ends.

        Raises:
            InvalidRequest: the phrase names no time.
        """
        span = self._dates.read(phrase, self._clock())
        if span is None:
            raise InvalidRequest(
                f"{phrase[:60]!r} is not a time; use ISO 8601 (2026-11-20), or a phrase like 'last week'."
            )
        return span[1] if end else span[0]

    def _signals(self, text: str, degraded: list[str]) -> Query:
        when = time_phrase(text)
        named = self._dates.read(when.phrase, self._clock()) if when else None
        span = when.span(named) if when and named else None
        vector = None
        try:
            vector = self._embedder.embed_query(text)
        except StoreUnavailable as error:
            degraded.append(f"vector: {error}")
        only_time = bool(when and span and asks_only_when(text, when.text))
        return Query(text=text, terms=tuple(query_terms(text)), vector=vector, span=span, is_only_time=only_time)

    def _ask_sources(
        self, query: Query, where: RecordFilter, limit: int, degraded: list[str]
    ) -> dict[str, Mapping[str, float]]:
        """Every source at once; one that fails is named in `degraded` and the others answer."""
        asked: dict[str, Future[Mapping[str, float]]] = {
            # Each reads the revision of the request, and is done before the request ends.
            source.name: self._pool.submit(copy_context().run, source.search, query, where, limit)
            for source in self._sources
        }
        wait(asked.values())
        rankings: dict[str, Mapping[str, float]] = {}
        failures: list[StoreUnavailable] = []
        for name, answer in asked.items():
            try:
                rankings[name] = answer.result()
            except StoreUnavailable as error:
                failures.append(error)
                degraded.append(f"{name}: {error}")
        if failures and not rankings:
            raise failures[0]
        return rankings

    def _complete(
        self,
        query: Query,
        where: RecordFilter,
        rankings: Mapping[str, Mapping[str, float]],
        also: Collection[str],
        degraded: list[str],
    ) -> dict[str, Mapping[str, float]]:
        """Each source scores what only another one found, so that sums compare like with like."""
        everyone = {record_id for scores in rankings.values() for record_id in scores}.union(also)
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

    def _background(self, query: Query, where: RecordFilter, rankings: Mapping[str, Mapping[str, float]]) -> Background:
        """What is usual here. Of meaning nothing is known or needed where it could not be searched."""
        rarity = self._keywords.rarity(query.terms, where.scopes)
        background = Background(records=rarity.records, information=rarity.information)
        if query.vector is None or not rankings.get("vector"):
            return background
        usual = self._vectors.usual_cosine(query.vector, where.scopes)
        return replace(background, cosine_mean=usual.mean, cosine_mean_square=usual.mean_square)

    def _rank_successors(self, hits: list[Fused], evidence: Evidence, where: RecordFilter) -> list[Fused]:
        """What was replaced below what replaced it; an earlier summary, which the later one holds, is left out."""
        if not evidence.superseded:
            return hits
        successors = self._records.successors(evidence.superseded)
        known = {hit.id for hit in hits}
        allowed = known | self._allowed(set(successors.values()) - known, where)
        known_newer = {a: b for a, b in successors.items() if b in allowed and a != b}
        ranked = below_successors(hits, known_newer)
        if where.include_inactive:
            return ranked
        merged = {record_id for record_id in known_newer if evidence.kinds.get(record_id) == "summary"}
        return [hit for hit in ranked if hit.id not in merged]

    def _allowed(self, record_ids: Collection[str], where: RecordFilter) -> frozenset[str]:
        """Successors that pass the same filter as everything else."""
        if not record_ids:
            return frozenset()
        return frozenset(filter(self._filters.passing(where).__contains__, record_ids))


def _waiting(records: int) -> str:
    """What search by meaning leaves out for now."""
    are = "records are" if records > 1 else "record is"
    return (
        f"vector: {records} {are} not embedded yet, and found by words alone; all others are searched. A server embeds"
        " what waits, or `mcp-memory reindex`"
    )
