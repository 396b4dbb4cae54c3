"""Commands that put the server into a client's configuration and take it out: install, uninstall."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from mcp_memory.domain.model.projects import DEFAULT_NAMESPACE
from mcp_memory.entrypoints.commands.access import claim_folder
from mcp_memory.entrypoints.commands.console import complain, print_json, screen, visible
from mcp_memory.entrypoints.commands.options import AsJson, settings_chosen, with_options
from mcp_memory.errors import Conflict, InvalidRequest

if TYPE_CHECKING:
    from mcp_memory.entrypoints.clients.catalogue import Client, Places
    from mcp_memory.entrypoints.clients.entries import Change, Installation, Start
    from mcp_memory.settings import Settings

ClientName = Annotated[
    str, typer.Argument(metavar="CLIENT", help="For example cursor; `install --list` shows them all.")
]
Project = Annotated[bool, typer.Option("--project", help="Use the project's file in this folder, not your own.")]
EntryName = Annotated[str, typer.Option("--name", metavar="NAME", help="The name of the entry in the client.")]
Force = Annotated[bool, typer.Option("--force", help="Replace another server of that name.")]
ForceOut = Annotated[bool, typer.Option("--force", help="Remove the entry of that name though it is another server's.")]
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
    hooks: Annotated[
        bool, typer.Option("--hooks", help="Also write the client's hooks: memory loads by itself.")
    ] = False,
    instructions: Annotated[
        bool, typer.Option("--instructions", help="Also write a block into its file of instructions.")
    ] = False,
    force: Force = False,
    dry_run: DryRun = False,
    as_json: AsJson = False,
) -> None:
    """Put the server into a client's configuration.

    All else in the file stays, and a copy is kept beside it. Called again with other options it changes the entry.
    """
    from mcp_memory.entrypoints.clients import automatic, catalogue, entries

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
        otherwise={} if project else _unless_named(client),
        project=project,
        force=force,
    )
    change, also = entries.plan_install(client, wanted, places), list["Change"]()
    if hooks:
        also.append(automatic.plan_hooks(client, wanted, places, change))
    if instructions:
        also += filter(None, [automatic.plan_instructions(client, places, project=project, wanted=True)])
    steps = _next_steps(change, wanted.start, project, entries.has_plugin(client, places))
    more = client.hooks.note if hooks and client.hooks else ""
    if not hooks and not instructions:
        more = automatic.offers(client, places, project=project)
    _carry_out(change, also, dry_run, as_json, (*steps, *filter(None, [more])))


def _unless_named(client: "Client") -> Mapping[str, str]:
    """Return the variables by which an entry of your own leads to the project at hand, as far as the client tells it.

    What a client tells no folder of belongs to one memory, since the folder that it happens to start servers in is
    none of the project's.
    """
    from mcp_memory.entrypoints.clients.entries import NAMESPACE, ROOTS

    if client.starts_in_project:
        return {}
    return {NAMESPACE: DEFAULT_NAMESPACE, **({ROOTS: "true"} if client.tells_folder else {})}


def uninstall(
    client_name: ClientName,
    project: Project = False,
    name: EntryName = "memory",
    force: ForceOut = False,
    dry_run: DryRun = False,
    as_json: AsJson = False,
) -> None:
    """Take the server out of a client's configuration, with its hooks and its block of instructions.

    What is remembered stays.
    """
    from mcp_memory.entrypoints.clients import automatic, catalogue, entries

    client, places = catalogue.client_named(client_name), catalogue.places_here()
    change = entries.plan_uninstall(client, name, places, project=project, force=force)
    out = (
        automatic.plan_hooks_out(client, places, project=project, beside=change),
        automatic.plan_instructions(client, places, project=project, wanted=False),
    )
    also = [each for each in out if each and each.changes]
    _carry_out(change, also, dry_run, as_json, (f"Restart {client.title}: until then it may keep using the server.",))
    if not project and not change.changes and (file := _file_of_project(client, places, name)):
        complain(f"{file} has it, too: `mcp-memory uninstall {client.name} --project` takes it out there.")


def _file_of_project(client: "Client", places: "Places", name: str) -> Path | None:
    """Return this folder's file of the client where that has the server; else None."""
    from mcp_memory.entrypoints.clients.entries import plan_uninstall

    try:
        change = plan_uninstall(client, name, places, project=True, force=False)
    except (InvalidRequest, Conflict):  # It has no such file, or another's entry.
        return None
    return change.found.path if change.changes else None


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
    from mcp_memory.entrypoints.clients.entries import variables_of

    client, written = change.client, variables_of(change.entry)
    steps = [client.restart]
    if "MCP_MEMORY_URL" in written:
        if "MCP_MEMORY_TOKEN" not in written:
            steps.append("Where that server asks for a token, the client's environment needs MCP_MEMORY_TOKEN.")
    elif written.get("MCP_MEMORY_NAMESPACE") == DEFAULT_NAMESPACE and "MCP_MEMORY_ROOTS" not in written:
        steps.append(
            f"All work in {client.title} shares one memory, `default`: it tells no server which folder is open."
            " --namespace gives it another, as that of a project, which `mcp-memory status` names in its folder."
            if not client.tells_folder and not client.starts_in_project
            else f"All work in {client.title} shares one memory, `default`, as the entry says."
        )
    if project and Path(start[0]).is_absolute():
        steps.append("Its path is valid on this computer only; before you share the file, use --command mcp-memory.")
    scope = " --project" if project else ""
    twice = (
        f"{client.title} now has the server twice, as its plugin brings it too. One is enough:"
        f" `mcp-memory uninstall {client.name}{scope}` removes this entry."
    )
    notes = (client.project_note if project else "", twice if has_plugin else client.note)
    return (*steps, *(note for note in notes if note))


