"""Our entry in a client's file: its form, its recognition, and edits that add, remove and find it.

A change is planned first, and written on request.
"""

import difflib
import json
import re
import shutil
import sys
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path
from typing import TypeAlias, cast

from mcp_memory.entrypoints.clients.catalogue import CLIENTS, JSON, Client, Places, places_here
from mcp_memory.entrypoints.clients.config_format import NotEditable, Table, as_table, servers_in
from mcp_memory.entrypoints.clients.files import Found, kept_copies, read_file, replace_file
from mcp_memory.errors import Conflict
from mcp_memory.isolated_python import isolation_flags

_SECRET_VARIABLE = re.compile(r".*(TOKEN|KEY|SECRET|PASSWORD|HEADERS)", re.IGNORECASE)
PLUGIN = "memory@mcp-memory"
"""Our plugin and its marketplace, as Claude Code lists what it has installed."""
DISTRIBUTION = "mcp-memory-stack"
"""The name on the package index, where `mcp-memory` is somebody else's; and a second name of the program. Core has all
modules, this one Chroma besides."""
CORE = f"{DISTRIBUTION}-core"
PROGRAMS = ("mcp-memory", DISTRIBUTION, CORE)
_RUNNERS = re.compile(r"py|pyw|python[\d.]*w?|pypy[\d.]*|uv|uvx|pipx")
"""Programs that start us with our name among their arguments; `npx mcp-memory` would be somebody else's."""
_OUR_PACKAGE = re.compile(r"mcp[-_]memory(?:[-_]stack(?:[-_]core)?)?(?:\[[\w,-]*\])?(?:[=@<>~!].*)?")
"""`mcp-memory-stack[openai]==0.1.0`, `mcp_memory`; the short name also stands in entries that were written long ago."""


NAMESPACE, URL, ROOTS = "MCP_MEMORY_NAMESPACE", "MCP_MEMORY_URL", "MCP_MEMORY_ROOTS"
_LISTED = "local"
"""The type of an entry that has its whole command in one list, as OpenCode names it."""
_CHOOSING = frozenset({NAMESPACE, URL, ROOTS})
"""Variables by which an entry chooses a memory."""

Start: TypeAlias = tuple[str, ...]
"""A program by its full path, so that it is found where PATH is another one, and its arguments."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """An entry to write. `variables`: of the server's environment; `force`: also over another server's entry.

    `otherwise` are variables for an entry that chooses no memory, by a namespace or a server's address.
    """

    start: Start
    name: str = "memory"
    variables: Mapping[str, str] = field(default_factory=dict[str, str])
    otherwise: Mapping[str, str] = field(default_factory=dict[str, str])
    project: bool = False
    force: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """A file now and after the change. `entry`: our entry afterwards; None where it is removed.

    `secret`: the entry holds a key or a token, before or after.
    """

    client: Client
    found: Found
    name: str
    entry: Table | None
    text: str
    secret: bool = False

    @property
    def changes(self) -> bool:
        return self.text != self.found.text

    def apply(self, now: datetime) -> Path | None:
        """Write it, if anything changes; return the former file's copy. Raises Conflict."""
        return replace_file(self.found, self.text, now, private=self.secret) if self.changes else None

    def diff(self) -> str:
        path = str(self.found.path)
        lines = difflib.unified_diff(
            self.found.text.splitlines(), self.text.splitlines(), f"{path} (now)", f"{path} (then)", lineterm=""
        )
        return "\n".join(lines)


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
    """The command of the first of them."""
    problem: str = ""
    """The reason why the client cannot start us, with its remedy."""


def running_command() -> Start:
    """Return the command that starts this program again, in any folder, with nothing of that folder on its path.

    An environment in uv's cache is gone when the cache is cleaned; there uvx is asked to make it again.
    """
    module = (*isolation_flags(), "-m", "mcp_memory")
    uvx = shutil.which("uvx") if "archive-v0" in Path(sys.executable).parts else None
    if uvx is not None:
        return (uvx, "--from", _installed_from(), "python", *module)
    return (sys.executable, *module)


