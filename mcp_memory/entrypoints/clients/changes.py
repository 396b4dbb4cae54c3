"""Putting our entry into a client's file, and taking it out: planned first, written when told to."""

import difflib
import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path

from mcp_memory.entrypoints.clients.catalogue import Client, Places
from mcp_memory.entrypoints.clients.entries import Start, entry_for, is_ours, merged
from mcp_memory.entrypoints.clients.files import Found, kept_copies, read_file, replace_file
from mcp_memory.entrypoints.clients.notation import NotEditable, Table, as_table, servers_in
from mcp_memory.errors import Conflict

_SECRET = re.compile(r".*(TOKEN|KEY|SECRET|PASSWORD|HEADERS)", re.IGNORECASE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """What to write. `variables`: of the server's environment; `force`: also over another server's entry.

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
    """A file as it is, and as it would be. `entry`: what stands in it then; None where it is taken out.

    `secret`: a key or a token stands in the entry, before or after.
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
        """Write it, if anything changes; where the former file is kept. Raises Conflict."""
        return replace_file(self.found, self.text, now, private=self.secret) if self.changes else None

    def diff(self) -> str:
        path = str(self.found.path)
        lines = difflib.unified_diff(
            self.found.text.splitlines(), self.text.splitlines(), f"{path} (now)", f"{path} (then)", lineterm=""
        )
        return "\n".join(lines)


def plan_install(client: Client, wanted: Wanted, places: Places) -> Change:
    """Raises Conflict where the file cannot be edited, or the name is another server's; InvalidRequest."""
    found = read_file(client.project_file(places) if wanted.project else client.user_file(places))
    cwd = client.project_cwd if wanted.project else None
    fresh = entry_for(wanted.start, wanted.variables, transport=client.names_transport, cwd=cwd)
    try:
        former = servers_in(client.notation.read(found.text), client.key).get(wanted.name)
        if not _chooses_memory(fresh) and not (is_ours(former) and _chooses_memory(former)):
            variables = {**wanted.variables, **wanted.otherwise}
            fresh = entry_for(wanted.start, variables, transport=client.names_transport, cwd=cwd)
        if former is not None and not is_ours(former) and not wanted.force:
            raise _not_ours(client, found, wanted.name)
        entry = merged(as_table(former) or {}, fresh) if is_ours(former) else fresh
        is_same = entry == former
        text = found.text if is_same else client.notation.put(found.text, client.key, wanted.name, entry)
    except NotEditable as error:
        snippet = client.notation.snippet(client.key, wanted.name, fresh)
        raise Conflict(f"{found.path} was left alone: {error}. Put this into it by hand:\n{snippet}") from error
    secret = _holds_secret(former) or _holds_secret(entry)
    return Change(client=client, found=found, name=wanted.name, entry=entry, text=text, secret=secret)


def plan_uninstall(client: Client, name: str, places: Places, *, project: bool, force: bool) -> Change:
    """The file without the entry, and where nothing but `install` touched it, the file of before, to the byte.

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
        raise Conflict(f"{found.path} was left alone: {error}. Take {name!r} out of it by hand.") from error
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


def _chooses_memory(entry: object) -> bool:
    variables = as_table((as_table(entry) or {}).get("env")) or {}
    return bool({"MCP_MEMORY_NAMESPACE", "MCP_MEMORY_URL"} & variables.keys())


def _holds_secret(entry: object) -> bool:
    """Whether a variable of it, by its name, is for nobody else to read."""
    variables = as_table((as_table(entry) or {}).get("env")) or {}
    return any(_SECRET.fullmatch(name) for name in variables)


def _not_ours(client: Client, found: Found, name: str) -> Conflict:
    return Conflict(
        f"{client.title} has another server named {name!r} in {found.path}; choose a --name, or --force to replace it."
    )
