"""The command that examines the memory and its surroundings: room, privacy, clients that find the server."""

import os
import shutil
import stat
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from mcp_memory.domain.text.control_characters import visible
from mcp_memory.entrypoints.cli.console import print_json, screen
from mcp_memory.entrypoints.cli.options import AsJson, opened, over_settings
from mcp_memory.errors import StoreUnavailable
from mcp_memory.ports.indexes import Finding

if TYPE_CHECKING:
    from rich.text import Text

    from mcp_memory.domain.model.projects import TrustedFolder
    from mcp_memory.settings import Settings

LEAST_FREE_BYTES = 100_000_000
"""Below this a backup or a new index may not fit."""
_OTHERS = 0o077
_STATE_STYLES: Mapping[str, str] = {"ok": "green", "wrong": "bold red", "repaired": "yellow"}
_STATE_WIDTH = max(map(len, _STATE_STYLES))


@over_settings("data_dir")
def doctor(
    settings: "Settings",
    repair: Annotated[
        bool, typer.Option("--repair", help="Repair what can be repaired without losing anything.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Look for what is wrong: folder, clients, database, words, vectors, links, indexes.

    For all projects; servers may keep running. Ends with 1 where something is wrong and was not repaired.
    """
    findings: list[Finding] = []
    for finding in _examine(settings, repair=repair):
        findings.append(finding)
        if not as_json:
            screen().print(_line(finding), soft_wrap=True)
    if as_json:
        print_json([asdict(finding) for finding in findings])
    if any(finding.state == "wrong" for finding in findings):
        raise typer.Exit(1)


def _examine(settings: "Settings", *, repair: bool) -> Iterator[Finding]:
    """Examine the surroundings of the memory before the memory itself: opening it makes its files private."""
    from mcp_memory.wiring import memory_exists

    yield from examine_folder(settings.data_dir, repair=repair)
    yield from examine_clients()
    if not memory_exists(settings):
        says = f"none at {settings.data_dir} yet; a server makes it, or `mcp-memory add`"
        yield Finding(part="database", state="ok", says=says)
        return
    try:
        with opened(settings, takes=False) as memory:
            yield from memory.examine(repair=repair)
            yield from examine_trust(memory.trust.folders())
    except StoreUnavailable as error:
        yield Finding(part="database", state="wrong", says=str(error))
    yield from examine_copies(settings)


def examine_folder(folder: Path, *, repair: bool) -> Iterator[Finding]:
    """Check that only its owner can read the folder, and that it has room. Yields nothing for a missing folder."""
    if folder.is_dir():
        yield _privacy(folder, repair=repair)
        yield _room(folder)


def examine_clients() -> Iterator[Finding]:
    """Find what keeps clients whose configuration names us from starting the server."""
    from mcp_memory.entrypoints.clients.entries import installations

    ours = [each for each in installations() if each.names or each.problem]
    for each in ours:
        if each.problem:
            yield Finding(part="clients", state="wrong", says=f"{each.title}", remedy=each.problem)
    if not any(each.problem for each in ours):
        titles = ", ".join(dict.fromkeys(each.title for each in ours))
        says = f"{titles} can start the server" if titles else "none has the server yet; `mcp-memory install` adds it"
        yield Finding(part="clients", state="ok", says=says)


def examine_copies(settings: "Settings") -> Iterator[Finding]:
    """Name the copies beside the memory, also where that cannot be opened; a damaged one may be what somebody saves."""
    from mcp_memory.wiring import copies_beside

    for copy in copies_beside(settings):
        size = f"{copy.path} ({copy.size / 1e6:.1f} MB)"
        if copy.schema is None:
            yield Finding(part="copies", state="ok", says=f"{size}, damaged, is kept as it is")
            continue
        says = f"{size} is the memory of schema {copy.schema} as it was before a migration or `restore`"
        remedy = (
            f'Without servers, `mcp-memory restore "{copy.path}"` goes back to it and keeps the present one beside it.'
        )
        yield Finding(part="copies", state="ok", says=says, remedy=remedy)


def examine_trust(folders: "Sequence[TrustedFolder]") -> Iterator[Finding]:
    """Name the trusted folders that are gone: only a note, since a disk may be away, or a folder be made again."""
    from mcp_memory.projects import folder_exists

    if gone := [each.folder for each in folders if not folder_exists(Path(each.folder))]:
        names = ", ".join(gone[:3]) + (", …" if len(gone) > 3 else "")
        says = f"{len(gone)} of {len(folders)} trusted folders are gone ({names})"
        remedy = "`mcp-memory trust --revoke FOLDER` forgets one that does not come back."
        yield Finding(part="trust", state="ok", says=says, remedy=remedy)


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


def _line(finding: Finding) -> "Text":
    from rich.text import Text

    remedy = f". {finding.remedy}" if finding.remedy else ""
    told = visible(" ".join(f"{finding.part}: {finding.says}{remedy}".split()))
    return Text.assemble((finding.state.ljust(_STATE_WIDTH), _STATE_STYLES[finding.state]), f" {told}")
