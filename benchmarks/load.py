"""Many clients over HTTP, and processes over stdio beside them, on one memory: errors, losses, and what calls take.

    python -m benchmarks.load [--clients 16] [--calls 200] [--processes 4]

Every client has a token and an agent of its own; every other one speaks the newer era of the protocol. First one client
works alone, then all of them and the processes at once, with the same mix of calls. Ends with 1 where a call failed or
anything acknowledged is not found afterwards by a fresh process.

CPU a call is that of the server and all its processes, from the first call of a phase to the last, background work and
what it learns from other processes included. To compare numbers of clients, let all make as many calls together, with
no process beside them: `--clients 4 --calls 400 --processes 0` and `--clients 64 --calls 25 --processes 0`.
"""

import argparse
import http.client
import json
import os
import random
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any, BinaryIO, Protocol
from urllib.parse import urlsplit

import psutil
from rich.console import Console
from rich.table import Table

from benchmarks.durability import IDS_PER_CALL, NAMESPACE, environment, side_by_side, start_server

PATIENCE_SECONDS = 60.0
OLDER, NEWER = "2025-11-25", "2026-07-28"
INFO = {"name": "load", "version": "1"}
META = "io.modelcontextprotocol/"
MIX: Mapping[str, int] = {"remember": 8, "recall": 7, "assemble_context": 2, "push_task": 1, "pop_task": 1, "revise": 1}
"""How often each is called, of twenty."""


class Caller(Protocol):
    def call(self, tool: str, **arguments: object) -> dict[str, Any]:
        """The structured answer, {} where it is prose. Raises RuntimeError with the message of a failed call."""
        ...


class HttpClient:
    """The plainest client of a server over HTTP. One thread at a time."""

    def __init__(self, url: str, token: str, version: str) -> None:
        parts = urlsplit(url)
        assert parts.hostname is not None
        self._connection = http.client.HTTPConnection(parts.hostname, parts.port, timeout=PATIENCE_SECONDS)
        self._path = parts.path
        self._version = version
        self._number = 0
        self._headers = {
            "Authorization": f"Bearer {token}",
            "Content-Type": "application/json",
            "Accept": "application/json, text/event-stream",
            "MCP-Protocol-Version": version,
        }
        if version == OLDER:
            hello = {"protocolVersion": version, "capabilities": {}, "clientInfo": INFO}
            self._post("initialize", hello)
            self._post("notifications/initialized", None)

    def call(self, tool: str, **arguments: object) -> dict[str, Any]:
        """The structured answer, {} where it is prose. Raises RuntimeError with the message of a failed call."""
        return self.call_once("", tool, **arguments)

    def call_once(self, key: str, tool: str, **arguments: object) -> dict[str, Any]:
        """As `call`, for a call that is repeated under the same key where its answer was lost."""
        more = {"mcp-memory-call": key} if key else {}
        result = self._post("tools/call", {"name": tool, "arguments": arguments}, more)
        if result.get("isError"):
            raise RuntimeError(result["content"][0]["text"])
        return result.get("structuredContent", {})

    def close(self) -> None:
        self._connection.close()

    def _post(
        self, method: str, params: Mapping[str, Any] | None, more: Mapping[str, str] = MappingProxyType({})
    ) -> dict[str, Any]:
        headers = {**self._headers, **more}
        message: dict[str, Any] = {"jsonrpc": "2.0", "method": method}
        if params is not None:
            self._number += 1
            message |= {"id": self._number, "params": params}
        if self._version == NEWER and params is not None:
            headers |= {"Mcp-Method": method, "Mcp-Name": str(params["name"])}
            meta = {f"{META}protocolVersion": NEWER, f"{META}clientInfo": INFO, f"{META}clientCapabilities": {}}
            message["params"] = {**params, "_meta": meta}
        self._connection.request("POST", self._path, json.dumps(message), headers)
        response = self._connection.getresponse()
        body = response.read().decode()
        if session := response.getheader("Mcp-Session-Id"):
            self._headers["Mcp-Session-Id"] = session
        if response.status not in (200, 202):
            raise RuntimeError(f"{response.status}: {body[:200]}")
        return _result(body, self._number) if params is not None else {}


def _result(body: str, number: int) -> dict[str, Any]:
    """The answer to the request with that number, in JSON or in a stream of events."""
    lines = [line.removeprefix("data:") for line in body.splitlines() if line.startswith("data:")] or [body]
    for line in lines:
        answer: dict[str, Any] = json.loads(line) if line.strip() else {}
        if answer.get("id") == number:
            if "error" in answer:
                raise RuntimeError(answer["error"]["message"])
            return answer["result"]
    raise RuntimeError(f"no answer: {body[:200]}")


