"""The lock of a data directory, and sockets between a user's processes in a private folder of it.

Imports nothing slow.
"""

import contextlib
import os
import socket
import stat
import sys

from mcp_memory.errors import CHOOSE_FOLDER, StoreUnavailable
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


def open_private(folder: str) -> int:
    """Open the folder of sockets in a data directory, which others may not look into any more; return its descriptor.

    Raises OSError where it is missing, and StoreUnavailable where another user's or no folder stands there.
    """
    _refuse_foreign(os.path.join(folder, FOLDER))
    place = os.open(os.path.join(folder, FOLDER), os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    status = os.fstat(place)
    if status.st_uid == os.getuid() and status.st_mode & 0o077:
        os.fchmod(place, 0o700)
        status = os.fstat(place)
    if status.st_uid != os.getuid() or status.st_mode & 0o077:
        os.close(place)
        raise PermissionError("the folder of sockets is not private")
    return place


def _refuse_foreign(path: str) -> None:
    """Raise StoreUnavailable where the path is no folder, or another user's; OSError where it is missing."""
    status = os.lstat(path)
    if not stat.S_ISDIR(status.st_mode):
        raise StoreUnavailable(f"{path} is no folder; move it away, and a folder is made in its place.")
    if status.st_uid != os.getuid():
        raise StoreUnavailable(_foreign(path, status.st_uid))


def _foreign(path: str, user: int) -> str:
    """Say that the path is another user's, by name where the system knows it."""
    import pwd  # Windows has none.

    try:
        name = pwd.getpwuid(user).pw_name
    except KeyError:
        name = str(user)
    return (
        f"{path} is of the user {name}, and one user alone can use a memory. Work as that user, or set"
        " MCP_MEMORY_DATA_DIR to a folder of your own."
    )


def make_folder(folder: str) -> None:
    """Make the folder of sockets in a data directory, where it is missing. Raises StoreUnavailable."""
    try:
        os.mkdir(os.path.join(folder, FOLDER), 0o700)
    except FileExistsError:
        pass
    except PermissionError as error:
        raise StoreUnavailable(f"{folder} may not be written; {CHOOSE_FOLDER}") from error
    except OSError as error:
        raise StoreUnavailable(f"{folder}: {error.strerror}; {CHOOSE_FOLDER}") from error


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


def locked(folder: str) -> int | None:
    """Return the descriptor of the data directory, which is made, locked; None where another process has the lock.

    The directory itself has the lock: what is in it, a user may delete while its owner stands still.

    Raises StoreUnavailable where there can be no lock.
    """
    import fcntl  # Windows has none, nor such sockets.

    try:
        os.makedirs(folder, 0o700, exist_ok=True)
        lock = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(lock)
            raise
    except BlockingIOError:
        return None
    except OSError as error:
        raise StoreUnavailable(_why_closed(folder, error)) from error
    return lock


def _why_closed(folder: str, error: OSError) -> str:
    """Say why a data directory cannot be made or opened."""
    with contextlib.suppress(OSError):
        if (user := os.stat(folder).st_uid) != os.getuid():
            return _foreign(folder, user)
    return f"{folder}: {error.strerror}; {CHOOSE_FOLDER}"


def is_free(folder: str) -> bool:
    """True where no process has the data directory locked, or there is none. Raises OSError where it is closed."""
    import fcntl

    try:
        lock = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except (FileNotFoundError, NotADirectoryError):
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


def mark_of(path: str) -> tuple[int, int] | None:
    """Return what tells a file from another that takes its place; None where there is none."""
    try:
        status = os.lstat(path)
    except OSError:
        return None
    return status.st_dev, status.st_ino


def write_private(path: str, content: bytes) -> None:
    """Write a new file that this user alone can read. Raises OSError."""
    with open(path, "xb", opener=lambda name, flags: os.open(name, flags, 0o600)) as file:
        file.write(content)


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
