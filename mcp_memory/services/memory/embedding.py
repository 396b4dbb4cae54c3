"""Embeds many texts so that a refused one does not cost the others their vectors. Knows no store."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from mcp_memory.errors import StoreUnavailable, TextRefused

if TYPE_CHECKING:
    from mcp_memory.ports.text import Embedder, Vectors


def embedded_each(embedder: Embedder, texts: Sequence[str]) -> list[Vectors | StoreUnavailable]:
    """Return each text's vectors, or the error that prevented them.

    A refused batch is split in halves: one bad text among n costs about 2 log2(n) more requests.
    """
    try:
        return [*embedder.embed_many(texts)]
    except TextRefused as refusal:
        if len(texts) == 1:
            return [refusal]
    except StoreUnavailable as failure:
        return [failure] * len(texts)
    half = len(texts) // 2
    return [*embedded_each(embedder, texts[:half]), *embedded_each(embedder, texts[half:])]
