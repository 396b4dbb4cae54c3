"""Whether a candidate is relevant enough to a query to enter a context, and how much."""

from collections.abc import Sequence

from mcp_memory.domain.retrieval.fusion import Fused
from mcp_memory.domain.text.words import query_terms

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
