"""Indexes move between requests, all at once, and nobody waits twice."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from pathlib import Path
from threading import Barrier, Event, Semaphore

import numpy as np
import pytest

from mcp_memory.domain.model.ids import RECORD
from mcp_memory.errors import StoreUnavailable
from mcp_memory.ports.changes import RecordChange, TaskLink
from mcp_memory.stores import follower as follower_module
from mcp_memory.stores.follower import Follower
from mcp_memory.stores.index_files import Arrays, IndexFiles, packed_texts, unpacked_texts
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

    def apply(self, changes: Sequence[RecordChange], tasks: Sequence[TaskLink]) -> None:
        self.fails -= 1
        if self.fails >= 0:
            raise StoreUnavailable("The index is full.")
        self.ids += [change.id for change in changes]
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


def test_an_index_that_fails_fails_the_request_and_is_told_again(store: SqliteRecordStore) -> None:
    follower, index, sound = Follower(store), Ids(fails=1), Ids()
    join(follower, sound)
    join(follower, index)
    first = add(store)
    with pytest.raises(StoreUnavailable, match="index is full"), follower.snapshot():
        pytest.fail("The request began.")
    with follower.snapshot():
        assert index.ids == [first]
    assert set(sound.ids) == {first}


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


@dataclass(eq=False)
class Filed(Ids):
    """The same, kept in files; `told` says how many changes it was told in all."""

    name: str = "ids"
    told: int = 0

    def apply(self, changes: Sequence[RecordChange], tasks: Sequence[TaskLink]) -> None:
        super().apply(changes, tasks)
        self.told += len(changes)

    def packed(self) -> Arrays:
        return packed_texts(self.ids)

    def unpack(self, arrays: Arrays) -> None:
        self.ids = unpacked_texts(arrays["texts"], arrays["ends"])


@pytest.fixture
def files(store: SqliteRecordStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> IndexFiles:
    monkeypatch.setattr(follower_module, "FILED_AFTER", 3)
    return IndexFiles(tmp_path / "arrays", store.stamp, store.newest_erasure)


def test_the_next_process_is_told_only_what_its_files_do_not_hold(store: SqliteRecordStore, files: IndexFiles) -> None:
    """L1.2: files hold the truth as of one change; what is added later follows from the truth."""
    follower, index = Follower(store, files), Filed()
    join(follower, index)
    added = [add(store) for _ in range(3)]
    assert (follower.save(), follower.save()) == (True, False)  # Written once; then there is nothing to write.
    added.append(add(store))
    assert not follower.save()  # One change is not worth a file.
    following, next_index = Follower(store, files), Filed()
    join(following, next_index)
    assert (next_index.ids, next_index.told) == (added, 1)
    with follower.snapshot():  # The writer has gone over to its own files, and was told the one that came since.
        assert (index.ids, index.told) == (added, 3 + 1)


def test_a_writer_goes_over_to_its_files_when_nobody_reads(store: SqliteRecordStore, files: IndexFiles) -> None:
    follower, index = Follower(store, files), Filed()
    join(follower, index)
    added = [add(store) for _ in range(3)]
    with follower.snapshot():
        with ThreadPoolExecutor(1) as pool:
            assert pool.submit(follower.save).result(SECONDS)
            index.ids = ["a request is reading this"]
            assert pool.submit(join, follower, index).result(SECONDS) is None
        assert index.ids == ["a request is reading this"]
    with follower.snapshot():
        assert index.ids == added


class Counting(SqliteRecordStore):
    """A store that says from which change on it was read."""

    begun: list[int]

    def changes(self, since: int, embedder: str = "") -> Iterator[RecordChange]:
        self.begun.append(since)
        return super().changes(since, embedder)


def test_a_request_reads_what_several_indexes_lack_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """L1.2: each is told what its own files do not hold, unless one of them lacks more than was read, or too much."""
    monkeypatch.setattr(follower_module, "FILED_AFTER", 3)
    store = Counting(tmp_path, "embedder", lambda: 1000.0)
    store.begun = []
    files = IndexFiles(tmp_path / "arrays", store.stamp, store.newest_erasure)
    ids = [add(store) for _ in range(3)]
    older, newer = Filed(name="older"), Filed(name="newer")
    for index in (older, newer):
        follower = Follower(store, files)
        join(follower, index)
        assert follower.save()
        ids.append(add(store))

    def told(most: int, *order: str) -> tuple[list[int], list[int]]:
        monkeypatch.setattr(follower_module, "MOST_KEPT", most)
        store.begun = []
        indexes = [Filed(name=name) for name in order]
        follower = Follower(store, files)
        with follower.snapshot():
            for index in indexes:
                join(follower, index)
        assert [index.ids for index in indexes] == [ids, ids]
        return [index.told for index in indexes], store.begun

    old, new = (int(files.newest(name)) for name in ("older", "newer"))
    assert told(100, "older", "newer") == ([2, 1], [old])
    assert told(100, "newer", "older") == ([1, 2], [new, old])
    assert told(0, "older", "newer") == ([2, 1], [old, new])


def test_erased_records_come_from_no_file(store: SqliteRecordStore, files: IndexFiles) -> None:
    """R9: a process that is killed between the erasure and the deletion of files leaves nothing that is used."""
    follower, index = Follower(store, files), Filed()
    join(follower, index)
    added = [add(store) for _ in range(3)]
    assert follower.save()
    with store.write() as transaction:
        transaction.erase(added[:1])
    join(Follower(store, files), fresh := Filed())
    assert fresh.told == 3  # Two records and a tombstone: the whole truth.
    assert files.newest("ids") == 0


def test_a_folder_that_cannot_be_written_is_said_and_costs_no_answer(
    store: SqliteRecordStore, files: IndexFiles, tmp_path: Path
) -> None:
    (tmp_path / "arrays").write_text("in the way")
    follower, index = Follower(store, files), Filed()
    join(follower, index)
    added = [add(store) for _ in range(3)]
    with pytest.raises(StoreUnavailable, match="No file of an index can be written"):
        follower.save()
    with follower.snapshot():
        assert index.ids == added
