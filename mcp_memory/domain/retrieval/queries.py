"""Defines a query's signals (words, vector, time), and the relevance of a text to it."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from math import exp
from typing import TYPE_CHECKING, TypeAlias

from mcp_memory.domain.model.records import Instant, Record
from mcp_memory.domain.retrieval.fusion import Fused
from mcp_memory.domain.text.words import letters_in_common, query_terms

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

Vector: TypeAlias = "NDArray[np.float32]"
"""Shape [dimensions], unit length."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Query:
    """Signals of one query.

    `vector` is None where no embedder was available; `embedder` is the id of the one that made it. `known` is the share
    of the words that its model knows, in [0, 1]. `span` is [start, end) or None. `is_only_time` is True where
    the query asks for nothing but that span.
    """

    text: str
    terms: tuple[str, ...]
    vector: Vector | None = None
    embedder: str = ""
    known: float = 1.0
    span: tuple[Instant, Instant] | None = None
    is_only_time: bool = False


FLOOR_SCORE = 0.15
"""Least score: a weaker match has less than a fifth of the evidence of the best chance match in the store."""
FLOOR_COSINE = 0.12
"""Least cosine: unrelated texts have about 0.1 with the built-in embedder, loosely related ones mostly above 0.12."""
FLOOR_SHARE = 0.5
"""Least share of the query's information: a candidate above it is relevant whatever its cosine."""


def is_above_floor(hit: Fused, information: float) -> bool:
    """Return True where meaning or words are near enough. `information` is that of all query words, in nats."""
    if _score_alone(hit) >= FLOOR_SCORE and hit.raw.get("vector", 0.0) >= FLOOR_COSINE:
        return True
    words = hit.raw.get("keyword", 0.0)
    return words > 0 and words >= FLOOR_SHARE * information


OUTSTANDING_SCORE = 0.7
"""A best hit above it answers more often than not (docs/decisions/0061): then weak hits only fill room."""
NOISE_SHARE = 0.4


def noise_score(hits: Sequence[Fused]) -> float:
    """Return the score, in [0, 1], below which hits of this ranking are noise; 0 where nothing in it stands out.

    Beside a hit of 0.8, one of 0.3 is no answer, however many of these there are.
    """
    best = max((_score_alone(hit) for hit in hits[:BEST_HITS]), default=0.0)
    return NOISE_SHARE * best if best >= OUTSTANDING_SCORE else 0.0


_CHANCE_OFFSET, _CHANCE_COSINE, _CHANCE_SHARE = -3.85, 6.82, 2.88
"""A logistic regression over 448 questions to three memories, two thirds of which their memory could answer
(docs/decisions/0061): the cosine of a hit, and its share of the query's information."""
LEAST_CHANCE = 0.2
"""Below it a query is taken for one that nothing stored bears on: 96 % of the answerable questions are above."""
GOAL_CHANCE = 0.14
"""The same for a task's goal, which asks nothing: earlier work in other words helps all the same."""
FEW_WORDS = 3
"""A query of fewer words, e.g. "postgres port", looks for what mentions them, and its cosines say little."""
BEST_HITS = 5


def chance(hits: Sequence[Fused], information: float) -> float:
    """Return the chance in [0, 1] that one of the best hits answers a query of so much information, in nats.

    Hits without a cosine are certain, as are those of a certain source.
    """
    best = hits[:BEST_HITS]
    if any("vector" not in hit.raw or hit.is_certain for hit in best):
        return 1.0
    cosine = max((hit.raw["vector"] for hit in best), default=-1.0)
    words = max((hit.raw.get("keyword", 0.0) for hit in best), default=0.0)
    share = min(words / information, 1.0) if information > 0 else 0.0
    return _logistic(_CHANCE_OFFSET + _CHANCE_COSINE * cosine + _CHANCE_SHARE * share)


def is_known(hits: Sequence[Fused], information: float, terms: Sequence[str], least: float = LEAST_CHANCE) -> bool:
    """Return True where anything stored may bear on the query of these words, judged by its best hits."""
    return len(terms) < FEW_WORDS or chance(hits, information) >= least


_RELEVANCE_OFFSET, _RELEVANCE_SCORE = -8.9, 11.4


def relevance_of(score: float) -> float:
    """Return the chance in [0, 1] that a hit of this score bears on its query, as measured: 0.04 of 0.5, 0.5 of 0.78.

    Of results shown with p, about p are relevant, in conversations, code, and three kinds of notes alike
    (docs/decisions/0061; `python -m benchmarks.retrieval --calibration`).
    """
    return _logistic(_RELEVANCE_OFFSET + _RELEVANCE_SCORE * score)


def _logistic(nats: float) -> float:
    return 1 / (1 + exp(-nats))


def _score_alone(hit: Fused) -> float:
    """Return the score without what the task stack adds: a place in it makes nothing relevant."""
    added = max(hit.parts.get("stack", 0.0), 0.0)
    nats = sum(hit.parts.values())
    if not added or nats <= 0:
        return hit.score
    usual = nats * (1 - hit.score) / hit.score
    return (nats - added) / (nats - added + usual)


def coverage(terms: Sequence[str], text: str) -> float:
    """Return the share of the query's words found in the text, in [0, 1]; inflections of one word count as equal."""
    if not terms:
        return 0.0
    words = query_terms(text, limit=None)
    return sum(any(_is_alike(term, word) for word in words) for term in terms) / len(terms)


def _is_alike(a: str, b: str) -> bool:
    needed = letters_in_common(min(len(a), len(b)))
    return a == b or (len(a) >= needed <= len(b) and a[:needed] == b[:needed])


TRIGGERED = 0.5
"""The share of a trigger's words in the query, or of the query's in the trigger, that activates a censor."""

BEGINNING = 4
"""Letters that two inflections of one word have in common at their start."""


def is_active(censor: Record, terms: Sequence[str], domains: Collection[str]) -> bool:
    """Return True where the censor names no domain, an active domain, or a subject that the query mentions.

    Without a query and an active domain nothing can be excluded, so every censor is active.
    """
    domain = censor.details.get("domain")
    if not domain or not (terms or domains) or domain in domains:
        return True
    trigger = censor.details.get("trigger")
    said = trigger if isinstance(trigger, str) else censor.text
    if not any(term[:BEGINNING] in said.lower() for term in terms):
        return False  # Splitting the triggers of a hundred constraints costs more than everything else.
    return coverage(terms, said) >= TRIGGERED or coverage(query_terms(said), " ".join(terms)) >= TRIGGERED
