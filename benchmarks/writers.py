"""Writers of one memory in PostgreSQL: how many commits a second, in one partition, in many, and one after the other?

    python -m benchmarks.writers [--writers 16] [--partitions 200] [--seconds 8]

Each writer is a process with a store of its own, and stores a record a write, in a namespace that is drawn anew. "One
after the other" is the same with a lock for all, as an erasure takes it. A follower asks every 5 ms which partitions
changed, and reads what did. Ends with 1 where it missed anything acknowledged, or read anything twice.
"""

from __future__ import annotations

import argparse
import multiprocessing
import random
import sys
import tempfile
import time
from contextlib import closing
from dataclasses import replace
from multiprocessing.connection import Connection
from multiprocessing.synchronize import Barrier, Event
from pathlib import Path

import numpy as np

from benchmarks.postgres_clusters import Cluster
from mcp_memory.domain.model.ids import RECORD
from mcp_memory.domain.model.records import Record
from mcp_memory.domain.model.scopes import Caller, partition_of
from mcp_memory.stores.records.store_postgres import PostgresRecordStore

FOLLOWED_EVERY_SECONDS = 0.005
TEXT = "The pump of pier seven is checked by night, because its valve was found open twice this week. " * 4
RECORD_OF = Record(
    id="", scope="", namespace="", visibility="shared", agent="ann", session_id="s1", task_id=None, branch_id=None,
    kind="fact", text=TEXT, summary=TEXT, micro="", text_tokens=80, summary_tokens=80, micro_tokens=1, importance=1.0,
    confidence=None, status="new", outcome=None, pinned=False, tags=(), details={}, speaker=None, role=None, tool=None,
    call_id=None, superseded_by=None, created_at=1.0, updated_at=1.0, accessed_at=1.0, occurred_at=1.0,
)  # fmt: skip
_processes = multiprocessing.get_context("fork")


def names(partitions: int) -> list[str]:
    return [f"project{number}" for number in range(partitions)]


def put(store: PostgresRecordStore, namespace: str, *, alone: bool, has_vector: bool = False) -> str:
    with store.write(Caller(namespace=namespace, agent="ann", session_id="s1"), alone=alone) as transaction:
        record_id = transaction.next_id(RECORD)
        record = replace(RECORD_OF, id=record_id, namespace=namespace, scope=f"shared/{namespace}")
        vectors = np.ones((1, 4), np.float32) if has_vector else None
        transaction.insert(record, vectors, (), ())
    return record_id


def write(url: str, seed: int, partitions: int, alone: bool, begin: Barrier, end: Event, answers: Connection) -> None:
    drawn, made, namespaces = random.Random(seed), list[str](), names(partitions)
    with closing(PostgresRecordStore(url, "model")) as store:
        put(store, "first", alone=alone)  # It is connected.
        begin.wait()
        while not end.is_set():
            made.append(put(store, drawn.choice(namespaces), alone=alone))
    answers.send(made)


def follow(url: str, partitions: int, end: Event, answers: Connection) -> None:
    seen, applied = list[str](), {partition_of(f"shared/{name}"): 0 for name in names(partitions)}
    with closing(PostgresRecordStore(url, "model")) as store:
        while True:
            is_last = end.is_set()
            with store.snapshot():
                for name, place in store.revisions(applied).items():
                    if place.revision != applied[name]:
                        for columns in store.index_rows("places", applied[name], partition=name):
                            seen.extend(columns["id"])
                        applied[name] = place.revision
            if is_last:
                break
            time.sleep(FOLLOWED_EVERY_SECONDS)
    answers.send(seen)


def measure(url: str, writers: int, partitions: int, seconds: float, *, alone: bool) -> tuple[float, int, int]:
    """Return commits a second, and the records that the follower missed and read twice."""
    begin, end, last = _processes.Barrier(writers + 1), _processes.Event(), _processes.Event()
    pipes = [_processes.Pipe(duplex=False) for _ in range(writers + 1)]
    *sending, told = [pipe[1] for pipe in pipes]
    running = [
        _processes.Process(target=write, args=(url, seed, partitions, alone, begin, end, sends))
        for seed, sends in enumerate(sending)
    ]
    following = _processes.Process(target=follow, args=(url, partitions, last, told))
    for process in (*running, following):
        process.start()
    begin.wait()
    time.sleep(seconds)
    end.set()
    made = [record_id for pipe in pipes[:-1] for record_id in pipe[0].recv()]
    last.set()
    seen = pipes[-1][0].recv()
    return len(made) / seconds, len(set(made) - set(seen)), len(seen) - len(set(seen))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    for name, default in (("writers", 16), ("partitions", 200), ("seconds", 8)):
        parser.add_argument(f"--{name}", type=int, default=default)
    given, faults = parser.parse_args(), 0
    arms = (
        ("one after the other", given.partitions, True),
        ("in one partition", 1, False),
        (f"in {given.partitions} partitions", given.partitions, False),
    )
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o755)
        cluster = Cluster(Path(folder) / "cluster")
        cluster.create()
        cluster.start()
        try:
            for number, (what, partitions, alone) in enumerate(arms):
                cluster.ask(f"CREATE DATABASE memory{number}")
                url = cluster.url.removesuffix("postgres") + f"memory{number}"
                with closing(PostgresRecordStore(url, "model")) as store:
                    put(store, "first", alone=True, has_vector=True)
                rate, missed, twice = measure(url, given.writers, partitions, given.seconds, alone=alone)
                print(f"{what}: {rate:.0f} commits a second; missed {missed}, twice {twice}", flush=True)
                faults += missed + twice
        finally:
            cluster.kill()
    return int(faults > 0)


if __name__ == "__main__":
    sys.exit(main())
