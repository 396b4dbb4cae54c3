"""Many servers on one memory, then all of them killed, again and again: is anything lost that was acknowledged?

    python -m benchmarks.durability [--processes 8] [--stores 200] [--rounds 20] [--seed 0] [--data-dir DIR]

While they store, one server after the other is stopped in the middle of whatever it does (SIGSTOP) and continued, and
the clocks of some are wrong: a year ahead, a year behind, or jumping by days at every look.

Servers are real ones over standard input and output. Ends with 1 where anything was lost, or any call failed.
"""

import argparse
import itertools
import os
import random
import shutil
import sqlite3
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks.footprint import owner_over
from benchmarks.stdio import Client, ServerGone

PATIENCE_SECONDS = 120.0
NAMESPACE = "durability"
IDS_PER_CALL = 50
SHOWN = 5
"""Results looked at: where texts are so alike, the best by meaning may tie with the only one by word."""


STOPS = 12
STOPPED_SECONDS = 0.3
"""Longer than most calls, far shorter than others wait for the write lock."""
WRONG_CLOCKS = ("lambda: now() + 400 * 86_400", "lambda: now() - 400 * 86_400", "lambda: now() + day * next(turns)")
"""For as many of the servers; the rest have the right time."""
CLOCK = """
import itertools, runpy, sys, time
now, day, turns = time.time, 86_400.0, itertools.cycle((0, 3, -2, 30, -30))
time.time = {clock}
sys.argv = ["mcp_memory"]
runpy.run_module("mcp_memory", run_name="__main__")
"""
"""Starts a server over another clock, as if the machine's were set again and again."""


