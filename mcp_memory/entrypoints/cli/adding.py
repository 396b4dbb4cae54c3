"""The command that remembers by hand: add."""

import json
import sys
from dataclasses import asdict
from typing import Annotated, Any

import typer

from mcp_memory.entrypoints.cli.console import complain, errors_in_one_line, print_json
from mcp_memory.entrypoints.cli.options import Agent, AsJson, DataDir, Namespace, opened, settings_for
from mcp_memory.errors import InvalidRequest

STDIN = "-"
_MAX_BYTES_OF_A_CHAR = 4
_WHAT_BECAME: dict[str, str] = {
    "confirmed": "This is known already, as the record named above.",
    "superseded": "This was corrected, and is not stored again.",
}


@errors_in_one_line()
def add(
    context: typer.Context,
    text: Annotated[str, typer.Argument(metavar="TEXT|-", help="What to remember; - reads it from standard input.")],
    kind: Annotated[str, typer.Option("--kind", metavar="KIND", help="fact, decision, procedure, …")] = "fact",
    tag: Annotated[list[str] | None, typer.Option("--tag", metavar="TAG", help="May be repeated.")] = None,
    importance: Annotated[float, typer.Option("--importance", metavar="N", help="0 to 10.")] = 1.0,
    pin: Annotated[bool, typer.Option("--pin", help="Always part of contexts.")] = False,
    details: Annotated[str | None, typer.Option("--details", metavar="JSON", help="An object of what else.")] = None,
    visibility: Annotated[
        str, typer.Option("--visibility", metavar="WHO", help="shared: the project; private: the agent; user: you.")
    ] = "shared",
    occurred: Annotated[str | None, typer.Option("--occurred", metavar="TIME", help="A date or a phrase.")] = None,
    data_dir: DataDir = None,
    namespace: Namespace = None,
    agent: Agent = None,
    as_json: AsJson = False,
) -> None:
    """Remember one thing; prints its id.

    As an agent would: what is known is not stored twice, and secrets are taken out.
    """
    from mcp_memory.domain.model.records import NewRecord
    from mcp_memory.entrypoints.server.arguments import read_arguments
    from mcp_memory.entrypoints.server.wire import ItemArgument, given

    asked = {"text": _given_text(text), "kind": kind, "tags": tag or [], "importance": importance, "pinned": pin}
    asked |= {"details": _object(details), "visibility": visibility}
    fields = given(read_arguments(ItemArgument, asked))
    with opened(settings_for(context, data_dir, namespace, agent)) as memory:
        if occurred is not None:
            fields["occurred_at"] = memory.querying.instant(occurred)
        [remembered] = memory.remember([NewRecord(**fields)], memory.caller())
    if remembered.degraded:
        complain(f"It can be found by its words only, for now: {remembered.degraded}")
    if as_json:
        print_json(asdict(remembered))
        return
    typer.echo(remembered.id)
    if note := _WHAT_BECAME.get(remembered.status):
        complain(note)


def _given_text(text: str) -> str:
    if text != STDIN:
        return text
    from mcp_memory.domain.model.records import MAX_TEXT_CHARS

    given = sys.stdin.buffer.read(_MAX_BYTES_OF_A_CHAR * MAX_TEXT_CHARS + 1)
    if len(given) > _MAX_BYTES_OF_A_CHAR * MAX_TEXT_CHARS:
        raise InvalidRequest(f"Standard input holds more than {MAX_TEXT_CHARS:,} characters; add it in parts.")
    try:
        return given.decode("utf-8-sig").strip()
    except UnicodeDecodeError as error:
        raise InvalidRequest("Standard input is no text in UTF-8.") from error


def _object(details: str | None) -> Any:
    """What is no object is refused with all other arguments."""
    try:
        return json.loads(details) if details is not None else {}
    except (ValueError, RecursionError) as error:
        raise InvalidRequest(f"--details is no JSON ({error}).") from error
