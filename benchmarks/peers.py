"""Other memory servers beside this one, in one run over stdio: first search of a fresh process, memory, store, search.

    python -m benchmarks.peers --peers-dir DIR [--only NAME …] [--records 100] [--rounds 5] [--python PYTHON]

Each peer is installed as its package index gives it today, into a folder of its own under DIR, and runs with a home
folder of its own and no way out to the network. Every server gets the same texts, one a call, and the same queries:
four words of a stored text, which any kind of search can find. Servers take turns, so ratios hold on a busy machine.

Private memory (USS) counts the pages of libraries that no other process uses at the moment; what a server has written
for itself does not depend on others.

What a peer embeds with, since no model can be downloaded:
- mempalace, chroma-mcp, mcp-memory-service with ONNX: all-MiniLM-L6-v2 in this project's 8-bit weights, put where they
  keep their download. They would download float32 weights, which take two to four times as long (docs/model.md).
- mcp-memory-service, installed plainly: its hash fallback, which knows no meaning.
- server-memory, mcp-memory-libsql: none; they look for the query in the text, letter by letter.
- mcp-server-qdrant: a model from a hub, and nothing else. Without one it does not start.

mcp-memory-service needs a Python whose SQLite loads extensions: give it with --python, all peers then run in it.
"""

import argparse
import os
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Generator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from threading import Timer

import psutil
from rich.console import Console
from rich.table import Table

from benchmarks.footprint import REST_SECONDS, tree_of, written_mib
from benchmarks.peer_servers import OURS, PEERS, Call, Peer, install, reshape_model, version
from benchmarks.stdio import Client, ServerGone
from benchmarks.texts import memories

