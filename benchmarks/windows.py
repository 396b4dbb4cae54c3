"""Four client windows over stdio on one memory, which one process owns.

    python -m benchmarks.windows [--records 10000] [--calls 60] [--windows 4]

Every window is its own process of the program. For the start of each there is the CPU up to its first recall answered;
for one window alone and for all at once, each calling without a pause (two recalls to a store), what a call takes: CPU
of all processes, and the time that half and 95 % of the calls stay below. Memory is what each has written for itself.
"""

import argparse
import os
import statistics
import tempfile
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path

import psutil
from rich.console import Console
from rich.table import Table

from benchmarks.durability import side_by_side
from benchmarks.footprint import COMMAND, REST_SECONDS, fill, tree_of, written_mib_of
from benchmarks.stdio import Client


def main() -> None:
    """Measure, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--records", type=int, default=10_000)
    parser.add_argument("--calls", type=int, default=60, help="calls of each window")
    parser.add_argument("--windows", type=int, default=4)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary, "memory")
        fill(folder, arguments.records, 1)
        figures = measured(folder, arguments.windows, arguments.calls)
    table = Table("", "")
    for name, figure in figures.items():
        table.add_row(name, f"{figure:.1f}")
    Console(width=110).print(table)


def measured(folder: Path, windows: int, calls: int) -> Mapping[str, float]:
    """The figures of so many windows; milliseconds and MiB."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("MCP_MEMORY_")}
    told = kept | {
        "MCP_MEMORY_DATA_DIR": str(folder),
        "MCP_MEMORY_NAMESPACE": "benchmark",
        "MCP_MEMORY_CONFIG": os.devnull,
        "MCP_MEMORY_IDLE_MINUTES": "0",
    }
    with ExitStack() as stack:
        started: list[Client] = []
        starts: list[float] = []
        for _ in range(windows):
            before = cpu(started)
            client = Client(COMMAND, told)
            stack.callback(client.end, 10.0)
            started.append(client)
            client.initialize()
            client.call("recall", query="the harbour at night")
            starts.append(1_000 * (cpu(started) - before))
        time.sleep(REST_SECONDS)
        windows_alone = [written_mib_of([psutil.Process(client.pid)]) for client in started]
        everything = written_mib_of(list(processes_of(started)))
        alone, alone_cpu = loaded(started[-1:], calls, started)
        together, together_cpu = loaded(started, calls, started)
    return {
        "first start, CPU": starts[0],
        "a further start, CPU": statistics.median(starts[1:]),
        "memory of all, MiB": everything,
        "memory of a further one, MiB": statistics.median(windows_alone),
        "one calls: CPU a call": alone_cpu,
        "one calls: median": statistics.median(alone),
        "all call: CPU a call": together_cpu,
        "all call: median": statistics.median(together),
        "all call: 95 %": statistics.quantiles(together, n=20)[-1],
    }


def loaded(callers: Sequence[Client], calls: int, everybody: Sequence[Client]) -> tuple[list[float], float]:
    """How long each call took, and the CPU of a call in all processes; milliseconds."""
    before, taken = cpu(everybody), list[float]()

    def work(number: int) -> None:
        for count in range(calls):
            begun = time.perf_counter()
            if count % 3 == 2:
                callers[number].call("remember", text=f"Window {number} saw ship {time.time_ns()} leave the harbour.")
            else:
                callers[number].call("recall", query=f"which ship left the harbour {count} of {number}")
            taken.append(1_000 * (time.perf_counter() - begun))

    side_by_side([partial(work, number) for number in range(len(callers))])
    return taken, 1_000 * (cpu(everybody) - before) / len(taken)


def cpu(clients: Sequence[Client]) -> float:
    """The seconds that the processes of these clients have worked."""
    return sum(sum(each.cpu_times()[:2]) for each in processes_of(clients))


def processes_of(clients: Sequence[Client]) -> set[psutil.Process]:
    """Their processes, and the memory's owner."""
    return {each for client in clients for each in tree_of(client.pid)}


if __name__ == "__main__":
    main()
