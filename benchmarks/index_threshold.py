"""The size from which Chroma answers a search by meaning at less cost than the exact search, which sets the threshold.

    python -m benchmarks.index_threshold [--sizes 10000,20000,50000,100000] [--queries 200]

One scope grows from size to size. At each, both searches answer the same questions in turn, as a recall asks them, in
blocks, so that the processor time of both processes can be told apart. Vectors are those of `benchmarks.filling`.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

import psutil
from rich.console import Console
from rich.table import Table

from benchmarks.filling import fill_with_vectors, vectors_for
from benchmarks.speed import ms, seconds
from benchmarks.texts import memories, questions
from mcp_memory.app import open_app, token_counter
from mcp_memory.encoders.embed_minilm import MiniLMEmbedder
from mcp_memory.services.retrieval.search import CANDIDATES_PER_SOURCE
from mcp_memory.settings import load_settings
from mcp_memory.stores.follower import Follower
from mcp_memory.stores.records.transaction import embedder_mismatch
from mcp_memory.stores.vectors.chroma.location import IndexPlace
from mcp_memory.stores.vectors.chroma.store import ChromaVectorStore
from mcp_memory.stores.vectors.exact import ExactVectorStore

if TYPE_CHECKING:
    from mcp_memory.domain.retrieval.queries import Vector

REAL = 2_000
"""Texts that are really embedded."""
BLOCK = 25
PATIENCE_SECONDS = 1_800.0


def main() -> None:
    """Grow a scope, measure at each size, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--sizes", default="10000,20000,50000,100000", help="vectors in the scope, comma-separated")
    parser.add_argument("--queries", type=int, default=200)
    chosen = parser.parse_args()
    sizes = sorted(int(text) for text in chosen.sizes.split(","))
    embedder = MiniLMEmbedder()
    vectors = vectors_for(memories(sizes[-1], seed=5), embedder, min(sizes[-1], REAL), seed=5)
    asked = [embedder.embed_query(query) for query in questions(chosen.queries, seed=3)]
    headings = (
        "exact",
        "Chroma",
        "wall",
        "exact, CPU",
        "Chroma, CPU",
        "CPU",
        "by Chroma",
        "same 60",
        "index, CPU",
        "private",
    )
    table = Table("vectors", *headings, title="a search for 60 candidates: median wall, mean processor time")
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        settings = load_settings(data_dir=Path(folder), namespace="benchmark", semantic_store="exact")
        with closing(open_app(settings, embedder=embedder)) as app:
            exact = ExactVectorStore(Follower(app.records), embedder.id, embedder_mismatch)
            place = IndexPlace(mode="embedded", root=str(Path(folder) / "chroma"), embedder=embedder.id)
            with closing(ChromaVectorStore(exact, place, app.records.identity)) as indexed:
                indexed.start()
                present = 0
                for size in sizes:
                    caller, counter = app.caller(), token_counter("o200k_base")
                    before = _index_seconds()
                    fill_with_vectors(app.records, vectors[present:size], caller, counter)
                    present = size
                    assert indexed.settle(PATIENCE_SECONDS), indexed.state()
                    filled = _index_seconds() - before
                    table.add_row(*_row(size, exact, indexed, caller.scopes, asked, filled))
                    Console(width=150).print(table)


def _row(
    size: int,
    exact: ExactVectorStore,
    indexed: ChromaVectorStore,
    scopes: Sequence[str],
    asked: Sequence[Vector],
    filled: float,
) -> list[str]:
    """Both searches of each question."""
    searches = (exact.search, indexed.search)
    for search in searches:
        search(asked[0], scopes, CANDIDATES_PER_SOURCE)
    before = indexed.state().answered
    walls: tuple[list[float], list[float]] = ([], [])
    processor = [0.0, 0.0]
    for start in range(0, len(asked), BLOCK):
        for number, search in enumerate(searches):
            begin = time.process_time() + _index_seconds()
            for vector in asked[start : start + BLOCK]:
                walls[number].append(seconds(lambda: search(vector, scopes, CANDIDATES_PER_SOURCE)))  # noqa: B023
            processor[number] += time.process_time() + _index_seconds() - begin
    answered = indexed.state().answered - before
    same = statistics.mean(_share(vector, scopes, exact.search, indexed.search) for vector in asked)
    wall = [statistics.median(taken) for taken in walls]
    cpu = [total / len(asked) for total in processor]
    return [
        f"{size:,}", ms(wall[0]), ms(wall[1]), f"{wall[0] / wall[1]:.2f}", ms(cpu[0]), ms(cpu[1]),
        f"{cpu[0] / cpu[1]:.2f}", f"{answered} of {len(asked)}", f"{same:.4f}", f"{filled:.1f} s",
        f"{sum(child.memory_full_info().uss for child in psutil.Process().children()) / 2**20:.0f} MiB",
    ]  # fmt: skip


def _share(vector: Vector, scopes: Sequence[str], *searches: Callable[..., Mapping[str, float]]) -> float:
    """The part of the exact candidates that both name."""
    one, other = ({*search(vector, scopes, CANDIDATES_PER_SOURCE)} for search in searches)
    return len(one & other) / len(one)


def _index_seconds() -> float:
    """Processor seconds of the index process so far."""
    times = [child.cpu_times() for child in psutil.Process().children()]
    return sum(each.user + each.system for each in times)


if __name__ == "__main__":
    main()
