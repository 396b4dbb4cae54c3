"""Many namespaces in one memory: the first recall of one against the next, memory against the budget, round trips.

    python -m benchmarks.partitions [--records 20000] [--partitions 200] [--budget 64] [--engines sqlite,postgres]
        [--keep FOLDER]

Sizes follow Zipf. Texts are those of `benchmarks.texts`, vectors are made, and rows are copied into the tables, in an
order in which the namespaces take turns. Each engine is measured in a process of its own. CPU counts the database's
processes, too, and holds on a busy machine; quotients are of times of one run, namespace by namespace.
"""

from __future__ import annotations

import argparse
import gc
import json
import random
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, closing, suppress
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

import numpy as np
import psutil
from rich.console import Console
from rich.table import Table

from benchmarks.copied_rows import copied
from benchmarks.filling import fill
from benchmarks.postgres_clusters import Cluster
from benchmarks.texts import memories, questions
from mcp_memory.app import App, open_app, token_counter
from mcp_memory.domain.model.scopes import Caller
from mcp_memory.freed_memory import give_back_memory
from mcp_memory.services.retrieval.recall import RecallRequest
from mcp_memory.settings import load_settings
from mcp_memory.stores.records import SqliteRecordStore

ORIGINALS: Final = 2_000
"""Records that are made one by one; all others are copies of them."""
ASKED: Final = 24
"""Namespaces of a size that are asked for the first time."""
MIXED: Final = 200
"""Recalls over namespaces as often as they have records."""
DIMENSIONS: Final = 384


class LetterVectors:
    """An embedder without a model: a text's vector depends on its letters alone."""

    id = "made"
    dimensions = DIMENSIONS

    def embed_query(self, text: str) -> Any:
        made = np.random.default_rng(list(text.encode())).standard_normal(DIMENSIONS).astype(np.float32)
        return made / np.linalg.norm(made)

    def embed(self, text: str) -> Any:
        return self.embed_query(text)[None, :]

    def embed_many(self, texts: Sequence[str]) -> Sequence[Any]:
        return [self.embed(text) for text in texts]

    def share_known(self, text: str) -> float:
        return 1.0


