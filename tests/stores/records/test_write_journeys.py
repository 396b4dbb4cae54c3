"""How often a write waits for a database that is far: what its connections send and are answered, byte by byte."""

from __future__ import annotations

import socket
import sqlite3
import sys
import threading
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import psycopg
import pytest

from mcp_memory.app import App
from mcp_memory.domain.model.records import Entity, NewRecord, Relation
from mcp_memory.domain.model.scopes import RepeatableCall
from mcp_memory.errors import CallDone, StoreBusy, StoreUnavailable
from mcp_memory.stores.records import FILE_NAME, schema_postgres
from mcp_memory.stores.records.database import NO_PARTITION
from mcp_memory.stores.records.postgres_connection import MOST_WAITING
from mcp_memory.stores.records.store_postgres import PostgresRecordStore
from tests.postgres import drop_database, new_database

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="No package brings PostgreSQL there")
TABLES = ("records", "record_tags", "terms", "vectors", "sessions", "entities", "mentions", "aliases", "relations")


@contextmanager
def watched(address: str) -> Generator[tuple[str, list[bytes]]]:
    """Stand between clients and a PostgreSQL: yield another address of it, and what is sent in each journey there.

    A journey begins with the first bytes that a connection sends after it was answered.
    """
    made = list[bytes]()
    target = urlsplit(address)
    with socket.create_server(("127.0.0.1", 0)) as server:
        threading.Thread(target=_accept, args=(server, (target.hostname, target.port), made), daemon=True).start()
        yield address.replace(f":{target.port}/", f":{server.getsockname()[1]}/"), made


def _accept(server: socket.socket, target: tuple[str, int], made: list[bytes]) -> None:
    with suppress(OSError):
        while True:
            ends = server.accept()[0], socket.create_connection(target)
            is_answered = threading.Event()
            is_answered.set()
            for source, sink, is_asking in ((*ends, True), (*reversed(ends), False)):
                source.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                told = (source, sink, is_answered, made if is_asking else None)
                threading.Thread(target=_pass_on, args=told, daemon=True).start()


def _pass_on(
    source: socket.socket, sink: socket.socket, is_answered: threading.Event, made: list[bytes] | None
) -> None:
    with suppress(OSError), source, sink:
        while sent := source.recv(65_536):
            if made is None:
                is_answered.set()
            elif is_answered.is_set():
                is_answered.clear()
                made.append(sent)
            else:
                made[-1] += sent
            sink.sendall(sent)


def checks(count: int, month: str) -> list[NewRecord]:
    """Records of the same person, of another one each, and of a pump that only a relation names."""
    ann = Entity(name="Ann", type="person", properties={"aliases": ["Annie"]})
    return [
        NewRecord(
            text=f"Ann tells Bob-{number} in {month} that pump {number} runs dry.",
            entities=(ann, Entity(name=f"Bob-{number}", type="person")),
            relations=(Relation(source="Ann", type="checks", target=f"pump {number}"),),
            tags=("pump", month),
        )
        for number in range(count)
    ]


def of_write(made: Sequence[bytes]) -> Sequence[bytes]:
    """Return the journeys from the begin of the write to its commit."""
    (begun,) = [place for place, sent in enumerate(made) if b"pg_advisory_xact_lock" in sent]
    (ended,) = [place for place, sent in enumerate(made) if b"COMMIT" in sent]
    return made[begun : ended + 1]


def counted(execute: Callable[[str], Any]) -> Mapping[str, int]:
    """The rows of each table that a remember writes."""
    found = execute(" UNION ALL ".join(f"SELECT '{name}', count(*) FROM {name}" for name in TABLES))
    return dict(found.fetchall())


def test_a_write_makes_three_journeys_however_many_records_it_stores(
    open_memory: Callable[..., App], tmp_path: Path
) -> None:
    """M1: it begins with its checks, reads what stores the same, and commits with all that it stores.

    All that is asked before and after it is counted as well.
    """
    address = new_database()
    with watched(address) as (watched_address, made):
        near, far = open_memory(folder="near"), open_memory(folder="far", database_url=watched_address)
        me = far.caller("s")
        for app, month in product((near, far), ("February", "March")):
            app.remember(checks(2, month), me)  # The first sets the memory's embedder, and the second looks for it.
        repeatable = RepeatableCall(key="k", digest=b"d")
        for count, month, call, in_all in ((1, "April", None, 12), (10, "May", repeatable, 25)):
            made.clear()
            for app in (near, far):
                app.remember(checks(count, month), replace(me, call=call))
            assert (len(of_write(made)), len(made)) == (3, in_all)
            changes = [sent for sent in made if b"tombstones" in sent]
            assert len(changes) == 1  # Of all indexes that follow.
            assert b"FROM commits" in changes[0]
            assert b"v.vector" in changes[0]
        twice = [each.status for each in far.remember([*checks(2, "June"), *checks(2, "June")], me)]
        assert twice == [each.status for each in near.remember([*checks(2, "June"), *checks(2, "June")], me)]
        assert twice == ["stored", "stored", "confirmed", "confirmed"]
    with psycopg.connect(address) as there, closing(sqlite3.connect(tmp_path / "near" / FILE_NAME)) as here:
        stored = counted(lambda asked: there.execute(asked.encode()))
        assert stored == counted(here.execute)
    assert 0 not in stored.values()


