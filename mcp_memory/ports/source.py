"""One way to find candidates, as retrieval puts them side by side."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Protocol

from mcp_memory.domain.model.scopes import RecordFilter
from mcp_memory.domain.retrieval.queries import Query


class Source(Protocol):
    """One way to find candidates for a query."""

    @property
    def name(self) -> str: ...

    def search(self, query: Query, where: RecordFilter, limit: int) -> Mapping[str, float]:
        """Ids and scores, best first, at most `limit`, all of them passing `where`. May raise StoreUnavailable."""
        ...

    def scores(self, query: Query, where: RecordFilter, record_ids: Collection[str]) -> Mapping[str, float]:
        """This source's scores of records that another source found; those it cannot score are left out."""
        ...