def main() -> None:
    """Fill a memory on each engine, measure it, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--records", type=int, default=20_000)
    parser.add_argument("--partitions", type=int, default=200)
    parser.add_argument("--budget", type=float, default=64.0, help="megabytes of indexes")
    parser.add_argument("--engines", default="sqlite,postgres")
    parser.add_argument("--keep", type=Path, help="a folder that keeps the memories for later runs of the same sizes")
    parser.add_argument(
        "--measure", help="an address of PostgreSQL, or a folder: measure it, and print figures as JSON"
    )
    arguments = parser.parse_args()
    sizes = zipf(arguments.records, arguments.partitions)
    if arguments.measure:
        sys.stdout.write(json.dumps(measured(arguments.measure, sizes, arguments.budget)))
        return
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as temporary, ExitStack() as stack:
        folder = arguments.keep or Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        folder.chmod(0o755)
        figures = {
            engine: asked(
                filled(engine, folder / f"{arguments.records}-{arguments.partitions}", sizes, stack), arguments
            )
            for engine in arguments.engines.split(",")
        }
    Console(width=130).print(table_of(figures))


def zipf(records: int, partitions: int) -> list[int]:
    """Sizes of namespaces, the largest first, each of one record at least."""
    shares = 1 / np.arange(1, partitions + 1) ** 0.9
    return [max(1, round(share)) for share in records * shares / shares.sum()]


def original(folder: Path) -> Path:
    """A SQLite memory of one namespace, whose rows are copied."""
    store, items = SqliteRecordStore(folder, LetterVectors.id), memories(ORIGINALS, seed=5)
    vectors = np.stack([LetterVectors().embed_query(item.text) for item in items])
    with closing(store):
        caller = Caller(namespace="original", agent="default", session_id="s")
        fill(store, items, vectors, caller, token_counter("o200k_base"))
    return folder


def filled(engine: str, folder: Path, sizes: Sequence[int], stack: ExitStack) -> str:
    """Copy rows into a new memory, unless it is kept from before; return its folder or its address."""
    target, url, done = folder / engine, "", folder / f"{engine}.filled"
    if not done.exists():
        shutil.rmtree(target, ignore_errors=True)
    if engine == "postgres":
        cluster = Cluster(target)
        if not done.exists():
            cluster.create()
        cluster.start()
        stack.callback(cluster.kill)
        url = cluster.url
    if not done.exists():
        started = time.monotonic()
        with tempfile.TemporaryDirectory() as made:
            copied(original(Path(made)), target, url, sizes)
        sys.stderr.write(f"{engine}: {sum(sizes):,} records copied in {time.monotonic() - started:.0f} s\n")
        done.touch()
    return url or str(target)


def asked(target: str, arguments: argparse.Namespace) -> dict[str, Any]:
    command = [sys.executable, "-m", "benchmarks.partitions", "--measure", target, "--budget", str(arguments.budget)]
    command += ["--records", str(arguments.records), "--partitions", str(arguments.partitions)]
    return json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout)


def measured(target: str, sizes: Sequence[int], budget: float) -> dict[str, Any]:
    """The figures of one memory, in this process."""
    is_postgres = "://" in target
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as home:
        place: dict[str, Any] = {"data_dir": home, "database_url": target} if is_postgres else {"data_dir": target}
        settings = load_settings(namespace="p0", semantic_store="exact", index_max_mb=budget, **place)
        trips, cpu = round_trips() if is_postgres else (lambda: 0), cpu_of(urlsplit(target).port)
        with closing(open_app(settings, embedder=LetterVectors())) as app:
            texts = questions(200, seed=3)
            app.warm()
            for text in texts[:20]:
                recall(app, len(sizes) - 1, text)
            figures: dict[str, Any] = {}
            places = {"median": len(sizes) // 2, "p95": len(sizes) // 20}
            for name, middle in places.items():
                of_size = range(middle - ASKED // 2, middle + ASKED // 2)
                figures[name] = first_and_next(app, of_size, texts[20:], cpu)
            figures["mixed"] = mixed(app, sizes, texts, cpu, trips)
            figures["memory"] = touched(app, len(sizes), texts[0], budget)
        return figures


def first_and_next(app: App, places: Sequence[int], texts: Sequence[str], cpu: Callable[[], float]) -> dict[str, Any]:
    """The quotient of the first recall of each namespace to the median of three later ones: (CPU, wall)."""
    firsts, quotients = list[tuple[float, float]](), list[tuple[float, float]]()
    for place, text in zip(places, texts, strict=False):
        app.follower.forget()
        gc.collect()
        first = timed(lambda place=place, text=text: recall(app, place, text), cpu)
        later = [timed(lambda place=place, each=each: recall(app, place, each), cpu) for each in texts[60:63]]
        usual = [statistics.median(each) for each in zip(*later, strict=True)]
        firsts.append(first)
        quotients.append((first[0] / usual[0], first[1] / usual[1]))
    return {"first": medians(firsts), "quotient": medians(quotients)}


def mixed(
    app: App, sizes: Sequence[int], texts: Sequence[str], cpu: Callable[[], float], trips: Callable[[], int]
) -> dict[str, Any]:
    """Warm recalls of namespaces drawn by their sizes, the same on each engine: CPU, wall and round trips."""
    drawn = random.Random(7).choices(range(len(sizes)), weights=sizes, k=MIXED)
    times, journeys = list[tuple[float, float]](), list[int]()
    for number, place in enumerate(drawn):
        recall(app, place, texts[number % len(texts)])
        before = trips()
        asked = texts[(number + 1) % len(texts)]
        times.append(timed(lambda place=place, asked=asked: recall(app, place, asked), cpu))
        journeys.append(trips() - before)
    both = [*zip(*times, strict=True)]
    p95 = [statistics.quantiles(each, n=20)[-1] for each in both]
    return {"p50": medians(times), "p95": p95, "trips": statistics.median(journeys), "most": max(journeys)}


def touched(app: App, partitions: int, text: str, budget: float) -> dict[str, Any]:
    """Memory before and after each namespace was asked, in MB, beyond the budget."""
    process = psutil.Process()
    app.follower.forget()
    gc.collect()
    give_back_memory()
    before, most = process.memory_info().rss, 0
    for place in range(partitions):
        recall(app, place, text)
        most = max(most, process.memory_info().rss)
    told = app.follower.figures()
    return {
        "before": before / 2**20,
        "grown": (most - before) / 2**20,
        "budget": budget,
        "evictions": told.evictions,
        "told": told.bytes / 2**20,
    }


def recall(app: App, place: int, text: str) -> None:
    caller = Caller(namespace=f"p{place}", agent="default", session_id="s")
    answer = app.recall(RecallRequest(query=text), caller)
    assert not answer.degraded, answer.degraded


def timed(call: Callable[[], object], cpu: Callable[[], float]) -> tuple[float, float]:
    began, at = cpu(), time.perf_counter()
    call()
    wall = time.perf_counter() - at
    return cpu() - began, wall


def medians(pairs: Sequence[tuple[float, float]]) -> list[float]:
    return [statistics.median(each) for each in zip(*pairs, strict=True)]


def cpu_of(port: int | None) -> Callable[[], float]:
    """Return a clock of the CPU seconds of this process, and of the processes of the database on that port."""
    command = ["-p", str(port)]
    servers = [each for each in psutil.process_iter(["cmdline"]) if (each.info["cmdline"] or [])[3:5] == command]

    def run_by(process: psutil.Process) -> float:
        with suppress(OSError):  # The first figure of three: nanoseconds on a processor.
            return int(Path(f"/proc/{process.pid}/schedstat").read_text().split()[0]) / 1e9
        return 0.0

    return lambda: time.process_time() + sum(run_by(each) for server in servers for each in server.children())


def round_trips() -> Callable[[], int]:
    """Count what this process waits for its database from now on."""
    import psycopg

    waited, wait = [0], psycopg.Connection.wait

    def counted(connection: Any, *given: Any, **named: Any) -> Any:
        waited[0] += 1
        return wait(connection, *given, **named)

    psycopg.Connection.wait = counted  # pyrefly: ignore[bad-assignment, method-assign] - generic, and only here
    return lambda: waited[0]


def table_of(figures: dict[str, dict[str, Any]]) -> Table:
    table = Table(title="One memory of many namespaces: CPU / wall")
    table.add_column("")
    for engine in figures:
        table.add_column(engine, justify="right")
    for name, told in rows_of(figures):
        table.add_row(name, *told)
    return table


def rows_of(figures: dict[str, dict[str, Any]]) -> Iterator[tuple[str, list[str]]]:
    each = figures.values()
    for name in ("median", "p95"):
        yield f"first recall, {name} namespace, ms", [_ms(one[name]["first"]) for one in each]
        yield "  to later ones", ["{:.1f} / {:.1f}".format(*one[name]["quotient"]) for one in each]
    for name in ("p50", "p95"):
        yield f"warm recall, {name}, ms", [_ms(one["mixed"][name]) for one in each]
    yield "round trips, median / most", [f"{one['mixed']['trips']:.0f} / {one['mixed']['most']}" for one in each]
    yield "memory grown, budget, MB", [f"{one['memory']['grown']:.0f}, {one['memory']['budget']:.0f}" for one in each]
    yield "  told, MB; evictions", [f"{one['memory']['told']:.0f}; {one['memory']['evictions']}" for one in each]
    if len(figures) == 2:
        one, other = figures.values()
        for name in ("p50", "p95"):
            quotient = [b / a for a, b in zip(one["mixed"][name], other["mixed"][name], strict=True)]
            yield f"second to first, {name}", ["", "{:.2f} / {:.2f}".format(*quotient)]


def _ms(pair: Sequence[float]) -> str:
    return f"{1000 * pair[0]:.1f} / {1000 * pair[1]:.1f}"


if __name__ == "__main__":
    main()
