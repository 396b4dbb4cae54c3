"""Agents' connections, most of them idle, to servers that reach one PostgreSQL through PgBouncer: does any call fail?

    python -m benchmarks.connections [--idle 500] [--busy 100] [--calls 5] [--servers 3] [--pooled 10]

PgBouncer pools by transaction and hands its few connections to PostgreSQL on in turn. The servers migrate the empty
database through it as well. Each idle agent connects and calls once; then the busy ones make their mixed calls, while
idle connections stay open; at last each idle agent calls again. Ends with 1 where a call failed, or where anything
acknowledged is not in the database once.
"""

from __future__ import annotations

import argparse
import http.client
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil

from benchmarks.durability import show, side_by_side
from benchmarks.load import NEWER, OLDER, HttpClient, Tally, work
from benchmarks.postgres_clusters import Cluster, Pooler
from benchmarks.replica_servers import Replica

LOOK_SECONDS = 0.5
AT_ONCE = 20
"""Idle agents that connect at one time."""


@dataclass
class Watched:
    """The most connections at one time, as PgBouncer counts them."""

    from_servers: int = 0
    to_database: int = 0
    waits: int = 0
    is_over: threading.Event = field(default_factory=threading.Event)

    def watch(self, pooler: Pooler) -> None:
        while not self.is_over.wait(LOOK_SECONDS):
            ours = [pool for pool in pooler.ask("SHOW POOLS") if pool["database"] != "pgbouncer"]
            self.from_servers = max(self.from_servers, sum(pool["cl_active"] + pool["cl_waiting"] for pool in ours))
            self.to_database = max(
                self.to_database, sum(pool["sv_active"] + pool["sv_idle"] + pool["sv_used"] for pool in ours)
            )
            self.waits += any(pool["cl_waiting"] for pool in ours)


class IdleAgent:
    """An agent that calls seldom, over a connection that it keeps; it dials again where the server has ended it."""

    def __init__(self, url: str, secret: str, number: int, tally: Tally) -> None:
        self._dial: Callable[[], HttpClient] = lambda: HttpClient(url, secret, NEWER if number % 2 else OLDER)
        self._client: HttpClient | None = None
        self._number = number
        self._tally = tally
        self.redialled = 0

    def call(self) -> None:
        asked: dict[str, Any] = {"query": f"what does agent {self._number} know of valves?", "limit": 3}
        started = time.perf_counter()
        try:
            if self._client is not None:
                try:
                    self._client.call("recall", **asked)
                except ConnectionError:
                    self.redialled += 1
                    self._client = None
            if self._client is None:
                self._client = self._dial()
                self._client.call("recall", **asked)
        except (RuntimeError, OSError, http.client.HTTPException) as error:
            with self._tally.lock:
                self._tally.errors.append(f"idle: {type(error).__name__}: {error}")
            return
        with self._tally.lock:
            self._tally.milliseconds.append(1_000 * (time.perf_counter() - started))

    def close(self) -> None:
        if self._client is not None:
            self._client.close()


def call_all(agents: Sequence[IdleAgent]) -> None:
    def call_some(first: int) -> None:
        for each in agents[first::AT_ONCE]:
            each.call()

    side_by_side([lambda n=n: call_some(n) for n in range(AT_ONCE)])


def run(folder: Path, idle: int, busy: int, calls: int, servers: int, pooled: int) -> bool:
    """True where nothing failed and nothing was lost or doubled; prints the table."""
    cluster, began = Cluster(folder / "one"), time.monotonic()
    with ExitStack() as stack:
        cluster.create()
        stack.callback(cluster.kill)
        cluster.start()
        pooler = Pooler(folder / "pooler", cluster.port, pooled)
        stack.callback(pooler.stop)
        pooler.start()
        replicas = [Replica(folder / f"server{number}", pooler.address()) for number in range(servers)]
        for replica in replicas:
            stack.callback(replica.kill)
            replica.start()
        secret, asking, working, watched = replicas[0].make_token(), Tally(), Tally(), Watched()
        watching = threading.Thread(target=watched.watch, args=(pooler,))
        watching.start()
        stack.callback(watched.is_over.set)
        agents = [IdleAgent(replicas[n % servers].url, secret, n, asking) for n in range(idle)]
        call_all(agents)
        open_connections = sum(len(psutil.Process(each.pid).net_connections("tcp")) for each in replicas)
        clients = [HttpClient(replicas[n % servers].url, secret, NEWER if n % 2 else OLDER) for n in range(busy)]
        started = time.perf_counter()
        side_by_side([lambda n=n, c=c: work(c, f"busy{n}", calls, n, working) for n, c in enumerate(clients)])
        seconds = time.perf_counter() - started
        call_all(agents)
        watched.is_over.set()
        watching.join()
        for each in [*clients, *agents]:
            each.close()
        stored = Counter(row for (row,) in cluster.ask("SELECT id FROM records"))
        errors = [*asking.errors, *working.errors]
        missing = [each for each in working.ids if stored[each] != 1]
        show(
            [
                ("PostgreSQL", cluster.ask("SHOW server_version")[0][0]),
                ("connections open to the servers, while the busy ones came", open_connections),
                (
                    "calls of idle agents; dialled again",
                    f"{len(asking.milliseconds)}; {sum(a.redialled for a in agents)}",
                ),
                ("calls of busy agents; a second", f"{len(working.milliseconds)}; {busy * calls / seconds:.0f}"),
                ("acknowledged; lost or twice", f"{len(working.ids)}; {len(missing)}"),
                ("errors", len(errors)),
                ("most connections to PgBouncer; to PostgreSQL", f"{watched.from_servers}; {watched.to_database}"),
                ("looks at PgBouncer with a transaction that waits", watched.waits),
                ("seconds in all", f"{time.monotonic() - began:.0f}"),
            ]
        )
        for error, times in Counter(errors).most_common(5):
            print(f"  {times} x {error}")
        return not errors and not missing


def main() -> None:
    parser = argparse.ArgumentParser(prog="benchmarks.connections", description="Agents' connections, most idle.")
    parser.add_argument("--idle", type=int, default=500)
    parser.add_argument("--busy", type=int, default=100)
    parser.add_argument("--calls", type=int, default=5, help="of each busy agent")
    parser.add_argument("--servers", type=int, default=3)
    parser.add_argument("--pooled", type=int, default=10, help="connections of PgBouncer to PostgreSQL")
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="connections-", ignore_cleanup_errors=True) as name:
        folder = Path(name)
        folder.chmod(0o755)  # PostgreSQL may run as another user.
        held = run(folder, **vars(chosen))
    sys.exit(0 if held else 1)


if __name__ == "__main__":
    main()
