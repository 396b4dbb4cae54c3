"""Commands over whole projects: list them, rename one, merge two, limit what one may store."""

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, cast

import typer

from mcp_memory.domain.model.counted_nouns import counted
from mcp_memory.domain.model.records import Json
from mcp_memory.domain.text.control_characters import visible
from mcp_memory.entrypoints.commands.console import output
from mcp_memory.entrypoints.commands.options import AsJson, over_memory
from mcp_memory.errors import InvalidRequest

if TYPE_CHECKING:
    from collections.abc import Mapping

    from mcp_memory.app import App
    from mcp_memory.domain.model.projects import MovedProject

projects = typer.Typer(name="projects", help="Show the projects that hold records, rename, merge or limit them.")
Old = Annotated[str, typer.Argument(metavar="OLD", help="The name of the project, as `projects` shows it.")]


@projects.callback(invoke_without_command=True)
@over_memory("namespace", "agent")
def list_projects(memory: "App", as_json: AsJson = False) -> None:
    """Show the projects that hold records, how many live ones each holds, and the folder it is in."""
    from mcp_memory.entrypoints.commands.screens import row_screen

    here, folders = memory.caller().namespace, memory.projects.folders()
    known: list[dict[str, Json]] = [
        {
            "namespace": name,
            "records": live,
            "here": name == here,
            **({"folder": folders[name][0], "gone": not folders[name][1]} if name in folders else _NOWHERE),
        }
        for name, live in memory.projects.live_records().items()
    ]
    output(as_json, known, row_screen(known, "No project holds a record yet."))


_FOR_GOOD = "A merge cannot be undone: only a backup from before it has the two apart."
_NOWHERE: dict[str, Json] = {"folder": None, "gone": False}
"""Shown for a project that somebody named, that was imported, or was not used since folders are noted."""


@projects.command("rename", epilog="Example: mcp-memory projects rename old new")
@over_memory("namespace", "agent")
def rename_project(
    memory: "App",
    old: Old,
    new: Annotated[str, typer.Argument(metavar="NEW", help="The new name, which no other project has.")],
    as_json: AsJson = False,
) -> None:
    """Give a project another name. All that it holds moves along; renaming it back undoes it.

    Servers that run go on under the new name, and so do settings that name the old one.
    """
    moved = memory.projects.rename(old, new)
    undone = f"`mcp-memory projects rename {new} {old}` undoes it."
    _tell(moved, old, new, as_json, f"{old} is called {new} now ({_counted(moved)}). {undone}")


@projects.command("merge", epilog="Example: mcp-memory projects merge old-laptop billing")
@over_memory("namespace", "agent")
def merge_projects(
    memory: "App",
    old: Annotated[str, typer.Argument(metavar="FROM", help="The project that goes into the other one.")],
    new: Annotated[str, typer.Argument(metavar="INTO", help="The project that takes it in; it may hold nothing yet.")],
    as_json: AsJson = False,
) -> None:
    """Put one project's memory into another's, as after a folder was renamed or moved.

    Records keep their ids, authors and dates, and private ones stay private. Nothing parts the two again but a backup.
    A token for one of the two reads both from then on; the answer names those tokens.
    """
    moved = memory.projects.merge(old, new)
    _tell(moved, old, new, as_json, f"{new} holds what {old} held ({_counted(moved)}). {_FOR_GOOD}")


@projects.command("quota", epilog="Example: mcp-memory projects quota billing --records 50000")
@over_memory("namespace", "agent")
def limit_project(
    memory: "App",
    name: Annotated[str | None, typer.Argument(metavar="[NAME]", help="The project. All quotas are shown.")] = None,
    records: Annotated[int | None, typer.Option(metavar="N", min=0, help="The most records that it may hold.")] = None,
    text_bytes: Annotated[
        int | None, typer.Option("--bytes", metavar="N", min=0, help="The most bytes of text that it may hold.")
    ] = None,
    calls: Annotated[int | None, typer.Option(metavar="N", min=0, help="The most calls a minute over HTTP.")] = None,
    is_person: Annotated[bool, typer.Option("--person", help="NAME is a person, not a project.")] = False,
    drops: Annotated[
        bool,
        typer.Option(
            "--none", help="Remove all limits of NAME first; limits that you give in the same command then hold."
        ),
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Show the limits of projects, or set how much one may store, and how many calls a minute it may get.

    A limit that you do not give stays as it is.

    Nothing that is stored already is lost. A call that would go beyond is told which limit it met.
    """
    chosen = {"records": records, "bytes": text_bytes, "calls": calls}
    given = {what: most for what, most in chosen.items() if most is not None}
    if given or drops:
        if name is None:
            raise InvalidRequest("Name the project whose limits these are.")
        memory.quotas.limit(name, given, is_person=is_person, drops=drops)
    known: list[dict[str, Json]] = [
        {**asdict(quota), "used_records": used.records, "used_bytes": used.bytes} for quota, used in memory.quotas.all()
    ]
    output(as_json, known, *(map(_quota_line, known) if known else ("No project has a quota.",)))


def _quota_line(quota: "Mapping[str, Json]") -> str:
    limited = [what for what in ("records", "bytes") if quota[what] is not None]
    told = [f"{quota[f'used_{what}']} of {counted(cast('int', quota[what]), what[:-1])}" for what in limited]
    told += [f"{counted(cast('int', quota['calls']), 'call')} a minute"] if quota["calls"] is not None else []
    return visible(f"{quota['partition']}: {', '.join(told)}")


def _tell(moved: "MovedProject", old: str, new: str, as_json: bool, line: str) -> None:
    if moved.tokens:
        line += f" Tokens that held {old} hold {new}: {', '.join(moved.tokens)}."
    if moved.readers:
        names = ", ".join(moved.readers)
        line += f" These tokens read more than before: {names}; `mcp-memory tokens revoke NAME` ends one."
    shown: dict[str, Json] = {
        "from": old, "to": new, "records": moved.records, "not_live": moved.not_live, "tasks": moved.tasks,
        "tokens": list(moved.tokens), "readers": list(moved.readers),
    }  # fmt: skip
    output(as_json, shown, visible(line))


def _counted(moved: "MovedProject") -> str:
    others = f"{moved.not_live} more retired or only noted, " if moved.not_live else ""
    return f"{counted(moved.records, 'record')}, {others}{counted(moved.tasks, 'task')}"
