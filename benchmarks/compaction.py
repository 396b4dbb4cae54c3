"""How much shorter a session's log becomes, how long that takes, and what of it can still be read and found.

    python -m benchmarks.compaction [--sizes 50000,200000] [--runs 1] [--load]

Sessions of coding agents made from a seed (`benchmarks.sessions`), stored as a client would and compacted in a window
that they fill by nine tenths, without a language model. Beside that, on the same logs: dropping the oldest until as few
tokens are left, masking tool output alone, and one summary alone. Storing takes longest, a minute for 200,000 tokens
and some for 1,000,000. `--load` measures other calls while the largest log is compacted.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import threading
from collections.abc import Callable, Collection, Generator, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field, replace
from itertools import count, cycle
from pathlib import Path
from statistics import mean, quantiles
from typing import TYPE_CHECKING

import psutil
from rich.console import Console
from rich.table import Table

from benchmarks.session_talk import PROBE_KINDS, ProbeKind
from benchmarks.sessions import MadeSession, Probe, made_session
from benchmarks.speed import ms, seconds
from benchmarks.survival import EXACT, Share, found_by_kind, newest, surviving, together
from mcp_memory.app import App, open_app, token_counter
from mcp_memory.domain.model.records import NewRecord
from mcp_memory.domain.model.scopes import Caller
from mcp_memory.domain.model.session_log import PassName, SessionLog
from mcp_memory.domain.retrieval.queries import Vector
from mcp_memory.encoders.embed_minilm import MiniLMEmbedder
from mcp_memory.entrypoints.server.upkeep import SWITCH_SECONDS
from mcp_memory.ports.session_logs import PassRun
from mcp_memory.services.retrieval.recall import RecallRequest
from mcp_memory.services.sessions.compact import Compacted, CompactRequest
from mcp_memory.settings import load_settings

if TYPE_CHECKING:
    from mcp_memory.ports.text import Vectors

ENCODING = "o200k_base"
SEED = 5
ROOM = 1.1
"""The window, as a multiple of the session: it is full by 91 %."""
SESSION = "made"
BATCH = 500
LIMIT, ANSWER_TOKENS = 10, 200_000
WATCH_SECONDS = 0.005
IDLE_CALLS, LOAD_ROUNDS = 40, 3
_COMPACTED, _DROPPED = "compacted", "oldest dropped, to as few tokens"
_ALONE: Mapping[str, tuple[PassName, ...]] = {
    "masking alone": ("mask",),
    "one extractive summary alone": ("threshold",),
}


class CountingEmbedder:
    """Implements `Embedder`: the real one, with the number of texts that it was given."""

    def __init__(self) -> None:
        self._embedder = MiniLMEmbedder()
        self.texts = 0

    @property
    def id(self) -> str:
        return self._embedder.id

    @property
    def dimensions(self) -> int:
        return self._embedder.dimensions

    def embed(self, text: str) -> Vectors:
        self.texts += 1
        return self._embedder.embed(text)

    def embed_many(self, texts: Sequence[str]) -> Sequence[Vectors]:
        self.texts += len(texts)
        return self._embedder.embed_many(texts)

    def embed_query(self, text: str) -> Vector:
        self.texts += 1
        return self._embedder.embed_query(text)

    def share_known(self, text: str) -> float:
        return self._embedder.share_known(text)


@dataclass(frozen=True, slots=True, kw_only=True)
class Way:
    """A way to make a log shorter: the tokens left, and the probes that can still be read, by kind."""

    tokens: int
    read: Mapping[ProbeKind, Share]


@dataclass(frozen=True, slots=True, kw_only=True)
class Figures:
    """What was measured of one session. `asked` are probes found by their question, `found` also by their own text.

    Times in seconds; `calls` are those of other calls by what they are, idle and while the log was compacted.
    """

    tokens: int
    counting: float
    compacting: float
    grown_bytes: int
    embedded: int
    runs: Sequence[PassRun]
    ways: Mapping[str, Way]
    asked: Mapping[ProbeKind, Share]
    found: Mapping[ProbeKind, Share]
    calls: Mapping[str, tuple[list[float], list[float]]] = field(
        default_factory=dict[str, tuple[list[float], list[float]]]
    )


def main() -> None:
    """Measure each size and print the tables."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--sizes", default="50000,200000", help="tokens of the session, comma-separated")
    parser.add_argument("--runs", type=int, default=1, help="sessions of each size")
    parser.add_argument("--load", action="store_true", help="other calls while the largest is compacted, as well")
    arguments = parser.parse_args()
    sizes = sorted(int(text) for text in arguments.sizes.split(","))
    console = Console(width=150)
    for size in sizes:
        figures = [
            measured(size, SEED + run, load=arguments.load and size == sizes[-1]) for run in range(arguments.runs)
        ]
        for table in (ways_table(size, figures), costs_table(size, figures), passes_table(figures[0])):
            console.print(table)