@dataclass
class Tally:
    """What was acknowledged, what failed, and the milliseconds of each call."""

    ids: list[str] = field(default_factory=list[str])
    errors: list[str] = field(default_factory=list[str])
    milliseconds: list[float] = field(default_factory=list[float])
    cpu_seconds: float | None = None
    """Of the server, for all calls; None where it is not measured."""
    lock: threading.Lock = field(default_factory=threading.Lock)

    def p95(self) -> float:
        return statistics.quantiles(self.milliseconds, n=20)[-1]

    def cpu_a_call(self) -> str:
        """Milliseconds of the server's processor for a call."""
        return "" if self.cpu_seconds is None else f"{1_000 * self.cpu_seconds / len(self.milliseconds):.2f}"


def work(caller: Caller, name: str, calls: int, seed: int, tally: Tally, *, counts: bool = True) -> None:
    """So many mixed calls, one after the other."""
    rng = random.Random(seed)
    tools = rng.choices(list(MIX), list(MIX.values()), k=calls)
    mine: list[str] = []
    depth = 0
    for number, drawn in enumerate(tools):
        has_no_object = (drawn == "pop_task" and depth == 0) or (drawn == "revise" and not mine)
        tool = "remember" if has_no_object else drawn
        started = time.perf_counter()
        try:
            answer = caller.call(tool, **_arguments(tool, name, number, mine, rng))
        except (RuntimeError, OSError, http.client.HTTPException) as error:
            with tally.lock:
                tally.errors.append(f"{tool}: {type(error).__name__}: {error}")
            continue
        if counts:
            with tally.lock:
                tally.milliseconds.append(1_000 * (time.perf_counter() - started))
        depth += (tool == "push_task") - (tool == "pop_task")
        if tool == "remember":
            mine.append(answer["records"][0]["id"])
    with tally.lock:
        tally.ids.extend(mine)


def _arguments(tool: str, name: str, number: int, mine: Sequence[str], rng: random.Random) -> dict[str, object]:
    if tool == "remember":
        return {"text": f"{name} learnt at step {number} that valve {rng.randrange(10_000)} opens at {number} bar."}
    if tool == "recall":
        return {"query": f"at which pressure does valve {rng.randrange(10_000)} open?", "limit": 5}
    if tool == "assemble_context":
        return {"query": f"what {name} knows of valves", "max_tokens": 1_000}
    if tool == "push_task":
        return {"goal": f"Check valve {number}"}
    if tool == "pop_task":
        return {"result": "Checked."}
    return {"id": rng.choice(mine), "feedback": "used"}


@contextmanager
def http_server(data_dir: Path, namespace: str = NAMESPACE) -> Generator[tuple[str, psutil.Process]]:
    """A server of its own on loopback: its address, and its process. What it logs is printed once it has ended."""
    command = [sys.executable, "-m", "mcp_memory", "serve", "--http", "--port", "0"]
    told = environment(data_dir, namespace)
    with tempfile.TemporaryFile("w+b") as log:  # A pipe that nobody reads would hold the server up once it is full.
        process = subprocess.Popen(command, stderr=log, stdin=subprocess.DEVNULL, env=told)
        try:
            yield _first_line(log, process).split()[-1], psutil.Process(process.pid)
        finally:
            process.terminate()
            process.wait(PATIENCE_SECONDS)
            log.seek(0)
            sys.stderr.write(b"".join(log.readlines()[1:]).decode(errors="replace"))


def _first_line(log: BinaryIO, process: subprocess.Popen[bytes]) -> str:
    """Return the line by which a server says where it listens. Raises RuntimeError, with its log, without one."""
    until = time.monotonic() + PATIENCE_SECONDS
    while process.poll() is None and time.monotonic() < until:
        line, is_whole, _ = os.pread(log.fileno(), 10_000, 0).partition(b"\n")
        if is_whole:
            return line.decode()
        time.sleep(0.01)
    said = os.pread(log.fileno(), 10_000, 0).decode(errors="replace")
    raise RuntimeError(f"The server did not say where it listens: {said}")


