"""Walls in PostgreSQL: a request finds what is in its own scopes, also where a statement asks for all."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from typing import Any

import numpy as np
import psycopg
import pytest

from mcp_memory.app import App, open_app
from mcp_memory.domain.model.records import Entity, NewRecord, Relation
from mcp_memory.domain.model.requests import CompactRequest, ContextRequest, PushRequest, RecallRequest, Revision
from mcp_memory.domain.model.scopes import Caller, RecordFilter
from mcp_memory.encoders.embed_minilm import MiniLMEmbedder
from mcp_memory.errors import StoreUnavailable
from mcp_memory.ports.walls import beyond, within
from mcp_memory.settings import load_settings
from mcp_memory.stores.records import sql_files
from mcp_memory.stores.records.pushed_vectors import PushedVectors
from mcp_memory.stores.records.store_postgres import PostgresRecordStore
from mcp_memory.stores.records.walls_postgres import STAND, walled_tables
from tests.conftest import Clock
from tests.postgres import has_pgvector, log_of_server, require_pgvector, walled_database
from tests.services.sessions.conversations import session
from tests.unfiltered import CONDITION, take_filter_out

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="No package brings PostgreSQL there")
ANN = Caller(namespace="here", agent="ann", session_id="day", person="ann")
ZOE = Caller(namespace='the"re,}', agent="zoe", session_id="day", person="zoe")
"""Of another tenant, whose name would end a list that is written carelessly."""
WITHOUT_WALLS = frozenset(
    "calls_done commits confirmations covered departures files folders former_namespaces grounds leases meta partitions"
    " project_folders pushed_scopes quotas read_records reads review_records schema shown_contexts shown_texts tokens"
    " tombstones undone_summaries unembedded".split()
)
"""Tables of ids, counts and access; a file is asked for by the digest of its bytes."""
WORDS = {ANN: "oak", ZOE: "zebra"}


@pytest.fixture
def walled() -> dict[str, str]:
    """The addresses and the role of an empty memory with walls."""
    return walled_database()


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory, embedder: MiniLMEmbedder) -> Iterator[tuple[dict[str, str], App]]:
    """A memory with walls, in which two tenants have done the same, each in words of its own."""
    walled = walled_database()
    chosen: dict[str, Any] = {name: value for name, value in walled.items() if name != "owner_url"}
    folder = tmp_path_factory.mktemp("walls")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("MCP_MEMORY_CONFIG", str(folder / "none.toml"))
        settings = load_settings(data_dir=folder / "data", namespace="test", **chosen)
    with closing(open_app(settings, Clock(), embedder)) as app:
        for caller, word in WORDS.items():
            with within(caller.scopes):
                fill(app, caller, word)
        if has_pgvector():
            with psycopg.connect(walled["owner_url"]) as connection:
                connection.execute("CREATE EXTENSION vector")
            for caller in WORDS:
                for scope in caller.scopes:
                    assert pushed_in(app).fill(scope, app.records.embedder_id() or "", lambda: False)
        yield walled, app


@pytest.fixture
def memory(filled: tuple[dict[str, str], App]) -> App:
    """The memory of both tenants."""
    return filled[1]


def pushed_in(app: App) -> PushedVectors:
    pushed = app.records.pushed_vectors()
    assert pushed is not None
    return pushed


def fill(app: App, caller: Caller, word: str) -> None:
    """Leave a row in every table that holds words."""
    task = app.tasks.push(PushRequest(goal=f"Plant {word}", plan=(f"Water {word}",)), caller)
    told = NewRecord(
        text=f"The garden has {word} by the gate.", tags=(f"tag{word}",), visibility="private",
        entities=(Entity(name=f"Tree {word}", properties={"aliases": [f"Old {word}"]}), Entity(name="garden")),
        relations=(Relation(source="garden", type=f"has {word}", target=f"Tree {word}"),),
    )  # fmt: skip
    shared = replace(told, text=f"The {word} of the garden is shared.", visibility="shared")
    own = replace(told, text=f"The {word} of the garden is a person's.", visibility="user")
    ids = [each.id for each in app.remember([told, shared, own], caller)]
    app.revise(Revision(id=ids[0], text=f"The garden had {word} by the gate."), caller)
    app.feed([replace(each, text=f"{each.text} {word}") for each in session(4)], caller)
    app.compact(CompactRequest(window=1_000, force=True), caller)
    app.assemble_context(ContextRequest(query=f"garden {word}"), caller)
    app.forget([app.remember([NewRecord(text=f"Erase the {word} soon.")], caller)[0].id], "erase", caller)
    assert task.current


def found_in(walled: dict[str, str], table: str, scopes: tuple[str, ...] | None) -> list[tuple[Any, ...]]:
    """What a role that serves finds in a table, asking for all of it."""
    with psycopg.connect(walled["database_url"]) as connection:
        if scopes is not None:
            connection.execute(STAND, ("none", json.dumps(scopes)))
        return connection.execute(f"SELECT * FROM {table}".encode()).fetchall()


def test_a_table_shows_each_tenant_its_own_rows(filled: tuple[dict[str, str], App]) -> None:
    """M3.1: whatever a statement asks for; and nothing where nobody says whose scopes it reads.

    Nothing of that stays with a connection, which a pooler hands on.
    """
    walled, memory = filled
    with psycopg.connect(walled["owner_url"]) as connection:
        every = {table: connection.execute(f"SELECT * FROM {table}".encode()).fetchall() for table in walled_tables()}
    for table, rows in every.items():
        anns, zoes = (found_in(walled, table, caller.scopes) for caller in WORDS)
        assert sorted(map(repr, [*anns, *zoes])) == sorted(map(repr, rows)), table
        assert "zebra" not in repr(anns)
        assert "oak" not in repr(zoes)
        assert found_in(walled, table, ("shared/elsewhere",)) == []
        if rows:
            with pytest.raises(psycopg.errors.InsufficientPrivilege, match="whose scopes it reads"):
                found_in(walled, table, None)
    empty = {table for table, rows in every.items() if not rows}
    with psycopg.connect(walled["owner_url"]) as connection:
        tables = connection.execute("SELECT tablename FROM pg_tables WHERE schemaname = 'public'").fetchall()
    assert {name for (name,) in tables} - WITHOUT_WALLS == {*walled_tables()}, "A table that holds words has a wall."
    empty -= set() if has_pgvector() else {"pushed_vectors"}
    assert empty == {"reviews", "exclusions", "shared_lines", "taken_back", "task_changes", "logs_left"}
    database: Any = vars(memory.records)["_database"]
    with within(ZOE.scopes):
        assert memory.records.count(RecordFilter(scopes=ZOE.scopes)) > 0
    connection = database._pool.getconn()  # noqa: SLF001
    stays = connection.execute("SELECT current_user, current_setting('mcp_memory.scopes', TRUE)").fetchone()
    database._pool.putconn(connection)  # noqa: SLF001
    assert [*stays] in (["memory_serve", ""], ["memory_serve", None])
    with within(None), pytest.raises(StoreUnavailable):  # A test before may have stayed within its own.
        memory.records.count(RecordFilter(scopes=ZOE.scopes))


def test_pgvector_names_no_candidates_of_others(memory: App) -> None:
    """M3.1: whichever scope a statement asks for; what a write pushes is its own tenant's."""
    require_pgvector()
    pushed, embedder = pushed_in(memory), memory.records.embedder_id() or ""
    vector = np.ones(384, np.float32)
    with within(ANN.scopes):
        [new] = memory.remember([NewRecord(text="The garden has an oak more.")], ANN)
        found = pushed.nearest(ANN.scope("shared"), embedder, vector, 100)
        assert len(found) == 2
        assert new.id in found
        assert pushed.nearest(ZOE.scope("shared"), embedder, vector, 100) == []
    with within(ZOE.scopes):
        assert len(pushed.nearest(ZOE.scope("shared"), embedder, vector, 100)) == 1


