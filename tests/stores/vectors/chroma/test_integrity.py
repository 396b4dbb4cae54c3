"""What is kept of indexes, compared with the truth from outside: what is wrong shows, and nothing else is touched."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from mcp_memory.errors import EmbedderMismatch
from mcp_memory.ports.indexes import Finding
from mcp_memory.stores.follower import Follower
from mcp_memory.stores.vectors.chroma.index_folder import write_json
from mcp_memory.stores.vectors.chroma.integrity import ChromaExaminer
from mcp_memory.stores.vectors.chroma.location import IndexPlace
from mcp_memory.stores.vectors.chroma.worker_client import Link
from mcp_memory.stores.vectors.exact import ExactVectorStore
from tests.chroma import (
    EMBEDDER,
    SCOPE,
    DirectLink,
    ForkedChroma,
    Memory,
    Open,
    chroma_server,
    free_port,
    mismatch,
    opening,
    state_of,
    unit,
)


@pytest.fixture
def opened(tmp_path: Path) -> Iterator[Open]:
    with opening(tmp_path) as open_it:
        yield open_it


@pytest.fixture
def left(opened: Open) -> Memory:
    """A memory of 30 records whose server has left its index behind."""
    memory = opened()
    memory.add(*(unit(n) for n in range(30)))
    memory.settle()
    memory.store.close()
    return memory


def examiner(memory: Memory, connect: Callable[[], Link] = DirectLink, **place: Any) -> ChromaExaminer:
    exact = ExactVectorStore(Follower(memory.records), EMBEDDER, mismatch)
    own = IndexPlace(mode="embedded", root=str(memory.index_folder), embedder=EMBEDDER)
    return ChromaExaminer(memory.records, exact, replace(own, **place), connect)


def examined(memory: Memory, *, repair: bool = False) -> list[tuple[str, str, str]]:
    """What is said of each index directory."""
    told = examiner(memory).examine(repair=repair)
    found: list[tuple[str, str, str]] = [(each.part, each.state, each.says) for each in told]
    assert found[0][:2] == ("index", "ok")
    return found[1:]


def spoil(memory: Memory, missing: int, strangers: Sequence[str]) -> None:
    """Have a running server's index differ from the truth, and say that it is whole."""
    view = memory.store._follower.view  # noqa: SLF001 - to spoil what it guards
    assert view is not None
    name = view.place.collection(SCOPE)
    view.index.delete(name, list(view.index.keys(name))[:missing])
    view.index.put(name, {f"{stranger}#1": unit(n)[0] for n, stranger in enumerate(strangers)})
    view.index.rest(view.applied, [name])


def files_of(folder: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in folder.rglob("*") if path.is_file() and path.suffix != ".lock"}


def test_an_index_that_is_whole_is_left_as_it_was(left: Memory) -> None:
    """S2.2: what changed since does not make it wrong."""
    applied = left.exact.revision()
    before = files_of(left.index_folder)
    assert examined(left) == [("index directory", "ok", f"whole up to change {applied}")]
    left.add(unit(90), unit(91))
    assert examined(left, repair=True) == [("index directory", "ok", f"whole up to change {applied}, 2 changed since")]
    assert files_of(left.index_folder) == before
    directory = examiner(left).directory()
    assert directory is not None
    size = sum(map(len, before.values()))
    assert (directory.clean, directory.applied, directory.bytes) == (True, applied, size)


def test_where_there_is_no_index_it_tells_whether_one_is_needed(opened: Open) -> None:
    """S2.2: by the largest scope there is, of whichever project."""
    memory = opened()
    memory.add(*(unit(n) for n in range(5)), scope="shared/small")
    memory.add(*(unit(n) for n in range(30)))
    [unneeded] = examiner(memory, least_vectors=31).examine(repair=False)
    assert (unneeded.part, unneeded.state, unneeded.remedy) == ("index", "ok", "")
    assert unneeded.says == "exact search over 35 vectors; Chroma takes over from 31 in one scope"
    [needed] = examiner(memory, least_vectors=30).examine(repair=False)
    assert needed.says == "exact search over 35 vectors; a server has yet to fill the index of Chroma"


def test_the_index_of_a_running_server_is_left_to_it(left: Memory, opened: Open) -> None:
    """S2.2: its lock says so."""
    server = opened()
    server.settle()
    spoil(server, 1, ["r00000x"])
    assert examined(left, repair=True) == [("index directory", "ok", "in use by a server, which keeps it itself")]
    assert (left.directory).exists()


def test_what_differs_from_the_truth_is_counted_and_dropped_when_asked(left: Memory, opened: Open) -> None:
    """S2.2: the next server builds it again; only changes after the last that it holds are no difference."""
    server = opened()
    server.settle()
    spoil(server, 3, ["r00000x", "r00000y"])
    server.add(unit(90))
    server.store.close()
    wrong = "of its vectors 3 are missing, 2 too many"
    [_, finding] = examiner(left).examine(repair=False)
    assert (finding.state, finding.says) == ("wrong", wrong)
    assert "doctor --repair" in finding.remedy
    assert (left.directory).exists()
    [repaired] = examined(left, repair=True)
    assert repaired == (
        "index directory",
        "repaired",
        f"{wrong}; dropped, and the next server that needs it builds it again",
    )
    assert examined(left) == []
    again = opened()
    again.settle()
    again.assert_chroma_answers()


