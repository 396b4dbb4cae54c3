"""What Windows and macOS do otherwise, as far as it can be tried here (docs/decisions/0024-windows-and-macos.md)."""

from __future__ import annotations

import json
import os
import select
import sqlite3
import sys
import threading
from dataclasses import dataclass
from pathlib import Path, PurePath, PurePosixPath, PureWindowsPath

import pytest

from mcp_memory.stores.records.data_folder import network_file_system
from mcp_memory.stores.records.database_sqlite import SqliteDatabase
from mcp_memory.stores.vectors.chroma.index_folder import translated_system_errors, write_json
from mcp_memory.stores.vectors.chroma.location import IndexFailure


@dataclass(frozen=True)
class Mounted:
    mountpoint: str
    fstype: str
    opts: str = "rw"


DRIVES = [Mounted("C:\\", "NTFS", "rw,fixed"), Mounted("Z:\\", "", "rw,remote"), Mounted("/", "apfs")]
SHARES = [Mounted("/", "apfs", "rw,local"), Mounted("/Volumes/team", "smbfs")]


@pytest.mark.parametrize(
    ("path", "mounts", "kind"),
    [
        (PureWindowsPath("C:\\Users\\bo\\AppData\\Local\\mcp-memory"), DRIVES, None),
        (PureWindowsPath("c:\\users\\bo"), DRIVES, None),
        (PureWindowsPath("\\\\?\\C:\\Users\\bo"), DRIVES, None),
        (PureWindowsPath("Z:\\memory"), DRIVES, "remote"),
        (PureWindowsPath("\\\\server\\share\\memory"), DRIVES, "network share"),
        (PureWindowsPath("\\\\?\\UNC\\server\\share\\memory"), DRIVES, "network share"),
        (PurePosixPath("/Users/bo/Library/Application Support/mcp-memory"), SHARES, None),
        (PurePosixPath("/Volumes/team/memory"), SHARES, "smbfs"),
    ],
)
def test_a_folder_of_another_computer_is_recognised_on_windows_and_macos(
    path: PurePath, mounts: list[Mounted], kind: str | None
) -> None:
    """S2.3: by its drive, by its share, by its file system."""
    assert network_file_system(path, mounts) == kind


def test_a_file_that_is_being_read_is_replaced_a_moment_later(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """S2.2: Windows refuses as long as another process has it open."""
    refusals = [PermissionError(13, "used by another process")] * 3
    replace = Path.replace

    def replace_later(self: Path, target: Path) -> Path:
        if refusals:
            raise refusals.pop()
        return replace(self, target)

    monkeypatch.setattr(Path, "replace", replace_later)
    write_json(tmp_path / "state.json", {"clean": True})
    assert json.loads((tmp_path / "state.json").read_bytes()) == {"clean": True}
    refusals += [PermissionError(13, "Permission denied")] * 9
    with pytest.raises(IndexFailure, match="cannot be written: Permission denied"), translated_system_errors():
        write_json(tmp_path / "state.json", {"clean": False})
    assert json.loads((tmp_path / "state.json").read_bytes()) == {"clean": True}


def test_a_commit_reaches_the_disk_and_not_only_its_cache(tmp_path: Path) -> None:
    """S2.1: macOS needs to be told; elsewhere the word means nothing."""
    database = SqliteDatabase(tmp_path)
    with database.write() as connection:
        assert _pragmas(connection) == (1, 2)
    with database.read() as connection:
        assert _pragmas(connection) == (1, 2)
    database.close()


def _pragmas(connection: sqlite3.Connection) -> tuple[int, int]:
    return tuple(connection.execute(f"PRAGMA {name}").fetchone()[0] for name in ("fullfsync", "synchronous"))


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no poll; there the end of the input says it")
def test_a_lost_reader_shows_to_who_waits_to_write() -> None:
    """S5.1: with room in the pipe and without; asked for nothing, macOS would not tell."""
    for filled in (False, True):
        reader, writer = os.pipe()
        if filled:
            os.set_blocking(writer, False)
            with pytest.raises(BlockingIOError):
                _fill(writer)
        poll = select.poll()
        poll.register(writer, select.POLLOUT)
        assert not any(event & (select.POLLERR | select.POLLHUP) for _, event in poll.poll(0))
        threading.Timer(0.05, os.close, [reader]).start()
        while not any(event & (select.POLLERR | select.POLLHUP) for _, event in poll.poll(0)):
            pass
        os.close(writer)


def _fill(writer: int) -> None:
    while True:
        os.write(writer, b"x" * 65_536)
