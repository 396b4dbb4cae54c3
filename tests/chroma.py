"""Real Chroma for tests: in a directory, on a server of its own, in this process or in one of its own."""

from __future__ import annotations

import contextlib
import json
import math
import os
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mcp_memory.domain.model.ids import RECORD
from mcp_memory.isolated_python import environment_for_child
from mcp_memory.ports.text import Vectors
from mcp_memory.stores.follower import Follower
from mcp_memory.stores.records import SqliteRecordStore, SqlRecordStore
from mcp_memory.stores.vectors.chroma import store, sync_thread
from mcp_memory.stores.vectors.chroma.location import IndexFailure, IndexPlace, record_of
from mcp_memory.stores.vectors.chroma.store import ChromaVectorStore
from mcp_memory.stores.vectors.chroma.worker import Worker
from mcp_memory.stores.vectors.chroma.worker_client import ChromaProcess, Link
from mcp_memory.stores.vectors.exact import ExactVectorStore
from tests.contract.conftest import BLANK
from tests.forked import ForkedProcess

ROOT = Path(__file__).parents[1]
EMBEDDER = "test-embedder"
SCOPE = "shared/here"
PATIENCE_SECONDS = 240.0  # The index process gives way to all others: on a busy machine it hardly runs.
ANSWER_SECONDS = 60.0
DIMENSIONS = 16


def unit(seed: int, windows: int = 1) -> Vectors:
    drawn = np.random.default_rng(seed).standard_normal((windows, DIMENSIONS)).astype(np.float32)
    return drawn / np.linalg.norm(drawn, axis=1, keepdims=True)


def mismatch(stored: str, configured: str) -> str:
    return f"{stored} is not {configured}"


class DirectLink:
    """The worker in this process, without its process: Chroma is loaded once for many tests."""

    def __init__(self) -> None:
        self.worker = Worker()
        self.calls: list[str] = []
        self._lock = threading.Lock()
        self._is_over = False

    def call(self, fields: Mapping[str, Any], body: bytes = b"", *, seconds: float) -> Mapping[str, Any]:
        with self._lock:
            if self._is_over:
                raise IndexFailure("killed")
            self.calls.append(fields["do"])
            return json.loads(json.dumps(self.worker(json.loads(json.dumps(fields)), body)))

    def kill(self) -> None:
        """What a kill leaves: the lock has fallen, and the state says what it said last."""
        with self._lock:
            self._is_over = True
            held = self.worker._held  # noqa: SLF001 - a kill asks nobody
            if held is not None:
                held.close()

    def close(self) -> None:
        with self._lock:
            if not self._is_over:
                self._is_over = True
                self.worker.close()


class ForkedChroma(ChromaProcess):
    """The index process, forked from one that has Chroma imported: it takes two seconds of a core less to start."""

    def _started(self, folder: Path) -> subprocess.Popen[bytes]:
        code = "from mcp_memory.stores.vectors.chroma.worker import main; main()"
        pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL}
        return ForkedProcess(code=code, cwd=folder, env=environment_for_child(), **pipes)


class SharedProcess:
    """An index process that outlives its links, as it takes a second to start. To open closes what was open."""

    def __init__(self) -> None:
        self.process = ForkedChroma(Path(tempfile.gettempdir()))

    def connect(self) -> Link:
        return _Unclosed(self.process)


class _Unclosed:
    def __init__(self, process: ChromaProcess) -> None:
        self.call = process.call

    def close(self) -> None:
        """The process is needed again."""


