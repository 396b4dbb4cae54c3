"""Watches the files of an open database for changes that SQLite does not notice. Knows no SQL and no record.

SQLite trusts that nobody but SQLite touches its files while they are open: a database that was truncated, copied over
or replaced goes on answering from caches and the log, and acknowledges writes that a restart loses. The witness
compares three files with one another and with what it saw before:

- the database: a checkpoint alone may change its first 100 bytes and its size, and the log's index counts checkpoints;
- the log (`-wal`): its last committed frame carries the checksum that the index holds, a sum over all frames before;
- the index (`-shm`): it must keep its length, since a process that touches what was cut off gets SIGBUS.

The layouts are those of SQLite's file format ("Database File Format", "WAL-mode File Format").
"""

import os
import struct
import sys
import threading
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from mcp_memory.stores.file_identity import file_identity

Fault = Literal["moved", "overwritten", "log", "index"]
"""Which file is not what it was: `moved` is the whole database, or one that `restore` has put elsewhere."""

_HEADER = 100
_MAGIC = b"SQLite format 3\x00"
_FIRST_PAGE = b"\x00\x00\x00\x01"
_LOG_HEADER, _FRAME_HEADER = 32, 24
_INDEX_READ = 100
"""Two copies of a header of 48 bytes, and how far checkpoints came; on Windows the bytes from 120 on are locked."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Index:
    """The log's index as of the last commit. `frames` are in the log, `applied` of them are in the database too."""

    frames: int
    applied: int
    page_size: int
    salts: bytes
    checksum: tuple[int, int]

    @property
    def checkpoint(self) -> tuple[bytes, int]:
        """Differs after every checkpoint that has changed the database."""
        return self.salts, self.applied

    @property
    def log_bytes(self) -> int:
        return _LOG_HEADER + self.frames * (_FRAME_HEADER + self.page_size) if self.frames else 0


@dataclass(frozen=True, slots=True, kw_only=True)
class _Seen:
    """The database as it was when last found sound."""

    header: bytes
    size: int
    checkpoint: tuple[bytes, int]


class Unsettled(Exception):
    """The files differ, perhaps only because another process is writing: look again with the write lock held."""