def _carry_out(change: "Change", also: Sequence["Change"], dry_run: bool, as_json: bool, steps: Sequence[str]) -> None:
    """Write the changes, or show them; one of the same file as the first holds that one, too."""
    same = next((each for each in also if each.found is change.found), None)
    first = replace(change, text=same.text) if same else change
    others = [each for each in also if each is not same]
    now = datetime.now(UTC)
    written = [(each, None if dry_run else each.apply(now)) for each in (first, *others)]
    if as_json:
        shown, *rest = [_shown(each, kept, dry_run) for each, kept in written]
        print_json({**shown, **({"also": rest} if rest else {}), "next": list(steps)})
        return
    lines = list[str]()
    for each, kept in written:
        lines += [each.diff()] if dry_run and each.changes else _told(each, kept)
    for line in (*lines, *(steps if any(each.changes for each, _ in written) and not dry_run else ())):
        screen().print(visible(line), soft_wrap=True)


def _shown(change: "Change", kept: Path | None, dry_run: bool) -> dict[str, object]:
    return {
        "client": change.client.name,
        "path": str(change.found.path),
        "name": change.name,
        "entry": change.entry,
        "changed": change.changes and not dry_run,
        "backup": str(kept) if kept else None,
        "diff": change.diff() if dry_run else None,
    }


def _told(change: "Change", kept: Path | None) -> list[str]:
    where = f"{change.found.path} ({change.client.title})"
    if not change.changes:
        state = "is up to date" if change.entry is not None else "is not there"
        return [f"Nothing to change: {change.name!r} {state}: {where}."]
    done = "is in" if change.entry is not None else "was removed from"
    former = [f"The former file is {kept}."] if kept else []
    return [f"{change.name!r} {done} {where}.", *former]


def _show_list(found: "Sequence[Installation]", as_json: bool) -> None:
    if as_json:
        from dataclasses import asdict

        print_json([{**asdict(each), "path": str(each.path), "names": list(each.names)} for each in found])
        return
    from mcp_memory.entrypoints.commands.screens import row_screen

    rows = [
        {
            "client": f"{each.client}{' (project)' if each.project else ''}",
            "state": _state(each),
            "file": str(each.path),
        }
        for each in found
    ]
    screen().print(row_screen(rows, ""), soft_wrap=True)
    for each in found:
        if each.problem:
            screen().print(visible(f"{each.client}: {each.problem}"), soft_wrap=True)


def _state(each: "Installation") -> str:
    if each.problem:
        return "wrong, see below"
    if each.names:
        return f"installed as {', '.join(each.names)}"
    return "not installed" if each.found else "client not found"
