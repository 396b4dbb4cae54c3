"""What is written for our server, and how an entry of ours is told from another's. Touches no file."""

import re
import shutil
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import cast

from mcp_memory.entrypoints.clients.notation import Table, as_table
from mcp_memory.isolated_python import isolation_flags

DISTRIBUTION = "mcp-memory-stack"
"""The name on the package index, where `mcp-memory` is somebody else's; and a second name of the program."""
PROGRAMS = ("mcp-memory", DISTRIBUTION)
_RUNNERS = re.compile(r"py|pyw|python[\d.]*w?|pypy[\d.]*|uv|uvx|pipx")
"""What may start us with our name among its arguments; `npx mcp-memory` would be somebody else's."""
_OURS = re.compile(r"mcp[-_]memory(?:[-_]stack)?(?:\[[\w,-]*\])?(?:[=@<>~!].*)?")
"""`mcp-memory-stack[openai]==0.1.0`, `mcp_memory`; the short name also stands in entries that were written long ago."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Start:
    """A program by its full path, so that it is found where PATH is another one, and its arguments."""

    command: str
    arguments: tuple[str, ...] = ()


def running_command() -> Start:
    """The command that starts this program again, in any folder, with nothing of that folder on its path.

    An environment in uv's cache is gone when the cache is cleaned; there uvx is asked to make it again.
    """
    module = (*isolation_flags(), "-m", "mcp_memory")
    uvx = shutil.which("uvx") if "archive-v0" in Path(sys.executable).parts else None
    if uvx is not None:
        return Start(command=uvx, arguments=("--from", DISTRIBUTION, "python", *module))
    return Start(command=sys.executable, arguments=module)


def entry_for(start: Start, variables: Mapping[str, str], *, transport: bool, cwd: str | None) -> Table:
    """An entry in the form that all clients share."""
    return {
        **({"type": "stdio"} if transport else {}),
        "command": start.command,
        "args": list(start.arguments),
        **({"env": dict(variables)} if variables else {}),
        **({"cwd": cwd} if cwd else {}),
    }


def merged(former: Table, fresh: Table) -> Table:
    """Our entry brought up to date: what the person or the client added to it stays."""
    env = {**(as_table(former.get("env")) or {}), **(as_table(fresh.get("env")) or {})}
    return {**former, **fresh, **({"env": env} if env else {})}


def command_of(entry: object) -> tuple[str, ...]:
    """The command and its arguments; nothing where the server is reached otherwise."""
    table = as_table(entry) or {}
    command, arguments = table.get("command"), table.get("args")
    if not isinstance(command, str):
        return ()
    given = cast(list[object], arguments) if isinstance(arguments, list) else []
    return (command, *(argument for argument in given if isinstance(argument, str)))


def is_ours(entry: object) -> bool:
    """Whether an entry starts mcp-memory, by itself or through Python or uv."""
    command, *arguments = command_of(entry) or ("",)
    if _stem(command) in PROGRAMS:
        return True
    return bool(_RUNNERS.fullmatch(_stem(command))) and any(_is_our_name(argument) for argument in arguments)


def _is_our_name(argument: str) -> bool:
    is_path = argument.startswith("/") or argument[1:3] in (":\\", ":/")
    return _stem(argument) in PROGRAMS if is_path else bool(_OURS.fullmatch(argument))


def _stem(path: str) -> str:
    return re.split(r"[/\\]", path)[-1].removesuffix(".exe")
