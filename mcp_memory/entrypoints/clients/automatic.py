"""Lets a client use the memory by itself: by hooks where it has them, else by a block in its file of instructions.

Both are edits of a person's files, planned first, and taken out again by `uninstall`.
"""

import json
import re
import shlex
import subprocess
from collections.abc import Mapping
from contextlib import suppress
from math import ceil
from typing import Final, cast

from mcp_memory.bridge.hook import SECONDS
from mcp_memory.entrypoints.clients.catalogue import CLIENTS, Client, HookFile, Places
from mcp_memory.entrypoints.clients.config_format import NotEditable, as_table, servers_in
from mcp_memory.entrypoints.clients.entries import NAMESPACE, URL, Change, Wanted
from mcp_memory.entrypoints.clients.files import Found, read_file
from mcp_memory.errors import Conflict, InvalidRequest

HOOKS: Final = "hooks"
"""The field of each file of hooks that holds them."""
SPARE_SECONDS: Final = 4
"""An interpreter takes a while to start before a hook's own deadline begins."""
_OPTIONS: Final[Mapping[str, str]] = {
    "MCP_MEMORY_DATA_DIR": "--data-dir",
    NAMESPACE: "--namespace",
    "MCP_MEMORY_AGENT": "--agent",
    URL: "--url",
}
"""The options of a hook's command that say what these variables do."""
# "/opt/bin/python -I -m mcp_memory hook PreToolUse --client cursor"
_OUR_HOOK: Final = re.compile(r"mcp[-_]memory\S{0,200} hook \w{1,40} --client \S")
_MARK: Final = "<!-- mcp-memory for "
"""Opens the first and the last line of a block, before the client's name and what the line is."""
_BEGIN: Final = f"{_MARK}{{name}}: begin"
_END: Final = f"{_MARK}{{name}}: end -->"
_BLOCK: Final = f"""\
{_BEGIN} (`mcp-memory uninstall {{name}}` takes this out) -->
An MCP server gives this project a memory that its agents share. Before you start on a request, call its tool
`assemble_context` with what you are about to do, and go by what it returns. Use `recall` before you ask or assume, and
`remember` for decisions, facts and mistakes that will matter later.
{_END}
"""


def plan_hooks(client: Client, wanted: Wanted, places: Places, beside: Change) -> Change:
    """Plan the client's file of hooks with ours in it; `beside` is planned already, and may be of the same file.

    Hooks do not see the variables of the server's entry, so they have those that were chosen in their command; on
    Windows as options, as far as there are such.

    Raises Conflict where the file cannot be edited; InvalidRequest where no hooks of the client are documented.
    """
    if client.hooks is None:
        instead = "; use --instructions" if client.instructions else ""
        if client.plugins:
            raise InvalidRequest(
                f"{client.title} gets its hooks by the plugin, which brings the server too. In a clone:"
                " `claude plugin marketplace add ./ && claude plugin install memory@mcp-memory`."
            )
        raise InvalidRequest(f"{client.title} documents no hooks that can give it its memory{instead}.")
    is_windows = places.platform == "windows"
    hooks = {
        theirs: _hook(client, client.hooks, ours, wanted, is_windows=is_windows)
        for theirs, ours in client.hooks.events.items()
    }
    return _with_hooks(client, client.hooks, places, wanted.project, beside, hooks)


def plan_hooks_out(client: Client, places: Places, *, project: bool, beside: Change) -> Change | None:
    """Plan the file of hooks without ours; None for a client that has none. Raises Conflict."""
    return _with_hooks(client, client.hooks, places, project, beside, {}) if client.hooks else None


def _with_hooks(
    client: Client, file: HookFile, places: Places, project: bool, beside: Change, wanted: Mapping[str, object]
) -> Change:
    found = read_file(client.own_file(file, places, project=project))
    is_same_file = beside.found.place == found.place
    before = beside.text if is_same_file else found.text
    text = before if before.strip() or not wanted else file.begin
    try:
        listed = servers_in(client.hook_notation.read(text), HOOKS)
        for event in dict.fromkeys((*file.events, *listed)):
            theirs = [each for each in _list(listed.get(event)) if not _is_ours(each)]
            ours = [wanted[event]] if event in wanted else []
            if (now := [*theirs, *ours]) != _list(listed.get(event)):
                text = _replaced(client, text, event, now)
    except NotEditable as error:
        by_hand = json.dumps({HOOKS: {event: [hook] for event, hook in wanted.items()}}, indent=2)
        what = f"Add this by hand:\n{by_hand}" if wanted else "Take the hooks of mcp-memory out by hand."
        raise Conflict(f"{found.path} was left alone: {error}. {what}") from error
    kept = beside.found if is_same_file else found
    return Change(client=client, found=kept, name=HOOKS, entry=dict(wanted) or None, text=text, secret=beside.secret)


