"""The streams of another process's command: an interrupt or that process's end reaches it amid reading and writing."""

import io
import os
import select
import socket
import threading
import time
from collections.abc import Generator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from typing import TYPE_CHECKING, Final, TextIO, cast

from mcp_memory.entrypoints.commands.console import Terminal

if TYPE_CHECKING:
    from typing_extensions import Buffer

LOOK_SECONDS: Final = 0.2
LAST_WORDS_SECONDS: Final = 2.0
"""Time for what an interrupted command still says."""
PIPE_BYTES: Final = 4_096
"""Bytes that a pipe takes without waiting whenever it says that it takes any."""


class _ClientLine:
    """The connection with the client, on which nothing more is said but that it was interrupted, or has left."""

    def __init__(self, connection: socket.socket, should_end: threading.Event) -> None:
        self._connection = connection
        self._should_end = should_end
        self._interrupted_at: float | None = None

    def check(self) -> None:
        """Raise KeyboardInterrupt, once, where the command is to end: what it says then is still written."""
        poll = select.poll()
        poll.register(self._connection, select.POLLIN)
        if self._interrupted_at is None and (self._should_end.is_set() or poll.poll(0)):
            self._interrupted_at = time.monotonic()
            raise KeyboardInterrupt

    def wait(self, stream: int, event: int) -> None:
        """Wait until the stream is ready. Raises KeyboardInterrupt, and BrokenPipeError where it is not soon after."""
        poll = select.poll()
        poll.register(stream, event)
        self.check()
        while not poll.poll(1_000 * LOOK_SECONDS):
            self.check()
            if self._interrupted_at is not None and time.monotonic() > self._interrupted_at + LAST_WORDS_SECONDS:
                raise BrokenPipeError


class _Lent(io.RawIOBase):
    """A descriptor of the client's."""

    def __init__(self, descriptor: int, line: _ClientLine, *, reads: bool) -> None:
        self._descriptor = descriptor
        self._line = line
        self._reads = reads

    def fileno(self) -> int:
        return self._descriptor

    def isatty(self) -> bool:
        return os.isatty(self._descriptor)

    def readable(self) -> bool:
        return self._reads

    def writable(self) -> bool:
        return not self._reads

    def readinto(self, buffer: "Buffer", /) -> int:
        target = memoryview(buffer).cast("B")
        self._line.wait(self._descriptor, select.POLLIN)
        piece = os.read(self._descriptor, len(target))
        target[: len(piece)] = piece
        return len(piece)

    def write(self, data: "Buffer", /) -> int:
        self._line.wait(self._descriptor, select.POLLOUT)
        return os.write(self._descriptor, memoryview(data).cast("B")[:PIPE_BYTES])


@contextmanager
def terminal_of(
    connection: socket.socket, lent: Sequence[int], hello: Mapping[str, object], should_end: threading.Event
) -> Generator[Terminal]:
    """Yield the terminal of a client by its three descriptors, which are closed afterwards. Raises ValueError.

    Once `should_end` is set, it counts as interrupted.
    """
    line = _ClientLine(connection, should_end)
    with ExitStack() as opened:
        for each in lent:
            opened.callback(os.close, each)
        source, out, err = lent
        of_source, of_out, of_err = cast("Sequence[str]", hello["encodings"])
        reader = io.BufferedReader(_Lent(source, line, reads=True))
        writers = [io.BufferedWriter(_Lent(each, line, reads=False)) for each in (out, err)]
        stdin = io.TextIOWrapper(reader, encoding=of_source, errors="replace")
        stdout, stderr = (
            io.TextIOWrapper(writer, encoding=encoding, errors="replace", line_buffering=writer.isatty())
            for writer, encoding in zip(writers, (of_out, of_err), strict=True)
        )
        for each in (stdin, stdout, stderr):
            opened.callback(_close, each)
        yield Terminal(
            stdin=stdin,
            stdout=stdout,
            stderr=stderr,
            environment=cast("Mapping[str, str]", hello["screen"]),
            check=line.check,
        )


def _close(stream: TextIO) -> None:
    with suppress(OSError, ValueError, KeyboardInterrupt):  # What it could not write, nobody reads.
        stream.close()
