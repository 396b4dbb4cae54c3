"""How often an answer reaches who asks: questions, tasks and constraints written by people who did not see the code.

    python -m benchmarks.answers [--part dev|aside] [--only notes tasks …]

`benchmarks/data/answers` holds the sets; a third of each was kept aside until the rules were done. Prints shares, each
as found of asked. An answer counts where its whole sentence, line or row stands in the block, or in what recall shows.
"""

import argparse
import json
import tempfile
from collections import defaultdict
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, cast

from rich.console import Console
from rich.table import Table

from mcp_memory import extensions
from mcp_memory.app import App, open_app
from mcp_memory.domain.model.records import GivenKind, NewRecord
from mcp_memory.domain.text.intent import pick_strategy
from mcp_memory.services.context.assemble import ContextRequest
from mcp_memory.services.retrieval.recall import RecallRequest
from mcp_memory.services.tasks.task_stack import PopRequest, PushRequest
from mcp_memory.settings import load_settings

DATA = Path(__file__).parent / "data" / "answers"
BUDGETS = (300, 1_000, 4_000)
SHOWN = 60
"""Characters of a result that have to be shown: the rest may be cut."""
SHORT, MIDDLE = 1_600, 5_000
"""Characters of a short and of a middle note, at most."""
_STORED: Mapping[str, GivenKind] = {"decision": "decision", "procedure": "procedure", "episode": "episode"}
"""Kinds of the sets that are kept; all others are facts."""

Part = Literal["dev", "aside"]
Row = Mapping[str, Any]


@dataclass
class Tally:
    """Counts of what was found and asked, by name."""

    counts: dict[str, list[bool]] = field(default_factory=lambda: defaultdict(list))

    def add(self, name: str, is_found: bool) -> None:
        self.counts[name].append(is_found)

    def share(self, name: str) -> float:
        """The share found, in [0, 1]."""
        return sum(self.counts[name]) / len(self.counts[name])


def main() -> None:
    """Store, ask, print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--part", choices=("dev", "aside"), default="dev")
    parser.add_argument("--only", nargs="+", choices=sorted(SETS), default=sorted(SETS))
    arguments = parser.parse_args()
    table = Table("set", "found", "asked", "%")
    for name in arguments.only:
        tally = SETS[name](arguments.part)
        for what, found in tally.counts.items():
            table.add_row(f"{name}: {what}", str(sum(found)), str(len(found)), f"{100 * tally.share(what):.0f}")
    Console(width=120).print(table)


def notes(part: Part) -> Tally:
    """Sentences of notes of 12 to 150 sentences, and the reasons of decisions, at three budgets and by recall."""
    tally = Tally()
    with _memory() as app:
        texts = {note["id"]: str(note["text"]) for note in _rows("notes")}
        for note in _rows("notes"):
            _store(app, _with_title(note), note["kind"])
        reasons = {row["id"]: row["reason"] for row in _rows("decisions")}
        for row in _rows("decisions"):
            _store(app, _with_title(row), "decision", alternatives=row["alternatives"])
        for budget in BUDGETS:
            for row in _rows(f"note_questions_{part}"):
                text = _block(app, row["question"], budget)
                tally.add(f"{_size(texts[row['note']])} notes in {budget}", _holds(text, row["answer"]))
            for row in _rows(f"why_questions_{part}"):
                tally.add(f"reasons in {budget}", _holds(_block(app, row["question"], budget), reasons[row["record"]]))
        for row in _rows(f"note_questions_{part}"):
            tally.add("notes by recall", _holds("\n".join(_recalled(app, row["question"])), row["answer"]))
    return tally


def tasks(part: Part) -> Tally:
    """What ended tasks came to: by recall, in a new task with a similar goal, and in one that has nothing to do."""
    tally = Tally()
    with _memory() as app:
        caller = app.caller()
        for row in (*_rows("tasks_dev"), *_rows("tasks_aside")):
            app.tasks.push(PushRequest(goal=row["parent_goal"]), caller)
            app.tasks.push(PushRequest(goal=row["goal"]), caller)
            ended = PopRequest(result=row["result"], status=row["status"], artifacts=tuple(row["artifacts"]))
            app.tasks.pop(ended, caller)
            app.tasks.pop(PopRequest(result="Finished."), caller)
        for row in _rows(f"tasks_{part}"):
            for query in row["queries"]:
                tally.add(
                    "results by recall", any(_holds(text, row["result"][:SHOWN]) for text in _recalled(app, query))
                )
            for goal in ("similar_goal", "unrelated_goal"):
                app.tasks.push(PushRequest(goal=row[goal]), caller)
                tally.add(
                    f"results in a {goal.replace('_', ' ')}", _holds(_block(app, "", 1_000), row["result"][:SHOWN])
                )
                app.tasks.pop(PopRequest(result="Given up.", status="abandoned"), caller)
    return tally


def constraints(part: Part) -> Tally:
    """The one constraint of a hundred that bears on a query, in small blocks."""
    tally = Tally()
    with _memory() as app:
        ids = {
            row["id"]: _store(app, row["rule"], "censor", trigger=row["when"], reason=row["because"])
            for row in _rows("censors")
        }
        for budget in BUDGETS[:2]:
            for row in _rows(f"constraint_queries_{part}"):
                shown = ids[row["censor"]] in _block(app, row["query"], budget)
                tally.add(f"{row['way'].replace('_', ' ')} in {budget}", shown)
    return tally


def abstention(part: Part) -> Tally:
    """Questions that a memory of 240 records answers, and those on which nothing in it bears."""
    tally = Tally()
    with _memory() as app:
        ids = {row["id"]: _store(app, row["text"], row["kind"]) for row in _rows("memory")}
        for row in _rows(f"known_{part}"):
            found = app.recall(RecallRequest(query=row["query"]), app.caller()).results
            tally.add(
                "known, answered", bool({str(each["id"]) for each in found} & {ids[gold] for gold in row["gold"]})
            )
        for row in _rows(f"foreign_{part}"):
            tally.add("foreign, nothing said", not _recalled(app, row["query"]))
    return tally


def frames(part: Part) -> Tally:
    """Nearly the same fact noted in two tasks: the current task's comes first."""
    tally = Tally()
    for row in _rows(f"frames_{part}"):
        with _memory() as app:
            own = row["tasks"][row["own"]]
            for task in (*(task for task in row["tasks"] if task is not own), own):
                app.tasks.push(PushRequest(goal=task["goal"]), app.caller())
                for fact in task["facts"]:
                    _store(app, fact, "fact")
                if task is not own:
                    app.tasks.pop(PopRequest(result="Ended.", status=task["status"]), app.caller())
            first = _recalled(app, row["query"])[:1]
            tally.add("own task's fact first", any(_holds(text, row["expected"]) for text in first))
    return tally


