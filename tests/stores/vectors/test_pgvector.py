"""What pgvector adds to the contract of vector stores: who keeps its vectors, and when it is not believed."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import closing, suppress
from dataclasses import replace
from typing import Any

import psycopg
import pytest

from mcp_memory.domain.model.ids import RECORD
from mcp_memory.errors import StoreUnavailable
from mcp_memory.ports.indexes import IndexDifference
from mcp_memory.stores.records import pushed_vectors
from mcp_memory.stores.records.pushed_vectors import PushedVectors
from mcp_memory.stores.records.store_postgres import PostgresRecordStore
from mcp_memory.stores.vectors import pgvector
from mcp_memory.stores.vectors.exact import ExactVectorStore
from mcp_memory.stores.vectors.pgvector import PgvectorStore
from tests.chroma import until
from tests.contract.conftest import BLANK, EMBEDDER, unit_vectors
from tests.postgres import new_database, pgvector_over, require_pgvector, walled_database

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="No package brings PostgreSQL there")
SCOPE, OTHER = "shared/here", "shared/there"
PATIENCE_SECONDS = 60.0
FILLED_AT_ONCE = 20
SIZE = 2 * FILLED_AT_ONCE + 20


@pytest.fixture(autouse=True)
def filled_by_few(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pushed_vectors, "FILLED_AT_ONCE", FILLED_AT_ONCE)


@pytest.fixture
def address() -> str:
    require_pgvector()
    return new_database()


@pytest.fixture
def records(address: str) -> Iterator[PostgresRecordStore]:
    with closing(PostgresRecordStore(address, EMBEDDER, lambda: 1000.0)) as opened:
        yield opened


@pytest.fixture
def searched(records: PostgresRecordStore) -> Iterator[PgvectorStore]:
    """A scope of some records with pgvector's help."""
    add(records, SIZE)
    with closing(pgvector_over(records, EMBEDDER)) as store:
        yield store


def add(records: PostgresRecordStore, count: int, **fields: Any) -> list[str]:
    ids: list[str] = []
    with records.write() as transaction:
        for seed in range(count):
            ids.append(transaction.next_id(RECORD))
            transaction.insert(replace(BLANK, id=ids[-1], **fields), unit_vectors(seed, 1 + seed % 2), (), ())
    return ids


def found(store: ExactVectorStore, scope: str = SCOPE) -> list[list[str]]:
    return [[*store.search(unit_vectors(90_000 + seed)[0], [scope], 10)] for seed in range(5)]


def exactly(store: PgvectorStore, scope: str = SCOPE) -> list[list[str]]:
    """What a search without pgvector finds."""
    return [[*ExactVectorStore.nearest(store, [unit_vectors(90_000 + seed)[0]], scope, 10)[0]] for seed in range(5)]


def test_a_large_scope_is_filled_once_it_is_searched_and_pgvector_names_its_candidates(searched: PgvectorStore) -> None:
    """M1.1: nothing is made before; and the status says who answers."""
    assert searched.state([SCOPE]).says.startswith("exact search over 90 vectors until pgvector")
    assert found(searched) == exactly(searched)
    assert searched.state().answered == 0
    assert searched.settle(PATIENCE_SECONDS)
    assert found(searched) == exactly(searched)
    state = searched.state([SCOPE])
    assert (state.mode, state.state, state.answered, state.records) == ("pgvector", "ready", 5, 90)
    assert state.says == "pgvector, all 90 vectors indexed"
    assert [each.says for each in searched.examine(repair=False)] == [state.says, "its vectors are the memory's"]


