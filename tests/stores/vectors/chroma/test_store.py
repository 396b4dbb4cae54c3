"""Chroma as an index: it answers, what it answers is what the exact search answers, and it is only an index."""

from __future__ import annotations

import stat
import sys
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pytest

from mcp_memory.domain.model.ids import RecordSet
from mcp_memory.errors import EmbedderMismatch
from mcp_memory.stores.vectors.chroma import sync_thread, who_answers, worker
from mcp_memory.stores.vectors.chroma.index_client import IndexClient
from mcp_memory.stores.vectors.chroma.index_folder import IndexFolder, drop_former_indexes, write_json
from mcp_memory.stores.vectors.chroma.location import IndexFailure
from tests.chroma import (
    EMBEDDER,
    SCOPE,
    DirectLink,
    Memory,
    Open,
    opening,
    quick_to_act,
    state_of,
    traces,
    unit,
    until,
)


@pytest.fixture
def opened(tmp_path: Path) -> Iterator[Open]:
    with opening(tmp_path) as open_it:
        yield open_it


@pytest.fixture
def memory(opened: Open) -> Memory:
    """With 200 records in it."""
    made = opened()
    made.add(*(unit(n) for n in range(200)))
    return made


def calls(memory: Memory) -> list[str]:
    """What was asked of the index since it was last opened."""
    link = memory.links[-1]
    assert isinstance(link, DirectLink)
    return link.calls


def told(memory: Memory, *scopes: str) -> str:
    return memory.store.state(scopes or (SCOPE,)).says


def test_chroma_answers_once_it_has_been_filled(memory: Memory) -> None:
    """S2.2: until then the exact search answers; scores are exact from the start."""
    memory.assert_answers()
    assert (memory.store.state().state, memory.store.state().answered) == ("off", 0)
    assert not memory.store.settle(0)
    assert memory.store.check() == {}
    memory.settle()
    memory.assert_chroma_answers()
    state = memory.store.state()
    assert (state.mode, state.state, state.records, state.pending, state.reason) == ("embedded", "ready", 200, 0, "")
    assert state.applied == memory.records.revision()
    assert state.directory == str(memory.directory)
    assert state.bytes > 200 * 16 * 4
    assert memory.store.check() == {}


def test_a_search_waits_only_where_another_process_answers_it(opened: Open) -> None:
    """B3.1: only then are the other sources asked meanwhile."""
    memory = opened(least_vectors=200)
    memory.add(*(unit(n) for n in range(200)))
    memory.add(unit(500), scope="shared/small")
    memory.assert_answers()
    assert not memory.store.waits([SCOPE])
    memory.settle()
    memory.assert_chroma_answers()
    assert memory.store.waits(["shared/small", SCOPE])
    assert not memory.store.waits(["shared/small"])


def test_what_is_not_applied_yet_is_found_all_the_same(memory: Memory) -> None:
    """S1.2: what another process stored, changed, retired and moved a moment ago, beside what Chroma answers."""
    memory.settle()
    other = Memory(memory.folder, DirectLink)
    new = other.add(unit(50_001))[0]
    with other.records.write() as transaction:
        moved, changed, retired = (transaction.get(i) for i in list(memory.exact.live_ids(SCOPE))[:3])
        assert moved is not None and changed is not None and retired is not None  # noqa: PT018 - for the type checker
        transaction.update(replace(moved, scope="shared/there"))
        transaction.update(changed, unit(50_002, 3))
        transaction.update(replace(retired, status="retired"))
    other.close()
    memory.assert_chroma_answers()
    assert next(iter(memory.store.search(unit(50_001)[0], [SCOPE], 3))) == new
    assert next(iter(memory.store.search(unit(50_002, 3)[1], [SCOPE], 3))) == changed.id
    assert moved.id not in memory.store.search(unit(0)[0], [SCOPE], 90)
    assert retired.id not in memory.store.search(unit(2)[0], [SCOPE], 90)


