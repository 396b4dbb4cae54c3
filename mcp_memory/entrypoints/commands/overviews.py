"""Commands that show what a project holds beside records, and gives: sessions, contexts, reads, connections."""

import json
from dataclasses import asdict, replace
from math import inf
from typing import TYPE_CHECKING, Annotated

import typer

from mcp_memory.domain.model.records import Json
from mcp_memory.domain.model.tasks import NOWHERE, worked_on_by
from mcp_memory.domain.text.control_characters import visible
from mcp_memory.domain.text.times import iso
from mcp_memory.entrypoints.commands.console import complain, output, say
from mcp_memory.entrypoints.commands.options import AsJson, Limit, Since, Until, over_memory
from mcp_memory.errors import InvalidRequest

if TYPE_CHECKING:
    from mcp_memory.app import App
    from mcp_memory.ports.reads import ReadEntry


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
            "last": iso(each.last),
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
def context(
    memory: "App",
    question: Annotated[str, typer.Argument(metavar="[QUESTION]", help="What the agent is about to do.")] = "",
    max_tokens: Annotated[
        int | None,
        typer.Option(metavar="N", min=64, max=1_000_000, help="The budget; by default as set."),
    ] = None,
    strategy: Annotated[str | None, typer.Option(metavar="NAME", help="By default it is chosen.")] = None,
    why: Annotated[
        bool, typer.Option("--why", help="Show where each line came from and its score, and what was left out.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Show the block that an agent would be given now.

    In the task that --agent works on. It is kept nowhere, and counts for nothing.
    """
    from mcp_memory.domain.model.requests import ContextRequest
    from mcp_memory.entrypoints.commands.screens import context_screen
    from mcp_memory.entrypoints.server.record_answers import show_report

    caller = memory.caller()
    task = worked_on_by(caller.agent, memory.tasks.tree(caller))
    place = task.id if task else None
    request = ContextRequest(query=question, max_tokens=max_tokens, strategy=strategy, task_id=place, only_looks=True)
    reader = caller if task else replace(caller, window=NOWHERE)
    given = memory.assemble_context(request, reader)
    report = given.report
    for reason in report.circumstances.degraded:
        complain(f"Searched in part only; {reason}")
    if why:
        parts = context_screen(memory.accounts.told(report, reader), why=True)
    else:
        parts = [visible(given.text)]
        more = "--why says where each line came from, and what was left out"
        complain(f"{report.token_count} tokens, strategy {report.strategy}; {more}.")
    shown = {name: value for name, value in show_report(report).items() if name != "id"}  # `show` does not know it.
    output(as_json, {"block": given.text, **shown}, *parts)


@over_memory("namespace", "agent")
def reads(
    memory: "App",
    record: Annotated[str, typer.Option("--record", metavar="ID", help="Only requests that gave this record.")] = "",
    of: Annotated[str, typer.Option("--of", metavar="AGENT", help="Only what this agent was given here.")] = "",
    since: Since = None,
    until: Until = None,
    limit: Limit = 20,
    as_lines: Annotated[
        bool, typer.Option("--lines", help="Print all of every project as JSON Lines, the oldest first.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Show which requests gave which records to whom, newest first.

    MCP_MEMORY_READ_LOG_DAYS says for how long they are kept. There are ids and names, no texts.
    """
    from mcp_memory.entrypoints.commands.screens import row_screen

    if as_lines:
        if record or of:
            raise InvalidRequest("--lines prints everything; leave out --record and --of, and choose among the lines.")
        begin, end = memory.searcher.between(since, until) if since or until else (None, None)
        for entry in memory.reads.between(begin or 0.0, inf if end is None else end):
            say(json.dumps(_shown_read(entry)))
        return
    if since or until:
        raise InvalidRequest("--since and --until choose among --lines; without that the latest are shown.")
    caller, log = memory.caller(), memory.reads
    by_record = log.of_record(record, caller, limit, of_all=True) if record else None
    page = by_record or log.of_agent(caller, of, limit, of_all=True)
    known = [_shown_read(entry) for entry in page.entries]
    nothing = "No request gave anything." if log.days else "No log of reads is kept; see MCP_MEMORY_READ_LOG_DAYS."
    # What a person looks for first; --json has the rest.
    shown = [{name: each[name] for name in ("at", "agent", "token", "way", "records")} for each in known]
    output(as_json, known, row_screen(shown, nothing))


def _shown_read(entry: "ReadEntry") -> dict[str, Json]:
    told = asdict(entry)
    ids = told.pop("ids")
    return {**told, "at": iso(entry.at), "records": list(ids)}


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
