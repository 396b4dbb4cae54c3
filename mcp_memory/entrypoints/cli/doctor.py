"""The command that examines the memory and its surroundings: room, privacy, clients that find the server."""

import json
import os
import shutil
import stat
import sys
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer

from mcp_memory.entrypoints.commands.examining import examine_copies, examine_memory, show
from mcp_memory.entrypoints.commands.options import AsJson, local_settings, with_options
from mcp_memory.errors import StoreUnavailable
from mcp_memory.locations import place_in_words
from mcp_memory.ports.indexes import Finding

LEAST_FREE_BYTES = 100_000_000
"""Below this a backup or a new index may not fit."""
_OTHERS = 0o077


@with_options("data_dir")
def doctor(
    chosen: Mapping[str, Any],
    context: typer.Context,
    repair: Annotated[
        bool, typer.Option("--repair", help="Repair what can be repaired without losing anything.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Look for what is wrong: folder, clients, database, words, vectors, links, indexes.

    For all projects; servers may keep running. Ends with 1 where something is wrong and was not repaired.
    """
    settings = local_settings(chosen)
    surroundings = [
        *examine_folder(settings.data_dir, repair=repair),
        *examine_clients(),
        *examine_place(settings.data_dir, chosen),
    ]
    found = [asdict(finding) for finding in surroundings]
    try:
        examine_memory(context, surroundings=json.dumps(found), repair=repair, as_json=as_json, **chosen)
    except StoreUnavailable as error:  # Its owner cannot be asked.
        unasked = Finding(part="database", state="wrong", says=str(error))
        show([*surroundings, unasked, *examine_copies(settings)], as_json=as_json)


def examine_place(folder: Path, chosen: Mapping[str, Any]) -> Iterator[Finding]:
    """Say what names the folder, and whether the usual one has a memory. Yields nothing for the usual one."""
    if told := place_in_words(str(folder), chosen):
        yield Finding(part="place", state="ok", says=f"{folder}, {told}")


def examine_folder(folder: Path, *, repair: bool) -> Iterator[Finding]:
    """Check that only its owner can read the folder, and that it has room. Yields nothing for a missing folder."""
    if folder.is_dir():
        yield _privacy(folder, repair=repair)
        yield _room(folder)


def examine_clients() -> Iterator[Finding]:
    """Find what keeps clients whose configuration names us from starting the server, and those that start it twice."""
    from mcp_memory.entrypoints.clients.catalogue import CLIENTS, places_here
    from mcp_memory.entrypoints.clients.entries import has_plugin, installations

    ours, places = [each for each in installations() if each.names or each.problem], places_here()
    plugged = {each.name: each.title for each in CLIENTS if has_plugin(each, places)}
    for each in ours:
        if each.problem:
            yield Finding(part="clients", state="wrong", says=f"{each.title}", remedy=each.problem)
        elif each.client in plugged:
            remedy = f"One is enough: `mcp-memory uninstall {each.client}{' --project' if each.project else ''}`."
            says = f"{each.title} has the server twice, by its plugin and by the entry in {each.path}"
            yield Finding(part="clients", state="ok", says=says, remedy=remedy)
    if not any(each.problem for each in ours):
        titles = ", ".join(dict.fromkeys([*(each.title for each in ours), *plugged.values()]))
        says = f"{titles} can start the server" if titles else "none has the server yet; `mcp-memory install` adds it"
        yield Finding(part="clients", state="ok", says=says)


def _privacy(folder: Path, *, repair: bool) -> Finding:
    """Check that our files are the owner's alone, and the folder too where it holds nothing else; both shield the rest.

    A memory may share its folder with other things, which other users may have to reach.
    """
    from mcp_memory.locations import LIVE_FOLDER, NOTES_FOLDER
    from mcp_memory.wiring import FILE_NAME, INDEX_FOLDER

    inside = sorted(folder.iterdir())
    folders = (INDEX_FOLDER, NOTES_FOLDER, LIVE_FOLDER)
    ours = [path for path in inside if path.name.startswith(FILE_NAME) or path.name in folders]
    open_to_others = [path for path in (*([folder] if ours == inside else ()), *ours) if _is_open(path)]
    if not open_to_others:
        return Finding(part="folder", state="ok", says="readable by its owner alone")
    names = ", ".join(path.name for path in open_to_others[:3])
    says = f"others may read {len(open_to_others)} in it ({names}{', …' if len(open_to_others) > 3 else ''})"
    if not repair:
        remedy = "Only their owner should read them: run `mcp-memory doctor --repair`."
        return Finding(part="folder", state="wrong", says=says, remedy=remedy)
    try:
        for path in open_to_others:
            path.chmod(stat.S_IMODE(path.stat().st_mode) & ~_OTHERS)
    except PermissionError:
        return Finding(part="folder", state="wrong", says=says, remedy="They belong to another user; ask their owner.")
    return Finding(part="folder", state="repaired", says=f"{says}; now readable by their owner alone")


def _is_open(path: Path) -> bool:
    """True where others may read it. False for a missing file, and on Windows, whose access lists protect profiles."""
    if sys.platform == "win32" or path.is_symlink():
        return False
    try:
        return bool(path.stat().st_mode & _OTHERS)
    except FileNotFoundError:
        return False


def _room(folder: Path) -> Finding:
    free = shutil.disk_usage(folder).free
    says = f"{free / 1e9:.1f} GB free"
    if free >= LEAST_FREE_BYTES and os.access(folder, os.W_OK):
        return Finding(part="disk", state="ok", says=says)
    remedy = "Free some, or writes will be refused." if free < LEAST_FREE_BYTES else "Make the folder writable."
    return Finding(part="disk", state="wrong", says=says, remedy=remedy)
