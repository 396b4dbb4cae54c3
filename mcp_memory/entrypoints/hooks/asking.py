"""Asks a running server to answer a hook, in milliseconds: it has the memory loaded. Knows no event and no setting."""

import os
import socket
from collections.abc import Iterator, Mapping

from mcp_memory.entrypoints.hooks import live_sockets
from mcp_memory.locations import data_dir, fingerprint

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
    if len(payload) > live_sockets.MOST_BYTES or not live_sockets.are_possible():
        return None
    try:
        here = os.getcwd()
        request = b"\0".join((os.fsencode(name), os.fsencode(here), payload))
        for address in _addresses(data_dir(chosen), fingerprint(chosen), here):
            kind, text = _answer(address, request)
            if kind in (live_sockets.OUTPUT, live_sockets.FAILURE):
                return kind, text
    except (OSError, ValueError):  # There is no folder of sockets, or no working directory.
        pass
    return None


def _addresses(folder: str, settings_digest: str, here: str) -> Iterator[str]:
    """Yield where servers of these settings may listen, those of this working directory first."""
    place = live_sockets.open_private(folder)
    near = live_sockets.name_of(settings_digest, here)
    names = [each for each in os.listdir(place) if each.startswith(settings_digest) and each.endswith(".sock")]
    for name in sorted(names, key=lambda each: not each.startswith(near))[:MOST_ASKED]:
        yield live_sockets.address(folder, place, name)


def _answer(address: str, request: bytes) -> tuple[bytes, bytes]:
    """Return what a server answers: its kind, empty where none came in time or whole, and its text."""
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as server:
            server.settimeout(HEARD_SECONDS)
            server.connect(address)
            if not live_sockets.is_same_user(server):
                return b"", b""
            server.sendall(request)
            server.shutdown(socket.SHUT_WR)
            if server.recv(1) != live_sockets.HEARD:
                return b"", b""
            server.settimeout(ANSWER_SECONDS)
            told = b""
            while len(told) <= MOST_ANSWER_BYTES and (part := server.recv(65_536)):
                told += part
    except OSError:  # Nobody listens any more, or too slowly.
        return b"", b""
    return (told[:1], told[1:-1]) if told.endswith(live_sockets.END) else (b"", b"")
