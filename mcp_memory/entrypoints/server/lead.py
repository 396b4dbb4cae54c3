"""Elects the one process of a memory, the lead, that serves the windows of the others. Imports nothing slow.

The kernel's lock on a file says who leads, and falls with the process. So only one loads the memory when several start
at once, or lose their lead.
"""

import contextlib
import os
import queue
import socket
import threading
from typing import Final

from mcp_memory.entrypoints.server import private_sockets

HERE: Final = b"\0here\n"
"""The lead has heard a window, at its first words and whenever it asks STILL_HERE. No message begins with a zero."""
STILL_HERE: Final = b"\0?\n"
NOT_MINE: Final = b"\0no\n"
"""The lead cannot serve this window, or has no room."""
PLACE: Final = b"\0place "
"""The place of the window in the task tree follows, which its next lead gives it again."""
BYE: Final = b"\0bye "
"""The lead reads no more; the number of lines that it has read follows."""
LOCK_SUFFIX: Final = ".lead"
SOCKET_SUFFIX: Final = ".mcp"
PATIENCE_SECONDS: Final = 2.0
"""Time for a window to say who it is, and for the lead to have heard it."""
MOST_HELLO_BYTES: Final = 65_536


class Lead:
    """The right to serve a memory's windows, and the socket where they arrive."""

    def __init__(self, data_dir: str, name: str, lock: int, listener: socket.socket) -> None:
        self._data_dir = data_dir
        self._name = name
        self._lock = lock
        self._listener = listener
        self._arrivals: queue.SimpleQueue[tuple[socket.socket, bytes] | None] = queue.SimpleQueue()
        threading.Thread(target=self._accept, name="windows", daemon=True).start()

    @classmethod
    def claim(cls, data_dir: str, name: str) -> "Lead | None":
        """Lead the windows that look for this name, unless another process does.

        Raises OSError where there can be no lock or socket.
        """
        with contextlib.suppress(FileExistsError):
            os.mkdir(os.path.join(data_dir, private_sockets.FOLDER), 0o700)
        place = private_sockets.open_private(data_dir)
        try:
            lock = private_sockets.locked(f"{name}{LOCK_SUFFIX}", place)
            if lock is None:
                return None
            try:
                listener = private_sockets.listening(data_dir, place, f"{name}{SOCKET_SUFFIX}")
                return cls(data_dir, name, lock, listener)
            except OSError:
                os.close(lock)
                raise
        finally:
            os.close(place)

    def next_arrival(self) -> tuple[socket.socket, bytes] | None:
        """Wait for a window; return its connection and first line, or None once nobody may arrive any more."""
        return self._arrivals.get()

    def turn_away(self) -> None:
        """Resign, and let those that have arrived find the next lead: they would wait for as long as we live."""
        self.resign()
        while arrival := self.next_arrival():
            arrival[0].close()

    def resign(self) -> None:
        """Let nobody arrive any more, and leave the lead to another process. It may be called twice, by two threads."""
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)  # The thread that accepts closes it, and says that nobody comes.
        lock, self._lock = self._lock, -1
        if lock >= 0:
            with contextlib.suppress(OSError):
                place = private_sockets.open_private(self._data_dir)
                for suffix in (SOCKET_SUFFIX, LOCK_SUFFIX):
                    os.unlink(f"{self._name}{suffix}", dir_fd=place)
                os.close(place)
            os.close(lock)

    def _accept(self) -> None:
        """Take windows in until the door is closed, or files run out, and then another process may lead."""
        with self._listener:
            with contextlib.suppress(OSError):
                while True:
                    self._greet(self._listener.accept()[0])
            self.resign()
        self._arrivals.put(None)

    def _greet(self, window: socket.socket) -> None:
        hello = b""
        with contextlib.suppress(OSError):
            hello = _greeted(window)
        if hello:
            self._arrivals.put((window, hello))
        else:
            window.close()


def _greeted(window: socket.socket) -> bytes:
    """Return a window's first line, and let it know; b"" where it is none of this user's. Raises OSError.

    It says no more than that before it is heard.
    """
    window.settimeout(PATIENCE_SECONDS)
    hello = b""
    while private_sockets.is_same_user(window) and (piece := window.recv(MOST_HELLO_BYTES)):
        hello += piece
        if hello.endswith(b"\n"):
            window.sendall(HERE)
            window.settimeout(None)
            return hello
        if len(hello) > MOST_HELLO_BYTES:
            break
    return b""


def connect(data_dir: str, name: str) -> socket.socket:
    """Return a connection with the lead of that name. Raises OSError where none is there."""
    place = private_sockets.open_private(data_dir)
    try:
        lead = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            lead.settimeout(PATIENCE_SECONDS)
            lead.connect(private_sockets.address(data_dir, place, f"{name}{SOCKET_SUFFIX}"))
            if not private_sockets.is_same_user(lead):
                raise PermissionError("the socket is another user's")
        except OSError:
            lead.close()
            raise
        return lead
    finally:
        os.close(place)