def test_a_write_of_much_makes_more_journeys_and_none_is_large() -> None:
    """M1, R9: as the erasure of thousands of records, whose marks nobody reads before the commit."""
    with (
        watched(new_database()) as (watched_address, made),
        closing(PostgresRecordStore(watched_address, "model")) as records,
    ):
        database, text = records._database, "x" * (MOST_WAITING // 9)  # noqa: SLF001 - its write alone
        made.clear()
        with database.write(partition=NO_PARTITION) as write:
            for number in range(25):
                write.defer("put_meta", (f"key {number}", text))
        assert max(map(len, made)) < MOST_WAITING * 10 // 9 + 1_000
        assert len(of_write(made)) == 4
        assert all(database.rows("get_meta", (f"key {number}",)) for number in range(25))


def test_a_call_that_another_namespace_did_meanwhile_is_not_done_again(open_memory: Callable[..., App]) -> None:
    """The key is noted with the commit, and no lock of the two namespaces keeps one write from the other."""
    address = new_database()
    one, two = (open_memory(folder=name, namespace=name, database_url=address) for name in ("one", "two"))
    for app in (one, two):
        app.remember(checks(1, "March"), app.caller("s"))
    first, second = (replace(app.caller("s"), call=RepeatableCall(key="k", digest=b"d")) for app in (one, two))
    with pytest.raises(StoreBusy, match="call again"), one.records.write(first):
        two.remember(checks(1, "April"), second)
    with pytest.raises(CallDone), one.records.write(first):
        pass


def test_texts_are_kept_as_they_are_whatever_the_address_says_of_encodings(open_memory: Callable[..., App]) -> None:
    """M1: whole statements are sent as UTF-8."""
    address = new_database()
    app = open_memory(folder="far", database_url=f"{address}?client_encoding=latin1")
    app.remember([NewRecord(text="Die Größe der Pumpe.", entities=(Entity(name="Müller"),))], app.caller("s"))
    with psycopg.connect(address) as there:
        asked = "SELECT r.text, e.name FROM records AS r, entities AS e WHERE e.name LIKE 'M%'"
        found = there.execute(asked).fetchall()
    assert found == [("Die Größe der Pumpe.", "Müller")]


def test_a_memory_of_another_encoding_is_refused_with_the_remedy() -> None:
    """M1: it has no room for most of the world's letters."""
    url = new_database()
    name = f"{urlsplit(url).path[1:]}_latin"
    with psycopg.connect(url, autocommit=True) as there:
        there.execute(f"CREATE DATABASE {name} ENCODING 'LATIN1' LOCALE 'C' TEMPLATE template0".encode())
    with pytest.raises(StoreUnavailable, match=r"keeps texts in LATIN1.*ENCODING 'UTF8'"):
        schema_postgres.migrate(f"{url.rpartition('/')[0]}/{name}")
    drop_database(f"{url.rpartition('/')[0]}/{name}")


def test_what_fails_at_the_commit_is_told_by_its_cause(open_memory: Callable[..., App]) -> None:
    """E3: a lock that took too long is no loss of the database, and a key that is there twice no busy moment."""
    address = new_database()
    app = open_memory(folder="far", database_url=address)
    app.remember(checks(1, "March"), app.caller("s"))
    assert isinstance(app.records, PostgresRecordStore)
    database = app.records._database  # noqa: SLF001 - its commit alone
    with psycopg.connect(address) as other:
        other.execute("SELECT 1 FROM meta FOR UPDATE")
        with (
            pytest.raises(StoreBusy, match="busy with other servers"),
            database.write(0.2, partition="namespace/test") as write,
        ):
            write.defer("put_meta", ("embedder", "x"))
    # What the server says to one that looks through ten thousand records, if its connection lives until it is read.
    with pytest.raises(StoreUnavailable, match="Name fewer records"), database.write(partition="namespace/test"):
        raise psycopg.errors.IdleInTransactionSessionTimeout
    with psycopg.connect(address, autocommit=True) as other:
        other.execute("SELECT setval('records_row_seq', 1, false)")  # As after a restore by hand.
    with pytest.raises(StoreUnavailable, match=r"refused this \(UniqueViolation\)"):
        app.remember(checks(1, "April"), app.caller("s"))
