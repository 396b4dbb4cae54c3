"""Which clients are on this computer, and whether we are in them. Changes nothing."""

import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from mcp_memory.entrypoints.clients.catalogue import CLIENTS, JSON, Client, Places, places_here
from mcp_memory.entrypoints.clients.entries import command_of, is_ours
from mcp_memory.entrypoints.clients.files import read_file
from mcp_memory.entrypoints.clients.notation import NotEditable, as_table, servers_in
from mcp_memory.errors import Conflict

PLUGIN = "memory@mcp-memory"
"""Our plugin and its marketplace, as Claude Code lists what it has installed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Installation:
    """A client's file. `found`: there are traces of the client; `names`: entries that start mcp-memory."""

    client: str
    title: str
    path: Path
    project: bool
    found: bool
    names: tuple[str, ...] = ()
    command: str | None = None
    """What the first of them starts."""
    problem: str = ""
    """What keeps the client from starting us, with its remedy."""


def installations(places: Places | None = None) -> list[Installation]:
    """Every client's own file, and the present folder's where there is one, in the catalogue's order."""
    here = places or places_here()
    return [_looked_at(client, path, here, project) for client in CLIENTS for path, project in _files(client, here)]


def has_plugin(client: Client, places: Places) -> bool:
    """Whether our plugin is in the client already, and with it the server. What cannot be read is taken for no."""
    path = client.plugins_file(places)
    if path is None:
        return False
    try:
        installed = as_table(JSON.read(read_file(path).text)) or {}
    except (NotEditable, Conflict):
        return False
    return PLUGIN in (as_table(installed.get("plugins")) or {})


def _files(client: Client, places: Places) -> Iterator[tuple[Path, bool]]:
    yield client.user_file(places), False
    if client.project is not None and (path := client.project_file(places)).is_file():
        yield path, True


def _looked_at(client: Client, path: Path, places: Places, project: bool) -> Installation:
    names, command, problem = _ours_in(client, path)
    if command is not None and shutil.which(command) is None:
        flag = " --project" if project else ""
        problem = f"{command} is not there any more. Run `mcp-memory install {client.name}{flag} --name {names[0]}`."
    return Installation(
        client=client.name,
        title=client.title,
        path=path,
        project=project,
        found=path.exists() or (path.parent.is_dir() and path.parent != places.home),
        names=names,
        command=command,
        problem=problem,
    )


def _ours_in(client: Client, path: Path) -> tuple[tuple[str, ...], str | None, str]:
    """The names of our entries, what the first starts, and why the file cannot be read."""
    try:
        servers = servers_in(client.notation.read(read_file(path).text), client.key)
    except NotEditable as error:
        return (), None, f"{path} cannot be read: {error}. Correct it; the client cannot read it either."
    except Conflict as error:
        return (), None, str(error)
    names = tuple(name for name, entry in servers.items() if is_ours(entry))
    return names, next((command_of(servers[name])[0] for name in names), None), ""
