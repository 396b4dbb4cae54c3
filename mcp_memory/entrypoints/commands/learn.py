"""The command learn: proposes records from a git history and earlier sessions, and stores them on confirmation.

The history is read in the person's own process; the memory's owner says what of it is new, and stores that. A person
takes as long as they want between the two.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from operator import attrgetter
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, cast

import typer

from mcp_memory.domain.model.counted_nouns import counted
from mcp_memory.domain.model.limits import MAX_ITEMS
from mcp_memory.domain.text.control_characters import visible
from mcp_memory.domain.text.times import iso_day
from mcp_memory.entrypoints.commands.console import (
    complain,
    interruptible,
    left_out_told,
    output,
    require_yes,
    terminal,
    undoable,
    way_back,
)
from mcp_memory.entrypoints.commands.maintenance import embed
from mcp_memory.entrypoints.commands.options import AsJson, opened, over_settings, with_options

if TYPE_CHECKING:
    from mcp_memory.domain.model.records import Json, NewRecord
    from mcp_memory.services.memory.learn import Proposal
    from mcp_memory.settings import Settings

DEFAULT_LIMIT: Final = 200
_NOTHING_NEW: Final = 3
"""The exit code by which the first step tells the second that there is nothing to ask."""
_NOTHING_FOUND: Final = (
    "Nothing was found. It looks for footers BREAKING CHANGE, sections of a changelog and"
    " decision records that hold today, and in sessions for what the user said to hold (docs/learning.md)."
)
_FIELDS: Final = ("text", "kind", "tags", "details", "occurred_at", "valid_until", "outcome", "session_id")
_LEFT_OUT: Final[Mapping[str, str]] = {
    "known": "known already",
    "forgotten": "forgotten here, which --again proposes",
    "refused": "private or erased here",
}


@with_options("data_dir", "namespace", "agent")
def learn(
    chosen: Mapping[str, Any],
    context: typer.Context,
    git: Annotated[
        Path | None, typer.Option("--git", metavar="FOLDER", help="A git repository; by default this folder's.")
    ] = None,
    transcripts: Annotated[
        list[Path] | None,
        typer.Option("--transcripts", metavar="FOLDER", help="Claude Code's sessions of a project; may be repeated."),
    ] = None,
    limit: Annotated[
        int, typer.Option("--limit", "-n", metavar="N", min=1, max=MAX_ITEMS, help="Propose the newest N at most.")
    ] = DEFAULT_LIMIT,
    again: Annotated[bool, typer.Option("--again", help="Propose also what was forgotten here.")] = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Store without a question.")] = False,
    as_json: AsJson = False,
) -> None:
    """Fill a memory from a git history and earlier sessions, shown first.

    Breaking changes, sections of the changelog, decision records; and from sessions what the user said to hold.
    One `mcp-memory undo` takes all of it back.
    """
    left_out = Counter[str]()
    with interruptible("Interrupted; nothing was stored."):
        items = _read(git, transcripts or [], left_out)[:limit]
        given: dict[str, Any] = {"items": [_told(item) for item in items], "again": again, "as_json": as_json}
        given["left_out"] = dict(left_out)
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


def _read(git: Path | None, transcripts: Sequence[Path], left_out: Counter[str]) -> "list[NewRecord]":
    """Return what the histories tell, the newest first."""
    from mcp_memory.entrypoints.transfer.learning.history import read_history
    from mcp_memory.entrypoints.transfer.learning.sessions import read_sessions

    items = [*read_sessions([each.expanduser() for each in transcripts], left_out)] if transcripts else []
    if git or not transcripts:
        items += read_history((git or Path.cwd()).expanduser(), left_out)
    return sorted(items, key=lambda item: item.occurred_at or 0.0, reverse=True)


def _told(item: "NewRecord") -> "dict[str, Json]":
    """Return an item as JSON, for the memory's owner."""
    values = zip(_FIELDS, attrgetter(*_FIELDS)(item), strict=True)
    return {name: list(cast("tuple[str, ...]", value)) if isinstance(value, tuple) else value for name, value in values}


def _items(told: Sequence[Mapping[str, Any]]) -> "list[NewRecord]":
    from mcp_memory.domain.model.records import NewRecord

    given: list[dict[str, Any]] = [{**each, "tags": tuple(each["tags"])} for each in told]
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
        proposal = memory.learn.propose(_items(items), memory.caller(), again=again)
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
        proposal = memory.learn.propose(_items(items), memory.caller(), again=again)
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


def source_of(details: "Mapping[str, Json]") -> str:
    """Return where a record comes from in words: "CHANGELOG.md:24", "commit 1f0c2d3e4b5a", "session 0b9c1f64"."""
    if session := details.get("session"):
        return f"session {session}"
    if path := details.get("path") or details.get("document"):
        return f"{path}:{line}" if (line := details.get("line")) else str(path)
    return f"commit {details.get('commit')}"


def _shown(item: "NewRecord") -> "dict[str, Json]":
    day = {} if item.occurred_at is None else {"date": iso_day(item.occurred_at)}
    source: dict[str, Json] = {"source": source_of(item.details), "tags": list(item.tags)}
    replaced: dict[str, Json] = {"replaces": list(item.supersedes)} if item.supersedes else {}
    return {"text": item.text, "kind": item.kind, **day, **source, **replaced}


def _page(proposal: "Proposal", left_out: Mapping[str, int]) -> list[Any]:
    """Return a head and the text of each record, and what was left out."""
    from rich.text import Text

    parts: list[Text] = []
    for number, item in enumerate(proposal.items, 1):
        shown = _shown(item)
        replaced = [f"replaces {', '.join(item.supersedes)}"] if item.supersedes else []
        head = [str(shown["kind"]), str(shown.get("date", "")), str(shown["source"]), *replaced]
        parts += [Text(visible(f"{number}. {' · '.join(filter(None, head))}"), "dim"), Text(visible(f"   {item.text}"))]
    known = "There is nothing new." if proposal.left_out else _NOTHING_FOUND
    told = f"{counted(len(proposal.items), 'new record')}." if proposal.items else known
    return [*parts, Text(visible(f"{told} {left_out_told(left_out)}".rstrip()))]