def _installed_from() -> str:
    """Return what uvx has to be asked for: the file or folder that it was asked for, or a name on the index."""
    for name in (DISTRIBUTION, CORE):
        with suppress(PackageNotFoundError):
            asked = distribution(name).read_text("direct_url.json")
            return json.loads(asked)["url"] if asked else name
    return DISTRIBUTION


def entry_for(start: Start, variables: Mapping[str, str], client: Client, cwd: str | None) -> Table:
    """Return an entry in the form that all clients share, but for one that has the whole command in a list."""
    if client.lists_command:
        return {"type": _LISTED, "command": list(start), **({"environment": dict(variables)} if variables else {})}
    return {
        **({"type": "stdio"} if client.names_transport else {}),
        "command": start[0],
        "args": list(start[1:]),
        **({"env": dict(variables)} if variables else {}),
        **({"cwd": cwd} if cwd else {}),
    }


def merged(former: Table, fresh: Table) -> Table:
    """Return our entry brought up to date: what the person or the client added to it stays.

    A memory that is named now counts, whatever folder is open.
    """
    env = {**variables_of(former), **variables_of(fresh)}
    if _names_memory(variables_of(fresh)) and ROOTS not in variables_of(fresh):
        env.pop(ROOTS, None)
    return {**former, **fresh, **({_variables_field(fresh): env} if env else {})}


def command_of(entry: object) -> tuple[str, ...]:
    """Return the command and its arguments; nothing where the server is reached otherwise."""
    table = as_table(entry) or {}
    command, arguments = table.get("command"), table.get("args")
    whole = [command] if isinstance(command, str) else command
    if not isinstance(whole, list) or not whole:
        return ()
    given = [*cast(list[object], whole), *(cast(list[object], arguments) if isinstance(arguments, list) else ())]
    return tuple(word for word in given if isinstance(word, str))


def is_ours(entry: object) -> bool:
    """Return True for an entry that starts mcp-memory, by itself or through Python or uv."""
    command, *arguments = command_of(entry) or ("",)
    if _stem(command) in PROGRAMS:
        return True
    return bool(_RUNNERS.fullmatch(_stem(command))) and any(_is_our_name(argument) for argument in arguments)


def _is_our_name(argument: str) -> bool:
    is_path = argument.startswith("/") or argument[1:3] in (":\\", ":/")
    return _stem(argument) in PROGRAMS if is_path else bool(_OUR_PACKAGE.fullmatch(argument))


def _stem(path: str) -> str:
    return re.split(r"[/\\]", path)[-1].removesuffix(".exe")


def plan_install(client: Client, wanted: Wanted, places: Places) -> Change:
    """Plan the file with our entry in it.

    Raises Conflict where the file cannot be edited, or the name is another server's; InvalidRequest.
    """
    found = read_file(client.project_file(places) if wanted.project else client.user_file(places))
    fresh = _fresh_entry(client, wanted, None)
    try:
        former = servers_in(client.notation.read(found.text), client.key).get(wanted.name)
        fresh = _fresh_entry(client, wanted, former if is_ours(former) else None)
        if former is not None and not is_ours(former) and not wanted.force:
            raise _not_ours(client, found, wanted.name)
        entry = merged(as_table(former) or {}, fresh) if is_ours(former) else fresh
        is_same = entry == former
        text = found.text if is_same else client.notation.put(found.text, client.key, wanted.name, entry)
    except NotEditable as error:
        snippet = client.notation.snippet(client.key, wanted.name, fresh)
        raise Conflict(f"{found.path} was left alone: {error}. Add this by hand:\n{snippet}") from error
    secret = _holds_secret(former) or _holds_secret(entry)
    return Change(client=client, found=found, name=wanted.name, entry=entry, text=text, secret=secret)


def _fresh_entry(client: Client, wanted: Wanted, former: object) -> Table:
    """Return the entry to write over `former`, which is ours; it chooses a memory, unless that one has chosen one."""
    variables = wanted.variables
    kept = {name: value for name, value in variables_of(former).items() if name in _CHOOSING}
    if not _names_memory(variables) and (not kept or kept.items() <= wanted.otherwise.items()):
        variables = {**wanted.otherwise, **variables}
    cwd = client.project_cwd if wanted.project else None
    return entry_for(wanted.start, variables, client, cwd)


