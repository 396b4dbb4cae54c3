"""Whether a candidate is relevant enough to a query to enter a context, and how much."""

from collections.abc import Sequence

from mcp_memory.domain.fusion import Fused
from mcp_memory.domain.text import query_terms

FLOOR_COSINE = 0.25
"""Unrelated texts lie between 0 and 0.2 with the built-in embedder, loosely related ones from 0.25 on."""
FLOOR_COVERAGE = 0.5
"""A candidate with half of the query's words is relevant whatever its cosine."""
_LEAST_IN_COMMON = 4
_ENDING = 2
"""Words are equal that share their beginning but for the shorter one's last two letters: deploying, deployed."""


def is_above_floor(hit: Fused, terms: Sequence[str], text: str) -> bool:
    """True where meaning or words are near enough. The keyword score alone cannot say: it depends on the store."""
    if hit.raw.get("vector", 0.0) >= FLOOR_COSINE:
        return True
    return bool(hit.raw.get("keyword")) and coverage(terms, text) >= FLOOR_COVERAGE


def coverage(terms: Sequence[str], text: str) -> float:
    """The share of the query's words found in the text, in [0, 1]; inflections of one word count as equal."""
    if not terms:
        return 0.0
    words = query_terms(text, limit=None)
    return sum(any(_is_alike(term, word) for word in words) for term in terms) / len(terms)


def _is_alike(a: str, b: str) -> bool:
    needed = max(_LEAST_IN_COMMON, min(len(a), len(b)) - _ENDING)
    return a == b or (len(a) >= needed <= len(b) and a[:needed] == b[:needed])
