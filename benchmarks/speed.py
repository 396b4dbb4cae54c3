"""How long the main things take, as ratios within one run: start, store, recall; and memory.

    python -m benchmarks.speed [--records 10000] [--starts 10]

Prints one table. Ratios are between medians measured side by side; absolute times are of this machine and moment only.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import NamedTuple

import psutil
from rich.console import Console
from rich.table import Table

from benchmarks.texts import sentences
from mcp_memory.app import App, open_app
from mcp_memory.domain.model.records import NewRecord
from mcp_memory.encoders.embed_minilm import MiniLMEmbedder
from mcp_memory.services.retrieval.recall import RecallRequest
from mcp_memory.settings import load_settings

EMPTY_SERVER = "from mcp.server import MCPServer; MCPServer('empty').run('stdio')"
INITIALIZE = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {
        "protocolVersion": "2025-11-25",
        "capabilities": {},
        "clientInfo": {"name": "benchmark", "version": "1"},
    },
}
RECALL = {
    "jsonrpc": "2.0",
    "id": 2,
    "method": "tools/call",
    "params": {"name": "recall", "arguments": {"query": "who moved the billing job?"}},
}
LIST_TOOLS = {"jsonrpc": "2.0", "id": 3, "method": "tools/list"}
BATCH = 500


def main() -> None:
    """Run every measurement and print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--records", type=int, default=10_000, help="size of the large store")
    parser.add_argument("--starts", type=int, default=10, help="how often each server is started")
    arguments = parser.parse_args()
    table = Table("what", "measured", "beside", "ratio or bound")
    with tempfile.TemporaryDirectory() as folder:
        measure_start(table, Path(folder) / "start", arguments.starts)
        measure_services(table, Path(folder) / "services", arguments.records)
    Console(width=130).print(table)


def measure_start(table: Table, data_dir: Path, starts: int) -> None:
    """Spawn to the answer of `initialize`, and of `tools/list`, beside an empty server of the SDK; all in turn."""
    commands = ([sys.executable, "-m", "mcp_memory"], [sys.executable, "-c", EMPTY_SERVER])
    for requests, bound in (((INITIALIZE,), "(<= 1.25)"), ((INITIALIZE, LIST_TOOLS), "")):
        taken: tuple[list[Start], list[Start]] = ([], [])
        for _ in range(starts + 1):
            for command, starts_of in zip(commands, taken, strict=True):
                starts_of.append(start_of(command, data_dir, requests))
        mine, theirs = (
            Start(*(statistics.median(figures) for figures in zip(*starts_of[1:], strict=True))) for starts_of in taken
        )
        what = f"spawn to {requests[-1]['method']} answered"
        beside = f"empty MCPServer {ms(theirs.wall)}, {ms(theirs.processor)}, {theirs.mib:.0f} MiB"
        table.add_row(
            f"{what}: wall, processor, memory",
            f"{ms(mine.wall)}, {ms(mine.processor)}, {mine.mib:.0f} MiB",
            beside,
            f"processor {mine.processor / theirs.processor:.2f} x {bound}",
        )


def measure_services(table: Table, data_dir: Path, size: int) -> None:
    """Store and recall at the service level, in one process."""
    embedder = MiniLMEmbedder()
    app = open_app(load_settings(data_dir=data_dir, namespace="benchmark"), embedder=embedder)
    app.warm()
    table.add_row("server after initialize, empty store", memory_of_server(data_dir, calls=0), "", "")
    table.add_row("server after a recall, empty store", memory_of_server(data_dir, calls=1), "", "")
    texts = sentences(size + 1_200, seed=7)
    measure_store(table, app, embedder, texts[:400])
    small = median_seconds(lambda query: app.recall(RecallRequest(query=query), app.caller()), texts[400:500])
    rest = texts[500 : size + 100]
    for begin in range(0, len(rest), BATCH):
        app.remember([NewRecord(text=text) for text in rest[begin : begin + BATCH]], app.caller())
    table.add_row(f"server after a recall, {size:,} records", memory_of_server(data_dir, calls=1), "", "")
    alone = median_seconds(embedder.embed_query, texts[-100:])
    large = median_seconds(lambda query: app.recall(RecallRequest(query=query), app.caller()), texts[-100:])
    table.add_row(f"recall at {size:,}", ms(large), f"embedding its query {ms(alone)}", f"{large / alone:.2f} x")
    table.add_row(f"recall at {size:,}", ms(large), f"at 400 {ms(small)}", f"{large / small:.2f} x")
    app.close()


def measure_store(table: Table, app: App, embedder: MiniLMEmbedder, texts: Sequence[str]) -> None:
    """An acknowledged store beside embedding its text, in turn."""
    caller = app.caller()
    stored: list[float] = []
    embedded: list[float] = []
    for text in texts:
        embedded.append(seconds(partial(embedder.embed, text)))
        stored.append(seconds(partial(app.remember, [NewRecord(text=text)], caller)))
    mine, alone = statistics.median(stored), statistics.median(embedded)
    table.add_row("acknowledged store", ms(mine), f"embedding its text {ms(alone)}", f"{mine / alone:.2f} x (<= 3)")


class Start(NamedTuple):
    """The cost of a server's start: seconds by the clock and of the processor, and resident memory."""

    wall: float
    processor: float
    mib: float


def start_of(command: list[str], data_dir: Path, requests: Sequence[Mapping[str, object]]) -> Start:
    """Start a server, wait for the answer of each request, and end it."""
    begin = time.perf_counter()
    with server(command, data_dir) as process:
        for request in requests:
            ask(process, request)
        wall, figures = time.perf_counter() - begin, psutil.Process(process.pid)
        times = figures.cpu_times()
        return Start(wall, times.user + times.system, figures.memory_info().rss / 2**20)


def memory_of_server(data_dir: Path, calls: int) -> str:
    """Resident memory of a fresh server on this store after that many recalls."""
    with server([sys.executable, "-m", "mcp_memory"], data_dir) as process:
        ask(process, INITIALIZE)
        for _ in range(calls):
            ask(process, RECALL)
        return f"{psutil.Process(process.pid).memory_info().rss / 2**20:.0f} MiB"


@contextmanager
def server(command: list[str], data_dir: Path) -> Generator[subprocess.Popen[bytes]]:
    """A server process over stdio, ended by closing its input."""
    settings = {"DATA_DIR": str(data_dir), "NAMESPACE": "benchmark", "IDLE_MINUTES": "0"}
    environment = os.environ | {f"MCP_MEMORY_{name}": value for name, value in settings.items()}
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=environment
    ) as process:
        yield process
        assert process.stdin
        process.stdin.close()
        process.wait(10)


def ask(process: subprocess.Popen[bytes], request: Mapping[str, object]) -> None:
    """Send a request and wait for its answer."""
    assert process.stdin
    assert process.stdout
    process.stdin.write(json.dumps(request).encode() + b"\n")
    process.stdin.flush()
    answer = json.loads(process.stdout.readline())
    assert "result" in answer, answer


def median_seconds(call: Callable[[str], object], texts: Sequence[str]) -> float:
    return statistics.median(seconds(partial(call, text)) for text in texts)


def seconds(call: Callable[[], object]) -> float:
    begin = time.perf_counter()
    call()
    return time.perf_counter() - begin


def ms(value: float) -> str:
    return f"{value * 1000:.1f} ms"


if __name__ == "__main__":
    main()