def measured(size: int, seed: int, *, load: bool) -> Figures:
    """Everything about one session."""
    counter, embedder = token_counter(ENCODING), CountingEmbedder()
    session = made_session(size, seed, counter.count)
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        settings = load_settings(data_dir=Path(folder), namespace="benchmark", semantic_store="exact")
        with closing(open_app(settings, embedder=embedder)) as app:
            bench = Bench(app=app, caller=app.caller(SESSION), session=session)
            bench.store()
            app.warm()
            whole = bench.log()
            figures = bench.compacted(embedder)
            others = {_DROPPED: _way(newest(whole, figures.ways[_COMPACTED].tokens), session)}
            bench.undo()
            others |= {name: bench.alone(passes) for name, passes in _ALONE.items()}
            calls = bench.under_load() if load else {}
            return replace(figures, ways={**figures.ways, **others}, calls=calls)


@dataclass(frozen=True, slots=True, kw_only=True)
class Bench:
    """A session in a store."""

    app: App
    caller: Caller
    session: MadeSession

    @property
    def request(self) -> CompactRequest:
        return CompactRequest(window=int(ROOM * self.session.tokens), preset="default", summarizer="extractive")

    def store(self) -> None:
        for start in range(0, len(self.session.records), BATCH):
            self.app.remember(self.session.records[start : start + BATCH], self.caller)

    def log(self) -> SessionLog:
        return self.app.logs.log(self.caller)

    def compact(self, request: CompactRequest | None = None) -> Compacted:
        return self.app.compact(request or self.request, self.caller)

    def undo(self) -> None:
        self.compact(replace(self.request, undo=True))

    def compacted(self, embedder: CountingEmbedder) -> Figures:
        """The log compacted as usual, and what is left to read and to find."""
        counting = seconds(self._count)
        embedded, made = embedder.texts, list[Compacted]()
        with watched() as grown:
            compacting = seconds(lambda: made.append(self.compact()))
        embedded = embedder.texts - embedded
        return Figures(
            tokens=self.session.tokens,
            counting=counting,
            compacting=compacting,
            grown_bytes=grown[-1],
            embedded=embedded,
            runs=made[0].runs,
            ways={_COMPACTED: _way(self.log(), self.session)},
            asked=found_by_kind(self.session.probes, lambda probe: self.finds(probe, probe.question)),
            found=found_by_kind(
                self.session.probes, lambda probe: self.finds(probe, probe.question) or self.finds(probe, probe.text)
            ),
        )

    def alone(self, passes: tuple[PassName, ...]) -> Way:
        """What these passes alone leave; the log is whole again afterwards."""
        made = self.compact(replace(self.request, passes=passes, force=True))
        way = _way(self.log(), self.session)
        if made.number is not None:
            self.undo()
        return way

    def finds(self, probe: Probe, query: str) -> bool:
        """Whether one of ten results holds the probe's text."""
        request = RecallRequest(query=query, limit=LIMIT, detail="full", max_tokens=ANSWER_TOKENS)
        return any(probe.text in str(result["text"]) for result in self.app.recall(request, self.caller).results)

    def under_load(self) -> dict[str, tuple[list[float], list[float]]]:
        """Seconds of other calls, idle and for as long as a compaction of the log takes, in turn."""
        sys.setswitchinterval(SWITCH_SECONDS)  # As a server does.
        calls = self._other_calls()
        idle: dict[str, list[float]] = {name: [] for name in calls}
        busy: dict[str, list[float]] = {name: [] for name in calls}
        for _ in range(LOAD_ROUNDS):
            self._settle()
            for _ in range(IDLE_CALLS):
                for name, call in calls.items():
                    idle[name].append(seconds(call))
            compaction = threading.Thread(target=self.compact)
            compaction.start()
            for name in cycle(calls):
                busy[name].append(seconds(calls[name]))
                if not compaction.is_alive():
                    break
            compaction.join()
            self.undo()
        return {name: (idle[name], busy[name]) for name in calls}

    def _settle(self) -> None:
        """Embed what compactions extracted: the next calls that remember would do it otherwise."""
        while self.app.reindex.catch_up():
            pass

    def _other_calls(self) -> Mapping[str, Callable[[], object]]:
        questions = cycle(probe.question for probe in self.session.probes)
        numbers, other = count(), self.app.caller("another")
        return {
            "recall": lambda: self.app.recall(RecallRequest(query=next(questions)), other),
            "remember": lambda: self.app.remember([_note(next(numbers))], other),
        }

    def _count(self) -> None:
        """Each text once, by a counter that has met none of them."""
        counter = token_counter(ENCODING)
        for record in self.session.records:
            counter.count(record.text)


