"""Servers over HTTP that share one PostgreSQL database, and an index that follows it beside them."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
import time
import urllib.request
from contextlib import closing, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from benchmarks.durability import NAMESPACE, environment
from benchmarks.postgres_clusters import free_port
from mcp_memory.errors import StoreUnavailable
from mcp_memory.ports.changes import ChangeFeed
from mcp_memory.stores.follower import Follower
from mcp_memory.stores.records.store_postgres import PostgresRecordStore

PATIENCE_SECONDS = 60.0
READY_WITHIN_SECONDS = 1.0
"""The time in which a probe wants its answer."""


def start_program(*arguments: str, **options: Any) -> subprocess.Popen[Any]:
    return subprocess.Popen([sys.executable, "-m", "mcp_memory", *arguments], **options)


class Replica:
    """A server over HTTP on a port that it keeps, with a folder of its own and the memory in the database."""

    def __init__(self, folder: Path, database: str) -> None:
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}/mcp"
        self.environment = environment(folder) | {"MCP_MEMORY_DATABASE_URL": database}
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
