"""The index as the follower and the search use it: typed operations over a link, each with its deadline."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING

import numpy as np

from mcp_memory.stores.vectors.chroma.location import IndexFailure, IndexPlace
from mcp_memory.stores.vectors.chroma.open_index import Standing
from mcp_memory.stores.vectors.chroma.worker_client import Fields, Link

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

    def open(self, place: IndexPlace, *, fresh: bool, erased: int = 0) -> Standing:
        """Open the index. A new or `fresh` one holds nothing that was erased up to the change `erased`."""
        fields = {"do": "open", "place": asdict(place), "fresh": fresh, "erased": erased}
        return Standing(**self._call(fields, seconds=OPEN_SECONDS))

    def standing(self) -> Standing:
        return Standing(**self._call({"do": "stand"}))

    def names(self) -> Sequence[str]:
        """Return the names of the collections."""
        return self._call({"do": "names"})["names"]

    def keys(self, name: str) -> Sequence[str]:
        return self._call({"do": "keys", "name": name})["keys"]

    def put(self, name: str, vectors: dict[str, Vector]) -> None:
        body = np.stack(list(vectors.values())).tobytes()
        self._call({"do": "put", "name": name, "keys": list(vectors)}, body)

    def delete(self, name: str, keys: Collection[str]) -> None:
        self._call({"do": "delete", "name": name, "keys": list(keys)})

    def drop(self, names: Collection[str]) -> None:
        self._call({"do": "drop", "names": list(names)})

    def erase(self, record_ids: Collection[str]) -> None:
        """Delete everything that belongs to the records; for servers, whose collections know their records."""
        self._call({"do": "erase", "records": list(record_ids)})

    def rest(self, applied: int, touched: Collection[str]) -> None:
        """Wait until everything up to the change `applied` is on disk, and record that."""
        self._call({"do": "rest", "applied": applied, "names": list(touched)})

    def clear(self) -> None:
        """Empty an index on a server; a directory is rebuilt by a new process instead."""
        self._call({"do": "clear"})

    def query(self, names: Sequence[str], vector: Vector, limit: int, seconds: float) -> list[list[str]]:
        """Return per collection the keys of about the `limit` nearest vectors, best first. May raise TimeoutError."""
        fields = {"do": "query", "names": list(names), "limit": limit}
        return self._link.call(fields, vector.tobytes(), seconds=seconds)["keys"]

    def close(self) -> None:
        self._link.close()

    def _call(self, fields: Fields, body: bytes = b"", *, seconds: float = CALL_SECONDS) -> Fields:
        try:
            return self._link.call(fields, body, seconds=seconds)
        except TimeoutError:
            raise IndexFailure(f"The index did not answer for {seconds:g} s.", keep=True) from None