class Memory:
    """The truth in a folder, the exact store over it, and Chroma on top; as each process of a memory has them."""

    def __init__(self, folder: Path, connect: Callable[[], Link] | None = None, **place: Any) -> None:
        embedder = place.pop("embedder", EMBEDDER)
        idle_seconds = place.pop("idle_seconds", math.inf)
        self.folder = folder
        self.index_folder = folder / "chroma"
        self.directory = self.index_folder / "index"
        self.links: list[Link] = []

        def connecting() -> Link:
            self.links.append(connect() if connect else ForkedChroma(folder))
            return self.links[-1]

        folder.mkdir(exist_ok=True)
        address = place.pop("address", "")
        self.records = _shared(address, embedder) if address else SqliteRecordStore(folder, embedder, lambda: 1000.0)
        self.exact = ExactVectorStore(Follower(self.records), embedder, mismatch)
        given: dict[str, Any] = {"mode": "embedded", "root": str(self.index_folder), "embedder": embedder, **place}
        self.store = ChromaVectorStore(
            self.exact, IndexPlace(**given), self.records.identity, connecting, idle_seconds, self.records.leases()
        )

    def add(self, *vectors: Vectors, scope: str = SCOPE) -> list[str]:
        """Store a record for each, in one write."""
        ids: list[str] = []
        with self.records.write() as transaction:
            for rows in vectors:
                record = replace(BLANK, id=transaction.next_id(RECORD), scope=scope)
                transaction.insert(record, rows, (), ())
                ids.append(record.id)
        return ids

    def erase(self, record_ids: Sequence[str]) -> None:
        """As `forget` does."""
        with self.records.write() as transaction:
            transaction.erase(record_ids)
        self.store.erase(record_ids)
        self.records.purge()

    def settle(self) -> None:
        """Start, and wait until everything stored is in the index."""
        self.store.start()
        assert self.store.settle(PATIENCE_SECONDS), self.store.state()

    def assert_chroma_answers(self, seeds: Sequence[int] = (1, 2, 3), limit: int = 5, scope: str = SCOPE) -> None:
        """Chroma takes part in the answers, and they are the exact search's."""
        before = self.store.state().answered
        self.assert_answers(seeds, limit, scope)
        assert self.store.state().answered == before + len(seeds), self.store.state()

    def assert_answers(self, seeds: Sequence[int] = (1, 2, 3), limit: int = 5, scope: str = SCOPE) -> None:
        """Whoever answers, it is the truth."""
        for seed in seeds:
            query = unit(50_000 + seed)[0]
            found = self.store.search(query, [scope], limit)
            wanted = ExactVectorStore(Follower(self.records), EMBEDDER, mismatch).search(query, [scope], limit)
            assert list(found) == list(wanted)
            assert found == pytest.approx(wanted, abs=1e-5)

    @property
    def process_id(self) -> int:
        """Of the present index process."""
        link = self.links[-1]
        assert isinstance(link, ChromaProcess)
        return link.pid

    def close(self) -> None:
        self.store.close()
        self.records.close()


def _shared(address: str, embedder: str) -> SqlRecordStore:
    """Open a memory that other servers have, too."""
    from mcp_memory.stores.records.store_postgres import PostgresRecordStore

    return PostgresRecordStore(address, embedder, lambda: 1000.0)


@contextlib.contextmanager
def quick_to_act() -> Generator[None]:
    """Ask Chroma of few records too, wait for its answers on the busiest machine, and pause only shortly."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(store, "SPARE", 2)
        patch.setattr(sync_thread, "FIRST_PAUSE_SECONDS", 0.01)
        patch.setattr(sync_thread, "LONGEST_PAUSE_SECONDS", 0.1)
        patch.setattr(sync_thread, "POLL_SECONDS", 0.2)
        patch.setattr(store, "PATIENCE_SECONDS", dict.fromkeys(store.PATIENCE_SECONDS, ANSWER_SECONDS))
        yield


Open = Callable[..., Memory]


@contextlib.contextmanager
def opening(root: Path, **usual: Any) -> Generator[Open]:
    """Opens the memory of a folder, again and again, as further processes would, and closes all that were opened.

    The folder is `root` or the one that is named in it; the place is as `usual`, but for what is given.
    """
    with quick_to_act(), contextlib.ExitStack() as memories:

        def open_it(folder: str = "", **given: Any) -> Memory:
            place = {**usual, **given}
            # Chroma's client leaves sockets to its process's end: what asks a server has a process of its own.
            memory = Memory(root / folder, None if "url" in place else DirectLink, **place)
            memories.callback(memory.close)
            return memory

        yield open_it


def until(condition: Callable[[], object], seconds: float = PATIENCE_SECONDS) -> None:
    """Wait for a condition, asked ever less often: it asks other processes, and the index's gives way to all."""
    deadline, pause = time.monotonic() + seconds, 0.005
    while not condition():
        assert time.monotonic() < deadline, "It never came to that."
        time.sleep(pause)
        pause = min(1.5 * pause, 0.2)


def free_port() -> int:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return taken.getsockname()[1]