BOUNDED_SIZE = 60_000
"""Tokens up to which a compaction without a model is to take 5 seconds at most."""


@contextmanager
def watched() -> Generator[list[int]]:
    """The most bytes by which the process has grown meanwhile; the last of them, once it is over."""
    process, over, grown = psutil.Process(), threading.Event(), [0]
    before = process.memory_info().rss

    def watch() -> None:
        while not over.wait(WATCH_SECONDS):
            grown[-1] = max(grown[-1], process.memory_info().rss - before)

    watcher = threading.Thread(target=watch)
    watcher.start()
    try:
        yield grown
    finally:
        over.set()
        watcher.join()


def ways_table(size: int, figures: Sequence[Figures]) -> Table:
    """What each way leaves, and the share of the probes that can be read in it; means over the sessions."""
    kinds: list[ProbeKind] = [kind for kind in PROBE_KINDS if any(kind in each.found for each in figures)]
    table = Table("way", "tokens", "saved", "exact", "all", *kinds, title=f"{size:,} tokens: what can still be read")
    for name in figures[0].ways:
        ways = [each.ways[name] for each in figures]
        saved = mean(1 - way.tokens / each.tokens for way, each in zip(ways, figures, strict=True))
        table.add_row(name, f"{mean(way.tokens for way in ways):,.0f}", f"{100 * saved:.1f} %",
                      *_shares([way.read for way in ways], kinds))  # fmt: skip
    for name, shares in (
        ("by recall, asked for", [each.asked for each in figures]),
        ("by recall, asked for or by its text", [each.found for each in figures]),
    ):
        table.add_row(name, "", "", *_shares(shares, kinds))
    return table


def _shares(runs: Sequence[Mapping[ProbeKind, Share]], kinds: Sequence[ProbeKind]) -> Iterator[str]:
    """The shares of the exact ones, of all and of each kind, over all runs."""
    wanteds: list[Collection[ProbeKind]] = [EXACT, kinds, *([kind] for kind in kinds)]
    for wanted in wanteds:
        shares = [together(run, wanted) for run in runs]
        yield str(Share(found=sum(each.found for each in shares), of=sum(each.of for each in shares)))


def costs_table(size: int, figures: Sequence[Figures]) -> Table:
    """What compaction took; the worst of the sessions."""
    table = Table("what", "measured", "bound", title=f"{size:,} tokens: what it takes")
    worst = max(figures, key=lambda each: each.compacting)
    table.add_row("compaction", ms(worst.compacting), "<= 5 s" if size <= BOUNDED_SIZE else "")
    table.add_row("counting the log's tokens once", ms(worst.counting))
    table.add_row("compaction : counting", f"{max(each.compacting / each.counting for each in figures):.2f}")
    table.add_row("the process grew by", f"{max(each.grown_bytes for each in figures) / 2**20:.0f} MiB")
    table.add_row("texts embedded", f"{max(each.embedded for each in figures):,}")
    for name, (idle, busy) in worst.calls.items():
        alone, meanwhile = (quantiles(times, n=20)[-1] for times in (idle, busy))
        table.add_row(f"p95 of {name}, idle; meanwhile ({len(busy)} calls)", f"{ms(alone)}; {ms(meanwhile)}")
        table.add_row(f"p95 of {name} meanwhile : idle", f"{meanwhile / alone:.2f}", "<= 3")
    return table


def passes_table(figures: Figures) -> Table:
    """What each pass did and how long it took, in the first session."""
    table = Table("pass", "saved", "replacements", "took", "why, or why not")
    for run in figures.runs:
        saved = f"{run.tokens_before - run.tokens_after:,}"
        table.add_row(run.name, saved, f"{run.replaced:,}", ms(run.milliseconds / 1_000), run.error or run.reason)
    return table


def _way(log: SessionLog, session: MadeSession) -> Way:
    return Way(tokens=log.tokens, read=surviving(log, session.probes))


def _note(number: int) -> NewRecord:
    return NewRecord(text=f"Note {number} of somebody else's, while a log is compacted.", kind="message", role="user")


if __name__ == "__main__":
    main()