def test_selective_filters_and_wide_questions_are_answered_exactly(memory: Memory) -> None:
    """R5: Chroma is not asked to filter, nor for most of what there is."""
    memory.settle()
    ids = memory.exact.live_ids(SCOPE)
    before = memory.store.state().answered
    found = memory.store.search(unit(7)[0], [SCOPE], 3, only=RecordSet.of(ids[:50]))
    assert found == memory.exact.search(unit(7)[0], [SCOPE], 3, only=RecordSet.of(ids[:50]))
    assert len(memory.store.search(unit(7)[0], [SCOPE], 200)) == 200
    assert memory.store.search(unit(7)[0], ["shared/unknown"], 3) == {}
    assert memory.store.state().answered == before


def test_with_too_many_changes_pending_the_exact_search_answers_alone(
    memory: Memory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """S2.2: searching them beside the index would cost more than it saves."""
    memory.settle()
    monkeypatch.setattr(who_answers, "MOST_PENDING", 3)
    memory.assert_chroma_answers()
    other = Memory(memory.folder, DirectLink)
    other.add(*(unit(60_000 + n) for n in range(4)))
    other.close()
    before = memory.store.state().answered
    memory.assert_answers((1,))
    memory.settle()
    memory.assert_chroma_answers()
    assert memory.store.state().answered <= before + 4


def test_records_of_many_windows_crowd_nobody_out(memory: Memory) -> None:
    """R5: where the nearest windows all belong to a few records, the others are found exactly."""
    near = unit(50_001)
    windows = (near + unit(90 + n, 40) * np.float32(0.01) for n in range(2))
    crowd = memory.add(*(rows / np.linalg.norm(rows, axis=1, keepdims=True) for rows in windows))
    memory.settle()
    found = memory.store.search(near[0], [SCOPE], 10)
    assert set(list(found)[:2]) == set(crowd)
    memory.assert_answers((1,), limit=10)


def test_an_index_used_before_needs_only_what_changed_since(memory: Memory, opened: Open) -> None:
    """S2.2: what it holds is compared, not made again."""
    memory.settle()
    memory.close()
    again = opened()
    new, gone = unit(50_001), memory_ids(again)[0]
    again.add(new)
    with again.records.write() as transaction:
        transaction.update(replace(transaction.get(gone) or pytest.fail("it is there"), status="retired"))
    again.settle()
    assert [call for call in calls(again) if call in ("put", "delete", "clear")] == ["put", "delete"]
    again.assert_chroma_answers()
    assert again.store.state().records == 200


def memory_ids(memory: Memory) -> list[str]:
    memory.exact.revision()
    return list(memory.exact.live_ids(SCOPE))


def test_an_index_of_another_truth_ends_as_this_one(memory: Memory, opened: Open, tmp_path: Path) -> None:
    """S2.2: after a backup was restored the index is ahead of the truth, and has the same ids for other texts."""
    memory.records.backup(str(tmp_path / "backup.db"))
    memory.add(*(unit(70_000 + n) for n in range(20)))
    memory.settle()
    memory.close()
    for file in tmp_path.glob("memory.db*"):
        file.unlink()
    (tmp_path / "backup.db").rename(tmp_path / "memory.db")
    restored = opened()
    restored.add(*(unit(80_000 + n) for n in range(20)))
    restored.settle()
    restored.assert_chroma_answers()
    assert restored.store.check() == {}
    assert restored.store.state().records == 220


def test_what_is_erased_after_a_restore_leaves_the_index_too(memory: Memory, tmp_path: Path) -> None:
    """R9: a directory counts erasures by the changes of another history; the file was copied by hand.

    Chroma writes freed memory into its files, and this process held what is erased: the index has one of its own.
    """
    memory.records.backup(str(tmp_path / "backup.db"))
    later = memory.add(*(unit(70_000 + n) for n in range(30)))
    memory.erase(later)
    memory.settle()
    memory.close()
    for file in tmp_path.glob("memory.db*"):
        file.unlink()
    (tmp_path / "backup.db").rename(tmp_path / "memory.db")
    with closing(Memory(tmp_path)) as restored:
        (gone,) = restored.add(unit(90_001))
        restored.settle()
        restored.erase([gone])
        restored.settle()
        assert traces(restored.index_folder, [unit(90_001).tobytes()]) == []
        restored.assert_chroma_answers()


@pytest.mark.parametrize("field", ["embedder", "chroma", "format", "clean", "files"])
def test_an_index_that_is_not_to_be_trusted_is_made_anew(memory: Memory, opened: Open, field: str) -> None:
    """S2.2: of another embedder, another Chroma, another format; dirty; with files that changed since."""
    memory.settle()
    memory.close()
    directory = memory.directory
    (directory / "left over").write_text("")
    state = state_of(directory)
    state["files"]["left over"] = [0, (directory / "left over").stat().st_mtime_ns]
    others: dict[str, object] = {"embedder": "other", "chroma": "0.1", "format": 0, "clean": False, "files": None}
    (state["stamp"] if field in state["stamp"] else state)[field] = others[field]
    write_json(directory / "state.json", state)
    again = opened()
    again.settle()
    assert not (directory / "left over").exists()
    again.assert_chroma_answers()


def test_an_index_that_is_to_be_trusted_is_kept(memory: Memory, opened: Open) -> None:
    """S2.2: what the test above changes is what decides."""
    memory.settle()
    memory.close()
    directory = memory.directory
    (directory / "left over").write_text("")
    state = state_of(directory)
    state["files"]["left over"] = [0, (directory / "left over").stat().st_mtime_ns]
    write_json(directory / "state.json", state)
    again = opened()
    again.settle()
    assert (directory / "left over").exists()
    again.assert_chroma_answers()


def test_one_process_at_a_time_has_the_index(memory: Memory, opened: Open) -> None:
    """S1.1, S2.2: another answers exactly, says why, and touches no file; when the index is free it takes it."""
    memory.settle()
    state = state_of(memory.directory)
    second = opened()
    second.store.start()
    until(lambda: second.store.state().state == "failed")
    assert "Another process" in second.store.state().reason
    second.assert_answers()
    assert second.store.state().answered == 0
    assert state_of(memory.directory) == state
    memory.assert_chroma_answers()
    memory.close()
    second.settle()
    assert second.store.state().directory == str(memory.directory)
    assert second.store.state().reason == ""
    second.assert_chroma_answers()


def test_what_a_filling_took_of_memory_is_given_back(memory: Memory, monkeypatch: pytest.MonkeyPatch) -> None:
    """L2.2: by the index process at rest, and by the one that compared all keys; a search gives nothing back."""
    given_back: list[str] = []
    for module in (worker, sync_thread):
        monkeypatch.setattr(module, "give_back_memory", lambda name=module.__name__: given_back.append(name))
    memory.settle()
    assert sorted(given_back) == [sync_thread.__name__, worker.__name__]
    memory.assert_chroma_answers()
    assert len(given_back) == 2


def test_no_process_is_started_while_another_has_the_index(memory: Memory) -> None:
    """L2.2: a second of one core at each try; the lock is asked first."""
    memory.settle()
    with closing(Memory(memory.folder)) as second:
        started = second.store._begun  # noqa: SLF001 - what is called where a test gives none
        with pytest.raises(IndexFailure, match="Another process") as failure:
            started()
        assert failure.value.keep
        memory.close()
        link = started()
        link.close()


def test_indexes_of_earlier_versions_are_deleted(tmp_path: Path) -> None:
    """R9: nobody erases from them any more; what else lies there stays."""
    root = tmp_path / "index"
    for name in ("0/chroma.sqlite3", "31/state.json", "12.lock", "server-1a.lock", "server-1a.json"):
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).touch()
    (root / "mine.txt").touch()
    drop_former_indexes(root)
    assert [path.name for path in root.iterdir()] == ["mine.txt"]
    (root / "mine.txt").unlink()
    for _ in range(2):
        drop_former_indexes(root)
        assert not root.exists()


