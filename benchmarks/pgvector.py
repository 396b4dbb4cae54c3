"""How many of the exact candidates pgvector names in a large scope, and at what cost.

    python -m benchmarks.pgvector DATA_DIR… [--sizes 200000,20000] [--queries 200]

Each folder holds `memories.jsonl` and `queries.jsonl` (`benchmarks.groups`). A scope of each size has a record for each
vector: those of 3,000 of the real texts, and copies of these with noise, at a cosine of 0.9 to them. Questions are
embedded really. Both searches answer each of them, as a recall asks. The index over the first scope is built once it is
filled, which is quicker than vector by vector, as a server does it and this with the others.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import psutil
import psycopg
from rich.console import Console
from rich.table import Table

from benchmarks.groups import lines
from benchmarks.postgres_clusters import Cluster
from benchmarks.speed import ms
from mcp_memory.encoders.embed_minilm import MiniLMEmbedder
from mcp_memory.services.retrieval.search import CANDIDATES_PER_SOURCE
from mcp_memory.stores.follower import Follower
from mcp_memory.stores.records.store_postgres import PostgresRecordStore
from mcp_memory.stores.records.transaction import embedder_mismatch
from mcp_memory.stores.vectors.chroma.location import IndexPlace
from mcp_memory.stores.vectors.exact import ExactVectorStore
from mcp_memory.stores.vectors.pgvector import PgvectorStore

if TYPE_CHECKING:
    from mcp_memory.domain.retrieval.queries import Vector
    from mcp_memory.ports.text import Vectors

REAL = 3_000
"""Texts that are really embedded."""
NEARNESS = 0.9
"""The cosine of a made vector to the real one that it was made from."""
PATIENCE_SECONDS = 7_200.0
_RECORDS = """
INSERT INTO records (
    row, id, change, scope, namespace, visibility, agent, session_id, kind, text, summary, micro, text_tokens,
    summary_tokens, micro_tokens, content_hash, normal_hash, importance, status, pinned, tags, details, created_at,
    updated_at, occurred_at, accessed_at
) SELECT
    i, 'r' || lpad(i::text, 6, '0'), i, 'shared/' || n, n, 'shared', 'a', 's', 'fact', 't', 't', 't', 1,
    1, 1, '', '', 1, 'new', 0, '[]', '{}', i,
    i, i, i
FROM (SELECT i + %(first)s, 'n' || %(size)s FROM generate_series(1, %(size)s::bigint) AS i) AS made (i, n);
INSERT INTO partitions VALUES ('namespace/n' || %(size)s, %(first)s + %(size)s, '', %(size)s, 0);
SELECT setval('changes', %(first)s + %(size)s)
"""


def main() -> None:
    """Store, ask, print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("data", type=Path, nargs="+", help="folders with memories.jsonl and queries.jsonl")
    parser.add_argument("--sizes", default="200000,20000", help="vectors of each scope, comma-separated")
    parser.add_argument("--queries", type=int, default=200)
    chosen = parser.parse_args()
    sizes = [int(text) for text in chosen.sizes.split(",")]
    embedder, random = MiniLMEmbedder(), np.random.default_rng(7)
    texts = [each["text"] for folder in chosen.data for each in lines(folder / "memories.jsonl")]
    queries = [each["query"] for folder in chosen.data for each in lines(folder / "queries.jsonl")]
    real = np.stack([embedder.embed(text)[0] for text in random.permutation(texts)[:REAL].tolist()])
    asked = [embedder.embed_query(text) for text in random.permutation(queries)[: chosen.queries].tolist()]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        folder.chmod(0o755)
        cluster = Cluster(folder, {"shared_buffers": "1GB", "fsync": "off"})
        cluster.create()
        cluster.start()
        try:
            with closing(PostgresRecordStore(cluster.url, embedder.id)) as records:
                store(cluster.url, embedder.id, [(size, spread(real, size, random)) for size in sizes])
                filled = fill(records, cluster.url, embedder.id, sizes)
                measure(records, embedder.id, sizes, filled, asked)
        finally:
            cluster.kill()


