"""People at the page beside agents at work, on one server: does a call of an agent take more because of them?

    python -m benchmarks.page_load [--people 50] [--agents 8] [--calls 150] [--pause 2.0]

Every agent makes mixed calls over HTTP without a pause (`benchmarks.load`). Every person has signed in with a token,
and opens a page, looks at it for `pause` seconds, and opens the next: the first one, a search, a record. Three phases
of one server: the agents alone, the people alone, both; and the agents alone again, since the memory has grown. What a
page takes of the processor is known from the second phase, so that the third tells what a call takes beside people.
Ends with 1 where a call or a page failed.
"""

from __future__ import annotations

import argparse
import random
import statistics
import sys
import tempfile
import threading
import time
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path

import httpx2
from rich.console import Console
from rich.table import Table

from benchmarks.durability import NAMESPACE, side_by_side
from benchmarks.load import NEWER, OLDER, HttpClient, Tally, http_server, make_token, measured, work
from benchmarks.texts import sentences
from mcp_memory.app import open_app
from mcp_memory.domain.model.records import NewRecord
from mcp_memory.settings import load_settings

RECORDS, BATCH = 3_000, 500
SEARCHES = ("who moved the billing job", "valve pressure", "which port does it listen on")


@dataclass
class Views:
    """The pages that were shown, in milliseconds each, and what failed."""

    milliseconds: list[float] = field(default_factory=list[float])
    errors: list[str] = field(default_factory=list[str])
    cpu: Tally = field(default_factory=Tally)

    def cpu_a_page(self) -> float:
        return (self.cpu.cpu_seconds or 0.0) / max(len(self.milliseconds), 1)


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(prog="benchmarks.page_load", description="People at the page beside agents.")
    parser.add_argument("--people", type=int, default=50)
    parser.add_argument("--agents", type=int, default=8)
    parser.add_argument("--calls", type=int, default=150, help="by each agent, in each phase")
    parser.add_argument("--pause", type=float, default=2.0, help="seconds that a person looks at a page")
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="page-load-") as folder:
        held = run(Path(folder), chosen.people, chosen.agents, chosen.calls, chosen.pause)
    sys.exit(0 if held else 1)


def run(data_dir: Path, people: int, agents: int, calls: int, pause: float) -> bool:
    """Return True where nothing failed."""
    ids = fill(data_dir)
    tokens = [make_token(data_dir, f"agent{number}") for number in range(agents)]
    alone, again, beside, watched, busy = Tally(), Tally(), Tally(), Views(), Views()
    with http_server(data_dir) as (url, server):
        web = [HttpClient(url, token, NEWER if n % 2 else OLDER) for n, token in enumerate(tokens)]
        browsers = [signed_in(url.removesuffix("/mcp"), tokens[n % agents]) for n in range(people)]
        for number, client in enumerate(web):
            work(client, f"agent{number}", 3, 0, alone, counts=False)

        def agents_work(seed: int, tally: Tally) -> None:
            side_by_side([lambda n=n, c=c: work(c, f"agent{n}", calls, seed + n, tally) for n, c in enumerate(web)])

        with measured(server, alone):
            agents_work(0, alone)
        done, enough = threading.Event(), threading.Event()
        threading.Timer(4 * pause, enough.set).start()
        with measured(server, watched.cpu):
            looking(browsers, ids, watched, pause, enough)

        def at_work() -> None:
            agents_work(50, beside)
            done.set()

        with measured(server, beside):
            side_by_side([at_work, lambda: looking(browsers, ids, busy, pause, done)])
        with measured(server, again):
            agents_work(100, again)
        for each in [*web, *browsers]:
            each.close()
    show(alone, again, beside, watched, busy)
    errors = [*alone.errors, *again.errors, *beside.errors, *watched.errors, *busy.errors]
    for error in sorted(set(errors))[:10]:
        print("  ", error)
    return not errors


def fill(data_dir: Path) -> list[str]:
    with closing(open_app(load_settings(data_dir=data_dir, namespace=NAMESPACE))) as app:
        items = [NewRecord(text=text) for text in sentences(RECORDS, seed=3)]
        stored = [app.remember(items[at : at + BATCH], app.caller()) for at in range(0, RECORDS, BATCH)]
    return [each.id for batch in stored for each in batch]


def signed_in(address: str, token: str) -> httpx2.Client:
    client = httpx2.Client(base_url=address, follow_redirects=True, timeout=60.0)
    page = client.post("/ui/sign-in", data={"token": token, "back": "/"}, headers={"Origin": address})
    assert page.status_code == 200, page.status_code
    return client


def looking(browsers: list[httpx2.Client], ids: list[str], views: Views, pause: float, ended: threading.Event) -> None:
    """Let every person open pages until it has ended; they begin at different moments."""

    def look(number: int, client: httpx2.Client) -> None:
        rng = random.Random(number)
        ended.wait(pause * number / len(browsers))
        while not ended.is_set():
            path = rng.choice(("/ui/", f"/ui/?q={rng.choice(SEARCHES)}", f"/ui/record/{rng.choice(ids)}"))
            started = time.perf_counter()
            status = client.get(path).status_code
            views.milliseconds.append(1_000 * (time.perf_counter() - started))
            if status != 200:
                views.errors.append(f"{path}: {status}")
            ended.wait(pause)

    side_by_side([lambda n=n, c=c: look(n, c) for n, c in enumerate(browsers)])


def show(alone: Tally, again: Tally, beside: Tally, watched: Views, busy: Views) -> None:
    """Print what a call and a page took; beside people, calls took what the pages leave of the processor's time."""
    pages = watched.cpu_a_page() * len(busy.milliseconds)
    first, last = ((each.cpu_seconds or 0.0) / len(each.milliseconds) for each in (alone, again))
    then = ((beside.cpu_seconds or 0.0) - pages) / len(beside.milliseconds)
    table = Table("what", "how many", "CPU ms each", "p50 ms", "p95 ms")
    for name, taken, cpu in (
        ("calls of agents alone", alone.milliseconds, first),
        ("pages alone", watched.milliseconds, watched.cpu_a_page()),
        ("calls beside the people", beside.milliseconds, then),
        ("pages beside the agents", busy.milliseconds, watched.cpu_a_page()),
        ("calls of agents alone again", again.milliseconds, last),
    ):
        high = statistics.quantiles(taken, n=20)[-1]
        table.add_row(name, str(len(taken)), f"{1_000 * cpu:.1f}", f"{statistics.median(taken):.0f}", f"{high:.0f}")
    Console(width=110).print(table)
    print(f"CPU of a call beside people to that alone, before and after: {2 * then / (first + last):.2f} (bound 1.2)")


if __name__ == "__main__":
    main()
