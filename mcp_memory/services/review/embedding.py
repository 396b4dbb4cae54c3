"""Embeds the texts of records, so that a refused one does not cost the others their vectors. Knows no store."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from mcp_memory.errors import StoreUnavailable, TextRefused

if TYPE_CHECKING:
    from mcp_memory.ports.text import Embedder, Vectors


def embedded(embedder: Embedder, text: str) -> Vectors:
    """Return a record's vectors: those of its text, then, of a standing instruction, that of its condition.

    "Always name the version when I ask about libraries" is also found by "libraries" alone. Raises StoreUnavailable.
    """
    (outcome,) = embedded_each(embedder, [text])
    if isinstance(outcome, StoreUnavailable):
        raise outcome
    return outcome


def embedded_each(embedder: Embedder, texts: Sequence[str]) -> list[Vectors | StoreUnavailable]:
    """Return each record's vectors as `embedded` does, or the error that prevented them."""
    from mcp_memory.domain.text.conditions import asked_subject  # Slow to load; no search needs it.

    subjects = {place: subject for place, text in enumerate(texts) if (subject := asked_subject(text))}
    outcomes = _each(embedder, [*texts, *subjects.values()])
    for place, condition in zip(subjects, outcomes[len(texts) :], strict=True):
        outcomes[place] = _joined(outcomes[place], condition)
    return outcomes[: len(texts)]


def _joined(vectors: Vectors | StoreUnavailable, condition: Vectors | StoreUnavailable) -> Vectors | StoreUnavailable:
    if isinstance(vectors, StoreUnavailable) or isinstance(condition, StoreUnavailable):
        return vectors  # Found by its text alone.
    import numpy as np

    return np.concatenate([vectors, condition])


def _each(embedder: Embedder, texts: Sequence[str]) -> list[Vectors | StoreUnavailable]:
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
    return [*_each(embedder, texts[:half]), *_each(embedder, texts[half:])]