@contextlib.contextmanager
def chroma_server(folder: Path, port: int) -> Generator[subprocess.Popen[bytes]]:
    """A `chroma run` of its own on loopback, which answers when this begins."""
    process = ForkedProcess(
        *("run", "--path", str(folder), "--port", str(port), "--host", "127.0.0.1"),
        code="from chromadb.cli.cli import app; app()",
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        until(lambda: _answers(port) or process.poll() is not None)
        yield process
    finally:
        process.kill()
        process.wait()


def _answers(port: int) -> bool:
    with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
        return True
    return False


class Proxy:
    """A TCP proxy on loopback, which can fall silent, and tells what was sent through it."""

    def __init__(self, target: int) -> None:
        self.target = target
        self.sent = bytearray()
        self._speaking = threading.Event()
        self._speaking.set()
        self._sockets: list[socket.socket] = []
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self._threads = [threading.Thread(target=self._accept)]
        self._threads[0].start()

    def fall_silent(self) -> None:
        """Take connections and requests on, and say nothing."""
        self._speaking.clear()

    def speak(self) -> None:
        self._speaking.set()

    def close(self) -> None:
        self._speaking.set()
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        for each in self._sockets:
            with contextlib.suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
        for thread in self._threads:
            thread.join()
        for each in self._sockets:
            each.close()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                client = self._listener.accept()[0]
                self._sockets.append(client)
                try:
                    server = socket.create_connection(("127.0.0.1", self.target))
                except ConnectionRefusedError:
                    client.close()
                    continue
                self._sockets.append(server)
                for ends in ((client, server), (server, client)):
                    self._threads.append(threading.Thread(target=self._pass_on, args=ends))
                    self._threads[-1].start()

    def _pass_on(self, source: socket.socket, sink: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while data := source.recv(65_536):
                if sink.getpeername()[1] == self.target:
                    self.sent += data
                self._speaking.wait()
                sink.sendall(data)
        with contextlib.suppress(OSError):
            sink.shutdown(socket.SHUT_WR)


class Peer:
    """A process of its own with the same memory, which does as it is told: `ask("settle")`, `ask("answers", 1, 2)`."""

    def __init__(self, folder: Path, *, cwd: Path | None = None, environment: Mapping[str, str] | None = None) -> None:
        code = "import sys, json; sys.path[:] = json.loads(sys.argv[2]); from tests.chroma import peer; peer()"
        arguments = (str(folder), json.dumps([str(ROOT), *sys.path]))
        pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
        if cwd is None and environment is None:
            self.process = ForkedProcess(*arguments, code=code, **pipes)
        else:
            command = [sys.executable, "-c", code, *arguments]
            self.process = subprocess.Popen(command, cwd=cwd, env={**os.environ, **(environment or {})}, **pipes)

    def tell(self, command: str, *arguments: Any) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps([command, *arguments]) + "\n")
        self.process.stdin.flush()

    def hear(self) -> Any:
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        assert line, "The other process is gone."
        return json.loads(line)

    def ask(self, command: str, *arguments: Any) -> Any:
        self.tell(command, *arguments)
        return self.hear()

    def kill(self) -> None:
        self.process.kill()
        self.close()

    def close(self) -> None:
        assert self.process.stdin is not None and self.process.stdout is not None  # noqa: PT018 - for the type checker
        with contextlib.suppress(OSError):
            self.process.stdin.close()
        self.process.wait()
        self.process.stdout.close()


def peer() -> None:
    """What a `Peer` runs."""
    folder = Path(sys.argv[1])
    # As a server does, which asks first whether another has the index. A forked process has none to fork others from.
    memory = Memory(folder, lambda: memory.store._begun())  # noqa: PLW0108, SLF001 - there is none before

    def add(first: int, count: int) -> list[str]:
        return memory.add(*(unit(first + n) for n in range(count)))

    def answers(*seeds: int) -> object:
        return [memory.store.search(unit(seed)[0], [SCOPE], 10) for seed in seeds]

    commands: dict[str, Callable[..., object]] = {
        "add": add,
        "start": memory.store.start,
        "settle": memory.settle,
        "index process": lambda: memory.process_id,
        "answers": answers,
        "state": lambda: asdict(memory.store.state()),
    }
    with quick_to_act():
        for line in sys.stdin:
            command, *arguments = json.loads(line)
            sys.stdout.write(json.dumps(commands[command](*arguments)) + "\n")
            sys.stdout.flush()
    memory.close()


@contextlib.contextmanager
def writing_again(memory: Memory) -> Generator[None]:
    """Write keys that Chroma holds with other vectors meanwhile, over and over, until Chroma is gone."""
    view = memory.store._follower.view  # noqa: SLF001 - to do what the store never does
    assert view is not None
    name = view.place.collection(SCOPE)
    keys = view.index.keys(name)

    def write() -> None:
        for seed in range(80_000, 90_000):
            try:
                view.index.put(name, {key: unit(seed + n)[0] for n, key in enumerate(keys[:300])})
            except IndexFailure:
                return

    writer = threading.Thread(target=write)
    writer.start()
    yield
    writer.join()


def found_by_chroma(memory: Memory, seeds: Sequence[int], windows: int = 1) -> list[str]:
    """The record that Chroma itself names first for the last window of each seed's vectors."""
    view = memory.store._follower.view  # noqa: SLF001 - the exact search would correct it
    assert view is not None
    name = view.place.collection(SCOPE)
    asked = (unit(seed, windows)[-1] for seed in seeds)
    return [record_of(view.index.query([name], vector, 1, ANSWER_SECONDS)[0][0]) for vector in asked]


def traces(folder: Path, wanted: Sequence[bytes]) -> list[str]:
    """Files that hold any of the byte strings."""
    contents: dict[str, bytes] = {}
    for path in folder.rglob("*"):
        with contextlib.suppress(FileNotFoundError, IsADirectoryError):  # A journal comes and goes.
            contents[path.relative_to(folder).as_posix()] = path.read_bytes()
    return [name for name, content in contents.items() if any(each in content for each in wanted)]


def state_of(directory: Path) -> dict[str, Any]:
    return json.loads((directory / "state.json").read_bytes())
