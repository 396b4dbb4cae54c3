"""Chroma against the exact search: whatever happened to the truth, the index and the process, they agree."""

from __future__ import annotations

import itertools
import shutil
import tempfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import get_args

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mcp_memory.domain.model.records import Status
from mcp_memory.stores.follower import Follower
from mcp_memory.stores.vectors.exact import ExactVectorStore
from tests.chroma import EMBEDDER, DirectLink, Memory, mismatch, quick_to_act, unit

SCOPES = ("shared/here", "private/ann/here")
CHANGES = ("insert", "insert", "update", "retire", "restore", "move", "erase")
MISHAPS = ("kill", "kill the process", "reopen", "rebuild", "vanish", "garble")
Step = tuple[str, int]
STEPS = st.lists(
    st.tuples(st.sampled_from([*CHANGES, *CHANGES, *MISHAPS, "search", "settle"]), st.integers(0, 10_000)), max_size=25
)


class History:
    """A memory to which things happen."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.memory = self.opened()
        self.seeds = itertools.count(1_000)  # Equal vectors would be in any order.
        self.ids = self.memory.add(*(unit(seed, 1 + seed % 2) for seed in range(40)))

    def opened(self) -> Memory:
        memory = Memory(self.folder, DirectLink)
        memory.store.start()
        return memory

    def take(self, what: str, seed: int) -> None:
        if what in CHANGES:
            self.change(what, seed)
        elif what in ("search", "settle"):
            if what == "settle":
                self.memory.settle()
            self.assert_same(seed)
        else:
            self.befall(what, seed)

    def change(self, what: str, seed: int) -> None:
        scope = SCOPES[seed % 2]
        if what == "insert" or not self.ids:
            self.ids += self.memory.add(unit(next(self.seeds), 1 + seed % 3), scope=scope)
            return
        record_id = self.ids[seed % len(self.ids)]
        if what == "erase":
            self.ids.remove(record_id)
            self.memory.erase([record_id])
            return
        with self.memory.records.write() as transaction:
            record = transaction.get(record_id)
            assert record is not None
            if what == "move":
                transaction.update(replace(record, scope=scope))
            elif what == "update":
                transaction.update(record, unit(next(self.seeds), 1 + seed % 3))
            else:
                status: Status = "retired" if what == "retire" else "new"
                assert status in get_args(Status)
                transaction.update(replace(record, status=status))

    def befall(self, what: str, seed: int) -> None:
        links = [link for link in self.memory.links if isinstance(link, DirectLink)]
        if what == "kill":
            for link in links[-1:]:
                link.kill()
        elif what == "rebuild":
            self.memory.store.rebuild()
        elif what == "vanish":
            shutil.rmtree(self.memory.directory, ignore_errors=True)
        else:
            if what == "kill the process" and links:
                links[-1].kill()
            self.memory.close()
            if what == "garble":
                garble(self.memory.directory, seed)
            self.memory = self.opened()

    def assert_same(self, seed: int) -> None:
        query, limit = unit(100_000 + seed)[0], 1 + seed % 4
        exact = ExactVectorStore(Follower(self.memory.records), EMBEDDER, mismatch)
        for scopes in (SCOPES, SCOPES[:1]):
            wanted = exact.search(query, scopes, limit)
            found = self.memory.store.search(query, scopes, limit)
            assert found == pytest.approx(wanted, abs=1e-5)
            assert list(found) == list(wanted)


def garble(directory: Path, seed: int) -> None:
    """Overwrite the middle of one of the files."""
    files = sorted(path for path in directory.rglob("*") if path.is_file() and path.stat().st_size > 8)
    if files:
        victim = files[seed % len(files)]
        content = bytearray(victim.read_bytes())
        middle = len(content) // 2
        content[middle : middle + 4096] = b"\x55" * len(content[middle : middle + 4096])
        victim.write_bytes(content)


@settings(max_examples=10, deadline=None)
@given(steps=STEPS)
def test_after_any_history_chroma_answers_as_the_exact_search_does(steps: Sequence[Step]) -> None:
    """S2.1, S2.2, R9: stores, revisions, erasures, kills, damage, reopenings and rebuilds in any order."""
    with quick_to_act(), tempfile.TemporaryDirectory() as folder:
        history = History(Path(folder))
        try:
            for what, seed in steps:
                history.take(what, seed)
            history.ids += history.memory.add(*(unit(next(history.seeds)) for _ in range(20)), scope=SCOPES[0])
            history.memory.settle()
            before = history.memory.store.state().answered
            for seed in range(3):
                history.assert_same(seed)
            live = sum(len(history.memory.exact.live_ids(scope)) for scope in SCOPES)
            assert history.memory.store.check() == {}
            assert history.memory.store.state().records == live
            assert history.memory.store.state().answered > before, "The index had no part in it."
        finally:
            history.memory.close()
