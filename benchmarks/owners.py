"""Windows that store while the owner of their memory is killed, or stands still: is a call lost, done twice, in doubt?

    python -m benchmarks.owners [--windows 4] [--first 20] [--kills 200] [--stops 50] [--seed 0]

At first, `--first` windows start at once where nobody owns the memory. A stop takes half a second to thirty (SIGSTOP,
SIGCONT). Meanwhile it is counted how many processes have the memory's file open. Ends with 1 where more than one had,
or an acknowledged record is missing, there twice, or another agent's.
"""

import argparse
import random
import shutil
import sqlite3
import sys
import tempfile
import threading
import time
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import psutil

from benchmarks.durability import NAMESPACE, PATIENCE_SECONDS, show, side_by_side, start_server
from benchmarks.stdio import Client
from mcp_memory.bridge.door import owner_of

STOP_SECONDS = (0.5, 30.0)
BETWEEN_SECONDS = 0.3
"""At most so long goes well, from one fault to the next."""
LOOK_SECONDS = 0.1


@dataclass
class Seen:
    """What windows were answered, by the word that a call stores; and how many processes held the file."""

    acknowledged: dict[str, str] = field(default_factory=dict[str, str])
    in_doubt: dict[str, str] = field(default_factory=dict[str, str])
    windows: int = 0
    most_holders: int = 0
    is_over: threading.Event = field(default_factory=threading.Event)


def store(window: Client, agent: str, seen: Seen) -> None:
    """Store one record after the other until it is over."""
    count = 0
    while not seen.is_over.is_set():
        count += 1
        word = f"{agent}x{count}"
        try:
            window.call("remember", text=f"Note {word}: what one of many agents has learnt.")
            seen.acknowledged[word] = agent
        except RuntimeError as error:
            seen.in_doubt[word] = str(error)


def watch(data_dir: Path, seen: Seen) -> None:
    """Count the processes that have the memory's file open."""
    file = str(data_dir / "memory.db")
    while not seen.is_over.wait(LOOK_SECONDS):
        seen.most_holders = max(seen.most_holders, len(holders(file)))


def holders(file: str) -> set[int]:
    found: set[int] = set()
    for process in psutil.process_iter():
        with suppress(psutil.Error):
            if any(each.path == file for each in process.open_files()):
                found.add(process.pid)
    return found


def disturb(data_dir: Path, faults: list[float], seen: Seen, rng: random.Random) -> None:
    """Kill the owner, or stop it for as many seconds, and go on once each window has been served again."""
    for seconds in faults:
        before = Counter(seen.acknowledged.values())
        until = time.monotonic() + PATIENCE_SECONDS
        while not _all_served(before, seen) and time.monotonic() < until:
            time.sleep(0.005)
        time.sleep(rng.uniform(0, BETWEEN_SECONDS))
        with suppress(psutil.Error, KeyError):
            owner = psutil.Process(int(str(owner_of(str(data_dir))["pid"])))
            if not seconds:
                owner.kill()
                continue
            owner.suspend()
            time.sleep(seconds)
            owner.resume()
    seen.is_over.set()


def _all_served(before: Counter[str], seen: Seen) -> bool:
    now = Counter(list(seen.acknowledged.values()))
    # The first may have been answered before the fault, and not been read.
    return len(now) == seen.windows and all(now[agent] > before[agent] + 1 for agent in now)


def run(data_dir: Path, windows: int, first: int, kills: int, stops: int, seed: int) -> bool:
    """True where one process at most held the memory, and each acknowledged record is there once; prints the table."""
    rng, seen = random.Random(seed), Seen(windows=windows)
    faults = [0.0] * kills + [rng.uniform(*STOP_SECONDS) for _ in range(stops)]
    rng.shuffle(faults)
    watching = threading.Thread(target=watch, args=(data_dir, seen))
    watching.start()
    clients: dict[str, Client] = {}

    def start(agent: str) -> None:
        clients[agent] = start_server(data_dir, agent)

    side_by_side([lambda agent=f"agent{number}": start(agent) for number in range(first)])
    for agent in list(clients)[windows:]:
        clients.pop(agent).close()
    storing = [lambda agent=agent, client=client: store(client, agent, seen) for agent, client in clients.items()]
    side_by_side([*storing, lambda: disturb(data_dir, faults, seen, rng)])
    watching.join()
    for client in clients.values():
        client.close()
    kept = stored(data_dir)
    lost = [word for word in seen.acknowledged if word not in kept]
    twice = [word for word, agents in kept.items() if len(agents) > 1]
    strange = [word for word, agents in kept.items() if any(not word.startswith(f"{agent}x") for agent in agents)]
    show(
        [
            ("windows that started at once", first),
            ("owners killed; stopped for a while", f"{kills}; {stops}"),
            ("processes that held the memory at once", seen.most_holders),
            ("acknowledged", len(seen.acknowledged)),
            ("told an error; of these stored", f"{len(seen.in_doubt)}; {len(kept.keys() & seen.in_doubt.keys())}"),
            ("acknowledged and lost", len(lost)),
            ("stored twice", len(twice)),
            ("stored for another agent", len(strange)),
        ]
    )
    for error, times in Counter(seen.in_doubt.values()).most_common(5):
        print(f"  {times} x {error}")
    return seen.most_holders == 1 and not (lost or twice or strange)


def stored(data_dir: Path) -> dict[str, list[str]]:
    """The agents of the records that hold each word."""
    kept: dict[str, list[str]] = {}
    connection = sqlite3.connect(data_dir / "memory.db")
    for text, agent in connection.execute("SELECT text, agent FROM records WHERE namespace = ?", (NAMESPACE,)):
        kept.setdefault(text.split()[1].rstrip(":"), []).append(agent)
    connection.close()
    return kept


def main() -> None:
    parser = argparse.ArgumentParser(prog="benchmarks.owners", description="Does one process own a memory, always?")
    parser.add_argument("--windows", type=int, default=4)
    parser.add_argument("--first", type=int, default=20, help="windows that start at once")
    parser.add_argument("--kills", type=int, default=200)
    parser.add_argument("--stops", type=int, default=50)
    parser.add_argument("--seed", type=int, default=0)
    chosen = parser.parse_args()
    data_dir = Path(tempfile.mkdtemp(prefix="owners-"))
    try:
        held = run(data_dir, chosen.windows, chosen.first, chosen.kills, chosen.stops, chosen.seed)
    finally:
        shutil.rmtree(data_dir, ignore_errors=True)
    sys.exit(0 if held else 1)


if __name__ == "__main__":
    main()
