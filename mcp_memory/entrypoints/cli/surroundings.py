"""What a memory needs of the computer it lies on: room, privacy, and clients that find the server. Opens no store."""

import os
import shutil
import stat
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from mcp_memory.domain.model.projects import TrustedFolder
from mcp_memory.making import FILE_NAME, INDEX_FOLDER
from mcp_memory.ports.indexes import Finding
from mcp_memory.projects import folder_exists
from mcp_memory.settings import NOTES_FOLDER

LEAST_FREE_BYTES = 100_000_000
"""Below that a backup or a new index may not fit any more."""
_OTHERS = 0o077
_FOLDERS = (INDEX_FOLDER, NOTES_FOLDER)


def examine_folder(folder: Path, *, mend: bool) -> Iterator[Finding]:
    """Whether it is its owner's alone, and has room. Yields nothing of a folder that is not there."""
    if folder.is_dir():
        yield _privacy(folder, mend=mend)
        yield _room(folder)


def examine_clients() -> Iterator[Finding]:
    """What keeps clients, whose configuration names us, from starting the server."""
    from mcp_memory.entrypoints.clients import installations

    ours = [each for each in installations() if each.names or each.problem]
    for each in ours:
        if each.problem:
            yield Finding(part="clients", state="wrong", says=f"{each.title}", remedy=each.problem)
    if not any(each.problem for each in ours):
        titles = ", ".join(dict.fromkeys(each.title for each in ours))
        says = (
            f"{titles} can start the server" if titles else "none has the server yet; `mcp-memory install` puts it in"
        )
        yield Finding(part="clients", state="ok", says=says)


def examine_trust(folders: Sequence[TrustedFolder]) -> Iterator[Finding]:
    """Names the trusted folders that are gone: an aside, since a disk may be away, or a folder be made again."""
    if gone := [each.folder for each in folders if not folder_exists(Path(each.folder))]:
        names = ", ".join(gone[:3]) + (", …" if len(gone) > 3 else "")
        says = f"{len(gone)} of {len(folders)} trusted folders are gone ({names})"
        remedy = "`mcp-memory trust --revoke FOLDER` forgets one that does not come back."
        yield Finding(part="trust", state="ok", says=says, remedy=remedy)


def _privacy(folder: Path, *, mend: bool) -> Finding:
    """Owner's alone are our files, and the folder where it holds nothing else; whatever lies deeper is behind them.

    A memory may have been put where other things lie, which others may have to reach.
    """
    inside = sorted(folder.iterdir())
    ours = [path for path in inside if path.name.startswith(FILE_NAME) or path.name in _FOLDERS]
    open_to_others = [path for path in (*([folder] if ours == inside else ()), *ours) if _is_open(path)]
    if not open_to_others:
        return Finding(part="folder", state="ok", says="readable by its owner alone")
    names = ", ".join(path.name for path in open_to_others[:3])
    says = f"others may read {len(open_to_others)} in it ({names}{', …' if len(open_to_others) > 3 else ''})"
    if not mend:
        remedy = "They should be their owner's alone: `mcp-memory doctor --mend` does it."
        return Finding(part="folder", state="wrong", says=says, remedy=remedy)
    try:
        for path in open_to_others:
            path.chmod(stat.S_IMODE(path.stat().st_mode) & ~_OTHERS)
    except PermissionError:
        return Finding(part="folder", state="wrong", says=says, remedy="They are another's; ask their owner.")
    return Finding(part="folder", state="mended", says=f"{says}; now their owner's alone")


def _is_open(path: Path) -> bool:
    """Windows keeps profiles private by access lists of its own; a file that went away is nobody's."""
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
