"""Measures dependence on made cases: what is marked *to be checked* after a change, given or found by rule.

    uv run --locked python -m benchmarks.cascades

A case stores records, changes one, and names the dependents that should be marked (`given`, `by_rule`) and those that
should not. Another hand wrote the cases; `--aside` reads those that were kept aside.
"""

import argparse
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from benchmarks.change import cases
from mcp_memory.app import App, open_app
from mcp_memory.domain.model.records import NewRecord
from mcp_memory.encoders.embed_minilm import MiniLMEmbedder
from mcp_memory.services.memory.revise import Revision
from mcp_memory.services.retrieval.recall import RecallRequest
from mcp_memory.services.tasks.task_stack import PopRequest
from mcp_memory.settings import load_settings

Case = Mapping[str, Any]


def main() -> None:
    """Print the shares of expected marks that are there, and of false ones."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--aside", action="store_true", help="run the cases that were kept aside")
    parser.add_argument("--verbose", action="store_true", help="print each record that is marked wrongly or not at all")
    arguments = parser.parse_args()
    wanted = {"given": 0, "by_rule": 0, "not": 0}
    marked = dict.fromkeys(wanted, 0)
    embedder = MiniLMEmbedder()
    for case in cases("cascades", "aside" if arguments.aside else "dev"):
        with tempfile.TemporaryDirectory() as folder:
            app = open_app(load_settings(data_dir=Path(folder), namespace="benchmark"), embedder=embedder)
            marks = frozenset(marks_of(case, app))
            app.close()
        for sort in wanted:
            wanted[sort] += len(case[sort])
            marked[sort] += len(marks.intersection(case[sort]))
        missing = {*case["given"], *case["by_rule"]} - marks
        for record in case["records"] if arguments.verbose else ():
            if record["ref"] in missing | marks.intersection(case["not"]):
                print(case["id"], "MISSING" if record["ref"] in missing else "FALSE", record["kind"], record["text"])
    for sort, number in wanted.items():
        print(f"{sort:8} marked {marked[sort]} of {number} ({marked[sort] / max(number, 1):.0%})")


def marks_of(case: Case, app: App) -> Iterator[str]:
    """Store the case's records, make its change, and yield the references of records that are to be checked."""
    caller, ids = app.caller(), dict[str, str]()
    for record in case["records"]:
        grounds = tuple(ids[ref] for ref in record["depends_on"])
        item = NewRecord(
            text=record["text"], kind=record["kind"], details=record.get("details", {}), depends_on=grounds
        )
        ids[record["ref"]] = app.remember([item], caller)[0].id
    make_change(case["change"], ids, app)
    refs = {record_id: ref for ref, record_id in ids.items()}
    for result in app.recall(RecallRequest(ids=tuple(refs), limit=100, max_tokens=50_000), caller).results:
        if result.get("check"):
            yield refs[str(result["id"])]


def make_change(change: Mapping[str, str], ids: Mapping[str, str], app: App) -> None:
    """Change the ground of a case."""
    caller, changed = app.caller(), ids[change["ref"]]
    match change["op"]:
        case "supersede":
            app.remember([NewRecord(text=change["text"], supersedes=(changed,))], caller)
        case "revise":
            app.revise(Revision(id=changed, text=change["text"]), caller)
        case "wrong":
            app.revise(Revision(id=changed, feedback="wrong"), caller)
        case "retire":
            app.forget([changed], "retire", caller)
        case _:
            app.tasks.pop(PopRequest(result="failed", status="failed"), caller)


if __name__ == "__main__":
    main()
