"""What an imported record costs, by how many there are: the largest size beside the smallest.

    python -m benchmarks.imports [--sizes 1000,60000] [--ways restored,merged] [--embedding really]

CPU a record of each way in (an exported memory into an empty one and into another, another server's file), of the
upkeep of a memory that came without vectors, and of `reindex`. Each is measured in a process of its own that did the
same with a few records before, so that the start does not count. Embedding takes most of an import, and as long for
each of many texts as of few: unless it is done really, words are counted into vectors, which costs next to nothing.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias
from zlib import crc32

import numpy as np
from rich.console import Console
from rich.table import Table

from benchmarks.filling import fill
from benchmarks.texts import memories
from mcp_memory import extensions
from mcp_memory.app import open_app, token_counter
from mcp_memory.domain.model.lifecycle import DAY_SECONDS
from mcp_memory.domain.retrieval.queries import Vector
from mcp_memory.entrypoints.cli import app as command_line
from mcp_memory.entrypoints.transfer.memory_file import MemoryFile, write_memory
from mcp_memory.settings import load_settings

if TYPE_CHECKING:
    from mcp_memory.ports.text import Vectors

FEW = 10
"""Records that each process begins with."""
EXPORTED, FOREIGN = "exported.jsonl", "reference.jsonl"


class CountedWords:
    """An embedder that costs next to nothing: each word counts in one of its dimensions."""

    def __init__(self, dimensions: int = 384) -> None:
        self.dimensions = dimensions
        self.id = f"counted-words-{dimensions}"

    def embed(self, text: str) -> Vectors:
        return self.embed_query(text)[np.newaxis]

    def embed_many(self, texts: Sequence[str]) -> list[Vectors]:
        return [self.embed(text) for text in texts]

    def embed_query(self, text: str) -> Vector:
        places = [crc32(word.encode()) % self.dimensions for word in text.lower().split()]
        counts = np.bincount(places, minlength=self.dimensions).astype(np.float32)
        return counts / (np.linalg.norm(counts) or np.float32(1))

    def share_known(self, text: str) -> float:
        return 1.0


Act: TypeAlias = Callable[[Path], None]
Way: TypeAlias = tuple[Act | None, Act]
"""What is done to the memory of the present settings, with a folder of files: before the clock runs, and while."""


def main() -> None:
    """Measure every way at each size, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--sizes", default="1000,60000", help="records, comma-separated")
    parser.add_argument("--ways", default=",".join(WAYS), help="comma-separated")
    parser.add_argument("--embedding", choices=("counted", "really"), default="counted")
    parser.add_argument("--measure", nargs=2, metavar=("WAY", "FOLDER"), help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    if chosen.measure:
        print(json.dumps(measured(*chosen.measure, really=chosen.embedding == "really")))
        return
    sizes = sorted(int(text) for text in chosen.sizes.split(","))
    ways: Sequence[str] = chosen.ways.split(",")
    figures = [all_of(size, ways, chosen.embedding) for size in sizes]
    table = Table("", *(f"{size:,} records" for size in sizes), "ratio", title="CPU a record (most memory)")
    for way in ways:
        shown = (
            f"{milliseconds:.2f} ms ({memory:.0f} MiB)" for milliseconds, memory in (each[way] for each in figures)
        )
        table.add_row(way, *shown, f"{figures[-1][way][0] / figures[0][way][0]:.2f}")
    Console(width=120).print(table)


def all_of(size: int, ways: Sequence[str], embedding: str) -> Mapping[str, tuple[float, float]]:
    """Return the milliseconds a record of each way with so many records, and the most memory in MiB."""
    program = (sys.executable, "-m", "benchmarks.imports", "--embedding", embedding, "--measure")
    costs: dict[str, tuple[float, float]] = {}
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        make_files(Path(folder, "few"), FEW)
        make_files(Path(folder, "many"), size)
        for way in ways:
            ran = subprocess.run((*program, way, folder), stdout=subprocess.PIPE, check=True)
            seconds, memory = json.loads(ran.stdout.splitlines()[-1])
            costs[way] = 1000 * seconds / size, memory
    return costs


def make_files(folder: Path, size: int) -> None:
    """Write so many memories as an exported memory and as a file of the reference server."""
    items = memories(size, seed=17)
    settings = load_settings(data_dir=folder / "source", namespace="benchmark")
    last_month = time.time() - 30 * DAY_SECONDS  # What happened lately is looked at for other reasons too.
    with (
        closing(open_app(settings, lambda: last_month, CountedWords(1))) as app,
        (folder / EXPORTED).open("wb") as file,
    ):
        fill(app.records, items, np.ones((size, 1), np.float32), app.caller(), token_counter("o200k_base"))
        write_memory(app.moving.leave(), file, lambda done, total: None)
    with (folder / FOREIGN).open("w", encoding="utf-8") as file:
        for place, item in enumerate(items):
            entity = {"type": "entity", "name": f"Note {place}", "entityType": "note", "observations": [item.text]}
            file.write(f"{json.dumps(entity)}\n")


def measured(name: str, folder: str, *, really: bool) -> tuple[float, float]:
    """Go a way with few records, then with many; return the latter's CPU seconds and the most memory in MiB."""
    if not really:
        extensions.embedder = lambda settings: CountedWords()
    (prepare, go), taken = WAYS[name], 0.0
    for files in (Path(folder, "few"), Path(folder, "many")):
        os.environ |= {"MCP_MEMORY_DATA_DIR": str(files / name), "MCP_MEMORY_NAMESPACE": "benchmark"}
        if prepare:
            prepare(files)
        started = time.process_time()
        go(files)
        taken = time.process_time() - started
    return taken, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def run(*arguments: str) -> None:
    """Run a command of the command line in this process."""
    command_line([*arguments], standalone_mode=False)


def restore_without_vectors(files: Path) -> None:
    """Import into an empty memory, and embed nothing."""
    with closing(open_app(load_settings())) as app, (files / EXPORTED).open("rb") as file:
        app.records.transfer().enter(MemoryFile(file, EXPORTED).pieces(lambda done, total: None))


def embed_otherwise(files: Path) -> None:
    """Import into an empty memory, with vectors of another embedder."""
    restore_without_vectors(files)
    with closing(open_app(load_settings(), embedder=CountedWords(100))) as app:
        app.reindex(0, lambda done, total: None)


def keep_up(files: Path) -> None:
    """Take every step of upkeep that there is."""
    with closing(open_app(load_settings(semantic_store="exact"))) as app:
        while app.keep_up():
            pass


def add_one(files: Path) -> None:
    """Begin a memory."""
    run("add", "Here already.")


def import_exported(files: Path) -> None:
    """Import into whatever memory there is."""
    run("import", str(files / EXPORTED))


def import_foreign(files: Path) -> None:
    """Import a file of the reference server."""
    run("import", str(files / FOREIGN), "--from", "reference")


def reindex(files: Path) -> None:
    """Embed everything again."""
    run("reindex")


WAYS: Mapping[str, Way] = {
    "restored": (None, import_exported),
    "merged": (add_one, import_exported),
    "foreign": (None, import_foreign),
    "upkeep": (restore_without_vectors, keep_up),
    "reindex": (embed_otherwise, reindex),
}

if __name__ == "__main__":
    main()
