"""No text costs more than linear time: texts made to stop a server, doubled up to a million characters.

    python -m benchmarks.hostile [--only WORD] [--rounds 5] [--seconds 20]

Prints for each operation that reads foreign text its costliest one, and the worst ratio of a doubling by CPU time; so
for every pattern of the package. Ends with 1 where a ratio is above 2.5. The embedder is a stand-in: what the real one
reads of a text is bounded, and would hide the rest.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass
from itertools import count, pairwise
from pathlib import Path

import numpy
from rich.console import Console
from rich.table import Table

from benchmarks.backtracking import steps
from benchmarks.patterns import Written, written_patterns
from benchmarks.pumps import Pump, pumps
from mcp_memory.app import App, open_app, token_counter
from mcp_memory.domain.memory import echoes, harness
from mcp_memory.domain.model.records import NewRecord
from mcp_memory.domain.model.session_log import Entry
from mcp_memory.domain.retrieval.queries import Vector
from mcp_memory.domain.sessions import ledger
from mcp_memory.domain.sessions.summary import parsed
from mcp_memory.domain.sessions.tool_outputs import is_said, remains_of
from mcp_memory.domain.sessions.unsupported_values import invented
from mcp_memory.domain.text import (
    entity_extraction,
    exact_values,
    intent,
    prompt_safety,
    segments,
    times,
    words,
)
from mcp_memory.domain.text.micro_and_summary import short_forms
from mcp_memory.entrypoints.conversations.transcripts import read_transcript
from mcp_memory.entrypoints.server.json_lines import parse_message
from mcp_memory.entrypoints.transfer.importers import IMPORTERS
from mcp_memory.errors import InvalidRequest
from mcp_memory.language.dates_dateparser import DateParserReader
from mcp_memory.language.secrets_re2 import SecretRedactor
from mcp_memory.ports.text import Vectors
from mcp_memory.services.retrieval.recall import RecallRequest
from mcp_memory.services.sessions.compact import CompactRequest
from mcp_memory.settings import load_settings

MOST = 1_000_000
SMALLEST = MOST // 8
HIGHEST_RATIO = 2.5
NOTICED_SECONDS = 0.2
"""A shorter time says nothing about a ratio."""
PERIODS = 20
QUERY = 100_000
"""Characters of the longest query that a tool takes."""

UNITS: Mapping[str, str] = {
    **{f"{sign!r} and nothing else": sign for sign in "a1A \n\t.,:;-_/\\'\"`*#|(){}[]<>=+@$%&!?~"},
    "nul": "\0",
    "vertical tabs": "\v",
    "zero width": "\u200b",
    "accents": "\u0301",
    "accents above and below": "\u0301\u0323",
    "words": "word ",
    "a sentence": "We use Postgres now, since SQLite was too slow. ",
    "distinct words": "",
    "decisions": "We decided to use X because of Y. ",
    "rules": "You must never do x1. ",
    "names": "Ada Lovelace ",
    "dotted": "a.",
    "dashed": "a-",
    "slashed": "a/",
    "underscored": "a_b",
    "camel": "aB",
    "numbers": "1 ",
    "grouped digits": "1.2,",
    "hashes": "deadbeef1 ",
    "settings": "x=1 ",
    "labels": "a: b ",
    "quoted": '"a" ',
    "ticked": "`a` ",
    "links": "[a](",
    "brackets": "(a) ",
    "bold": "**a** ",
    "headings": "# a\n",
    "items": "- a\n",
    "rows": "| a | b |\n",
    "json": '{"a": 1}\n',
    "json that opens": '{"a":',
    "frames": '  File "a.py", line 1, in f\n',
    "errors": "ValueError: x\n",
    "distinct errors": "",
    "han": "数据库",
    "han sentences": "好。",
    "emoji": "✓ A",
    "addresses": "http://a.b/c ",
    "mail": "a@b.c ",
    "issues": "a#1 ",
    "paths": "/a/b ",
    "code": "def f(x):\n    return 1\n",
    "keys": "sk-",
    "passwords": "password=",
    "more passwords": "password=hunter2x ",
    "key names": "api_key:",
    "old keys": "sk-T3BlbkFJ",
    "credentials": "://a:b@c ",
    "private keys": "-----BEGIN PRIVATE KEY-----\n",
    "fences": "```\n",
    "contexts": '<memory-context id="c1">\n',
    "ends of contexts": "</memory-context>\n",
    "redacted": "[REDACTED x]",
    "masks": "[TOOL OUTPUT ARCHIVED id=1 ",
    "dates": "2026-11-22 ",
    "times": "yesterday in May ",
    "listings": "a.py:12: x\n",
    "colours": "\x1b[0m",
    "diffs": "+++ b/x\n",
    "clauses": ", which is x",
    "dashes": " -- a",
    "carriage returns": "\r\n",
    "labels of ours": "[r0abcde1] ",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """Of one operation on one text: seconds at its largest size, and the worst ratio of a doubling."""

    name: str
    unit: str
    seconds: float
    ratio: float


class OneVector:
    """Implements `Embedder`: the same vector for every text."""

    id = "one-vector-8"
    dimensions = 8

    def embed(self, text: str) -> Vectors:
        return self.embed_query(text)[numpy.newaxis]

    def embed_many(self, texts: Sequence[str]) -> Sequence[Vectors]:
        return [self.embed(text) for text in texts]

    def embed_query(self, text: str) -> Vector:
        return numpy.full(self.dimensions, self.dimensions**-0.5, numpy.float32)

    def share_known(self, text: str) -> float:
        return 1.0


def main() -> None:
    """Measure everything and print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--only", default="", help="operations and patterns whose name holds this")
    parser.add_argument("--rounds", type=int, default=5, help="how often a ratio that is too high is measured again")
    parser.add_argument("--seconds", type=float, default=20.0, help="a text that costs more is not doubled again")
    arguments = parser.parse_args()
    console = Console(width=130, markup=False)
    table = Table("what", "seconds at most", "worst doubling")
    worst = 0.0
    with tempfile.TemporaryDirectory() as folder:
        for costs in _measured(Path(folder), arguments.only, arguments.rounds, arguments.seconds):
            slowest, steepest = max(costs, key=lambda each: each.seconds), max(costs, key=lambda each: each.ratio)
            row = (f"{slowest.seconds:.2f} ({slowest.unit})", f"{steepest.ratio:.2f} ({steepest.unit})")
            table.add_row(slowest.name, *row)
            console.print(slowest.name, *row)
            worst = max(worst, steepest.ratio)
    console.print(table)
    console.print(f"worst doubling {worst:.2f} (<= {HIGHEST_RATIO})")
    sys.exit(worst > HIGHEST_RATIO)


