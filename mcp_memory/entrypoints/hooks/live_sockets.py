"""Where hooks and running servers meet: a private folder of sockets, their names, and who is at the other end.

A name says which settings, version and folder a server has, so that a hook asks the right ones first. Hooks import this
before they have asked: nothing slow is imported here.
"""

import os
import socket
import sys

from mcp_memory.locations import digest

FOLDER = "live"
"""Folder in the data directory; short, because the path of a socket may have 103 bytes."""
SUFFIX = ".sock"
MOST_BYTES = 4 * 1024 * 1024
"""Limit for what a hook tells a server; more is for the hook alone."""
HEARD = b"+"
"""The first byte of an answer, sent before the work: a server that is stopped does not send it."""
OUTPUT, FAILURE, NOT_MINE = b"o", b"e", b"n"
"""The second byte: a text for the client follows, or a complaint, or nothing because another memory is the hook's."""
END = b"\0"
"""The last byte: without it the server ended in the middle."""
_LONGEST_ADDRESS = 103
"""On macOS, without the zero at the end; on Linux 107."""
_ON_MACOS = (0, 1)
"""SOL_LOCAL and LOCAL_PEERCRED, which Python does not name."""
_CREDENTIAL_BYTES = 76
"""The larger of two structures, macOS's; in both the user is the second number of four bytes."""


def are_possible() -> bool:
    """True where the system has such sockets and names the user at the other end: on Linux and macOS."""
    return hasattr(socket, "AF_UNIX") and sys.platform in ("linux", "darwin")


def name_of(settings_digest: str, folder: "str | os.PathLike[str]") -> str:
    """Return the beginning of the name of a server's socket: its settings', then its working directory's digest."""
    return f"{settings_digest}-{digest(os.fsencode(os.path.realpath(folder)), 3)}-"


def open_private(data_dir: str) -> int:
    """Open the folder of sockets; return its descriptor, which stays open.

    Raises OSError where it is missing, is somebody else's, or others may look into it.
    """
    place = os.open(os.path.join(data_dir, FOLDER), os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    status = os.fstat(place)
    if status.st_uid != os.getuid() or status.st_mode & 0o077:
        os.close(place)
        raise PermissionError("the folder of sockets is not private")
    return place


def address(data_dir: str, place: int, name: str) -> str:
    """Return a path that a socket can have: of a deep directory it goes through the descriptor, on Linux alone."""
    path = os.path.join(data_dir, FOLDER, name)
    return path if len(os.fsencode(path)) <= _LONGEST_ADDRESS else f"/proc/self/fd/{place}/{name}"


def is_same_user(connection: socket.socket) -> bool:
    """True where the process at the other end runs as this user; False also where the system does not say."""
    level, option = (socket.SOL_SOCKET, socket.SO_PEERCRED) if sys.platform == "linux" else _ON_MACOS
    try:
        credentials = connection.getsockopt(level, option, _CREDENTIAL_BYTES)
    except OSError:
        return False
    return int.from_bytes(credentials[4:8], sys.byteorder) == os.getuid()
