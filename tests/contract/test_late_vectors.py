"""Records that were stored while the embedder could not be asked, over every record store."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from mcp_memory.domain.model.ids import RECORD
from mcp_memory.domain.model.records import Record
from mcp_memory.errors import EmbedderMismatch
from mcp_memory.ports.records import RecordStore
from mcp_memory.ports.text import Vectors
from tests.contract.conftest import BLANK, EMBEDDER

VectorsOf = Callable[..., Vectors]
Add = Callable[..., Record]


def add_without_vectors(store: RecordStore, text: str) -> Record:
    with store.write() as transaction:
        record = replace(BLANK, id=transaction.next_id(RECORD), text=text, summary=text, micro=text)
        transaction.insert(record, None, (), ())
    return record


def embed_all(store: RecordStore, vectors_of: VectorsOf, embedder: str = EMBEDDER) -> None:
    waiting = store.unembedded(embedder, 100)
    store.add_vectors(embedder, {(each[0], each[1]): vectors_of(number) for number, each in enumerate(waiting)})


def test_a_record_without_vectors_is_stored_and_counted(store: RecordStore, add: Add) -> None:
    """S2.2: its text is there, its vectors are to come."""
    add("has its vectors")
    assert store.count_unembedded() == 0
    record = add_without_vectors(store, "has none")
    assert store.get([record.id], [record.scope]) == {record.id: record}
    assert store.count_unembedded() == 1
    assert [each[0] for each in store.unembedded(EMBEDDER, 10)] == [record.id]
    assert record.id not in {change.id for change in store.changes(0, EMBEDDER) if change.vectors is not None}


def test_late_vectors_are_news_to_whoever_has_caught_up(store: RecordStore, add: Add, vectors_of: VectorsOf) -> None:
    """S1.2: each under a change number of its own."""
    add("has its vectors")
    late = {add_without_vectors(store, text).id for text in ("one", "two")}
    seen = store.revision()
    embed_all(store, vectors_of)
    changes = list(store.changes(seen, EMBEDDER))
    assert {change.id for change in changes} == late
    numbers = {change.change for change in changes}
    assert len(numbers) == 2
    assert store.revision() == max(numbers) > min(numbers) > seen
    assert store.count_unembedded() == 0


def test_the_first_vectors_of_a_store_may_be_late(store: RecordStore, vectors_of: VectorsOf) -> None:
    """S2.2: the store is their embedder's from then on."""
    add_without_vectors(store, "one")
    assert store.embedder_id() is None
    assert store.count_unembedded() == 1
    embed_all(store, vectors_of)
    assert store.embedder_id() == EMBEDDER
    assert store.count_unembedded() == 0


def test_late_vectors_of_a_text_that_changed_are_dropped(store: RecordStore, vectors_of: VectorsOf) -> None:
    """S2.2: the record goes on waiting."""
    record = add_without_vectors(store, "one")
    [(_, change, _)] = store.unembedded(EMBEDDER, 10)
    with store.write() as transaction:
        transaction.update(replace(record, importance=0.5))
    seen = store.revision()
    store.add_vectors(EMBEDDER, {(record.id, change): vectors_of(1)})
    assert store.count_unembedded() == 1
    assert store.revision() == seen


def test_the_count_is_right_after_one_of_two_was_embedded(store: RecordStore, vectors_of: VectorsOf) -> None:
    """S2.2: and after the other was erased."""
    one, two = add_without_vectors(store, "one"), add_without_vectors(store, "two")
    [(_, change, _)] = store.unembedded(EMBEDDER, 1)
    store.add_vectors(EMBEDDER, {(one.id, change): vectors_of(1)})
    assert store.count_unembedded() == 1
    with store.write() as transaction:
        transaction.erase([two.id])
    assert store.count_unembedded() == 0


def test_vectors_of_another_embedder_are_no_news_before_it_is_adopted(
    store: RecordStore, add: Add, vectors_of: VectorsOf
) -> None:
    """S2.2: until then the old ones answer; afterwards nothing waits."""
    add("has its vectors")
    add_without_vectors(store, "has none")
    seen = store.revision()
    embed_all(store, vectors_of, "another")
    assert (store.revision(), store.embedder_id()) == (seen, EMBEDDER)
    assert store.count_unembedded() == 1
    assert store.adopt_embedder("another")
    assert store.count_unembedded() == 0