def test_a_write_keeps_what_is_pushed_in_its_own_transaction(
    searched: PgvectorStore, records: PostgresRecordStore, address: str
) -> None:
    """M1.1, R9: whatever it does, by whichever version or tool; what is rolled back never was there."""
    first, second, third, fourth, *_ = add(records, 6)
    add(records, 30, scope=OTHER, namespace="there")
    assert searched.settle(PATIENCE_SECONDS)
    with suppress(ZeroDivisionError), records.write() as transaction:
        transaction.insert(replace(BLANK, id=transaction.next_id(RECORD)), unit_vectors(70_000), (), ())
        transaction.erase([first])
        raise ZeroDivisionError
    assert searched.check() == {}
    with records.write() as transaction:
        new = transaction.next_id(RECORD)
        transaction.insert(replace(BLANK, id=new), unit_vectors(70_001), (), ())
        changes: dict[str, dict[str, Any]] = {
            second: {"status": "retired"},
            third: {"scope": OTHER, "namespace": "there"},
        }
        for record_id, fields in changes.items():
            record = transaction.get(record_id)
            assert record is not None
            transaction.update(replace(record, **fields))
        record = transaction.get(fourth)
        assert record is not None
        transaction.update(record, unit_vectors(70_002, 3))
        transaction.erase([first])
    assert searched.check() == {}
    with psycopg.connect(address) as connection:
        rows = connection.execute(
            "SELECT r.id, p.scope, count(*) FROM pushed_vectors AS p JOIN records AS r ON r.row = p.row"
            " WHERE r.id = ANY (%s) GROUP BY 1, 2",
            ([first, second, third, fourth, new],),
        ).fetchall()
        connection.execute("DELETE FROM records WHERE id = %s", (new,))
    assert sorted(rows) == sorted([(third, OTHER, 1), (fourth, SCOPE, 3), (new, SCOPE, 1)])
    assert searched.check() == {}
    assert found(searched) == exactly(searched)


def test_a_scope_that_is_filled_by_half_is_searched_exactly_until_another_server_goes_on(
    searched: PgvectorStore, records: PostgresRecordStore
) -> None:
    """M2.1: a server that is killed amid it leaves rows that are right, and no claim to have all."""
    batches = iter([False, True])
    pushed = records.pushed_vectors()
    assert not pushed.fill(SCOPE, EMBEDDER, lambda: next(batches))
    assert 0 < pushed.count([SCOPE]) < SIZE
    assert pushed.whole(EMBEDDER) == []
    assert [*searched.search(unit_vectors(1)[0], [SCOPE], 10)]
    assert searched.state().answered == 0
    add(records, 3)
    assert searched.settle(PATIENCE_SECONDS)
    assert searched.check() == {}
    assert pushed.count([SCOPE]) == 94


def test_too_few_candidates_are_noticed_and_answered_exactly(searched: PgvectorStore, address: str) -> None:
    """M1.1: what was lost behind our back; `doctor` tells, and has it filled again."""
    assert searched.settle(PATIENCE_SECONDS)
    with psycopg.connect(address) as connection:
        connection.execute("DELETE FROM pushed_vectors WHERE row > 10")
    assert found(searched) == exactly(searched)
    assert searched.state().answered == 0
    assert searched.check() == {SCOPE: IndexDifference(missing=75, extra=0)}
    _, told = searched.examine(repair=False)
    assert (told.state, told.says) == ("wrong", "of its vectors 75 are missing, 0 too many")
    assert [each.state for each in searched.examine(repair=True)] == ["ok", "repaired"]
    assert found(searched) == exactly(searched)
    assert searched.settle(PATIENCE_SECONDS)
    assert searched.check() == {}


def test_another_embedders_vectors_take_the_place_of_the_former_ones(
    searched: PgvectorStore, records: PostgresRecordStore, address: str
) -> None:
    """R1: of another length, too."""
    assert searched.settle(PATIENCE_SECONDS)
    with psycopg.connect(address) as connection:
        connection.execute("DELETE FROM vectors WHERE row > 40")
        connection.execute("UPDATE vectors SET embedder = 'longer', windows = 1, vector = vector || vector")
        connection.execute("UPDATE vectors SET vector = substring(vector FROM 1 FOR 64)")
        connection.execute("UPDATE meta SET value = 'longer' WHERE name = 'embedder'")
    with closing(pgvector_over(records, "longer")) as store:
        assert store.settle(PATIENCE_SECONDS)
        assert store.check() == {}
        assert records.pushed_vectors().count([SCOPE]) == 40


