"""How the time of storing and recalling grows with the store, beside embedding, numpy and bare Chroma on the same data.

    python -m benchmarks.scaling [--sizes 1000,10000] [--queries 60] [--stages]

Services in one process, over memories as an agent has them (`benchmarks.texts.memories`); 10,000 take about a minute,
100,000 about ten. Columns of one size are measured in turn, query by query, so that ratios hold on a busy machine.
"""

from __future__ import annotations

import argparse
import os
import statistics
import tempfile
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

import psutil
from rich.console import Console
from rich.table import Table

from benchmarks.baselines import BareChroma, nearest
from benchmarks.filling import fill, vectors_for
from benchmarks.speed import memory_of_server, ms, seconds
from benchmarks.stages import STAGES, timed
from benchmarks.texts import AREAS, memories, questions, sentences
from mcp_memory.app import App, open_app, token_counter
from mcp_memory.domain.model.records import NewRecord
from mcp_memory.domain.text.times import iso
from mcp_memory.encoders.embed_minilm import MiniLMEmbedder
from mcp_memory.services.retrieval.recall import RecallRequest
from mcp_memory.settings import load_settings

if TYPE_CHECKING:
    from mcp_memory.ports.text import Vectors

REAL = 2_000
"""Texts of a store that are really embedded."""
WORST_CASE = 10_000
"""The size at which texts that share nearly all words are measured as well."""
STORES = 200
FOREIGN = 500
PATIENCE_SECONDS = 1_800.0
KIND = "decision"
SHARE = 10
"""Each filter passes one in so many records."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Figures:
    """What was measured at one size: times in seconds by name, and what is no time as text."""

    size: int
    times: dict[str, list[float]] = field(default_factory=dict[str, list[float]])
    notes: dict[str, str] = field(default_factory=dict[str, str])
    stages: dict[str, tuple[float, float]] = field(default_factory=dict[str, tuple[float, float]])

    def median(self, name: str) -> float:
        return statistics.median(self.times[name])

    def mean(self, name: str) -> float:
        return statistics.mean(self.times[name])

    def p95(self, name: str) -> float:
        return statistics.quantiles(self.times[name], n=20)[-1]


def main() -> None:
    """Measure each size and print the tables."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--sizes", default="1000,10000", help="records, comma-separated")
    parser.add_argument("--queries", type=int, default=60)
    parser.add_argument("--stages", action="store_true", help="where the time of a recall goes, as well")
    arguments = parser.parse_args()
    figures: list[Figures] = []
    for size in sorted(int(text) for text in arguments.sizes.split(",")):
        with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
            figures.append(measured(size, Path(folder), arguments.queries, stages=arguments.stages))
    console = Console(width=150)
    for table in (table_of(figures), bounds_of(figures), *([stages_of(figures)] if arguments.stages else [])):
        console.print(table)


def measured(size: int, folder: Path, queries: int, *, stages: bool) -> Figures:
    """Everything at one size."""
    figures = Figures(size=size)
    embedder = MiniLMEmbedder()
    items = memories(size, seed=5)
    vectors = vectors_for(items, embedder, min(size, REAL), seed=5)
    home = folder / "memory"
    with closing(opened(home, embedder, "exact")) as exact:
        fill(exact.records, items, vectors, exact.caller(), token_counter("o200k_base"))
        asked = questions(queries + 1, seed=3)
        figures.times["first recall"] = [seconds(lambda: recall(exact, asked[-1]))]
        with closing(opened(home, embedder, "auto")) as indexed:
            indexed.warm()
            figures.times["index built"] = [seconds(lambda: settle(indexed))]
            for name, app in (("recall", indexed), ("recall, without Chroma", exact)):
                measure_cpu(figures, name, app, embedder, asked)
            bare = BareChroma(folder / "bare", items, vectors)
            with closing(bare):
                measure_queries(figures, indexed, exact, bare, items, vectors, asked[:-1])
            if stages:
                measure_stages(figures, indexed, asked[:-1])
            measure_stores(figures, indexed, embedder)
            measure_catching_up(figures, indexed, exact, asked)
            note_sizes(figures, home)
    figures.notes["server process after a recall"] = memory_of_server(home, calls=1)
    if size == WORST_CASE:
        measure_worst_case(figures, folder / "worst", embedder, queries)
    return figures


def opened(home: Path, embedder: MiniLMEmbedder, semantic_store: str) -> App:
    return open_app(
        load_settings(data_dir=home, namespace="benchmark", semantic_store=semantic_store), embedder=embedder
    )


def recall(app: App, query: str, request: RecallRequest | None = None) -> None:
    """Ask; a recall that misses a source measures nothing. Some find nothing: then all the search is done, too."""
    wanted = RecallRequest(query=query) if request is None else request
    answer = app.recall(wanted, app.caller())
    assert not answer.degraded, answer.degraded


def settle(app: App) -> None:
    """Wait for the index, if the memory is large enough to need one."""
    if app.index.state().state != "not needed":
        assert app.index.settle(PATIENCE_SECONDS), app.index.state()


