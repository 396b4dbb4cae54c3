"""How good and how fast assembled contexts are: evidence inside them, and their time beside recall's.

    python -m benchmarks.assembly evidence DATA_DIR [--data locomo,prefeval,cosqa] [--strategy NAME] [--questions N]
    python -m benchmarks.assembly speed [--sizes 1000,10000,100000] [--queries 60] [--semantic-store chroma]

`benchmarks.groups` says what DATA_DIR holds; the conversations in it take some minutes. The store that all has to work
at takes a minute, a size of 10,000 about as long, one of 100,000 about ten. Columns of one size are measured in turn,
query by query, so that ratios hold on a busy machine. No request is made twice: a cache would answer it.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from functools import partial
from itertools import count, pairwise
from math import log
from pathlib import Path
from statistics import mean, median

from rich.console import Console
from rich.table import Table

from benchmarks.evidence import evidence_table, held_in
from benchmarks.filling import fill, vectors_for
from benchmarks.groups import stored_groups
from benchmarks.scaling import Figures, in_turn, opened, recall, settle
from benchmarks.speed import ms, seconds
from benchmarks.stages import ASSEMBLY_STAGES, COMPOSING, FORMS, SCORING, timed
from benchmarks.texts import KNOWLEDGE, knowledge, memories, questions, shared_out
from mcp_memory.app import App, token_counter
from mcp_memory.domain.model.contexts import ContextReport
from mcp_memory.domain.model.records import Kind, NewRecord
from mcp_memory.encoders.embed_minilm import MiniLMEmbedder
from mcp_memory.services.context.assemble import ContextRequest
from mcp_memory.services.context.candidates import LEAST_ITEM_TOKENS
from mcp_memory.services.context.choose_strategy import USUAL_BUDGET

ENCODING = "o200k_base"
EMBEDDED = 500
"""Texts of a store that are really embedded: they are long."""
COLD_STARTS = 5
ROUNDS = 20
SCORING_AND_RENDERING = "scoring + rendering"
CANDIDATES = (200, 400, 800, 1_600)
UNASKED = ("balanced", "recent", "important")
"""Strategies that need no query, and so no embedding."""
FITTED = ("auto", "decision", "planning", "debugging", "question")
EXPECTED: Mapping[Kind, int] = {"decision": 10, "fact": 15, "episode": 3, "procedure": 2, "censor": 5}
"""About what fits of each kind into the usual budget."""


def main() -> None:
    """Measure what was asked for and print the tables."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    commands = parser.add_subparsers(dest="command", required=True)
    evidence = commands.add_parser("evidence", help="the share of the evidence inside a context")
    evidence.add_argument("folder", type=Path, help="folder with memories.jsonl and queries.jsonl")
    evidence.add_argument("--data", default="locomo", help="data sets, comma-separated")
    evidence.add_argument("--strategy", help="instead of the default")
    evidence.add_argument("--questions", type=int, metavar="N", help="only the first of each group")
    speed = commands.add_parser("speed", help="time beside recall's, and its growth")
    speed.add_argument("--sizes", default="1000,10000,100000", help="records, comma-separated")
    speed.add_argument("--queries", type=int, default=60)
    speed.add_argument("--semantic-store", default="exact", choices=("exact", "auto", "chroma"), help="who searches")
    arguments = parser.parse_args()
    tables = evidence_tables(arguments) if arguments.command == "evidence" else speed_tables(arguments)
    for table in tables:
        Console(width=150).print(table)


def evidence_tables(arguments: argparse.Namespace) -> list[Table]:
    counter = token_counter(ENCODING)
    groups = stored_groups(arguments.folder, arguments.data.split(","))
    held = (each for group in groups for each in held_in(group, counter, arguments.strategy, arguments.questions))
    return [evidence_table(held)]


def speed_tables(arguments: argparse.Namespace) -> list[Table]:
    """The usual store; 200 candidates and more; each size."""
    sizes = sorted(int(text) for text in arguments.sizes.split(","))
    bench = Bench(embedder=MiniLMEmbedder(), semantic_store=arguments.semantic_store, queries=arguments.queries)
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        usual = usual_tables(bench, Path(folder) / "usual")
        stages = stage_table(bench, Path(folder))
        grown = [grown_to(bench, Path(folder) / str(size), size) for size in sizes]
    return [*usual, stages, growth_table(grown)]


