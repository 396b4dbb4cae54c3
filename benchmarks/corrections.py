"""Measures what comes first after corrections: the value that holds, or one that somebody else wrote in other words?

    uv run --locked python -m benchmarks.corrections

Several agents store, correct and replace records; nobody corrects what the others wrote. A question is right where a
record that holds comes first. In "plain" histories nobody said what was replaced. Another hand wrote the histories;
`--aside` reads those that were kept aside, `--set 2` a later set by another hand.
"""

import argparse
import tempfile
from collections import defaultdict
from pathlib import Path

from benchmarks.as_of import Case, Clock, replay
from benchmarks.change import add_set_options, cases
from mcp_memory.app import open_app
from mcp_memory.encoders.embed_minilm import MiniLMEmbedder
from mcp_memory.services.retrieval.recall import RecallRequest
from mcp_memory.settings import load_settings


def main() -> None:
    """Print the share of questions with a valid record first: of all, by language, and by what was said."""
    parser = argparse.ArgumentParser(description=__doc__)
    add_set_options(parser)
    parser.add_argument("--verbose", action="store_true", help="print each question that is not answered rightly")
    arguments = parser.parse_args()
    embedder, rights = MiniLMEmbedder(), defaultdict[str, list[bool]](list)
    for case in cases("corrections", "aside" if arguments.aside else "dev", arguments.set):
        for query, is_right, first in answers(case, embedder):
            for group in ("all", case["language"], "plain" if case.get("plain") else "corrected"):
                rights[group].append(is_right)
            if arguments.verbose and not is_right:
                print(case["id"], query, "| first:", first)
    for group, right in rights.items():
        print(f"{group:10} right {sum(right):4} of {len(right):4} ({sum(right) / len(right):.1%})")


def answers(case: Case, embedder: MiniLMEmbedder) -> list[tuple[str, bool, str]]:
    """Return each question of a history, whether its first result holds, and what that says."""
    with tempfile.TemporaryDirectory() as folder:
        clock = Clock()
        app = open_app(load_settings(data_dir=Path(folder), namespace="benchmark"), clock, embedder=embedder)
        ids = replay(case["history"], app, clock)
        valid = {ids[ref] for ref in case["current"]}
        told: list[tuple[str, bool, str]] = []
        for query in case["queries"]:
            found = app.recall(RecallRequest(query=query), app.caller()).results
            told.append((query, bool(found) and found[0]["id"] in valid, str(found[0]["text"]) if found else "nothing"))
        app.close()
    return told


if __name__ == "__main__":
    main()
