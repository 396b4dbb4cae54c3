"""An embedder for tests that assert nothing about meaning."""

import hashlib
from collections.abc import Sequence

import numpy as np

from mcp_memory.domain.retrieval.queries import Vector
from mcp_memory.ports.text import Vectors


class HashingEmbedder:
    """A small embedder: each word falls into one of 64 dimensions ("the hashing trick")."""

    id = "hashed-words-64"
    dimensions = 64

    def embed(self, text: str) -> Vectors:
        return self.embed_query(text)[np.newaxis]

    def embed_many(self, texts: Sequence[str]) -> list[Vectors]:
        return [self.embed(text) for text in texts]

    def embed_query(self, text: str) -> Vector:
        counts = np.full(self.dimensions, 1e-6, np.float32)
        for word in text.lower().split():
            counts[hashlib.blake2b(word.encode()).digest()[0] % self.dimensions] += 1
        unit: Vector = counts / np.float32(np.linalg.norm(counts))
        return unit

    def share_known(self, text: str) -> float:
        return 1.0
