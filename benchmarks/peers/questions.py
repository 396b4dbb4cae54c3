"""What a server finds by a question in other words, and whether an answer is in the first tokens that it gives back."""

import json
import random
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from benchmarks.peers.running import REFUSED, Run, answer, unescaped, words
from benchmarks.peers.servers import Call
from benchmarks.stdio import Client
from mcp_memory.encoders.tokens_tiktoken import TiktokenCounter

SETS = ("locomo", "prefeval", "cosqa")
SEED, FOUND_AMONG, SHOWN = 7, 5, 10
BUDGETS = (300, 1_000)
ENCODING = "cl100k_base"
RUN = 20


@dataclass(frozen=True, slots=True)
class Question:
    """A question with the texts that answer it, or with the pattern of the answering words."""

    query: str
    texts: Sequence[str] = ()
    pattern: str = ""


@dataclass(frozen=True, slots=True)
class Sample:
    """A part of a data set that every server is given: the same texts in the same order, and questions about them."""

    name: str
    texts: Sequence[str]
    questions: Sequence[Question]


@dataclass
class Tally:
    """Questions that pass, by what was looked at; texts and questions that were refused, with the first reason."""

    of: int
    passed: dict[str, int] = field(default_factory=dict[str, int])
    refused: int = 0
    unanswered: int = 0
    reason: str = ""

    def note(self, name: str, *, passes: bool) -> None:
        self.passed[name] = self.passed.get(name, 0) + passes


def lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text("utf-8").splitlines() if line.strip()]


def kept(count: int, wanted: Iterable[int], size: int, source: random.Random) -> list[int]:
    """That many of `count` places in their order: the wanted ones, and others that are drawn."""
    needed = set(wanted)
    others = [number for number in range(count) if number not in needed]
    drawn = source.sample(others, min(len(others), max(0, size - len(needed))))
    return sorted({*needed, *drawn})


def retrieval_samples(folder: Path, records: int, questions: int) -> list[Sample]:
    """Of each data set the first group: some questions by the seed, the records that answer them, and others.

    `folder` has memories.jsonl (`id`, `group`, `dataset`, `text`, `speaker`) and queries.jsonl (`group`, `dataset`,
    `category`, `query`, `gold`: ids). Questions that nothing answers are left out.
    """
    memories, asked = lines(folder / "memories.jsonl"), lines(folder / "queries.jsonl")
    samples = list[Sample]()
    for name in SETS:
        source = random.Random(SEED)
        group = next(each["group"] for each in asked if each["dataset"] == name)
        own = [each for each in memories if each["group"] == group]
        place = {each["id"]: number for number, each in enumerate(own)}
        known = [each for each in asked if each["group"] == group and each["category"] != "adversarial"]
        known = [each for each in known if each["gold"] and all(gold in place for gold in each["gold"])]
        drawn = source.sample(known, min(questions, len(known)))
        texts = [f"{each['speaker']}: {each['text']}" if each.get("speaker") else each["text"] for each in own]
        numbers = kept(len(own), (place[gold] for each in drawn for gold in each["gold"]), records, source)
        wanted = [Question(each["query"], [texts[place[gold]] for gold in each["gold"]]) for each in drawn]
        samples.append(Sample(name, [texts[number] for number in numbers], wanted))
    return samples


def history(folder: Path, records: int) -> Sample:
    """A real history: all its answerable questions, the records that answer them, and others by the seed.

    `folder` has records.jsonl (`text`) and questions.jsonl (`question`, `gold`: patterns of the records, `answer`: the
    pattern of the answering words). White space is one blank before a pattern is tried.
    """
    texts = [each["text"] for each in lines(folder / "records.jsonl") if "text" in each]
    asked = [each for each in lines(folder / "questions.jsonl") if each["answer"]]
    patterns = [re.compile(pattern) for each in asked for pattern in each["gold"]]
    gold = [number for number, text in enumerate(texts) if any(each.search(flat(text)) for each in patterns)]
    numbers = kept(len(texts), gold, records, random.Random(SEED))
    wanted = [Question(each["question"], pattern=each["answer"]) for each in asked]
    return Sample(folder.name, [texts[number] for number in numbers], wanted)


def flat(text: str) -> str:
    return re.sub(r"\s+", " ", text)


def store_all(run: Run, client: Client, texts: Sequence[str], tally: Tally) -> None:
    """A text that is refused is counted, and the rest goes on."""
    for call in run.peer.prepare:
        answer(client, call)
    if run.peer.store_many:
        answer(client, run.peer.store_many(texts))
        return
    for number, text in enumerate(texts):
        try:
            answer(client, run.peer.store(number, text))
        except REFUSED as error:
            tally.refused += 1
            tally.reason = tally.reason or str(error)[:200]


def told(client: Client, call: Call, tally: Tally) -> str:
    """What the server answers, nothing where it refuses the question."""
    try:
        return answer(client, call)
    except REFUSED as error:
        tally.unanswered += 1
        tally.reason = tally.reason or str(error)[:200]
        return ""


def shows(told: str, text: str) -> bool:
    """Whether a run of twenty words of the text stands there: some servers keep a long text in pieces."""
    parts, shown = words(text).split(), f" {words(told)} "
    runs = (parts[begin : begin + RUN] for begin in range(max(1, len(parts) - RUN + 1)))
    return any(f" {' '.join(each)} " in shown for each in runs)


def retrieval(run: Run, sample: Sample) -> Tally:
    """Questions one of whose texts stands among the first results."""
    tally = Tally(len(sample.questions))
    search = run.peer.whole or run.peer.search
    with run.running() as client:
        store_all(run, client, sample.texts, tally)
        for question in sample.questions:
            text = told(client, search(question.query, FOUND_AMONG), tally)
            tally.note("found", passes=any(shows(text, each) for each in question.texts))
    return tally


def answers(run: Run, sample: Sample) -> Tally:
    """Questions whose answering words stand in the first tokens of ten results, and in a block of that budget."""
    counter, tally = TiktokenCounter(ENCODING), Tally(len(sample.questions))
    with run.running() as client:
        store_all(run, client, sample.texts, tally)
        for question in sample.questions:
            text = told(client, run.peer.search(question.query, SHOWN), tally)
            for budget in BUDGETS:
                shown = counter.truncate(text, budget)
                tally.note(f"search {budget}", passes=answered(question, shown))
                if run.peer.block:
                    block = told(client, run.peer.block(question.query, budget), tally)
                    tally.note(f"block {budget}", passes=answered(question, block))
    return tally


def answered(question: Question, shown: str) -> bool:
    return bool(re.search(question.pattern, flat(unescaped(shown))))
