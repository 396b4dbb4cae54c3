"""How a memory takes change: `python -m benchmarks.change groups|pairs [--aside] [--set 2] [--misses]`.

pairs: a stored record and a new one that contradicts it, only looks so, or says the same again, in four languages. All
stored records are in one memory; each new one is remembered, judged by its answer, and erased.
groups: a scripted agent settles the groups of data/change/groups.dev.jsonl through the tools, then undoes all of it in
reverse; the export is the same, byte for byte.
"""

import argparse
import json
import tempfile
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
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
from mcp_memory.entrypoints.transfer.memory_file import piece_line
from mcp_memory.ports.transfer import Origin
from mcp_memory.services.review.enqueue import enqueue
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Answered:
    """A pair, whether the answer named its stored record a conflict or to look at, and the other conflicts it named."""

    pair: Mapping[str, str]
    conflict: bool
    shown: bool
    others: Sequence[str]


def cases(name: str, which: str = "dev", number: int = 1) -> list[Any]:
    """Return the cases of a file, one a line; the second set was written when the rules for the first were there."""
    file = DATA / f"{name}{number if number > 1 else ''}.{which}.jsonl"
    return [json.loads(line) for line in file.read_text("utf-8").splitlines()]


def add_set_options(parser: argparse.ArgumentParser) -> None:
    """Let a caller choose the set of cases."""
    parser.add_argument("--aside", action="store_true", help="run the cases that were kept aside")
    parser.add_argument("--set", type=int, choices=[1, 2], default=1, help="the first or the second set of cases")


def answered(app: App, pairs: Sequence[Mapping[str, str]]) -> Iterator[Answered]:
    """Store the first record of every pair, then remember the second ones in turn, and erase each."""
    caller = app.caller()
    stored = app.remember([NewRecord(text=pair["stored"]) for pair in pairs], caller, advise=False)
    for pair, record in zip(pairs, stored, strict=True):
        told = app.remember([NewRecord(text=pair["new"])], caller)[0]
        others = [f"{each.text} ({each.why})" for each in told.conflicts if each.id != record.id]
        is_conflict = len(others) < len(told.conflicts)
        is_shown = record.id in (*told.similar, *(each.id for each in told.near))
        yield Answered(pair=pair, conflict=is_conflict, shown=is_shown, others=others)
        if told.status == "stored":
            app.forget([told.id], "erase", caller)


def print_pairs(told: Sequence[Answered], *, misses: bool) -> None:
    """Print the shares by kind and language, and on request each wrong answer."""
    print("kind       language  pairs  conflict  to look at  unrelated named")
    for kind in sorted({each.pair["kind"] for each in told}):
        for language in (*sorted({each.pair["language"] for each in told}), "all"):
            of_kind = [e for e in told if e.pair["kind"] == kind and language in (e.pair["language"], "all")]
            counts = [
                sum(e.conflict for e in of_kind),
                sum(e.shown for e in of_kind),
                sum(bool(e.others) for e in of_kind),
            ]
            shown = "  ".join(f"{count:3} {count / max(len(of_kind), 1):6.1%}" for count in counts)
            print(f"{kind:10} {language:8} {len(of_kind):6}  {shown}")
    for each in told if misses else ():
        if each.conflict != (each.pair["kind"] == "conflict") or each.others:
            print(each.pair["kind"], "|", each.pair["stored"], "|", each.pair["new"], *each.others)


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
    parser.add_argument("part", choices=["groups", "pairs"])
    add_set_options(parser)
    parser.add_argument("--misses", action="store_true", help="list the pairs that were answered wrongly")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        app = open_app(load_settings(data_dir=Path(folder), namespace="change"))
        try:
            if arguments.part == "groups":
                print_groups(anyio.run(settle_and_undo, app, cases("groups")))
            else:
                pairs = cases("pairs", "aside" if arguments.aside else "dev", arguments.set)
                print_pairs(list(answered(app, pairs)), misses=arguments.misses)
        finally:
            app.close()


def print_groups(outcome: Settlements) -> None:
    """Print what became of the groups."""
    print(f"settled {outcome.settled.total()}: {dict(outcome.settled)}")
    print("\n".join(["refused:", *outcome.refused]) if outcome.refused else "refused: none")
    print(f"undone {outcome.undone}; export {'as before' if outcome.is_restored else 'DIFFERS'}")


if __name__ == "__main__":
    main()
