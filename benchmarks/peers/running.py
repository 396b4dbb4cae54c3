"""A measured server as a process: it has a home of its own and no network, is called, and ends with its children."""

import json
import os
import re
import socket
import statistics
import subprocess
import time
from collections.abc import Generator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from threading import Timer

import psutil

from benchmarks.footprint import tree_of
from benchmarks.peers.servers import Call, Peer
from benchmarks.stdio import Client, ServerGone

PATIENCE_SECONDS, ENDING_SECONDS, HUB_SECONDS = 120.0, 5.0, 30.0
KEPT = ("PATH", "LANG", "OPENBLAS_CORETYPE", "OPENBLAS_L2_SIZE")
NO_NETWORK = dict.fromkeys(("HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "https_proxy"), "http://127.0.0.1:9")
"""A port on which nobody listens: a download fails at once."""
OWN_NETWORK = dict.fromkeys(("NO_PROXY", "no_proxy"), "127.0.0.1,localhost")
REFUSALS = re.compile(r'\s*((# )?(Error|Failed)\b|\{\s*"(success": false|error": "))')
"""How peers say no in an answer that is not marked as an error: "Error storing memory: …", {"success": false, …}."""
FAILURES = (ServerGone, RuntimeError, OSError, ValueError, subprocess.CalledProcessError, psutil.Error)
REFUSED = (RuntimeError, ValueError)
"""Of one call: the server goes on."""


@dataclass
class Run:
    """A server that takes part: where it is installed, where it lives, and why it no longer takes part, if so."""

    peer: Peer
    folder: Path
    home: Path
    failure: str = ""
    port: int = 0

    @contextmanager
    def attempt(self) -> Generator[None]:
        """Where what is done fails, keep the first line that says why, and go on without this server."""
        try:
            yield
        except FAILURES as error:
            logs = sorted(self.home.rglob("stderr"), key=lambda log: log.stat().st_mtime)
            gone = logs[-1].read_text() if logs and isinstance(error, ServerGone) else ""
            told = getattr(error, "stderr", "") or gone or str(error)
            self.failure = first_error(told) or type(error).__name__

    def command(self, parts: Sequence[str]) -> list[str]:
        program, *arguments = (part.format(home=self.home, port=self.port) for part in parts)
        return [str(self.folder / self.peer.binaries / program), *arguments]  # An absolute program stays as it is.

    def environment(self) -> dict[str, str]:
        own = {name: value.format(home=self.home) for name, value in self.peer.environment.items()}
        kept = {name: os.environ[name] for name in KEPT if name in os.environ}
        return {**kept, **NO_NETWORK, **OWN_NETWORK, "HOME": str(self.home), "TMPDIR": str(self.home), **own}

    @contextmanager
    def running(self, *, shared: bool = False) -> Generator[Client]:
        """A process of the server that has shaken hands; afterwards it is ended, with all that it started."""
        command = self.peer.shared_command if shared and self.peer.shared_command else self.peer.command
        client = Client(self.command(command), self.environment(), self.home, self.home / "stderr")
        try:
            with patience(client):
                client.initialize()
            yield client
        finally:
            tree = processes(client.pid)
            client.end(ENDING_SECONDS)
            kill(tree)

    @contextmanager
    def hub(self) -> Generator[None]:
        """The process beside which clients share the memory, where the server needs one."""
        if not self.peer.hub:
            yield
            return
        with socket.create_server(("127.0.0.1", 0)) as free:
            self.port = free.getsockname()[1]
        with (self.home / "hub").open("ab") as log:
            command = self.command(self.peer.hub)
            process = subprocess.Popen(command, env=self.environment(), cwd=self.home, stdout=log, stderr=log)
        try:
            answers(self.port)
            yield
        finally:
            kill(processes(process.pid))
            process.wait()


def answers(port: int) -> None:
    """Wait until somebody listens there. Raises OSError where nobody does in time."""
    until = time.monotonic() + HUB_SECONDS
    while True:
        try:
            socket.create_connection(("127.0.0.1", port), 1).close()
            return
        except OSError:
            if time.monotonic() > until:
                raise
            time.sleep(0.1)


def processes(pid: int) -> list[psutil.Process]:
    """It and all below it, none where it is gone."""
    with suppress(psutil.NoSuchProcess):
        return tree_of(pid)
    return []


def kill(tree: Sequence[psutil.Process]) -> None:
    for each in tree:
        with suppress(psutil.NoSuchProcess):
            each.kill()


@contextmanager
def patience(client: Client) -> Generator[None]:
    """End a server that does not answer for too long."""
    timer = Timer(PATIENCE_SECONDS, client.kill)
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


def answer(client: Client, call: Call) -> str:
    """What a tool answers, as text. Raises RuntimeError where it refuses."""
    tool, arguments = call
    with patience(client):
        result = client.request("tools/call", {"name": tool, "arguments": arguments})
    text = "\n".join(str(each.get("text", "")) for each in result["content"])
    if result.get("isError") or REFUSALS.match(text):
        raise RuntimeError(text)
    return text


def timed(client: Client, calls: Sequence[Call]) -> tuple[float, float, list[str]]:
    """The median milliseconds of a call by the clock, those of the processor for each, and what was answered."""
    walls, told, before = list[float](), list[str](), cpu_seconds(client.pid)
    for call in calls:
        begin = time.perf_counter()
        told.append(answer(client, call))
        walls.append(1_000 * (time.perf_counter() - begin))
    return statistics.median(walls), 1_000 * (cpu_seconds(client.pid) - before) / len(calls), told


def cpu_seconds(pid: int) -> float:
    """Of a process and all below it, those that have ended too."""
    total = 0.0
    for each in tree_of(pid):
        with suppress(psutil.NoSuchProcess, OSError):
            times = each.cpu_times()  # In steps of 10 ms, too coarse for a call; the process's own clock is not.
            total += time.clock_gettime((~each.pid << 3) | 2) + times.children_user + times.children_system
    return total


def first_error(told: str) -> str:
    """The first line that names an exception ("ValueError: …"), or else the first line."""
    lines = [line.strip() for line in told.splitlines() if line.strip()]
    return next((line for line in lines if re.match(r"[\w.]*Error\b", line)), lines[0] if lines else "")[:200]


def unescaped(text: str) -> str:
    r"""Without the escapes that JSON and Python write into a text: `\n` is a blank, `\u00e9` its letter."""
    text = re.sub(r"\\u([0-9a-fA-F]{4})", lambda found: json.loads(f'"{found[0]}"'), text)
    return re.sub(r"\\(.)", r"\1", re.sub(r"\\+[nrt]", " ", text))


def words(text: str) -> str:
    """Without punctuation and escapes, which every server writes in its own way."""
    words: list[str] = re.findall(r"\w+", unescaped(text))
    return " ".join(words)


def holds(told: str, text: str) -> bool:
    return f" {words(text)} " in f" {words(told)} "
