"""What a fresh server and a hook cost by the size of their memory: CPU up to the first answer, and memory of its own.

    python -m benchmarks.footprint [--sizes 1000,10000] [--scopes 1,100] [--folder FOLDER]

A memory of one project, and one of the same size that a hundred projects share, is filled with made vectors. Then real
servers over stdio are started on it, as after an import: nothing is kept for them but the truth. Memory is what the
processes of a server, with its children, have written for themselves, once it is at rest: pages of files that they only
read are the system's cache. For one window and for four, which share the first one's server, there is the sum of their
shares of all pages (PSS); *next window* and *next's* are CPU and memory of the three that are served. In a warm server
a context without a query is timed, as at a session's start. CPU holds on a busy machine. 100,000 records take about ten
minutes; with FOLDER the memories are kept for the next run.
"""

import argparse
import hashlib
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, closing
from pathlib import Path

import numpy as np
import psutil
from rich.console import Console
from rich.table import Table

from benchmarks.hooks import add_turn, ended, running_server
from benchmarks.speed import INITIALIZE, RECALL, ask, server
from benchmarks.texts import sentences
from mcp_memory.app import open_app
from mcp_memory.bridge.door import owner_of
from mcp_memory.domain.model.records import NewRecord
from mcp_memory.domain.retrieval.queries import Vector
from mcp_memory.encoders.embed_minilm import MiniLMEmbedder
from mcp_memory.settings import load_settings

BATCH, SERVERS, CONTEXTS = 500, 4, 5
REST_SECONDS = 8.0  # A server loads the rest three seconds after the first answer.
COMMAND = [sys.executable, "-m", "mcp_memory"]


class MadeVectors(MiniLMEmbedder):
    """Says that it is the real embedder, and makes vectors of texts by their digests: a hundred times as fast."""

    def load(self) -> None:
        pass

    def embed(self, text: str) -> Vector:
        seed = int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big")
        made = np.random.default_rng(seed).standard_normal(self.dimensions).astype(np.float32)
        return (made / np.float32(np.linalg.norm(made))).reshape(1, -1)

    def embed_many(self, texts: Sequence[str]) -> list[Vector]:
        return [self.embed(text) for text in texts]


