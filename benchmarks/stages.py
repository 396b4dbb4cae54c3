"""Times the stages of a recall or an assembly from outside: wraps the methods that each stage is, while asked to."""

from __future__ import annotations

import threading
import time
from collections import defaultdict
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from mcp_memory.encoders.embed_minilm import MiniLMEmbedder
from mcp_memory.encoders.tokens_tiktoken import TiktokenCounter
from mcp_memory.retrieval.graph import GraphSource
from mcp_memory.retrieval.keyword import KeywordSource
from mcp_memory.retrieval.time_span import TimeSpanSource
from mcp_memory.retrieval.vector import VectorSource
from mcp_memory.services.context import assemble, build_items
from mcp_memory.services.context.candidates import CandidateFinder
from mcp_memory.services.retrieval import recall, search
from mcp_memory.stores.filter_index import BitmapFilterIndex
from mcp_memory.stores.graph.store import LinkGraphStore
from mcp_memory.stores.keywords.store import InformationKeywordStore
from mcp_memory.stores.records import SqliteRecordStore
from mcp_memory.stores.vectors.chroma.store import ChromaVectorStore
from mcp_memory.stores.vectors.exact import ExactVectorStore


@dataclass(frozen=True, slots=True, kw_only=True)
class Stage:
    """A function that a module or a class holds under a name, and what to call it. Stages may lie in one another."""

    label: str
    owner: Any
    name: str


def _stages(*rows: tuple[str, Any, str]) -> Sequence[Stage]:
    return tuple(Stage(label=label, owner=_definer(owner, name), name=name) for label, owner, name in rows)


def _definer(owner: Any, name: str) -> Any:
    """Return the class of an owner's that defines the name: a store inherits one class for each facet."""
    return next((each for each in getattr(owner, "__mro__", ()) if name in vars(each)), owner)


STAGES = _stages(
    ("what the caller sees", recall, "visible_to"),
    ("gather: everything up to fusion", search.Searcher, "gather"),
    ("  embed the query", MiniLMEmbedder, "embed_query"),
    ("  count what is not embedded", SqliteRecordStore, "count_unembedded"),
    ("  ids that pass a filter", SqliteRecordStore, "matching_ids"),
    ("  source keyword, search", KeywordSource, "search"),
    ("  source vector, search", VectorSource, "search"),
    ("  source graph, search", GraphSource, "search"),
    ("  source time, search", TimeSpanSource, "search"),
    ("  source keyword, complete", KeywordSource, "scores"),
    ("  source vector, complete", VectorSource, "scores"),
    ("  source graph, complete", GraphSource, "scores"),
    ("  source time, complete", TimeSpanSource, "scores"),
    ("  outlines", BitmapFilterIndex, "outlines"),
    ("  rarity of the words", InformationKeywordStore, "rarity"),
    ("  usual cosine", ChromaVectorStore, "usual_cosine"),
    ("  neighbouring turns", InformationKeywordStore, "neighbours"),
    ("fuse", search, "fuse"),
    ("successors", SqliteRecordStore, "successors"),
    ("get the records shown", SqliteRecordStore, "get"),
    ("fit into the budget", recall, "fit"),
    ("note what was shown", SqliteRecordStore, "touch"),
    ("(of these) graph: entities named", LinkGraphStore, "mentioned"),
    ("(of these) graph: activation", LinkGraphStore, "activate"),
    ("(of these) revision", SqliteRecordStore, "revision"),
    ("(of these) count tokens", TiktokenCounter, "count"),
)
SCORING, FORMS, COMPOSING = "score and order", "the forms of each record", "place, render, count"
ASSEMBLY_STAGES = _stages(
    ("gather", CandidateFinder, "__call__"),
    (SCORING, assemble, "ordered"),
    ("near-duplicates: cosines", ExactVectorStore, "alike"),
    ("near-duplicates: texts", assemble, "repeated"),
    (FORMS, build_items, "record_item"),
    (COMPOSING, assemble, "compose"),
    ("keep the account", SqliteRecordStore, "keep_context"),
)
"""Those of a context, none of them called so often that timing it counts; scoring and rendering are three of them."""


class Clockwork:
    """What each stage took since the last `round`, in seconds and calls. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._now: dict[str, float] = defaultdict(float)
        self._calls: dict[str, int] = defaultdict(int)
        self.rounds: list[tuple[dict[str, float], dict[str, int]]] = []

    def add(self, label: str, seconds: float) -> None:
        with self._lock:
            self._now[label] += seconds
            self._calls[label] += 1

    def round(self) -> None:
        """One recall, or one assembly, is over."""
        with self._lock:
            self.rounds.append((dict(self._now), dict(self._calls)))
            self._now.clear()
            self._calls.clear()


@contextmanager
def timed(stages: Sequence[Stage] = STAGES) -> Generator[Clockwork]:
    """Time the stages meanwhile, whichever thread runs them."""
    clockwork = Clockwork()
    originals: list[tuple[Stage, Callable[..., Any]]] = [(stage, vars(stage.owner)[stage.name]) for stage in stages]
    for stage, original in originals:
        setattr(stage.owner, stage.name, _timed(original, stage.label, clockwork))
    try:
        yield clockwork
    finally:
        for stage, original in originals:
            setattr(stage.owner, stage.name, original)


def _timed(function: Callable[..., Any], label: str, clockwork: Clockwork) -> Callable[..., Any]:
    def run(*arguments: Any, **named: Any) -> Any:
        begin = time.perf_counter()
        try:
            return function(*arguments, **named)
        finally:
            clockwork.add(label, time.perf_counter() - begin)

    return run
