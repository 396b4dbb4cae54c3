"""Watches the files of an open database for changes that SQLite does not notice. Knows no SQL and no record.

SQLite trusts that nobody but SQLite touches its files while they are open: a database that was truncated, copied over
or replaced still answers from caches and the log, and acknowledges writes that a restart loses. The witness
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
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from mcp_memory.bounded_files import file_identity

Fault = Literal["moved", "overwritten", "log", "index"]
"""The damaged file: `moved` is the whole database, or one that `restore` has put elsewhere."""

_HEADER = 100  # bytes of the database header
_MAGIC = b"SQLite format 3\x00"
_FIRST_PAGE = b"\x00\x00\x00\x01"  # page number 1, as a frame header begins
_LOG_HEADER, _FRAME_HEADER = 32, 24  # bytes
_INDEX_READ = 100
"""Bytes of two 48-byte headers, and of the progress of checkpoints; on Windows the bytes from 120 on are locked."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LogIndex:
    """The log's index as of the last commit. `frames` are in the log, `applied` of them are in the database too."""

    frames: int
    applied: int
    page_size: int
    salts: bytes
    checksum: tuple[int, int]

    @property
    def checkpoint(self) -> tuple[bytes, int]:
        """Return a value that differs after every checkpoint that has changed the database."""
        return self.salts, self.applied

    @property
    def log_bytes(self) -> int:
        return _LOG_HEADER + self.frames * (_FRAME_HEADER + self.page_size) if self.frames else 0

    @property
    def last_frame_at(self) -> int:
        return max(self.log_bytes - self.page_size - _FRAME_HEADER, 0)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Sound:
    """The files' contents when they were last found sound; `frame` is the header of the log's last frame."""

    header: bytes
    size: int
    index: LogIndex
    raw_index: bytes
    frame: bytes


class Unsettled(Exception):
    """The files differ, perhaps only because another process is writing: check again with the write lock held."""