@dataclass(frozen=True, slots=True, kw_only=True)
class Bench:
    """What all measurements share: one embedder, where vectors are searched, and how many queries are asked."""

    embedder: MiniLMEmbedder
    semantic_store: str
    queries: int

    def store(self, home: Path, items: Sequence[NewRecord]) -> None:
        vectors = vectors_for(items, self.embedder, min(len(items), EMBEDDED), seed=5)
        with closing(opened(home, self.embedder, "exact")) as app:
            fill(app.records, items, vectors, app.caller(), token_counter(ENCODING))

    @contextmanager
    def warm(self, home: Path) -> Generator[App]:
        with closing(opened(home, self.embedder, self.semantic_store)) as app:
            app.warm()
            if self.semantic_store != "exact":
                settle(app)
            yield app


def usual_tables(bench: Bench, home: Path) -> list[Table]:
    """Cold and warm times at the store that all has to work at, and what fits into a context there."""
    bench.store(home, knowledge(KNOWLEDGE, seed=5))
    asked = questions(bench.queries + ROUNDS + COLD_STARTS, seed=3)
    figures = Figures(size=sum(KNOWLEDGE.values()))
    measure_cold(figures, home, bench.semantic_store, asked[-COLD_STARTS:])
    with bench.warm(home) as app:
        measure_warm(figures, app, bench, asked[: bench.queries])
        others = asked[bench.queries :][:ROUNDS]
        fitting = {name: [assemble(app, query, strategy=name) for query in others] for name in FITTED}
    return [usual_table(figures), fitting_table(fitting)]


def grown_to(bench: Bench, home: Path, size: int) -> Figures:
    """Warm times at a store of that size."""
    figures = Figures(size=size)
    bench.store(home, knowledge(shared_out(size), seed=5))
    with bench.warm(home) as app:
        measure_warm(figures, app, bench, questions(bench.queries, seed=3))
    return figures


def assemble(app: App, query: str, *, strategy: str | None = None, max_tokens: int | None = None) -> ContextReport:
    """Assemble; a context that is empty, kept from before or misses a source measures nothing."""
    request = ContextRequest(query=query, strategy=strategy, max_tokens=max_tokens)
    report = app.assemble_context(request, app.caller()).report
    assert report.components, query
    assert not report.metadata["cached"], query
    assert not report.metadata["degraded"], report.metadata["degraded"]
    return report


def measure_cold(figures: Figures, home: Path, semantic_store: str, asked: Sequence[str]) -> None:
    """The first context of fresh processes, after opening and after warming up."""
    for name, options in (("cold build, after opening", []), ("cold build, after warming up", ["--warm"])):
        command = [sys.executable, "-m", "benchmarks.cold", str(home), "--semantic-store", semantic_store, *options]
        answers = [subprocess.run([*command, query], check=True, stdout=subprocess.PIPE).stdout for query in asked]
        figures.times[name] = [json.loads(answer)["first context"] for answer in answers]


def measure_warm(figures: Figures, app: App, bench: Bench, asked: Sequence[str]) -> None:
    """Embedding, recall and assembly with each query in turn, and assembly that is asked nothing."""
    budgets = count(USUAL_BUDGET)  # Of its own each time, so that no answer comes from the cache.
    calls: dict[str, Callable[[str], object]] = {
        "embedding the query": bench.embedder.embed_query,
        "recall": partial(recall, app),
        "assembly": partial(assemble, app),
        "assembly, nothing asked": lambda _: assemble(app, "", max_tokens=next(budgets)),
    }
    for call in calls.values():
        call(asked[0])
    figures.times.update(in_turn(calls, asked[1:]))


@dataclass(frozen=True, slots=True, kw_only=True)
class Unasked:
    """A context that is asked nothing, from a memory of so many candidates, all of which its budget can hold."""

    app: App
    strategy: str
    candidates: int

    def __call__(self, turn: int) -> None:
        budget = self.candidates * LEAST_ITEM_TOKENS + turn  # Of its own each time: no answer from the cache.
        assemble(self.app, "", strategy=self.strategy, max_tokens=budget)