@pytest.mark.parametrize(
    ("field", "value", "says"),
    [
        ("clean", False, "left in the middle of a change"),
        ("embedder", "other", "made for another embedder"),
        ("chroma", "0.1", "made by another version"),
        ("format", 0, "made by another version"),
        ("applied", 10_000, "ahead of the memory, as after a backup was restored"),
    ],
)
def test_what_a_directory_says_of_itself_can_rule_it_out(left: Memory, field: str, value: object, says: str) -> None:
    """S2.2: it is not even opened then."""
    directory = left.directory
    state = state_of(directory)
    (state["stamp"] if field in state["stamp"] else state)[field] = value
    write_json(directory / "state.json", state)

    def connect() -> Link:
        pytest.fail("It was opened.")

    [_, finding] = examiner(left, connect).examine(repair=False)
    assert (finding.state, finding.says) == ("wrong", says)
    assert examined(left, repair=True)[0][1] == "repaired"
    assert not directory.exists()


def test_what_may_hold_something_erased_is_wrong(left: Memory) -> None:
    """R9: as where whoever erased was killed before it reached the index."""
    with left.records.write() as transaction:
        transaction.erase(list(left.exact.live_ids(SCOPE))[:1])
    assert examined(left) == [("index directory", "wrong", "it may hold what was erased")]


def test_damaged_files_and_an_unreadable_state_show(left: Memory) -> None:
    """S2.2: nothing of it is left beside it."""
    directory = left.directory
    state = state_of(directory)
    database = directory / "chroma.sqlite3"
    database.write_bytes(b"garbled" * 1000)
    assert examined(left) == [("index directory", "wrong", "its files are damaged")]
    status = database.stat()
    state["files"]["chroma.sqlite3"] = [status.st_size, status.st_mtime_ns]
    write_json(directory / "state.json", state)
    assert examined(left) == [("index directory", "wrong", "its files are damaged")]
    (directory / "state.json").write_text("{")
    assert examined(left) == [("index directory", "wrong", "its state cannot be read")]
    directory = examiner(left).directory()
    assert directory is not None
    assert not directory.clean
    assert [path.name for path in left.index_folder.iterdir() if path.is_dir()] == ["index"]


def test_an_index_process_that_dies_over_an_index_is_a_verdict_on_the_index(left: Memory) -> None:
    """S2.2: a damaged one can take down who opens it."""

    def connect() -> Link:
        link = DirectLink()
        link.kill()
        return link

    [_, finding] = examiner(left, connect).examine(repair=False)
    assert (finding.state, finding.says) == ("wrong", "its files are damaged")


def test_a_state_that_was_not_finished_is_no_fault(left: Memory) -> None:
    """S2.2: a process that ends while it writes its state leaves a second one beside the one that counts."""
    unfinished = left.directory / "state.4711"
    unfinished.write_text('{"clean": tr')
    assert examined(left) == [("index directory", "ok", f"whole up to change {left.exact.revision()}")]


def test_an_index_that_claims_nothing_is_not_opened(left: Memory) -> None:
    """S2.2: a server that left while it filled it."""
    directory = left.directory
    write_json(directory / "state.json", {**state_of(directory), "applied": 0})
    assert examined(left) == [("index directory", "ok", "whole up to change 0, 30 changed since")]


def test_what_cannot_be_told_is_no_verdict(left: Memory) -> None:
    """S2.2: where no copy can be made, or the vectors are another embedder's, nothing is dropped."""
    (left.index_folder / "copy").write_text("")
    [_, finding] = examiner(left).examine(repair=True)
    assert (finding.state, finding.says) == ("wrong", "The index directory cannot be written: File exists.")
    assert "Nothing was dropped" in finding.remedy
    (left.index_folder / "copy").unlink()
    exact = ExactVectorStore(Follower(left.records), "another", mismatch)
    place = IndexPlace(mode="embedded", root=str(left.index_folder), embedder="another")
    with pytest.raises(EmbedderMismatch):
        list(ChromaExaminer(left.records, exact, place, DirectLink).examine(repair=True))
    assert examined(left)[0][1] == "ok"


def test_an_index_that_is_switched_off_is_no_fault(opened: Open) -> None:
    """S2.2."""
    memory = opened(mode="off")
    [finding] = examiner(memory, mode="off").examine(repair=False)
    assert finding == Finding(part="index", state="ok", says="exact search over 0 vectors, as the settings say")


def test_a_chroma_server_is_compared_emptied_and_missed(opened: Open, tmp_path: Path) -> None:
    """S2.2: a server that uses it keeps it; without one it is emptied, and filled by the next."""
    port = free_port()
    remote: dict[str, Any] = {"mode": "http", "url": f"http://127.0.0.1:{port}"}
    writer = opened(**remote)
    writer.add(*(unit(n) for n in range(30)))

    def look(*, repair: bool = False) -> Finding:
        connect = partial(ForkedChroma, writer.folder)  # Chroma's client leaves sockets to its process's end.
        [_, finding] = examiner(writer, connect, **remote).examine(repair=repair)
        return finding

    with chroma_server(tmp_path / "server", port):
        writer.settle()
        spoil(writer, 2, ["r00000x"])
        in_use = Finding(part="Chroma server", state="ok", says="in use by a server, which keeps it itself")
        assert look(repair=True) == in_use
        writer.store.close()
        found = look()
        assert (found.state, found.says) == ("wrong", "of its vectors 2 are missing, 1 too many")
        assert "doctor --repair" in found.remedy
        assert look(repair=True).state == "repaired"
        again = opened(**remote)
        again.settle()
        again.close()
        whole = f"reachable, whole up to change {writer.exact.revision()}"
        assert look() == Finding(part="Chroma server", state="ok", says=whole)
    gone = look(repair=True)
    assert gone.state == "wrong"
    assert gone.says.startswith("Chroma failed: ")
    assert "MCP_MEMORY_CHROMA" in gone.remedy
