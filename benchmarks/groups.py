"""The public retrieval data: groups of memories, each stored in a fresh memory, with the questions about each.

A folder holds `memories.jsonl` and `queries.jsonl`. Memories are stored in their order, with speaker, session and time;
adversarial questions, which have no answer, are left out. MCP_MEMORY_EMBEDDER selects the embedder.
"""

import json
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from mcp_memory import extensions
from mcp_memory.app import App, open_app
from mcp_memory.domain.model.records import NewRecord
from mcp_memory.settings import load_settings

BATCH = 500
DEPTH = 400
"""Candidates per source: deep enough to fill 4,000 tokens from one leg alone."""


class Clock:
    """Tells when the question was asked, so that "last week" is the week it meant."""

    def __init__(self) -> None:
        self._now = time.time()

    def __call__(self) -> float:
        return self._now

    def at(self, text: str | None) -> None:
        """Stand at that time, or at the present."""
        self._now = _instant(text) if text else time.time()


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """One question that has an answer. `asked_at` is an ISO time; `gold` are the ids of the records that answer it."""

    dataset: str
    category: str
    text: str
    asked_at: str | None
    gold: frozenset[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """One memory with what was stored in it, by id, and the questions about it. `clock` is the memory's."""

    app: App
    clock: Clock
    items: Mapping[str, NewRecord]
    questions: Sequence[Question]


def stored_groups(data: Path, datasets: Collection[str] = (), **settings: Any) -> Iterator[Group]:
    """Each group of the named data sets, without names of all, in a memory that is gone once the next is asked for.

    In a database that `settings` name it stays there, in a namespace of the group's name.

    Ends the program where the folder holds no such data.
    """
    if not (data / "queries.jsonl").exists():
        sys.exit(f"{data} holds no queries.jsonl; name the folder of the retrieval data.")
    memories, queries = (
        [each for each in lines(data / name) if not datasets or each["dataset"] in datasets]
        for name in ("memories.jsonl", "queries.jsonl")
    )
    if not memories:
        sys.exit(f"{data} holds no memories of {', '.join(datasets)}; queries.jsonl names the data sets.")
    groups: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for memory in memories:
        groups[memory["group"]].append(memory)
    embedder = extensions.embedder(load_settings())
    with tempfile.TemporaryDirectory() as folder:
        for number, (name, said) in enumerate(groups.items()):
            clock = Clock()
            chosen = load_settings(data_dir=Path(folder) / str(number), namespace=name, **settings)
            with closing(open_app(chosen, clock, embedder)) as app:
                yield _stored(app, clock, said, [query for query in queries if query["group"] == name])


def spoken(item: NewRecord) -> str:
    """The text, with who spoke."""
    return f"{item.speaker}: {item.text}" if item.speaker else item.text


def packed(ranking: Iterable[str], tokens: Mapping[str, int], budget: int) -> Iterator[str]:
    """Ids from the front of the ranking until the first that does not fit."""
    for record_id in ranking:
        budget -= tokens[record_id]
        if budget < 0:
            return
        yield record_id


def _stored(app: App, clock: Clock, said: Sequence[dict[str, Any]], queries: Iterable[dict[str, Any]]) -> Group:
    items = [_item(memory) for memory in said]
    stored = [
        done
        for start in range(0, len(items), BATCH)
        for done in app.remember(items[start : start + BATCH], app.caller())
    ]
    id_of = {memory["id"]: done.id for memory, done in zip(said, stored, strict=True)}
    asked = [_question(query, id_of) for query in queries if query["category"] != "adversarial"]
    return Group(
        app=app,
        clock=clock,
        items={done.id: item for done, item in zip(stored, items, strict=True)},
        questions=[question for question in asked if question.gold],
    )


def _item(memory: Mapping[str, Any]) -> NewRecord:
    return NewRecord(
        text=memory["text"],
        kind="message" if "turn" in memory else "fact",
        speaker=memory.get("speaker"),
        session_id=memory.get("session"),
        occurred_at=_instant(memory["ts"]) if memory.get("ts") else None,
    )


def _question(query: Mapping[str, Any], id_of: Mapping[str, str]) -> Question:
    return Question(
        dataset=query["dataset"],
        category=query["category"],
        text=query["query"],
        asked_at=query.get("ts"),
        gold=frozenset(id_of[memory_id] for memory_id in query["gold"] if memory_id in id_of),
    )


def lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text("utf-8").splitlines()]


def _instant(text: str) -> float:
    return datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp()