def _replaced(client: Client, text: str, event: str, hooks: list[object]) -> str:
    """Return the text with these hooks of an event. Raises NotEditable where comments among them would be lost."""
    notation = client.hook_notation
    if not hooks:
        return notation.drop(text, HOOKS, event)
    after = notation.put(text, HOOKS, event, hooks)
    if text.count("//") + text.count("/*") > after.count("//") + after.count("/*"):
        raise NotEditable(f"there are comments among the hooks of `{event}`")
    return after


def _list(value: object) -> list[object]:
    """Return the hooks of an event. Raises NotEditable for anything but a list."""
    if value is not None and not isinstance(value, list):
        raise NotEditable("an event holds something other than a list of hooks")
    return cast(list[object], value or [])


def _is_ours(hook: object) -> bool:
    """Return True for a hook of ours, or a group of hooks in which there is one and no other."""
    table = as_table(hook) or {}
    inside = table.get(HOOKS)
    if isinstance(inside, list) and inside:
        return all(map(_is_ours, cast(list[object], inside)))
    command = table.get("command")
    return isinstance(command, str) and bool(_OUR_HOOK.search(command.replace('"', "").replace("'", "")))


def _hook(client: Client, file: HookFile, event: str, wanted: Wanted, *, is_windows: bool) -> object:
    words = [*wanted.start, "hook", event, "--client", client.name]
    if is_windows:  # Its shells have no common form for a variable before a command; an option takes longer to start.
        options = [(option, wanted.variables.get(name)) for name, option in _OPTIONS.items()]
        words += [word for option, value in options if value for word in (option, value)]
        command = subprocess.list2cmdline(words)
    else:
        chosen = (f"{name}={shlex.quote(value)}" for name, value in wanted.variables.items())
        command = " ".join((*chosen, shlex.join(words)))
    timeout = (ceil(SECONDS[event]) + SPARE_SECONDS) * file.a_second
    if not file.grouped:
        return {"command": command, "timeout": timeout}
    return {"hooks": [{"type": "command", "command": command, "timeout": timeout}]}


def plan_instructions(client: Client, places: Places, *, project: bool, wanted: bool) -> Change | None:
    """Plan the client's file of instructions with our block in it, or without; None where there is nothing to take out.

    Another client's block in the same file serves, too. Raises Conflict; InvalidRequest where the client has no such
    file.
    """
    file = client.instructions
    if file is None:
        if wanted:
            raise InvalidRequest(f"{client.title} documents no file of instructions in which a block could stand.")
        return None
    found = read_file(client.own_file(file, places, project=project))
    block = _BLOCK.format(name=client.name)
    without = _without_block(found, client)
    begin = file.begin
    if not wanted:
        text = "" if without.strip() == begin.strip() else without
    elif block in found.text:
        text = found.text
    elif any(_BEGIN.format(name=other.name) in without for other in CLIENTS):
        text = without
    else:
        kept = without or begin
        text = f"{kept}{'' if not kept or kept.endswith(chr(10)) else chr(10)}{block}"
    return Change(client=client, found=found, name="instructions", entry={} if wanted else None, text=text)


def _without_block(found: Found, client: Client) -> str:
    """Return the text without our block. Raises Conflict where only one of its marks is there."""
    begin, end = _BEGIN.format(name=client.name), _END.format(name=client.name)
    before, is_there, rest = found.text.partition(begin)
    _, has_end, behind = rest.partition(end)
    if not is_there:
        return found.text
    if not has_end:
        raise Conflict(f"{found.path} was left alone: the block at {begin!r} has no end; take it out by hand.")
    return before + behind.removeprefix("\r").removeprefix("\n")


def offers(client: Client, places: Places, *, project: bool) -> str:
    """Return the sentence that says how the client can use its memory by itself; "" where it has no way, or has it."""
    file = client.hooks or client.instructions
    if file is None:
        return ""
    with suppress(Conflict):
        text = read_file(client.own_file(file, places, project=project)).text
        if _OUR_HOOK.search(text) or _MARK in text:
            return ""
    flags, does = (
        ("--hooks", "loads its memory by itself") if client.hooks else ("--instructions", "is told to use its memory")
    )
    command = f"mcp-memory install {client.name}{' --project' if project else ''} {flags}"
    return f"With `{command}` {client.title} {does}; --dry-run shows it first."
