"""What recall by meaning is measured beside: exact search by numpy, and Chroma as it comes, on the same vectors."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from mcp_memory.shielded_chroma import import_chromadb

if TYPE_CHECKING:
    from mcp_memory.domain.model.records import NewRecord
    from mcp_memory.domain.retrieval.queries import Vector
    from mcp_memory.ports.text import Vectors

RESULTS = 10
_BATCH = 1_000


def nearest(vectors: Vectors, query: Vector) -> list[int]:
    """The rows of the ten nearest vectors, nearest first, by one matrix product."""
    cosines = vectors @ query
    best = np.argpartition(-cosines, RESULTS)[:RESULTS]
    return best[np.argsort(-cosines[best])].tolist()


class BareChroma:
    """An embedded collection in this process, with each record's kind as metadata."""

    def __init__(self, folder: Path, items: Sequence[NewRecord], vectors: Vectors) -> None:
        chromadb: Any = import_chromadb()
        self._client = chromadb.PersistentClient(str(folder))
        self._collection = self._client.create_collection(
            "bare", embedding_function=None, configuration={"hnsw": {"space": "cosine"}}
        )
        for start in range(0, len(items), _BATCH):
            some = items[start : start + _BATCH]
            self._collection.add(
                ids=[str(start + place) for place in range(len(some))],
                embeddings=vectors[start : start + _BATCH],
                metadatas=[{"kind": item.kind} for item in some],
            )

    def query(self, vector: Vector, kind: str | None = None) -> list[str]:
        """Ids of the ten nearest, among those of a kind where one is named."""
        where = {"kind": kind} if kind else None
        found = self._collection.query(query_embeddings=[vector], n_results=RESULTS, where=where, include=[])
        return found["ids"][0]

    def close(self) -> None:
        with suppress(AttributeError):
            self._client.close()
