"""Standard input and output as streams of JSON-RPC messages, one a line. Knows no tool and no way to end.

What is no message never reaches the protocol library, which would not answer it; its refusal goes out between two of
the library's own lines, never inside one.
"""

import io
import logging
import os
import sys
import threading
from collections.abc import Callable
from concurrent import futures
from typing import TYPE_CHECKING, BinaryIO, Final

from mcp_memory.entrypoints.server.json_lines import (
    TAIL_BYTES,
    JsonRpcMessage,
    Refusal,
    in_one_line,
    parse_message,
    refuse_long_line,
)

if TYPE_CHECKING:
    from typing_extensions import Buffer

logger = logging.getLogger(__name__)

MAX_MESSAGE_BYTES: Final = 64 * 1024 * 1024


class GuardedInput(io.RawIOBase):
    """Bytes of JSON-RPC messages, one a line; any other line is dropped and logged.

    Calls `on_request` with the method of each request before it can be read, `refuse` with the answer to a dropped
    line, if it gets one, and `at_end` before the end can be read. Has no file number, so that the protocol library
    reads it unchanged.
    """

    def __init__(
        self,
        source: BinaryIO,
        on_request: Callable[[str], None],
        refuse: Callable[[Refusal], None],
        at_end: Callable[[], None],
        max_line_bytes: int = MAX_MESSAGE_BYTES,
    ) -> None:
        self._source = source
        self._on_request = on_request
        self._refuse = refuse
        self._at_end = at_end
        self._max_line_bytes = max_line_bytes
        self._rest = memoryview(b"")

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: "Buffer", /) -> int:
        """Fill the buffer from the present message, or wait for the next; 0 at the end of input."""
        target = memoryview(buffer).cast("B")
        if not self._rest:
            self._rest = memoryview(self._next_message())
        size = min(len(target), len(self._rest))
        target[:size] = self._rest[:size]
        self._rest = self._rest[size:]
        return size

    def _next_message(self) -> bytes:
        while line := self._read_piece():
            read = self._read_long(line) if self._is_cut(line) else self._read(line)
            if isinstance(read, bytes):
                return read
        self._at_end()
        return b""

    def _read(self, line: bytes) -> bytes | None:
        """The message of a line; None where it holds none."""
        if not line.strip():
            return None
        read = parse_message(line)
        if isinstance(read, JsonRpcMessage):
            if read.method:
                self._on_request(read.method)
            return read.line
        return self._drop(read, len(line))

    def _read_long(self, head: bytes) -> None:
        """Read on to the end of a line that is too long, keeping no more of it than its id may be found in."""
        size, tail = len(head), head[-TAIL_BYTES:]
        while piece := self._read_piece():
            size += len(piece)
            tail = (tail + piece[-TAIL_BYTES:])[-TAIL_BYTES:]
            if not self._is_cut(piece):
                break
        self._drop(refuse_long_line(head, tail, self._max_line_bytes), size)

    def _drop(self, refusal: Refusal, size: int) -> None:
        logger.warning("Dropped a line of %d bytes that is not a JSON-RPC message.", size)
        if refusal.is_owed:
            self._refuse(refusal)

    def _is_cut(self, piece: bytes) -> bool:
        return len(piece) == self._max_line_bytes and not piece.endswith(b"\n")

    def _read_piece(self) -> bytes:
        """The next line, or as much of it as a message may hold. A lost wire is at its end."""
        try:
            return self._source.readline(self._max_line_bytes)
        except (OSError, ValueError):
            return b""


class LineOutput(io.RawIOBase):
    """Messages, one a line, each written whole before the next. Thread-safe.

    The protocol library writes as to a file; `send` and `send_later` stand beside it. Has no file number either.
    """

    def __init__(self, target: BinaryIO) -> None:
        self._target = target
        self._writing = threading.Lock()
        self._begun: list[bytes] = []
        self._later = futures.ThreadPoolExecutor(1, "refusals")
        self._last: futures.Future[None] | None = None

    def writable(self) -> bool:
        return True

    def write(self, data: "Buffer", /) -> int:
        """Take bytes; they go out once their line has ended. One thread at a time. Raises OSError."""
        piece = bytes(data)
        self._begun.append(piece)
        if piece.endswith(b"\n"):
            line, self._begun = b"".join(self._begun), []
            self.send(line)
        return len(piece)

    def send(self, line: bytes) -> None:
        """Write a line, ended by a line feed. Raises OSError where nobody reads any more."""
        line = in_one_line(line)
        with self._writing:
            self._target.write(line)
            self._target.flush()

    def send_later(self, line: bytes) -> None:
        """Write a line from another thread: a client that sends much before it reads is read on meanwhile."""
        self._last = self._later.submit(self._try_to_send, line)

    def wait(self, seconds: float) -> None:
        """Wait until everything that was to be sent later is sent, at most so long."""
        if self._last is not None:
            futures.wait([self._last], seconds)

    def send_no_more(self) -> None:
        """End the thread that writes later, once it has written what it was given."""
        self._later.shutdown(wait=False)

    def _try_to_send(self, line: bytes) -> None:
        try:
            self.send(line)
        except (OSError, ValueError):
            logger.debug("Output is closed: nobody is told.")


def take_stdin() -> BinaryIO:
    """Keep the input for ourselves, and put the null device under number 0, for children to read."""
    wire = os.dup(0)  # dup makes it non-inheritable
    _put_under(0, os.open(os.devnull, os.O_RDONLY))
    return open(wire, "rb", closefd=False)  # a thread may still wait on it at the end


def take_stdout() -> BinaryIO:
    """Keep the output for ourselves, and send number 1 to the log, so that a stray print does not tear a message.

    Raises OSError.
    """
    wire = os.dup(1)
    try:
        log = os.dup(2)
    except OSError:
        log = os.open(os.devnull, os.O_WRONLY)
    _put_under(1, log)
    return open(wire, "wb", closefd=False)  # for the life of the process


def _put_under(number: int, descriptor: int) -> None:
    os.dup2(descriptor, number)
    os.close(descriptor)
    if sys.platform == "win32":
        from mcp.os.win32.utilities import rebind_std_handle_to_fd

        rebind_std_handle_to_fd(number)