def spread(real: Vectors, size: int, random: np.random.Generator) -> Vectors:
    """So many unit vectors: the real ones, then each of them again and again with noise."""
    made = random.standard_normal((max(size - len(real), 0), real.shape[1]), np.float32)
    made *= np.float32(np.sqrt(1 - NEARNESS**2)) / np.linalg.norm(made, axis=1, keepdims=True)
    made += np.float32(NEARNESS) * real[np.arange(len(made)) % len(real)]
    made /= np.linalg.norm(made, axis=1, keepdims=True)
    return np.concatenate([real, made])[:size]


def store(url: str, embedder: str, scopes: Sequence[tuple[int, Vectors]]) -> None:
    """Write scopes with a record for each vector, without texts."""
    first = 0
    with psycopg.connect(url) as connection:
        connection.execute("INSERT INTO meta VALUES ('embedder', %s)", (embedder,))
        for size, vectors in scopes:
            psycopg.ClientCursor(connection).execute(_RECORDS.encode(), {"first": first, "size": size})
            with connection.cursor().copy("COPY vectors (row, embedder, windows, vector) FROM STDIN") as copied:
                for row, vector in enumerate(vectors, start=first + 1):
                    copied.write_row((row, embedder, 1, vector.tobytes()))
            first += size
        connection.execute("ANALYZE")


def fill(records: PostgresRecordStore, url: str, embedder: str, sizes: Sequence[int]) -> list[float]:
    """Fill the scopes, the first one without an index, which is built afterwards; return the seconds of each."""
    pushed, took = records.pushed_vectors(), list[float]()
    pushed.fill("shared/nobody", embedder, lambda: False)
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("SET maintenance_work_mem = '1GB'")
        row = connection.execute("SELECT pg_get_indexdef('pushed_vectors_near'::regclass)").fetchone()
        assert row is not None
        connection.execute("DROP INDEX pushed_vectors_near")
        for number, size in enumerate(sizes):
            begin = time.perf_counter()
            assert pushed.fill(f"shared/n{size}", embedder, lambda: False)
            if not number:
                print(f"filled in {time.perf_counter() - begin:.0f} s", flush=True)
                connection.execute(row[0])
            took.append(time.perf_counter() - begin)
            print(f"{size:,} after {took[-1]:.0f} s", flush=True)
    return took


def measure(
    records: PostgresRecordStore, embedder: str, sizes: Sequence[int], filled: Sequence[float], asked: Sequence[Vector]
) -> None:
    """Ask both searches, and print the table."""
    exact = ExactVectorStore(Follower(records), embedder, embedder_mismatch)
    place = IndexPlace(mode="pgvector", root="", embedder=embedder, least_vectors=min(sizes))
    table = Table(
        "vectors", "filled", "exact", "pgvector", "exact, CPU", "pgvector, CPU", "answered", "recall", "worst",
        title=f"a search for {CANDIDATES_PER_SOURCE} candidates: median wall, mean processor time",
    )  # fmt: skip
    pushed = records.pushed_vectors()
    with closing(PgvectorStore(Follower(records), embedder, embedder_mismatch, pushed, place)) as store:
        for size, took in zip(sizes, filled, strict=True):
            scopes, walls, processor = [f"shared/n{size}"], list[float](), list[float]()
            before = store.state().answered
            found: list[list[set[str]]] = []
            for search in (exact.search, store.search):
                search(asked[0], scopes, CANDIDATES_PER_SOURCE)
                begin, taken, named = _processor(), list[float](), list[set[str]]()
                for vector in asked:
                    started = time.perf_counter()
                    named.append({*search(vector, scopes, CANDIDATES_PER_SOURCE)})
                    taken.append(time.perf_counter() - started)
                processor.append((_processor() - begin) / len(asked))
                walls.append(statistics.median(taken))
                found.append(named)
            answered = store.state().answered - before - 1
            shares = [len(one & other) / CANDIDATES_PER_SOURCE for one, other in zip(*found, strict=True)]
            table.add_row(
                f"{size:,}", f"{took:.0f} s", *map(ms, walls), *map(ms, processor), f"{answered} of {len(asked)}",
                f"{statistics.mean(shares):.4f}", f"{min(shares):.3f}",
            )  # fmt: skip
        Console(width=150).print(table)


def _processor() -> float:
    """Processor seconds of this process and of the database's so far, without those that have ended."""
    times = [each.cpu_times() for each in (psutil.Process(), *psutil.Process().children(recursive=True))]
    return sum(each.user + each.system for each in times)


if __name__ == "__main__":
    main()
