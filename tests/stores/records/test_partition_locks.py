"""Writes of several partitions of a database in PostgreSQL go on at once; those of one follow each other."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from typing import Any

import psycopg
import pytest

from mcp_memory.app import App
from mcp_memory.domain.model.ids import RECORD
from mcp_memory.domain.model.records import NewRecord, Record
from mcp_memory.domain.model.scopes import Caller, partitions_of
from mcp_memory.errors import StoreBusy, StoreUnavailable
from mcp_memory.ports.transaction import Transaction
from mcp_memory.stores.records.database import NO_PARTITION
from mcp_memory.stores.records.postgres_connection import PostgresWrite
from mcp_memory.stores.records.store_postgres import PostgresRecordStore
from tests.conftest import Clock
from tests.contract.conftest import BLANK, unit_vectors
from tests.index_rows import rows
from tests.postgres import new_database

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="No package brings PostgreSQL there")
ONE, TWO, THREE = (Caller(namespace=name, agent="ann", session_id="s1") for name in ("one", "two", "three"))
CALLERS = ONE, TWO, THREE
TURNS = 20


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
    with mine.write(partition="namespace/one") as transaction:
        insert(transaction, ONE, "of upkeep")
        put(other, TWO, "beside upkeep")
        assert [refused(other, caller) for caller in (ONE, TWO, None)] == [True, False, True]


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


def test_writes_that_tell_each_others_partitions_of_a_change_never_wait_in_a_circle(
    servers: Sequence[PostgresRecordStore],
) -> None:
    """Each project has a note that stands on one of the other, and confirms it right after it changed its own."""
    grounds = [put(servers[0], caller, "ground") for caller in (ONE, TWO)]
    standing = [put(servers[0], caller, "note") for caller in (ONE, TWO)]
    for caller, note, ground in zip((ONE, TWO), standing, reversed(grounds), strict=True):
        with servers[0].write(caller) as transaction:
            transaction.depend(note.id, [ground.id])
    with ThreadPoolExecutor(2) as pool:
        each_of = zip(servers, (ONE, TWO), grounds, standing, strict=True)
        for writing in [pool.submit(_change_and_confirm, *each) for each in each_of]:
            writing.result(120)
    scopes = [scope for caller in (ONE, TWO) for scope in caller.own_scopes]
    notes = servers[0].get([note.id for note in standing], scopes)
    assert servers[0].get([each.id for each in grounds], scopes)[grounds[0].id].text == f"ground {TURNS - 1}"
    assert sum(bool(note.check) for note in notes.values()) <= 1  # Whoever came last confirmed its note.


def _change_and_confirm(store: PostgresRecordStore, caller: Caller, ground: Record, note: Record) -> None:
    for turn in range(TURNS):
        text = f"ground {turn}"
        with store.write(caller) as transaction:
            transaction.update(replace(ground, text=text))
            transaction.vouch(note.id)


def test_upkeep_takes_no_more_than_its_partition(
    open_memory: Callable[..., App], address: str, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Decision 113: nor does what a call leaves to be looked at; so no project waits for another's."""
    app = open_memory(folder=None, namespace="one", database_url=address)
    me, locked = app.caller(), list[str | None]()
    texts = [f"The database listens on port {port}." for port in (5432, 5433)]
    first, *_ = app.remember([NewRecord(text=text) for text in texts], me, advise=False)
    said = NewRecord(text="4. Errors and fixes:\n- **Port taken**: 8443 was in use, now 8444", kind="summary")
    stored = app.remember([said, NewRecord(text="A day went by.", kind="episode")], me, embed=False)
    with app.records.write(me, alone=True) as transaction:
        transaction.erase([stored[1].id])
    app.remember([NewRecord(text="Another day went by.", kind="episode")], me)
    clock.advance(days=31)
    begin = PostgresWrite.begin

    def noting(self: PostgresWrite, *given: Any, **named: bool) -> int:
        locked.append(self._partition)
        return begin(self, *given, **named)

    monkeypatch.setattr(PostgresWrite, "begin", noting)
    assert app.maintain.step(patiently=False).summarized == 1
    assert app.extracting.note(
        [*app.extracting.drafts_of_summary(app.inspect.seen_of([stored[0].id], me)[stored[0].id])]
    )
    assert app.reindex.catch_up()
    while app.fill_queue.step():
        pass
    assert app.remember([NewRecord(text="The database listens on port 5434.")], me)[0].review
    (group,) = app.reviews.waiting(me)
    assert {first.id} < {*group.review.record_ids}
    app.records.purge()
    assert not app.records.is_purge_pending()
    assert {"namespace/one"} < {*locked} <= {"namespace/one", NO_PARTITION}


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
            high = put(other, TWO, "high")
            settling = pool.submit(other.settled)
            with pytest.raises(TimeoutError):
                settling.result(0.3)
            later = put(other, THREE, "later")  # Nobody waits for it.
        settled = settling.result(20)
    changes = {change.id: change.change for change in other.changes(0)}
    assert changes[low.id] < changes[high.id] <= settled < changes[later.id]
