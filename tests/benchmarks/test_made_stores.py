"""The stores that benchmarks measure: the same for the same seed, and like those of an agent."""

from collections import Counter
from collections.abc import Generator
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest

from benchmarks.filling import fill, vectors_for
from benchmarks.texts import AREAS, memories, questions
from mcp_memory.app import App, open_app, token_counter
from mcp_memory.encoders.embed_minilm import MiniLMEmbedder
from mcp_memory.services.recall import RecallRequest
from mcp_memory.settings import load_settings


@pytest.fixture
def app(tmp_path: Path) -> Generator[App]:
    settings = load_settings(data_dir=tmp_path, namespace="benchmark", chroma="off")
    with closing(open_app(settings, embedder=MiniLMEmbedder())) as opened:
        yield opened


def test_memories_and_questions_are_distinct_and_the_same_for_the_same_seed() -> None:
    made = memories(400, seed=5)
    assert made == memories(400, seed=5)
    assert made != memories(400, seed=6)
    assert len({item.text for item in made}) == 400
    assert questions(20, seed=3) == questions(20, seed=3)


def test_a_tenth_of_the_memories_is_of_each_area_and_a_tenth_are_decisions() -> None:
    made = memories(4_000, seed=5)
    kinds = Counter(item.kind for item in made)
    areas = Counter(area for item in made for area in item.tags if area in AREAS)
    assert all(300 <= count <= 500 for count in (kinds["decision"], *areas.values()))
    assert len(areas) == len(AREAS)


def test_a_filled_store_is_found_by_words_meaning_and_tag(app: App) -> None:
    items = memories(60, seed=5)
    vectors = vectors_for(items, MiniLMEmbedder(), 10, seed=5)
    ids = fill(app.records, items, vectors, app.caller(), token_counter("o200k_base"))
    assert np.allclose(np.linalg.norm(vectors, axis=1), 1.0, atol=1e-5)
    answer = app.recall(RecallRequest(query=items[3].text, tags=(items[3].tags[1],), explain=True), app.caller())
    assert answer.results[0]["id"] == ids[3]
    signals = answer.results[0]["signals"]
    assert isinstance(signals, dict)
    assert {"keyword", "vector"} <= signals.keys()
