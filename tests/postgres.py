"""A real PostgreSQL for tests: one server a test process, and a new database for each memory."""

from __future__ import annotations

import shutil
from functools import cache
from itertools import count
from pathlib import Path
from tempfile import mkdtemp

import psycopg

from benchmarks.postgres_clusters import Cluster
from mcp_memory.stores.records import schema_postgres

_numbers = count()
_started: list[tuple[Cluster, Path]] = []
_TEMPLATE = "migrated"


@cache
def _server() -> str:
    """Start a server and return the address of its first database; `stop` ends it."""
    folder = Path(mkdtemp(prefix="postgres-"))
    folder.chmod(0o755)
    cluster = Cluster(folder, {"fsync": "off", "synchronous_commit": "off", "full_page_writes": "off"})
    cluster.create()
    _started.append((cluster, folder))
    cluster.start()
    cluster.ask(f"CREATE DATABASE {_TEMPLATE}")
    schema_postgres.migrate(_address(cluster.url, _TEMPLATE))
    return cluster.url


def _address(url: str, name: str) -> str:
    return f"{url.rpartition('/')[0]}/{name}"


def new_database(*, is_empty: bool = False) -> str:
    """Return the address of a database of its own, with an empty memory, or without any table."""
    url, name = _server(), f"memory_{next(_numbers)}"
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name} TEMPLATE {'template0' if is_empty else _TEMPLATE}".encode())
    return _address(url, name)


def stop() -> None:
    """End the server of this process: a worker's own exit handlers do not run."""
    while _started:
        cluster, folder = _started.pop()
        cluster.kill()
        shutil.rmtree(folder, ignore_errors=True)