def main() -> None:
    """Measure every size and number of projects, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--sizes", default="1000,10000", help="records, comma-separated")
    parser.add_argument("--scopes", default="1,100", help="projects that share them, comma-separated")
    parser.add_argument("--folder", type=Path, help="keep the memories there")
    arguments = parser.parse_args()
    figures = (
        "first recall", "next window", "prompt hook", "hook, served", "start's context", "private", "next's",
        "1 window", "4 windows",
    )  # fmt: skip
    table = Table("records", "projects", *figures)
    with tempfile.TemporaryDirectory() as temporary:
        for size in map(int, arguments.sizes.split(",")):
            for scopes in map(int, arguments.scopes.split(",")):
                folder = (arguments.folder or Path(temporary)) / f"{size}-{scopes}"
                if not folder.exists():
                    fill(folder, size, scopes)
                table.add_row(f"{size:,}", str(scopes), *measured(folder).values())
    Console(width=130).print(table)


def fill(folder: Path, size: int, scopes: int) -> None:
    """Store the records, the first project's first."""
    texts = sentences(size, seed=7)
    share = -(-size // scopes)
    for number in range(scopes):
        namespace = f"project{number}" if number else "benchmark"
        settings = load_settings(data_dir=folder, namespace=namespace, semantic_store="exact")
        with closing(open_app(settings, embedder=MadeVectors())) as app:
            mine = texts[number * share : (number + 1) * share]
            for begin in range(0, len(mine), BATCH):
                items = [NewRecord(text=text) for text in mine[begin : begin + BATCH]]
                app.remember(items, app.caller(), advise=False)


def measured(folder: Path) -> Mapping[str, str]:
    """The figures of a memory; CPU in milliseconds, memory in MiB."""
    transcript = folder.with_suffix(".jsonl")
    add_turn(transcript, "first")
    firsts, privates, ones, hooks = list[float](), list[float](), list[float](), list[float]()
    for number in range(4):  # The first brings files into the system's cache.
        with server(COMMAND, folder) as process:
            ask(process, INITIALIZE)
            ask(process, RECALL)
            tree = tree_of(process.pid)
            firsts.append(sum(times.user + times.system for times in (each.cpu_times() for each in tree)))
            time.sleep(REST_SECONDS)
            ones.append(shares_of(process))
            privates.append(written_mib(process.pid))
        hooks.append(ended("UserPromptSubmit", folder, transcript, f"alone{number}")[2])
    with running_server(folder):
        served = [ended("UserPromptSubmit", folder, transcript, f"served{number}")[2] for number in range(3)]
    with ExitStack() as stack:
        processes = [stack.enter_context(server(COMMAND, folder)) for _ in range(SERVERS)]
        for process in processes:
            ask(process, INITIALIZE)
            ask(process, RECALL)
        time.sleep(REST_SECONDS)
        windows = [psutil.Process(process.pid) for process in processes]
        nexts = [times.user + times.system for times in (each.cpu_times() for each in windows[1:])]
        lightest = min(written_mib_of([each]) for each in windows)
        shares = shares_of(processes[0]) + sum(each.memory_full_info().pss for each in windows[1:]) / 2**20
        starts = [context_cpu(processes[0], 1_500 + number) for number in range(CONTEXTS)]
    return {
        "first recall": f"{1_000 * statistics.median(firsts[1:]):.0f} ms",
        "next": f"{1_000 * statistics.median(nexts):.0f} ms",
        "prompt hook": f"{1_000 * statistics.median(hooks[1:]):.0f} ms",
        "served": f"{1_000 * statistics.median(served):.0f} ms",
        "start": f"{1_000 * statistics.median(starts[1:]):.0f} ms",
        "private": f"{statistics.median(privates[1:]):.0f} MiB",
        "own": f"{lightest:.0f} MiB",
        "one": f"{statistics.median(ones[1:]):.0f} MiB",
        "shares": f"{shares:.0f} MiB",
    }


def tree_of(pid: int) -> list[psutil.Process]:
    """The process, its children, and the one that owns the memory for it, with its children."""
    process = psutil.Process(pid)
    owner = owner_for(process)
    return [each for one in (process, *owner) for each in (one, *one.children(recursive=True))]


def owner_for(process: psutil.Process) -> list[psutil.Process]:
    """The process that owns the memory of this window; none for a server of others."""
    data_dir = process.environ().get("MCP_MEMORY_DATA_DIR")
    return owner_over(data_dir) if data_dir else []


def owner_over(data_dir: str) -> list[psutil.Process]:
    """The process that owns the memory in this directory; none where nobody does."""
    owner = owner_of(data_dir)
    return [psutil.Process(int(str(owner["pid"])))] if owner else []


def written_mib(pid: int) -> float:
    """What the process, its children and its memory's owner have written for themselves, in MiB."""
    return written_mib_of(tree_of(pid))


def written_mib_of(processes: Sequence[psutil.Process]) -> float:
    """What these processes have written for themselves, in MiB."""
    maps = [mapped for each in processes for mapped in each.memory_maps()]
    return sum(mapped.private_dirty for mapped in maps) / 2**20


def shares_of(process: subprocess.Popen[bytes]) -> float:
    """The parts that the process, its children and its memory's owner have of the pages they use, in MiB."""
    return sum(each.memory_full_info().pss for each in tree_of(process.pid)) / 2**20


def context_cpu(process: subprocess.Popen[bytes], tokens: int) -> float:
    """The CPU seconds of a context without a query; another budget each time, so that none is answered from before."""
    before = worked(process.pid)
    call = {"name": "assemble_context", "arguments": {"max_tokens": tokens}}
    ask(process, {"jsonrpc": "2.0", "id": tokens, "method": "tools/call", "params": call})
    return worked(process.pid) - before


def worked(pid: int) -> float:
    """The CPU seconds of the process, its children and its memory's owner."""
    return sum(sum(each.cpu_times()[:2]) for each in tree_of(pid))


if __name__ == "__main__":
    main()
