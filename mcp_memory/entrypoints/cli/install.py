"""Commands that put the server into a client's configuration and take it out: install, uninstall."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from mcp_memory.domain.model.projects import DEFAULT_NAMESPACE
from mcp_memory.entrypoints.commands.access import claim_folder
from mcp_memory.entrypoints.commands.console import print_json, screen, visible
from mcp_memory.entrypoints.commands.options import AsJson, settings_chosen, with_options
from mcp_memory.errors import InvalidRequest

if TYPE_CHECKING:
    from mcp_memory.entrypoints.clients.catalogue import Places
    from mcp_memory.entrypoints.clients.entries import Change, Installation, Start
    from mcp_memory.settings import Settings

ClientName = Annotated[
    str, typer.Argument(metavar="CLIENT", help="For example cursor; `install --list` shows them all.")
]
Project = Annotated[bool, typer.Option("--project", help="Use the project's file in this folder, not your own.")]
EntryName = Annotated[str, typer.Option("--name", metavar="NAME", help="The name of the entry in the client.")]
Force = Annotated[bool, typer.Option("--force", help="Replace another server of that name.")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Only show what would change.")]


@with_options("namespace", "agent", "data_dir", "url")
def install(
    named: Mapping[str, Any],
    context: typer.Context,
    client_name: Annotated[
        str | None, typer.Argument(metavar="CLIENT", help="claude-code, claude-desktop, cursor, vscode, and more.")
    ] = None,
    listing: Annotated[bool, typer.Option("--list", help="Show the clients, and which have the server.")] = False,
    project: Project = False,
    name: EntryName = "memory",
    command: Annotated[
        str | None, typer.Option("--command", metavar="PROGRAM", help="Start this, not the program that runs now.")
    ] = None,
    env: Annotated[
        list[str] | None, typer.Option("--env", metavar="KEY=VALUE", help="Another variable; may be repeated.")
    ] = None,
    force: Force = False,
    dry_run: DryRun = False,
    as_json: AsJson = False,
) -> None:
    """Put the server into a client's configuration.

    All else in the file stays, and a copy is kept beside it. Called again with other options it changes the entry.
    """
    from mcp_memory.entrypoints.clients import catalogue, entries

    if listing:
        _show_list(entries.installations(), as_json)
        return
    if client_name is None:
        raise InvalidRequest("Name a client, as in `mcp-memory install cursor`; --list shows them.")
    client, places = catalogue.client_named(client_name), catalogue.places_here()
    settings, chosen = settings_chosen(named), dict(named)
    if project:
        client.project_file(places)  # Raises for a client that has none, before anything is written.
    if project and not ({"namespace", "url"} & chosen.keys() or client.starts_in_project or client.project_cwd):
        chosen["namespace"] = _project_namespace(context, named, settings, places, dry_run)
    wanted = entries.Wanted(
        start=(command,) if command else entries.running_command(),
        name=_checked(name),
        variables={
            **{f"MCP_MEMORY_{name.upper()}": str(value) for name, value in chosen.items()},
            **_assignments(env or ()),
        },
        otherwise={} if project or client.starts_in_project else {"MCP_MEMORY_NAMESPACE": DEFAULT_NAMESPACE},
        project=project,
        force=force,
    )
    change = entries.plan_install(client, wanted, places)
    _carry_out(change, dry_run, as_json, _next_steps(change, wanted.start, project, entries.has_plugin(client, places)))


def uninstall(
    client_name: ClientName,
    project: Project = False,
    name: EntryName = "memory",
    force: Force = False,
    dry_run: DryRun = False,
    as_json: AsJson = False,
) -> None:
    """Take the server out of a client's configuration.

    What is remembered stays.
    """
    from mcp_memory.entrypoints.clients import catalogue, entries

    client, places = catalogue.client_named(client_name), catalogue.places_here()
    change = entries.plan_uninstall(client, name, places, project=project, force=force)
    _carry_out(change, dry_run, as_json, (f"Restart {client.title}: until then it may keep using the server.",))


def _project_namespace(
    context: typer.Context, named: Mapping[str, Any], settings: "Settings", places: "Places", dry_run: bool
) -> str:
    """Return the project's namespace, for servers that start elsewhere; record it for this folder as a server would.

    Raises:
        InvalidRequest: the project was refused the namespace that it claims.
        StoreUnavailable: the memory cannot be opened.
    """
    from mcp_memory.projects import read_project
    from mcp_memory.wiring import memory_exists

    project = read_project(places.project)
    if dry_run and not memory_exists(settings):
        return project.claim if project.is_proven and project.claim else project.own
    claim_folder(context, takes=not dry_run, data_dir=named.get("data_dir"))
    return project.claim or project.own


def _assignments(given: Sequence[str]) -> dict[str, str]:
    """Read KEY=VALUE pairs. Raises InvalidRequest."""
    pairs = [assignment.partition("=") for assignment in given]
    for variable, equals, _ in pairs:
        if not variable or not equals:
            raise InvalidRequest(f"--env {variable!r} is not KEY=VALUE; write it as MCP_MEMORY_AGENT=critic.")
    return {variable: value for variable, _, value in pairs}


def _checked(name: str) -> str:
    """Check a server's name. Raises InvalidRequest for one that some client would refuse."""
    if not name.isascii() or not name.replace("-", "").replace("_", "").isalnum() or len(name) > 64:
        raise InvalidRequest(f"--name {name!r} must be letters, digits, hyphens and underscores, 64 at most.")
    return name


