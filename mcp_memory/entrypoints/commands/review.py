"""Commands over the queue of reviews, and over changes: review, review settle, undo."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Final

import typer

from mcp_memory.domain.model.ids import number_of
from mcp_memory.domain.model.records import Json
from mcp_memory.domain.model.reviews import WAYS
from mcp_memory.domain.model.versions import TOLD
from mcp_memory.domain.text.control_characters import visible
from mcp_memory.domain.text.times import iso
from mcp_memory.entrypoints.commands.console import output
from mcp_memory.entrypoints.commands.options import AsJson, Limit, over_memory
from mcp_memory.errors import InvalidRequest, NotFound

if TYPE_CHECKING:
    from mcp_memory.app import App
    from mcp_memory.domain.model.records import Record
    from mcp_memory.services.review.undo import PastChange, TakenBack

NAMED: Final = 3
"""Records that a sentence about a change names; further ones are counted."""
_NAMES: Final[Mapping[str, str]] = {"pinned": "pin", "superseded_by": "successor", "occurred_at": "time"}
_BECAME: Final[Mapping[str, str]] = {"retired": "Retired", "inactive": "Marked as wrong"}

review = typer.Typer(
    name="review", help="Show the groups of records that contradict or repeat each other, or settle one."
)


@review.callback(invoke_without_command=True)
@over_memory("namespace", "agent")
def list_groups(memory: "App", as_json: AsJson = False) -> None:
    """Show the groups of records that wait for somebody to look at them together."""
    from mcp_memory.entrypoints.commands.screens import review_screen
    from mcp_memory.entrypoints.server.review_answers import show_group

    caller = memory.caller()
    groups: list[Json] = [show_group(each, caller, memory.counter) for each in memory.reviews.waiting(caller)]
    output(as_json, {"groups": groups}, *review_screen(groups))


@review.command("settle", epilog="Example: mcp-memory review settle g00002a supersedes --keep r00001z")
@over_memory("namespace", "agent")
def settle_group(
    memory: "App",
    group: Annotated[str, typer.Argument(metavar="GROUP", help="The group's id.")],
    way: Annotated[str, typer.Argument(metavar="WAY", help=f"{', '.join(WAYS[:-1])} or {WAYS[-1]}.")],
    keep: Annotated[str, typer.Option(metavar="ID", help="The record that stays, for merge and supersedes.")] = "",
    text: Annotated[
        str, typer.Option(metavar="TEXT", help="What it says after a merge; its own text if not given.")
    ] = "",
    when: Annotated[str, typer.Option(metavar="WHEN", help="When or where each holds: 'r… in staging; r… …'.")] = "",
    reason: Annotated[str, typer.Option(metavar="WHY", help="Why, or with ask, the question.")] = "",
    as_json: AsJson = False,
) -> None:
    """Settle one group; prints the number by which `mcp-memory undo` takes it back."""
    from mcp_memory.entrypoints.server.review_answers import show_settled
    from mcp_memory.services.review.settle import Settling

    if way not in WAYS:
        raise InvalidRequest(f"There is no way {way[:40]!r}; the ways are {', '.join(WAYS)}.")
    settling = Settling(id=group, settle=way, keep=keep, text=text, when=when, reason=reason)
    settled = memory.settle(settling, memory.caller())
    line = f"Group {group} is settled as {way}; `mcp-memory undo {settled.change}` takes it back."
    output(as_json, show_settled(settled), line)


@over_memory("namespace", "agent")
def undo(
    memory: "App",
    change: Annotated[
        int | None, typer.Argument(metavar="[CHANGE]", min=1, help="Its number; without one the latest are shown.")
    ] = None,
    last: Annotated[
        bool, typer.Option("--last", help="Take back the latest one that --agent made by a command in this project.")
    ] = False,
    limit: Limit = 20,
    as_json: AsJson = False,
) -> None:
    """Take back one change, or show the latest changes with their numbers.

    One is a settled group, a revision, a retirement, or what one `add` or `learn` stored. What somebody changed since
    stays.
    """
    from mcp_memory.entrypoints.commands.screens import row_screen
    from mcp_memory.entrypoints.server.review_answers import show_undone

    caller = memory.caller()
    if last and change is not None:
        raise InvalidRequest("--last takes back the latest change; leave out the number, or --last.")
    if change is None and not last:
        known = [_shown_change(each) for each in memory.undo.latest(caller, limit)]
        rows = [{name: each[name] for name in ("change", "at", "by", "what")} for each in known]
        output(as_json, known, row_screen(rows, "Nothing that an undo takes back was changed yet."))
        return
    number, what = change, ""
    if number is None:
        past = memory.undo.last_own(caller)
        number, what = past.change, what_changed(past)
    elif number > memory.revision():
        raise NotFound(f"There is no change {number}.")
    undone = memory.undo(number, caller)
    restored = ", ".join([*(record.id for record in undone.records), *undone.groups])
    did = f" What it did: {what}" if what else ""
    told = visible(f"Change {number} is undone: {restored}.{did} {_way_back_from(undone)}")
    output(as_json, show_undone(undone) | ({"what": what} if what else {}), told)


def _way_back_from(undone: "TakenBack") -> str:
    """Say how to have again what an undo took back: no undo is undone itself."""
    gone = [each.id for each in undone.records if each.status == "retired"]
    if gone:
        return f"`mcp-memory restore {' '.join(gone)}` brings {'it' if len(gone) == 1 else 'them'} back."
    return "Undo is final: to bring the change back, make it again."


def _shown_change(past: "PastChange") -> dict[str, Json]:
    undone = f" Undone by change {past.undone}." if past.undone else ""
    by = f"{past.agent} ({past.client})" if past.client not in ("", past.agent) else past.agent
    shown: dict[str, Json] = {"change": past.change, "at": iso(past.at), "by": by, "agent": past.agent}
    shown |= {"client": past.client, "what": f"{what_changed(past)}{undone}", "undone": past.undone}
    return shown | {"records": [after.id for _, after in past.records]}


def what_changed(past: "PastChange") -> str:
    """Say what a change did: "Retired r00001a “The port is 80.”, r00001b and 3 more."."""
    deeds: dict[str, list[Record]] = {}
    for before, after in past.records:
        deeds.setdefault(_deed(before, after, past.change), []).append(after)
    told = [_with_records(deed, records) for deed, records in deeds.items()]
    if past.settled:
        review = past.settled.review
        told.insert(0, f"Settled {review.id} as {review.way} ({', '.join(review.record_ids)})")
    return "; ".join(told) + "."


def _deed(before: "Record", after: "Record", change: int) -> str:
    """Name what was done to a record, so that its id may follow."""
    if number_of(after.id) >= change:  # It was made by the same write.
        return "Stored"
    if before.status != after.status and after.status in _BECAME:
        return _BECAME[after.status]
    if before.status == "retired" != after.status:
        return "Restored"
    if before.superseded_by != after.superseded_by and after.superseded_by:
        return f"Replaced by {after.superseded_by}:"
    names = [name for name in ("text", *TOLD) if getattr(before, name) != getattr(after, name)]
    told = (_NAMES.get(name, name.replace("_", " ")) for name in names)
    return f"Changed the {', '.join(told) or 'circumstances'} of"


def _with_records(deed: str, records: "Sequence[Record]") -> str:
    first, *others = records
    named = [f"{first.id} “{first.micro}”", *(each.id for each in others)]
    more = f" and {len(named) - NAMED} more" if len(named) > NAMED else ""
    return f"{deed} {', '.join(named[:NAMED])}{more}"
