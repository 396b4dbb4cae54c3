"""The index as the follower and the search use it: typed operations over a link, each with its deadline."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import numpy as np

from mcp_memory.stores.vectors.chroma.location import IndexFailure, IndexPlace, IndexStatus
from mcp_memory.stores.vectors.chroma.worker_client import Link

if TYPE_CHECKING:
    from mcp_memory.domain.retrieval.queries import Vector

OPEN_SECONDS = 60.0
"""Enough to import Chroma and open a large index, on a busy machine."""
CALL_SECONDS = 30.0
"""For anything but a query: after this the process counts as hung."""


class IndexClient:
    """One opened index. Raises IndexFailure from any method; thread-safe."""

    def __init__(self, link: Link) -> None:
        self._link = link

    def open(self, place: IndexPlace, *, fresh: bool, erased: int = 0) -> IndexStatus:
        """Open the index. A new or `fresh` one holds nothing that was erased up to the change `erased`."""
        return IndexStatus(**self._ask("open", seconds=OPEN_SECONDS, place=asdict(place), fresh=fresh, erased=erased))

    def standing(self) -> IndexStatus:
        return IndexStatus(**self._ask("stand"))

    def names(self) -> Sequence[str]:
        """Return the names of the collections."""
        return self._ask("names")

    def keys(self, name: str) -> Sequence[str]:
        return self._ask("keys", name=name)

    def put(self, name: str, vectors: Mapping[str, Vector]) -> None:
        self._ask("put", np.stack(list(vectors.values())).tobytes(), name=name, keys=list(vectors))

    def delete(self, name: str, keys: Collection[str]) -> None:
        self._ask("delete", name=name, keys=list(keys))

    def drop(self, names: Collection[str]) -> None:
        self._ask("drop", names=list(names))

    def erase(self, record_ids: Collection[str]) -> None:
        """Delete everything that belongs to the records; for servers, whose collections know their records."""
        self._ask("erase", records=list(record_ids))

    def rest(self, applied: int, touched: Collection[str], reached: Mapping[str, int] | None = None) -> None:
        """Wait until everything up to the revision `applied` is on disk, and record that.

        `reached` is what it holds of each scope, for other servers that ask it.
        """
        self._ask("rest", applied=applied, names=list(touched))

    def clear(self) -> None:
        """Empty an index on a server; a directory is rebuilt by a new process instead."""
        self._ask("clear")

    def query(self, names: Sequence[str], vector: Vector, limit: int, seconds: float) -> list[list[str]]:
        """Return per collection the keys of about the `limit` nearest vectors, best first. May raise TimeoutError."""
        asked = {"do": "query", "names": list(names), "limit": limit}
        return self._link.call(asked, vector.tobytes(), seconds=seconds)["result"]

    def close(self) -> None:
        self._link.close()

    def _ask(self, do: str, body: bytes = b"", *, seconds: float = CALL_SECONDS, **given: Any) -> Any:
        try:
            return self._link.call({"do": do, **given}, body, seconds=seconds)["result"]
        except TimeoutError:
            raise IndexFailure(f"The index did not answer for {seconds:g} s.", keep=True) from None
