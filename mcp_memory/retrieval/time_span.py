"""Candidates from the time a query speaks of, whatever their words."""

from collections.abc import Collection, Mapping
from dataclasses import replace

from mcp_memory.domain.queries import Query
from mcp_memory.domain.scopes import RecordFilter, narrowed
from mcp_memory.ports import RecordStore


class TimeSpanSource:
    """Implements `Source`: the newest records of the query's span, all with the score 1."""

    name = "time"

    def __init__(self, records: RecordStore) -> None:
        self._records = records

    def search(self, query: Query, where: RecordFilter, limit: int) -> Mapping[str, float]:
        if query.span is None:
            return {}
        within = narrowed(where, query.span)
        return dict.fromkeys(self._records.list_ids(within, "occurred", limit), 1.0)

    def scores(self, query: Query, where: RecordFilter, record_ids: Collection[str]) -> Mapping[str, float]:
        if query.span is None or not record_ids:
            return {}
        return self.search(query, replace(where, only=frozenset(record_ids)), len(record_ids))
