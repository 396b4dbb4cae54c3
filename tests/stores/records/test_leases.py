"""One of several servers at a time: jobs of upkeep, and what a lease stands for."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import closing

import psycopg
import pytest

from mcp_memory.app import App
from mcp_memory.domain.model.records import NewRecord
from mcp_memory.errors import StoreBusy
from mcp_memory.services.memory.maintain import Maintain, Maintained
from mcp_memory.stores.records.database_postgres import PostgresDatabase
from mcp_memory.stores.records.leases import SqlLeases
from tests.conftest import Clock
from tests.postgres import new_database

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="No package brings PostgreSQL there")


@pytest.fixture
def database() -> Iterator[PostgresDatabase]:
    with closing(PostgresDatabase(new_database())) as database:
        yield database


def pass_time(database: PostgresDatabase, seconds: float) -> None:
    with psycopg.connect(database._url, autocommit=True) as connection:  # noqa: SLF001
        connection.execute("UPDATE leases SET until = until - %s", (seconds,))


def test_a_job_is_done_by_one_server_and_rests_on_all(database: PostgresDatabase) -> None:
    """M1.1: whoever comes meanwhile asks again soon."""
    servers = [SqlLeases(database) for _ in range(4)]
    done: list[int] = []
    is_over = threading.Event()

    def step(number: int) -> Callable[[], bool]:
        return lambda: done.append(number) is not None or not is_over.wait(60)

    with ThreadPoolExecutor(4) as pool:
        asked = [pool.submit(each.once, "look", 60.0, step(number)) for number, each in enumerate(servers)]
        ended = as_completed(asked)
        assert [next(ended).result() for _ in range(3)] == [None] * 3
        is_over.set()
        assert next(ended).result() is False
    assert len(done) == 1
    assert [each.once("look", 60.0, step(9)) for each in servers] == [False] * 4
    pass_time(database, 60)
    assert servers[1].once("look", 60.0, step(9)) is False
    assert done[1:] == [9]


def test_a_job_that_leaves_something_goes_on_at_once(database: PostgresDatabase) -> None:
    one, two = SqlLeases(database), SqlLeases(database)
    left = [True, True, False]
    assert [each.once("look", 60.0, lambda: left.pop(0)) for each in (one, two, one)] == [True, True, False]


def test_a_job_that_fails_rests_too(database: PostgresDatabase) -> None:
    def fail() -> bool:
        raise StoreBusy("not now")

    one, two = SqlLeases(database), SqlLeases(database)
    with pytest.raises(StoreBusy, match="not now"):
        one.once("look", 60.0, fail)
    assert two.once("look", 60.0, lambda: True) is False


def test_another_server_takes_the_job_of_one_that_was_killed(database: PostgresDatabase) -> None:
    """M2.1: after some minutes."""
    one, two = SqlLeases(database), SqlLeases(database)

    def die() -> bool:
        one._holder = "killed, and writes no end"  # noqa: SLF001
        return False

    one.once("look", 60.0, die)
    assert two.once("look", 60.0, lambda: True) is None
    pass_time(database, 300)
    assert two.once("look", 60.0, lambda: True) is True


def test_a_lease_is_its_holders_until_it_ends(database: PostgresDatabase) -> None:
    """M2.1: a former holder notes nothing any more, and what it says makes the present one begin again."""
    one, two = SqlLeases(database), SqlLeases(database)
    assert (one.take("index", 60), two.take("index", 60), two.held("index")) == (0, None, (0, {}))
    assert one.renew("index", 60, before=0, applied=7, reached={"shared/here": 5})
    assert (one.take("index", 60), two.held("index")) == (7, (7, {"shared/here": 5}))
    pass_time(database, 60)
    assert two.held("index") is None
    assert not one.renew("index", 60, before=7, applied=8)
    assert two.take("index", 60) == 7
    assert not one.renew("index", 60, before=7, applied=8)
    one.doubt("index")
    assert not two.renew("index", 60, before=7, applied=8)
    assert two.take("index", 60) == 0
    one.end("index")
    assert one.take("index", 60) is None
    two.end("index")
    assert one.take("index", 60) == 0


def test_upkeep_of_several_servers_does_each_job_once(
    open_memory: Callable[..., App], clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """M1.1: as the owner of a file does it."""
    url = new_database()
    apps = [open_memory(folder=None, database_url=url) for _ in range(2)]
    for number in range(3):
        apps[0].remember([NewRecord(text=f"On day {number} it rained.", kind="episode")], apps[0].caller())
    clock.advance(days=400)
    steps: list[int] = []
    step = Maintain.step

    def counted(maintain: Maintain, *, patiently: bool = True) -> Maintained:
        done = step(maintain, patiently=patiently)
        steps.append(done.records)
        return done

    monkeypatch.setattr(Maintain, "step", counted)
    for app in (*apps, *apps):
        for _ in range(50):
            if not app.keep_up():
                break
    assert steps == [3, 0]
