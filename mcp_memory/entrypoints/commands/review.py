"""Commands over the queue of reviews, and to take a change back: review, review settle, undo."""

from typing import TYPE_CHECKING, Annotated

import typer

from mcp_memory.domain.model.records import Json
from mcp_memory.domain.model.reviews import WAYS
from mcp_memory.entrypoints.commands.console import output
from mcp_memory.entrypoints.commands.options import AsJson, over_memory
from mcp_memory.errors import InvalidRequest, NotFound

if TYPE_CHECKING:
    from mcp_memory.app import App

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


@review.command("settle")
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
        int | None, typer.Argument(metavar="CHANGE", min=1, help="The number that the change's answer told.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Take back one change: a settled group, a revision, a retirement, or all that one `learn` stored."""
    from mcp_memory.entrypoints.server.review_answers import show_undone

    if change is None:
        raise InvalidRequest(
            "Say which change: what changed something named its number, and so does a record's history on the page"
            " (`mcp-memory ui`)."
        )
    if change > memory.revision():
        raise NotFound(f"There is no change {change}.")
    undone = memory.undo(change, memory.caller())
    restored = ", ".join([*(record.id for record in undone.records), *undone.groups])
    output(as_json, show_undone(undone), f"Change {change} is undone: {restored}.")
