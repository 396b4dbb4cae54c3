"""Processes killed at any moment lose nothing that was acknowledged, and leave nothing to repair."""

import random
import re
import signal
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from benchmarks import durability, stdio
from mcp_memory.domain.model.scopes import RecordFilter
from mcp_memory.stores.follower import Follower
from mcp_memory.stores.keywords.store import InformationKeywordStore
from mcp_memory.stores.records import SqliteRecordStore
from tests.forked import ForkedProcess

WRITERS = 4

WRITER = """
import itertools, sys
from dataclasses import fields
from pathlib import Path
import numpy as np
from mcp_memory.domain.model.records import Counters, Entity, Record
from mcp_memory.stores.records import SqliteRecordStore

store = SqliteRecordStore(Path(sys.argv[1]), "kill-embedder")
nothing = {field.name: None for field in fields(Record)} | dict(
    scope="shared/test", namespace="test", visibility="shared", agent=sys.argv[2], session_id="s", kind="fact",
    text_tokens=1, summary_tokens=1, micro_tokens=1, importance=1.0, status="new", pinned=False, tags=(), details={},
    created_at=1.0, updated_at=1.0, accessed_at=1.0, occurred_at=1.0, counters=Counters(), client="", rewritten_by="",
    changed=0,
)
vector = np.ones((1, 384), np.float32) / np.float32(384**0.5)
for turn in itertools.count():
    word = f"{sys.argv[2]}x{turn}"
    with store.write() as transaction:
        ids = [transaction.next_id("r") for _ in range(2)]
        for record_id in ids:
            forms = dict(id=record_id, text=f"{word} " * 50, summary=word, micro=word)
            transaction.insert(Record(**(nothing | forms)), vector, [Entity(name=word)], ())
    print(word, *ids, flush=True)
"""


class Writer:
    """Stores pairs of records until it is killed, and says each pair only once it is acknowledged."""

    def __init__(self, folder: Path, name: str) -> None:
        self.process = ForkedProcess(str(folder), name, code=WRITER, stdout=subprocess.PIPE, text=True)
        self.acknowledged: dict[str, list[str]] = {}
        self._reader = threading.Thread(target=self._read)
        self._reader.start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            if line.endswith("\n"):
                word, *ids = line.split()
                self.acknowledged[word] = ids

    def kill(self) -> None:
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()
        self._reader.join()
        assert self.process.stdout is not None
        self.process.stdout.close()


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no SIGKILL")
def test_writers_killed_at_random_moments_lose_nothing(tmp_path: Path) -> None:
    """S2.1, R1: every acknowledged record is there, whole, and found; the next process opens and writes at once."""
    rng = random.Random(1)
    writers = [Writer(tmp_path, f"writer{number}") for number in range(WRITERS)]
    for writer in rng.sample(writers, WRITERS):
        while len(writer.acknowledged) < rng.randint(20, 120) and writer.process.poll() is None:
            time.sleep(0.001)
        writer.kill()
    store = SqliteRecordStore(tmp_path, "kill-embedder")
    keywords = InformationKeywordStore(Follower(store))
    where = RecordFilter(scopes=("shared/test",))
    vectors = {change.id for change in store.changes(0, "kill-embedder") if change.vectors is not None}
    for writer in writers:
        assert writer.acknowledged
        for word, ids in writer.acknowledged.items():
            records = store.get(ids, where.scopes)
            assert [record.text for record in records.values()] == [f"{word} " * 50] * 2
            assert keywords.search([word], where.scopes, 10).keys() == set(ids)
            assert vectors >= set(ids)
    everything = store.list(where, "created", 1_000_000)
    assert len(everything) == 2 * len({record.summary for record in everything})  # Pairs, or nothing of them.
    assert {record.id for record in everything} == vectors
    with store.write() as transaction:
        transaction.erase([everything[0].id])
    store.close()
    with sqlite3.connect(tmp_path / "memory.db") as connection:
        assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
    connection.close()


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no SIGKILL")
def test_servers_killed_while_they_write_lose_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """S1.1, S2.1, X6.2: the benchmark's rounds, small: real servers, wrong clocks, SIGSTOP, SIGKILL, a fresh server."""

    def forked(command: Sequence[str], **options: Any) -> ForkedProcess:
        _, option, program = command
        return ForkedProcess(code=program if option == "-c" else "", **options)

    monkeypatch.setattr(stdio, "start_program", forked)
    held = durability.run(tmp_path / "data", processes=2, stores=2, rounds=1, seed=3)
    printed = capsys.readouterr().out
    assert held, printed
    assert re.search(r"^lost +0$", printed, re.MULTILINE)
    assert re.search(r"^stopped for a while, and continued +[1-9]", printed, re.MULTILINE)
    assert re.search(r"^acknowledged, before a kill +[1-9]", printed, re.MULTILINE)
