"""What is PostgreSQL's own: every statement is one of its, and no server loses or doubles a write when another dies."""

from __future__ import annotations

import os
import re
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, cast

import psycopg
import pytest
from hypothesis import given, settings

from benchmarks.postgres_clusters import PROGRAMS
from mcp_memory.app import App
from mcp_memory.domain.model.ids import RECORD
from mcp_memory.domain.model.records import NewRecord
from mcp_memory.domain.model.requests import ContextRequest, RecallRequest
from mcp_memory.domain.model.scopes import Caller, RecordFilter
from mcp_memory.errors import SchemaTooNew, StoreBusy, StoreUnavailable
from mcp_memory.ports.changes import ChangeFeed
from mcp_memory.stores.follower import Follower
from mcp_memory.stores.records import (
    FILE_NAME,
    SqliteRecordStore,
    database_postgres,
    postgres_connection,
    schema_postgres,
    sql_files,
)
from mcp_memory.stores.records.postgres_connection import PostgresConnection
from mcp_memory.stores.records.store_postgres import PostgresRecordStore
from mcp_memory.stores.records.where_clause import where_clauses
from tests.conftest import Clock
from tests.contract.conftest import BLANK, unit_vectors
from tests.contract.test_transfer import NAMESPACES, Step, enter, leave, make, steps
from tests.postgres import EXPANDED, expand, has_pgvector, new_database

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="No package brings PostgreSQL there")
ONLY_THERE = frozenset(
    "commits files leases pushed_scopes pushed_vectors schema shown_contexts shown_texts vectors_to_push".split()
)
"""Tables of what a file's one owner has beside it, or in memory, and of pgvector's."""
KNOWN = "test_postgres_knows_every_statement"
EVERY_FIELD = RecordFilter(
    scopes=("shared/here", "private/ann/here"), kinds=frozenset({"fact", "event"}), tags=frozenset({"a"}),
    all_tags=frozenset({"a", "b"}), without_tags=frozenset({"c"}), entities=frozenset({"Ann"}),
    entity_types=frozenset({"person"}), session_id="s1", own_of="ann", pinned=True, noted_in="ann/s1",
    exclude=frozenset({"m1"}), only=frozenset({"m2"}),
)  # fmt: skip


@dataclass(eq=False)
class FollowedIds:
    """An index of nothing but ids, of one partition, which counts how often it began with all of them."""

    bytes = 0
    ids: list[str] = field(default_factory=list[str])
    begun: int = 0

    def new_part(self) -> FollowedIds:
        self.ids = []
        return self

    def forget(self, part: FollowedIds) -> None:
        """Nothing is made of a part."""

    def follow(self, truth: ChangeFeed, since: int, partition: str) -> int:
        self.begun += not since
        changed = [each for columns in truth.index_rows("places", since, partition=partition) for each in columns["id"]]
        self.ids = [*(self.ids if since else ()), *changed]
        return len(changed)