def make_token(data_dir: Path, agent: str) -> str:
    command = [sys.executable, "-m", "mcp_memory", "tokens", "add", agent, "--agent", agent, "--namespace", NAMESPACE]
    made = subprocess.run(
        [*command, "--right", "write", "--json"], env=environment(data_dir), capture_output=True, check=True
    )
    return json.loads(made.stdout)["secret"]


def count_missing(data_dir: Path, ids: Sequence[str]) -> int:
    """How many of the records a fresh process does not find."""
    fresh = start_server(data_dir, "fresh")
    try:
        batches = [ids[start : start + IDS_PER_CALL] for start in range(0, len(ids), IDS_PER_CALL)]
        found = {
            result["id"]
            for batch in batches
            for result in fresh.call("recall", ids=list(batch), detail="micro", max_tokens=100_000)["results"]
        }
    finally:
        fresh.close()
    return len(set(ids) - found)


@contextmanager
def measured(server: psutil.Process, tally: Tally) -> Generator[None]:
    """Note the processor time that the server takes meanwhile."""

    def taken() -> float:
        times = [each.cpu_times() for each in (server, *server.children(recursive=True))]
        return sum(each.user + each.system for each in times)

    before = taken()
    yield
    tally.cpu_seconds = taken() - before


def run(data_dir: Path, clients: int, calls: int, processes: int) -> bool:
    """True where nothing failed and nothing was lost; prints the table."""
    agents = [f"http{number}" for number in range(clients)]
    tokens = {agent: make_token(data_dir, agent) for agent in [*agents, "alone"]}
    alone, together, beside = Tally(), Tally(), Tally()
    with http_server(data_dir) as (url, server):

        def connected(agent: str, number: int) -> HttpClient:
            return HttpClient(url, tokens[agent], NEWER if number % 2 else OLDER)

        first = connected("alone", 1)
        work(first, "warm", 20, 0, alone, counts=False)
        began = time.perf_counter()
        with measured(server, alone):
            work(first, "alone", calls, 1, alone)
        alone_seconds = time.perf_counter() - began
        first.close()
        stdio = [start_server(data_dir, f"stdio{number}") for number in range(processes)]
        web = [connected(agent, number) for number, agent in enumerate(agents)]
        for number, client in enumerate(web):  # The agents' first calls load what only they need.
            work(client, agents[number], 1, 0, together, counts=False)
        started = time.perf_counter()
        with measured(server, together):
            side_by_side(
                [lambda n=n, c=c: work(c, agents[n], calls, 100 + n, together) for n, c in enumerate(web)]
                + [lambda n=n, s=s: work(s, f"stdio{n}", calls, 300 + n, beside) for n, s in enumerate(stdio)]
            )
        seconds = time.perf_counter() - started
        for each in [*web, *stdio]:
            each.close()
    done = [alone, together, beside]
    errors = [error for tally in done for error in tally.errors]
    missing = count_missing(data_dir, [each for tally in done for each in tally.ids])
    table = Table("what", "clients", "calls", "p50 ms", "p95 ms", "p95 to one client's", "CPU ms a call")
    for name, count, tally in (
        ("one client over HTTP", 1, alone),
        ("HTTP, all at once", clients, together),
        ("stdio, beside them", processes, beside),
    ):
        if not count:
            continue
        middle, high = statistics.median(tally.milliseconds), tally.p95()
        cells = (count, len(tally.milliseconds), f"{middle:.1f}", f"{high:.1f}", f"{high / alone.p95():.1f}")
        table.add_row(name, *(str(cell) for cell in cells), tally.cpu_a_call())
    Console(width=130).print(table)
    stored = sum(len(tally.ids) for tally in done)
    print(f"acknowledged {stored}, lost {missing}, errors {len(errors)}")
    rate, alone_rate = calls * (clients + processes) / seconds, calls / alone_seconds
    print(f"calls a second: all at once {rate:.0f}, one client {alone_rate:.0f}: {rate / alone_rate:.2f} x")
    for error in sorted(set(errors))[:10]:
        print("  ", error)
    return not errors and not missing


def main() -> None:
    parser = argparse.ArgumentParser(prog="benchmarks.load", description="Many clients on one memory.")
    parser.add_argument("--clients", type=int, default=16, help="over HTTP")
    parser.add_argument("--calls", type=int, default=200, help="by each client")
    parser.add_argument("--processes", type=int, default=4, help="over stdio, beside them")
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="load-") as folder:
        held = run(Path(folder), chosen.clients, chosen.calls, chosen.processes)
    sys.exit(0 if held else 1)


if __name__ == "__main__":
    main()
