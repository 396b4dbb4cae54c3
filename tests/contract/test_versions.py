"""The contract of versions: what each change of a record replaced, and who made it."""

from collections.abc import Callable
from dataclasses import replace
from itertools import count

import pytest

from mcp_memory.domain.model.ids import number_of
from mcp_memory.domain.model.records import Record
from mcp_memory.domain.model.scopes import Caller, RecordFilter
from mcp_memory.domain.model.versions import CONFIRMED, UPKEEP, Version, before
from mcp_memory.domain.text.words import normal_hash
from mcp_memory.ports.records import RecordStore
from mcp_memory.ports.text import Vectors

Add = Callable[..., Record]
BOB = Caller(namespace="here", agent="bob", session_id="s2", client="ide")


def history(store: RecordStore, record: Record) -> list[Version]:
    return [*store.versions([record.id]).get(record.id, ())]


def test_a_change_keeps_what_it_replaced_and_who_made_it(store: RecordStore, add: Add) -> None:
    """N5.1: the changed fields alone; counters and access times are no part of the truth."""
    record = add("The port is 80.", tags=("net",), details={"why": ["x"]})
    changed = replace(record, tags=(), status="retired", updated_at=900.0, accessed_at=900.0)
    with store.write(BOB, "told so") as transaction:
        stored = transaction.update(changed)
        assert transaction.versions([record.id]).keys() == {record.id}
    (version,) = history(store, record)
    assert (version.agent, version.client, version.session_id) == ("bob", "ide", "s2")
    assert (version.at, version.reason) == (1000.0, "told so")
    assert version.before == {"status": "new", "tags": ["net"], "updated_at": 100.0}
    now = store.get([record.id], ["shared/here"])[record.id]
    assert now == stored == replace(changed, changed=version.change)
    assert replace(before(now, version), changed=0) == replace(record, accessed_at=900.0)
    assert record.version == number_of(record.id) < now.version == version.change


def test_counters_alone_make_no_version_and_a_new_record_has_none(store: RecordStore, add: Add) -> None:
    """N5.1: nor does a change in the write that stores the record: nobody read it before."""
    record = add("The port is 80.")
    with store.write() as transaction:
        met = replace(record, counters=replace(record.counters, confirmed=1), updated_at=900.0, accessed_at=900.0)
        transaction.update(met)
        new = replace(record, id=transaction.next_id("r"))
        transaction.insert(new, None, (), ())
        transaction.update(replace(new, status="retired"))
    assert store.versions([record.id, new.id]) == {}


def test_changes_of_one_write_share_its_number(
    store: RecordStore, add: Add, vectors_of: Callable[..., Vectors]
) -> None:
    """N2.1: so that a whole write can be undone. Whom nobody asked for is upkeep's."""
    one, other = add("The port is 80."), add("The port is 81.")
    with store.write() as transaction:
        transaction.update(replace(one, superseded_by=other.id, status="superseded"))
        transaction.update(replace(other, text="The port is 82."), vectors_of(1))
    with store.write(BOB) as transaction:
        transaction.update(replace(one, status="retired"), reason="by itself")
    first, second = history(store, one)
    (third,) = history(store, other)
    assert first.write == third.write <= first.change < third.change < second.write <= second.change
    assert (first.agent, first.session_id, second.reason) == (UPKEEP, "", "by itself")
    assert first.before == {"status": "new", "superseded_by": None, "updated_at": 100.0}
    assert third.before == {
        "text": "The port is 81.", "updated_at": 100.0, "normal_hash": normal_hash("The port is 81."),
    }  # fmt: skip


def test_the_latest_writes_are_those_of_somebody_in_the_scopes(store: RecordStore, add: Add) -> None:
    """U2.1: newest first, each once; not undos, confirmations or upkeep, and of one client what it may take back."""
    here, other, elsewhere = add("The port is 80."), add("The port is 81."), add("A.", scope="shared/else")

    values = count(2.0)

    def write(by: Caller | None, *records: Record, reason: str = "", undoes: int = 0) -> int:
        with store.write(by, reason) as transaction:
            for each in records:
                transaction.update(replace(each, importance=next(values)))
            if undoes:
                transaction.mark_undone(undoes)
        return store.versions([records[0].id])[records[0].id][-1].write

    first, second = write(BOB, here, other), write(replace(BOB, client="page"), other)
    write(None, here)
    write(replace(BOB, namespace="else"), elsewhere)
    write(BOB, here, reason=CONFIRMED)
    third = write(BOB, here)
    where = RecordFilter(scopes=("shared/here",), include_inactive=True)
    assert store.latest_writes(where, 9) == [third, second, first]
    assert store.latest_writes(where, 1) == [third]
    assert store.latest_writes(where, 9, BOB) == [third, first]
    assert store.latest_writes(where, 9, replace(BOB, agent="eve")) == []
    write(BOB, here, undoes=third)
    assert store.latest_writes(where, 9) == [third, second, first]
    assert store.latest_writes(where, 9, BOB) == [first]


@pytest.mark.parametrize("is_moved", [True, False])
def test_who_reads_another_scope_does_not_read_what_was_said_before(
    store: RecordStore, add: Add, vectors_of: Callable[..., Vectors], is_moved: bool
) -> None:
    """S4.1: the old words go, their digest stays; so do changes without words."""
    record = add("The port is 80.", scope="private/ann/here", visibility="private", tags=("secret",))
    with store.write() as transaction:
        transaction.update(
            replace(record, text="The port is 81.", tags=(), details={"a": 1}, pinned=True), vectors_of(1)
        )
    if is_moved:
        with store.write() as transaction:
            moved = replace(record, scope="shared/here", visibility="shared", text="The port is 81.", tags=())
            transaction.update(replace(moved, details={"a": 1}, pinned=True))
    first = history(store, record)[0]
    assert ("text" in first.before, "tags" in first.before, "details" in first.before) == (not is_moved,) * 3
    assert (first.before["pinned"], first.before["normal_hash"]) == (False, normal_hash("The port is 80."))


def test_a_record_that_is_erased_takes_its_versions_along(
    store: RecordStore, add: Add, vectors_of: Callable[..., Vectors]
) -> None:
    """R9."""
    record = add("The port is 80.")
    with store.write() as transaction:
        transaction.update(replace(record, text="The port is 81."), vectors_of(1))
    with store.write() as transaction:
        transaction.erase([record.id])
    assert store.versions([record.id]) == {}