def test_vectors_of_another_length_are_refused_at_the_door(store: RecordStore, add: Add, vectors_of: VectorsOf) -> None:
    """S2.2: whichever way they come."""
    record = add("has its vectors")
    add_without_vectors(store, "has none")
    [(waiting, change, _)] = store.unembedded(EMBEDDER, 10)
    shorter = vectors_of(1)[:, :4]
    with pytest.raises(EmbedderMismatch, match="8 dimensions before, and now of 4"):
        store.add_vectors(EMBEDDER, {(waiting, change): shorter})
    with pytest.raises(EmbedderMismatch), store.write() as transaction:
        transaction.insert(replace(record, id=transaction.next_id(RECORD)), shorter, (), ())
    assert store.count_unembedded() == 1


def test_a_refused_text_waits_no_longer_and_has_no_vectors(
    store: RecordStore, add: Add, vectors_of: VectorsOf, open_store: Callable[..., RecordStore]
) -> None:
    """S2.2: for every process; no index hears of it, and the vectors of others are measured as before."""
    add("has its vectors")
    record = add_without_vectors(store, "refused")
    seen = store.revision()
    [(_, change, _)] = store.unembedded(EMBEDDER, 10)
    store.add_vectors(EMBEDDER, {(record.id, change): None})
    assert store.revision() == seen
    for each in (store, open_store()):
        assert (each.count_unembedded(), each.count_refused(EMBEDDER)) == (0, 1)
        assert each.unembedded(EMBEDDER, 10) == []
        assert record.id not in {one.id for one in each.changes(0, EMBEDDER) if one.vectors is not None}
    late = add_without_vectors(store, "late")
    embed_all(store, vectors_of)
    assert late.id in {one.id for one in store.changes(seen, EMBEDDER) if one.vectors is not None}
    assert store.get([record.id], [record.scope]) == {record.id: record}


def test_a_refusal_alone_does_not_choose_the_embedder(store: RecordStore) -> None:
    """S2.2: and counts as one all the same; as measured by it, no vectors have any length yet."""
    record = add_without_vectors(store, "refused")
    [(_, change, _)] = store.unembedded(EMBEDDER, 10)
    store.add_vectors(EMBEDDER, {(record.id, change): None})
    assert store.embedder_id() is None
    assert (store.count_unembedded(), store.count_refused(EMBEDDER)) == (0, 1)


def test_a_text_that_changed_since_it_was_refused_waits_again(
    store: RecordStore, add: Add, vectors_of: VectorsOf
) -> None:
    """S2.2: whether it changed before the refusal was noted or after."""
    add("has its vectors")
    record = add_without_vectors(store, "refused")
    [(_, change, _)] = store.unembedded(EMBEDDER, 10)
    with store.write() as transaction:
        transaction.update(replace(record, importance=0.5))
    store.add_vectors(EMBEDDER, {(record.id, change): None})
    assert (store.count_unembedded(), store.count_refused(EMBEDDER)) == (1, 0)
    [(_, change, _)] = store.unembedded(EMBEDDER, 10)
    store.add_vectors(EMBEDDER, {(record.id, change): None})
    with store.write() as transaction:
        transaction.update(replace(record, text="taken"), vectors_of(1))
    assert (store.count_unembedded(), store.count_refused(EMBEDDER)) == (0, 0)
    assert record.id in {one.id for one in store.changes(0, EMBEDDER) if one.vectors is not None}


def test_refusals_are_forgotten_on_request_and_with_their_embedder(
    store: RecordStore, add: Add, vectors_of: VectorsOf
) -> None:
    """S2.2: another embedder has its own, and adopts a store without what it refuses."""
    add("has its vectors")
    record = add_without_vectors(store, "refused")
    for _ in range(2):
        store.forget_refusals(EMBEDDER)
        assert (store.count_unembedded(), store.count_refused(EMBEDDER)) == (1, 0)
        [(_, change, _)] = store.unembedded(EMBEDDER, 10)
        store.add_vectors(EMBEDDER, {(record.id, change): None})
        assert (store.count_unembedded(), store.count_refused(EMBEDDER)) == (0, 1)
    waiting = store.unembedded("another", 10)
    assert len(waiting) == 2
    given = {each[:2]: None if each[0] == record.id else vectors_of(1) for each in waiting}
    store.add_vectors("another", given)
    assert store.adopt_embedder("another")
    assert store.count_unembedded() == 0
    assert (store.count_refused(EMBEDDER), store.count_refused("another")) == (0, 1)