def strategies(part: Part) -> Tally:
    """The strategy that three people want for a query, in English and in fifteen other languages."""
    tally = Tally()
    for row in _rows(f"strategies_{part}"):
        picked = pick_strategy(row["query"], _embedder.embed_query(row["query"]), _embedder.id).strategy
        wanted = {"balanced" if name == "auto" else name for name in row["strategies"]}
        tally.add("English" if row["language"] == "en" else "other languages", picked in wanted)
    return tally


SETS: Mapping[str, Callable[[Part], Tally]] = {
    "notes": notes,
    "tasks": tasks,
    "constraints": constraints,
    "abstention": abstention,
    "frames": frames,
    "strategies": strategies,
}

_embedder = extensions.embedder(load_settings())


@contextmanager
def _memory() -> Generator[App]:
    """A fresh memory, with the embedder of MCP_MEMORY_EMBEDDER, loaded once."""
    with tempfile.TemporaryDirectory() as folder:
        settings = load_settings(data_dir=Path(folder), namespace="answers")
        with closing(open_app(settings, embedder=_embedder)) as app:
            yield app


def _rows(name: str) -> Sequence[Row]:
    return [cast("Row", json.loads(line)) for line in (DATA / f"{name}.jsonl").read_text("utf-8").splitlines()]


def _store(app: App, text: str, kind: str, **details: Any) -> str:
    item = NewRecord(text=text, kind="censor" if kind == "censor" else _STORED.get(kind, "fact"), details=details)
    return app.remember([item], app.caller(), advise=False)[0].id


def _with_title(row: Row) -> str:
    text, title = str(row["text"]), str(row["title"])
    return text if title.casefold() in text.casefold() else f"{title}\n\n{text}"


def _block(app: App, query: str, max_tokens: int) -> str:
    return app.assemble_context(ContextRequest(query=query, max_tokens=max_tokens), app.caller()).text


def _recalled(app: App, query: str) -> list[str]:
    return [str(each["text"]) for each in app.recall(RecallRequest(query=query), app.caller()).results]


def _holds(text: str, part: str) -> bool:
    """True where the part stands in the text, apart from space and the escapes that keep it data."""
    plain, wanted = (" ".join(each.replace("\\", "").split()) for each in (text, part))
    return wanted in plain


def _size(text: str) -> str:
    return "short" if len(text) < SHORT else "middle" if len(text) < MIDDLE else "long"


if __name__ == "__main__":
    main()
