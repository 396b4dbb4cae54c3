"""Measure the packaged encoder against the float32 model it was made from, and write the figures into docs/model.md.

    python tools/measure_model.py MODEL_DIR DATA_DIR [--report docs/model.md]

MODEL_DIR is what build_onnx.py reads. DATA_DIR holds memories.jsonl ({"id", "group", "speaker", "text", "dataset"}) and
queries.jsonl ({"group", "query", "gold", "category", "dataset"}); each group is searched by itself, by exact cosine.
None of the texts was used for calibration. Without --report the figures are only printed; with it they replace what
stands between the two marks in that file. Takes some minutes on one core.
"""

import argparse
import json
import statistics
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from build_onnx import build_float32, load_tokenizer
from numpy.typing import NDArray

from mcp_memory.encoders import embed_minilm
from mcp_memory.encoders.embed_minilm import open_session

Vector = NDArray[np.float32]
Encode = Callable[[str], Vector]
Vectors = dict[str, Vector]  # by text

CUT = 10
SPEED_WORDS = (1, 8, 32, 120, 240)
SPEED_RUNS = 50
BEGIN, END = "<!-- measured: begin -->", "<!-- measured: end -->"


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """A query and the ids of the memories of its group that answer it."""

    group: str
    text: str
    gold: frozenset[str]
    dataset: str


@dataclass(frozen=True, slots=True)
class Memory:
    """A text to be found."""

    id: str
    text: str
    dataset: str


Groups = dict[str, list[Memory]]


def encoder(model: str, model_dir: Path) -> Encode:
    """The vector of a text's first 256 pieces; no windows, so that both models see the same."""
    session, tokenizer = open_session(model), load_tokenizer(model_dir / "tokenizer.json")

    def encode(text: str) -> Vector:
        ids = np.array([tokenizer.encode(text).ids], np.int64)
        return session.run(None, {"input_ids": ids, "attention_mask": np.ones_like(ids)})[0][0]

    return encode


def read_lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text("utf-8").splitlines()]


def read_memories(data_dir: Path) -> Groups:
    """Memories by group; where someone is speaking, the name goes before the text."""
    groups: Groups = defaultdict(list)
    for line in read_lines(data_dir / "memories.jsonl"):
        text = f"{line['speaker']}: {line['text']}" if line.get("speaker") else line["text"]
        groups[line["group"]].append(Memory(line["id"], text, line["dataset"]))
    return groups


def read_questions(data_dir: Path) -> list[Question]:
    """Questions with evidence; adversarial ones have no answer to find."""
    return [
        Question(group=line["group"], text=line["query"], gold=frozenset(line["gold"]), dataset=line["dataset"])
        for line in read_lines(data_dir / "queries.jsonl")
        if line["gold"] and line.get("category") != "adversarial"
    ]


def encode_all(encode: Encode, texts: Iterable[str]) -> Vectors:
    return {text: encode(text) for text in dict.fromkeys(texts)}


def found(question: Question, memories: list[Memory], vectors: Vectors) -> set[str]:
    """The ids of the nearest memories of the question's group."""
    scores = np.stack([vectors[memory.text] for memory in memories]) @ vectors[question.text]
    nearest: list[int] = np.argsort(-scores, kind="stable")[:CUT].tolist()
    return {memories[place].id for place in nearest}


def size_table(packaged: Path, reference: Path) -> str:
    sizes = [f"{path.stat().st_size / 1e6:.1f}" for path in (packaged, reference)]
    return table("| | packaged | float32 |", [f"| model.onnx, MB | {' | '.join(sizes)} |"])