def test_with_the_filter_taken_out_nothing_of_others_is_found(memory: App, monkeypatch: pytest.MonkeyPatch) -> None:
    """M3.1: no statement asks for scopes any more, in lists, searches, blocks and by ids."""
    store = memory.records
    everything = RecordFilter(scopes=(*ANN.scopes, *ZOE.scopes), include_inactive=True)
    with beyond():
        ids = store.list_ids(everything, "created", 1_000)
        zoes = store.matching_ids(replace(everything, scopes=ZOE.scopes))
    take_filter_out(monkeypatch)
    with beyond():
        assert set(store.get(ids, ANN.scopes)) >= zoes, "the filter is gone"
    with within(ANN.scopes):
        shown = [
            *store.get(ids, everything.scopes).values(),
            *store.list(everything, "important", 1_000),
            *store.mentions([f"tree {word}" for word in WORDS.values()], everything),
            *store.statements(["garden"], everything, 100),
            store.versions(ids),
            [store.links(each) for each in ids],
            [store.latest_versions(each, 10) for each in ids],
            store.tasks(ZOE.namespace),
            store.contexts(ZOE, 100, of_all=True),
            memory.logs.log(ZOE).entries,
            memory.recall(RecallRequest(query="the zebra of the garden", max_tokens=20_000), ANN).results,
            memory.assemble_context(ContextRequest(query="the zebra of the garden"), ANN).text,
        ]
        assert zoes.isdisjoint(store.matching_ids(everything))
    assert "zebra" not in repr(shown).replace("the zebra of the garden", "")
    assert "oak" in repr(shown)


