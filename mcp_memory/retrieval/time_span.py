"""Candidates from the time a query speaks of, whatever their words: the rarer such a time, the more it tells."""

from collections.abc import Collection, Mapping
from dataclasses import replace
from math import log

from mcp_memory.domain.queries import Query
from mcp_memory.domain.scopes import RecordFilter, narrowed
from mcp_memory.ports import RecordStore


class TimeSpanSource:
    """Implements `Source`: the newest records of the query's span.

    All score the information of that time in nats: minus the logarithm of the share of records that lie in it.
    """

    name = "time"

    def __init__(self, records: RecordStore) -> None:
        self._records = records
        self._last: tuple[object, float] = (None, 0.0)

    def search(self, query: Query, where: RecordFilter, limit: int) -> Mapping[str, float]:
        if query.span is None:
            return {}
        within = narrowed(where, query.span)
        return dict.fromkeys(self._records.list_ids(within, "occurred", limit), self._information(within, where))

    def scores(self, query: Query, where: RecordFilter, record_ids: Collection[str]) -> Mapping[str, float]:
        if query.span is None or not record_ids:
            return {}
        within = narrowed(where, query.span)
        passing = self._records.matching_ids(replace(within, only=frozenset(record_ids)))
        return dict.fromkeys(passing, self._information(within, where))

    def _information(self, within: RecordFilter, where: RecordFilter) -> float:
        """Counted once a recall, which asks twice: all records are many."""
        asked = (self._records.revision(), within, where)
        last, information = self._last
        if last != asked:
            information = log((self._records.count(where) + 1) / (self._records.count(within) + 1))
            self._last = (asked, information)
        return information
