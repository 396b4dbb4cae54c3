"""A query's signals (words, vector, time), and how relevant a text is to it."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from mcp_memory.domain.model.records import Instant, Record
from mcp_memory.domain.retrieval.fusion import Fused
from mcp_memory.domain.text.words import query_terms

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

Vector: TypeAlias = "NDArray[np.float32]"
"""Shape [dimensions], unit length."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Query:
    """Signals of one query.

    `vector` is None where no embedder could be asked; `span` is [start, end) or None; `is_only_time` is True where the
    query asks for nothing but that span.
    """

    text: str
    terms: tuple[str, ...]
    vector: Vector | None = None
    span: tuple[Instant, Instant] | None = None
    is_only_time: bool = False


FLOOR_SCORE = 0.15
"""A match worse than that has less than a fifth of the evidence that the best of as many chance matches has."""
FLOOR_COSINE = 0.12
"""Unrelated texts lie about 0.1 with the built-in embedder, loosely related ones mostly above 0.12."""
FLOOR_SHARE = 0.5
"""A candidate with half of what the query's words tell is relevant whatever its cosine."""
_LEAST_IN_COMMON = 4
_ENDING = 2
"""Words are equal that share their beginning but for the shorter one's last two letters: deploying, deployed."""


def is_above_floor(hit: Fused, information: float) -> bool:
    """True where meaning or words are near enough. `information` is what all of the query's words tell, in nats."""
    if hit.score >= FLOOR_SCORE and hit.raw.get("vector", 0.0) >= FLOOR_COSINE:
        return True
    words = hit.raw.get("keyword", 0.0)
    return words > 0 and words >= FLOOR_SHARE * information


def coverage(terms: Sequence[str], text: str) -> float:
    """The share of the query's words found in the text, in [0, 1]; inflections of one word count as equal."""
    if not terms:
        return 0.0
    words = query_terms(text, limit=None)
    return sum(any(_is_alike(term, word) for word in words) for term in terms) / len(terms)


def _is_alike(a: str, b: str) -> bool:
    needed = max(_LEAST_IN_COMMON, min(len(a), len(b)) - _ENDING)
    return a == b or (len(a) >= needed <= len(b) and a[:needed] == b[:needed])


TRIGGERED = 0.5
"""A trigger is met where so much of its own words stands in the query, or of the query's in it."""

BEGINNING = 4
"""Words that begin otherwise are not inflections of one another."""


def is_active(censor: Record, terms: Sequence[str], domains: Collection[str]) -> bool:
    """True where it names no domain, one of the active ones, or something that the query speaks of.

    Without a query and an active domain nothing tells what does not apply, so that everything does.
    """
    domain = censor.details.get("domain")
    if not domain or not (terms or domains) or domain in domains:
        return True
    trigger = censor.details.get("trigger")
    said = trigger if isinstance(trigger, str) else censor.text
    if not any(term[:BEGINNING] in said.lower() for term in terms):
        return False  # Taking apart the triggers of a hundred constraints takes longer than all else of them.
    return coverage(terms, said) >= TRIGGERED or coverage(query_terms(said), " ".join(terms)) >= TRIGGERED
