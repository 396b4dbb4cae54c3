"""Commands for access to a memory: trust for folders, tokens for agents that connect over HTTP."""

import os
import shlex
import time
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from mcp_memory.domain.model.counted_nouns import counted
from mcp_memory.domain.model.records import Json
from mcp_memory.domain.model.scopes import RIGHTS, Grant
from mcp_memory.domain.text.control_characters import visible
from mcp_memory.domain.text.times import iso
from mcp_memory.entrypoints.commands.console import output, print_json, screen
from mcp_memory.entrypoints.commands.options import (
    AsJson,
    opened,
    opened_existing,
    over_memory,
    over_settings,
)
from mcp_memory.entrypoints.commands.performing import working_folder
from mcp_memory.errors import InvalidRequest
from mcp_memory.projects import folder_exists, read_project

if TYPE_CHECKING:
    from mcp_memory.app import App
    from mcp_memory.domain.model.projects import TrustedFolder
    from mcp_memory.ports.access import Token
    from mcp_memory.services.access.projects import FormerMemory
    from mcp_memory.settings import Settings

DAY_SECONDS = 86_400.0
tokens = typer.Typer(name="tokens", no_args_is_help=True, help="Manage access tokens: add, list, revoke.")
TokenName = Annotated[str, typer.Argument(metavar="NAME", help="The name of the token.")]


@over_settings("data_dir", asks=True)
def trust(
    settings: "Settings",
    folder: Annotated[
        Path | None, typer.Argument(metavar="[FOLDER]", help="The folder; by default the current one.")
    ] = None,
    list_all: Annotated[bool, typer.Option("--list", help="Show which folders are trusted.")] = False,
    revoke: Annotated[bool, typer.Option("--revoke", help="Withdraw trust from the folder.")] = False,
    as_json: AsJson = False,
) -> None:
    """Let a folder use the memory of the project that it says it is.

    The first clone of a project has its memory by itself, and so have its worktrees; this is for any other. Servers see
    it when they start.
    """
    if list_all and (revoke or folder):
        raise InvalidRequest("--list shows all folders; leave out --revoke and the folder.")
    if list_all:
        _list_folders(settings, as_json)
    elif revoke:
        _revoke_folder(settings, folder, as_json)
    else:
        _trust_folder(settings, folder, as_json)


def _trust_folder(settings: "Settings", folder: Path | None, as_json: bool) -> None:
    if folder is not None and not folder_exists(folder):
        raise InvalidRequest(f"{folder} is not a folder; name an existing one.")
    project = read_project(folder or working_folder())
    with opened(settings, takes=False) as memory:
        trusted = memory.trust.trust(project)
        others = [each for each in memory.trust.folders() if each.namespace == trusted.namespace]
        origin = memory.projects.origin(project)
    told = [f"{trusted.folder} uses the memory of {trusted.namespace} once a server starts in it again."]
    shared = [each.folder for each in others if each.folder != trusted.folder]
    if shared:
        told.append(f"It shares that memory with {', '.join(shared)}.")
    if origin:
        told.append(_origin_told(origin, trusted.namespace))
    if settings.namespace is not None:
        told.append(f"The settings name another project, {settings.namespace}, which takes precedence.")
    more = {"origin": asdict(origin)} if origin else {}
    output(as_json, _shown_folder(trusted) | more, visible(" ".join(told)))


def _origin_told(origin: "FormerMemory", namespace: str) -> str:
    """Say that the memory of a clone's origin has another name, and how to see it and to share it."""
    name = shlex.quote(origin.namespace)
    held = f"{counted(origin.records, 'record')} in {origin.namespace}"
    return (
        f"But {origin.why}, under another name ({held}): `mcp-memory list"
        f" --namespace {name}` shows it, and `mcp-memory projects merge {name} {shlex.quote(namespace)}` lets both"
        " folders share one memory; only a backup parts them again."
    )


def _revoke_folder(settings: "Settings", folder: Path | None, as_json: bool) -> None:
    """Withdraw trust from a folder; its path finds one that is gone, or is another repository by now."""
    from mcp_memory.entrypoints.hooks.session_notes import forget_namespaces

    path = os.path.realpath(folder or working_folder() or Path.cwd())
    with opened_existing(settings) as memory:
        known = {each.folder for each in memory.trust.folders()}
        revoked = memory.trust.revoke(path if path in known else read_project(Path(path)).root)
        used = {name for each in revoked for name in (each.namespace, memory.trust.present(each.namespace))}
    forget_namespaces(settings.data_dir, used)
    names = ", ".join(each.namespace for each in revoked)
    told = f"{revoked[0].folder} no longer uses the memory of {names} once a server starts in it again."
    output(as_json, [_shown_folder(each) for each in revoked], visible(told))