def measure_queries(
    figures: Figures,
    indexed: App,
    exact: App,
    bare: BareChroma,
    items: Sequence[NewRecord],
    vectors: Vectors,
    asked: Sequence[str],
) -> None:
    """Recall and what stands beside it, in turn."""
    embedder = MiniLMEmbedder()
    embedded = {query: embedder.embed_query(query) for query in asked}
    since = sorted(item.occurred_at or 0.0 for item in items)[-len(items) // SHARE]
    filters: Mapping[str, Callable[[str], RecallRequest]] = {
        "recall, by kind": lambda query: RecallRequest(query=query, kinds=(KIND,)),
        "recall, by tag": lambda query: RecallRequest(query=query, tags=(AREAS[0],)),
        "recall, by time": lambda query: RecallRequest(query=query, since=iso(since)),
    }
    calls: dict[str, Callable[[str], object]] = {
        "embedding the query": embedder.embed_query,
        "recall": partial(recall, indexed),
        "recall, without Chroma": partial(recall, exact),
        **{name: partial(_filtered, indexed, request) for name, request in filters.items()},
        "numpy, 10 nearest": lambda query: nearest(vectors, embedded[query]),
        "bare Chroma, 10 nearest": lambda query: bare.query(embedded[query]),
        "bare Chroma, by kind": lambda query: bare.query(embedded[query], KIND),
    }
    for call in calls.values():
        call(asked[0])
    before = indexed.index.state().answered
    figures.times.update(in_turn(calls, asked))
    answered = indexed.index.state().answered - before
    figures.notes["plain recalls answered by Chroma"] = f"{answered} of {len(asked)}"


def _filtered(app: App, request: Callable[[str], RecallRequest], query: str) -> None:
    recall(app, query, request(query))


def in_turn(calls: Mapping[str, Callable[[str], object]], asked: Sequence[str]) -> dict[str, list[float]]:
    """Each call with each query, never the same query twice in a row: what is kept of a query helps none of them."""
    taken: dict[str, list[float]] = {name: [] for name in calls}
    for turn in range(len(asked)):
        for place, (name, call) in enumerate(calls.items()):
            query = asked[(turn + 7 * place) % len(asked)]
            taken[name].append(seconds(partial(call, query)))
    return taken


def measure_cpu(figures: Figures, name: str, app: App, embedder: MiniLMEmbedder, asked: Sequence[str]) -> None:
    """CPU of a recall and of embedding a query, the index process's included; nothing else runs between them."""
    calls = {_cpu_of(name): partial(recall, app), _cpu_of(f"{name}, embedding"): embedder.embed_query}
    children = psutil.Process().children(recursive=True)
    for query in asked:
        for label, call in calls.items():
            elsewhere, here = _cpu_in(children), time.process_time()
            call(f"{query} {label}")  # Not the same text twice in a row.
            taken = time.process_time() - here + _cpu_in(children) - elsewhere
            figures.times.setdefault(label, []).append(taken)


def _cpu_of(name: str) -> str:
    return f"CPU: {name}"


def _cpu_in(processes: Sequence[psutil.Process]) -> float:
    """Return the CPU seconds of other processes, which are counted in hundredths: right in the mean alone."""
    return sum(times.user + times.system for times in (each.cpu_times() for each in processes))


def measure_stages(figures: Figures, app: App, asked: Sequence[str]) -> None:
    """Median milliseconds and mean calls of each stage of a plain recall."""
    with timed() as clockwork:
        for query in asked:
            recall(app, query)
            clockwork.round()
    for stage in STAGES:
        taken = [times.get(stage.label, 0.0) for times, _ in clockwork.rounds]
        calls = [counts.get(stage.label, 0) for _, counts in clockwork.rounds]
        figures.stages[stage.label] = (statistics.median(taken), statistics.mean(calls))


def measure_stores(figures: Figures, app: App, embedder: MiniLMEmbedder) -> None:
    """A store beside embedding its text; then stores while the index is made anew."""
    texts = iter(memories(20 * STORES, seed=11))
    settle(app)
    quiet: list[float] = []
    embedded: list[float] = []
    for item in (next(texts) for _ in range(STORES)):
        embedded.append(seconds(partial(embedder.embed, item.text)))
        quiet.append(seconds(partial(app.remember, [item], app.caller())))
    settle(app)
    figures.times.update({"store": quiet, "embedding its text": embedded})
    if app.index.state().state == "not needed":
        return
    app.index.rebuild()
    rebuilt = threading.Thread(target=lambda: figures.times.update({"index rebuilt": [seconds(lambda: settle(app))]}))
    rebuilt.start()
    meanwhile: list[float] = []
    for item in texts:
        meanwhile.append(seconds(partial(app.remember, [item], app.caller())))
        if not rebuilt.is_alive():
            break
    rebuilt.join()
    figures.times["store during a rebuild"] = meanwhile


def measure_catching_up(figures: Figures, app: App, other: App, asked: Sequence[str]) -> None:
    """The first recall after another process has written."""
    embedder, counter = MiniLMEmbedder(), token_counter("o200k_base")
    for count, times in ((1, 20), (FOREIGN, 5)):
        items = memories(count * times, seed=13 + count)
        vectors = vectors_for(items, embedder, min(len(items), 200), seed=13)
        taken: list[float] = []
        for turn in range(times):
            some = slice(count * turn, count * (turn + 1))
            fill(other.records, items[some], vectors[some], other.caller(), counter)
            taken.append(seconds(partial(recall, app, asked[turn])))
        figures.times[f"recall after {count} foreign writes"] = taken


def measure_worst_case(figures: Figures, home: Path, embedder: MiniLMEmbedder, queries: int) -> None:
    """Recall over texts that share nearly all of their words."""
    items = [NewRecord(text=text) for text in sentences(WORST_CASE + queries, seed=7)]
    vectors = vectors_for(items[:WORST_CASE], embedder, REAL, seed=7)
    with closing(opened(home, embedder, "auto")) as app:
        fill(app.records, items[:WORST_CASE], vectors, app.caller(), token_counter("o200k_base"))
        app.warm()
        settle(app)
        calls: dict[str, Callable[[str], object]] = {
            "worst case: embedding the query": embedder.embed_query,
            "worst case: recall": partial(recall, app),
        }
        figures.times.update(in_turn(calls, [item.text for item in items[WORST_CASE:]]))


def note_sizes(figures: Figures, home: Path) -> None:
    """Disk, and the memory of the index process."""
    children = psutil.Process(os.getpid()).children(recursive=True)
    figures.notes["index process"] = f"{sum(child.memory_info().rss for child in children) / 2**20:.0f} MiB"
    figures.notes["memory.db"] = f"{_bytes_in(home, 'memory.db*') / 2**20:.0f} MiB"
    figures.notes["index on disk"] = f"{_bytes_in(home / 'chroma', '**/*') / 2**20:.0f} MiB"


def _bytes_in(folder: Path, pattern: str) -> int:
    return sum(path.stat().st_size for path in folder.glob(pattern) if path.is_file())


def table_of(figures: Sequence[Figures]) -> Table:
    """Medians, with the 95th percentile where there are enough to tell it."""
    table = Table("what", *(f"{each.size:,} records" for each in figures), title="median (95th percentile)")
    for name in dict.fromkeys(name for each in figures for name in each.times):
        table.add_row(name, *(_shown(each, name) for each in figures))
    for name in dict.fromkeys(name for each in figures for name in each.notes):
        table.add_row(name, *(each.notes.get(name, "") for each in figures))
    return table


def _shown(figures: Figures, name: str) -> str:
    taken = figures.times.get(name)
    if not taken:
        return ""
    return f"{ms(figures.median(name))} ({ms(figures.p95(name))})" if len(taken) >= SHARE else ms(figures.median(name))


def bounds_of(figures: Sequence[Figures]) -> Table:
    """The ratios that are promised."""
    table = Table("ratio", *(f"{each.size:,} records" for each in figures), "bound")
    ratios = (
        ("recall : embedding its query", "recall", "embedding the query", "<= 5 at 10,000 (aim 3)"),
        ("worst case: recall : embedding", "worst case: recall", "worst case: embedding the query", ""),
        ("recall without Chroma : embedding", "recall, without Chroma", "embedding the query", ""),
        *((f"{name} : plain", name, "recall", "<= 1") for name in _FILTERED),
        ("store : embedding its text", "store", "embedding its text", "<= 3"),
    )
    for name, one, other, bound in ratios:
        table.add_row(name, *(_ratio(each, one, other, Figures.median) for each in figures), bound)
    for name in ("recall", "recall, without Chroma"):
        shown = (_ratio(each, _cpu_of(name), _cpu_of(f"{name}, embedding"), Figures.mean) for each in figures)
        table.add_row(f"{_cpu_of(name)} : embedding", *shown, "aim 3 at 10,000, 5 at 100,000")
    during = (_ratio(each, "store during a rebuild", "store", Figures.p95) for each in figures)
    table.add_row("p95 of a store during a rebuild : without", *during, "<= 2")
    for small, large in pairwise(figures):
        table.add_row(
            f"recall at {large.size:,} : at {small.size:,}",
            *("" for _ in figures[:-1]),
            f"{large.median('recall') / small.median('recall'):.2f}",
            "<= 2 from 1,000 to 10,000; aim 3 from there to 100,000",
        )
    return table


_FILTERED = ("recall, by kind", "recall, by tag", "recall, by time")


def _ratio(figures: Figures, one: str, other: str, of: Callable[[Figures, str], float]) -> str:
    return f"{of(figures, one) / of(figures, other):.2f}" if one in figures.times else ""


def stages_of(figures: Sequence[Figures]) -> Table:
    """Where a plain recall's time goes; where Chroma answers, the other sources are asked meanwhile."""
    table = Table("stage", *(f"{each.size:,} records" for each in figures), title="median (calls a recall)")
    for stage in STAGES:
        rows = [each.stages[stage.label] for each in figures]
        if any(calls for _, calls in rows):
            table.add_row(stage.label, *(f"{1000 * taken:.2f} ms ({calls:.1f})" for taken, calls in rows))
    return table


if __name__ == "__main__":
    main()
