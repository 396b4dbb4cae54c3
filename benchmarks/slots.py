"""What summaries and extraction keep of whole sessions that somebody else wrote, with what was to be kept.

Run: python -m benchmarks.slots [--part dev|aside|aside2] [--verbose]

A third of the sessions was kept aside until the rules were done; `aside2` is by another writer, when that third had
been looked at three times.
"""

import argparse
import gzip
import json
import tempfile
import time
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from benchmarks.survival import as_log, newest
from mcp_memory.compaction.goal_batch import GoalBatch
from mcp_memory.compaction.mask_tool_output import MaskToolOutput
from mcp_memory.compaction.retell_tool_calls import RetellToolCalls
from mcp_memory.compaction.threshold import SUMMARY_OF_ORIGINALS, Threshold, body_of, span_over, summary_replacement
from mcp_memory.domain.memory.harness import without_harness
from mcp_memory.domain.model.ids import RECORD, make_id
from mcp_memory.domain.model.records import NewRecord
from mcp_memory.domain.model.session_log import PRESETS, Entry, SessionLog, Span, applied
from mcp_memory.domain.sessions.learnt import learnt_from
from mcp_memory.domain.sessions.summary import StructuredSummary, parsed
from mcp_memory.domain.text.summary_sections import Section
from mcp_memory.encoders.tokens_tiktoken import TiktokenCounter
from mcp_memory.entrypoints.conversations.transcripts import read_transcript
from mcp_memory.ports.text import SummaryRequest
from mcp_memory.services.sessions.summarize_span import body_over
from mcp_memory.summarizers.extractive import ExtractiveSummarizer

DATA = Path(__file__).parent / "data" / "sessions"
ROUNDS, FACTS = 5, 37
LONG_SESSION = 200_000
SECTIONS_OF: Mapping[str, tuple[Section, ...]] = {
    "goal": ("goal",),
    "instructions": ("instructions", "constraints", "goal"),
    "open_items": ("open_items", "in_progress", "next_steps"),
    "decisions": ("decisions", "constraints", "instructions"),
    "dead_ends": ("dead_ends", "fixes", "instructions"),
    "files": ("changes",),
    "fixes": ("fixes",),
    "values": (),
    "state": ("state",),
    "next": ("next_steps", "in_progress"),
}
"""The sections of a summary in which each kind of slot is looked for; a value may stand anywhere.

What the goal or a quoted order of the user's says is not told again.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Kept:
    """So many of so many."""

    right: int = 0
    of: int = 0

    def __add__(self, other: "Kept") -> "Kept":
        return Kept(right=self.right + other.right, of=self.of + other.of)

    def __str__(self) -> str:
        return f"{self.right:>4} of {self.of:>4}  {100 * self.right / self.of:5.1f} %" if self.of else "   -"


@dataclass(frozen=True)
class Case:
    """A session with what is to be kept of it."""

    told: Mapping[str, Any]
    counter: TiktokenCounter

    @property
    def expected(self) -> Mapping[str, Any]:
        return self.told["expected"]

    @cached_property
    def log(self) -> SessionLog:
        return as_log(records_of(self.told), self.counter)

    @cached_property
    def cut(self) -> SessionLog:
        """The first half, up to the place at which somebody else cut it."""
        half = {**self.told, "entries": self.told["entries"][: self.told["cut"]]}
        return as_log(records_of(half), self.counter)


def records_of(told: Mapping[str, Any]) -> list[NewRecord]:
    """A client's entries as a log stores them, without what the client adds."""
    with tempfile.NamedTemporaryFile("w", suffix=".jsonl") as file:
        file.write("\n".join(json.dumps(entry) for entry in told["entries"]))
        file.flush()
        return [without_harness(record) for record in read_transcript(Path(file.name)).records]


def stands(item: Mapping[str, Any], lines: Iterable[str]) -> bool:
    """One of the lines holds every word of one of the item's groups."""
    folded = [line.casefold() for line in lines]
    return any(all(word.casefold() in line for word in group) for group in item.get("any_of", ()) for line in folded)


def in_slots(case: Case, summary: StructuredSummary) -> Mapping[str, list[tuple[str, bool]]]:
    """For each kind of slot, every expected entry and whether the summary has it in its place."""
    lines = {kind: [line for each in sections for line in summary.of(each)] for kind, sections in SECTIONS_OF.items()}
    expected = case.expected
    found: dict[str, list[tuple[str, bool]]] = {}
    for kind in SECTIONS_OF:
        for item in expected.get(kind, ()):
            if kind == "values":
                right, name = (
                    any(item.casefold() in line.casefold() for each in summary.lines.values() for line in each),
                    item,
                )
            elif kind == "files":
                right, name = _file_is_right(item, lines[kind]), item["path"]
            else:
                right, name = stands(item, lines[kind]), item["text"] if "text" in item else item["error"]
            found.setdefault(kind, []).append((name, right))
    return found


