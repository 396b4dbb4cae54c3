"""Whatever happens to the index and its process, answers are the exact search's, and the index repairs itself.

Real processes of their own here: what one may be killed in, or crash in, is what counts.
"""

from __future__ import annotations

import os
import random
import shutil
import signal
import stat
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil
import pytest

from mcp_memory.app import App, open_app
from mcp_memory.domain.model.records import NewRecord
from mcp_memory.encoders.embed_minilm import MiniLMEmbedder
from mcp_memory.errors import StoreBusy
from mcp_memory.ports.text import Vectors
from mcp_memory.services.retrieval.recall import RecallRequest
from mcp_memory.settings import load_settings
from mcp_memory.stores.records import SqliteRecordStore
from mcp_memory.stores.vectors.chroma import store, sync_thread
from mcp_memory.stores.vectors.chroma.index_folder import read_state
from tests.chroma import (
    PATIENCE_SECONDS,
    SCOPE,
    ForkedChroma,
    Memory,
    Peer,
    found_by_chroma,
    quick_to_act,
    state_of,
    traces,
    unit,
    until,
    writing_again,
)
from tests.stores.vectors.chroma.test_store_model import garble

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="Windows has no SIGKILL, and deletes no open files")


@pytest.fixture
def memory(tmp_path: Path) -> Iterator[Memory]:
    """With 300 records, and an index process of its own once it is started."""
    with quick_to_act():
        opened = Memory(tmp_path)
        opened.add(*(unit(n) for n in range(300)))
        yield opened
        opened.close()


@pytest.fixture
def start_peer(memory: Memory) -> Iterator[Callable[..., Peer]]:
    """Starts further processes with the same memory."""
    peers: list[Peer] = []

    def start(**how: Any) -> Peer:
        peers.append(Peer(memory.folder, **how))
        return peers[-1]

    yield start
    for peer in peers:
        peer.kill()


def test_killed_while_chroma_persists(tmp_path: Path) -> None:
    """S2.1, S2.2: the index process, again and again, amid its writes; nothing is lost, nothing stays broken."""
    rng = random.Random(1)
    with quick_to_act():
        memory = Memory(tmp_path, sync_threshold=100)
        memory.add(*(unit(n) for n in range(2500)))
        memory.store.start()
        directory = memory.directory
        killed = 0
        for kills in range(1, 3):
            graph_files = min(rng.randrange(1, 6), 4)

            def is_being_filled(files: int = graph_files, former: int = killed) -> bool:
                state = read_state(directory)
                is_new = state is not None and not state.clean and memory.process_id != former
                return is_new and len(list(directory.rglob("*.bin"))) >= files

            until(is_being_filled)
            killed = memory.process_id
            os.kill(killed, signal.SIGKILL)
            memory.assert_answers((kills,))
        memory.settle()
        assert len(memory.links) >= 3
        memory.assert_chroma_answers()
        assert memory.store.check() == {}
        memory.close()


def test_killed_while_keys_that_are_there_are_written_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """O4.1: Chroma may keep old vectors under such keys for ever, and count right (chroma-core/chroma#7678).

    The directory is made anew; a comparison of keys would have found nothing wrong.
    """
    with quick_to_act():
        memory = Memory(tmp_path, sync_threshold=100)
        ids = memory.add(*(unit(n) for n in range(300)))
        memory.settle()
        directory, process_id = memory.directory, memory.process_id
        monkeypatch.setattr(sync_thread, "FIRST_PAUSE_SECONDS", PATIENCE_SECONDS)  # This process is no witness.
        with writing_again(memory):
            graph = next(directory.rglob("data_level0.bin"))
            before = graph.stat().st_mtime_ns
            until(lambda: graph.stat().st_mtime_ns != before)  # Chroma persists what was written again.
            assert not state_of(directory)["clean"]
            os.kill(process_id, signal.SIGKILL)
        memory.close()
        again = Memory(tmp_path, sync_threshold=100)
        again.assert_answers()
        again.settle()
        assert again.store.check() == {}
        assert found_by_chroma(again, range(300)) == ids
        again.close()


