"""How much shorter a chat becomes, and how much of the evidence for questions can still be read or found.

Run: python -m benchmarks.chat DATA_DIR [--form names|roles|lines] [--window 60000] [--force] [--verbose]

`benchmarks.groups` says what DATA_DIR holds; its conversations follow each other as one session. Evidence is in place
where its whole text stands in the compacted log, and found where it is among the ten results of a recall.
"""

import argparse
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

from benchmarks.groups import Clock, lines
from mcp_memory.app import App, open_app, token_counter
from mcp_memory.domain.model.session_log import SessionLog
from mcp_memory.entrypoints.conversations.messages import ClientMessage, read_messages
from mcp_memory.services.retrieval.recall import RecallRequest
from mcp_memory.services.sessions.compact import CompactRequest
from mcp_memory.settings import load_settings

ENCODING, TOKENS, LIMIT = "o200k_base", 50_000, 10


def turns(data: Path, most: int) -> list[dict[str, Any]]:
    """The turns of the conversations, one after the other, up to so many tokens."""
    count, kept = token_counter(ENCODING).count, list[dict[str, Any]]()
    for turn in lines(data / "memories.jsonl"):
        most -= count(turn["text"]) if "turn" in turn else 0
        if most < 0:
            break
        kept += [turn] if "turn" in turn else []
    return kept


def as_messages(said: Sequence[dict[str, Any]], form: str) -> Iterator[ClientMessage]:
    """The turns as a client sends them: with names, in two roles, or with the name in the text."""
    first = {turn["group"]: turn["speaker"] for turn in reversed(said)}
    for turn in said:
        message = {"role": "user", "content": turn["text"], "timestamp": turn["ts"]}
        if form == "names":
            message["name"] = turn["speaker"]
        elif form == "roles":
            message["role"] = "user" if turn["speaker"] == first[turn["group"]] else "assistant"
        else:
            message["content"] = f"{turn['speaker']}: {turn['text']}"
        yield message


def kept(app: App, folder: Path, said: Sequence[dict[str, Any]], before: SessionLog, after: SessionLog) -> Counter[str]:
    """How many pieces of evidence stand in place, are found, or either."""
    ids = {turn["id"]: entry.id for turn, entry in zip(said, before.entries, strict=True)}
    shown = [_folded(entry.text) for entry in after.entries]
    standing = {turn["id"] for turn in said if any(_folded(turn["text"]) in text for text in shown)}
    tally = Counter[str]()
    for query in lines(folder / "queries.jsonl"):
        gold = [name for name in query["gold"] if name in ids and query["category"] != "adversarial"]
        if not gold:
            continue
        results = app.recall(RecallRequest(query=query["query"], limit=LIMIT), app.caller()).results
        found = {str(each["id"]) for each in results}
        for name in gold:
            ways = {"in place": name in standing, "found": ids[name] in found}
            tally.update(["of", *(way for way in ways if ways[way]), *(["either"] if any(ways.values()) else [])])
    return tally


def _folded(text: str) -> str:
    return " ".join(text.split())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("folder", type=Path, help="folder with memories.jsonl and queries.jsonl")
    parser.add_argument("--form", choices=("names", "roles", "lines"), default="names")
    parser.add_argument("--window", type=int)
    parser.add_argument("--force", action="store_true")
    parser.add_argument("--verbose", action="store_true")
    chosen = parser.parse_args()
    said = turns(chosen.folder, TOKENS)
    with tempfile.TemporaryDirectory() as folder:
        settings = load_settings(data_dir=Path(folder), namespace="chat")
        with closing(open_app(settings, Clock())) as app:
            caller = app.caller()
            app.feed(read_messages([*as_messages(said, chosen.form)]), caller)
            before = app.logs.log(caller)
            for run in app.compact(CompactRequest(window=chosen.window, force=chosen.force), caller).runs:
                print(f"{run.name:<12}{run.tokens_before:>8,} → {run.tokens_after:>8,}  {run.reason}")
            after = app.logs.log(caller)
            print(f"{before.tokens:,} → {after.tokens:,}, {100 * (1 - after.tokens / before.tokens):.1f} % saved")
            if chosen.verbose:
                print("\n\n".join(entry.text for entry in after.entries if entry.form != "original"))
            while app.reindex.catch_up():
                pass
            tally = kept(app, chosen.folder, said, before, after)
            for way in ("in place", "found", "either"):
                print(f"  evidence {way:<10}{tally[way]:>5} of {tally['of']}  {100 * tally[way] / tally['of']:.1f} %")


if __name__ == "__main__":
    main()