def measure_stages(calls: Mapping[str, Unasked]) -> Mapping[str, Mapping[str, float]]:
    """Median seconds of each call's stages, of scoring with rendering, and of the whole; the calls are made in turn."""
    rounds: dict[str, list[Mapping[str, float]]] = {name: [] for name in calls}
    for call in calls.values():
        call(0)
    with timed(ASSEMBLY_STAGES) as clockwork:
        for turn in range(1, ROUNDS + 1):
            for name, call in calls.items():
                whole = seconds(partial(call, turn))
                clockwork.round()
                taken = {stage.label: clockwork.rounds[-1][0].get(stage.label, 0.0) for stage in ASSEMBLY_STAGES}
                both = sum(taken[label] for label in (SCORING, FORMS, COMPOSING))
                rounds[name].append({**taken, SCORING_AND_RENDERING: both, "the whole call": whole})
    return {name: {label: median(each[label] for each in done) for label in done[0]} for name, done in rounds.items()}


def usual_table(figures: Figures) -> Table:
    """Medians at the usual store, and what is promised of them."""
    table = Table("what", f"{figures.size:,} records", "bound", title="median (95th percentile)")
    for name in figures.times:
        if name.startswith("cold build"):
            table.add_row(name, ms(figures.median(name)), "< 500 ms")
        else:
            table.add_row(name, f"{ms(figures.median(name))} ({ms(figures.p95(name))})", "")
    table.add_row("assembly : recall", f"{figures.median('assembly') / figures.median('recall'):.2f}", "<= 2")
    return table


def fitting_table(fitting: Mapping[str, Sequence[ContextReport]]) -> Table:
    """Means over the questions of what stands in a context of the usual budget."""
    table = Table("strategy", *(f"{kind}s" for kind in EXPECTED), "tokens", title="in a context, on average")
    for name, reports in fitting.items():
        kinds = [Counter(component.kind for component in report.components) for report in reports]
        means = [f"{mean(each[kind] for each in kinds):.1f}" for kind in EXPECTED]
        table.add_row(name, *means, f"{mean(report.token_count for report in reports):,.0f}")
    table.add_row("expected, about", *(str(number) for number in EXPECTED.values()), f"<= {USUAL_BUDGET:,}")
    return table


def stage_table(bench: Bench, folder: Path) -> Table:
    """Where the time goes without a query: with 200 candidates under each strategy, then with ever more of them."""
    with ExitStack() as opened_here:
        calls: dict[str, Unasked] = {}
        for size in CANDIDATES:
            home = folder / f"candidates{size}"
            bench.store(home, memories(size, seed=9))
            app = opened_here.enter_context(bench.warm(home))
            for strategy in UNASKED if size == CANDIDATES[0] else UNASKED[:1]:
                calls[f"{strategy}, {size:,}"] = Unasked(app=app, strategy=strategy, candidates=size)
        columns = measure_stages(calls)
    table = Table("stage", *columns, "bound at 200", title="assembling from so many candidates without a query, median")
    for name in next(iter(columns.values())):
        bound = "< 10 ms" if name == SCORING_AND_RENDERING else ""
        table.add_row(name, *(f"{1000 * each[name]:.2f} ms" for each in columns.values()), bound)
    table.add_section()
    both = {size: columns[f"{UNASKED[0]}, {size:,}"][SCORING_AND_RENDERING] for size in CANDIDATES}
    steps, gaps = list(pairwise(CANDIDATES)), [""] * len(UNASKED)
    table.add_row("at half as many: x", *gaps, *(f"{both[large] / both[small]:.2f}" for small, large in steps))
    table.add_row("n log n: x", *gaps, *(f"{_n_log_n(small, large):.2f}" for small, large in steps))
    return table


def growth_table(figures: Sequence[Figures]) -> Table:
    """The warm times at each size, and how they grow."""
    table = Table("what", *(f"{each.size:,} records" for each in figures), "bound", title="median")
    for name in figures[0].times:
        table.add_row(name, *(ms(each.median(name)) for each in figures))
    ratios = (f"{each.median('assembly') / each.median('recall'):.2f}" for each in figures)
    table.add_row("assembly : recall", *ratios, "<= 2")
    table.add_section()
    steps = list(pairwise(figures))
    for name in ("assembly", "assembly, nothing asked"):
        grown = (f"{large.median(name) / small.median(name):.2f}" for small, large in steps)
        table.add_row(f"{name} : at the size before", "", *grown, "<= n log n")
    table.add_row("n log n : at the size before", "", *(f"{_n_log_n(a.size, b.size):.2f}" for a, b in steps))
    return table


def _n_log_n(small: int, large: int) -> float:
    """By how much n log n grows from one number to the other."""
    return large * log(large) / (small * log(small))


if __name__ == "__main__":
    main()
