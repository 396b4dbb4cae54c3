"""Several clients of one memory: what is lost when they write at once and one is killed, and when others can read."""

import statistics
import threading
import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field

from benchmarks.peers.running import REFUSED, Run, answer, holds, kill, processes
from benchmarks.stdio import Client, ServerGone

WRITERS, EACH, LIMIT = 4, 25, 5
KILLED_AFTER = 12
"""Acknowledgements of the client that is killed after half the time of its next store."""
LAGS, LAG_SECONDS, GIVEN_UP_AFTER = 20, 10.0, 3


@dataclass
class Written:
    """Texts that a memory acknowledged, those of them that nobody finds afterwards, and why it refused others."""

    acknowledged: list[str] = field(default_factory=list[str])
    lost: list[str] = field(default_factory=list[str])
    refused: list[str] = field(default_factory=list[str])


def numbered(texts: Sequence[str]) -> list[str]:
    """Each with a word of its own: none restates another."""
    return [f"{text} (n{7_919 * (number + 13):x}q)" for number, text in enumerate(texts)]


def write_together(run: Run, texts: Sequence[str], written: Written) -> None:
    """Four clients of one memory store a quarter each at once; the first is killed. A fresh one then looks."""
    with run.hub():
        with ExitStack() as stack:
            clients = [stack.enter_context(run.running(shared=True)) for _ in range(WRITERS)]
            for call in run.peer.prepare:
                answer(clients[0], call)
            threads = [
                threading.Thread(target=write, args=(run, client, place, texts, written))
                for place, client in enumerate(clients)
            ]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
        with run.running(shared=True) as reader:
            everything = answer(reader, run.peer.listed) if run.peer.listed else ""
            for text in written.acknowledged:
                if not holds(everything, text) and not found(run, reader, text):
                    written.lost.append(text)


def write(run: Run, client: Client, place: int, texts: Sequence[str], written: Written) -> None:
    """Every fourth text. The first client's server, and all that it has started, is killed in the middle of a store."""
    seconds = list[float]()
    tree = processes(client.pid)
    killer: threading.Timer | None = None
    for number in range(place, len(texts), WRITERS):
        if place == 0 and len(seconds) == KILLED_AFTER:
            tree = processes(client.pid)
            killer = threading.Timer(statistics.median(seconds) / 2, kill, [tree])
            killer.start()
        if killer and len(seconds) == EACH - 1:
            killer.join()  # A quick server might have all of it stored before a busy machine kills it.
        begin = time.perf_counter()
        try:
            answer(client, run.peer.store(number, texts[number]))
        except REFUSED as error:
            written.refused.append(str(error)[:200])
        except (ServerGone, OSError):
            if place:
                written.refused.append("its process ended")
            return
        else:
            written.acknowledged.append(texts[number])
        seconds.append(time.perf_counter() - begin)


def found(run: Run, client: Client, text: str) -> bool:
    """Whether a search for the text gives it back whole."""
    search = run.peer.whole or run.peer.search
    try:
        return holds(answer(client, search(text, LIMIT)), text)
    except REFUSED:
        return False


def lags(run: Run, texts: Sequence[str]) -> list[float | None]:
    """Seconds from the acknowledgement of a store until another client's search has given it back; None: not in ten.

    The first text is for both to load. It ends early where three were not found.
    """
    first, *rest = texts
    measured = list[float | None]()
    with run.hub(), run.running(shared=True) as writer, run.running(shared=True) as reader:
        for call in run.peer.prepare:
            answer(writer, call)
        answer(writer, run.peer.store(0, first))
        found(run, reader, first)
        for number, text in enumerate(rest, 1):
            answer(writer, run.peer.store(number, text))
            measured.append(lag(run, reader, text))
            if measured.count(None) == GIVEN_UP_AFTER:
                break
    return measured


def lag(run: Run, reader: Client, text: str) -> float | None:
    begin = time.perf_counter()
    while time.perf_counter() - begin < LAG_SECONDS:
        if found(run, reader, text):
            return time.perf_counter() - begin
    return None
