"""How many of the exact candidates pgvector names in a large scope, and at what cost.

    python -m benchmarks.pgvector DATA_DIR… [--sizes 200000,20000] [--queries 200]
    python -m benchmarks.pgvector DATA_DIR --figures cosqa [--sizes 200000]

Each folder holds `memories.jsonl` and `queries.jsonl` (`benchmarks.groups`). A scope of each size has a record for each
vector: those of 3,000 of the real texts, and copies of these with noise, at a cosine of 0.9 to them. Questions are
embedded really. Both searches answer each of them, as a recall asks. The index over the first scope is built once it is
filled, which is quicker than vector by vector, as a server does it and this with the others.

With `--figures` it prints how well recall ranks where pgvector names the candidates, beside the exact search, as
`benchmarks.retrieval` does: each group of the named data sets is stored, and its scope filled up to the first size with
copies, with noise, of the vectors of all texts that answer no question. A question takes as many candidates from each
source as a recall does.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import psutil
import psycopg
from rich.console import Console
from rich.table import Table

from benchmarks.groups import Clock, Question, lines, stored_groups
from benchmarks.postgres_clusters import Cluster
from benchmarks.retrieval import CUTS, places
from benchmarks.speed import ms
from mcp_memory.app import App, open_app
from mcp_memory.domain.model.ids import RECORD, make_id
from mcp_memory.encoders.embed_minilm import MiniLMEmbedder
from mcp_memory.services.retrieval.search import CANDIDATES_PER_SOURCE
from mcp_memory.services.tasks.branch_visibility import visible_to
from mcp_memory.settings import load_settings
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
    i, id, i, 'shared/' || %(name)s, %(name)s, 'shared', 'a', 's', 'fact', id, id, id, 1,
    1, 1, md5(id), md5(id), 1, 'new', 0, '[]', '{}', i,
    i, i, i
FROM (SELECT %(first)s + n, id FROM unnest(%(ids)s::text[]) WITH ORDINALITY AS each (id, n)) AS made (i, id);
INSERT INTO partitions AS p VALUES ('namespace/' || %(name)s, %(last)s, '', %(last)s - %(first)s, 0)
ON CONFLICT (name) DO UPDATE SET newest = excluded.newest, records = p.records + excluded.records;
SELECT setval('changes', %(last)s), setval(pg_get_serial_sequence('records', 'row'), %(last)s)
"""