def _list_folders(settings: "Settings", as_json: bool) -> None:
    with opened_existing(settings) as memory:
        known = [_shown_folder(each) for each in memory.trust.folders()]
    from mcp_memory.entrypoints.commands.screens import folder_lines

    nothing = "No folder is trusted yet; the first to use a project's memory will be."
    output(as_json, known, *(folder_lines(known) or (nothing,)))


def _shown_folder(trusted: "TrustedFolder") -> dict[str, Json]:
    return {**asdict(trusted), "since": iso(trusted.since), "exists": folder_exists(Path(trusted.folder))}


@over_settings("data_dir", asks=True)
def claim_folder(settings: "Settings", takes: bool = True) -> None:
    """Record the namespace that the working directory claims for it, as a server would; with `takes=False` only look.

    Raises:
        InvalidRequest: it was refused that namespace.
    """
    project = read_project(working_folder())
    with opened(settings, takes=takes) as memory:
        membership = memory.trust.membership(project, takes=takes)
    if membership.is_refused:
        raise InvalidRequest(
            f"This folder claims to be {project.claim}, whose memory it was not given; if it is, run `mcp-memory trust`"
            " first, or name another with --namespace."
        )


@tokens.command("add", epilog="Example: mcp-memory tokens add laptop --agent ann --namespace billing")
@over_settings("data_dir", asks=True)
def add_token(
    settings: "Settings",
    name: TokenName,
    agent: Annotated[str, typer.Option(metavar="NAME", help="The agent that uses it; a name no other agent has.")],
    namespace: Annotated[
        list[str], typer.Option(metavar="NAME", help="A project it reads and writes; repeatable, the first is default.")
    ],
    right: Annotated[
        str, typer.Option(metavar="RIGHT", help="read, write (and change), or admin (also erase, and see figures).")
    ] = "write",
    person: Annotated[
        str, typer.Option(metavar="NAME", help="The person the agent works for; by default the agent itself.")
    ] = "",
    days: Annotated[
        float | None, typer.Option(metavar="N", min=0, help="Days it is valid; without a limit if not given.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Make a token. Its secret is shown only once, and stored nowhere."""
    if right not in RIGHTS:
        raise InvalidRequest(f"Unknown right {right!r}; the rights are {', '.join(RIGHTS)}.")
    if agent == settings.agent:
        raise InvalidRequest(f"{agent!r} is the name of this machine's own agents; choose another for the token.")
    grant = Grant(agent=agent, person=person, namespaces=tuple(namespace), right=right)
    expires_at = None if days is None else time.time() + days * DAY_SECONDS
    with opened(settings) as memory:
        secret, token = memory.tokens.add(name, grant, expires_at)
    if as_json:
        print_json({**_shown_token(token, token.created_at), "secret": secret})
    else:
        screen().print(secret, soft_wrap=True)
        screen(on_stderr=True).print(
            "This secret is shown only once: set it as MCP_MEMORY_TOKEN, or send it as `Authorization: Bearer …`."
        )


@tokens.command("list")
@over_memory()
def list_tokens(memory: "App", as_json: AsJson = False) -> None:
    """Show the tokens, revoked and expired ones too; never a secret."""
    from mcp_memory.entrypoints.commands.screens import token_lines

    known = [_shown_token(token, time.time()) for token in memory.tokens.all()]
    output(as_json, known, *(token_lines(known) if known else ("No tokens yet; `mcp-memory tokens add` makes one.",)))


@tokens.command("revoke")
@over_memory()
def revoke_token(memory: "App", name: TokenName, as_json: AsJson = False) -> None:
    """End a token, from its next request on. Its name is free again."""
    memory.tokens.revoke(name)
    output(as_json, {"revoked": name}, visible(f"Token {name} is revoked."))


def _shown_token(token: "Token", now: float) -> dict[str, Json]:
    state = "valid" if token.is_valid(now) else "revoked" if token.revoked_at is not None else "expired"
    times = ("created_at", "expires_at", "revoked_at")
    days = {name: None if (at := getattr(token, name)) is None else iso(at) for name in times}
    return {"name": token.name, "id": token.id, "state": state, **asdict(token.grant), **days}
