"""Trains the classifier by which `auto` picks a strategy (mcp_memory/domain/text/intent.py).

    uv run --locked --with scikit-learn==1.9.1 python tools/train_intent.py [--cross-validate]

Reads `tools/data/intent`: queries in English and in fifteen other languages, labelled by people who saw no rules and no
classifier, and short phrases; and `work.txt`, questions about open work, beside others that use the same words. Writes
`intent.npz`, byte for byte the same from the same versions on one machine. With `--cross-validate` it prints instead
how often the pick is one of the labels, and how often such a question is told, on a fifth of the queries at a time.
"""

import argparse
import json
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import Any, TypedDict

import numpy as np
from numpy.typing import NDArray

from mcp_memory import extensions
from mcp_memory.domain.text.intent import MEANING_SHARE, ROWS, WEIGHTS, log_softmax, read_features
from mcp_memory.domain.text.words import query_terms
from mcp_memory.domain.text.work_questions import LEAST_CHANCE, OTHER, WORK, word_number
from mcp_memory.settings import load_settings

DATA = Path(__file__).with_name("data") / "intent"
EMBEDDERS = ("minilm", "e5", "minilm+e5")
WORDS_INVERSE_L2, MEANING_INVERSE_L2 = 5.0, 3.0
RARITY = 1.5
"""The power of the inverse document frequency by which a feature is scaled: a rare one is regularised less."""
FOLDS = 5
LARGEST = 127


class Query(TypedDict):
    """A labelled query: any of its strategies is right."""

    query: str
    strategies: Sequence[str]
    language: str


def main() -> None:
    """Read, train, write."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--cross-validate", action="store_true")
    queries, phrases = _queries("english.jsonl") + _queries("others.jsonl"), _phrases("phrases.txt")
    names = sorted({name for each in queries for name in each["strategies"]})
    work = _about_work(queries + phrases)
    if parser.parse_args().cross_validate:
        _cross_validate(queries, phrases, names)
        _cross_validate_work(work)
    else:
        _write(queries + phrases, names, work)


def _queries(name: str) -> list[Query]:
    return [json.loads(line) for line in (DATA / name).read_text("utf-8").splitlines()]


def _phrases(name: str) -> list[Query]:
    found: list[Query] = []
    for line in (DATA / name).read_text("utf-8").splitlines():
        labels, _, texts = line.partition(": ")
        language, strategy = labels.split()
        found += [Query(query=text, strategies=[strategy], language=language) for text in texts.split(" | ")]
    return found


def _about_work(others: Sequence[Query]) -> list[Query]:
    """Return questions about open work, and what is none: all other queries that are not word for word among them."""
    labelled = _phrases("work.txt")
    known = {each["query"] for each in labelled}
    return labelled + [{**each, "strategies": [OTHER]} for each in others if each["query"] not in known]


def work_words(work: Sequence[Query]) -> NDArray[np.uint32]:
    """Return the numbers of the words of which questions about open work are made."""
    texts = [each["query"] for each in work if each["strategies"] != [OTHER]]
    return np.array(sorted({word_number(term) for text in texts for term in query_terms(text)}), np.uint32)


def _write(queries: Sequence[Query], names: Sequence[str], work: Sequence[Query]) -> None:
    weights, bias = _fit_words(queries, names)
    scale = float(np.abs(weights).max()) / LARGEST
    work_weights, work_bias = _fit_words(work, WORK)
    work_scale = float(np.abs(work_weights).max()) / LARGEST
    meanings: dict[str, Any] = {}
    for embedder in EMBEDDERS:
        vectors = _Vectors(embedder)
        slopes, offset = _fit(vectors(_texts(queries)), queries, names, MEANING_INVERSE_L2)
        meanings[f"meaning {vectors.id}"] = np.vstack([slopes, offset]).astype(np.float16)
    np.savez_compressed(
        WEIGHTS,
        names=np.array(names),
        table=np.rint(weights / scale).astype(np.int8),
        scale=np.float32(scale),
        bias=bias.astype(np.float32),
        work_table=np.rint(work_weights / work_scale).astype(np.int8),
        work_scale=np.float32(work_scale),
        work_bias=work_bias.astype(np.float32),
        work_words=work_words(work),
        **meanings,
    )
    print(f"{WEIGHTS.name}: {WEIGHTS.stat().st_size:,} bytes from {len(queries):,} texts")


def _cross_validate(queries: Sequence[Query], phrases: Sequence[Query], names: Sequence[str]) -> None:
    order: list[int] = np.random.default_rng(0).permutation(len(queries)).tolist()
    vectors = {name: _Vectors(name) for name in EMBEDDERS}
    right: dict[tuple[str, bool], list[bool]] = {}
    for fold in range(FOLDS):
        asked = [queries[at] for at in order[fold::FOLDS]]
        known = [queries[at] for place, at in enumerate(order) if place % FOLDS != fold] + list(phrases)
        weights, bias = _fit_words(known, names)
        by_words = log_softmax(_matrix(_texts(asked)) @ weights + bias)
        picks: dict[str, NDArray[np.int64]] = {"words": by_words.argmax(1)}
        for name, embedded in vectors.items():
            slopes, offset = _fit(embedded(_texts(known)), known, names, MEANING_INVERSE_L2)
            meaning = log_softmax(embedded(_texts(asked)) @ slopes + offset)
            picks[f"words and {name}"] = (by_words + MEANING_SHARE * meaning).argmax(1)
        for way, picked in picks.items():
            for each, at in zip(asked, picked, strict=True):
                right.setdefault((way, each["language"] == "en"), []).append(names[int(at)] in each["strategies"])
    for (way, is_english), found in right.items():
        print(f"{way}, {'English' if is_english else 'other languages'}: {sum(found)} of {len(found)}")


def _cross_validate_work(work: Sequence[Query]) -> None:
    order: list[int] = np.random.default_rng(0).permutation(len(work)).tolist()
    told: dict[str, list[bool]] = {}
    for fold in range(FOLDS):
        asked = [work[at] for at in order[fold::FOLDS]]
        known = [work[at] for place, at in enumerate(order) if place % FOLDS != fold]
        weights, bias = _fit_words(known, WORK)
        chances = 1 - np.exp(log_softmax(_matrix(_texts(asked)) @ weights + bias))[:, WORK.index(OTHER)]
        for each, chance in zip(asked, chances, strict=True):
            told.setdefault(each["strategies"][0], []).append(chance >= LEAST_CHANCE)
    for label, found in told.items():
        print(f"told as a question about open work, {label}: {sum(found)} of {len(found)}")


def _texts(queries: Sequence[Query]) -> list[str]:
    return [each["query"] for each in queries]


def _fit_words(queries: Sequence[Query], names: Sequence[str]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the weights of rows, [ROWS, strategies], and the bias."""
    matrix = _matrix(_texts(queries))
    documents = np.bincount(matrix.indices, minlength=ROWS)
    rarity = (np.log((1 + len(queries)) / (1 + documents)) + 1) ** RARITY
    rarity /= np.average(rarity, weights=documents)
    weights, bias = _fit(matrix @ import_module("scipy.sparse").diags(rarity), queries, names, WORDS_INVERSE_L2)
    return weights * rarity[:, None], bias


