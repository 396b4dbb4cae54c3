"""Reads ordinary files within bounds: nothing blocks for ever, and nothing larger than the limit is held in memory.

A pipe would wait for a writer, a device may never end, and a sparse file of 100 GB costs nothing to make. Errors are
raised as OSError, whose `strerror` a message can show. Knows no format.
"""

import errno
import os
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO, Final

MB: Final = 1024 * 1024
_FLAGS: Final = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0) | getattr(os, "O_NOCTTY", 0)


def file_identity(path: Path) -> tuple[int, int] | None:
    """Return device and inode number of the file that the path names now; None where there is none."""
    try:
        status = path.stat()
    except FileNotFoundError:
        return None
    return status.st_dev, status.st_ino


def open_regular(path: Path, most_bytes: int | None = None, *, follow_link: bool = True) -> BinaryIO:
    """Open an ordinary file for reading; a symbolic link at the end of the path only where that is allowed.

    Raises:
        OSError: the file is not there or may not be read, it holds more than `most_bytes`, or it is a folder, pipe,
            device or, where none is allowed, a symbolic link.
    """
    try:
        _require_regular(path.stat() if follow_link else path.lstat())
        # The path may name another file by now, so opening must not block and the opened file is checked again.
        descriptor = os.open(path, _FLAGS | (0 if follow_link else getattr(os, "O_NOFOLLOW", 0)))
    except ValueError as error:  # a NUL in the path
        raise OSError(errno.EINVAL, "not a path") from error
    try:
        opened = os.fstat(descriptor)
        _require_regular(opened)
        if most_bytes is not None and opened.st_size > most_bytes:
            raise too_large(most_bytes)
    except OSError:
        os.close(descriptor)
        raise
    return os.fdopen(descriptor, "rb")


def read_regular(path: Path, most_bytes: int, *, follow_link: bool = True) -> bytes:
    """Read an ordinary file as a whole.

    Raises:
        OSError: as `open_regular`, or the file holds more than `most_bytes`.
    """
    with open_regular(path, most_bytes, follow_link=follow_link) as file:
        content = file.read(most_bytes + 1)
    if len(content) > most_bytes:  # The file has grown in the meantime.
        raise too_large(most_bytes)
    return content


def too_large(most_bytes: int) -> OSError:
    """Return the error for a file that holds more than the limit."""
    return OSError(errno.EFBIG, f"larger than {most_bytes // MB} MB")


def bounded_lines(file: BinaryIO, most_bytes: int) -> Iterator[bytes | None]:
    """Yield the lines of a file, each with its line end; None instead of each one longer than `most_bytes`.

    A line that is too long is skipped in parts of that size, so it costs time but no more memory.
    """
    while line := file.readline(most_bytes + 1):
        if len(line) <= most_bytes:
            yield line
            continue
        yield None
        while line and not line.endswith(b"\n"):
            line = file.readline(most_bytes)


def _require_regular(found: os.stat_result) -> None:
    """Raise OSError for anything but an ordinary file."""
    if stat.S_ISDIR(found.st_mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
    if stat.S_ISLNK(found.st_mode):
        raise OSError(errno.ELOOP, "a symbolic link")
    if not stat.S_ISREG(found.st_mode):
        raise OSError(errno.EINVAL, "not an ordinary file")
