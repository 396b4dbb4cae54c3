"""The exact search as the source of an index that derives from it: changes, live vectors, and shelves that empty."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from mcp_memory.domain.model.ids import RECORD
from mcp_memory.domain.model.records import Record
from mcp_memory.stores import follower as follower_module
from mcp_memory.stores.follower import Follower
from mcp_memory.stores.records import SqliteRecordStore
from mcp_memory.stores.vectors.exact import ExactVectorStore
from tests.contract.conftest import BLANK, EMBEDDER, unit_vectors

MANY = 300
"""More removed rows than are left in place."""


@pytest.fixture
def store(tmp_path: Path) -> SqliteRecordStore:
    return SqliteRecordStore(tmp_path, EMBEDDER, lambda: 1000.0)


def loaded(store: SqliteRecordStore) -> ExactVectorStore:
    """A search that has read the whole truth."""
    search = ExactVectorStore(Follower(store), EMBEDDER, lambda one, other: f"{one} is not {other}")
    for scope in search.scopes():
        search.size(scope)
    return search


def add(store: SqliteRecordStore, count: int, **fields: Any) -> list[Record]:
    made: list[Record] = []
    with store.write() as transaction:
        for number in range(count):
            record = replace(BLANK, id=transaction.next_id(RECORD), text=f"text {number}", **fields)
            transaction.insert(record, unit_vectors(number), (), ())
            made.append(record)
    return made


def erase(store: SqliteRecordStore, records: list[Record]) -> None:
    with store.write() as transaction:
        transaction.erase([record.id for record in records])


def test_after_a_load_all_later_changes_are_told_whatever_was_erased_before(
    store: SqliteRecordStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """S7.1: in order of change; who derives from them would never hear of a change that one erasure hid."""
    first = add(store, 4)
    erase(store, first[:1])
    search = loaded(store)
    told = search.changes("shared/here", 0, MANY)
    assert [change.change for change in told] == sorted(change.change for change in told)
    assert {change.id for change in told} == {record.id for record in first}
    applied = store.revision()
    monkeypatch.setattr(follower_module, "MOST_FOLLOWED", 1)
    later = add(store, 20)
    assert [change.id for change in search.changes("shared/here", applied, MANY)] == [record.id for record in later]
    assert set(search.changed_since("shared/here", applied, MANY) or ()) == {record.id for record in later}


@pytest.mark.parametrize("how", ["erased", "moved"])
def test_a_scope_that_lost_all_its_records_hides_none_of_another(store: SqliteRecordStore, how: str) -> None:
    """B1.4: its shelf is empty, and is asked as the others are."""
    mine = add(store, MANY, scope="private/ann/here")
    (kept,) = add(store, 1)
    search = loaded(store)
    if how == "erased":
        erase(store, mine)
    else:
        with store.write() as transaction:
            for record in mine:
                transaction.update(replace(record, scope="shared/here"))
    scopes = ["private/ann/here", "shared/here"]
    found = search.search(unit_vectors(0)[0], scopes, 5)
    assert kept.id in found
    assert search.windows(scopes, list(found)) == {}
    assert search.similarities(unit_vectors(0)[0], scopes, [kept.id]).keys() == {kept.id}
    assert search.live_vectors("private/ann/here", [record.id for record in mine]) == {}


def test_a_scope_that_is_gone_has_no_live_vectors(store: SqliteRecordStore, monkeypatch: pytest.MonkeyPatch) -> None:
    """S7.1: who fills an index asks for scopes that were there a moment ago."""
    gone = add(store, 2, scope="shared/there")
    search = loaded(store)
    assert set(search.scopes()) == {"shared/there"}
    erase(store, gone)
    monkeypatch.setattr(follower_module, "MOST_FOLLOWED", 0)
    add(store, 1)
    assert search.live_vectors("shared/there", [record.id for record in gone]) == {}


def test_a_new_text_and_its_vectors_take_the_place_of_the_old(store: SqliteRecordStore) -> None:
    """R5: also for a record that was loaded, and whose windows are now more."""
    (record,) = add(store, 1)
    search = loaded(store)
    with store.write() as transaction:
        transaction.update(replace(record, text="longer"), unit_vectors(9, 3), ())
    assert search.windows(["shared/here"], [record.id]) == {record.id: 3}
    assert search.similarities(unit_vectors(9, 3)[2], ["shared/here"], [record.id])[record.id] == pytest.approx(1.0)


def test_the_cosines_of_one_query_are_those_of_what_is_there(store: SqliteRecordStore) -> None:
    """R5: they are taken once for all that a recall asks of them, and anew once a record has changed."""
    first, second = add(store, 2)
    search, asked = loaded(store), unit_vectors(9)[0]
    everyone = [first.id, second.id]
    found = search.search(asked, ["shared/here"], 10)
    assert search.similarities(asked, ["shared/here"], everyone) == found
    with store.write() as transaction:
        transaction.update(replace(first, text="nearer"), unit_vectors(9), ())
        transaction.erase([second.id])
    assert search.similarities(asked, ["shared/here"], everyone) == {first.id: pytest.approx(1.0)}
    assert search.usual_cosine(asked, ["shared/here"]).mean == pytest.approx(1.0)
