"""Writes of several partitions of a database in PostgreSQL go on at once; those of one follow each other."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from typing import Any

import psycopg
import pytest

from mcp_memory.domain.model.ids import RECORD
from mcp_memory.domain.model.records import Record
from mcp_memory.domain.model.scopes import Caller, partitions_of
from mcp_memory.errors import StoreBusy, StoreUnavailable
from mcp_memory.ports.transaction import Transaction
from mcp_memory.stores.records.store_postgres import PostgresRecordStore
from tests.contract.conftest import BLANK, unit_vectors
from tests.index_rows import rows
from tests.postgres import new_database

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="No package brings PostgreSQL there")
ONE, TWO, THREE = (Caller(namespace=name, agent="ann", session_id="s1") for name in ("one", "two", "three"))
CALLERS = ONE, TWO, THREE


def insert(transaction: Transaction, caller: Caller, text: str, *, user: bool = False) -> Record:
    visibility = "user" if user else "shared"
    record = replace(
        BLANK, id=transaction.next_id(RECORD), text=text, summary=text, micro=text, namespace=caller.namespace,
        visibility=visibility, scope=caller.scope(visibility),
    )  # fmt: skip
    transaction.insert(record, unit_vectors(1), (), ())
    return record


def put(store: PostgresRecordStore, caller: Caller, text: str, *, user: bool = False) -> Record:
    with store.write(caller) as transaction:
        return insert(transaction, caller, text, user=user)


def refused(store: PostgresRecordStore, caller: Caller | None) -> bool:
    """Whether a write that does not wait finds another one in its way."""
    try:
        with store.write(caller, patiently=False):
            return False
    except StoreBusy:
        return True


@pytest.fixture
def address() -> str:
    return new_database()


@pytest.fixture
def servers(address: str) -> Iterator[list[PostgresRecordStore]]:
    """Two servers over one database, which knows its embedder."""
    stores = [PostgresRecordStore(address, "model", lambda: 1000.0) for _ in range(2)]
    put(stores[0], THREE, "first")
    put(stores[1], THREE, "second")
    yield stores
    for store in stores:
        store.close()


def test_a_write_excludes_those_of_its_partition_and_those_of_all(servers: Sequence[PostgresRecordStore]) -> None:
    """M1.1: another namespace waits for nobody; whoever writes anything waits for all, and all for them."""
    mine, other = servers
    with mine.write(ONE) as transaction:
        insert(transaction, ONE, "mine")
        put(other, TWO, "theirs")
        assert [refused(other, caller) for caller in (ONE, TWO, None)] == [True, False, True]
        other.touch(["r000001"], 1.0)
    with mine.write():
        assert [refused(other, caller) for caller in (ONE, TWO, None)] == [True, True, True]
    with mine.write(ONE, alone=True):
        assert refused(other, TWO)


def test_a_person_is_locked_once_a_write_comes_to_it(servers: Sequence[PostgresRecordStore]) -> None:
    """M1.1: what two namespaces share; what was read of it is read again, and its numbers grow."""
    mine, other = servers
    known = put(mine, THREE, "known", user=True)
    with ThreadPoolExecutor(1) as pool:
        with mine.write(ONE) as transaction:
            insert(transaction, ONE, "takes the first numbers")
            later = put(other, TWO, "of another namespace", user=True)
            changed = replace(known, text="changed")
            transaction.update(replace(transaction.get(known.id) or BLANK, text="changed"))
            waiting = pool.submit(_append, other, TWO, known.id)
            with pytest.raises(TimeoutError):
                waiting.result(0.3)
        assert waiting.result(20) == f"{changed.text} and more"
    changes = [row[2] for row in rows(mine, "vectors", 0, "model", "user")]
    assert [row[0] for row in rows(mine, "vectors", 0, "model", "user")] == [later.id, known.id]
    assert changes == sorted(changes)


def _append(store: PostgresRecordStore, caller: Caller, record_id: str) -> str:
    with store.write(caller) as transaction:
        record = transaction.get(record_id)
        assert record is not None
        return transaction.update(replace(record, text=f"{record.text} and more")).text


def test_whoever_follows_a_partition_misses_nothing(servers: Sequence[PostgresRecordStore], address: str) -> None:
    """M1.1: also where connections are ended in the middle of writes; what was acknowledged is there once."""
    followed, stored = dict[str, list[str]](), list[str]()
    is_done = threading.Event()
    with ThreadPoolExecutor(7) as pool:
        following = pool.submit(_follow, servers[0], followed, is_done)
        writing = [pool.submit(_write, servers[number % 2], number, stored) for number in range(6)]
        with psycopg.connect(address, autocommit=True) as connection:
            for _ in range(4):
                connection.execute("SELECT pg_sleep(0.1)")
                connection.execute(
                    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database()"
                    " AND state LIKE 'idle in%' AND pid <> pg_backend_pid() LIMIT 1"
                )
        for each in writing:
            each.result(60)
        is_done.set()
        following.result(60)
    seen = [each for ids in followed.values() for each in ids]
    scopes = {scope for caller in CALLERS for scope in caller.own_scopes}
    texts = [record.text for record in servers[0].get(seen, sorted(scopes)).values()]
    assert len(seen) == len(set(seen))
    assert sorted(texts) == sorted([*stored, "first", "second"])


def _write(store: PostgresRecordStore, number: int, stored: list[str]) -> None:
    caller = CALLERS[number % 3]
    for turn in range(8):
        texts = f"{number} {turn}", f"{number} {turn} too"
        with suppress(StoreUnavailable):
            with store.write(caller) as transaction:
                insert(transaction, caller, texts[0], user=turn % 3 == 2)
                insert(transaction, caller, texts[1])
            stored.extend(texts)


def _follow(store: PostgresRecordStore, followed: dict[str, list[str]], is_done: threading.Event) -> None:
    """Read what changed in each partition since the last time, until all writers are done."""
    places = dict.fromkeys(partitions_of(scope for caller in CALLERS for scope in caller.own_scopes), 0)
    while True:
        is_last = is_done.is_set()
        for partition, since in places.items():
            try:
                with store.snapshot():
                    found = rows(store, "vectors", since, "model", partition)
                    newest = store.revisions([partition]).get(partition)
            except StoreUnavailable:
                is_last = False
                continue
            followed.setdefault(partition, []).extend(row[0] for row in found)
            places[partition] = newest.revision if newest else 0
        if is_last:
            return


def test_a_full_disk_at_the_commit_is_named(
    servers: Sequence[PostgresRecordStore], monkeypatch: pytest.MonkeyPatch
) -> None:
    """M2.1: no error of the database's own reaches a caller."""
    execute = psycopg.Connection.execute

    def refusing(self: Any, query: Any, *given: Any, **named: Any) -> Any:
        if "COMMIT" in str(query):
            raise psycopg.errors.DiskFull("no space left")
        return execute(self, query, *given, **named)

    monkeypatch.setattr(psycopg.Connection, "execute", refusing)
    with pytest.raises(StoreUnavailable, match="full"):
        put(servers[0], ONE, "not stored")


def test_upkeep_looks_no_further_than_every_write_has_come(servers: Sequence[PostgresRecordStore]) -> None:
    """M1.1: a lower number may be committed after a higher one of another partition."""
    mine, other = servers
    with ThreadPoolExecutor(1) as pool:
        with mine.write(ONE) as transaction:
            low = insert(transaction, ONE, "low")
            put(other, TWO, "high")
            settling = pool.submit(other.settled)
            with pytest.raises(TimeoutError):
                settling.result(0.3)
        settled = settling.result(20)
    assert settled >= max(change.change for change in other.changes(0))
    assert low.id in {change.id for change in other.changes(0)}
