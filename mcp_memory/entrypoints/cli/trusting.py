"""The command by which a person lets a folder use a project's memory: trust."""

import os
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from mcp_memory.domain.model.records import Json
from mcp_memory.domain.text.control_characters import visible
from mcp_memory.domain.text.times import iso
from mcp_memory.entrypoints.cli.console import errors_in_one_line, print_json, screen
from mcp_memory.entrypoints.cli.options import AsJson, DataDir, opened, opened_existing, settings_for
from mcp_memory.errors import InvalidRequest
from mcp_memory.projects import folder_exists, read_project

if TYPE_CHECKING:
    from mcp_memory.domain.model.projects import TrustedFolder
    from mcp_memory.settings import Settings


@errors_in_one_line()
def trust(
    context: typer.Context,
    folder: Annotated[
        Path | None, typer.Argument(metavar="[FOLDER]", help="The folder; by default the one you are in.")
    ] = None,
    list_all: Annotated[bool, typer.Option("--list", help="Show which folders are trusted.")] = False,
    revoke: Annotated[bool, typer.Option("--revoke", help="Trust the folder no more.")] = False,
    data_dir: DataDir = None,
    as_json: AsJson = False,
) -> None:
    """Let a folder use the memory of the project that it says it is.

    The first clone of a project has its memory by itself, and so have its worktrees; this is for any other. Servers see
    it when they start.
    """
    settings = settings_for(context, data_dir, None, None)
    if list_all and (revoke or folder):
        raise InvalidRequest("--list shows all folders; leave out --revoke and the folder.")
    if list_all:
        _list(settings, as_json)
    elif revoke:
        _revoke(settings, folder, as_json)
    else:
        _trust(settings, folder, as_json)


def _trust(settings: "Settings", folder: Path | None, as_json: bool) -> None:
    if folder is not None and not folder_exists(folder):
        raise InvalidRequest(f"{folder} is no folder; name one that is there.")
    project = read_project(folder)
    with opened(settings, takes=False) as memory:
        trusted = memory.trust.trust(project)
        others = [each for each in memory.trust.folders() if each.namespace == trusted.namespace]
    if as_json:
        return print_json(_shown(trusted))
    told = [f"{trusted.folder} uses the memory of {trusted.namespace}, from the next start of a server in it on."]
    shared = [each.folder for each in others if each.folder != trusted.folder]
    if shared:
        told.append(f"It shares it with {', '.join(shared)}.")
    if settings.namespace is not None:
        told.append(f"For now the settings name another namespace, {settings.namespace}, which wins.")
    return screen().print(visible(" ".join(told)), soft_wrap=True)


def _revoke(settings: "Settings", folder: Path | None, as_json: bool) -> None:
    """Also of a folder that is gone, or is another repository by now: by its path."""
    from mcp_memory.entrypoints.hooks.notes import forget_namespaces

    path = os.path.realpath(folder or Path.cwd())
    with opened_existing(settings) as memory:
        known = {each.folder for each in memory.trust.folders()}
        revoked = memory.trust.revoke(path if path in known else read_project(Path(path)).root)
    forget_namespaces(settings.data_dir, {each.namespace for each in revoked})
    if as_json:
        return print_json([_shown(each) for each in revoked])
    names = ", ".join(each.namespace for each in revoked)
    told = f"{revoked[0].folder} uses the memory of {names} no more, from the next start of a server in it on."
    return screen().print(visible(told), soft_wrap=True)


def _list(settings: "Settings", as_json: bool) -> None:
    with opened_existing(settings) as memory:
        known = [_shown(each) for each in memory.trust.folders()]
    if as_json:
        return print_json(known)
    if not known:
        return screen().print("No folder is trusted yet; the first to use a project's memory will be.")
    from mcp_memory.entrypoints.cli.screens import folder_lines

    return screen().print(*folder_lines(known), sep="\n", soft_wrap=True)


def _shown(trusted: "TrustedFolder") -> dict[str, Json]:
    return asdict(trusted) | {"since": iso(trusted.since), "exists": folder_exists(Path(trusted.folder))}
