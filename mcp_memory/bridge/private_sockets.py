"""Sockets between a user's processes, in a private folder of the data directory. Imports nothing slow."""

import contextlib
import os
import socket
import sys

from mcp_memory.locations import LIVE_FOLDER as FOLDER

WAITING = 128
"""Connections that may wait to be taken in."""
_LONGEST_ADDRESS = 103
"""On macOS, without the zero at the end; on Linux 107."""
_ON_MACOS = (0, 1)
"""SOL_LOCAL and LOCAL_PEERCRED, which Python does not name."""
_CREDENTIAL_BYTES = 76
"""The larger of two structures, macOS's; in both the user is the second number of four bytes."""


def are_possible() -> bool:
    """True where the system has such sockets and names the user at the other end: on Linux and macOS."""
    return hasattr(socket, "AF_UNIX") and sys.platform in ("linux", "darwin")


def open_private(folder: str, *, repairs: bool = False) -> int:
    """Open the folder of sockets in a data directory; return its descriptor, which stays open.

    Raises OSError where it is missing, is somebody else's, or others may look into it; with `repairs` they may no more.
    """
    place = os.open(os.path.join(folder, FOLDER), os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    status = os.fstat(place)
    if repairs and status.st_uid == os.getuid() and status.st_mode & 0o077:
        os.fchmod(place, 0o700)
        status = os.fstat(place)
    if status.st_uid != os.getuid() or status.st_mode & 0o077:
        os.close(place)
        raise PermissionError("the folder of sockets is not private")
    return place


def address(folder: str, place: int, name: str) -> str:
    """Return a path that a socket can have: of a deep directory it goes through the descriptor, on Linux alone."""
    path = os.path.join(folder, FOLDER, name)
    return path if len(os.fsencode(path)) <= _LONGEST_ADDRESS else f"/proc/self/fd/{place}/{name}"


def is_same_user(connection: socket.socket) -> bool:
    """True where the process at the other end runs as this user; False also where the system does not say."""
    level, option = (socket.SOL_SOCKET, socket.SO_PEERCRED) if sys.platform == "linux" else _ON_MACOS
    try:
        credentials = connection.getsockopt(level, option, _CREDENTIAL_BYTES)
    except OSError:
        return False
    return int.from_bytes(credentials[4:8], sys.byteorder) == os.getuid()


def locked(name: str, place: int) -> int | None:
    """Return the descriptor of the file, locked; None where another process has it. Raises OSError."""
    import fcntl  # Windows has none, nor such sockets.

    lock = os.open(name, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600, dir_fd=place)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        os.close(lock)
        if isinstance(error, BlockingIOError):
            return None
        raise
    return lock


def is_free(name: str, place: int) -> bool:
    """True where no process has the file locked, or there is none."""
    import fcntl

    try:
        lock = os.open(name, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW, dir_fd=place)
    except OSError:
        return True
    try:
        fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    finally:
        os.close(lock)
    return True


def listening(data_dir: str, place: int, name: str) -> socket.socket:
    """Return a socket of that name on which this process listens. Raises OSError."""
    with contextlib.suppress(FileNotFoundError):  # A process that was killed left its own.
        os.unlink(name, dir_fd=place)
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        listener.bind(address(data_dir, place, name))
        os.chmod(name, 0o600, dir_fd=place)
        listener.listen(WAITING)
    except OSError:
        listener.close()
        raise
    return listener


def received(client: socket.socket, size: object, most: int) -> bytes:
    """Return so many bytes of what the other end says. Raises OSError, and ValueError where it says less or more."""
    if not isinstance(size, int) or size > most:
        raise ValueError
    pieces = bytearray()
    while len(pieces) < size:
        part = client.recv(65_536)
        if not part:
            raise ValueError
        pieces += part
    return bytes(pieces)
