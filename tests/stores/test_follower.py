"""Partitions come, move between requests and go; each request has one revision, and nobody waits twice."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from pathlib import Path
from threading import Barrier, Event, Semaphore

import numpy as np
import pytest

from mcp_memory.domain.model.ids import RECORD
from mcp_memory.errors import StoreUnavailable
from mcp_memory.ports.changes import ChangeFeed, Columns, IndexPart
from mcp_memory.stores import follower as follower_module
from mcp_memory.stores.follower import Follower, ShelfFigures
from mcp_memory.stores.records import SqliteRecordStore
from mcp_memory.stores.records.database import DatabaseSnapshot
from tests.contract.conftest import BLANK

SECONDS = 60.0
"""For whoever waits for what has to come."""


@dataclass(eq=False)
class Ids:
    """An index of nothing but ids, each of `size` bytes; it fails as often as it says."""

    size: int = 0
    fails: int = 0
    then: Callable[[], object] = int

    def new_part(self) -> IdsPart:
        return IdsPart(self)

    def forget(self, part: IdsPart) -> None:
        """Nothing is made of a part."""


@dataclass(eq=False)
class IdsPart:
    """The ids of one partition."""

    index: Ids
    ids: list[str] = field(default_factory=list[str])

    @property
    def bytes(self) -> int:
        return self.index.size * len(self.ids)

    def follow(self, truth: ChangeFeed, since: int, partition: str) -> int:
        self.index.fails -= 1
        if self.index.fails >= 0:
            self.ids.append("half")
            raise StoreUnavailable("The index is full.")
        changed = [i for each in truth.index_rows("places", since, partition=partition) for i in each["id"]]
        gone = {i for each in truth.index_rows("erasures", since, partition=partition) for i in each["id"]}
        self.ids = [*dict.fromkeys(i for i in (*self.ids, *changed) if i not in gone)]
        self.index.then()
        return len(changed)


@pytest.fixture
def store(tmp_path: Path) -> SqliteRecordStore:
    return SqliteRecordStore(tmp_path, "embedder", lambda: 1000.0)


HERE, THERE = "shared/here", "shared/there"


def add(store: SqliteRecordStore, scope: str = HERE) -> str:
    with store.write() as transaction:
        record = replace(BLANK, id=transaction.next_id(RECORD), scope=scope)
        transaction.insert(record, np.ones((1, 2), np.float32), (), ())
    return record.id


def read(follower: Follower, index: Ids, *scopes: str) -> list[str]:
    """What the index has of these scopes' partitions."""
    with follower.reading(index, scopes or (HERE,)) as parts:
        return [i for part in parts.values() for i in part.ids]


def held(pool: ThreadPoolExecutor, follower: Follower, index: Ids, until: Event) -> Future[list[str]]:
    """A request that reads at its beginning, and again at its end, once something has happened."""
    is_begun = Event()

    def request() -> list[str]:
        with follower.snapshot([HERE]):
            first = read(follower, index)
            is_begun.set()
            assert until.wait(SECONDS)
            assert read(follower, index) == first
            return first

    asked = pool.submit(request)
    assert is_begun.wait(SECONDS)
    return asked


def test_a_request_inside_another_is_of_its_revision(store: SqliteRecordStore, tmp_path: Path) -> None:
    """R9: whatever was written in between; the next one sees it."""
    follower, index, other = Follower(store), Ids(), SqliteRecordStore(tmp_path, "embedder")
    first = add(store)
    with follower.snapshot() as outer:
        second = add(other)
        with follower.snapshot([HERE]) as inner, store.snapshot() as innermost:
            assert outer == inner == innermost == store.revision()
            assert (read(follower, index), store.count_all()) == ([first], 1)
    with follower.snapshot() as later:
        assert (later, read(follower, index), store.count_all()) == (store.revision(), [first, second], 2)
        assert later > outer


def test_nothing_is_written_inside_a_snapshot(store: SqliteRecordStore) -> None:
    """R9: a write waits for others, who might wait for the end of the snapshot."""
    with store.snapshot(), pytest.raises(AssertionError, match="inside a snapshot"):
        add(store)
    add(store)


