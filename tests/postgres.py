"""A real PostgreSQL for tests: one server a test process, and a new database for each memory."""

from __future__ import annotations

import os
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
EXPANDED = "POSTGRES_EXPANDED"
"""Where it is set, every test meets a schema that a newer version has expanded: the next one's servers are at work."""
_EXPAND = """
DO $$
DECLARE each record;
BEGIN
    FOR each IN SELECT relname FROM pg_class WHERE relkind = 'r' AND relnamespace = 'public'::regnamespace LOOP
        EXECUTE format('ALTER TABLE %I ADD COLUMN IF NOT EXISTS later TEXT NOT NULL DEFAULT %L', each.relname, 'unset');
    END LOOP;
    CREATE TABLE IF NOT EXISTS added_later (record_id TEXT PRIMARY KEY REFERENCES records (id) ON DELETE CASCADE);
    CREATE INDEX IF NOT EXISTS records_by_later ON records (later);
    UPDATE schema SET number = number + 1;
END $$
"""


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
    if EXPANDED in os.environ:
        expand(_address(cluster.url, _TEMPLATE))
    return cluster.url


def _address(url: str, name: str) -> str:
    return f"{url.rpartition('/')[0]}/{name}"


def new_database(*, is_empty: bool = False) -> str:
    """Return the address of a database of its own, with an empty memory, or without any table."""
    url, name = _server(), f"memory_{next(_numbers)}"
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name} TEMPLATE {'template0' if is_empty else _TEMPLATE}".encode())
    return _address(url, name)


def expand(address: str) -> None:
    """Do what the first half of an upgrade does: add a column to each table, a table and an index; remove nothing."""
    with psycopg.connect(address) as connection:
        connection.execute(_EXPAND.encode())


def stop() -> None:
    """End the server of this process: a worker's own exit handlers do not run."""
    while _started:
        cluster, folder = _started.pop()
        cluster.kill()
        shutil.rmtree(folder, ignore_errors=True)
