"""What `doctor` says of a PostgreSQL server, and a copy by `backup` that PostgreSQL's own program restores."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

import psycopg
import pytest

from benchmarks.postgres_clusters import programs
from mcp_memory.errors import InvalidRequest, StoreUnavailable
from mcp_memory.stores.records import server_postgres
from mcp_memory.stores.records.server_postgres import examine
from mcp_memory.stores.records.store_postgres import PostgresRecordStore
from tests.contract.test_transfer import leave
from tests.postgres import new_database
from tests.stores.records.test_postgres import put

if TYPE_CHECKING:
    from mcp_memory.ports.indexes import Finding

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="No package brings PostgreSQL there")


@pytest.fixture
def address() -> str:
    return new_database()


@pytest.fixture
def store(address: str) -> Iterator[PostgresRecordStore]:
    with closing(PostgresRecordStore(address, "model", lambda: 1000.0)) as opened:
        yield opened


def wrong(found: list[Finding]) -> list[str]:
    return [f"{each.says}. {each.remedy}" for each in found if each.state == "wrong"]


def test_a_sound_server_is_told_in_a_few_lines(store: PostgresRecordStore) -> None:
    """M2.3: schema, rights, standbys, vacuum."""
    found = [each.says for each in store.examine_server()]
    assert found[0].startswith("PostgreSQL ")
    assert "for versions of schema 2 or newer" in found[0]
    assert found[1] == "the role postgres may read and write every table"
    assert found[2].startswith("commits are on this server's disk alone")
    assert "wait for the next vacuum" in found[-1]
    assert {each.state for each in store.examine_server()} == {"ok"}


def test_rights_that_lack_and_a_forgotten_transaction_are_named(
    address: str, store: PostgresRecordStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server_postgres, "LONG_SECONDS", 0.0)
    with psycopg.connect(address) as forgotten, psycopg.connect(address) as serving:
        forgotten.execute("SELECT 1")
        pid = forgotten.info.backend_pid
        (old,) = wrong(list(examine(serving, "here")))
        serving.execute("CREATE ROLE reader")
        serving.execute("GRANT SELECT ON ALL TABLES IN SCHEMA public TO reader")
        serving.execute("SET LOCAL ROLE reader")
        (rights,) = wrong(list(examine(serving, "here")))
        serving.rollback()
    assert rights.startswith("the role reader may not read and write ")
    assert 'GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA public TO "reader"' in rights
    assert f"pg_terminate_backend({pid})" in old


def test_a_backup_is_restored_into_a_new_database(
    store: PostgresRecordStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """M2.3: by pg_restore; the export has the same bytes."""
    monkeypatch.setenv("PATH", str(programs()))
    put(store, "before the backup")
    file, other = tmp_path / "new" / "memory.dump", new_database(is_empty=True)
    store.backup(str(file))
    assert file.stat().st_mode & 0o077 == 0
    subprocess.run([programs() / "pg_restore", "--no-owner", "--dbname", other, file], check=True)
    with closing(PostgresRecordStore(other, "model", lambda: 1000.0)) as restored:
        assert leave(restored) == leave(store)
    with pytest.raises(StoreUnavailable, match="exists already"):
        store.backup(str(file))
    assert [each.name for each in file.parent.iterdir()] == ["memory.dump"]


def test_without_pg_dump_a_backup_says_how(
    store: PostgresRecordStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(InvalidRequest, match="pg_dump is not on the PATH"):
        store.backup(str(tmp_path / "memory.dump"))
    monkeypatch.setenv("PATH", str(programs()))
    with pytest.raises(StoreUnavailable, match="pg_dump could not copy the database"):
        server_postgres.dump("postgresql://ann:geheim@127.0.0.1:9/none", tmp_path / "memory.dump")
    assert not list(tmp_path.iterdir())