def _measured(folder: Path, only: str, rounds: int, seconds: float) -> Iterator[list[Cost]]:
    for name, (operation, most) in {**_functions(), **_readers(folder)}.items():
        if only in name:
            yield [_cost(name, unit, _made(unit), operation, most, rounds, seconds) for unit in UNITS]
    with closing(_memory(folder / "memory")) as app:
        for name, (operation, most) in _services(app).items():
            if only in name:
                yield [_cost(name, unit, _made(unit), operation, most, rounds, seconds) for unit in UNITS]
    for written in written_patterns()[0]:
        if only in written.place:
            pump = max(pumps(written.pattern), key=lambda each: steps(written.pattern, each.text(PERIODS)))
            yield [_cost(written.place, repr(pump.period)[:40], _pumped(pump), _used(written), MOST, rounds, seconds)]


def _cost(
    name: str,
    unit: str,
    made: Callable[[int], str],
    operation: Callable[[str], object],
    most: int,
    rounds: int,
    seconds: float,
) -> Cost:
    """The smallest of some rounds counts, since anything else that runs makes a time longer, and none shorter."""
    least: dict[int, float] = {}
    for attempt in range(rounds):
        size = most // 8
        while size <= most:
            least[size] = min(_seconds(operation, made(size)), least.get(size, seconds * 10))
            if least[size] > seconds:
                break
            size *= 2
        if _ratio(least) <= HIGHEST_RATIO or attempt == rounds - 1:
            break
    return Cost(name=name, unit=unit, seconds=max(least.values()), ratio=_ratio(least))


def _ratio(least: Mapping[int, float]) -> float:
    doublings = pairwise(least[size] for size in sorted(least))
    return max((later / sooner for sooner, later in doublings if later > NOTICED_SECONDS), default=0.0)


def _seconds(operation: Callable[[str], object], given: str) -> float:
    start = time.process_time()
    operation(given)
    return time.process_time() - start


