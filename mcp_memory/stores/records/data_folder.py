"""Requires a safe place for a database: a private folder on a local file system, not beside the log of a lost one."""

import os
import re
import sys
from collections.abc import Iterable, Sequence
from contextlib import suppress
from pathlib import Path, PurePath
from typing import NamedTuple, Protocol

from mcp_memory.errors import StoreUnavailable
from mcp_memory.locations import LIVE_FOLDER, MEMORY_FILE
from mcp_memory.stores.records.file_errors import refuse_overwritten

FILE_NAME = MEMORY_FILE
_NETWORK_FILE_SYSTEMS = frozenset(
    "afpfs afs beegfs ceph cifs davfs fuse.davfs2 fuse.glusterfs fuse.rclone fuse.s3fs fuse.sshfs glusterfs lustre"
    " ncpfs nfs nfs4 smb2 smb3 smbfs webdav remote".split()
)
_UNC = re.compile(r"\\\\(?![?.]\\)|\\\\\?\\UNC\\", re.IGNORECASE)  # e.g. \\server\share\memory, \\?\UNC\server\share
"""`\\\\server\\share`, also in its long form; not the long form of a local path."""
_ESCAPED = re.compile(r"\\(0(?:11|12|40)|134|043)")  # e.g. "/mnt/my\040disk": a tab, a line's end, a space, \ and #


def _refuse_lost_file(path: Path) -> None:
    """Refuse a log without its database, which SQLite would delete: it is all that is left of a lost file."""
    refuse_overwritten(path)
    log = path.with_name(f"{path.name}-wal")
    with suppress(FileNotFoundError):
        if log.stat().st_size and not (path.exists() and path.stat().st_size):
            raise StoreUnavailable(
                f"{path} is empty or gone, but its log {log.name} is not; nothing was changed. Move the log away, then"
                " run `mcp-memory restore-backup` with the newest backup, or start again."
            )


def create_private(folder: Path, path: Path) -> None:
    """Make folder (0700) and file (0600); SQLite gives its log and index files the mode of the database."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    _refuse_lost_file(path)
    if sys.platform == "win32":
        return  # Windows profiles are private by their own access lists.
    is_ours = all(entry.name.startswith((FILE_NAME, LIVE_FOLDER)) for entry in folder.iterdir())
    if is_ours and folder.stat().st_mode & 0o077 and folder.stat().st_uid == os.geteuid():
        folder.chmod(0o700)
    if not path.exists():
        os.close(os.open(path, os.O_CREAT | os.O_RDWR, 0o600))
    elif path.stat().st_mode & 0o077:
        with suppress(PermissionError):
            path.chmod(0o600)


def refuse_network_file_system(folder: Path) -> None:
    """Raise StoreUnavailable where file locks and shared memory are unreliable."""
    existing = next((p for p in (folder, *folder.parents) if p.exists()), folder).resolve()
    try:
        mounts = _mounts()
    except OSError:
        return
    if kind := network_file_system(existing, mounts):
        raise StoreUnavailable(
            f"{folder} is on a network file system ({kind}), where SQLite's locks can lose writes;"
            " set MCP_MEMORY_DATA_DIR to a folder on a local disk."
        )


class Mount(Protocol):
    """One mounted file system, as psutil lists it."""

    @property
    def mountpoint(self) -> str: ...
    @property
    def fstype(self) -> str: ...
    @property
    def opts(self) -> str: ...


class LinuxMount(NamedTuple):
    """One line of Linux's list: what is mounted, where, as what and how."""

    device: str
    mountpoint: str
    fstype: str
    opts: str


def _mounts() -> Sequence[Mount]:
    """Raises OSError where mounts cannot be listed."""
    if sys.platform == "linux":
        return linux_mounts(os.fsdecode(Path("/proc/self/mounts").read_bytes()))
    import psutil

    return psutil.disk_partitions(all=True)


def linux_mounts(listed: str) -> Sequence[LinuxMount]:
    """Read the list as psutil does, whose import takes a fiftieth of a server's start."""
    lines = (line.split(" ") for line in listed.split("\n") if line)
    return [LinuxMount(*(_ESCAPED.sub(_decoded, field) for field in fields[:4])) for fields in lines]


def _decoded(escape: re.Match[str]) -> str:
    return chr(int(escape[1], 8))


def network_file_system(path: PurePath, mounts: Iterable[Mount]) -> str | None:
    """Return the type of the network file system that holds an absolute path; None for a local or unknown one.

    The deepest mount holds it; of several on one point (an automount and what it mounted) the last.
    """
    if _UNC.match(path.drive):
        return "network share"  # which Windows does not list among the mounted
    holding = [mount for mount in mounts if path.is_relative_to(mount.mountpoint)]
    if not holding:
        return None
    depths = [len(type(path)(mount.mountpoint).parts) for mount in holding]
    mount = [mount for mount, depth in zip(holding, depths, strict=True) if depth == max(depths)][-1]
    is_remote = mount.fstype.lower() in _NETWORK_FILE_SYSTEMS or "remote" in mount.opts.split(",")
    return (mount.fstype or "remote") if is_remote else None
