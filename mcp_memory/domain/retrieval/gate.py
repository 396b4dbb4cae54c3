"""The gate: what bears on a question and may be shown, in recall, contexts, reminders, commands and the page alike."""

from collections.abc import Sequence
from math import exp

from mcp_memory.domain.retrieval.fusion import Fused

UNRELATED_COSINE = 0.1
"""Below it, and without a shared word, a record is unrelated to the query (unrelated texts: 0 to 0.1)."""


def bearing(
    hits: Sequence[Fused], information: float, terms: Sequence[str], *, is_goal: bool = False
) -> tuple[Fused, ...]:
    """Return the hits, best first, that bear on a query of these words; none where nothing stored does.

    All query words together carry `information` nats. `is_goal` is True for a task's goal, which asks nothing.
    """
    if not is_known(hits, information, terms, GOAL_CHANCE if is_goal else LEAST_CHANCE):
        return ()
    noise = noise_score(hits)
    return tuple(hit for hit in hits if hit.score >= noise and is_relevant(hit))


def nothing_names(names: Sequence[str]) -> str:
    """Return the sentence about what no record names: "Nothing here names Redis or Kafka."; "" without a name."""
    if not names:
        return ""
    *others, last = names
    return f"Nothing here names {', '.join(others)} or {last}." if others else f"Nothing here names {last}."


def is_relevant(hit: Fused) -> bool:
    """Return True above the floor: it or its predecessor is remotely near, or has evidence that admits alone."""
    return hit.is_admitted or hit.raw.get("vector", 1.0) >= UNRELATED_COSINE


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

    Hits without a cosine are certain, as are those of a certain source. An echo of the query answers nothing.
    """
    best = [hit for hit in hits if not hit.is_echo][:BEST_HITS]
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