@pytest.fixture(scope="module", autouse=True)
def numbers_one_by_one() -> Iterator[None]:
    """Takes no number that is not used, as a file does, so that ids can be compared."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(postgres_connection, "NUMBERS_AT_ONCE", 0)
        patch.setattr(postgres_connection, "MOST_NUMBERS", 1)
        yield


@pytest.fixture
def address() -> str:
    return new_database()


@pytest.fixture
def servers(address: str) -> Iterator[list[PostgresRecordStore]]:
    """Three servers over one database."""
    stores = [PostgresRecordStore(address, "model", lambda: 1000.0) for _ in range(3)]
    yield stores
    for store in stores:
        store.close()


def put(store: PostgresRecordStore, text: str) -> str:
    with store.write() as transaction:
        record = replace(BLANK, id=transaction.next_id(RECORD), text=text, summary=text, micro=text)
        transaction.insert(record, unit_vectors(1), (), ())
    return record.id


def texts_in(store: PostgresRecordStore) -> list[str]:
    where = RecordFilter(scopes=("shared/here",))
    return sorted(record.text for record in store.list(where, "created", 1_000))


def _prepared(sql: str) -> str:
    """Return the statement with places for its parameters, as PREPARE takes it."""
    places: dict[str, str] = {}

    def place_of(named: re.Match[str]) -> str:
        return places.setdefault(named[1] or f"next {len(places)}", f"${len(places) + 1}")

    numbered = re.sub(r"%(?:\((\w+)\))?s", place_of, sql)
    return re.sub(r"json_each\((\$\d+)\)", r"json_each(\1::text)", numbered.replace("%%", "%"))


def test_postgres_knows_every_statement(address: str) -> None:
    """M1.2: each one is prepared, with every field of a filter in it."""
    parts = {**where_clauses(EVERY_FIELD)[0], "order": "r.row DESC", "index": "", "changed": "", "of_changed": ""}
    parts["of_scopes"] = ""
    refused: list[str] = []
    with psycopg.connect(address, autocommit=True) as connection:
        if is_there := has_pgvector():
            connection.execute("CREATE EXTENSION vector")
            connection.execute("ALTER TABLE pushed_vectors ADD COLUMN vector halfvec(8)")
        for name in sql_files.names():
            if "halfvec" in sql_files.postgres_statement(name, tuple(parts.items())) and not is_there:
                continue
            sql = _prepared(sql_files.postgres_statement(name, tuple(parts.items())))
            if re.match(r"(?i)\s*(SELECT|INSERT|UPDATE|DELETE|WITH)\b", sql):
                try:
                    connection.execute(f"PREPARE it AS {sql}".encode())
                    connection.execute("DEALLOCATE it")
                except psycopg.Error as error:
                    refused.append(f"{name}: {error}")
    assert not refused


@pytest.mark.rounds
@pytest.mark.parametrize("environment", [{PROGRAMS: "/usr/lib/postgresql/15/bin"}, {EXPANDED: "1"}], ids=" ".join)
def test_a_memory_leaves_and_enters_over_other_servers(environment: dict[str, str]) -> None:
    """M1.2, M2.4: over the oldest PostgreSQL, which Debian brings, and on a schema that a newer version has expanded.

    An export reads every table. With the variable of either all other tests run so, too.
    """
    if (folder := environment.get(PROGRAMS)) and not Path(folder).exists():
        pytest.skip("Debian's PostgreSQL 15 is not installed")
    tests = ("tests/contract/test_transfer.py", f"{Path(__file__)}::{KNOWN}")
    command = [sys.executable, "-m", "pytest", "-q", "-n", "0", "-k", "postgres", *tests]
    done = subprocess.run(command, env={**os.environ, **environment}, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-2_000:]


def test_both_databases_have_the_same_columns(address: str, tmp_path: Path) -> None:
    """A migration of one is a migration of both."""
    SqliteRecordStore(tmp_path, "model").close()
    with closing(sqlite3.connect(tmp_path / FILE_NAME)) as file:
        ours = {
            (table, column)
            for (table,) in file.execute("SELECT name FROM sqlite_schema WHERE type = 'table'").fetchall()
            for (column,) in file.execute("SELECT name FROM pragma_table_info(?)", (table,)).fetchall()
        }
    with psycopg.connect(address) as connection:
        theirs = connection.execute(
            "SELECT table_name, column_name FROM information_schema.columns WHERE table_schema = 'public'"
        ).fetchall()
    assert {each for each in theirs if each[0] not in ONLY_THERE} == ours - {("sequence", "value")}


@given(history=steps)
@settings(max_examples=5)
def test_any_memory_moves_to_postgres_and_back_as_the_same_bytes(
    history: Sequence[Step], tmp_path_factory: pytest.TempPathFactory
) -> None:
    """M2.2: in both directions."""
    folder = tmp_path_factory.mktemp("any")
    with (
        closing(SqliteRecordStore(folder / "one", "model", lambda: 9.5)) as one,
        closing(PostgresRecordStore(new_database(), "model", lambda: 77.0)) as two,
        closing(SqliteRecordStore(folder / "three", "model", lambda: 78.0)) as three,
    ):
        make(one, history)
        written = leave(one)
        enter(two, written)
        assert leave(two) == written
        assert [leave(two, each) for each in NAMESPACES] == [leave(one, each) for each in NAMESPACES]
        assert two.stale_terms() == []
        enter(three, leave(two))
        assert leave(three) == written


@given(history=steps)
@settings(max_examples=5)
def test_a_memory_made_in_postgres_is_the_one_that_sqlite_makes(
    history: Sequence[Step], tmp_path_factory: pytest.TempPathFactory
) -> None:
    """M1.2: the same calls leave the same bytes."""
    folder = tmp_path_factory.mktemp("any")
    with (
        closing(SqliteRecordStore(folder, "model", lambda: 9.5)) as one,
        closing(PostgresRecordStore(new_database(), "model", lambda: 9.5)) as two,
    ):
        make(one, history)
        make(two, history)
        assert leave(two) == leave(one)


def test_what_one_server_stores_the_others_read_at_once(servers: list[PostgresRecordStore]) -> None:
    """M2.1: in the order of their changes, none skipped."""
    made = [put(servers[number % 3], f"text {number}") for number in range(9)]
    for store in servers:
        assert texts_in(store) == sorted(f"text {number}" for number in range(9))
        assert [change.id for change in store.changes(0)] == made


def test_writes_of_many_servers_follow_each_other(servers: list[PostgresRecordStore]) -> None:
    """No number is given twice, and a reader that follows the changes misses none."""
    seen: set[str] = set()
    is_done = threading.Event()

    def follow() -> None:
        newest = 0
        while True:
            was_done = is_done.is_set()
            for change in servers[0].changes(newest):
                seen.add(change.id)
                newest = max(newest, change.change)
            if was_done:
                return

    with ThreadPoolExecutor(9) as pool:
        following = pool.submit(follow)
        made = [
            each.result() for each in [pool.submit(put, servers[number % 3], f"text {number}") for number in range(48)]
        ]
        is_done.set()
        following.result()
    assert len(set(made)) == 48
    assert seen == set(made)


def test_a_write_whose_answer_is_lost_is_stored_once(address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """M2.1: the server ends this connection just after its commit, or just before: the caller hears what holds."""
    store = PostgresRecordStore(address, "model", lambda: 1000.0)
    execute = psycopg.Connection.execute
    dies: list[str] = []

    def dying(self: Any, query: Any, *given: Any, **named: Any) -> Any:
        if dies and "COMMIT" in str(query):
            when = dies.pop()
            if when == "after":
                execute(self, query, *given, **named)
            self.close()
            raise psycopg.OperationalError("the connection is lost")
        return execute(self, query, *given, **named)

    monkeypatch.setattr(psycopg.Connection, "execute", dying)
    dies.append("after")
    put(store, "stored")
    dies.append("before")
    with pytest.raises(StoreBusy, match="nothing was stored"):
        put(store, "not stored")
    assert texts_in(store) == ["stored"]
    store.close()


def test_a_server_goes_on_when_its_connections_are_ended(servers: list[PostgresRecordStore], address: str) -> None:
    """M2.1: as by a failover, between two calls."""
    put(servers[0], "before")
    with psycopg.connect(address, autocommit=True) as connection:
        connection.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
            " WHERE datname = current_database() AND pid <> pg_backend_pid()"
        )
    put(servers[0], "after")
    assert [texts_in(store) for store in servers] == [["after", "before"]] * 3


def test_a_write_waits_no_longer_than_it_may(servers: list[PostgresRecordStore]) -> None:
    """C6.1: what is in the way is named, and nothing is stored."""
    with (
        servers[0].write(),
        pytest.raises(StoreBusy, match="busy with other servers"),
        servers[1].write(patiently=False),
    ):
        raise AssertionError("it holds the lock")


def test_servers_that_create_a_memory_together_make_one() -> None:
    address = new_database(is_empty=True)
    with ThreadPoolExecutor(4) as pool:
        opening = [pool.submit(PostgresRecordStore, address, "model", lambda: 1000.0) for _ in range(4)]
        stores = [each.result() for each in opening]
    put(stores[0], "one")
    assert [texts_in(store) for store in stores] == [["one"]] * 4
    for store in stores:
        store.close()


def test_a_newer_schema_is_used_until_it_says_that_older_versions_may_not(address: str) -> None:
    """Expand, deploy, contract: servers of two versions are at work side by side."""
    known = len(schema_postgres.migrations())
    store = PostgresRecordStore(address, "model", lambda: 1000.0)
    first = put(store, "before")
    expand(address)
    with psycopg.connect(address, autocommit=True) as connection:
        connection.execute("UPDATE records SET later = 'of a newer server' WHERE id = %s", (first,))
        put(store, "on the expanded schema")
        store.touch([first], 2000.0)
        kept = connection.execute("SELECT later FROM records ORDER BY row").fetchall()
        assert kept == [("of a newer server",), ("unset",)]
        connection.execute("UPDATE schema SET oldest = %s", (known + 1,))
    with pytest.raises(SchemaTooNew, match="update mcp-memory"):
        put(store, "too late")
    with pytest.raises(SchemaTooNew):
        PostgresRecordStore(address, "model")
    store.close()


@pytest.mark.parametrize("more", [0, 1, 2])
def test_an_index_begins_again_where_a_write_that_it_has_was_lost(address: str, more: int) -> None:
    """M2.1: by a standby that took over without it; others have its number, or higher ones, or nobody has."""
    store = PostgresRecordStore(address, "model", lambda: 1000.0)
    follower, index = Follower(store), FollowedIds()
    kept, newest = put(store, "kept"), store.revision()
    mark = store.revisions(["namespace/here"])["namespace/here"].last_write
    put(store, "lost")
    with follower.reading(index, ["shared/here"]):
        assert len(index.ids) == 2
    with psycopg.connect(address, autocommit=True) as connection:
        connection.execute("DELETE FROM records WHERE change > %s", (newest,))
        connection.execute("DELETE FROM commits WHERE mark = (SELECT last_write FROM partitions)")
        connection.execute("UPDATE partitions SET newest = %s, last_write = %s", (newest, mark))
        connection.execute("SELECT setval('changes', %s)", (newest,))
    made = [put(store, f"text {number}") for number in range(more)]
    with follower.reading(index, ["shared/here"]):
        assert index.ids == [kept, *made]
    assert index.begun == 2
    made.append(put(store, "one more"))
    with follower.reading(index, ["shared/here"]):
        assert index.ids == [kept, *made]
    assert index.begun == 2
    store.close()


def test_requests_take_turns_where_connections_are_few(address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """None waits for a connection while it has the turn that others need to return theirs."""
    monkeypatch.setattr(database_postgres, "CONNECTIONS", 2)
    store = PostgresRecordStore(address, "model", lambda: 1000.0)
    put(store, "one")
    follower = Follower(store)

    def read(_number: int) -> Sequence[str]:
        with follower.snapshot():
            return texts_in(store)

    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(read, range(80))) == [["one"]] * 80
    store.close()


def test_a_database_that_is_not_there_is_named_without_its_password() -> None:
    with pytest.raises(StoreUnavailable, match="MCP_MEMORY_DATABASE_URL") as refused:
        PostgresRecordStore("postgresql://ann:geheim@127.0.0.1:9/none", "model")
    assert "geheim" not in str(refused.value)


def test_a_memory_answers_as_the_one_in_a_file(open_memory: Callable[..., App], clock: Clock, address: str) -> None:
    """M1.1: the same records, in the same order, with the same scores; and the same block."""
    answers: list[tuple[object, ...]] = []
    begun = clock()
    for chosen in ({}, {"database_url": address}):
        clock.now = begun
        app = open_memory(folder=None, agent="ann", **chosen)
        me = app.caller("s")
        for number, subject in enumerate(("gauge", "ferry", "harbour", "tide", "printer") * 4):
            clock.advance(seconds=60)
            text = f"The {subject} of pier {number} is checked by Ann at {number} o'clock, because the night was wet."
            app.remember([NewRecord(text=text, kind="decision" if number % 3 else "fact", tags=(subject,))], me)
        found = app.recall(RecallRequest(query="who checks the gauge of the pier", limit=8), me)
        block = app.assemble_context(ContextRequest(query="the ferry at night", max_tokens=400), me)
        answers.append((found.results, block.report.components, block.text))
    assert answers[0] == answers[1]


def test_of_what_is_noted_together_that_alone_counts_as_lost_which_was_not_stored(
    servers: Sequence[PostgresRecordStore], address: str
) -> None:
    """M2.1: what a recall showed is stored before its accesses, whose table another one has here."""
    one, shown, me = servers[0], servers[0].shown(), Caller(namespace="here", agent="ann", session_id="s1")
    record_id, lost = put(one, "seen"), list[str]()
    database = one._database  # noqa: SLF001
    with psycopg.connect(address) as connection:
        connection.execute("LOCK TABLE records IN ACCESS EXCLUSIVE MODE")
        with one.together():
            shown.see(me, [record_id], 3)
            database.note("forget_shown_contexts", [{}], lambda error: lost.append("stored"))
            one.touch([record_id], 2000.0)
            database.note("forget_shown_contexts", [{}], lambda error: lost.append("after the failure"))
    assert lost == ["after the failure"]
    assert shown.seen(me, [record_id]) == {record_id: 3}
    one.touch([], 2001.0)
    assert one.get([record_id], ["shared/here"])[record_id].counters.accessed == 1


def test_what_the_database_tells_monitoring_is_cheap_and_nothing_is_told_that_it_does_not_know(
    servers: Sequence[PostgresRecordStore],
) -> None:
    """M4.3: the age of a transaction that others have open; without a standby no lag."""
    with closing(servers[0].pin()):
        told = servers[1].gauges()
    assert told.keys() == {"oldest_transaction_seconds", "standbys"}
    assert 0 < told["oldest_transaction_seconds"] < 60
    assert told["standbys"] == 0


def test_a_stream_that_was_left_in_the_middle_ends_nothing_of_the_next_transaction() -> None:
    """R5: an exception keeps it for longer than its connection, which somebody else has by then."""
    with psycopg.connect(new_database()) as raw:
        raw.execute("INSERT INTO meta VALUES ('one', '1')")
        left = cast("Generator[Any]", PostgresConnection(raw).stream("get_meta", ("one",)))
        next(left)
        raw.rollback()
        raw.execute("SELECT 1")
        left.close()
        assert raw.execute("SELECT 2").fetchone() == (2,)