@pytest.mark.skipif(sys.platform == "win32", reason="modes are POSIX's")
def test_the_index_is_private(memory: Memory) -> None:
    """S4.1: directories 0700; Chroma's own files are made private by its process (tests/faults)."""
    memory.settle()
    for path in (memory.index_folder, memory.directory):
        assert stat.S_IMODE(path.stat().st_mode) == 0o700
    for path in (memory.index_folder / "index.lock", memory.directory / "state.json"):
        assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_a_rebuild_empties_and_fills_it_again(memory: Memory) -> None:
    """S2.2, R9: on demand, from the truth, by a new process; meanwhile the exact search answers."""
    memory.settle()
    memory.store.rebuild()
    memory.assert_answers()
    memory.settle()
    assert len(memory.links) == 2
    assert "put" in calls(memory)
    memory.assert_chroma_answers()


def test_a_check_names_what_is_missing_and_what_should_not_be_there(memory: Memory) -> None:
    """S2.2: by scope; a rebuild repairs it."""
    memory.settle()
    view = memory.store._follower.view  # noqa: SLF001 - to spoil what it guards
    assert view is not None
    name = view.place.collection(SCOPE)
    view.index.delete(name, list(view.index.keys(name))[:3])
    view.index.put(name, {"stranger#1": unit(1)[0], "stranger#2": unit(2)[0]})
    assert {scope: (d.missing, d.extra) for scope, d in memory.store.check().items()} == {SCOPE: (3, 2)}
    memory.store.rebuild()
    memory.settle()
    assert memory.store.check() == {}