PATIENCE_SECONDS, ENDING_SECONDS = 120.0, 5.0
QUERIES, CHUNK = 21, 10
KEPT = ("PATH", "LANG", "OPENBLAS_CORETYPE", "OPENBLAS_L2_SIZE")
NO_NETWORK = dict.fromkeys(("HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "https_proxy"), "http://127.0.0.1:9")
"""A port on which nobody listens: a download fails at once."""
REFUSALS = re.compile(r'^(Error|Failed)|"success": false|"error": "')
"""How peers say no in an answer that is not marked as an error: "Error storing memory: …", {"success": false, …}."""
FAILURES = (ServerGone, RuntimeError, OSError, ValueError, subprocess.CalledProcessError, psutil.Error)


@dataclass
class Run:
    """A server that takes part: where it lives, what was measured, and why it no longer takes part, if so."""

    peer: Peer
    folder: Path
    home: Path
    failure: str = ""
    found: int = 0
    asked: int = 0
    figures: dict[str, list[float]] = field(default_factory=dict[str, list[float]])

    def note(self, **measured: float) -> None:
        for name, value in measured.items():
            self.figures.setdefault(name, []).append(value)

    @contextmanager
    def attempt(self) -> Generator[None]:
        """Where what is done fails, keep the first line that says why, and go on without this server."""
        try:
            yield
        except FAILURES as error:
            log = self.home / "stderr"
            told = getattr(error, "stderr", "") or (
                str(error) if not isinstance(error, ServerGone) else log.read_text()
            )
            self.failure = first_error(told) or type(error).__name__

    @contextmanager
    def running(self) -> Generator[Client]:
        """A process of the server that has shaken hands; afterwards it is ended, with all that it started."""
        own = {name: value.format(home=self.home) for name, value in self.peer.environment.items()}
        kept = {name: os.environ[name] for name in KEPT if name in os.environ}
        program, *arguments = (part.format(home=self.home) for part in self.peer.command)
        command = [str(self.folder / self.peer.binaries / program), *arguments]  # An absolute program stays as it is.
        environment = {**kept, **NO_NETWORK, "HOME": str(self.home), "TMPDIR": str(self.home), **own}
        client = Client(command, environment, self.home, self.home / "stderr")
        try:
            with patience(client):
                client.initialize()
            yield client
        finally:
            tree: list[psutil.Process] = []
            with suppress(psutil.NoSuchProcess):
                tree = tree_of(client.pid)
            client.end(ENDING_SECONDS)
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
    text: str = "\n".join(each.get("text", "") for each in result["content"])
    if result.get("isError") or REFUSALS.search(text):
        raise RuntimeError(text)
    return text


def timed(client: Client, calls: Sequence[Call]) -> tuple[float, float, list[str]]:
    """The median milliseconds of a call by the clock, those of the processor for each, and what was answered."""
    walls, answers, before = list[float](), list[str](), cpu_seconds(client.pid)
    for call in calls:
        begin = time.perf_counter()
        answers.append(answer(client, call))
        walls.append(1_000 * (time.perf_counter() - begin))
    return statistics.median(walls), 1_000 * (cpu_seconds(client.pid) - before) / len(calls), answers


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


def fill(runs: Sequence[Run], texts: Sequence[str]) -> None:
    """Store every text in every server, some at a time in turn. The median passes over the first ones, which load."""
    with ExitStack() as stack:
        clients: dict[str, Client] = {}
        for run in runs:
            with run.attempt():
                client = stack.enter_context(run.running())
                for call in run.peer.prepare:
                    answer(client, call)
                clients[run.peer.name] = client
        for begin in range(0, len(texts), CHUNK):
            for run in runs:
                if not run.failure:
                    numbered = enumerate(texts[begin : begin + CHUNK], begin)
                    with run.attempt():
                        calls = [run.peer.store(number, text) for number, text in numbered]
                        wall, cpu, _ = timed(clients[run.peer.name], calls)
                        run.note(store=wall, store_cpu=cpu)


def search(run: Run, wanted: Mapping[str, str]) -> None:
    """Start a fresh process, ask once, let it come to rest, look at its memory, and ask the rest."""
    first, *rest = (run.peer.search(query) for query in wanted)
    begin = time.perf_counter()
    with run.running() as client:
        answer(client, first)
        run.note(first=time.perf_counter() - begin, first_cpu=cpu_seconds(client.pid))
        time.sleep(REST_SECONDS)
        private = sum(each.memory_full_info().uss for each in tree_of(client.pid)) / 2**20
        run.note(private=private, written=written_mib(client.pid))
        wall, cpu, answers = timed(client, rest)
        run.note(search=wall, search_cpu=cpu)
    texts = list(wanted.values())[1:]
    run.asked = len(texts)
    run.found = sum(words(text) in words(told) for text, told in zip(texts, answers, strict=True))


def words(text: str) -> str:
    """Without punctuation and escapes, which every server writes in its own way."""
    found: list[str] = re.findall(r"\w+", re.sub(r"\\+[nt]?", " ", text))
    return " ".join(found)


def queries(texts: Sequence[str]) -> Mapping[str, str]:
    """Four words from the middle of some texts, evenly spread, and the text that each was taken from."""
    made = {" ".join(parts[len(parts) // 2 - 2 :][:4]): text for text in texts if (parts := text.split())}
    every = max(1, len(made) // QUERIES)
    return dict(list(made.items())[::every][:QUERIES])


def shown(runs: Sequence[Run]) -> Table:
    """Medians, each with its multiple of ours."""
    units = {"first": "s", "first_cpu": "s", "private": "MiB", "written": "MiB"}
    names = ("first", "first_cpu", "private", "written", "store", "store_cpu", "search", "search_cpu")
    table = Table("server", "embeds with", *(name.replace("_cpu", ", CPU") for name in names), "found")
    for run in runs:
        if run.failure:
            continue
        cells = list[str]()
        for name in names:
            value, ours = (statistics.median(each.figures[name]) for each in (run, runs[0]))
            digits = {"s": 2, "MiB": 0}.get(units.get(name, ""), 1)
            cells.append(f"{value:,.{digits}f} {units.get(name, 'ms')}\n{value / ours:.2f} x")
        label = f"{run.peer.name} {version(run.peer, run.folder)}"
        table.add_row(label, run.peer.embedding, *cells, f"{run.found} of {run.asked}")
    return table


def main() -> None:
    """Install, fill, measure in rounds, and print the table and what did not run."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--peers-dir", type=Path, required=True, help="where peers are installed, each in its folder")
    parser.add_argument("--only", nargs="+", metavar="NAME", choices=[peer.name for peer in PEERS], help="these peers")
    parser.add_argument("--records", type=int, default=100, help="stored in each")
    parser.add_argument("--rounds", type=int, default=5, help="fresh processes of each")
    parser.add_argument("--python", default=sys.executable, help="interpreter of the peers' environments")
    chosen = parser.parse_args()
    texts = [each.text for each in memories(chosen.records, seed=7)]
    wanted = queries(texts)
    peers_dir = chosen.peers_dir.resolve()
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as temporary:
        runs = [
            Run(peer=peer, folder=peers_dir / peer.name, home=Path(temporary) / peer.name)
            for peer in (OURS, *PEERS) if not chosen.only or peer is OURS or peer.name in chosen.only
        ]  # fmt: skip
        for run in runs:
            run.home.mkdir()
            with run.attempt():
                install(run.peer, run.folder, chosen.python)
                if run.peer.model:
                    shutil.copytree(reshape_model(peers_dir, chosen.python), run.home / run.peer.model)
        fill([run for run in runs if not run.failure], texts)
        for _ in range(chosen.rounds):
            for run in runs:
                if not run.failure:
                    with run.attempt():
                        search(run, wanted)
        Console(width=160).print(shown(runs))
        for run in runs:
            if run.failure:
                print(f"{run.peer.name}: {run.failure}")


if __name__ == "__main__":
    main()