def _next_steps(change: "Change", start: "Start", project: bool, has_plugin: bool) -> tuple[str, ...]:
    """List what you should do or know now."""
    client, written = change.client, str((change.entry or {}).get("env"))
    steps = [client.restart]
    if "MCP_MEMORY_URL" in written:
        if "MCP_MEMORY_TOKEN" not in written:
            steps.append("Where that server asks for a token, the client's environment needs MCP_MEMORY_TOKEN.")
    elif not project and not client.starts_in_project and f"'MCP_MEMORY_NAMESPACE': '{DEFAULT_NAMESPACE}'" in written:
        steps.append(f"All work in {client.title} shares one memory, `default`; --namespace gives it another.")
    if project and Path(start[0]).is_absolute():
        steps.append("Its path is valid on this computer only; before you share the file, use --command mcp-memory.")
    scope = " --project" if project else ""
    twice = (
        f"{client.title} now has the server twice, as its plugin brings it too. One is enough:"
        f" `mcp-memory uninstall {client.name}{scope}` removes this entry."
    )
    notes = (client.project_note if project else "", twice if has_plugin else client.note)
    return (*steps, *(note for note in notes if note))


def _carry_out(change: "Change", dry_run: bool, as_json: bool, steps: Sequence[str]) -> None:
    kept = None if dry_run else change.apply(datetime.now(UTC))
    if as_json:
        print_json(
            {
                "client": change.client.name,
                "path": str(change.found.path),
                "name": change.name,
                "entry": change.entry,
                "changed": change.changes and not dry_run,
                "backup": str(kept) if kept else None,
                "diff": change.diff() if dry_run else None,
                "next": list(steps),
            }
        )
        return
    lines = [change.diff()] if dry_run and change.changes else _told(change, kept, steps)
    for line in lines:
        screen().print(visible(line), soft_wrap=True)


def _told(change: "Change", kept: Path | None, steps: Sequence[str]) -> list[str]:
    where = f"{change.found.path} ({change.client.title})"
    if not change.changes:
        state = "is up to date" if change.entry else "is not there"
        return [f"Nothing to change: {change.name!r} {state}: {where}."]
    done = "is in" if change.entry else "was removed from"
    former = [f"The former file is {kept}."] if kept else []
    return [f"{change.name!r} {done} {where}.", *former, *steps]


def _show_list(found: "Sequence[Installation]", as_json: bool) -> None:
    if as_json:
        from dataclasses import asdict

        print_json([{**asdict(each), "path": str(each.path), "names": list(each.names)} for each in found])
        return
    from rich.table import Column, Table

    table = Table("client", "", Column("file", overflow="fold"), box=None, pad_edge=False)
    for each in found:
        table.add_row(f"{each.client}{' (project)' if each.project else ''}", _state(each), visible(str(each.path)))
    screen().print(table)
    for each in found:
        if each.problem:
            screen().print(visible(f"{each.client}: {each.problem}"), soft_wrap=True)


def _state(each: "Installation") -> str:
    if each.problem:
        return "wrong, see below"
    if each.names:
        return f"installed as {', '.join(each.names)}"
    return "not installed" if each.found else "client not found"
