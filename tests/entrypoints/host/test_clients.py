"""What an owner does for clients that it cannot serve: it says so in time, or leaves the memory to another."""

import socket
import threading
import time
from collections.abc import Callable, Generator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING

import anyio
import pytest

from mcp_memory.bridge import private_sockets
from mcp_memory.bridge.door import REFUSED, Door, greet
from mcp_memory.entrypoints.host import clients, holding
from mcp_memory.entrypoints.host.clients import Clients
from mcp_memory.settings import load_settings

if TYPE_CHECKING:
    from mcp_memory.app import App

pytestmark = pytest.mark.skipif(not private_sockets.are_possible(), reason="no sockets that name their user")

PATIENCE_SECONDS = 20.0
Perform = Callable[["App", socket.socket, Mapping[str, object], threading.Event], None]


@contextmanager
def serving(app: "App", data_dir: Path, perform: Perform) -> Generator[threading.Event]:
    """Serve the clients of that folder's door; yields what is set when the process must end."""
    taken, should_end = Door.claim(str(data_dir)), threading.Event()
    assert taken is not None
    taken.open()
    served = Clients(app, taken, perform, should_end)
    with ThreadPoolExecutor(1) as thread:
        ended = thread.submit(anyio.run, served.serve)
        try:
            yield should_end
        finally:
            served.dismiss(0.1)
            ended.result(PATIENCE_SECONDS)
            served.leave()


def test_a_command_beyond_those_at_work_is_refused_in_time(
    app: "App", tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As where each of the others waits for a reader that does not read; once one has ended, the next is run."""
    monkeypatch.setattr(clients, "COMMANDS_AT_ONCE", 2)
    monkeypatch.setattr(clients, "BUSY_SECONDS", 0.2)
    at_work, may_end = threading.Semaphore(0), threading.Semaphore(0)

    def perform(_app: "App", connection: socket.socket, *_given: object) -> None:
        with connection:
            at_work.release()
            may_end.acquire()
            connection.sendall(b"0\n")

    def ask() -> bytes:
        with greet(str(tmp_path / "door"), "command", {}) as client:
            client.settimeout(PATIENCE_SECONDS)
            return client.recv(1_000)

    with serving(app, tmp_path / "door", perform), ThreadPoolExecutor(3) as asking:
        first = [asking.submit(ask) for _ in range(2)]
        for _ in first:
            assert at_work.acquire(timeout=PATIENCE_SECONDS)
        refused = ask()
        assert refused.startswith(REFUSED)
        assert b"at work on 2 commands" in refused
        may_end.release()
        third = asking.submit(ask)
        assert at_work.acquire(timeout=PATIENCE_SECONDS)
        may_end.release(2)
        assert [each.result() for each in (*first, third)] == [b"0\n"] * 3


@pytest.mark.parametrize(("is_told", "code"), [(False, b"0\n"), (True, b"130\n")])
def test_a_command_of_another_is_interrupted_where_its_host_was_told_to_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_told: bool, code: bytes
) -> None:
    """It is finished where the host has just done its own: a short one may hold the memory when a long one comes."""
    at_work, may_end, should_end = threading.Semaphore(0), threading.Event(), threading.Event()

    def perform(_app: "App", connection: socket.socket, _hello: object, interrupted: threading.Event) -> None:
        with connection:
            at_work.release()
            while not (interrupted.is_set() or may_end.wait(0.01)):
                pass
            connection.sendall(b"130\n" if interrupted.is_set() else b"0\n")

    def ask() -> bytes:
        with greet(str(tmp_path / "data"), "command", {}) as client:
            client.settimeout(PATIENCE_SECONDS)
            return client.recv(1_000)

    def look(seconds: float) -> None:  # By now, whom the end interrupts is interrupted.
        may_end.set()
        time.sleep(seconds)

    monkeypatch.setattr(holding, "BRIEF_SECONDS", 0.0)
    monkeypatch.setattr(clients, "COMMAND_SECONDS", 0.0)
    monkeypatch.setattr(clients, "time", SimpleNamespace(monotonic=time.monotonic, sleep=look))
    door = Door.claim(str(tmp_path / "data"))
    settings = load_settings(data_dir=tmp_path / "data", namespace="test")
    with ThreadPoolExecutor(1) as asking:
        with holding.held(settings, door, perform, should_end):
            asked = asking.submit(ask)
            assert at_work.acquire(timeout=PATIENCE_SECONDS)
            if is_told:
                should_end.set()
        assert asked.result(PATIENCE_SECONDS) == code


def test_an_owner_that_cannot_load_what_serves_windows_ends(
    app: "App", tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As where the client that started it has a limit of memory: one without it may start the next."""

    def fail(_clients: Clients) -> None:
        raise MemoryError

    monkeypatch.setattr(Clients, "_shared_server", fail)

    def perform(*_given: object) -> None:
        raise AssertionError

    with serving(app, tmp_path / "door", perform) as should_end:
        with greet(str(tmp_path / "door"), "window", {}, session="s1", place=None) as window:
            window.settimeout(PATIENCE_SECONDS)
            assert window.recv(100) == b""
        assert should_end.wait(PATIENCE_SECONDS)