def test_a_server_killed_while_it_fills_its_index_leaves_nothing_behind(memory: Memory) -> None:
    """S2.1: no process, no lock, nothing to repair; the next one answers at once and has its index again."""
    peer = Peer(memory.folder)
    peer.tell("start")
    until((memory.directory / "chroma.sqlite3").exists)
    assert peer.hear() is None
    index_process = psutil.Process(peer.ask("index process"))
    peer.kill()
    memory.assert_answers()
    index_process.wait(PATIENCE_SECONDS)
    memory.settle()
    assert memory.store.state().directory == str(memory.directory)
    memory.assert_chroma_answers()


def test_an_index_process_that_outlives_its_server_keeps_the_next_one_out(memory: Memory) -> None:
    """S1.1, S2.1: it may still write, so the lock is its own; the next server answers exactly until it has ended."""
    peer = Peer(memory.folder)
    peer.ask("settle")
    outliving = psutil.Process(peer.ask("index process"))
    outliving.suspend()
    peer.kill()
    memory.store.start()
    until(lambda: memory.store.state().state == "failed")
    memory.assert_answers()
    assert "Another process" in memory.store.state().reason
    outliving.kill()
    memory.settle()
    memory.assert_chroma_answers()


def test_a_crash_while_it_is_asked_is_answered_exactly(memory: Memory) -> None:
    """S2.2: the answer is whole though the index process has just died; the index comes back."""
    memory.settle()
    os.kill(memory.process_id, signal.SIGKILL)
    memory.assert_answers()
    memory.settle()
    memory.assert_chroma_answers()
    assert len(memory.links) > 1


def test_a_garbled_directory_is_made_anew(memory: Memory) -> None:
    """S2.2: whichever file was damaged while nobody looked."""
    memory.settle()
    memory.close()
    garble(memory.directory, 0)
    again = Memory(memory.folder)
    again.assert_answers()
    again.settle()
    again.assert_chroma_answers()
    assert again.store.check() == {}
    again.close()


def test_a_database_garbled_under_the_running_index_is_made_anew(memory: Memory) -> None:
    """S2.2: noticed at the next write; answers are right all along."""
    memory.settle()
    database = memory.directory / "chroma.sqlite3"
    database.write_bytes(b"\x55" * database.stat().st_size)
    memory.add(unit(50_001))
    until(lambda: len(memory.links) > 1)
    memory.assert_answers()
    memory.settle()
    memory.assert_chroma_answers()


def test_a_directory_deleted_while_it_is_used_is_made_anew(memory: Memory) -> None:
    """S2.2: under queries and writes that go on."""
    memory.settle()
    failures: list[BaseException] = []
    is_over = threading.Event()

    def ask() -> None:
        while not is_over.wait(0.05):
            try:
                memory.assert_answers((1,))
            except BaseException as error:  # noqa: BLE001 - whatever goes wrong in the thread fails the test
                failures.append(error)
                return

    asking = threading.Thread(target=ask)
    asking.start()
    memory.add(unit(60_001))
    shutil.rmtree(memory.directory, ignore_errors=True)
    until(lambda: len(memory.links) > 1)
    memory.settle()
    is_over.set()
    asking.join()
    assert failures == []
    memory.assert_chroma_answers()
    assert memory.store.check() == {}


@pytest.mark.parametrize("how", ["a file in its place", "no right to write"])
def test_where_no_index_can_be_written_the_exact_search_answers(memory: Memory, how: str) -> None:
    """S2.2, S2.3: the state says why; it is tried again."""
    if how == "a file in its place":
        memory.index_folder.write_text("")
    elif os.geteuid() == 0:
        pytest.skip("root may write everywhere")
    else:
        memory.index_folder.mkdir(mode=0o500)
    memory.store.start()
    until(lambda: memory.store.state().state == "failed")
    assert "cannot be written" in memory.store.state().reason
    memory.assert_answers()
    if how == "a file in its place":
        memory.index_folder.unlink()
    else:
        memory.index_folder.chmod(0o700)
    memory.settle()
    memory.assert_chroma_answers()


