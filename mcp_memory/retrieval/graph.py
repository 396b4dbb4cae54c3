"""Finds candidates that mention the query's entities, or entities related to them."""

from collections.abc import Collection, Mapping
from itertools import islice
from math import log

from mcp_memory.domain.model.scopes import RecordFilter, partitions_of
from mcp_memory.domain.retrieval.fusion import PRIOR_RECORDS, SourceTraits
from mcp_memory.domain.retrieval.queries import Query
from mcp_memory.domain.text.words import query_terms
from mcp_memory.ports.records import MemoryReader
from mcp_memory.ports.retrieval import FilterIndex, GraphStore, KeywordStore
from mcp_memory.retrieval.eligible import eligible

MAX_REACHED = 10_000
"""Above the number that activation ever reaches: it has its own bound."""


class GraphSource:
    """Implements `Source` by spreading activation from the entities that the query mentions.

    Scores are nats: minus the logarithm of the share of records that are activated as strongly, times the share of
    the query's words that name entities, since the graph knows nothing about the others. Without a name, no
    candidates.
    """

    name = "graph"
    traits = SourceTraits(weight=0.5)

    def __init__(self, records: MemoryReader, filters: FilterIndex, graph: GraphStore, keywords: KeywordStore) -> None:
        self._records = records
        self._filters = filters
        self._graph = graph
        self._keywords = keywords
        self._last: tuple[object, Mapping[str, float]] = (None, {})

    def waits(self, where: RecordFilter) -> bool:
        return False

    def search(self, query: Query, where: RecordFilter, limit: int) -> Mapping[str, float]:
        told = self._told(query, where)
        if not told:
            return {}
        among = eligible(where, self._records, self._filters)
        passing = (
            (record_id, nats)
            for record_id, nats in told.items()
            if (among.only is None or record_id in among.only) and record_id not in among.exclude
        )
        return dict(islice(passing, limit))

    def scores(self, query: Query, where: RecordFilter, record_ids: Collection[str]) -> Mapping[str, float]:
        told = self._told(query, where)
        return {record_id: told[record_id] for record_id in record_ids if record_id in told}

    def _told(self, query: Query, where: RecordFilter) -> Mapping[str, float]:
        """Return every record that activation reaches, the most activated first. Cached, since a recall asks twice."""
        asked = (self._records.revisions(partitions_of(where.scopes)), query.text, where.scopes, where.hidden_branches)
        last, told = self._last
        if last != asked:
            told = self._reached(query, where)
            self._last = (asked, told)
        return told

    def _reached(self, query: Query, where: RecordFilter) -> Mapping[str, float]:
        seeds = self._graph.mentioned(query.text, where.scopes, where.hidden_branches)
        if not seeds or not query.terms:
            return {}
        words = [set(query_terms(key)).intersection(query.terms) for key in seeds]
        # An entity of which no word is in the query was named by an alias: "k8s" for Kubernetes.
        naming = len(set[str]().union(*words)) + sum(not named for named in words)
        share = min(naming / len(query.terms), 1.0)
        reached = self._graph.activate(seeds, where.scopes, MAX_REACHED, where.hidden_branches)
        as_strong = {activation: place for place, activation in enumerate(reached.values(), 1)}  # Ties: the last place.
        records = self._keywords.rarity(query.terms, where.scopes).records + PRIOR_RECORDS
        nats = {activation: share * log(records / place) for activation, place in as_strong.items()}
        return {record_id: nats[activation] for record_id, activation in reached.items()}
