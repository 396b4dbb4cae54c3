"""The command learn: stores what an agent proposes, or what earlier sessions tell, on confirmation.

A source is read in the person's own process; the memory's owner says what of it is new, and stores that. A person
takes as long as they want between the two.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from operator import attrgetter
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, cast

import typer

from mcp_memory.domain.model.counted_nouns import counted
from mcp_memory.domain.model.kind_words import kind_in_words
from mcp_memory.domain.model.limits import MAX_ITEMS
from mcp_memory.domain.text.control_characters import visible
from mcp_memory.domain.text.times import iso_day
from mcp_memory.entrypoints.commands.ask_owner import STREAM
from mcp_memory.entrypoints.commands.console import (
    complain,
    interruptible,
    left_out_told,
    output,
    print_json,
    require_yes,
    say,
    terminal,
    undoable,
    way_back,
)
from mcp_memory.entrypoints.commands.maintenance import embed
from mcp_memory.entrypoints.commands.options import AsJson, opened, over_settings, with_options
from mcp_memory.errors import InvalidRequest

if TYPE_CHECKING:
    from mcp_memory.app import App
    from mcp_memory.domain.model.records import Json, NewRecord
    from mcp_memory.services.memory.learn import Proposal
    from mcp_memory.settings import Settings

DEFAULT_LIMIT: Final = 200
"""Records of sessions."""
_NOTHING_NEW: Final = 3
"""The exit code by which the first step tells the second that there is nothing to ask."""
_MISUSED: Final = 2
"""The exit code of a command that lacks an argument."""
_HOW: Final = """\
An agent reads the project's history and proposes records; you see them before they are stored. Ask for it
- in Claude Code with the plugin: /memory:learn
- in another client: the MCP prompt `learn` of the memory's server
- anywhere: paste what `mcp-memory learn --instruction` prints.
It ends with `mcp-memory learn --from FILE`. From Claude Code's sessions: `mcp-memory learn --transcripts FOLDER`."""
_NOTHING_FOUND: Final = (
    "Nothing was found. In sessions it looks for what the user said to hold, for closed steps and repaired checks"
    " (docs/learning.md)."
)
_FIELDS: Final = ("text", "kind", "tags", "details", "occurred_at", "outcome", "session_id")
_LEFT_OUT: Final[Mapping[str, str]] = {
    "known": "known already",
    "forgotten": "forgotten here, which --again proposes",
    "refused": "private or erased here",
}


@with_options("data_dir", "namespace", "agent")
def learn(
    chosen: Mapping[str, Any],
    context: typer.Context,
    source: Annotated[
        Path | None,
        typer.Option(
            "--from", metavar="FILE", help="Records that an agent proposes, a JSON object a line; - reads them."
        ),
    ] = None,
    transcripts: Annotated[
        list[Path] | None,
        typer.Option("--transcripts", metavar="FOLDER", help="Claude Code's sessions of a project; may be repeated."),
    ] = None,
    instruction: Annotated[
        bool, typer.Option("--instruction", help="Print what to ask an agent for that reads the history.")
    ] = False,
    limit: Annotated[
        int | None,
        typer.Option(
            "--limit",
            "-n",
            metavar="N",
            min=1,
            max=MAX_ITEMS,
            help="Propose N records at most; of sessions the newest.",
        ),
    ] = None,
    again: Annotated[bool, typer.Option("--again", help="Propose also what was forgotten here.")] = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Store without a question.")] = False,
    as_json: AsJson = False,
) -> None:
    """Fill a memory with what an agent found in the history, or from earlier sessions, shown first.

    Alone it says how an agent is asked. One `mcp-memory undo` takes all that it stored back.
    """
    if instruction:
        _print_instruction(limit, as_json)
        return
    if not source and not transcripts:
        typer.echo(_HOW, file=terminal().stderr)
        raise typer.Exit(_MISUSED)
    if source and transcripts:
        raise InvalidRequest("--from and --transcripts are two sources; name one of them, then the other.")
    left_out = Counter[str]()
    with interruptible("Interrupted; nothing was stored."):
        items = _proposed(source, limit) if source else _of_sessions(transcripts or [], limit, left_out)
        given: dict[str, Any] = {"items": items, "again": again, "as_json": as_json, "left_out": dict(left_out)}
        if not yes:
            try:
                learn_shown(context, **given, **chosen)
            except typer.Exit as end:
                if end.exit_code == _NOTHING_NEW:
                    return
                raise
            if as_json or not terminal().stdin.isatty() or not terminal().stderr.isatty():
                complain("Nothing was stored; the same command with --yes stores these records.")
                return
            require_yes("Store these records?")
        learn_stored(context, **given, shows=yes and not as_json, **chosen)


def _print_instruction(limit: int | None, as_json: bool) -> None:
    from mcp_memory.entrypoints.server.plugin_texts import learn_instruction

    told = learn_instruction(str(limit or ""))
    if as_json:
        print_json({"instruction": told})
    else:
        say(told)