def test_a_role_that_may_not_make_the_extension_is_told_who_may(monkeypatch: pytest.MonkeyPatch) -> None:
    """S2.2: the exact search answers meanwhile, and the status says why."""
    require_pgvector()
    walled = walled_database()
    address = walled["migrate_url"]
    with closing(PostgresRecordStore(address, EMBEDDER, lambda: 1000.0)) as records:
        add(records, SIZE)
        with pytest.raises(StoreUnavailable, match="have a superuser run CREATE EXTENSION vector"):
            records.pushed_vectors().fill(SCOPE, EMBEDDER, lambda: False)
        monkeypatch.setattr(pgvector, "PAUSE_SECONDS", 0.05)
        with closing(pgvector_over(records, EMBEDDER)) as store:
            assert not store.settle(0.2)
            assert found(store) == exactly(store)
            state = store.state([SCOPE])
            assert state.state == "failed"
            assert "as pgvector cannot be used at present" in state.says
            with psycopg.connect(walled["owner_url"]) as connection:
                connection.execute("CREATE EXTENSION vector")
            assert store.settle(PATIENCE_SECONDS)
            assert store.state([SCOPE]).says == "pgvector, all 90 vectors indexed"


def test_a_server_without_pgvector_is_told_so(searched: PgvectorStore, monkeypatch: pytest.MonkeyPatch) -> None:
    """S2.2: by `doctor`; no PostgreSQL of these tests lacks it."""

    def is_available(pushed: PushedVectors) -> bool:
        return False

    monkeypatch.setattr(PushedVectors, "is_available", is_available)
    _, told = searched.examine(repair=False)
    assert (told.state, told.says) == ("wrong", "the database's server lacks it")


def test_an_extension_that_is_dropped_costs_no_answer_and_no_write_and_comes_back(
    searched: PgvectorStore, records: PostgresRecordStore, address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """S2.2: its index is derived; the exact search answers until a server has made it again."""

    def fails(*_: object) -> bool:
        raise StoreUnavailable("It comes back later.")

    monkeypatch.setattr(pgvector, "PAUSE_SECONDS", 0.05)
    assert searched.settle(PATIENCE_SECONDS)
    assert found(searched) == exactly(searched)
    answered = searched.state().answered
    with psycopg.connect(address) as connection:
        connection.execute("DROP EXTENSION vector CASCADE")
    monkeypatch.setattr(PushedVectors, "fill", fails)
    new = add(records, 3)
    with records.snapshot():  # Whose other reads go on.
        assert found(searched) == exactly(searched)
        assert records.get(new, [SCOPE]).keys() == set(new)
    assert searched.state().answered == answered
    assert searched.check() == {}
    until(lambda: searched.state([SCOPE]).state == "failed")  # Its thread may be about to look.
    monkeypatch.undo()
    assert searched.settle(PATIENCE_SECONDS)
    assert searched.state([SCOPE]).says == "pgvector, all 94 vectors indexed"
    assert searched.check() == {}


def test_a_database_that_was_restored_without_the_extension_serves_as_one_that_never_had_it(
    searched: PgvectorStore, records: PostgresRecordStore, address: str
) -> None:
    """S2.2: `pg_restore` leaves out the table that has a type of pgvector's, and restores all others."""
    assert searched.settle(PATIENCE_SECONDS)
    with psycopg.connect(address) as connection:
        connection.execute("DROP TABLE pushed_vectors; DROP EXTENSION vector")
    new = add(records, 3)
    assert found(searched) == exactly(searched)
    with records.write() as transaction:
        transaction.erase(new)
    assert searched.check() == {}
    with closing(pgvector_over(records, EMBEDDER)) as later:
        assert not later.settle(0.1)
        assert found(later) == exactly(later)
        until(lambda: later.state([SCOPE]).state == "failed")
        state = later.state([SCOPE])
        assert "restore it where pgvector is installed" in state.reason
