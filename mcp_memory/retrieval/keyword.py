"""Candidates that share words with the query, ranked by BM25."""

from collections.abc import Collection, Mapping
from dataclasses import replace

from mcp_memory.domain.queries import Query
from mcp_memory.domain.scopes import RecordFilter
from mcp_memory.ports import RecordStore


class KeywordSource:
    """Implements `Source` on the record store's keyword index."""

    name = "keyword"

    def __init__(self, records: RecordStore) -> None:
        self._records = records

    def search(self, query: Query, where: RecordFilter, limit: int) -> Mapping[str, float]:
        return self._records.keyword_search(query.terms, where, limit)

    def scores(self, query: Query, where: RecordFilter, record_ids: Collection[str]) -> Mapping[str, float]:
        only = replace(where, only=frozenset(record_ids), include_inactive=True)
        return self._records.keyword_search(query.terms, only, len(record_ids))
