"""Whether a candidate is relevant enough to a query to enter a context, and how much."""

from collections.abc import Sequence

from mcp_memory.domain.fusion import Fused
from mcp_memory.domain.text import query_terms

FLOOR_COSINE = 0.25
"""Unrelated texts lie between 0 and 0.2 with the built-in embedder, loosely related ones from 0.25 on."""
FLOOR_COVERAGE = 0.5
"""A candidate with half of the query's words is relevant whatever its cosine."""
_STEM = 4


def is_above_floor(hit: Fused, terms: Sequence[str], text: str) -> bool:
    """True where meaning or words are near enough. The keyword score alone cannot say: it depends on the store."""
    if hit.raw.get("vector", 0.0) >= FLOOR_COSINE or "supersedes" in hit.parts:
        return True
    return bool(hit.raw.get("keyword")) and coverage(terms, text) >= FLOOR_COVERAGE


def coverage(terms: Sequence[str], text: str) -> float:
    """The share of the query's words found in the text, in [0, 1]; words count as equal by their first letters."""
    if not terms:
        return 0.0
    stems = {_stem(word) for word in query_terms(text, limit=None)}
    return sum(_stem(term) in stems for term in terms) / len(terms)


def _stem(word: str) -> str:
    """A crude stem: enough letters to tell words apart, few enough to equate their inflections."""
    return word[: max(_STEM, len(word) - 3)]
