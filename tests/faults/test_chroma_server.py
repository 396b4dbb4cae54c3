"""A Chroma server: slow, gone, emptied, back again. Answers are the exact search's."""

from __future__ import annotations

import json
import re
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any
from urllib.request import Request, urlopen

import pytest

from mcp_memory.stores.vectors.chroma import index_client, store
from mcp_memory.stores.vectors.chroma.worker_client import Link
from tests.chroma import (
    PATIENCE_SECONDS,
    SCOPE,
    ForkedChroma,
    Memory,
    Open,
    Proxy,
    chroma_server,
    found_by_chroma,
    free_port,
    opening,
    quick_to_act,
    state_of,
    unit,
    until,
    writing_again,
)


class Server:
    """A Chroma server; it can be stopped and started again, with its data or without."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._running = ExitStack()
        self.port = free_port()
        self.is_running = False

    def start(self, data: str = "data") -> None:
        self._running.enter_context(chroma_server(self._folder / data, self.port))
        self.is_running = True

    def stop(self) -> None:
        self._running.close()
        self.is_running = False

    def keys_of(self, memory: Memory) -> set[str]:
        """Every id in the memory's collections, asked of the server itself."""
        base = f"http://127.0.0.1:{self.port}/api/v2/tenants/default_tenant/databases/default_database/collections"
        found: set[str] = set()
        with urlopen(base) as answer:
            collections = [each for each in json.load(answer) if memory.records.identity() in each["name"]]
        for collection in collections:
            asking = Request(f"{base}/{collection['id']}/get", b'{"include": []}', {"Content-Type": "application/json"})
            with urlopen(asking) as answer:
                found |= set(json.load(answer)["ids"])
        return found


