"""Finds candidates from the time that a query mentions, whatever their words: a rarer time scores higher."""

from collections.abc import Collection, Mapping
from math import log

from mcp_memory.domain.model.ids import RecordSet
from mcp_memory.domain.model.scopes import RecordFilter, narrowed
from mcp_memory.domain.retrieval.fusion import SourceTraits
from mcp_memory.domain.retrieval.queries import Query
from mcp_memory.ports.retrieval import FilterIndex


class TimeSpanSource:
    """Implements `Source`: the newest records of the query's span.

    All score the information of that time in nats: minus the logarithm of the share of records within it.
    """

    name = "time"
    traits = SourceTraits(weight=0.5, is_certain=True)

    def __init__(self, filters: FilterIndex) -> None:
        self._filters = filters

    def waits(self, where: RecordFilter) -> bool:
        return False

    def search(self, query: Query, where: RecordFilter, limit: int) -> Mapping[str, float]:
        if query.span is None:
            return {}
        within = self._filters.passing(narrowed(where, query.span))
        return dict.fromkeys(self._filters.newest(within, where.scopes, limit), self._information(within, where))

    def scores(self, query: Query, where: RecordFilter, record_ids: Collection[str]) -> Mapping[str, float]:
        if query.span is None or not record_ids:
            return {}
        within = self._filters.passing(narrowed(where, query.span))
        return dict.fromkeys(filter(within.__contains__, record_ids), self._information(within, where))

    def _information(self, within: RecordSet, where: RecordFilter) -> float:
        return log((len(self._filters.passing(where)) + 1) / (len(within) + 1))