class Witness:
    """Compares the files of one database. Thread-safe; call `begin` first, after the first connection has read.

    Its own descriptors are never closed while a connection of the process is open: closing any descriptor of a file
    drops all POSIX locks that the process holds on it, SQLite's among them.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._log_path = path.with_name(f"{path.name}-wal")
        self._index_path = path.with_name(f"{path.name}-shm")
        self._files: tuple[_Held, ...] = ()

    def begin(self) -> None:
        """Take the files as they are. Raises OSError where one is missing."""
        files: list[_Held] = []
        try:
            files += map(_hold, (self._path, self._log_path, self._index_path))
        except OSError:
            _let_go(files)
            raise
        self._files = tuple(files)
        self._database, self._log, self._index = (file.descriptor for file in files)
        self._index_size = os.fstat(self._index).st_size
        self._sound: _Sound | None = None

    def side_files(self) -> tuple[tuple[int, int] | None, ...]:
        """Return the identities of the log and the index at their paths; None where there is none."""
        return file_identity(self._log_path), file_identity(self._index_path)

    def holds(self, side_files: Iterable[tuple[int, int] | None]) -> bool:
        """Return True where none of these was replaced before `begin`: SQLite may have opened the former one."""
        held = (file.identity for file in self._files[1:])
        return self.is_watching and all(was in (None, now) for was, now in zip(side_files, held, strict=True))

    def index_bytes(self) -> bytes:
        """Return the index's header; every commit of this process changes it."""
        return _read(self._index, _INDEX_READ, 0)

    @property
    def is_watching(self) -> bool:
        return bool(self._files)

    def end(self) -> None:
        """Release the files, once every connection is closed."""
        files, self._files = self._files, ()
        _let_go(files)

    def index(self) -> LogIndex | None:
        """Return the index as it is; None while it is being written, where it is broken, and before `begin`."""
        return _index_from(self.index_bytes()) if self.is_watching else None

    def index_fault(self) -> Fault | None:
        """Return `index` where touching the index would be fatal, or would create another; call it before SQLite."""
        if not self.is_watching:
            return None
        status = os.fstat(self._index)
        return "index" if status.st_size < self._index_size or not status.st_nlink else None

    def path_fault(self) -> Fault | None:
        """Return the fault of a path that leads to another file than at the beginning; three look-ups."""
        if not self.is_watching:
            return None
        if file_identity(self._path) != self._files[0].identity:
            return self._displacement()
        # SQLite deletes the log beside a database of no bytes when it opens the two, and the log is all that is left.
        return self._side_fault() or (None if _size_at(self._path) else "overwritten")

    def fault(self, *, is_settled: bool = True) -> Fault | None:
        """Return the fault of a file that changed unexpectedly; None where all are sound.

        With `is_settled` you hold the write lock: nobody else commits, checkpoints or restarts the log meanwhile.

        Raises:
            Unsettled: it cannot be told without the write lock.
        """
        if not self.is_watching:
            return None
        raw_index = self.index_bytes()  # First: a checkpoint counts what it changed after it has changed it.
        log = os.fstat(self._log)
        try:
            status = os.stat(self._path)  # noqa: PTH116 - in every read: a sixth less than `Path.stat`
        except OSError:
            return "moved"
        if (status.st_dev, status.st_ino) != self._files[0].identity:
            return self._displacement()
        # Where the log is not deleted, its path and the index's are worth looking up only before a commit.
        if (is_settled or not log.st_nlink) and (side_fault := self._side_fault()):
            return side_fault
        header = _read(self._database, _HEADER, 0)
        if self._is_known(header, status.st_size, raw_index, log.st_size):
            return None
        return self._compare(header, status.st_size, raw_index, is_settled=is_settled)

    def _is_known(self, header: bytes, size: int, raw_index: bytes, log_size: int) -> bool:
        sound = self._sound
        return (
            sound is not None
            and raw_index == sound.raw_index
            and header == sound.header
            and size == sound.size
            and log_size >= sound.index.log_bytes
            and _read(self._log, len(sound.frame), sound.index.last_frame_at) == sound.frame
        )

    def _compare(self, header: bytes, size: int, raw_index: bytes, *, is_settled: bool) -> Fault | None:
        index, sound = _index_from(raw_index), self._sound
        if index is None:
            return _confirmed("index", is_settled=is_settled)
        frame = self._last_frame(index)
        if frame is None:
            return _confirmed("log", is_settled=is_settled)
        if sound is not None and (header, size) != (sound.header, sound.size):
            if not is_settled:
                raise Unsettled
            is_counted = index.checkpoint != sound.index.checkpoint and _is_newer(header, sound)
            # A process that was killed during a checkpoint may have made it longer before it wrote its first page.
            is_longer = header == sound.header
            if _is_cut(header, size, sound) or not (is_counted or is_longer or self._is_from_log(header, index)):
                return "overwritten"
        self._sound = _Sound(header=header, size=size, index=index, raw_index=raw_index, frame=frame)
        return None

    def _side_fault(self) -> Fault | None:
        if not self.has_own_log():
            return "log"
        return "index" if file_identity(self._index_path) != self._files[2].identity else self.index_fault()

    def _displacement(self) -> Fault:
        """Distinguish a foreign file or none beside our log from a restore, which took the log too."""
        return "overwritten" if self.has_own_log() and self._path.exists() else "moved"

    def log_size(self) -> int:
        return os.fstat(self._log).st_size

    def note_checkpoint(self) -> None:
        """Accept the database as it is: this process has just changed it, with the write lock held."""
        self._sound = None
        self.fault()

    def has_own_log(self) -> bool:
        """Return True where the log at the path belongs to the database that this process has opened."""
        return file_identity(self._log_path) == self._files[1].identity

    def can_rescue(self) -> bool:
        """Return True where SQLite may still write a deleted log into the database when it closes.

        No other process has opened the database since, and nothing of it is damaged.
        """
        if file_identity(self._path) != self._files[0].identity or not self._is_index_long_enough():
            return False
        is_lost = not self.has_own_log() or file_identity(self._index_path) != self._files[2].identity
        is_replaced = not self.has_own_log() and _size_at(self._log_path) > 0
        is_reopened = file_identity(self._index_path) not in (None, self._files[2].identity)
        index, sound = self.index(), self._sound
        is_log_whole = index is not None and self._last_frame(index) is not None
        is_known = (
            sound is not None and _read(self._database, _HEADER, 0) == sound.header and self._size() == sound.size
        )
        return is_lost and is_log_whole and is_known and not is_replaced and not is_reopened

    def lengthen_index(self) -> None:
        """Extend a truncated index to its length with zeros, from which SQLite rebuilds it: closing needs it."""
        if self.is_watching and not self._is_index_long_enough():
            os.ftruncate(self._index, self._index_size)

    def _is_index_long_enough(self) -> bool:
        return os.fstat(self._index).st_size >= self._index_size

    def _last_frame(self, index: LogIndex) -> bytes | None:
        """Return the header of the log's last frame, empty without one; None where it differs from the index."""
        if not index.frames:
            return b""
        if self.log_size() < index.log_bytes:
            return None
        frame = _read(self._log, _FRAME_HEADER, index.last_frame_at)
        is_own = frame[8:16] == index.salts and struct.unpack(">II", frame[16:]) == index.checksum
        return frame if is_own else None

    def _is_from_log(self, header: bytes, index: LogIndex) -> bool:
        """Return True where a process was killed during a checkpoint: page 1 is there, but not counted as applied."""
        frames = range(_LOG_HEADER, index.log_bytes, _FRAME_HEADER + index.page_size) if index.frames else ()
        return any(
            _read(self._log, 4, frame) == _FIRST_PAGE and _read(self._log, _HEADER, frame + _FRAME_HEADER) == header
            for frame in frames
        )

    def _size(self) -> int:
        return os.fstat(self._database).st_size