def _file_is_right(item: Mapping[str, Any], lines: Iterable[str]) -> bool:
    """The file is named, and not said to work or to fail against the truth."""
    own = [line for line in lines if item["path"] in line.split(": ", 1)[0] or line.split(": ", 1)[0] in item["path"]]
    told = " ".join(own)
    says = False if "removed again" in told or "check fails" in told else True if "check passed" in told else None
    return bool(own) and (says is None or item["works"] is None or says == item["works"])


def room_for(log: SessionLog) -> int:
    """The tokens that a summary of this log may take."""
    return max(PRESETS["default"].summary_tokens, log.tokens // SUMMARY_OF_ORIGINALS)


def summary_of(case: Case, log: SessionLog) -> StructuredSummary:
    tokens = room_for(log)
    summarizer = ExtractiveSummarizer(case.counter)
    span = span_over(log.entries, log, tokens, PRESETS["default"])
    request = SummaryRequest(entries=log.entries, originals=log.entries, max_tokens=tokens, prompt="")
    made = summarizer.summarize(request).summary
    return parsed(body_over(span, log.entries, made, case.counter))


def extraction(case: Case) -> tuple[Kept, Kept, list[str], list[str]]:
    """The yield and the precision of what is learnt from the session."""
    learnt = [one.text for one in learnt_from(case.log.entries)]
    expected = case.expected
    wanted = [*expected["facts_worth_remembering"], *expected["decisions"], *expected["dead_ends"]]
    also = [*wanted, *expected["instructions"], *expected["fixes"]]
    missed = [item["text"] for item in wanted if not stands(item, learnt)]
    bad = [
        text
        for text in learnt
        if not any(stands(item, [text]) for item in also) or any(stands(item, [text]) for item in expected["traps"])
    ]
    return (
        Kept(right=len(wanted) - len(missed), of=len(wanted)),
        Kept(right=len(learnt) - len(bad), of=len(learnt)),
        missed,
        bad,
    )


def continuation(case: Case) -> Mapping[str, Kept]:
    """What the steps behind the cut need: how much of it stands in the block, or in what is left otherwise."""
    log, needed = case.cut, case.told["needed_after_cut"]
    summary = summary_of(case, log)
    block = "\n".join(line for lines in summary.lines.values() for line in lines)
    half = newest(log, log.tokens // 2)
    masks = applied(log, MaskToolOutput(case.counter.count).plan(log, PRESETS["default"]).replacements)
    texts = {
        "block": block,
        "last half kept": "\n".join(entry.text for entry in half.entries),
        "masks alone": "\n".join(entry.text for entry in masks.entries),
        "block or one recall away": "\n".join(entry.text for entry in log.entries),
    }
    return {
        name: Kept(right=sum(each.casefold() in text.casefold() for each in needed), of=len(needed))
        for name, text in texts.items()
    }


def rounds(read: Sequence[Case]) -> list[Kept]:
    """How many of 37 facts of the largest session are stated after each of five rounds, another session a round."""
    by_size = sorted(read, key=lambda case: -case.log.tokens)
    first = by_size[0].expected
    facts: list[Mapping[str, Any]] = [*first["instructions"], *first["decisions"], *first["dead_ends"], *first["fixes"]]
    facts = [*facts, *({"any_of": [[value]]} for value in first["values"]), *first["facts_worth_remembering"]][:FACTS]
    log, told = SessionLog(()), list[Kept]()
    for number, case in enumerate(by_size[:ROUNDS]):
        # Ids and times of later rounds come behind those of earlier ones.
        names = [f"{entry.id}{number}" for entry in case.log.entries]
        told_later = zip(names, case.log.entries, strict=True)
        later = tuple(replace(entry, id=name, covers=(name,)) for name, entry in told_later)
        span = span_over(later, log, room_for(case.log), PRESETS["default"])
        earlier = parsed(body_of(log.anchor.text)) if log.anchor else None
        asked = SummaryRequest(entries=later, earlier=earlier, max_tokens=span.max_tokens, prompt="")
        body = body_over(span, later, ExtractiveSummarizer(case.counter).summarize(asked).summary, case.counter)
        log = SessionLog((summary_replacement(span, body, case.counter.count).entry,))
        told.append(Kept(right=sum(stands(fact, [log.entries[0].text]) for fact in facts), of=len(facts)))
    return told


def joined(read: Sequence[Case], tokens: int) -> SessionLog:
    """Sessions one after the other, as one log of at least so many tokens; ids and calls are apart."""
    entries: list[Entry] = []
    for number, case in enumerate(read):
        for entry in case.log.entries if tokens > 0 else ():
            name = make_id(RECORD, len(entries))
            call_id = f"{number} {entry.call_id}" if entry.call_id else None
            entries.append(replace(entry, id=name, covers=(name,), call_id=call_id))
        tokens -= case.log.tokens
    return SessionLog(tuple(entries))


def seconds_for(log: SessionLog, case: Case) -> float:
    """The processor's seconds for a summary of the whole log."""
    began = time.thread_time()
    summary_of(case, log)
    return time.thread_time() - began


def planted_values(case: Case) -> Mapping[str, tuple[Kept, float]]:
    """How many planted values stand in the log after masks, and after every pass; and the share of tokens gone.

    All passes are forced, by a window of a quarter of the log.
    """
    count, options = case.counter.count, replace(PRESETS["default"], threshold=0.0, window=case.log.tokens // 4)
    planted = [str(each["value"]) for each in case.told.get("planted") or ()]

    def write(span: Span) -> str:
        covered = {each for entry in span.entries for each in entry.covers}
        originals = tuple(entry for entry in case.log.entries if entry.id in covered)
        asked = SummaryRequest(entries=span.entries, originals=originals, max_tokens=span.max_tokens, prompt="")
        return body_over(span, originals, ExtractiveSummarizer(case.counter).summarize(asked).summary, case.counter)

    log, told = case.log, dict[str, tuple[Kept, float]]()
    for one in (MaskToolOutput(count), RetellToolCalls(count), Threshold(count, write), GoalBatch(count)):
        log = applied(log, one.plan(log, options).replacements)
        text = "\n".join(entry.text for entry in log.entries)
        kept = Kept(right=sum(value in text for value in planted), of=len(planted))
        told["every pass" if told else "masks alone"] = kept, 1 - log.tokens / case.log.tokens
    return told


def cases(part: str, counter: TiktokenCounter) -> list[Case]:
    with gzip.open(DATA / f"{part}.jsonl.gz", "rt", encoding="utf-8") as file:
        return [Case(json.loads(line), counter) for line in file]


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--part", choices=("dev", "aside", "aside2"), default="dev")
    arguments.add_argument("--verbose", action="store_true")
    chosen = arguments.parse_args()
    read = cases(chosen.part, TiktokenCounter())
    kinds, rest = defaultdict[str, Kept](Kept), defaultdict[str, Kept](Kept)
    began, tokens = time.process_time(), sum(case.log.tokens for case in read)
    for case in read:
        own = Kept()
        for kind, items in in_slots(case, summary_of(case, case.log)).items():
            one = Kept(right=sum(right for _, right in items), of=len(items))
            kinds[kind], own = kinds[kind] + one, own + one
            _tell(chosen.verbose, f"{case.told['name']} {kind}", [name for name, right in items if not right])
        gained, precise, missed, bad = extraction(case)
        rest["extraction, yield"] += gained
        rest["extraction, precision"] += precise
        _tell(chosen.verbose, f"{case.told['name']} not learnt", missed)
        _tell(chosen.verbose, f"{case.told['name']} noise", bad)
        for name, share in continuation(case).items():
            rest[f"continuation: {name}"] += share
        print(f"{case.told['name']:<30}{case.told['client']:<12}{case.log.tokens:>8,} tokens  {own}")
    print(f"\n{'slots right':<40}{sum(kinds.values(), Kept())}")
    for name, share in (*kinds.items(), *rest.items()):
        print(f"  {name:<38}{share}")
    for case in read:
        if case.told.get("planted"):
            for way, (kept, gone) in planted_values(case).items():
                print(f"  planted, {case.told['name']}, {way}: {kept}, {100 * gone:.0f} % of the tokens gone")
    print(f"  facts after each round: {', '.join(str(each.right) for each in rounds(read))} of {FACTS}")
    print(f"\n{tokens:,} tokens, {time.process_time() - began:.1f} s of processor")
    long = joined(read, LONG_SESSION)
    print(f"{long.tokens:,} tokens in one session, {seconds_for(long, read[0]):.1f} s of processor for its summary")


def _tell(is_asked: bool, what: str, missed: Sequence[str]) -> None:
    for each in missed if is_asked else ():
        print(f"   {what}: {each}")


if __name__ == "__main__":
    main()
