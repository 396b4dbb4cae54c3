"""Servers over HTTP that share one PostgreSQL database, and an index that follows it beside them."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.durability import NAMESPACE, environment
from benchmarks.filling import fill
from benchmarks.postgres_clusters import free_port
from benchmarks.texts import memories
from mcp_memory.app import token_counter
from mcp_memory.domain.model.scopes import Caller
from mcp_memory.encoders.embed_minilm import DIMENSIONS, MiniLMEmbedder
from mcp_memory.errors import StoreUnavailable
from mcp_memory.ports.changes import ChangeFeed
from mcp_memory.services.retrieval.search import CANDIDATES_PER_SOURCE
from mcp_memory.stores.follower import Follower
from mcp_memory.stores.records.store_postgres import PostgresRecordStore
from mcp_memory.stores.records.transaction import embedder_mismatch
from mcp_memory.stores.vectors.chroma.location import IndexPlace
from mcp_memory.stores.vectors.pgvector import OVERFETCH, SPARE, PgvectorStore

PATIENCE_SECONDS = 60.0
SCOPE = f"shared/{NAMESPACE}"
FEW = OVERFETCH * CANDIDATES_PER_SOURCE + SPARE + 10
"""Records of a scope that is just too large for the exact search alone."""
READY_WITHIN_SECONDS = 1.0
"""The time in which a probe wants its answer."""


def start_program(*arguments: str, **options: Any) -> subprocess.Popen[Any]:
    return subprocess.Popen([sys.executable, "-m", "mcp_memory", *arguments], **options)


class Replica:
    """A server over HTTP on a port that it keeps, with a folder of its own and the memory in the database."""

    def __init__(self, folder: Path, database: str, semantic_store: str = "auto") -> None:
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}/mcp"
        settings = {"MCP_MEMORY_DATABASE_URL": database, "MCP_MEMORY_SEMANTIC_STORE": semantic_store}
        self.environment = environment(folder) | settings
        self._log = folder.with_suffix(".log")
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start it, and wait until it can read the memory."""
        arguments = ("serve", "--http", "--port", str(self.port))
        with self._log.open("ab") as log:
            self._process = start_program(*arguments, stdin=subprocess.DEVNULL, stderr=log, env=self.environment)
        deadline = time.monotonic() + PATIENCE_SECONDS
        while not self.is_ready(10):
            if time.monotonic() > deadline or self._process.poll() is not None:
                raise RuntimeError(f"A server did not start: {self._log.read_text('utf-8')[-500:]}")
            time.sleep(0.05)

    def is_ready(self, patience: float = READY_WITHIN_SECONDS) -> bool:
        """Return True where it says in time that it can read the memory."""
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/healthz", timeout=patience):
                return True
        except OSError:
            return False

    @property
    def pid(self) -> int:
        assert self._process is not None, "It was not started."
        return self._process.pid

    def kill(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait(PATIENCE_SECONDS)

    def make_token(self) -> str:
        """Return the secret of a token that all clients use."""
        arguments = ("tokens", "add", "all", "--agent", "all", "--json", "--namespace", NAMESPACE, "--right", "write")
        with start_program(*arguments, stdout=subprocess.PIPE, env=self.environment) as process:
            told, _ = process.communicate()
        if process.returncode:
            raise subprocess.CalledProcessError(process.returncode, arguments)
        return json.loads(told)["secret"]


@dataclass(eq=False)
class FollowedIds:
    """An index of nothing but the ids of records, of one partition."""

    bytes = 0
    ids: set[str] = field(default_factory=set[str])

    def new_part(self) -> FollowedIds:
        self.ids.clear()
        return self

    def forget(self, part: FollowedIds) -> None:
        """Nothing is made of a part."""

    def follow(self, truth: ChangeFeed, since: int, partition: str) -> int:
        for columns in truth.index_rows("places", since, partition=partition):
            self.ids.update(columns["id"])
        return len(self.ids)


def watch(address: str, index: FollowedIds, is_settled: threading.Event) -> None:
    """Move the index with the memory, as a server does, until everything is settled."""
    with closing(PostgresRecordStore(address, "")) as store:
        follower = Follower(store)
        while True:
            was_settled = is_settled.is_set()
            with suppress(StoreUnavailable):
                with follower.reading(index, [f"shared/{NAMESPACE}"]):
                    pass
                if was_settled:
                    return
            time.sleep(0.05)


def push(address: str) -> None:
    """Fill the servers' scope with more records than a search takes from pgvector, and have their vectors there."""
    embedder, told = MiniLMEmbedder().id, enumerate(memories(FEW, seed=3))
    items = [replace(item, text=f"Note before{n}: {item.text}", visibility="shared") for n, item in told]
    made = np.random.default_rng(5).standard_normal((FEW, DIMENSIONS)).astype(np.float32)
    made /= np.linalg.norm(made, axis=1, keepdims=True)
    with closing(PostgresRecordStore(address, embedder)) as records:
        fill(
            records, items, made, Caller(namespace=NAMESPACE, agent="all", session_id="s"), token_counter("o200k_base")
        )
        records.pushed_vectors().fill(SCOPE, embedder, lambda: False)


def not_named_by_pgvector(address: str, record_ids: Sequence[str]) -> list[str]:
    """Return those of the records that pgvector does not name for their own vectors, and where its vectors differ."""
    embedder = MiniLMEmbedder().id
    place = IndexPlace(mode="pgvector", root="", embedder=embedder, least_vectors=1)
    with closing(PostgresRecordStore(address, embedder)) as records:
        pushed = records.pushed_vectors()
        with closing(PgvectorStore(Follower(records), embedder, embedder_mismatch, pushed, place)) as store:
            vectors = store.live_vectors(SCOPE, record_ids)
            found = {each: store.search(some[0], [SCOPE], CANDIDATES_PER_SOURCE) for each, some in vectors.items()}
            unnamed = [each for each in record_ids if each not in found.get(each, ())]
            if (exactly := len(record_ids) - store.state().answered) > 0:
                unnamed.append(f"{exactly} searches were exact")
            return [*unnamed, *(f"{scope}: {difference}" for scope, difference in store.check().items())]