def fidelity_table(groups: Groups, small: Vectors, full: Vectors) -> str:
    """How near the packaged model's vectors are to the float32 model's."""
    texts: dict[str, dict[str, None]] = defaultdict(dict)
    for memory in (memory for group in groups.values() for memory in group):
        texts[memory.dataset][memory.text] = None
    rows: list[str] = []
    for name, distinct in texts.items():
        cosines = [float(small[text] @ full[text]) for text in distinct]
        worst = statistics.quantiles(cosines, n=100)[0]
        rows.append(f"| {name} | {len(cosines)} | {statistics.fmean(cosines):.4f} | {worst:.4f} | {min(cosines):.4f} |")
    return table("| texts | number | mean cosine | 1st percentile | minimum |", rows)


def retrieval_table(questions: list[Question], groups: Groups, small: Vectors, full: Vectors) -> str:
    """Recall of both models, and the share of their first ten results that is the same."""
    rows: list[str] = []
    for name in dict.fromkeys(question.dataset for question in questions):
        asked = [question for question in questions if question.dataset == name]
        ours, theirs = ([found(each, groups[each.group], vectors) for each in asked] for vectors in (small, full))
        same = statistics.fmean(len(a & b) / len(a) for a, b in zip(ours, theirs, strict=True))
        recalls = f"{recall(asked, ours):.1f} | {recall(asked, theirs):.1f}"
        rows.append(f"| {name} | {len(asked)} | {recalls} | {100 * same:.1f} |")
    return table("| questions | number | R@10 packaged | R@10 float32 | same results, % |", rows)


def recall(questions: list[Question], results: list[set[str]]) -> float:
    """The mean share of a question's evidence among its results, in %."""
    pairs = zip(questions, results, strict=True)
    return 100 * statistics.fmean(len(result & question.gold) / len(question.gold) for question, result in pairs)


def speed_table(*encoders: Encode) -> str:
    """The median time for a text of so many words of one piece each, on one thread."""
    rows: list[str] = []
    for words in SPEED_WORDS:
        times = [f"{median_ms(encode, 'memory ' * words):.1f}" for encode in encoders]
        rows.append(f"| {words} | {' | '.join(times)} |")
    return table("| words | packaged, ms | float32, ms |", rows)


def median_ms(encode: Encode, text: str) -> float:
    times: list[float] = []
    for _ in range(SPEED_RUNS):
        start = time.perf_counter()
        encode(text)
        times.append(time.perf_counter() - start)
    return 1000 * statistics.median(times)


def table(head: str, rows: list[str]) -> str:
    return "\n".join([head, "|---" * (head.count("|") - 1) + "|", *rows])


def report(model_dir: Path, data_dir: Path) -> str:
    """All figures as Markdown tables."""
    groups, questions = read_memories(data_dir), read_questions(data_dir)
    wanted = [memory.text for group in groups.values() for memory in group] + [question.text for question in questions]
    packaged = embed_minilm.MODEL_FOLDER / "model.onnx"
    with tempfile.TemporaryDirectory() as directory:
        reference = Path(directory) / "model_fp32.onnx"
        reference.write_bytes(build_float32(model_dir).SerializeToString())
        sizes = size_table(packaged, reference)
        encoders = [encoder(str(path), model_dir) for path in (packaged, reference)]
    speeds = speed_table(*encoders)
    small, full = (encode_all(encode, wanted) for encode in encoders)
    near, hits = fidelity_table(groups, small, full), retrieval_table(questions, groups, small, full)
    return "\n\n".join([sizes, near, hits, speeds])


def write_report(figures: str, path: Path) -> None:
    """Put the figures between the marks of the file."""
    text = path.read_text("utf-8")
    head, tail = text[: text.index(BEGIN)], text[text.index(END) :]
    path.write_text(f"{head}{BEGIN}\n\n{figures}\n\n{tail}", "utf-8")


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("model_dir", type=Path)
    parser.add_argument("data_dir", type=Path)
    parser.add_argument("--report", type=Path)
    arguments = parser.parse_args()
    figures = report(arguments.model_dir, arguments.data_dir)
    print(figures)
    if arguments.report:
        write_report(figures, arguments.report)


if __name__ == "__main__":
    main()