def test_it_is_not_started_before_a_scope_that_is_searched_is_large(opened: Open) -> None:
    """S2.2: no process, no directory; the search that finds the scope grown starts it, and it says so meanwhile."""
    memory = opened(least_vectors=200)
    memory.add(*(unit(n) for n in range(199)))
    memory.add(*(unit(n) for n in range(300)), scope="shared/elsewhere")
    memory.store.start()
    memory.assert_answers()
    state = memory.store.state()
    assert (state.mode, state.state, memory.links) == ("embedded", "not needed", [])
    assert told(memory) == "exact search over 199 vectors; Chroma takes over from 200 in one scope"
    assert not memory.store.settle(0.0)
    assert not memory.index_folder.exists()
    memory.add(unit(199))
    memory.assert_answers()
    memory.settle()
    assert (memory.store.state().state, memory.store.state().reason, len(memory.links)) == ("ready", "", 1)
    memory.assert_chroma_answers()


def test_it_tells_which_store_answers_and_how_far_it_is(opened: Open) -> None:
    """O4.1: of the scopes asked about alone; before, and after the index is filled, in a server and a command."""
    memory = opened(least_vectors=200)
    command = opened(least_vectors=200)
    memory.add(*(unit(n, 2) for n in range(100)))
    memory.add(unit(700), scope="private/ann/here")
    assert told(command) == "exact search over 200 vectors; a server has yet to fill the index of Chroma"
    assert told(memory, "private/ann/here") == "exact search over 1 vector; Chroma takes over from 200 in one scope"
    memory.assert_answers()
    memory.settle()
    for each in (memory, command):
        assert told(each) == "Chroma, all 200 vectors indexed"
        assert told(each, "private/ann/here", SCOPE) == "Chroma, 200 of 201 indexed; the rest is searched exactly"
    memory.add(unit(701, 5))
    assert told(command) == "Chroma, 200 of 205 indexed; the rest is searched exactly"
    memory.settle()
    assert told(memory) == "Chroma, all 205 vectors indexed"
    assert memory.store.state().says == ""


def test_it_tells_how_much_an_index_under_construction_holds(memory: Memory, monkeypatch: pytest.MonkeyPatch) -> None:
    """O4.1: the exact search answers until it is there."""
    seen: list[str] = []
    rest = IndexClient.rest  # The moment in which it is filled, and not yet shown.

    def looked(index: IndexClient, *given: Any) -> None:
        seen.append(told(memory))
        rest(index, *given)

    monkeypatch.setattr(IndexClient, "rest", looked)
    memory.settle()
    assert seen[0] == "exact search over 200 vectors until Chroma has indexed them (200 so far)"


def test_it_tells_why_chroma_does_not_answer(opened: Open) -> None:
    """O4.1, S2.2: the reason, which may name files, stands beside it."""
    failing = opened()
    failing.add(unit(1))
    failing.index_folder.write_text("")
    failing.store.start()
    until(lambda: failing.store.state().state == "failed")
    assert told(failing) == "exact search over 1 vector, as Chroma cannot be used at present"
    assert told(opened(mode="off")) == "exact search over 1 vector, as the settings say"
    other = opened(embedder="another")
    assert told(other) == "no search, as the vectors are another embedder's; run `mcp-memory reindex`"