def test_settings_of_the_working_directory_do_not_matter(
    memory: Memory, start_peer: Callable[..., Peer], tmp_path_factory: pytest.TempPathFactory
) -> None:
    """S2.2: a project's own `.env` and environment, and modules that lie there."""
    project = tmp_path_factory.mktemp("project")
    spoilt = {"CHROMA_API_IMPL": "", "MIGRATIONS": "", "ALLOW_RESET": "perhaps", "IS_PERSISTENT": "false"}
    (project / ".env").write_text("".join(f"{name}={value}\n" for name, value in spoilt.items()))
    (project / "chromadb.py").write_text("raise SystemExit('the wrong one')\n")
    peer = start_peer(cwd=project, environment=spoilt)
    peer.ask("settle")
    wanted = memory.exact.search(unit(1)[0], [SCOPE], 10)
    (answer,) = peer.ask("answers", 1)
    assert answer == pytest.approx(dict(wanted), abs=1e-5)
    assert peer.ask("state")["answered"] == 1
    assert sorted(path.name for path in project.iterdir()) == [".env", "chromadb.py"]


def test_processes_that_start_at_once_agree(memory: Memory, start_peer: Callable[..., Peer]) -> None:
    """S1.1, S1.2: one has Chroma, the others answer exactly; also what one of them stores in the end."""
    peers = [start_peer() for _ in range(2)]
    for peer in peers:
        peer.ask("start")
    having: list[Peer] = []
    until(lambda: having.extend(peer for peer in peers if peer.ask("state")["state"] == "ready") or having)
    having[0].ask("settle")
    other = next(peer for peer in peers if peer is not having[0])
    until(lambda: other.ask("state")["state"] in ("ready", "failed"))
    assert "Another process" in other.ask("state")["reason"]
    (new,) = other.ask("add", 50_001, 1)
    wanted = [memory.exact.search(unit(seed)[0], [SCOPE], 10) for seed in (1, 2, 50_001)]
    assert next(iter(wanted[2])) == new
    for peer in peers:
        for found, exact in zip(peer.ask("answers", 1, 2, 50_001), wanted, strict=True):
            assert found == pytest.approx(dict(exact), abs=1e-5)
        assert (peer.ask("state")["answered"] > 0) == (peer is having[0])
    assert [path.name for path in memory.index_folder.iterdir() if path.is_dir()] == ["index"]


def test_an_erased_record_is_in_no_file_of_the_index_of_another_process(
    memory: Memory, start_peer: Callable[..., Peer]
) -> None:
    """R9: the process that has it follows by itself, and answers on."""
    peer = start_peer()
    secret = unit(50_001, 3)
    (gone,) = memory.add(secret)
    peer.ask("settle")
    wanted = [row.tobytes() for row in secret] + [gone.encode()]
    assert any(path.startswith("chroma/index/") for path in traces(memory.folder, wanted))
    memory.erase([gone])
    assert traces(memory.index_folder, wanted) == []
    assert traces(memory.folder, wanted[:-1]) == []
    peer.ask("settle")
    assert gone not in peer.ask("answers", 50_001)[0]
    assert peer.ask("state")["answered"] > 0
    assert traces(memory.index_folder, wanted) == []


def test_an_erased_record_is_not_in_an_index_that_nobody_has(memory: Memory, start_peer: Callable[..., Peer]) -> None:
    """R9: as a killed process leaves it."""
    secret = unit(50_001, 3)
    (gone,) = memory.add(secret)
    peer = start_peer()
    peer.ask("settle")
    index_process = psutil.Process(peer.ask("index process"))
    peer.kill()
    index_process.wait(PATIENCE_SECONDS)
    wanted = [row.tobytes() for row in secret] + [gone.encode()]
    assert traces(memory.index_folder, wanted)
    memory.erase([gone])
    assert traces(memory.folder, wanted[:-1]) == []
    memory.settle()
    memory.assert_chroma_answers()
    assert traces(memory.index_folder, wanted) == []


