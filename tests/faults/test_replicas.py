"""Servers that share one PostgreSQL database, and the database, killed while clients store (docs/postgres.md)."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from benchmarks import replica_servers, replicas
from benchmarks.postgres_clusters import Cluster, pooler_program
from mcp_memory.domain.model.ids import RECORD
from mcp_memory.stores.records.store_postgres import PostgresRecordStore
from tests.contract.conftest import BLANK, unit_vectors
from tests.forked import ForkedProcess
from tests.postgres import require_pgvector

OUTAGE_SECONDS, AFTERWARDS_SECONDS = 3.2, 2.2
"""By itself a pool would try to connect after 0, 1, 3 and 7 seconds."""


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder that PostgreSQL's user may enter, which pytest's own are not."""
    with TemporaryDirectory(prefix="replicas-", ignore_cleanup_errors=True) as name:
        Path(name).chmod(0o755)
        yield Path(name)


@pytest.fixture(autouse=True)
def forked_servers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Servers that are forked from a process which has everything imported."""
    monkeypatch.setattr(replica_servers, "start_program", ForkedProcess)


@pytest.mark.parametrize(
    ("pgvector", "pooled", "rounds"),
    [
        # Beside what an exact search needs, what pgvector does: so this is the short round of both.
        (True, 0, 1),
        pytest.param(False, 0, 1, marks=pytest.mark.rounds),
        pytest.param(True, 0, 5, marks=pytest.mark.rounds),
        pytest.param(True, 4, 2, marks=pytest.mark.rounds),
    ],
)
def test_nothing_is_lost_doubled_or_skipped_when_servers_are_killed(
    folder: Path, pgvector: bool, pooled: int, rounds: int
) -> None:
    """M2.1: and another server finds it at once. `python -m benchmarks.replicas` does so for as long as one likes."""
    _require(pgvector, pooled)
    assert replicas.run(folder, 2, 1, rounds, 0, 1, 0, "", pooled=pooled, pgvector=pgvector)


@pytest.mark.parametrize(
    ("failover", "rounds", "pgvector"),
    [
        ("sync", 1, False),
        pytest.param("sync", 2, False, marks=pytest.mark.rounds),
        pytest.param("sync", 2, True, marks=pytest.mark.rounds),
        pytest.param("async", 1, False, marks=pytest.mark.rounds),
        pytest.param("async", 1, True, marks=pytest.mark.rounds),
    ],
)
def test_nothing_that_a_standby_confirmed_is_lost_with_the_primary(
    folder: Path, failover: str, rounds: int, pgvector: bool
) -> None:
    """M2.1: and no server is touched; the standby has in pgvector what it has in its tables."""
    _require(pgvector)
    assert replicas.run(folder, 1, 2, rounds, 0, 1, 0, failover, pgvector=pgvector)


def test_a_write_goes_on_soon_after_a_long_outage(folder: Path) -> None:
    """M2.1: it asks again and again, and does not wait twice as long each time."""
    cluster = Cluster(folder / "one")
    cluster.create()
    cluster.start()
    returned: list[float] = []

    def return_later() -> None:
        time.sleep(OUTAGE_SECONDS)
        cluster.start()
        returned.append(time.monotonic())

    try:
        with closing(PostgresRecordStore(cluster.url, "model")) as store:
            _put(store)
            cluster.kill()
            returning = threading.Thread(target=return_later)
            returning.start()
            _put(store)
            ended = time.monotonic()
            returning.join()
            assert ended - returned[0] < AFTERWARDS_SECONDS
            assert store.count_all() == 2
    finally:
        cluster.kill()


def _require(pgvector: bool, pooled: int = 0) -> None:
    if pgvector:
        require_pgvector()
    if pooled and pooler_program() is None:
        pytest.skip("PgBouncer is not installed; the package pgbouncer brings it.")


def _put(store: PostgresRecordStore) -> None:
    with store.write() as transaction:
        record = replace(BLANK, id=transaction.next_id(RECORD))
        transaction.insert(record, unit_vectors(1), (), ())
