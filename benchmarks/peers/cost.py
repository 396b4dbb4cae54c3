"""What a server costs: its start, first search, memory, store and search. Servers take turns, so that ratios hold."""

import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field

from benchmarks.footprint import REST_SECONDS, written_mib
from benchmarks.peers.running import Run, answer, cpu_seconds, holds, processes, timed
from benchmarks.stdio import Client

QUERIES, CHUNK, LIMIT = 21, 10, 5


@dataclass
class Cost:
    """Of one server: seconds (`first`), MiB (`private`, `written`), milliseconds (the rest), each some times."""

    run: Run
    figures: dict[str, list[float]] = field(default_factory=dict[str, list[float]])
    found: int = 0
    asked: int = 0

    def note(self, **measured: float) -> None:
        for name, value in measured.items():
            self.figures.setdefault(name, []).append(value)


def measure(runs: Sequence[Run], texts: Sequence[str], rounds: int) -> list[Cost]:
    """Fill every server, then start each afresh that many times, in turn. One that fails says so in its run."""
    costs, wanted = [Cost(run) for run in runs], queries(texts)
    fill(costs, texts)
    for _ in range(rounds):
        for cost in costs:
            if not cost.run.failure:
                with cost.run.attempt():
                    search(cost, wanted)
    return costs


def fill(costs: Sequence[Cost], texts: Sequence[str]) -> None:
    """Store every text in every server, some at a time in turn. The median passes over the first ones, which load."""
    with ExitStack() as stack:
        clients: dict[str, Client] = {}
        for run in (cost.run for cost in costs):
            with run.attempt():
                client = stack.enter_context(run.running())
                for call in run.peer.prepare:
                    answer(client, call)
                clients[run.peer.name] = client
        for begin in range(0, len(texts), CHUNK):
            for cost in costs:
                if not cost.run.failure:
                    numbered = enumerate(texts[begin : begin + CHUNK], begin)
                    with cost.run.attempt():
                        calls = [cost.run.peer.store(number, text) for number, text in numbered]
                        wall, cpu, _ = timed(clients[cost.run.peer.name], calls)
                        cost.note(store=wall, store_cpu=cpu)


def search(cost: Cost, wanted: Mapping[str, str]) -> None:
    """Start a fresh process, ask once, let it come to rest, look at its memory, and ask the rest."""
    first, *rest = (cost.run.peer.search(query, LIMIT) for query in wanted)
    begin = time.perf_counter()
    with cost.run.running() as client:
        answer(client, first)
        cost.note(first=time.perf_counter() - begin, first_cpu=cpu_seconds(client.pid))
        time.sleep(REST_SECONDS)
        private = sum(each.memory_full_info().uss for each in processes(client.pid)) / 2**20
        cost.note(private=private, written=written_mib(client.pid))
        wall, cpu, told = timed(client, rest)
        cost.note(search=wall, search_cpu=cpu)
    texts = list(wanted.values())[1:]
    cost.asked = len(texts)
    cost.found = sum(holds(each, text) for text, each in zip(texts, told, strict=True))


def queries(texts: Sequence[str]) -> Mapping[str, str]:
    """Four words from the middle of some texts, evenly spread, and the text that each was taken from."""
    made = {" ".join(parts[len(parts) // 2 - 2 :][:4]): text for text in texts if (parts := text.split())}
    every = max(1, len(made) // QUERIES)
    return dict(list(made.items())[::every][:QUERIES])
