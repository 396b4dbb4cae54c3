"""Tells questions about open work, in any language, from others: "what is blocked?", "woran arbeiten wir gerade?".

The features and the training are those of strategies (`intent`, `tools/train_intent.py`); `tools/data/intent/work.txt`
holds the questions, in sixteen languages, beside others that use their words.
"""

from __future__ import annotations

import zlib
from dataclasses import dataclass
from functools import cache
from math import exp
from typing import TYPE_CHECKING

from mcp_memory.domain.text.intent import TURN_WORDS, WEIGHTS, log_softmax, read_features
from mcp_memory.domain.text.lexicon import STOP_WORDS
from mcp_memory.domain.text.words import folded, query_terms

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

OTHER, OPEN, BLOCKED = "none", "open", "blocked"
WORK = (OTHER, OPEN, BLOCKED)
"""The classes, in the order of the weights: no question about work, one about what is open, one about what waits."""
LEAST_CHANCE = 0.3
"""Least chance of a question about open work. In cross-validation 7 of 10 such questions reach it, and of all other
queries 2 of 100, most of which are near: "who does what until Friday?"."""

SURE_CHANCE = 0.6
"""The chance from which a word that nothing stored has may be another word of such a question, and no subject."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkQuestion:
    """A question about open work. `subjects` are its words, as query terms, that do not belong to such a question.

    `is_blocked` is True where it asks for what waits. `is_sure` tells that it is one whatever an unknown word means.
    """

    is_sure: bool
    subjects: tuple[str, ...]
    is_blocked: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class _WorkWeights:
    """Weights as trained; `words` are the numbers of the words of questions about work."""

    table: NDArray[np.int8]
    scale: float
    bias: NDArray[np.float32]
    words: frozenset[int]


def work_question(query: str) -> WorkQuestion | None:
    """Return what a query asks about open work; None for any other query."""
    import numpy as np

    tokens, features = read_features(query)
    if not any(token[0].isalnum() for token in tokens):
        return None
    model = _model()
    rows, values, _ = zip(*features, strict=True)
    weights = model.table[list(rows)] * (np.array(values)[:, None] * model.scale)
    told: list[float] = log_softmax(weights.sum(0) + model.bias).tolist()
    nats = dict(zip(WORK, told, strict=True))
    chance = 1 - exp(nats[OTHER])
    if chance < LEAST_CHANCE:
        return None
    terms = query_terms(query)
    return WorkQuestion(
        is_sure=chance >= SURE_CHANCE,
        subjects=tuple(term for term in terms if not is_of_work(term)),
        is_blocked=nats[BLOCKED] > nats[OPEN],
    )


def is_of_work(term: str) -> bool:
    """Return True for a word that such questions are made of, such as "offen" or "在做", or that names nothing."""
    return term in TURN_WORDS or term in STOP_WORDS or word_number(term) in _model().words


def word_number(term: str) -> int:
    """Return the number of a word, in [0, 2^32), by which `intent.npz` knows it."""
    return zlib.crc32(folded(term).encode("utf-8", "replace"))


@cache
def _model() -> _WorkWeights:
    import numpy as np

    with np.load(WEIGHTS) as file:
        return _WorkWeights(
            table=file["work_table"],
            scale=float(file["work_scale"]),
            bias=file["work_bias"],
            words=frozenset(file["work_words"].tolist()),
        )