class Witness:
    """Compares the files of one database. Thread-safe; begins with `begin`, after the first connection has read.

    Its own descriptors are never closed while a connection of the process is open: closing any descriptor of a file
    drops all POSIX locks that the process holds on it, SQLite's among them.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._log_path = path.with_name(f"{path.name}-wal")
        self._index_path = path.with_name(f"{path.name}-shm")
        self._files: tuple[_Held, ...] = ()

    def begin(self) -> None:
        """Take the files as they are, the write lock held. Raises OSError where one is missing."""
        self._files = tuple(_hold(each) for each in (self._path, self._log_path, self._index_path))
        self._database, self._log, self._index = (file.descriptor for file in self._files)
        self._index_size = os.fstat(self._index).st_size
        index = self.index()
        if index is None:
            raise OSError(0, "the index of its log cannot be read")
        self._seen = _Seen(header=_read(self._database, _HEADER, 0), size=self._size(), checkpoint=index.checkpoint)

    @property
    def is_watching(self) -> bool:
        return bool(self._files)

    def end(self) -> None:
        """Let go of the files, once every connection is closed."""
        files, self._files = self._files, ()
        for file in files:
            _let_go(file)

    def index(self) -> Index | None:
        """The index as it is; None while it is being written, where it is broken, and before `begin`."""
        if not self.is_watching:
            return None
        raw = _read(self._index, _INDEX_READ, 0)
        if len(raw) < _INDEX_READ or raw[:48] != raw[48:96] or not raw[12]:
            return None
        page_size, frames, _, *checksum = struct.unpack_from("=HIIII", raw, 14)
        return Index(
            frames=frames,
            applied=struct.unpack_from("=I", raw, 96)[0],
            page_size=65536 if page_size == 1 else page_size,
            salts=raw[32:40],
            checksum=(checksum[0], checksum[1]),
        )

    def index_fault(self) -> Fault | None:
        """Says `index` where touching the index would be fatal; asked before SQLite is."""
        if not self.is_watching:
            return None
        try:
            status = self._index_path.stat()
        except OSError:
            return None if file_identity(self._path) != self._files[0].identity else "index"
        is_ours = (status.st_dev, status.st_ino) == self._files[2].identity
        return None if is_ours and status.st_size >= self._index_size else "index"

    def path_fault(self) -> Fault | None:
        """Which path leads to another file than at the beginning."""
        if not self.is_watching:
            return None
        if file_identity(self._path) != self._files[0].identity:
            return "overwritten" if self.has_own_log() and self._path.exists() else "moved"
        if not self.has_own_log():
            return "log"
        return self.index_fault()

    def fault(self, *, is_settled: bool) -> Fault | None:
        """Which file is not what it was; None where all are sound.

        Settled is who holds the write lock: nobody else commits, checkpoints or restarts the log meanwhile.

        Raises:
            Unsettled: it cannot be told without the write lock.
        """
        if not self.is_watching:
            return None
        if path_fault := self.path_fault():
            return path_fault
        index = self.index()
        if index is None:
            return _confirmed("index", is_settled=is_settled)
        if not self._is_log_whole(index):
            return _confirmed("log", is_settled=is_settled)
        seen, header, size = self._seen, _read(self._database, _HEADER, 0), self._size()
        if (header, size) == (seen.header, seen.size):
            if index.checkpoint != seen.checkpoint:
                self._seen = _Seen(header=header, size=size, checkpoint=index.checkpoint)
            return None
        if not is_settled:
            raise Unsettled
        is_counted = index.checkpoint != seen.checkpoint and _is_newer(header, seen)
        if _is_cut(header, size, seen) or not (is_counted or self._is_from_log(header, index)):
            return "overwritten"
        self._seen = _Seen(header=header, size=size, checkpoint=index.checkpoint)
        return None

    def log_size(self) -> int:
        return os.fstat(self._log).st_size

    def note_checkpoint(self) -> None:
        """Take the database as it is: this process has just changed it, the write lock held."""
        if index := self.index():
            header = _read(self._database, _HEADER, 0)
            self._seen = _Seen(header=header, size=self._size(), checkpoint=index.checkpoint)

    def has_own_log(self) -> bool:
        """True where the log beside the path is the one of the database that this process has opened."""
        return file_identity(self._log_path) == self._files[1].identity

    def can_rescue(self) -> bool:
        """True where SQLite may still bring the log into the database when it closes, although the log was deleted.

        Nobody else has opened the database since, and nothing of it is damaged.
        """
        if file_identity(self._path) != self._files[0].identity or not self._is_index_long_enough():
            return False
        is_lost = not self.has_own_log() or file_identity(self._index_path) != self._files[2].identity
        is_replaced = not self.has_own_log() and _size_at(self._log_path) > 0
        is_reopened = file_identity(self._index_path) not in (None, self._files[2].identity)
        index, header = self.index(), _read(self._database, _HEADER, 0)
        is_whole = index is not None and self._is_log_whole(index) and header == self._seen.header
        return is_lost and is_whole and not is_replaced and not is_reopened and self._size() == self._seen.size

    def lengthen_index(self) -> None:
        """Give a truncated index its length again, as zeros, from which SQLite makes it anew: to close needs it."""
        if self.is_watching and not self._is_index_long_enough():
            os.ftruncate(self._index, self._index_size)

    def _is_index_long_enough(self) -> bool:
        return os.fstat(self._index).st_size >= self._index_size

    def _is_log_whole(self, index: Index) -> bool:
        if not index.frames:
            return True
        if os.fstat(self._log).st_size < index.log_bytes:
            return False
        frame = _read(self._log, _FRAME_HEADER, index.log_bytes - index.page_size - _FRAME_HEADER)
        return frame[8:16] == index.salts and struct.unpack(">II", frame[16:]) == index.checksum

    def _is_from_log(self, header: bytes, index: Index) -> bool:
        """True where somebody was killed in the middle of a checkpoint: page 1 is there, but not counted as applied."""
        frames = range(_LOG_HEADER, index.log_bytes, _FRAME_HEADER + index.page_size) if index.frames else ()
        return any(
            _read(self._log, 4, frame) == _FIRST_PAGE and _read(self._log, _HEADER, frame + _FRAME_HEADER) == header
            for frame in frames
        )

    def _size(self) -> int:
        return os.fstat(self._database).st_size


def _is_cut(header: bytes, size: int, seen: _Seen) -> bool:
    """True where the file is shorter than it was, and than its own header says: at 16 a page's size, at 28 how many.

    In the middle of a checkpoint it may be shorter than the header says; after a VACUUM, shorter than it was.
    """
    if len(header) < _HEADER or not header.startswith(_MAGIC):
        return True
    page_size, pages = struct.unpack_from(">H", header, 16)[0], struct.unpack_from(">I", header, 28)[0]
    return size < min(seen.size, pages * (65536 if page_size == 1 else page_size))


def _is_newer(header: bytes, seen: _Seen) -> bool:
    """True where a checkpoint can have made this of what was seen.

    The schema's number, at 40, only ever grows: each of our checkpoints raises it, so that no two states that the file
    goes through have the same header. The page's size is never changed. Both numbers compare as bytes.
    """
    return header[16:18] == seen.header[16:18] and header[40:44] >= seen.header[40:44]


def _confirmed(fault: Fault, *, is_settled: bool) -> Fault:
    if not is_settled:
        raise Unsettled
    return fault


def _size_at(path: Path) -> int:
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return 0


@dataclass(slots=True)
class _Held:
    """A descriptor, shared by all that watch the same file in this process."""

    descriptor: int
    identity: tuple[int, int]
    holders: int = 0


_held: dict[tuple[int, int], _Held] = {}
_held_lock = threading.Lock()


def _hold(path: Path) -> _Held:
    with _held_lock:
        identity = file_identity(path)
        if identity is None:
            raise FileNotFoundError(2, f"{path.name} is missing")
        if identity not in _held:
            descriptor = os.open(path, os.O_RDWR | getattr(os, "O_BINARY", 0))
            _held[identity] = _Held(descriptor, identity)
        _held[identity].holders += 1
        return _held[identity]


def _let_go(file: _Held) -> None:
    with _held_lock:
        file.holders -= 1
        if not file.holders:
            del _held[file.identity]
            os.close(file.descriptor)


if sys.platform == "win32":

    def _read(descriptor: int, count: int, offset: int) -> bytes:
        """Windows has no `pread`, and whoever shares a descriptor shares its position."""
        with _held_lock:
            os.lseek(descriptor, offset, os.SEEK_SET)
            return os.read(descriptor, count)

else:
    _read = os.pread
