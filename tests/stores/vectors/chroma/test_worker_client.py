"""The index process where it is there but does nothing."""

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from mcp_memory.stores.vectors.chroma.location import IndexFailure
from mcp_memory.stores.vectors.chroma.worker_client import ChromaProcess

if sys.platform == "win32":
    pytest.skip("no process can be stopped there", allow_module_level=True)

MORE_THAN_A_PIPE_HOLDS = bytes(4_000_000)
PATIENCE_SECONDS = 30.0


class Noticed(Mapping[str, str]):
    """Fields that tell when they are being written."""

    def __init__(self) -> None:
        self.event = threading.Event()

    def __getitem__(self, name: str) -> str:
        return {"do": "names"}[name]

    def __iter__(self) -> Iterator[str]:
        self.event.set()
        return iter(("do",))

    def __len__(self) -> int:
        return 1


@pytest.fixture
def stopped(tmp_path: Path) -> Iterator[ChromaProcess]:
    process = ChromaProcess(tmp_path)
    os.kill(process.pid, signal.SIGSTOP)
    yield process
    process.close()


def test_a_message_that_nobody_takes_ends_at_its_deadline(stopped: ChromaProcess) -> None:
    """S2.2: and so does the process."""
    with pytest.raises(IndexFailure, match="has ended"):
        stopped.call({"do": "names"}, MORE_THAN_A_PIPE_HOLDS, seconds=0.1)


def test_closing_ends_a_write_that_nobody_takes(stopped: ChromaProcess, monkeypatch: pytest.MonkeyPatch) -> None:
    """S2.2: long before its own deadline."""
    monkeypatch.setattr("mcp_memory.stores.vectors.chroma.worker_client._LEAVING_SECONDS", 0.1)
    fields, failures = Noticed(), list[str]()

    def call() -> None:
        try:
            stopped.call(fields, MORE_THAN_A_PIPE_HOLDS, seconds=3600)
        except IndexFailure as failure:
            failures.append(str(failure))

    caller = threading.Thread(target=call, daemon=True)
    closer = threading.Thread(target=stopped.close, daemon=True)
    caller.start()
    assert fields.event.wait(PATIENCE_SECONDS)
    closer.start()
    for thread in (caller, closer):
        thread.join(PATIENCE_SECONDS)
        assert not thread.is_alive()
    assert failures == ["The index process has ended."]


def test_a_call_that_timed_out_is_forgotten(stopped: ChromaProcess, monkeypatch: pytest.MonkeyPatch) -> None:
    """S2.2: a process that never answers does not fill this one's memory."""
    monkeypatch.setattr("mcp_memory.stores.vectors.chroma.worker_client._LEAVING_SECONDS", 0.1)
    with pytest.raises(TimeoutError):
        stopped.call({"do": "names"}, seconds=0.01)
    assert not stopped._waiting  # noqa: SLF001 - nothing else shows it


def test_the_index_process_imports_neither_the_truth_nor_the_exact_search() -> None:
    """L2.2: it is a process of each memory that Chroma indexes, and each import is megabytes."""
    code = "import sys, mcp_memory.stores.vectors.chroma.worker\nprint(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    ours = {name for name in done.stdout.split() if name.startswith("mcp_memory.")}
    assert "mcp_memory.stores.vectors.chroma.open_index" in ours
    assert not {name for name in ours if name.startswith(("mcp_memory.domain", "mcp_memory.ports"))}
    assert not ours & {"mcp_memory.stores.vectors.exact", "mcp_memory.stores.follower"}
