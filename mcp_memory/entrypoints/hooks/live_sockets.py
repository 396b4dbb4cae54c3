"""Lets a hook ask a running server, in milliseconds, and names the bytes that both must know.

Nothing slow is imported here, and neither an event nor a setting is known.
"""

import os
import socket
from collections.abc import Iterator, Mapping

from mcp_memory.entrypoints.server.private_sockets import address, are_possible, is_same_user, name_of, open_private
from mcp_memory.locations import NAMES, data_dir, fingerprint, named

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


def ask(name: str, payload: bytes, chosen: Mapping[str, object]) -> tuple[bytes, bytes] | None:
    """Return a server's answer to the hook of that name: OUTPUT or FAILURE, and its text.

    None where no server of these settings, with the arguments `chosen`, and of the session's memory answered.
    """
    if len(payload) > MOST_BYTES or not are_possible():
        return None
    try:
        here = os.getcwd()
        names = named(chosen)
        given = (name, here, *(names.get(each, "") for each in NAMES))
        request = b"\0".join((*map(os.fsencode, given), payload))
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
