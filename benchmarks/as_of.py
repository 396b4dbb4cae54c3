"""Measures `as_of` on made histories: do recall and contexts show what was believed then, in the words of then?

    uv run --locked python -m benchmarks.as_of

A history stores, corrects and retires records at given times. A question is right where all that was believed and
answers it is there as it was worded then, nothing is that was not known or no longer held, and what was believed but
not true at that time is left out, or marked and below. Another hand wrote the histories; `--aside` reads those that
were kept aside.
"""

import argparse
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Any

from benchmarks.change import cases
from mcp_memory.app import App, open_app
from mcp_memory.domain.model.records import NewRecord
from mcp_memory.encoders.embed_minilm import MiniLMEmbedder
from mcp_memory.services.context.assemble import ContextRequest
from mcp_memory.services.memory.revise import Revision
from mcp_memory.services.retrieval.recall import RecallRequest
from mcp_memory.settings import load_settings

NOW = "2026-11-20T12:00:00Z"
Case = Mapping[str, Any]


def main() -> None:
    """Print the share of questions that are answered rightly, by recall and by contexts."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--aside", action="store_true", help="run the cases that were kept aside")
    parser.add_argument("--verbose", action="store_true", help="print each question that is not answered rightly")
    arguments = parser.parse_args()
    embedder, asked, wrong = MiniLMEmbedder(), 0, {"recall": 0, "context": 0}
    for case in cases("as_of", "aside" if arguments.aside else "dev"):
        with tempfile.TemporaryDirectory() as folder:
            clock = Clock()
            settings = load_settings(data_dir=Path(folder), namespace="benchmark")
            app = open_app(settings, clock, embedder=embedder)
            ids = replay(case["history"], app, clock)
            for ask in case["asks"]:
                asked += 1
                for way, show in (("recall", recalled), ("context", in_context)):
                    faults = faults_of(ask, ids, show(ask, app))
                    wrong[way] += bool(faults)
                    if faults and arguments.verbose:
                        print(case["id"], way, ask["as_of"], ask["query"], "|", "; ".join(faults))
            app.close()
    for way, number in wrong.items():
        print(f"{way:8} right {asked - number} of {asked} ({(asked - number) / asked:.1%})")


class Clock:
    """Tells the time that it was set to."""

    now = 0.0

    def __call__(self) -> float:
        return self.now


def instant(text: str) -> float:
    return datetime.fromisoformat(text).timestamp()


def replay(history: Sequence[Case], app: App, clock: Clock) -> Mapping[str, str]:
    """Make the history, and return the ids of its records by their references; it is long past then."""
    ids: dict[str, str] = {}
    for step in history:
        clock.now = instant(step["at"])
        caller = replace(app.caller(), agent=step["agent"])
        valid = app.searcher.validity(step.get("valid_from", ""), step.get("valid_until", ""))
        changed = step.get("of", [])
        changed = tuple(ids[ref] for ref in ([changed] if isinstance(changed, str) else changed))
        if changed:  # An agent looks at what it changes.
            app.recall(RecallRequest(ids=changed), caller)
        match step["op"]:
            case "revise":
                app.revise(Revision(id=changed[0], text=step["text"], **valid), caller)
                ids[step["ref"]] = changed[0]
            case "retire":
                app.forget(changed, "retire", caller)
            case _:
                item = NewRecord(text=step["text"], kind=step["kind"], supersedes=changed, **valid)
                ids[step["ref"]] = app.remember([item], caller)[0].id
    clock.now = instant(NOW)
    return ids


def recalled(ask: Case, app: App) -> list[tuple[str, str]]:
    """Return the id and the line of each result, best first."""
    request = RecallRequest(query=ask["query"], as_of=ask["as_of"], detail="full")
    found = app.recall(request, app.caller()).results
    return [(str(each["id"]), f"{each['text']} ({each.get('valid', '')})") for each in found]


def in_context(ask: Case, app: App) -> list[tuple[str, str]]:
    """Return the id and the line of each record in a context."""
    block = app.assemble_context(ContextRequest(query=ask["query"], as_of=ask["as_of"]), app.caller())
    return [(each.id, each.text) for each in block.report.components if each.id.startswith("r")]


def faults_of(ask: Case, ids: Mapping[str, str], shown: Sequence[tuple[str, str]]) -> list[str]:
    """Return what is wrong with an answer, a few words each."""
    lines, order = dict(shown), [each for each, _ in shown]
    faults: list[str] = []
    for each in ask["believed"]:
        line = lines.get(ids[each["ref"]], "")
        if each["text"] not in line or "past:" in line or "not yet:" in line:
            faults.append(f"{each['ref']} is {line or 'missing'!r}")
    faults += [f"{ref} is there" for ref in ask["not"] if ids.get(ref) in lines]
    for ref in ask.get("outside_validity", []):
        line = lines.get(ids[ref], "(past:")
        is_above = any(
            order.index(ids[ref]) < order.index(ids[each["ref"]])
            for each in ask["believed"]
            if ids[ref] in lines and ids[each["ref"]] in lines
        )
        if not ("past:" in line or "not yet:" in line) or is_above:
            faults.append(f"{ref} is not below and marked")
    return faults


if __name__ == "__main__":
    main()
