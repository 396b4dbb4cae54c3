"""The contract of quotas: what a project or a person may store, in each store."""

from collections.abc import Sequence
from dataclasses import replace

import pytest

from mcp_memory.domain.model.ids import RECORD
from mcp_memory.domain.model.quotas import Quota
from mcp_memory.domain.model.records import Record
from mcp_memory.domain.model.scopes import Caller
from mcp_memory.errors import QuotaReached
from mcp_memory.ports.access import Usage
from mcp_memory.stores.records.store import SqlRecordStore
from tests.contract.conftest import BLANK, OpenStore, unit_vectors

HERE, BOB = "namespace/here", "user/bob"
ME = Caller(namespace="here", agent="ann", session_id="s1", person="bob")


def put(store: SqlRecordStore, texts: Sequence[str], scope: str = "shared/here", by: Caller | None = ME) -> Record:
    """Store records of these texts in one write; return the last."""
    record = BLANK
    if by and scope.startswith("shared/"):
        by = replace(by, namespace=scope.removeprefix("shared/"))
    with store.write(by) as transaction:
        for text in texts:
            made = replace(BLANK, id=transaction.next_id(RECORD), namespace=scope.rpartition("/")[2])
            record = replace(made, text=text, scope=scope)
            transaction.insert(record, unit_vectors(1), (), ())
    return record


@pytest.fixture
def memory(open_store: OpenStore) -> SqlRecordStore:
    store = open_store()
    assert isinstance(store, SqlRecordStore)
    return store


def test_a_write_beyond_a_quota_stores_nothing(memory: SqlRecordStore) -> None:
    """M3.3: it says which and how much there is; what is there stays, other partitions and upkeep go on."""
    quotas = memory.quotas()
    put(memory, ["one", "two"])
    quotas.put(Quota(partition=HERE, records=3))
    put(memory, ["three"])
    with pytest.raises(QuotaReached, match=r"'here' holds 3 of at most 3 records, and this is 2 more; nothing was"):
        put(memory, ["four", "five"])
    assert quotas.used(HERE) == Usage(records=3, bytes=11)
    assert quotas.used("namespace/there") == Usage()
    put(memory, ["by upkeep"], by=None)
    for scope in ("shared/there", "user/bob"):
        put(memory, ["elsewhere"], scope)
    quotas.put(Quota(partition=BOB, records=1))
    with pytest.raises(QuotaReached, match="belongs to the person 'bob' holds 1 of at most 1 records"):
        put(memory, ["once more"], "user/bob")


def test_a_text_that_grows_counts_and_one_that_shrinks_may_always(memory: SqlRecordStore) -> None:
    quotas = memory.quotas()
    last = put(memory, ["grün"])
    quotas.put(Quota(partition=HERE, bytes=4))
    for text, is_refused in (("gru", False), ("grünes", True), ("grue", False)):
        with memory.write(ME) as transaction:
            transaction.update(replace(last, text="gr"))
        if is_refused:
            with pytest.raises(QuotaReached, match="holds 2 of at most 4 bytes of text, and this is 5 more"):
                change(memory, replace(last, text=text))
        else:
            change(memory, replace(last, text=text))
    with memory.write(ME) as transaction:
        transaction.erase([last.id])
    assert quotas.used(HERE) == Usage()


def change(store: SqlRecordStore, record: Record) -> None:
    with store.write(ME) as transaction:
        transaction.update(record)


def test_quotas_are_listed_changed_and_dropped(memory: SqlRecordStore) -> None:
    """A project that gets another name takes its quota along; of two that become one, one stays."""
    quotas, projects = memory.quotas(), memory.projects()
    put(memory, ["one"])
    put(memory, ["two"], "shared/more")
    for quota in (Quota(partition=HERE, records=3), Quota(partition=HERE, bytes=9, calls=2), Quota(partition=BOB)):
        quotas.put(quota)
    assert quotas.quotas() == [Quota(partition=HERE, bytes=9, calls=2)]
    projects.move("here", "shop", 5.0, "", merges=False)
    assert quotas.quotas() == [Quota(partition="namespace/shop", bytes=9, calls=2)]
    quotas.put(Quota(partition="namespace/more", records=7))
    projects.move("more", "shop", 6.0, "", merges=True)
    assert quotas.quotas() == [Quota(partition="namespace/shop", bytes=9, calls=2)]
    quotas.put(Quota(partition="namespace/shop"))
    assert quotas.quotas() == []