def test_it_starts_at_once_where_a_large_scope_was_searched_before(opened: Open) -> None:
    """S2.2: as a server's first search comes before its index; a process that never starts it never has one."""
    memory = opened(least_vectors=200)
    memory.add(*(unit(n) for n in range(200)))
    memory.assert_answers()
    assert (memory.store.state().state, memory.links) == ("off", [])
    memory.settle()
    memory.assert_chroma_answers()


def test_what_an_earlier_server_left_is_erased_where_no_index_is_needed(opened: Open) -> None:
    """R9: below the threshold no index process follows erasures; a check-up's copy goes with it."""
    earlier = opened()
    ids = earlier.add(*(unit(n) for n in range(150)))
    earlier.settle()
    earlier.close()
    folder = IndexFolder(earlier.index_folder)
    folder.copy.mkdir()
    memory = opened(least_vectors=200)
    memory.store.start()
    assert folder.directory.exists()
    memory.erase(ids[:1])
    assert [path.name for path in memory.index_folder.iterdir()] == ["index.lock"]
    assert memory.links == []


def test_off_means_that_nothing_is_started(opened: Open) -> None:
    """S2.2: and that what an index held before is deleted, unless another process has it."""
    embedded = opened()
    embedded.add(*(unit(n) for n in range(200)))
    embedded.settle()
    off = opened(mode="off")
    off.store.start()
    embedded.assert_chroma_answers()
    embedded.close()
    off.store.start()
    off.store.rebuild()
    off.assert_answers()
    assert (off.store.state().mode, off.store.state().state, off.links) == ("off", "off", [])
    assert not off.directory.exists()


def test_vectors_of_another_embedder_keep_the_index_away(memory: Memory, opened: Open) -> None:
    """R1: every search says so; when the vectors are this embedder's, the index is made."""
    other = opened(embedder="another")
    other.store.start()
    until(lambda: other.store.state().state == "failed")
    assert "test-embedder is not another" in other.store.state().reason
    with pytest.raises(EmbedderMismatch):
        other.store.search(unit(1)[0], [SCOPE], 1)
    vectors = {(c.id, c.change): c.vectors for c in memory.records.changes(0, EMBEDDER) if c.vectors is not None}
    memory.records.add_vectors("another", vectors)
    assert memory.records.adopt_embedder("another")
    other.settle()
    assert other.store.state().records == 200


def test_it_ends_when_no_search_could_use_it_for_long_and_comes_back(tmp_path: Path) -> None:
    """L1.3: with a real process; nothing is lost of what was stored or asked meanwhile."""
    with quick_to_act():
        memory = Memory(tmp_path, idle_seconds=0.5)
        try:
            memory.add(*(unit(n) for n in range(200)))
            memory.settle()
            memory.assert_chroma_answers()
            first = psutil.Process(memory.process_id)
            until(lambda: memory.store.state().state == "not needed")
            assert told(memory) == "exact search over 200 vectors; the next search brings Chroma back"
            until(lambda: not first.is_running())
            memory.add(*(unit(n) for n in range(200, 250)))
            memory.store.erase(())  # Others may wake it; that is no search.
            assert len(memory.links) == 1
            memory.assert_answers()  # The one that brings it back is answered at once, exactly.
            until(lambda: memory.store.state().state == "ready")
            memory.assert_chroma_answers()
            assert len(memory.links) == 2
        finally:
            memory.close()


def test_searches_while_it_ends_and_comes_back_are_all_answered(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """L1.3: whoever answers, it is the truth, and an index that was closed under a search is not distrusted."""
    with quick_to_act():
        monkeypatch.setattr(sync_thread, "POLL_SECONDS", 0.002)
        memory = Memory(tmp_path, DirectLink, idle_seconds=0.002)
        try:
            memory.add(*(unit(n) for n in range(200)))
            memory.store.start()
            while not memory.store.settle(0.1):
                memory.assert_answers([0])  # One that ended before all was in it begins again once a search wants it.
            built = len(memory.links)
            number = 0
            while len(memory.links) < built + 5:
                memory.assert_answers([number])
                number += 1
                assert number < 100_000
            opened = [link for link in memory.links if isinstance(link, DirectLink)]
            assert not any("put" in link.calls for link in opened[built:])
        finally:
            memory.close()