def environment(data_dir: Path, namespace: str = NAMESPACE) -> dict[str, str]:
    """What a server over that directory is started with: nothing of ours but its place and project."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("MCP_MEMORY_")}
    settings = {"DATA_DIR": str(data_dir), "NAMESPACE": namespace, "CONFIG": os.devnull, "IDLE_MINUTES": "0"}
    return kept | {f"MCP_MEMORY_{name}": value for name, value in settings.items()}


def start_server(data_dir: Path, agent: str, clock: str | None = None) -> Client:
    """A server over that directory for that agent, ready for calls; CLOCK says what a clock of its own looks like."""
    start = ["-m", "mcp_memory"] if clock is None else ["-c", CLOCK.format(clock=clock)]
    client = Client([sys.executable, *start], environment(data_dir) | {"MCP_MEMORY_AGENT": agent})
    client.initialize()
    return client


@dataclass
class Tally:
    """What was acknowledged, by id, with the word that only this record holds; and what went wrong."""

    words: dict[str, str] = field(default_factory=dict[str, str])
    errors: list[str] = field(default_factory=list[str])
    lost: set[str] = field(default_factory=set[str])
    by_id: int = 0
    by_keyword: int = 0
    looked_up: int = 0
    searched: int = 0
    repairs: int = 0
    stopped: int = 0
    slowest_start: float = 0.0
    lock: threading.Lock = field(default_factory=threading.Lock)

    def acknowledge(self, record_id: str, word: str) -> None:
        with self.lock:
            self.words[record_id] = word

    def fail(self, error: Exception) -> None:
        with self.lock:
            self.errors.append(f"{type(error).__name__}: {error}")

    def note(self, record_ids: Iterable[str], found: set[str], *, by_id: bool) -> None:
        with self.lock:
            for record_id in record_ids:
                self.looked_up += by_id
                self.searched += not by_id
                if record_id not in found:
                    self.lost.add(record_id)
                elif by_id:
                    self.by_id += 1
                else:
                    self.by_keyword += 1


def side_by_side(tasks: Sequence[Callable[[], None]]) -> None:
    threads = [threading.Thread(target=task) for task in tasks]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def store_one(server: Client, word: str, tally: Tally) -> None:
    text = f"Note {word}: what one of many agents has learnt, to be found by all the others."
    (record,) = server.call("remember", text=text)["records"]
    if record["status"] != "stored":
        raise RuntimeError(f"a new text was answered {record['status']}")
    tally.acknowledge(record["id"], word)


def look_up(server: Client, record_ids: Sequence[str], tally: Tally) -> None:
    """Every record by its id."""
    for start in range(0, len(record_ids), IDS_PER_CALL):
        batch = record_ids[start : start + IDS_PER_CALL]
        try:
            answer = server.call("recall", ids=batch, detail="micro", max_tokens=100_000)
        except (RuntimeError, ServerGone) as error:
            tally.fail(error)
            continue
        tally.note(batch, {result["id"] for result in answer["results"]}, by_id=True)


def search(server: Client, record_ids: Sequence[str], tally: Tally) -> None:
    """Every record by the word that only it holds: among the first few results."""
    for record_id in record_ids:
        try:
            answer = server.call("recall", query=tally.words[record_id], limit=SHOWN, detail="micro")
        except (RuntimeError, ServerGone) as error:
            tally.fail(error)
            continue
        tally.note([record_id], {result["id"] for result in answer["results"]}, by_id=False)


def start_all(data_dir: Path, processes: int) -> list[Client]:
    """Servers of which the first few have a wrong clock, at least one of them the right one."""
    clocks = [*WRONG_CLOCKS[: processes - 1], *(None for _ in range(processes))]
    return [start_server(data_dir, f"agent{number}", clocks[number]) for number in range(processes)]


def write_side_by_side(data_dir: Path, processes: int, stores: int, tally: Tally) -> None:
    """All servers store at once; then each looks up everything by id, and its neighbour's records by keyword."""
    servers = start_all(data_dir, processes)
    mine: list[list[str]] = [[] for _ in servers]
    wanted, stopped = processes * stores, 0

    def store(number: int) -> None:
        for turn in range(stores):
            word = f"w{number}x{turn}"
            try:
                store_one(servers[number], word, tally)
            except (RuntimeError, ServerGone) as error:
                tally.fail(error)
            if turn % 20 == 0:  # Reading goes on between the writes.
                look_up(servers[number], list(tally.words)[-5:], tally)
            mine[number].append(word)

    def check(number: int) -> None:
        neighbours = set(mine[(number + 1) % processes])
        look_up(servers[number], list(tally.words), tally)
        search(servers[number], [i for i, word in tally.words.items() if word in neighbours], tally)

    def pause() -> None:
        nonlocal stopped
        while stopped < STOPS and len(tally.words) + len(tally.errors) < wanted:
            (owner,) = owner_over(str(data_dir))
            owner.suspend()
            time.sleep(STOPPED_SECONDS)
            owner.resume()
            stopped += 1

    try:
        side_by_side([*(lambda n=n: store(n) for n in range(processes)), pause])
        tally.stopped = stopped
        side_by_side([lambda n=n: check(n) for n in range(processes)])
    finally:
        for server in servers:
            server.close()


def kill_while_writing(data_dir: Path, processes: int, round_number: int, rng: random.Random, tally: Tally) -> None:
    """All servers store until they are killed at once; a fresh one must have every acknowledged record."""
    servers = start_all(data_dir, processes)
    before = len(tally.words)
    stop = threading.Event()

    def store(number: int) -> None:
        for turn in itertools.count():
            try:
                store_one(servers[number], f"k{round_number}w{number}x{turn}", tally)
            except ServerGone:
                if not stop.is_set():
                    tally.fail(RuntimeError("a server ended by itself"))
                return
            except RuntimeError as error:
                tally.fail(error)
                return

    def kill() -> None:
        deadline = time.monotonic() + PATIENCE_SECONDS
        while len(tally.words) < before + 4 * processes and time.monotonic() < deadline:
            time.sleep(0.001)  # Until they are in full swing.
        time.sleep(rng.uniform(0.0, 0.5))
        stop.set()
        for process in (*owner_over(str(data_dir)), *rng.sample(servers, len(servers))):
            process.kill()

    side_by_side([*(lambda n=n: store(n) for n in range(processes)), kill])
    for server in servers:
        server.close()
    started = time.perf_counter()
    fresh = start_server(data_dir, "fresh")
    try:
        look_up(fresh, list(tally.words)[before:][:1], tally)
        tally.slowest_start = max(tally.slowest_start, time.perf_counter() - started)
        look_up(fresh, list(tally.words)[before:], tally)
    finally:
        fresh.close()
    check_file(data_dir, tally)


