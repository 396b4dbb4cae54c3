"""The stores that benchmarks measure: the same for the same seed, and like those of an agent."""

from collections import Counter
from collections.abc import Generator
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest

from benchmarks.filling import fill, vectors_for
from benchmarks.stages import ASSEMBLY_STAGES, STAGES
from benchmarks.texts import AREAS, KNOWLEDGE, knowledge, memories, questions, shared_out
from mcp_memory.app import App, open_app, token_counter
from mcp_memory.encoders.embed_minilm import MiniLMEmbedder
from mcp_memory.services.retrieval.recall import RecallRequest
from mcp_memory.settings import load_settings


@pytest.fixture
def app(tmp_path: Path) -> Generator[App]:
    settings = load_settings(data_dir=tmp_path, namespace="benchmark", semantic_store="exact")
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


def test_the_store_that_assembly_has_to_work_at_holds_so_many_of_each_kind() -> None:
    """C1.4, C9.2: the store itself; `benchmarks.assembly` tells how fast it is there and how much fits."""
    made = knowledge(KNOWLEDGE, seed=5)
    kinds = Counter(item.kind for item in made)
    assert kinds == {"decision": 2_000, "fact": 5_000, "episode": 1_500, "procedure": 200, "censor": 100}
    assert len({item.text for item in made}) == 8_800
    assert all(item.details.keys() >= {"trigger", "reason", "action"} for item in made if item.kind == "censor")
    assert all(item.details.keys() >= {"name", "description"} for item in made if item.kind == "procedure")
    assert [item.occurred_at for item in made] == sorted(item.occurred_at or 0.0 for item in made)


def test_knowledge_is_the_same_for_the_same_seed_and_keeps_its_mixture_at_any_size() -> None:
    assert knowledge(shared_out(300), seed=5) == knowledge(shared_out(300), seed=5)
    assert knowledge(shared_out(300), seed=5) != knowledge(shared_out(300), seed=6)
    for size in (100, 1_000, 99_999):
        assert sum(shared_out(size).values()) == size
    assert shared_out(88_000) == {kind: 10 * count for kind, count in KNOWLEDGE.items()}


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


def test_every_stage_that_is_timed_is_there() -> None:
    for stage in (*STAGES, *ASSEMBLY_STAGES):
        assert stage.name in vars(stage.owner), stage
