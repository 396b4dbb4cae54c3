"""Many processes keep and erase the same files: none that a message names is lost, none that nothing names stays."""

import subprocess
import sys
from pathlib import Path

import pytest

from mcp_memory.app import open_app
from mcp_memory.settings import load_settings
from tests.forked import ForkedProcess

PROCESSES, ROUNDS = 3, 12

WORKER = """
import random, sys
from mcp_memory.app import open_app
from mcp_memory.domain.model.message_files import attached
from mcp_memory.domain.model.records import NewRecord
from mcp_memory.settings import load_settings

rng = random.Random(int(sys.argv[2]))
app = open_app(load_settings(data_dir=sys.argv[1], namespace="test", agent="ann"))
me = app.caller(f"session {sys.argv[2]}")
files = [attached("image", "image/png", bytes([number]) * 50_000) for number in range(4)]
for turn in range(int(sys.argv[3])):
    some = tuple(rng.sample(files, 2))
    text = "\\n".join([f"Turn {turn}:", *(file.mark for file in some)])
    app.feed([NewRecord(kind="message", role="user", text=text, files=some)], me)
    said = [entry.id for entry in app.logs.log(me).entries]
    app.forget(rng.sample(said, len(said) - 1), "erase", me)
    print(turn, flush=True)
app.close()
"""


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no SIGKILL")
def test_processes_that_keep_and_erase_the_same_files_lose_none(tmp_path: Path) -> None:
    """D11.1, R9, S1.1, S2.1: one of them is killed in the middle of it."""
    folder = tmp_path / "data"
    workers = [
        ForkedProcess(str(folder), str(seed), str(ROUNDS), code=WORKER, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        for seed in range(PROCESSES)
    ]
    assert workers[0].stdout is not None
    workers[0].stdout.readline()
    workers[0].kill()
    workers[0].communicate()
    for worker in workers[1:]:
        errors = worker.communicate(timeout=240)[1]
        assert (worker.returncode, b"Traceback" in errors) == (0, False), errors
    app = open_app(load_settings(data_dir=folder, namespace="test", agent="ann"))
    assert app.attachments.missing() == []
    app.attachments.sweep()
    assert app.attachments.unnamed() == frozenset()
    named = app.records.kept_files()
    assert {path.name for path in (folder / "files").iterdir()} == named.keys()
    assert 2 <= len(named) <= 4
    app.close()
