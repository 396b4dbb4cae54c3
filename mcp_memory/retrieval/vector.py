"""Finds candidates whose meaning is near the query's, ranked by cosine."""

from collections.abc import Collection, Mapping

from mcp_memory.domain.model.scopes import RecordFilter
from mcp_memory.domain.retrieval.fusion import SourceTraits
from mcp_memory.domain.retrieval.queries import Query
from mcp_memory.ports.records import RecordReader
from mcp_memory.ports.retrieval import FilterIndex, VectorStore
from mcp_memory.retrieval.eligible import eligible


class VectorSource:
    """Implements `Source` on a vector store; a selective filter is resolved first."""

    name = "vector"
    traits = SourceTraits(admits_alone=False)

    def __init__(self, records: RecordReader, filters: FilterIndex, vectors: VectorStore) -> None:
        self._records = records
        self._filters = filters
        self._vectors = vectors

    def waits(self, where: RecordFilter) -> bool:
        return not where.is_selective and self._vectors.waits(where.scopes)

    def search(self, query: Query, where: RecordFilter, limit: int) -> Mapping[str, float]:
        if query.vector is None:
            return {}
        among = eligible(where, self._records, self._filters)
        return self._vectors.search(query.vector, where.scopes, limit, among.only, among.exclude)

    def scores(self, query: Query, where: RecordFilter, record_ids: Collection[str]) -> Mapping[str, float]:
        if query.vector is None:
            return {}
        return self._vectors.similarities(query.vector, where.scopes, record_ids)
