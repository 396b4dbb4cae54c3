"""Both semantic stores give a memory the same answers."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from shutil import copytree

import numpy as np
import pytest

from mcp_memory.app import App, open_app
from mcp_memory.domain.model.records import NewRecord
from mcp_memory.domain.model.requests import ContextRequest, RecallRequest
from mcp_memory.encoders.embed_minilm import MiniLMEmbedder
from mcp_memory.ports.text import Vectors
from mcp_memory.settings import load_settings
from tests.chroma import PATIENCE_SECONDS, SCOPE, opening, quick_to_act, until

THINGS = ("pump", "valve", "crane", "gauge", "rudder", "winch", "boiler", "ladder", "hatch", "cable")
DEEDS = (
    "leaks",
    "was painted",
    "is rented out",
    "needs oil",
    "passed its test",
    "was sold",
    "came back",
    "is too loud",
)
PLACES = ("in the yard", "on pier three", "at the north gate")


@pytest.fixture(scope="module")
def filled_once(tmp_path_factory: pytest.TempPathFactory, embedder: MiniLMEmbedder) -> Path:
    """A memory of 240 records, more than a search takes from Chroma."""
    data = tmp_path_factory.mktemp("filled") / "data"
    texts = [f"The {thing} {deed} {place}." for thing in THINGS for deed in DEEDS for place in PLACES]
    with_data = load_settings(data_dir=data, namespace="test", semantic_store="exact")
    app = open_app(with_data, embedder=embedder)
    app.remember([NewRecord(text=text) for text in texts], app.caller())
    app.close()
    return data


@pytest.fixture
def filled(tmp_path: Path, filled_once: Path) -> Path:
    return copytree(filled_once, tmp_path / "data")


@pytest.fixture
def opened(filled: Path, embedder: MiniLMEmbedder) -> Iterator[dict[str, App]]:
    """The memory by each of its semantic stores, Chroma filled."""
    with quick_to_act():
        apps = {
            name: open_app(load_settings(data_dir=filled, namespace="test", semantic_store=name), embedder=embedder)
            for name in ("exact", "chroma")
        }
        apps["chroma"].warm()
        assert apps["chroma"].index.settle(PATIENCE_SECONDS), apps["chroma"].index.state()
        yield apps
        for app in apps.values():
            app.close()


def test_recalls_and_blocks_are_the_same_from_the_first_record(opened: dict[str, App]) -> None:
    """O4.1: Chroma takes part in every search, and the status says that it does."""
    told: dict[str, list[object]] = {name: [] for name in opened}
    for name, app in opened.items():
        caller = app.caller()
        for query in ("What leaks?", "anything to hoist a load with", "Which vessel part was sold on a pier?"):
            answer = app.recall(RecallRequest(query=query, only_looks=True), caller)
            block = app.assemble_context(ContextRequest(query=query, max_tokens=500, only_looks=True), caller)
            told[name] += [[each["id"] for each in answer.results], [each.id for each in block.report.components]]
    assert told["chroma"] == told["exact"]
    assert any(told["exact"])
    assert opened["chroma"].index.state().answered >= 3
    says = {name: app.index.state(app.caller().scopes).says for name, app in opened.items()}
    assert says == {
        "exact": "exact search over 240 vectors, as the settings say",
        "chroma": "Chroma, all 240 vectors indexed",
    }


@pytest.mark.parametrize(
    ("store", "mode", "found"),
    [("1", "off", "ok"), ("chroma", "embedded", "wrong"), ("http://127.0.0.1:9", "http", "wrong")],
)
def test_without_chroma_the_exact_search_answers_and_says_so(
    filled: Path, embedder: MiniLMEmbedder, monkeypatch: pytest.MonkeyPatch, store: str, mode: str, found: str
) -> None:
    """O4.1, U3.1: by size it is nothing to mend; where the settings name Chroma, the sentence says what to install."""
    monkeypatch.setitem(sys.modules, "chromadb", None)  # As for a module that is not there.
    app = open_app(load_settings(data_dir=filled, namespace="test", semantic_store=store), embedder=embedder)
    try:
        app.warm()
        answer = app.recall(RecallRequest(query="What leaks?", only_looks=True), app.caller())
        assert (len(answer.results), answer.degraded) == (10, ())
        if mode != "off":
            until(lambda: app.index.state().state == "failed")
        state = app.index.state(app.caller().scopes)
        [finding] = app.index_examiner().examine(repair=True)
    finally:
        app.close()
    assert (state.mode, finding.state) == (mode, found)
    told = "exact search over 240 vectors, as Chroma is not installed"
    more = ": install mcp-memory-stack, which brings it, or set MCP_MEMORY_SEMANTIC_STORE to exact"
    assert state.says == finding.says == (told if found == "ok" else told + more)


def grouped(count: int, seed: int, dimensions: int = 96) -> Vectors:
    """Unit vectors in groups, as texts about the same things are: a graph finds its way among them less easily."""
    drawn = np.random.default_rng(seed)
    centres = np.random.default_rng(1).standard_normal((10, dimensions))
    vectors = centres[drawn.integers(10, size=count)] + 1.5 * drawn.standard_normal((count, dimensions))
    return (vectors / np.linalg.norm(vectors, axis=1, keepdims=True)).astype(np.float32)


def test_chroma_names_the_candidates_that_the_exact_search_finds(tmp_path: Path) -> None:
    """O4.1: of 60, at least 99 in 100 on the mean; for questions about what is there, as about something else."""
    with opening(tmp_path) as open_it:
        memory = open_it()
        memory.add(*(vector[None] for vector in grouped(3_000, seed=2)))
        memory.settle()
        strangers = np.random.default_rng(5).standard_normal((20, 96)).astype(np.float32)
        for asked in (grouped(20, seed=3), strangers / np.linalg.norm(strangers, axis=1, keepdims=True)):
            shares: list[float] = []
            for vector in asked:
                exactly, found = (each.search(vector, [SCOPE], 60).keys() for each in (memory.exact, memory.store))
                shares.append(len(exactly & found) / 60)
            assert np.mean(shares) >= 0.99
        assert memory.store.state().answered == 40
