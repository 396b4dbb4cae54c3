"""Each part of the memory has its newest change, and what it holds, whatever a write does."""

from __future__ import annotations

from dataclasses import replace

from mcp_memory.domain.model.records import Record
from mcp_memory.domain.model.scopes import Caller, partition_of
from mcp_memory.domain.model.tasks import Task
from mcp_memory.ports.changes import IndexPart
from mcp_memory.ports.records import RecordStore
from mcp_memory.stores.records.store import SqlRecordStore
from tests.contract.conftest import EMBEDDER, AddRecord
from tests.index_rows import rows

HERE, USER = "namespace/here", "user"
PARTITIONS = {
    "shared/web": "namespace/web", "private/ann/web": "namespace/web", "shared/a/b": "namespace/a/b",
    "private/ann/a/b": "namespace/a/b", "user": "user", "user/bob": "user/bob", "private/x/": "namespace/",
    "private/x": "namespace/x", "private": "namespace/", "shared": "shared",
}  # fmt: skip
"""Scopes, and the partition of each."""
ANN = Caller(namespace="here", agent="ann", session_id="s1")


def ids_in(store: RecordStore, partition: str, part: IndexPart = "places", since: int = 0) -> list[str]:
    return [row[0] for row in rows(store, part, since, EMBEDDER, partition)]


def revision(store: RecordStore, partition: str) -> int:
    return store.revisions([partition])[partition].revision


def in_user(record: Record) -> Record:
    return replace(record, visibility="user", scope="user")


def test_a_partition_is_a_namespace_or_a_person() -> None:
    """M1.1."""
    assert {scope: partition_of(scope) for scope in PARTITIONS} == PARTITIONS


def test_statements_find_the_partition_that_a_scope_names(store: RecordStore, add: AddRecord) -> None:
    """M1.1: also of a scope that no caller has, as one without a namespace."""
    for scope, partition in PARTITIONS.items():
        record = add("one", scope=scope)
        assert record.id in ids_in(store, partition), scope


def test_every_part_of_an_index_is_read_by_partition(store: RecordStore, add: AddRecord) -> None:
    """M1.1: its rows alone, those since a change, and vectors where there are some."""
    shared, private = add("one"), add("two", scope="private/ann/here", visibility="private")
    own = add("three", scope="user", visibility="user")
    other = add("four", scope="shared/a/here", namespace="a/here")
    parts: tuple[IndexPart, ...] = ("vectors", "terms", "columns", "places")
    for part in parts:
        assert sorted(ids_in(store, HERE, part)) == [shared.id, private.id]
        assert ids_in(store, USER, part) == [own.id]
        assert ids_in(store, "namespace/a/here", part) == [other.id]
        assert ids_in(store, HERE, part, revision(store, HERE)) == []
    assert sorted(rows(store, "scopes", partition=HERE)) == [("private/ann/here", 1), ("shared/here", 1)]
    assert store.revisions([HERE, "namespace/none"]).keys() == {HERE}
    assert [store.count_all(each) for each in (HERE, USER, "namespace/none", "")] == [2, 1, 0, 4]


def test_followers_hear_of_what_leaves_their_partition(store: RecordStore, add: AddRecord) -> None:
    """M1.1: a record that goes to its person, comes back, and is erased there; the other partition counts it."""
    record, seen = add("one"), revision(store, HERE)
    with store.write() as transaction:
        transaction.update(in_user(record))
    assert ids_in(store, HERE, "erasures", seen) == [record.id]
    assert (ids_in(store, USER), store.count_all(USER), store.count_all(HERE)) == ([record.id], 1, 0)
    with store.write() as transaction:
        transaction.update(record)
    assert ids_in(store, HERE, "erasures", seen) == []
    assert (ids_in(store, HERE, "places", seen), ids_in(store, USER, "erasures")) == ([record.id], [record.id])
    with store.write() as transaction:
        transaction.erase([record.id])
    assert ids_in(store, HERE, "erasures", seen) == [record.id]
    assert (store.count_all(HERE), store.count_all()) == (0, 0)


def test_what_an_erasure_touches_elsewhere_is_a_change_there(store: RecordStore, add: AddRecord) -> None:
    """M1.1: a record that the erased one had replaced."""
    old, new = add("old", scope="user", visibility="user"), add("new")
    with store.write() as transaction:
        transaction.update(replace(old, superseded_by=new.id, status="superseded"))
    seen = revision(store, USER)
    with store.write() as transaction:
        transaction.erase([new.id])
    assert revision(store, USER) > seen
    assert ids_in(store, USER, "places", seen) == [old.id]


def test_a_renamed_project_is_another_partition(store: SqlRecordStore, add: AddRecord) -> None:
    """M1.1, S6.4: followers of the old one hear that it is empty, also of what was erased just before."""
    kept, erased, seen = add("kept"), add("erased"), revision(store, HERE)
    with store.write() as transaction:
        transaction.erase([erased.id])
    store.projects().move("here", "there", 1.0, "", merges=False)
    assert sorted(ids_in(store, HERE, "erasures", seen)) == [kept.id, erased.id]
    assert (ids_in(store, HERE), ids_in(store, "namespace/there")) == ([], [kept.id])
    assert (store.count_all(HERE), store.count_all("namespace/there")) == (0, 1)
    store.projects().move("there", "here", 2.0, "", merges=False)
    assert ids_in(store, HERE, "erasures", seen) == [erased.id]
    assert ids_in(store, HERE, "places", seen) == [kept.id]


def test_tasks_are_changes_of_their_namespace(store: RecordStore) -> None:
    """M1.1: also those of a namespace that holds no record."""
    with store.write(ANN) as transaction:
        transaction.add_task(
            Task(
                id=transaction.next_id("t"), namespace="here", parent_id=None, goal="g", status="active", depth=0,
                agent="ann", session_id="s1", created_at=1.0, updated_at=1.0,
            )
        )  # fmt: skip
    assert revision(store, HERE) == store.revision()
    assert store.count_all(HERE) == 0


def test_an_import_and_new_vectors_are_changes_of_every_partition(store: RecordStore, add: AddRecord) -> None:
    """M1.1: upkeep that indexes a record anew, and all of them for another embedder."""
    record, other = add("one"), add("two", scope="user", visibility="user")
    before = store.revisions([HERE, USER])
    store.renew_terms([record.id])
    assert revision(store, HERE) > before[HERE].revision
    assert revision(store, USER) == before[USER].revision
    store.add_vectors("next", {(each.id, change): None for each in (record, other) for change in _changes(store, each)})
    assert store.adopt_embedder("next")
    assert revision(store, HERE) == revision(store, USER) == store.revision()


def _changes(store: RecordStore, record: Record) -> list[int]:
    return [change.change for change in store.changes(0) if change.id == record.id]