def main() -> None:
    """Store, ask, print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("data", type=Path, nargs="+", help="folders with memories.jsonl and queries.jsonl")
    parser.add_argument("--sizes", default="200000,20000", help="vectors of each scope, comma-separated")
    parser.add_argument("--queries", type=int, default=200)
    parser.add_argument("--figures", help="data sets whose rankings are compared, comma-separated")
    chosen = parser.parse_args()
    sizes = [int(text) for text in chosen.sizes.split(",")]
    embedder, random = MiniLMEmbedder(), np.random.default_rng(7)
    texts = [each["text"] for folder in chosen.data for each in lines(folder / "memories.jsonl")]
    queries = [each["query"] for folder in chosen.data for each in lines(folder / "queries.jsonl")]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        folder.chmod(0o755)
        cluster = Cluster(folder, {"shared_buffers": "1GB", "fsync": "off"})
        cluster.create()
        cluster.start()
        try:
            with closing(PostgresRecordStore(cluster.url, embedder.id)) as records:
                if chosen.figures:
                    named = chosen.figures.split(",")
                    Console(width=150).print(compare(records, cluster.url, chosen.data[0], named, sizes[0]))
                    return
                real = np.stack([embedder.embed(text)[0] for text in random.permutation(texts)[:REAL].tolist()])
                asked = [embedder.embed_query(text) for text in random.permutation(queries)[: chosen.queries].tolist()]
                scopes = {f"n{size}": spread(real, size, random) for size in sizes}
                store(cluster.url, embedder.id, scopes)
                filled = fill(records, cluster.url, embedder.id, scopes)
                measure(records, embedder.id, sizes, filled, asked)
        finally:
            cluster.kill()


def spread(real: Vectors, size: int, random: np.random.Generator) -> Vectors:
    """So many unit vectors: the real ones, then each of them again and again with noise."""
    return np.concatenate([real, near(real, max(size - len(real), 0), random)])[:size]


def near(real: Vectors, count: int, random: np.random.Generator) -> Vectors:
    """So many copies with noise, of each of the real ones in turn."""
    made = random.standard_normal((count, real.shape[1]), np.float32)
    made *= np.float32(np.sqrt(1 - NEARNESS**2)) / np.linalg.norm(made, axis=1, keepdims=True)
    made += np.float32(NEARNESS) * real[np.arange(len(made)) % len(real)]
    return made / np.linalg.norm(made, axis=1, keepdims=True)


def store(url: str, embedder: str, scopes: Mapping[str, Vectors]) -> None:
    """Write a record for each vector, without words, into the scopes of these namespaces."""
    with psycopg.connect(url) as connection:
        connection.execute("INSERT INTO meta VALUES ('embedder', %s) ON CONFLICT DO NOTHING", (embedder,))
        row = connection.execute("SELECT greatest(nextval('changes'), max(row)) FROM records").fetchone()
        assert row is not None
        first = row[0]
        for name, vectors in scopes.items():
            last = first + len(vectors)
            ids = [make_id(RECORD, number) for number in range(first + 1, last + 1)]
            written = {"name": name, "first": first, "last": last, "ids": ids}
            psycopg.ClientCursor(connection).execute(_RECORDS.encode(), written)
            with connection.cursor().copy("COPY vectors (row, embedder, windows, vector) FROM STDIN") as copied:
                for row, vector in enumerate(vectors, start=first + 1):
                    copied.write_row((row, embedder, 1, vector.tobytes()))
            first = last
        connection.execute("ANALYZE")


def fill(records: PostgresRecordStore, url: str, embedder: str, names: Iterable[str]) -> list[float]:
    """Fill the scopes, the first one without an index, which is built afterwards; return the seconds of each."""
    pushed, took = records.pushed_vectors(), list[float]()
    pushed.fill("shared/nobody", embedder, lambda: False)
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("SET maintenance_work_mem = '1GB'")
        row = connection.execute("SELECT pg_get_indexdef('pushed_vectors_near'::regclass)").fetchone()
        assert row is not None
        connection.execute("DROP INDEX pushed_vectors_near")
        for number, name in enumerate(names):
            begin = time.perf_counter()
            assert pushed.fill(f"shared/{name}", embedder, lambda: False)
            if not number:
                print(f"filled in {time.perf_counter() - begin:.0f} s", flush=True)
                connection.execute(row[0])
            took.append(time.perf_counter() - begin)
            print(f"{name} after {took[-1]:.0f} s", flush=True)
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


def compare(records: PostgresRecordStore, url: str, data: Path, datasets: Sequence[str], size: int) -> Table:
    """The figures of both searches for the questions of the data sets, each of whose groups is in a scope of a size."""
    random, embedder = np.random.default_rng(7), MiniLMEmbedder()
    needed = {memory for each in lines(data / "queries.jsonl") for memory in each["gold"]}
    others = [each["text"] for each in lines(data / "memories.jsonl") if each["id"] not in needed]
    real = np.stack([embedder.embed(text)[0] for text in others])
    questions = dict[str, Sequence[Question]]()
    figures: dict[tuple[str, str], list[list[float]]] = defaultdict(list)
    for group in stored_groups(data, datasets, database_url=url, semantic_store="exact"):
        name = group.app.caller().namespace
        store(url, embedder.id, {name: near(real, size - len(group.items), random)})
        group.app.follower.forget()
        questions[name] = group.questions
        _ask(group.app, group.clock, group.questions, "exact", figures)
        print(f"{name}: asked exactly", flush=True)
    fill(records, url, embedder.id, questions)
    for name, asked in questions.items():
        clock = Clock()
        with tempfile.TemporaryDirectory() as home:
            place = {"data_dir": home, "database_url": url, "semantic_store": f"pgvector:{size // 2}"}
            with closing(open_app(load_settings(namespace=name, **place), clock, embedder)) as app:
                _ask(app, clock, asked, "pgvector", figures)
                print(f"{name}: pgvector answered {app.index.state().answered} searches", flush=True)
    table = Table("data", "n", "candidates by", *(f"R@{cut}" for cut in CUTS), "nDCG@10", "MRR")
    for (dataset, search), rows in sorted(figures.items()):
        means = (f"{100 * statistics.mean(each):.2f}" for each in zip(*rows, strict=True))
        table.add_row(dataset, str(len(rows)), search, *means)
    return table


def _ask(
    app: App,
    clock: Clock,
    questions: Sequence[Question],
    search: str,
    figures: Mapping[tuple[str, str], list[list[float]]],
) -> None:
    where = visible_to(app.records, app.caller())
    for each in questions:
        clock.at(each.asked_at)
        hits = app.searcher.rank(app.searcher.read(each.text), where).hits
        figures[each.dataset, search].append(places([hit.id for hit in hits], each.gold))


def _processor() -> float:
    """Processor seconds of this process and of the database's so far, without those that have ended."""
    times = [each.cpu_times() for each in (psutil.Process(), *psutil.Process().children(recursive=True))]
    return sum(each.user + each.system for each in times)


if __name__ == "__main__":
    main()
