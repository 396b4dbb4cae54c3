"""A memory behind PgBouncer in transaction mode, which hands its few connections on after each transaction."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from tempfile import TemporaryDirectory

import psycopg
import pytest
from psycopg.conninfo import conninfo_to_dict

from benchmarks import connections
from benchmarks.postgres_clusters import Pooler, pooler_program
from mcp_memory.app import App
from mcp_memory.domain.model.records import NewRecord
from mcp_memory.domain.model.requests import ContextRequest, RecallRequest
from mcp_memory.stores.records.store_postgres import PostgresRecordStore
from tests.clients.programs import say_aloud
from tests.postgres import new_database
from tests.stores.records.test_postgres import put, texts_in

POOLED = 2
SUBJECTS = "gauge ferry tide printer crane lamp rope anchor buoy ladder winch radar pump valve sail mast".split()


@pytest.fixture
def folder(request: pytest.FixtureRequest) -> Iterator[Path]:
    """A folder that PgBouncer's user may enter, which pytest's own are not."""
    if pooler_program() is None:
        say_aloud(request.config, "NOT TESTED with PgBouncer: it is not installed (apt-get install pgbouncer)")
        pytest.skip("no PgBouncer")
    with TemporaryDirectory(prefix="pooler-", ignore_cleanup_errors=True) as name:
        Path(name).chmod(0o755)
        yield Path(name)


@pytest.fixture
def address(folder: Path) -> Iterator[str]:
    """The address of an empty database, over a pooler of two connections."""
    direct = conninfo_to_dict(new_database(is_empty=True))
    pooler = Pooler(folder, int(str(direct["port"])), POOLED)
    pooler.start()
    yield pooler.address(str(direct["dbname"]))
    pooler.stop()


def test_servers_create_write_and_read_over_few_connections(address: str) -> None:
    """M1.5: each transaction of a connection may meet another one of PostgreSQL's."""
    with psycopg.connect(address, autocommit=True, prepare_threshold=None) as connection:
        met = {connection.execute("SELECT pg_backend_pid()").fetchone() for _ in range(2 * POOLED)}

    def put_one(number: int) -> str:
        return put(stores[number % 3], f"text {number}")

    def stream(number: int) -> list[str]:
        return sorted(change.id for change in stores[number % 3].changes(0))

    with ThreadPoolExecutor(6) as pool:
        opening = [pool.submit(PostgresRecordStore, address, "model", lambda: 1000.0) for _ in range(3)]
        stores = [each.result() for each in opening]
        made = list(pool.map(put_one, range(30)))
        streamed = list(pool.map(stream, range(12)))
    with psycopg.connect(address, autocommit=True, prepare_threshold=None) as connection:
        met |= {connection.execute("SELECT pg_backend_pid()").fetchone() for _ in range(2 * POOLED)}
    assert len(met) == POOLED
    assert len(set(made)) == 30
    assert streamed == [sorted(made)] * 12
    with stores[0].snapshot():  # One moment, whatever is written meanwhile over the other connection.
        put(stores[1], "later")
        assert len(texts_in(stores[0])) == stores[0].count_all() == 30
    for store in stores:
        with closing(store):
            assert len(texts_in(store)) == 31


def test_agents_of_two_servers_work_over_few_connections(open_memory: Callable[..., App], address: str) -> None:
    apps = [open_memory(folder=None, agent="ann", database_url=address) for _ in range(2)]

    def work(number: int) -> bool:
        app = apps[number % 2]
        me = app.caller(f"s{number}")
        text = f"{SUBJECTS[number]} is checked by pier {number}, because the night was wet."
        (stored,) = app.remember([NewRecord(text=text)], me)
        found = apps[1 - number % 2].recall(RecallRequest(query=text, limit=5), me)
        app.assemble_context(ContextRequest(query="the harbour", max_tokens=400), me)
        return any(result["id"] == stored.id for result in found.results)

    with ThreadPoolExecutor(8) as pool:
        assert all(pool.map(work, range(16)))


@pytest.mark.rounds
def test_no_call_of_idle_and_busy_agents_fails(folder: Path) -> None:
    """M1.5: `python -m benchmarks.connections` does so with 500 and 100."""
    assert connections.run(folder, 30, 8, 5, 2, 4)