def _index_from(raw: bytes) -> LogIndex | None:
    if len(raw) < _INDEX_READ or raw[:48] != raw[48:96] or not raw[12]:
        return None
    page_size, frames, _, *checksum = struct.unpack_from("=HIIII", raw, 14)
    return LogIndex(
        frames=frames,
        applied=struct.unpack_from("=I", raw, 96)[0],
        page_size=_page_bytes(page_size),
        salts=raw[32:40],
        checksum=(checksum[0], checksum[1]),
    )


def _is_cut(header: bytes, size: int, sound: _Sound) -> bool:
    """Return True where the file is shorter than it was, and than its header says (page size at 16, pages at 28).

    During a checkpoint it may be shorter than the header says; after a VACUUM, shorter than it was.
    """
    if len(header) < _HEADER or not header.startswith(_MAGIC):
        return True
    page_size, pages = struct.unpack_from(">H", header, 16)[0], struct.unpack_from(">I", header, 28)[0]
    return size < min(sound.size, pages * _page_bytes(page_size))


def _page_bytes(stored: int) -> int:
    """Return the size of a page; 65,536 does not fit into two bytes, and is stored as 1."""
    return 65_536 if stored == 1 else stored


def _is_newer(header: bytes, sound: _Sound) -> bool:
    """Return True where a checkpoint can have made this of the earlier state.

    The schema's number, at 40, only ever grows: each of our checkpoints raises it, so that no two states of the file
    have the same header. The page size never changes. Both numbers compare as bytes.
    """
    return header[16:18] == sound.header[16:18] and header[40:44] >= sound.header[40:44]


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
    """A descriptor, shared by all witnesses of the same file in this process."""

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


def _let_go(files: Iterable[_Held]) -> None:
    with _held_lock:
        for file in files:
            file.holders -= 1
            if not file.holders:
                del _held[file.identity]
                os.close(file.descriptor)


if sys.platform == "win32":

    def _read(descriptor: int, count: int, offset: int) -> bytes:
        """Read under a lock: Windows has no `pread`, and shared descriptors share their position."""
        with _held_lock:
            os.lseek(descriptor, offset, os.SEEK_SET)
            return os.read(descriptor, count)

else:
    _read = os.pread