def test_a_process_that_does_not_react_does_not_keep_what_was_erased(
    memory: Memory, start_peer: Callable[..., Peer], monkeypatch: pytest.MonkeyPatch
) -> None:
    """R9: its files are deleted under it; awake again, it makes its index anew."""
    monkeypatch.setattr(store, "ERASE_PATIENCE_SECONDS", 0.3)
    (gone,) = memory.add(unit(50_001))
    peer = start_peer()
    peer.ask("settle")
    stopped = [peer.process.pid, peer.ask("index process")]
    stop_between_reads(memory, stopped)
    memory.erase([gone])
    assert traces(memory.folder, [unit(50_001).tobytes()]) == []
    signal_all(stopped, signal.SIGCONT)
    until(lambda: peer.ask("state")["state"] == "ready" and peer.ask("state")["pending"] == 0)
    assert gone not in peer.ask("answers", 50_001)[0]
    assert traces(memory.folder, [unit(50_001).tobytes()]) == []


def stop_between_reads(memory: Memory, pids: Sequence[int]) -> None:
    """Stop the processes while none reads: one that stops within a read rightly keeps the log in use."""
    assert isinstance(memory.records, SqliteRecordStore)
    database = memory.records._database  # noqa: SLF001 - nothing else tells of readers
    for _ in range(100):
        signal_all(pids, signal.SIGSTOP)
        with suppress(StoreBusy):
            if database.empty_log(0.0):
                return
        signal_all(pids, signal.SIGCONT)
    raise AssertionError("The processes read whenever they were stopped.")


def signal_all(pids: Sequence[int], number: signal.Signals) -> None:
    for pid in pids:
        os.kill(pid, number)


def test_the_files_of_the_index_are_private(memory: Memory) -> None:
    """S4.1: Chroma's own too."""
    memory.settle()
    files = [path for path in memory.index_folder.rglob("*") if path.is_file()]
    assert len(files) > 2
    assert {stat.S_IMODE(path.stat().st_mode) for path in files} == {0o600}


class CountingEmbedder:
    """The real one; counts what it is asked to embed."""

    def __init__(self, embedder: MiniLMEmbedder) -> None:
        self.id, self.dimensions = embedder.id, embedder.dimensions
        self.embed_query, self.share_known = embedder.embed_query, embedder.share_known
        self.embedded = 0
        self._embedder = embedder

    def embed(self, text: str) -> Vectors:
        self.embedded += 1
        return self._embedder.embed(text)

    def embed_many(self, texts: Sequence[str]) -> Sequence[Vectors]:
        return [self.embed(text) for text in texts]


def test_a_memory_makes_its_index_without_embedding_anything_again(
    tmp_path: Path, embedder: MiniLMEmbedder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """S2.2, R9: the whole memory, as a server has it: warmed up, indexed, asked, its index lost, a record erased."""
    monkeypatch.setattr(store, "ChromaProcess", ForkedChroma)

    def opened() -> tuple[App, CountingEmbedder]:
        counting = CountingEmbedder(embedder)
        settings = load_settings(data_dir=tmp_path / "data", namespace="test", semantic_store="chroma")
        return open_app(settings, embedder=counting), counting

    with quick_to_act():
        app, counting = opened()
        me = app.caller()
        app.remember([NewRecord(text=f"Note {n} about {'tea' if n % 2 else 'the weather'}") for n in range(30)], me)
        (gone,) = app.remember([NewRecord(text="Quetzalcoatlus hoards xylophones")], me)
        assert app.index.state().state == "off"
        app.close()
        for lose in (False, True):
            if lose:
                shutil.rmtree(tmp_path / "data" / "chroma")
            app, counting = opened()
            app.warm()
            assert app.index.settle(PATIENCE_SECONDS)
            found = app.recall(RecallRequest(query="xylophones", limit=3), me)
            assert (found.results[0]["id"], found.degraded) == (gone.id, ())
            assert counting.embedded == 0
            index = app.index.state()
            assert (index.state, index.records, index.pending) == ("ready", 31, 0)
            if not lose:
                app.close()
        vector = embedder.embed("Quetzalcoatlus hoards xylophones")[0].tobytes()
        assert {path.split("/")[0] for path in traces(tmp_path / "data", [vector])} >= {"chroma"}
        app.forget([gone.id], "erase", me)
        assert traces(tmp_path / "data", [vector]) == []
        app.close()
