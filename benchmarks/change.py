"""How a memory takes change: `python -m benchmarks.change groups`.

groups: a scripted agent settles the groups of data/change/groups.dev.jsonl through the tools, then undoes all of it in
reverse; the export is the same, byte for byte.
"""

import argparse
import json
import tempfile
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import anyio
from mcp import Client
from mcp.types import TextContent

from mcp_memory.app import App, open_app
from mcp_memory.domain.model.records import NewRecord
from mcp_memory.domain.model.reviews import ReviewKind
from mcp_memory.entrypoints.server.mcp_server import build_server
from mcp_memory.entrypoints.transfer.pieces import piece_line
from mcp_memory.ports.transfer import Origin
from mcp_memory.services.memory.review_queue import enqueue
from mcp_memory.settings import load_settings

DATA = Path(__file__).parent / "data" / "change"
_KINDS: Mapping[str, ReviewKind] = {
    "duplicate": "duplicates", "contradiction": "contradictions", "dependent": "dependents",
}  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Settlements:
    """What became of the groups. `is_restored`: after all undos the export is that of before."""

    settled: Counter[str]
    refused: Sequence[str]
    undone: int
    is_restored: bool


def cases(name: str) -> list[Any]:
    """Return the cases of a file, one a line."""
    return [json.loads(line) for line in (DATA / f"{name}.dev.jsonl").read_text("utf-8").splitlines()]


def exported(app: App) -> bytes:
    """Return the memory as an export, without the line that counts the others."""
    return b"".join(piece_line(each) for each in app.records.transfer().leave() if not isinstance(each, Origin))


async def settle_and_undo(app: App, groups: Sequence[Any]) -> Settlements:
    """Store the groups' records, settle each group with one call of a tool, and undo all of it in reverse."""
    waiting = [(case, *_stored(case, app)) for case in groups]
    before, changes = exported(app), list[int]()
    settled, refused = Counter[str](), list[str]()
    async with Client(build_server(app)) as client:
        for case, group, ids in waiting:
            given = {name: case[name] for name in ("text", "when", "reason") if case[name]}
            keep = {"keep": ids[case["keep"]]} if case["keep"] else {}
            done = await client.call_tool("revise", {"id": group, "settle": case["settle"], **given, **keep})
            if done.is_error or done.structured_content is None:
                refused.append(f"{case['id']}: {_text(done.content)}")
                continue
            changes.append(done.structured_content["change"])
            settled[case["settle"]] += 1
        undone = [await client.call_tool("revise", {"id": str(n), "settle": "undo"}) for n in reversed(changes)]
    return Settlements(
        settled=settled,
        refused=refused,
        undone=sum(1 for each in undone if not each.is_error),
        is_restored=exported(app) == before,
    )


def _stored(case: Any, app: App) -> tuple[str, Mapping[str, str]]:
    """Store a group's records; return the group's id, and the records' by their letters."""
    items = [NewRecord(text=each["text"], kind=each["kind"]) for each in case["records"]]
    made = app.remember(items, app.caller(), advise=False)
    ids = {each["ref"]: one.id for each, one in zip(case["records"], made, strict=True)}
    with app.records.write() as transaction:
        review = enqueue(_KINDS[case["kind"]], [*ids.values()], case["reason"], 0.0, transaction)
    if review is None:
        raise SystemExit(f"{case['id']} makes no group.")
    return review.id, ids


def _text(content: Sequence[object]) -> str:
    return " ".join(each.text for each in content if isinstance(each, TextContent))


def main() -> None:
    """Run the named part, and print its figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("part", choices=["groups"])
    parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        app = open_app(load_settings(data_dir=Path(folder), namespace="change"))
        try:
            outcome = anyio.run(settle_and_undo, app, cases("groups"))
        finally:
            app.close()
    print(f"settled {outcome.settled.total()}: {dict(outcome.settled)}")
    print("\n".join(["refused:", *outcome.refused]) if outcome.refused else "refused: none")
    print(f"undone {outcome.undone}; export {'as before' if outcome.is_restored else 'DIFFERS'}")


if __name__ == "__main__":
    main()
