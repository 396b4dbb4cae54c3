"""Three memories of months, made by people who did not see the code: what a block gives who works with it.

    python -m benchmarks.memories [--verbose]

`benchmarks/data/memories` holds a software project, a person's assistant and a research log, each with 180 questions
and twelve moments at which an agent asks for a context; their author named the records that help there, and those that
mislead. Prints the share of a block's records that help, the share of those that help which are in it, and how many
mislead; then which questions are answered, and how many that nothing bears on get nothing.
"""

import argparse
import json
import tempfile
from collections import defaultdict
from collections.abc import Mapping
from contextlib import closing
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from statistics import mean
from typing import Any

from rich.console import Console
from rich.table import Table

from mcp_memory import extensions
from mcp_memory.app import App, open_app
from mcp_memory.domain.model.records import NewRecord
from mcp_memory.services.context.assemble import Context, ContextRequest
from mcp_memory.services.retrieval.recall import RecallRequest
from mcp_memory.services.tasks.task_stack import PushRequest
from mcp_memory.settings import load_settings

DATA = Path(__file__).parent / "data" / "memories"
MEMORIES = ("software", "assistant", "research")
BUDGETS = (300, 1_000, 4_000)
KNOWN = ("known_close", "known_other_words")

Row = Mapping[str, Any]


def main() -> None:
    """Store, ask, print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--verbose", action="store_true", help="print each block, a helpful record marked with +")
    verbose = parser.parse_args().verbose
    blocks = Table("memory", "tokens", "records", "of them helpful", "of the helpful", "misleading", "tokens used")
    questions = Table("memory", "sort", "asked", "answered", "given nothing")
    embedder = extensions.embedder(load_settings())
    for name in MEMORIES:
        with tempfile.TemporaryDirectory() as folder:
            settings = load_settings(data_dir=Path(folder), namespace="memories")
            with closing(open_app(settings, embedder=embedder)) as app:
                ids = _stored(app, name)
                for budget in BUDGETS:
                    blocks.add_row(name, f"{budget:,}", *_moments(app, name, budget, ids, verbose=verbose))
                for sort, figures in _asked(app, name, ids).items():
                    questions.add_row(name, sort, *figures)
    console = Console(width=120)
    console.print(blocks)
    console.print(questions)


def _stored(app: App, name: str) -> Mapping[str, str]:
    """Store the memory; return the id in it of each record by its author's."""
    ids: dict[str, str] = {}
    for row in _rows(name, "memory"):
        at = datetime.fromisoformat(row["at"]).timestamp()
        item = NewRecord(
            text=row["text"], kind=row["kind"], importance=row["importance"], tags=tuple(row["tags"]), occurred_at=at
        )
        ids[row["id"]] = app.remember([item], replace(app.caller(), agent=row["agent"]))[0].id
    return ids


def _moments(app: App, name: str, budget: int, ids: Mapping[str, str], *, verbose: bool) -> tuple[str, ...]:
    """Means over the moments; a moment whose query is empty asks by its task."""
    counts, shares, found, misled, used = list[int](), list[float](), list[float](), 0, list[float]()
    for row in _rows(name, "moments"):
        # A session of its own: what ends leaves a result, which the next moment would be shown.
        caller = replace(app.caller(), agent=row["as_agent"], session_id=f"{row['id']}-{budget}")
        if row["task_goal"]:
            app.tasks.push(PushRequest(goal=row["task_goal"]), caller)
        context = app.assemble_context(ContextRequest(query=row["query"], max_tokens=budget), caller)
        useful, harmful = ({ids[each] for each in row[sort]} for sort in ("useful", "harmful"))
        shown = [each.id for each in context.report.components if each.id in set(ids.values())]
        counts.append(len(shown))
        if shown:
            shares.append(len(useful & set(shown)) / len(shown))
        found.append(len(useful & set(shown)) / len(useful))
        misled += len(harmful & set(shown))
        used.append(context.report.token_count / budget)
        if verbose:
            _show(row, context, useful, harmful)
    return f"{mean(counts):.1f}", _percent(shares), _percent(found), str(misled), _percent(used)


def _show(row: Row, context: Context, useful: set[str], harmful: set[str]) -> None:
    print(f"\n=== {row['id']} {row['query'] or row['task_goal']!r} ({context.report.token_count} tokens)")
    for each in context.report.components:
        mark = "+" if each.id in useful else "!" if each.id in harmful else " "
        print(f" {mark} {each.tokens:4} {each.section}: {each.text[:160]!r}")


def _asked(app: App, name: str, ids: Mapping[str, str]) -> Mapping[str, tuple[str, str, str]]:
    """By sort: how many were asked, answered by a right record among ten, and given nothing."""
    answers: dict[str, list[tuple[bool, bool]]] = defaultdict(list)
    for row in _rows(name, "questions"):
        request = RecallRequest(query=row["query"], only_looks=True)
        results = {str(each["id"]) for each in app.recall(request, app.caller()).results}
        answers[row["sort"]].append((not results.isdisjoint(ids[gold] for gold in row["gold"]), not results))
    return {
        sort: (
            str(len(given)),
            _percent([right for right, _ in given]) if sort in KNOWN else "",
            _percent([none for _, none in given]),
        )
        for sort, given in answers.items()
    }


def _rows(name: str, sort: str) -> list[Row]:
    return [json.loads(line) for line in (DATA / f"{name}_{sort}.jsonl").read_text("utf-8").splitlines()]


def _percent(values: list[float] | list[bool]) -> str:
    return f"{100 * mean(values):.0f} %" if values else "-"


if __name__ == "__main__":
    main()
