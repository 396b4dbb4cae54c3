"""Indexes move between requests, all at once, and nobody waits twice."""

from __future__ import annotations

from collections.abc import Callable, Iterator
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
from mcp_memory.stores.follower import Follower
from mcp_memory.stores.records import SqliteRecordStore
from mcp_memory.stores.records.database import DatabaseSnapshot
from tests.contract.conftest import BLANK

SECONDS = 60.0
"""For whoever waits for what has to come."""


@dataclass(eq=False)
class Ids:
    """An index of nothing but ids; `fails` as often as it says."""

    ids: list[str] = field(default_factory=list[str])
    fails: int = 0
    then: Callable[[], object] = int

    def follow(self, truth: ChangeFeed, since: int) -> None:
        self.fails -= 1
        if self.fails >= 0:
            raise StoreUnavailable("The index is full.")
        self.ids = [
            *(self.ids if since else ()),
            *(i for each in truth.index_rows("places", since) for i in each["id"]),
        ]
        self.then()


@pytest.fixture
def store(tmp_path: Path) -> SqliteRecordStore:
    return SqliteRecordStore(tmp_path, "embedder", lambda: 1000.0)


def add(store: SqliteRecordStore) -> str:
    with store.write() as transaction:
        record = replace(BLANK, id=transaction.next_id(RECORD))
        transaction.insert(record, np.ones((1, 2), np.float32), (), ())
    return record.id


def join(follower: Follower, index: Ids) -> None:
    with follower.reading(index):
        pass


def held(follower: Follower, pool: ThreadPoolExecutor, until: Event) -> Future[tuple[int, int]]:
    """A request that lasts until something has happened; its revision at the beginning and at the end."""
    is_begun = Event()

    def request() -> tuple[int, int]:
        with follower.snapshot() as revision:
            is_begun.set()
            assert until.wait(SECONDS)
            return revision, follower.records.revision()

    asked = pool.submit(request)
    assert is_begun.wait(SECONDS)
    return asked


def test_a_request_inside_another_is_of_its_revision(store: SqliteRecordStore, tmp_path: Path) -> None:
    """R9: whatever was written in between; the next one sees it."""
    follower, index, other = Follower(store), Ids(), SqliteRecordStore(tmp_path, "embedder")
    join(follower, index)
    first = add(store)
    with follower.snapshot() as outer:
        second = add(other)
        with follower.snapshot() as inner, store.snapshot() as innermost:
            assert outer == inner == innermost == store.revision()
            assert (index.ids, store.count_all()) == ([first], 1)
    with follower.snapshot() as later:
        assert (later, index.ids, store.count_all()) == (store.revision(), [first, second], 2)
        assert later > outer


def test_nothing_is_written_inside_a_snapshot(store: SqliteRecordStore) -> None:
    """R9: a write waits for others, who might wait for the end of the snapshot."""
    with store.snapshot(), pytest.raises(AssertionError, match="inside a snapshot"):
        add(store)
    add(store)


def test_requests_that_wait_for_an_earlier_one_share_what_comes_next(
    store: SqliteRecordStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """R9: the indexes stay until it has ended, and then go on once for all who wait, whatever is written meanwhile."""
    follower, index = Follower(store), Ids()
    join(follower, index)
    first, may_end, all_there = add(store), Event(), Barrier(3)

    looked, pin = Semaphore(0), store.pin

    def counted() -> DatabaseSnapshot:
        looked.release()
        return pin()

    def ask() -> tuple[int, list[str]]:
        with follower.snapshot():
            all_there.wait(SECONDS)
            return store.count_all(), list(index.ids)

    with ThreadPoolExecutor(4) as pool, ThreadPoolExecutor(1) as elsewhere:
        earlier = held(follower, pool, may_end)
        second = add(store)
        monkeypatch.setattr(store, "pin", counted)
        waiting = [pool.submit(ask) for _ in range(3)]
        for _ in waiting:  # Each has looked, and waits before another may.
            assert looked.acquire(timeout=SECONDS)
        assert not any(each.done() for each in waiting)
        assert index.ids == [first]
        index.then = lambda: elsewhere.submit(add, store).result()
        may_end.set()
        began, ended = earlier.result()
        assert began == ended
        assert [each.result() for each in waiting] == [(2, [first, second])] * 3


def test_requests_of_the_present_revision_do_not_wait(store: SqliteRecordStore) -> None:
    follower, may_end = Follower(store), Event()
    join(follower, Ids())
    add(store)
    with ThreadPoolExecutor(1) as pool:
        earlier = held(follower, pool, may_end)
        with follower.snapshot() as revision:
            assert not earlier.done()
        may_end.set()
        assert earlier.result() == (revision, revision)


def test_an_index_that_fails_fails_the_request_and_is_told_everything_again(store: SqliteRecordStore) -> None:
    """It may hold half of what it was told."""
    follower, index, sound = Follower(store), Ids(), Ids()
    join(follower, sound)
    join(follower, index)
    first = add(store)
    join(follower, index)
    second = add(store)
    index.fails = 1
    with pytest.raises(StoreUnavailable, match="index is full"), follower.snapshot():
        pytest.fail("The request began.")
    index.ids = ["half"]
    join(follower, index)
    assert index.ids == sound.ids == [first, second]


def test_an_index_that_joins_late_is_told_everything(store: SqliteRecordStore) -> None:
    follower, early, late = Follower(store), Ids(), Ids()
    join(follower, early)
    first = add(store)
    with follower.snapshot():
        join(follower, late)
    second = add(store)
    with follower.snapshot():
        assert early.ids == late.ids == [first, second]


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
    join(follower, index)
    first = [add(store) for _ in range(2)]
    join(follower, index)
    revision = store.revision()
    later = add(store)
    join(follower, index)
    assert index.ids == [*first, later]
    assert store.begun == [0, 0, revision]  # A store without any change is begun anew as well.
    monkeypatch.setattr(follower_module, "MOST_FOLLOWED", 2)
    rest = [add(store) for _ in range(3)]
    join(follower, index)
    assert index.ids == [*first, later, *rest]
    assert store.begun == [0, 0, revision, 0]
