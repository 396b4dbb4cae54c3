"""Picks the strategy of `auto` for a query: a linear classifier over its words, its letters, and its meaning.

Learnt from queries in sixteen languages (`tools/train_intent.py`); `intent.npz` holds the weights. Independent of the
strategies' content.
"""

from __future__ import annotations

import re
import zlib
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from math import sqrt
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from mcp_memory.domain.text.lexicon import STOP_WORDS, UNSPACED, word_set
from mcp_memory.domain.text.words import folded, query_terms

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

WEIGHTS = Path(__file__).with_name("intent.npz")
TURN_WORDS = word_set("turn_words")
"""A turn of only these and stop words names no subject: the turn before gives it."""
ROWS = 30_000
"""Rows of the table of weights: a feature's row is its checksum modulo this."""
READ_CHARACTERS = 500
"""Characters read: a request states its aim at the beginning; pasted text may follow."""
GRAMS = (2, 3, 4)
"""Lengths of the sequences of letters."""
FORM_SHARE = 0.5
"""Weight of a query's form, of which words and letters have 1 each."""
MEANING_SHARE = 0.5
"""Weight of what the vector says, of which the words have 1; best of 0.3, 0.5 and 1 in cross-validation."""
_TELLING, _SHOWN_CHARACTERS = 3, 20
"""Most words that the reason names, and most characters of one."""

# e.g. "parse_config", "don't", "计划", "?"
_TOKEN = re.compile(rf"[{UNSPACED}]+|[^\W{UNSPACED}](?:[^\W{UNSPACED}]|[\u0300-\u0dff'’])*|[?？؟!！:/]")
# e.g. "42"
_DIGITS = re.compile(r"\d+")
_CODE_NAME = re.compile(
    r"\w_\w|\w\(\)|(?<!\w)--\w|\b[a-z]+[A-Z]|\w\.(?:c|cpp|cs|go|java|js|kt|php|py|rb|rs|sh|sql|swift|ts)\b"
)
"""A name written as code: snake_case, call(), --option, camelCase, file.py."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pick:
    """The picked strategy, and the reason in a few words."""

    strategy: str
    why: str


class Feature(NamedTuple):
    """A feature of a query: its row in the table, its value, and the place of the word that it belongs to.

    The form's features belong to no word: their place is -1.
    """

    row: int
    value: float
    place: int


@dataclass(frozen=True, slots=True, kw_only=True)
class _Weights:
    """Weights as trained; `meanings` are those of a vector's dimensions, by the embedder's id, a bias in the last."""

    names: Sequence[str]
    table: NDArray[np.int8]
    scale: float
    bias: NDArray[np.float32]
    meanings: Mapping[str, NDArray[np.float32]]


def pick_strategy(query: str, vector: NDArray[np.float32] | None = None, embedder: str = "") -> Pick:
    """Return the strategy for the query.

    `recent` for a turn of a conversation, `important` for a question of direction, a way of working where the query
    shows one, `balanced` for what only names a subject. With the query's `vector` by an embedder that the weights know
    (its id), meaning counts beside the words; but what leans on the turn before shows in the words.
    """
    import numpy as np

    tokens, features = read_features(query)
    if not any(token[0].isalnum() for token in tokens):
        return Pick(strategy="balanced", why="there is no query")
    if not names_subject(query):
        return Pick(strategy="recent", why="it names no subject of its own")
    model = _model()
    rows, values, places = zip(*features, strict=True)
    weights = model.table[list(rows)] * (np.array(values)[:, None] * model.scale)
    by_words = log_softmax(weights.sum(0) + model.bias)
    best = int(by_words.argmax())
    evidence = by_words
    if vector is not None and embedder in model.meanings and model.names[best] != "recent":
        meaning = model.meanings[embedder]
        evidence = by_words + MEANING_SHARE * log_softmax(vector @ meaning[:-1] + meaning[-1])
    picked = int(evidence.argmax())
    why = "its meaning shows it"
    if picked == best:
        telling = _telling_words(tokens, places, weights[:, picked] - weights.mean(1))
        why = f"its words show it ({', '.join(telling)})" if telling else "its form shows it"
    return Pick(strategy=model.names[picked], why=why)


def names_subject(query: str) -> bool:
    """Return False for a turn of a conversation that leans wholly on the one before, as "what next?" does."""
    return any(word not in TURN_WORDS and word not in STOP_WORDS for word in query_terms(query[:READ_CHARACTERS]))


def read_features(query: str) -> tuple[list[str], list[Feature]]:
    """Return the query's words and signs, and its features: words, pairs of them, sequences of letters, and its form.

    Each group's values have length 1 (the form's FORM_SHARE), however long the query is.
    """
    text = query[:READ_CHARACTERS]
    tokens: list[str] = [match.group() for match in _TOKEN.finditer(folded(text))]
    groups = (
        (1.0, dict(_words(tokens))),
        (1.0, dict(_letters(tokens))),
        (FORM_SHARE, dict.fromkeys(_form(text, tokens), -1)),
    )
    features = [
        Feature(zlib.crc32(name.encode("utf-8", "replace")) % ROWS, value, place)
        for group, value in ((group, share / sqrt(max(len(group), 1))) for share, group in groups)
        for name, place in group.items()
    ]
    return tokens, features


def _words(tokens: Sequence[str]) -> Iterator[tuple[str, int]]:
    """Yield words and pairs of neighbours, beginning and end among them, with their places; all numbers are alike."""
    words = ["^", *(_DIGITS.sub("0", token) for token in tokens), "$"]
    last = len(tokens) - 1
    yield from ((f"w:{word}", min(max(at - 1, 0), last)) for at, word in enumerate(words))
    yield from ((f"w:{one} {after}", min(at, last)) for at, (one, after) in enumerate(pairwise(words)))


def _letters(tokens: Sequence[str]) -> Iterator[tuple[str, int]]:
    for place, token in enumerate(tokens):
        edged = f" {token} "
        for length in GRAMS:
            yield from ((f"c:{edged[at : at + length]}", place) for at in range(len(edged) - length + 1))


def _form(text: str, tokens: Sequence[str]) -> Iterator[str]:
    """Yield the order of magnitude of the number of words, and the presence of a name written as code."""
    yield f"f:{(len(tokens) ** 2).bit_length()}"
    if _CODE_NAME.search(text):
        yield "f:code"


def _telling_words(tokens: Sequence[str], places: Sequence[int], weights: NDArray[np.float64]) -> list[str]:
    """Return the words that weigh most for the pick, in their order."""
    sums: dict[int, float] = defaultdict(float)
    for place, weight in zip(places, weights.tolist(), strict=True):
        sums[place] += weight
    telling = [place for place in sums if place >= 0 and sums[place] > 0 and tokens[place][0].isalnum()]
    best = sorted(telling, key=lambda place: -sums[place])[:_TELLING]
    half = max(sums[best[0]], 0.0) / 2 if best else 0.0
    return [f'"{tokens[place][:_SHOWN_CHARACTERS]}"' for place in sorted(best) if sums[place] >= half]


def log_softmax(scores: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return scores as log-probabilities, along the last axis."""
    import numpy as np

    shifted = scores - scores.max(-1, keepdims=True)
    return shifted - np.log(np.exp(shifted).sum(-1, keepdims=True))


@cache
def _model() -> _Weights:
    import numpy as np

    with np.load(WEIGHTS) as file:
        return _Weights(
            names=file["names"].tolist(),
            table=file["table"],
            scale=float(file["scale"]),
            bias=file["bias"],
            meanings={name.removeprefix("meaning "): file[name] for name in file.files if name.startswith("meaning ")},
        )