def _proposed(source: Path, limit: int | None) -> "list[dict[str, Json]]":
    """Return the records of the file as `_items` takes them. Raises InvalidRequest."""
    from mcp_memory.entrypoints.transfer.learning.proposals import read_proposals

    proposed = read_proposals(terminal().stdin.buffer if source == STREAM else source.expanduser())
    return [each.as_item() for each in proposed[:limit]]


def _of_sessions(transcripts: Sequence[Path], limit: int | None, left_out: Counter[str]) -> "list[dict[str, Json]]":
    """Return what sessions tell, the newest first, as `_items` takes it. Raises InvalidRequest."""
    from mcp_memory.entrypoints.transfer.learning.sessions import read_sessions

    found = read_sessions([each.expanduser() for each in transcripts], left_out)
    newest = sorted(found, key=lambda item: item.occurred_at or 0.0, reverse=True)[: limit or DEFAULT_LIMIT]
    return [_told(item) for item in newest]


def _told(item: "NewRecord") -> "dict[str, Json]":
    values = zip(_FIELDS, attrgetter(*_FIELDS)(item), strict=True)
    return {name: list(cast("tuple[str, ...]", value)) if isinstance(value, tuple) else value for name, value in values}


def _items(told: Sequence[Mapping[str, Any]], memory: "App") -> "list[NewRecord]":
    """Return the records of these fields; a time that is a day begins with it, in the time zone of the user at work."""
    from mcp_memory.domain.model.records import NewRecord

    def at(time: float | str | None) -> float | None:
        return memory.searcher.instant(time) if isinstance(time, str) else time

    given: list[dict[str, Any]] = [
        {**each, "tags": tuple(each["tags"]), "occurred_at": at(each["occurred_at"])} for each in told
    ]
    return [NewRecord(**each) for each in given]


@over_settings("data_dir", "namespace", "agent", asks=True)
def learn_shown(
    settings: "Settings",
    items: list[dict[str, Any]],
    left_out: dict[str, int],
    again: bool,
    as_json: bool = False,
) -> None:
    """Show what is new; end with _NOTHING_NEW where nothing is."""
    with opened(settings, takes=False) as memory:
        proposal = memory.learn.propose(_items(items, memory), memory.caller(), again=again)
    _show(proposal, left_out, as_json)
    if not proposal.drafts:
        raise typer.Exit(_NOTHING_NEW)


@over_settings("data_dir", "namespace", "agent", asks=True)
def learn_stored(
    settings: "Settings",
    items: list[dict[str, Any]],
    left_out: dict[str, int],
    again: bool,
    shows: bool,
    as_json: bool = False,
) -> None:
    """Store what is new, in one write; where it `shows` that as well, nothing new is no more than shown."""
    with opened(settings) as memory:
        proposal = memory.learn.propose(_items(items, memory), memory.caller(), again=again)
        if shows:
            _show(proposal, left_out, as_json)
            if not proposal.drafts:
                return
        learned = memory.learn.store(proposal, memory.caller())
        embedded, into = embed(memory), memory.caller().namespace
    outcome = {"stored": len(learned.ids), "ids": list(learned.ids), "embedded": embedded, "into": into}
    said = f"Stored {counted(len(learned.ids), 'record')} in the project {into}. {way_back(learned.change)}".strip()
    output(as_json, {**outcome, **undoable(learned.change)}, visible(said))


def _show(proposal: "Proposal", left_out: Mapping[str, int], as_json: bool) -> None:
    told = {**left_out, **{_LEFT_OUT[reason]: count for reason, count in proposal.left_out.items()}}
    proposed = [_shown(item) for item in proposal.items]
    output(as_json, {"proposed": proposed, "left_out": told}, *_page(proposal, told))


def _source_of(details: "Mapping[str, Json]") -> str:
    """Return where a record comes from: "session 0b9c1f64", or as the agent says it; "" where it does not."""
    return f"session {session}" if (session := details.get("session")) else str(details.get("source", ""))


def _shown(item: "NewRecord") -> "dict[str, Json]":
    day = {} if item.occurred_at is None else {"date": iso_day(item.occurred_at)}
    source: dict[str, Json] = {"source": _source_of(item.details), "tags": list(item.tags)}
    return {"text": item.text, "kind": item.kind, **day, **source}


def _page(proposal: "Proposal", left_out: Mapping[str, int]) -> list[Any]:
    """Return a head and the text of each record, and what was left out."""
    from rich.text import Text

    parts: list[Text] = []
    for number, item in enumerate(proposal.items, 1):
        shown = _shown(item)
        head = [kind_in_words(item.kind), str(shown.get("date", "")), str(shown["source"])]
        parts += [
            Text(visible(f"{number}. {' · '.join(filter(None, head))}"), "dim"),
            Text(visible(f"   {item.text}").replace("\n", "\n   ")),
        ]
    known = "There is nothing new." if proposal.left_out else _NOTHING_FOUND
    told = f"{counted(len(proposal.items), 'new record')}." if proposal.items else known
    return [*parts, Text(visible(f"{told} {left_out_told(left_out)}".rstrip()))]
