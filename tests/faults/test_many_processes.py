"""Many processes on one memory at once, each with the real embedder."""

import json
import subprocess
from pathlib import Path

import pytest

from tests.forked import ForkedProcess

WORKER = """
import json, sys
from mcp_memory.app import open_app
from mcp_memory.domain.model.records import NewRecord
from mcp_memory.services.retrieval.recall import RecallRequest
from mcp_memory.settings import load_settings

folder, name, stores = sys.argv[1], sys.argv[2], int(sys.argv[3])
app = open_app(load_settings(data_dir=folder, namespace="test", agent=name))
me = app.caller()

def found(query):
    return [result["id"] for result in app.recall(RecallRequest(query=query, limit=5), me).results]

acknowledged = {}
for turn in range(stores):
    word = f"{name}x{turn}"
    (stored,) = app.remember([NewRecord(text=f"Note {word} about the weather in the mountains")], me)
    acknowledged[stored.id] = word
    assert stored.status == "stored", stored
    assert stored.id in found(word)
print(json.dumps(acknowledged), flush=True)
everyone = json.loads(sys.stdin.readline())
opened = set()
for start in range(0, len(everyone), 10):
    batch = tuple(everyone)[start:start + 10]
    opened |= {r["id"] for r in app.recall(RecallRequest(ids=batch, max_tokens=10_000), me).results}
print(json.dumps({
    "not opened": sorted(set(everyone) - opened),
    "not found by keyword": [word for record_id, word in everyone.items() if record_id not in found(word)],
}), flush=True)
app.close()
"""


def start(folder: Path, name: str, stores: int) -> "subprocess.Popen[str]":
    arguments = (str(folder), name, str(stores))
    pipes = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
    return ForkedProcess(*arguments, code=WORKER, **pipes, text=True)


def line_of(process: "subprocess.Popen[str]") -> str:
    assert process.stdout is not None
    line = process.stdout.readline()
    assert line, process.communicate()[1]
    return line


@pytest.mark.parametrize(("processes", "stores"), [(3, 3), pytest.param(8, 6, marks=pytest.mark.rounds)])
def test_what_many_processes_store_at_once_each_of_them_and_a_fresh_one_finds(
    tmp_path: Path, processes: int, stores: int
) -> None:
    """S1.1, S1.2, R1: no write is lost, no call fails, whoever asks."""
    workers = [start(tmp_path / "data", f"agent{number}", stores) for number in range(processes)]
    acknowledged: dict[str, str] = {}
    for worker in workers:
        acknowledged.update(json.loads(line_of(worker)))
    assert len(acknowledged) == processes * stores
    workers.append(start(tmp_path / "data", "fresh", 0))
    assert json.loads(line_of(workers[-1])) == {}
    for worker in workers:
        answer, errors = worker.communicate(json.dumps(acknowledged) + "\n")
        assert json.loads(answer) == {"not opened": [], "not found by keyword": []}
        assert worker.returncode == 0, errors
