"""Commands that list what a project holds beside records: sessions, contexts, connections."""

from typing import TYPE_CHECKING, Annotated

import typer

from mcp_memory.domain.model.records import Json
from mcp_memory.domain.text.times import iso
from mcp_memory.entrypoints.commands.console import output
from mcp_memory.entrypoints.commands.options import AsJson, Limit, over_memory

if TYPE_CHECKING:
    from mcp_memory.app import App


@over_memory("namespace", "agent")
def sessions(memory: "App", limit: Limit = 20, as_json: AsJson = False) -> None:
    """Show the sessions that stored something lately, newest first.

    `mcp-memory list --session NAME` shows what one stored.
    """
    from mcp_memory.entrypoints.commands.screens import row_screen

    known: list[dict[str, Json]] = [
        {
            "session": each.session_id,
            "agent": each.newest.agent,
            "records": each.records,
            "last": iso(each.newest.occurred_at),
            "latest": each.newest.micro,
        }
        for each in memory.session_accounts.recent(memory.caller(), limit)
    ]
    output(as_json, known, row_screen(known, "No session stored anything yet."))


@over_memory("namespace", "agent")
def contexts(memory: "App", limit: Limit = 20, as_json: AsJson = False) -> None:
    """Show the contexts that agents were given lately, newest first.

    `mcp-memory show ID` shows what went into one, what did not, and why.
    """
    from mcp_memory.entrypoints.commands.screens import row_screen

    known: list[dict[str, Json]] = [
        {
            "id": report.id,
            "at": iso(at),
            "agent": report.circumstances.agent or memory.caller().agent,
            "tokens": report.token_count,
            "strategy": report.strategy,
            "shown": len(report.components),
            "left out": len(report.omitted),
        }
        for at, report in memory.accounts.given(memory.caller(), limit, of_all=True)
    ]
    output(as_json, known, row_screen(known, "No context was assembled in the last two weeks."))


@over_memory("namespace", "agent")
def graph(
    memory: "App",
    thing: Annotated[str, typer.Argument(metavar="A", help="A name, or the id of a record.")],
    other: Annotated[str | None, typer.Argument(metavar="B", help="Another one.")] = None,
    as_json: AsJson = False,
) -> None:
    """Show the connections of a thing and its dependents, or the path between two things."""
    from mcp_memory.entrypoints.commands.screens import connection_screen
    from mcp_memory.entrypoints.server.record_answers import show_connections, show_tie

    caller = memory.caller()
    if other is None:
        shown = show_connections(memory.inspect.connections(thing, caller))
    else:
        shown = show_tie(*memory.inspect.tie(thing, other, caller))
    output(as_json, shown, *connection_screen(shown))