def _made(unit: str) -> Callable[[int], str]:
    if unit == "distinct words":
        return lambda size: " ".join(f"word{number:x}" for number in range(size // 9))[:size]
    if unit == "distinct errors":
        return lambda size: "".join(f"ValueError: in {number:x} it broke\n" for number in range(size // 30))[:size]
    return lambda size: (UNITS[unit] * (size // len(UNITS[unit]) + 1))[:size]


def _pumped(pump: Pump) -> Callable[[int], str]:
    return lambda size: pump.text(size // len(pump.period))


def _used(written: Written) -> Callable[[str], object]:
    pattern = written.pattern

    def search(given: str) -> None:
        for _ in pattern.finditer(given):
            pass

    uses = {"search": search, "match": pattern.match, "fullmatch": pattern.fullmatch}
    return lambda given: [uses[method](given) for method in written.methods]


def _functions() -> Mapping[str, tuple[Callable[[str], object], int]]:
    counter = token_counter("o200k_base")
    redactor, dates = SecretRedactor(), DateParserReader()
    everything: Mapping[str, Callable[[str], object]] = {
        "redact": redactor.redact,
        "tokens": counter.count,
        "short forms": lambda given: short_forms(given, counter.count, counter.truncate),
        "pieces": segments.segments_of,
        "exact values": exact_values.exact_in,
        "files hit": exact_values.files_hit,
        "values": lambda given: ledger.values_in(given, 8),
        "unsupported claims": lambda given: invented(given, [given]),
        "mentions": entity_extraction.found_entities,
        "names in a query": lambda given: list(entity_extraction.name_candidates(given)),
        "terms": words.packed_terms,
        "query terms": words.query_terms,
        "hashes": lambda given: (words.content_hash(given), words.normal_hash(given)),
        "time phrase": times.time_phrase,
        "date": lambda given: dates.read(given, 1.7e9),
        "strategy": intent.pick_strategy,
        "blocks": echoes.without_blocks,
        "echoes": echoes.strip_recalled,
        "harness": harness.heard,
        "neutral": prompt_safety.neutralise,
        "summary in sections": parsed,
        "tool output": lambda given: remains_of(_output(given)),
        "already said": lambda given: is_said("aa", [given]),
        "a request's line": lambda given: parse_message(json.dumps({"method": given}).encode()),
        "a broken line": lambda given: parse_message(given.encode()),
    }
    return {name: (operation, MOST) for name, operation in everything.items()}


def _readers(folder: Path) -> Mapping[str, tuple[Callable[[str], object], int]]:
    """What reads files: of other memory servers, and a client's transcripts."""
    notes = folder / "notes"
    notes.mkdir()

    def note(given: str) -> None:
        (notes / "a.md").write_text(given, "utf-8")
        list(IMPORTERS["basic-memory"](notes, None, Counter()))

    def graph(given: str) -> None:
        file = folder / "memory.jsonl"
        told = {"type": "entity", "name": given[:100], "entityType": "x", "observations": [given]}
        file.write_text(json.dumps(told) + "\n", "utf-8")
        list(IMPORTERS["reference"](file, None, Counter()))

    def transcript(given: str) -> None:
        file = folder / "transcript.jsonl"
        line = {"type": "user", "uuid": "1", "message": {"role": "user", "content": given}}
        file.write_text(json.dumps(line) + "\n", "utf-8")
        with suppress(InvalidRequest):  # For what is blank there is nothing to read.
            read_transcript(file)

    readers = {"import of a note": note, "import of a graph": graph, "transcript": transcript}
    return {name: (operation, MOST) for name, operation in readers.items()}


def _memory(folder: Path) -> App:
    return open_app(load_settings(data_dir=folder, namespace="hostile"), embedder=OneVector())


def _services(app: App) -> Mapping[str, tuple[Callable[[str], object], int]]:
    number = count(1)
    app.remember([NewRecord(text="The billing service uses Postgres.")], app.caller("first"))

    def remember(given: str) -> None:
        each = next(number)
        app.remember([NewRecord(text=f"{each} {given}")], app.caller(f"remember-{each}"))

    def recall(given: str) -> None:
        app.recall(RecallRequest(query=given), app.caller("first"))

    def compact(given: str) -> None:
        caller = app.caller(f"compact-{next(number)}")
        app.feed(_session(f"1 failed {given}"), caller)
        app.compact(CompactRequest(window=8_000, force=True), caller)

    return {"remember": (remember, MOST), "recall": (recall, QUERY), "compact": (compact, MOST)}


def _session(given: str) -> Iterator[NewRecord]:
    """A long output, then enough talk that it is neither the last nor the only thing."""
    yield NewRecord(text="Run the tests.", kind="message", role="user")
    yield NewRecord(text='{"command": "pytest"}', kind="tool_call", role="assistant", tool="bash", call_id="1")
    yield NewRecord(text=given, kind="tool_result", role="tool", tool="bash", call_id="1")
    for turn in range(20):
        yield NewRecord(text=f"Now look at file {turn}.", kind="message", role="user")
        yield NewRecord(text=f"File {turn} is fine. " * 20, kind="message", role="assistant")


def _output(given: str) -> Entry:
    return Entry(
        id="r1",
        kind="tool_result",
        role="tool",
        text=given,
        tokens=1,
        at=0.0,
        covers=("r1",),
        original_tokens=1,
        failed=True,
    )


if __name__ == "__main__":
    main()