@pytest.fixture(scope="module")
def chroma(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """One for all tests: to start it takes seconds, and memories do not meet on it."""
    running = Server(tmp_path_factory.mktemp("server"))
    yield running
    running.stop()


@pytest.fixture
def server(chroma: Server) -> Server:
    """Running, whatever the test before did with it."""
    if not chroma.is_running:
        chroma.start()
    return chroma


@pytest.fixture
def proxy(server: Server) -> Iterator[Proxy]:
    """What stands between the server and the test's memories."""
    between = Proxy(server.port)
    yield between
    between.close()


@pytest.fixture
def opened(tmp_path: Path, proxy: Proxy) -> Iterator[Open]:
    with opening(tmp_path, mode="http", url=f"http://127.0.0.1:{proxy.port}") as open_it:
        yield open_it


@pytest.fixture
def memory(opened: Open) -> Memory:
    """With 400 records, two windows each."""
    made = opened()
    made.add(*(unit(n, 2) for n in range(400)))
    return made


def test_one_process_has_the_server_and_others_answer_exactly(memory: Memory, opened: Open, server: Server) -> None:
    """S1.2: what either stores the other finds; when the first goes, another takes over."""
    memory.settle()
    other = opened()
    other.store.start()
    until(lambda: other.store.state().state == "failed")
    memory.assert_chroma_answers()
    other.assert_answers()
    assert (memory.store.state().records, other.store.state().answered) == (400, 0)
    assert memory.store.state().directory is None
    (new,) = other.add(unit(50_001))
    for each in (memory, other):
        assert next(iter(each.store.search(unit(50_001)[0], [SCOPE], 3))) == new
    memory.close()
    other.add(unit(50_002))
    other.settle()
    other.assert_chroma_answers()
    assert other.store.state().records == 402
    assert {key.partition("#")[0] for key in server.keys_of(other)} == set(other.exact.live_ids(SCOPE))


class HeldUp:
    """A link whose next batches wait, as where a machine pauses."""

    def __init__(self, link: Link, goes_on: threading.Event, waiting: threading.Event) -> None:
        self._link, self._goes_on, self._waiting = link, goes_on, waiting
        self.close = link.close

    def call(self, fields: Mapping[str, Any], body: bytes = b"", *, seconds: float) -> Mapping[str, Any]:
        if fields["do"] == "put" and not self._goes_on.is_set():
            self._waiting.set()
            self._goes_on.wait(PATIENCE_SECONDS)
        return self._link.call(fields, body, seconds=seconds)


@pytest.mark.skipif(sys.platform == "win32", reason="No package brings PostgreSQL there")
def test_of_servers_that_share_a_memory_one_writes_the_index_and_all_ask_it(tmp_path: Path, server: Server) -> None:
    """M1.1, M2.1: another one takes over, and a batch that comes late leaves nothing."""
    import psycopg

    from tests.postgres import new_database

    goes_on, waiting = threading.Event(), threading.Event()
    goes_on.set()
    address = new_database()
    place: dict[str, Any] = {"mode": "http", "url": f"http://127.0.0.1:{server.port}", "address": address}
    with quick_to_act(), ExitStack() as memories:
        one = Memory(tmp_path / "a", lambda: HeldUp(ForkedChroma(tmp_path / "a"), goes_on, waiting), **place)
        two = Memory(tmp_path / "b", lambda: ForkedChroma(tmp_path / "b"), **place)
        memories.callback(two.close)
        memories.callback(one.close)
        one.add(*(unit(n, 2) for n in range(100)))
        one.settle()
        two.settle()
        two.add(unit(50_001))
        for each in (one, two):
            each.settle()
            each.assert_chroma_answers()
        assert (one.store.state().records, two.store.state().records) == (101, 0)

        goes_on.clear()
        late = one.add(unit(50_002))
        assert waiting.wait(PATIENCE_SECONDS)
        with psycopg.connect(address, autocommit=True) as connection:  # The time of the lease is over.
            connection.execute("UPDATE leases SET until = 0")
        until(lambda: two.store.state().records == 102)
        two.erase(late)
        two.settle()
        two.assert_chroma_answers()
        goes_on.set()
        until(lambda: one.store.state().state == "ready" and not one.store.state().records)
        assert not any(key.startswith(late[0]) for key in server.keys_of(one))
        two.add(unit(50_003))
        for each in (one, two):
            each.settle()
            each.assert_chroma_answers()
        assert (one.store.state().records, two.store.state().records) == (0, 102)
        two.close()
        one.settle()
        assert one.store.state().records == 102
        assert {key.partition("#")[0] for key in server.keys_of(one)} == set(one.exact.live_ids(SCOPE))


def test_what_is_sent_keeps_to_the_limits_of_the_cloud(memory: Memory, proxy: Proxy) -> None:
    """S2.2: at most 300 vectors a write and 300 results a question, ids of at most 128 bytes; no text."""
    memory.settle()
    memory.assert_chroma_answers()
    answered = memory.store.state().answered
    assert len(memory.store.search(unit(1)[0], [SCOPE], 150)) == 150
    assert memory.store.state().answered == answered
    requests = [json.loads(body) for body in re.findall(rb"\r\n\r\n(\{.*\})", bytes(proxy.sent))]
    writes = [request for request in requests if "embeddings" in request]
    assert sum(len(write["ids"]) for write in writes) == 800
    assert max(len(write["ids"]) for write in writes) <= 300
    assert max(len(key) for write in writes for key in write["ids"]) <= 128
    assert all(write["documents"] is None for write in writes)
    assert max(request["n_results"] for request in requests if "n_results" in request) <= 300


def test_two_memories_on_one_server_do_not_meet(memory: Memory, opened: Open) -> None:
    """S4.1: though their projects, scopes and ids are the same."""
    memory.settle()
    other = opened("elsewhere")
    other.add(*(unit(90_000 + n) for n in range(100)))
    other.settle()
    for each in (memory, other):
        each.assert_chroma_answers()
        assert each.store.check() == {}


@pytest.mark.parametrize("data", ["data", "lost"])
def test_a_server_that_goes_and_comes_back(memory: Memory, server: Server, data: str) -> None:
    """S2.2: with what it held or without; records stored meanwhile are found all along."""
    memory.settle()
    server.stop()
    memory.assert_answers()
    memory.add(unit(50_001))
    memory.assert_answers()
    until(lambda: memory.store.state().state == "failed")
    assert memory.store.state().reason
    server.start(data)
    memory.settle()
    memory.assert_chroma_answers()
    assert memory.store.check() == {}


def test_a_server_killed_while_keys_that_are_there_are_written_again(memory: Memory, server: Server) -> None:
    """O4.1: as in a directory; the mark is on disk before the change."""
    memory.settle()
    ids = [*memory.exact.live_ids(SCOPE)]
    state = state_of(memory.directory)
    assert (state["clean"], state["applied"]) == (True, memory.exact.revision())
    links = len(memory.links)
    with writing_again(memory):
        until(lambda: not state_of(memory.directory)["clean"])
        server.stop()
    memory.assert_answers()
    until(lambda: memory.store.state().state == "failed")
    server.start()
    memory.settle()
    assert len(memory.links) > links
    assert memory.store.check() == {}
    assert found_by_chroma(memory, range(0, 400, 4), windows=2) == ids[::4]


def test_a_server_that_falls_silent_delays_no_answer_twice(
    memory: Memory, proxy: Proxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    """S2.2: it is left alone for a while, and asked again when it speaks."""
    memory.settle()
    memory.assert_chroma_answers()
    monkeypatch.setattr(store, "PATIENCE_SECONDS", dict.fromkeys(store.PATIENCE_SECONDS, 0.1))
    monkeypatch.setattr(store, "FIRST_REST_SECONDS", 1e-3)
    proxy.fall_silent()
    memory.store._rest_seconds = 1e6  # noqa: SLF001 - until the test says so
    asked = bytes(proxy.sent).count(b"/query HTTP")
    memory.assert_answers((1, 2, 3))
    until(lambda: bytes(proxy.sent).count(b"/query HTTP") > asked)
    assert bytes(proxy.sent).count(b"/query HTTP") == asked + 1
    proxy.speak()
    monkeypatch.setattr(store, "PATIENCE_SECONDS", dict.fromkeys(store.PATIENCE_SECONDS, 30.0))
    memory.store._rest_until = 0.0  # noqa: SLF001
    memory.settle()
    memory.assert_chroma_answers()


def test_a_server_that_takes_connections_and_never_answers(
    memory: Memory, proxy: Proxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    """S2.2: opening it gives up at a deadline, and the state says so; nobody waits for it."""
    monkeypatch.setattr(index_client, "OPEN_SECONDS", 2.0)
    proxy.fall_silent()
    memory.store.start()
    memory.assert_answers()
    until(lambda: "did not answer" in memory.store.state().reason)
    monkeypatch.setattr(index_client, "OPEN_SECONDS", 60.0)
    proxy.speak()
    memory.settle()
    memory.assert_chroma_answers()


@pytest.mark.parametrize("is_there", [True, False])
def test_an_erased_record_goes_from_the_server(memory: Memory, server: Server, is_there: bool) -> None:
    """R9: at once where it can be reached, else when it is back."""
    gone = memory.exact.revision() and memory.exact.live_ids(SCOPE)[7]
    assert isinstance(gone, str)
    memory.settle()
    assert any(key.startswith(gone) for key in server.keys_of(memory))
    if is_there:
        memory.erase([gone])
    else:
        server.stop()
        memory.erase([gone])
        server.start()
        memory.settle()
    assert not any(key.startswith(gone) for key in server.keys_of(memory))
    memory.settle()
    assert gone not in memory.store.search(unit(7, 2)[0], [SCOPE], 10)


@pytest.mark.parametrize("is_held", [True, False])
def test_a_process_that_keeps_no_index_erases_from_the_server(
    memory: Memory, opened: Open, server: Server, is_held: bool
) -> None:
    """R9: as a command of the command line does; a process that has the index follows within a second.

    What the server holds besides is not in doubt.
    """
    memory.settle()
    gone = memory.exact.live_ids(SCOPE)[7]
    command = opened()
    if not is_held:
        memory.close()
    command.erase([gone])
    until(lambda: not any(key.startswith(gone) for key in server.keys_of(command)))
    assert command.store.state().state == "off"
    if not is_held:
        assert state_of(command.directory)["clean"]
        command.settle()
        command.assert_chroma_answers()