def _fit(
    features: Any, queries: Sequence[Query], names: Sequence[str], inverse_l2: float
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return weights, [features, strategies], and bias; a query with two labels counts half for each."""
    labels = [(row, names.index(name)) for row, each in enumerate(queries) for name in each["strategies"]]
    shares = [1 / len(queries[row]["strategies"]) for row, _ in labels]
    regression = import_module("sklearn.linear_model").LogisticRegression(C=inverse_l2, max_iter=300, tol=1e-3)
    fitted = regression.fit(features[[row for row, _ in labels]], [label for _, label in labels], sample_weight=shares)
    return fitted.coef_.T, fitted.intercept_


def _matrix(texts: Sequence[str]) -> Any:
    """Return the features of texts as a sparse matrix, [texts, ROWS]."""
    found = [(at, each) for at, text in enumerate(texts) for each in read_features(text)[1]]
    cells = ([each.value for _, each in found], ([at for at, _ in found], [each.row for _, each in found]))
    return import_module("scipy.sparse").csr_matrix(cells, shape=(len(texts), ROWS))


class _Vectors:
    """Embeds texts, each once."""

    def __init__(self, embedder: str) -> None:
        self._embedder = extensions.embedder(load_settings(embedder=embedder))
        self._known: dict[str, NDArray[np.float32]] = {}

    @property
    def id(self) -> str:
        return self._embedder.id

    def __call__(self, texts: Sequence[str]) -> NDArray[np.float32]:
        self._known |= {text: self._embedder.embed_query(text) for text in texts if text not in self._known}
        return np.array([self._known[text] for text in texts])


if __name__ == "__main__":
    main()
