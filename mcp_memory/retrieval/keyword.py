"""Finds candidates that share words with the query, ranked by the information of those words."""

from collections.abc import Collection, Mapping

from mcp_memory.domain.model.scopes import RecordFilter
from mcp_memory.domain.retrieval.fusion import SourceTraits
from mcp_memory.domain.retrieval.queries import Query
from mcp_memory.ports.records import RecordReader
from mcp_memory.ports.retrieval import FilterIndex, KeywordStore
from mcp_memory.retrieval.eligible import eligible


class KeywordSource:
    """Implements `Source` on a keyword store; a selective filter is resolved first."""

    name = "keyword"
    traits = SourceTraits()

    def __init__(self, records: RecordReader, filters: FilterIndex, keywords: KeywordStore) -> None:
        self._records = records
        self._filters = filters
        self._keywords = keywords

    def waits(self, where: RecordFilter) -> bool:
        return False

    def search(self, query: Query, where: RecordFilter, limit: int) -> Mapping[str, float]:
        if not query.terms:
            return {}
        among = eligible(where, self._records, self._filters)
        return self._keywords.search(query.terms, where.scopes, limit, among.only, among.exclude)

    def scores(self, query: Query, where: RecordFilter, record_ids: Collection[str]) -> Mapping[str, float]:
        return self._keywords.scores(
            query.terms, where.scopes, record_ids, eligible(where, self._records, self._filters).exclude
        )
