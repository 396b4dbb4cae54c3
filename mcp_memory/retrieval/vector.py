"""Candidates whose meaning is near the query's, ranked by cosine."""

from collections.abc import Collection, Mapping

from mcp_memory.domain.queries import Query
from mcp_memory.domain.scopes import RecordFilter
from mcp_memory.ports import RecordStore, VectorStore


class VectorSource:
    """Implements `Source` on a vector store; a selective filter is resolved by the record store first."""

    name = "vector"

    def __init__(self, records: RecordStore, vectors: VectorStore) -> None:
        self._records = records
        self._vectors = vectors

    def search(self, query: Query, where: RecordFilter, limit: int) -> Mapping[str, float]:
        if query.vector is None:
            return {}
        only = self._records.matching_ids(where) if where.is_selective else None
        # Open branches hold few records: leaving those out is cheaper than naming all others.
        hidden = self._records.ids_in_branches(where.hidden_branches) if where.hidden_branches else frozenset[str]()
        return self._vectors.search(query.vector, where.scopes, limit, only, where.exclude | hidden)

    def scores(self, query: Query, where: RecordFilter, record_ids: Collection[str]) -> Mapping[str, float]:
        if query.vector is None:
            return {}
        return self._vectors.similarities(query.vector, where.scopes, record_ids)