def test_requests_that_wait_for_an_earlier_one_share_what_comes_next(
    store: SqliteRecordStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """R9: the partition stays until it has ended, and then goes on once for all who wait, whatever is written."""
    follower, index = Follower(store), Ids()
    first, may_end, all_there = add(store), Event(), Barrier(3)
    looked, pin = Semaphore(0), store.pin

    def counted(partitions: Collection[str] = ()) -> DatabaseSnapshot:
        looked.release()
        return pin(partitions)

    def ask() -> tuple[int, list[str]]:
        with follower.snapshot([HERE]):
            all_there.wait(SECONDS)
            return store.count_all(), read(follower, index)

    with ThreadPoolExecutor(4) as pool, ThreadPoolExecutor(1) as elsewhere:
        earlier = held(pool, follower, index, may_end)
        second = add(store)
        monkeypatch.setattr(store, "pin", counted)
        waiting = [pool.submit(ask) for _ in range(3)]
        for _ in waiting:  # Each has looked, and waits before another may.
            assert looked.acquire(timeout=SECONDS)
        assert not any(each.done() for each in waiting)
        index.then = lambda: elsewhere.submit(add, store).result()
        may_end.set()
        assert earlier.result() == [first]
        assert [each.result() for each in waiting] == [(2, [first, second])] * 3


def test_nobody_waits_for_a_partition_that_is_as_it_was_or_for_another_one(store: SqliteRecordStore) -> None:
    """L1.1, M1: a write elsewhere moves nothing here, and what is written here keeps nobody who reads elsewhere."""
    follower, index, may_end = Follower(store), Ids(), Event()
    first = add(store)
    with ThreadPoolExecutor(1) as pool:
        earlier = held(pool, follower, index, may_end)
        there = add(store, THERE)
        assert read(follower, index) == [first]
        add(store)
        assert read(follower, index, THERE) == [there]
        may_end.set()
        assert earlier.result() == [first]


def test_a_partition_that_was_not_named_is_loaded_as_the_request_began(store: SqliteRecordStore) -> None:
    """R9: where others read it at a later place already, and where nobody does."""
    follower, index, other, may_end = Follower(store), Ids(), Ids(), Event()
    first = add(store)
    with ThreadPoolExecutor(1) as pool, follower.snapshot():
        second = pool.submit(add, store).result()
        later = held(pool, follower, index, may_end)
        assert read(follower, index) == read(follower, other) == [first]
        may_end.set()
        assert later.result() == [first, second]
        assert pool.submit(read, follower, index).result() == [first, second]


def test_a_partition_that_is_loading_holds_nobody_up_and_is_loaded_once(store: SqliteRecordStore) -> None:
    """M1: whoever reads it too waits for the load, also where it is written meanwhile; others go on."""
    follower, index, is_loading, may_go = Follower(store), Ids(), Event(), Event()
    ids, there = [add(store)], add(store, THERE)

    def wait() -> None:
        is_loading.set()
        assert may_go.wait(SECONDS)

    index.then = wait
    with ThreadPoolExecutor(3) as pool:
        asked = [pool.submit(read, follower, index) for _ in range(2)]
        assert is_loading.wait(SECONDS)
        index.then = int
        ids.append(add(store))
        late = pool.submit(read, follower, index)
        assert read(follower, index, THERE) == [there]
        assert not any(each.done() for each in (*asked, late))
        may_go.set()
        assert all(each.result() in (ids[:1], ids) for each in asked)
        assert late.result() == ids
    assert follower.figures().loads == 2


def test_an_index_that_fails_fails_the_request_and_is_told_everything_again(store: SqliteRecordStore) -> None:
    """It may hold half of what it was told."""
    follower, index = Follower(store), Ids()
    first = add(store)
    assert read(follower, index) == [first]
    second = add(store)
    index.fails = 1
    with pytest.raises(StoreUnavailable, match="index is full"):
        read(follower, index)
    assert read(follower, index) == [first, second]


def test_what_went_elsewhere_and_what_is_erased_is_gone(store: SqliteRecordStore) -> None:
    """R9: a record that moves to another partition leaves the one that it was in."""
    follower, index = Follower(store), Ids()
    moved, gone, kept = (add(store) for _ in range(3))
    assert read(follower, index, HERE, "user") == [moved, gone, kept]
    with store.write() as transaction:
        transaction.update(replace(transaction.get(moved) or pytest.fail("it is there"), scope="user"))
        transaction.erase([gone])
    assert read(follower, index, HERE, "user") == [kept, moved]
    assert read(Follower(store), Ids(), HERE, "user") == [kept, moved]


def test_partitions_over_the_budget_are_evicted_the_oldest_first(store: SqliteRecordStore) -> None:
    """L1.1, M1: never those that a running request reads; the figures count it."""
    follower, index = Follower(store, most_bytes=2), Ids(size=1)
    scopes = [f"shared/p{n}" for n in range(4)]
    ids = [add(store, scope) for scope in scopes]
    for scope in (scopes[0], scopes[1], scopes[0], scopes[2]):
        read(follower, index, scope)
    assert follower.figures() == ShelfFigures(partitions=2, bytes=2, loads=3, evictions=1)
    assert read(follower, index, scopes[0]) == ids[:1]
    assert follower.figures().loads == 3
    with follower.snapshot(scopes):
        assert read(follower, index, *scopes) == read(follower, index, *scopes) == ids
        assert follower.figures().bytes == 4
    read(follower, Ids(size=1), scopes[3])
    assert follower.figures().bytes <= 2
    add(store, scopes[3])
    assert len(read(follower, index, scopes[3])) == 2
    assert follower.figures().caught_up == 1


def test_a_snapshot_holds_no_writer_up_and_the_log_is_begun_anew_afterwards(store: SqliteRecordStore) -> None:
    """S2.2: what was written meanwhile reaches the database once it has ended."""
    with store.snapshot():
        before = store.count_all()
        with ThreadPoolExecutor(1) as elsewhere:
            elsewhere.submit(add, store).result()
        assert store.count_all() == before
    assert store.count_all() == before + 1
    store.purge()


class Counting(SqliteRecordStore):
    """A store that says from which change on it was read."""

    begun: list[int]

    def index_rows(self, part: IndexPart, since: int, embedder: str = "", partition: str = "") -> Iterator[Columns]:
        self.begun.append(since)
        return super().index_rows(part, since, embedder, partition)


def test_an_index_that_is_far_behind_begins_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """L1.2: as after an import beside a running server; one that is a little behind is told what it lacks."""
    store = Counting(tmp_path, "embedder", lambda: 1000.0)
    store.begun = []
    follower, index = Follower(store), Ids()
    first = [add(store) for _ in range(2)]
    assert read(follower, index) == first
    revision = store.revision()
    later = add(store)
    assert read(follower, index) == [*first, later]
    assert store.begun == [0, 0, revision, revision]
    monkeypatch.setattr(follower_module, "MOST_FOLLOWED", 2)
    rest = [add(store) for _ in range(3)]
    assert read(follower, index) == [*first, later, *rest]
    assert store.begun == [0, 0, revision, revision, 0, 0]
