"""People at the page beside agents at work, on one server: does a call of an agent take more because of them?

    python -m benchmarks.page_load [--people 50] [--agents 8] [--calls 150] [--pause 2.0]
    python -m benchmarks.page_load --screens 3000,100000 [--folder FOLDER]

Every agent makes mixed calls over HTTP without a pause (`benchmarks.load`). Every person has signed in with a token,
and opens a page, looks at it for `pause` seconds, and opens the next: the first one, a search, a record. Three phases
of one server: the agents alone, the people alone, both; and the agents alone again, since the memory has grown. What a
page takes of the processor is known from the second phase, so that the third tells what a call takes beside people.
Ends with 1 where a call or a page failed.

With `--screens`, one person alone opens the page of memories of these sizes: the CPU of a fresh server's first page,
once it has loaded what it loads by itself, and of each screen when warm. The memories have made vectors
(`benchmarks.footprint`): 100,000 records take four minutes to fill, and with FOLDER they are kept for the next run.
"""

from __future__ import annotations

import argparse
import random
import re
import shutil
import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path

import httpx2
import psutil
from rich.console import Console
from rich.table import Table

from benchmarks.durability import NAMESPACE, side_by_side
from benchmarks.footprint import MadeVectors
from benchmarks.footprint import fill as fill_evenly
from benchmarks.load import NEWER, OLDER, HttpClient, Tally, http_server, make_token, measured, work
from benchmarks.texts import sentences
from mcp_memory.app import open_app
from mcp_memory.domain.model.records import NewRecord
from mcp_memory.entrypoints.page.site import SCREENS
from mcp_memory.services.context.assemble import ContextRequest
from mcp_memory.services.tasks.task_stack import PushRequest
from mcp_memory.settings import load_settings

RECORDS, BATCH = 3_000, 500
FIRSTS, LOOKS, CONTEXTS = 5, 20, 20
MADE = "benchmark"
"""The project of a memory with made vectors."""
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
    parser.add_argument("--screens", metavar="SIZES", help="measure each screen alone, over so many records each")
    parser.add_argument("--folder", type=Path, help="keep the memories of --screens there")
    chosen = parser.parse_args()
    if chosen.screens:
        with tempfile.TemporaryDirectory(prefix="page-load-") as temporary:
            each_screen(chosen.folder or Path(temporary), [int(size) for size in chosen.screens.split(",")])
        return
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


def each_screen(folder: Path, sizes: Sequence[int]) -> None:
    """Print by size the CPU of the first page of a fresh server, and of every screen of a warm one."""
    taken: dict[str, list[str]] = {}
    for size in sizes:
        data_dir = filled(folder / str(size), size)
        firsts = [first_page(data_dir) for _ in range(FIRSTS)]
        by_page = {"/ (first of a process)": statistics.median(firsts), **warm_pages(data_dir)}
        for path, milliseconds in by_page.items():
            taken.setdefault(path, []).append(f"{milliseconds:.0f}")
    table = Table("page", *(f"CPU ms, {size:,} records" for size in sizes))
    for path, figures in taken.items():
        table.add_row(path, *figures)
    Console(width=110).print(table)


def filled(data_dir: Path, size: int) -> Path:
    """Fill a memory where there is none. One that was interrupted has another name, and is filled again."""
    if not data_dir.exists():
        begun = data_dir.with_name(f"{data_dir.name}.begun")
        shutil.rmtree(begun, ignore_errors=True)
        fill_evenly(begun, size, 1)
        give_contexts(begun)
        begun.rename(data_dir)
    return data_dir


def give_contexts(data_dir: Path) -> None:
    """Let an agent work a little, so that every screen has something to show."""
    with closing(open_app(load_settings(data_dir=data_dir, namespace=MADE), embedder=MadeVectors())) as app:
        for number in range(CONTEXTS):
            caller = app.caller(f"session{number}")
            app.tasks.push(PushRequest(goal=f"Look at valve {number}"), caller)
            app.assemble_context(ContextRequest(max_tokens=1_500 + number), caller)


def first_page(data_dir: Path) -> float:
    """Return the CPU of a fresh server at rest, in milliseconds, from the sign-in to the first page."""
    with http_server(data_dir, namespace=MADE) as (url, server):
        rested(server)
        tally = Tally()
        with measured(server, tally):
            signed_in(url.removesuffix("/mcp"), "").close()
    return 1_000 * (tally.cpu_seconds or 0.0)


def warm_pages(data_dir: Path) -> Mapping[str, float]:
    """Return the mean CPU of each page in milliseconds, from its second time on. LOOKS make up for a clock of 10 ms."""
    taken: dict[str, float] = {}
    with http_server(data_dir, namespace=MADE) as (url, server):
        client = signed_in(url.removesuffix("/mcp"), "")
        paths = [screen.path for screen in SCREENS if screen.title]
        named = {path: path for path in [*paths, "/?q=valve pressure", "/topics"]}
        named |= {
            f"/{kind}": first_of(client, kind, path) for kind, path in (("record", "/"), ("context", "/contexts"))
        }
        for name, path in named.items():
            client.get(f"/ui{path}").raise_for_status()
            rested(server)
            tally = Tally()
            with measured(server, tally):
                for _ in range(LOOKS):
                    client.get(f"/ui{path}").raise_for_status()
            taken[name] = 1_000 * (tally.cpu_seconds or 0.0) / LOOKS
        client.close()
    return taken


def first_of(client: httpx2.Client, kind: str, path: str) -> str:
    """Return the path of the first record or context that a page links to."""
    found = re.search(rf'href="/ui(/{kind}/[a-z0-9]+)', client.get(f"/ui{path}").text)
    assert found, f"{path} names no {kind}"
    return found[1]


def rested(server: psutil.Process) -> None:
    """Wait until the server has done nothing for a second."""
    before = -1.0
    while (now := sum(server.cpu_times()[:2])) != before:
        before = now
        time.sleep(1.0)


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
