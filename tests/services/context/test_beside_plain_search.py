"""What a block has of long notes, beside texts that a plain search ranks; notes and questions are by other hands."""

import json
import math
import re
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from mcp_memory.app import App
from mcp_memory.domain.model.records import NewRecord
from mcp_memory.encoders.embed_minilm import MiniLMEmbedder
from mcp_memory.services.context.assemble import ContextRequest

DATA = Path(__file__).parents[3] / "benchmarks" / "data" / "answers"
CHOSEN = ("n01", "n04", "n05", "n07", "n10", "n22")
"""Notes of 12 to 44 sentences."""


def rows_of(name: str) -> list[dict[str, Any]]:
    rows = [json.loads(line) for line in (DATA / f"{name}.jsonl").read_text("utf-8").splitlines()]
    return [row for row in rows if row.get("note", row.get("id")) in CHOSEN]


def flat(text: str) -> str:
    """The text without the space and the escapes that a block adds."""
    return " ".join(text.replace("\\", "").split())


class PlainSearch:
    """The reciprocal rank fusion of BM25 and of each text's nearest passage."""

    def __init__(self, texts: Sequence[str], embedder: MiniLMEmbedder) -> None:
        self._texts, self._embedder = texts, embedder
        self._terms = [Counter(re.findall(r"\w+", text.lower())) for text in texts]

    def ranked(self, question: str) -> list[str]:
        vector = self._embedder.embed_query(question)
        near = [float((self._embedder.embed(text) @ vector).max()) for text in self._texts]
        words = self._bm25(set(re.findall(r"\w+", question.lower())))
        places = range(len(self._texts))
        orders = [sorted(places, key=scores.__getitem__, reverse=True) for scores in (words, near)]
        best = sorted(places, key=lambda place: -sum(1 / (60 + order.index(place)) for order in orders))
        return [self._texts[place] for place in best]

    def _bm25(self, words: set[str]) -> list[float]:
        count, usual = len(self._terms), sum(terms.total() for terms in self._terms) / len(self._terms)
        having = {word: sum(word in terms for terms in self._terms) for word in words}
        return [
            sum(
                math.log(1 + (count - having[word] + 0.5) / (having[word] + 0.5))
                * (terms[word] * 2.5 / (terms[word] + 1.5 * (0.25 + 0.75 * terms.total() / usual)))
                for word in words
            )
            for terms in self._terms
        ]


@pytest.mark.uncounted
def test_a_block_has_the_answering_sentence_at_least_as_often_as_texts_in_the_order_of_a_plain_search(
    app: App, embedder: MiniLMEmbedder
) -> None:
    """F1.2, W1.2: docs/benchmarks.md has real histories, and `python -m benchmarks.answers --only notes` all notes."""
    texts = [f"{row['title']}\n\n{row['text']}" for row in rows_of("notes")]
    asked = [(row["question"], flat(row["answer"])) for row in rows_of("note_questions_dev")]
    app.remember([NewRecord(text=text) for text in texts], app.caller())
    plain = PlainSearch(texts, embedder)
    ours, theirs = Counter[int](), Counter[int]()
    for question, answer in asked:
        ranked = "\n\n".join(plain.ranked(question))
        for budget in (300, 1_000):
            block = app.assemble_context(ContextRequest(query=question, max_tokens=budget), app.caller()).text
            ours[budget] += answer in flat(block)
            theirs[budget] += answer in flat(app.counter.truncate(ranked, budget))
    assert ours[1_000] >= 0.9 * len(asked)
    assert all(ours[budget] >= found for budget, found in theirs.items())
