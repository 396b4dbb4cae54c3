"""Lets a hook ask a running server, in milliseconds, and names what both must know: the sockets' folder, names, bytes.

A name says which settings, version and folder a server has, so that a hook asks the right ones first. Nothing slow is
imported here, and neither an event nor a setting is known.
"""

import os
import socket
import sys
from collections.abc import Iterator, Mapping

from mcp_memory.locations import data_dir, digest, fingerprint

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
HEARD_SECONDS = 0.5
"""Time in which a server takes the question; one that is stopped, or swapped out, does not."""
ANSWER_SECONDS = 3.0
"""Time for the answer. It leaves a hook most of its own to find the answer by itself."""
MOST_ASKED = 6
MOST_ANSWER_BYTES = 1_000_000
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


def open_private(folder: str) -> int:
    """Open the folder of sockets in a data directory; return its descriptor, which stays open.

    Raises OSError where it is missing, is somebody else's, or others may look into it.
    """
    place = os.open(os.path.join(folder, FOLDER), os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
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


def ask(name: str, payload: bytes, chosen: Mapping[str, object]) -> tuple[bytes, bytes] | None:
    """Return a server's answer to the hook of that name: OUTPUT or FAILURE, and its text.

    None where no server of these settings, with the arguments `chosen`, and of the session's memory answered.
    """
    if len(payload) > MOST_BYTES or not are_possible():
        return None
    try:
        here = os.getcwd()
        request = b"\0".join((os.fsencode(name), os.fsencode(here), payload))
        for each in _addresses(data_dir(chosen), fingerprint(chosen), here):
            kind, text = _answer(each, request)
            if kind in (OUTPUT, FAILURE):
                return kind, text
    except (OSError, ValueError):  # There is no folder of sockets, or no working directory.
        pass
    return None


def _addresses(folder: str, settings_digest: str, here: str) -> Iterator[str]:
    """Yield where servers of these settings may listen, those of this working directory first."""
    place = open_private(folder)
    near = name_of(settings_digest, here)
    names = [each for each in os.listdir(place) if each.startswith(settings_digest) and each.endswith(".sock")]
    for name in sorted(names, key=lambda each: not each.startswith(near))[:MOST_ASKED]:
        yield address(folder, place, name)


def _answer(path: str, request: bytes) -> tuple[bytes, bytes]:
    """Return what a server answers: its kind, empty where none came in time or whole, and its text."""
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as server:
            server.settimeout(HEARD_SECONDS)
            server.connect(path)
            if not is_same_user(server):
                return b"", b""
            server.sendall(request)
            server.shutdown(socket.SHUT_WR)
            if server.recv(1) != HEARD:
                return b"", b""
            server.settimeout(ANSWER_SECONDS)
            told = b""
            while len(told) <= MOST_ANSWER_BYTES and (part := server.recv(65_536)):
                told += part
    except OSError:  # Nobody listens any more, or too slowly.
        return b"", b""
    return (told[:1], told[1:-1]) if told.endswith(END) else (b"", b"")
