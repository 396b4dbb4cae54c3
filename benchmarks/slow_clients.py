"""Clients that never finish: what they cost a server over HTTP, and whoever else calls it.

    python -m benchmarks.slow_clients [--clients 200] [--calls 200]

In one run, on one server that has a token: idle; beside so many silent connections; beside so many bodies without an
end, sent without a token by clients that dial again whenever they are turned away. Prints the descriptors of the
server, and of `/healthz` the wall time and the server's CPU a call, also as multiples of those of the idle server.
Ends with 1 where a call of `/healthz` failed.
"""

import argparse
import contextlib
import http.client
import multiprocessing
import multiprocessing.synchronize
import socket
import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Generator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

import psutil
from rich.console import Console
from rich.table import Table

from benchmarks.load import http_server, make_token

PATIENCE_SECONDS = 60.0
MOST_SECONDS = 600.0
"""After which an attacker ends by itself."""
PAUSE_SECONDS = 1.0
"""Before dialling again."""
LEAST_CPU = 0.01
"""Milliseconds; the system counts in hundredths of a second."""
CHUNK = b"4000\r\n" + b"x" * 0x4000 + b"\r\n"


@dataclass(frozen=True, slots=True)
class Measured:
    """What a server did beside some clients, in milliseconds a call."""

    descriptors: int
    wall: float
    worst: float
    cpu: float
    failed: int


def measure(process: psutil.Process, port: int, calls: int) -> Measured:
    """Call `/healthz` so often, each time over a connection of its own."""
    walls: list[float] = []
    failed, most = 0, 0
    before = sum(process.cpu_times()[:2])
    for _ in range(calls):
        started = time.perf_counter()
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE_SECONDS)
        try:
            connection.request("GET", "/healthz")
            failed += connection.getresponse().status != 200
        except (OSError, http.client.HTTPException):
            failed += 1
        finally:
            connection.close()
        walls.append(1_000 * (time.perf_counter() - started))
        most = max(most, process.num_fds())
    cpu = 1_000 * (sum(process.cpu_times()[:2]) - before) / calls
    return Measured(most, statistics.median(walls), max(walls), cpu, failed)


@contextmanager
def nobody(_port: int, _clients: int) -> Generator[None]:
    yield


@contextmanager
def silent(port: int, clients: int) -> Generator[None]:
    with ExitStack() as stack:
        for _ in range(clients):
            stack.enter_context(contextlib.closing(_dial(port)))
        yield


@contextmanager
def endless(port: int, clients: int) -> Generator[None]:
    """From another process, whose threads do not compete with the one that measures."""
    context = multiprocessing.get_context("spawn")
    are_up = context.Event()
    attacker = context.Process(target=_attack, args=(port, clients, are_up), daemon=True)
    attacker.start()
    try:
        are_up.wait(PATIENCE_SECONDS)
        yield
    finally:
        attacker.terminate()
        attacker.join()


def _attack(port: int, clients: int, are_up: "multiprocessing.synchronize.Event") -> None:
    threads = [threading.Thread(target=_send_for_ever, args=(port,), daemon=True) for _ in range(clients)]
    for thread in threads:
        thread.start()
    are_up.set()
    time.sleep(MOST_SECONDS)


def _send_for_ever(port: int) -> None:
    head = (
        b"POST /mcp HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ntransfer-encoding: chunked\r\n\r\n"
    )
    while True:
        with contextlib.suppress(OSError), _dial(port) as client:
            client.sendall(head)
            while True:
                client.sendall(CHUNK)
        time.sleep(PAUSE_SECONDS)


def _dial(port: int) -> socket.socket:
    return socket.create_connection(("127.0.0.1", port), timeout=PATIENCE_SECONDS)


def run(data_dir: Path, clients: int, calls: int) -> bool:
    """True where every call of `/healthz` was answered; prints the table."""
    make_token(data_dir, "ann")
    beside: list[tuple[str, Callable[[int, int], contextlib.AbstractContextManager[None]]]] = [
        ("nobody", nobody),
        (f"{clients} silent", silent),
        (f"{clients} endless bodies", endless),
    ]
    table = Table(
        "beside", "descriptors", "p50 ms", "worst ms", "CPU ms a call", "p50 to idle", "CPU to idle", "failed"
    )
    found: list[Measured] = []
    with http_server(data_dir) as (url, _):
        port = urlsplit(url).port
        assert port is not None
        [process] = [each for each in psutil.Process().children() if "--http" in each.cmdline()]
        measure(process, port, 20)  # warms it up
        for name, client in beside:
            with client(port, clients):
                each = measure(process, port, calls)
            found.append(each)
            idle = found[0]
            times = (f"{each.wall:.1f}", f"{each.worst:.1f}", f"{each.cpu:.2f}")
            ratios = (f"{each.wall / idle.wall:.1f}", f"{each.cpu / max(idle.cpu, LEAST_CPU):.1f}")
            table.add_row(name, str(each.descriptors), *times, *ratios, str(each.failed))
    Console(width=130).print(table)
    return not any(each.failed for each in found)


def main() -> None:
    parser = argparse.ArgumentParser(prog="benchmarks.slow_clients", description="Clients that never finish.")
    parser.add_argument("--clients", type=int, default=200)
    parser.add_argument("--calls", type=int, default=200, help="of /healthz, in each of the three rounds")
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="slow-clients-") as folder:
        held = run(Path(folder), chosen.clients, chosen.calls)
    sys.exit(0 if held else 1)


if __name__ == "__main__":
    main()