def check_file(data_dir: Path, tally: Tally) -> None:
    """Count it as a repair where SQLite itself finds fault with the file."""
    connection = sqlite3.connect(data_dir / "memory.db")
    try:
        verdict = connection.execute("PRAGMA integrity_check").fetchone()[0]
    except sqlite3.DatabaseError as error:
        verdict = str(error)
    finally:
        connection.close()
    if verdict != "ok":
        tally.repairs += 1
        tally.errors.append(f"integrity_check: {verdict}")


def search_everything(data_dir: Path, tally: Tally) -> None:
    """A fresh server finds every record ever acknowledged, by id and by keyword."""
    fresh = start_server(data_dir, "fresh")
    try:
        look_up(fresh, list(tally.words), tally)
        search(fresh, list(tally.words), tally)
    finally:
        fresh.close()


def show(rows: Iterable[tuple[str, object]]) -> None:
    for name, value in rows:
        print(f"{name:<42} {value:>12}")


def run(data_dir: Path, processes: int, stores: int, rounds: int, seed: int) -> bool:
    """True where nothing was lost and nothing failed; prints the table."""
    rng, tally = random.Random(seed), Tally()
    started = time.perf_counter()
    write_side_by_side(data_dir, processes, stores, tally)
    side = time.perf_counter() - started
    acknowledged_first = len(tally.words)
    for round_number in range(rounds):
        kill_while_writing(data_dir, processes, round_number, rng, tally)
    search_everything(data_dir, tally)
    show(
        [
            ("server processes", processes),
            ("of these with a wrong clock", min(len(WRONG_CLOCKS), processes - 1)),
            ("stopped for a while, and continued", tally.stopped),
            ("kill -9 rounds", rounds),
            ("acknowledged, side by side", acknowledged_first),
            ("acknowledged, before a kill", len(tally.words) - acknowledged_first),
            ("found by id", f"{tally.by_id}/{tally.looked_up}"),
            ("found by keyword", f"{tally.by_keyword}/{tally.searched}"),
            ("lost", len(tally.lost)),
            ("errors", len(tally.errors)),
            ("repairs needed", tally.repairs),
            ("slowest start after a kill, to an answer, s", f"{tally.slowest_start:.2f}"),
            ("side by side, s", f"{side:.1f}"),
            ("all, s", f"{time.perf_counter() - started:.1f}"),
        ]
    )
    for error in sorted(set(tally.errors))[:10]:
        print("  ", error)
    return not (tally.lost or tally.errors or tally.repairs) and acknowledged_first == processes * stores


def main() -> None:
    parser = argparse.ArgumentParser(prog="benchmarks.durability", description="Is anything acknowledged ever lost?")
    parser.add_argument("--processes", type=int, default=8)
    parser.add_argument("--stores", type=int, default=200, help="by each process")
    parser.add_argument("--rounds", type=int, default=20, help="of killing all processes while they write")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--data-dir", type=Path, help="a new directory, kept afterwards")
    chosen = parser.parse_args()
    data_dir = chosen.data_dir or Path(tempfile.mkdtemp(prefix="durability-"))
    try:
        held = run(data_dir, chosen.processes, chosen.stores, chosen.rounds, chosen.seed)
    finally:
        if chosen.data_dir is None:
            shutil.rmtree(data_dir, ignore_errors=True)
    sys.exit(0 if held else 1)


if __name__ == "__main__":
    main()
