"""Defines a query's signals (words, vector, time), and when a constraint applies to it."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from mcp_memory.domain.model.records import Instant, Record
from mcp_memory.domain.text.words import letters_in_common, query_terms

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

Vector: TypeAlias = "NDArray[np.float32]"
"""Shape [dimensions], unit length."""


LEAST_KNOWN = 0.25
"""Share of a text's words that the embedder's model has to know for a cosine to tell that two texts say the same.

In a script that it spells letter by letter all texts are near each other.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Query:
    """Signals of one query.

    `vector` is None where no embedder was available; `embedder` is the id of the one that made it. `known` is the share
    of the words that its model knows, in [0, 1]. `span` is [start, end) or None. `is_only_time` is True where
    the query asks for nothing but that span, `is_past` where that is a time which is over, such as last week.
    """

    text: str
    terms: tuple[str, ...]
    vector: Vector | None = None
    embedder: str = ""
    known: float = 1.0
    span: tuple[Instant, Instant] | None = None
    is_only_time: bool = False
    is_past: bool = False


BEGINNING = 4
"""Letters that two inflections of one word have in common at their start."""


def coverage(terms: Sequence[str], text: str, weights: Mapping[str, float] | None = None) -> float:
    """Return the share of the query's words found in the text, in [0, 1]; inflections of one word count as equal.

    With `weights`, in nats (> 0), each word counts as much as it tells.
    """
    if not terms:
        return 0.0
    words: dict[str, list[str]] = {}
    for word in query_terms(text, limit=None):
        words.setdefault(word[:BEGINNING], []).append(word)
    counts = {term: weights.get(term, 0.0) if weights else 1.0 for term in terms}
    found = (term for term in counts if any(_is_alike(term, word) for word in words.get(term[:BEGINNING], ())))
    return sum(map(counts.__getitem__, found)) / (sum(counts.values()) or 1.0)


def _is_alike(a: str, b: str) -> bool:
    needed = letters_in_common(min(len(a), len(b)))
    return a == b or (len(a) >= needed <= len(b) and a[:needed] == b[:needed])


TRIGGERED = 0.5
"""The share of a trigger's words in the query, or of the query's in the trigger, that activates a censor."""


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