def test_what_reads_beyond_the_walls_has_no_filter_to_lose_but_in_an_erasure() -> None:
    """M3.1: else an id or a count of another scope would hang on that filter alone."""
    trusted = {name for name in sql_files.names() if sql_files.is_beyond(name)}
    asking = {name for name in trusted if CONDITION.search(sql_files.postgres_statement(name))}
    assert asking == {"accounts_of", "maybe_quoting", "maybe_quoting_mentions", "maybe_quoting_relations",
                      "maybe_quoting_versions"}  # fmt: skip


def test_a_server_starts_only_where_walls_hold_it(walled: dict[str, str]) -> None:
    """M3.1: its own role, and not the one for upkeep."""
    serve, migrate, role = walled["database_url"], walled["migrate_url"], walled["upkeep_role"]

    def start(url: str, migrate_url: str, upkeep_role: str) -> None:
        PostgresRecordStore(url, "model", lambda: 1.0, migrate_url, upkeep_role).close()

    with pytest.raises(StoreUnavailable, match="may not be changed by this role"):
        start(serve, serve, role)
    start(migrate, migrate, "")  # Without walls they do not stand.
    with pytest.raises(StoreUnavailable, match="may not raise walls"):
        start(serve, serve, role)
    start(serve, migrate, role)
    start(serve, serve, role)
    with pytest.raises(StoreUnavailable, match="name the role for upkeep"):
        start(serve, migrate, "")
    with pytest.raises(StoreUnavailable, match="do not hold this server's role"):
        start(migrate, migrate, role)
    with pytest.raises(StoreUnavailable, match="may not take the role 'memory_migrate'"):
        start(serve, migrate, "memory_migrate")
    with pytest.raises(StoreUnavailable, match="hold the role 'memory_serve' as well"):
        start(serve, migrate, "memory_serve")


def test_the_servers_log_keeps_no_words_of_a_write_that_failed(walled: dict[str, str]) -> None:
    """P1: no erasure reaches it; the role that docs/postgres.md makes has it keep no statement."""
    for address, is_kept in ((walled["owner_url"], True), (walled["database_url"], False)):
        word = f"walrus{is_kept}"
        with psycopg.connect(address) as connection, pytest.raises(psycopg.Error):
            connection.execute(f"SELECT '{word}' FROM nowhere".encode())
        assert (word in log_of_server()) is is_kept