def plan_uninstall(client: Client, name: str, places: Places, *, project: bool, force: bool) -> Change:
    """Plan the file without the entry, and where nothing but `install` touched it, the file of before, to the byte.

    Nothing changes where there is no such entry. Raises Conflict, InvalidRequest.
    """
    found = read_file(client.project_file(places) if project else client.user_file(places))
    try:
        servers = servers_in(client.notation.read(found.text), client.key)
        if name in servers and not is_ours(servers[name]) and not force:
            raise _not_ours(client, found, name)
        text = found.text
        if name in servers:
            text = client.notation.drop(found.text, client.key, name)
            text = next(_former_texts(client, found, name, servers[name]), text)
    except NotEditable as error:
        raise Conflict(f"{found.path} was left alone: {error}. Remove {name!r} by hand.") from error
    secret = _holds_secret(servers.get(name))
    return Change(client=client, found=found, name=name, entry=None, text=text, secret=secret)


def _former_texts(client: Client, found: Found, name: str, entry: object) -> Iterator[str]:
    """Kept copies out of which installing this entry makes the file as it is now.

    An edit cannot tell whether an empty list of servers, or a line end at the end, was there before: a copy can.
    """
    table = as_table(entry)
    if table is None:
        return
    for copy in kept_copies(found):
        with suppress(NotEditable):
            is_without = name not in servers_in(client.notation.read(copy), client.key)
            if is_without and client.notation.put(copy, client.key, name, table) == found.text:
                yield copy


def _names_memory(variables: Table) -> bool:
    return bool({NAMESPACE, URL} & variables.keys())


def _holds_secret(entry: object) -> bool:
    """Return True where a variable of it, by its name, is for nobody else to read."""
    return any(_SECRET_VARIABLE.fullmatch(name) for name in variables_of(entry))


def variables_of(entry: object) -> Table:
    """Return the variables that an entry gives to its server."""
    table = as_table(entry) or {}
    return as_table(table.get(_variables_field(table))) or {}


def _variables_field(entry: Table) -> str:
    return "environment" if entry.get("type") == _LISTED else "env"


def _not_ours(client: Client, found: Found, name: str) -> Conflict:
    return Conflict(
        f"{client.title} has another server named {name!r} in {found.path}; choose a --name, or --force to replace it."
    )


def installations(places: Places | None = None) -> list[Installation]:
    """Look at every client's own file, and the present folder's where there is one, in the catalogue's order."""
    here = places or places_here()
    found: list[Installation] = []
    for client in CLIENTS:
        found.append(_looked_at(client, client.user_file(here), here, project=False))
        if client.project is not None and (path := client.project_file(here)).is_file():
            found.append(_looked_at(client, path, here, project=True))
    return found


def has_plugin(client: Client, places: Places) -> bool:
    """Return True where our plugin, which brings the server, is in the client; False where that cannot be read."""
    path = client.plugins_file(places)
    if path is None:
        return False
    try:
        installed = as_table(JSON.read(read_file(path).text)) or {}
    except (NotEditable, Conflict):
        return False
    return PLUGIN in (as_table(installed.get("plugins")) or {})


def _looked_at(client: Client, path: Path, places: Places, project: bool) -> Installation:
    problem, servers = "", dict[str, object]()
    try:
        servers.update(servers_in(client.notation.read(read_file(path).text), client.key))
    except NotEditable as error:
        problem = f"{path} cannot be read: {error}. Correct it; the client cannot read it either."
    except Conflict as error:
        problem = str(error)
    names = tuple(name for name, entry in servers.items() if is_ours(entry))
    command = command_of(servers[names[0]])[0] if names else None
    if command is not None and shutil.which(command) is None:
        flag = " --project" if project else ""
        problem = f"{command} no longer exists. Run `mcp-memory install {client.name}{flag} --name {names[0]}`."
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
