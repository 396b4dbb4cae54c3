"""The index process seen from the server: started, asked with deadlines, ended. Knows no operation.

Messages are frames of named values and raw bytes, over a pair of pipes; the worker reads and writes the same.
"""

from __future__ import annotations

import itertools
import json
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Mapping
from concurrent.futures import Future
from contextlib import suppress
from pathlib import Path
from typing import IO, Any, Protocol

from mcp_memory.isolated_python import environment_for_child, isolated_command
from mcp_memory.shielded_chroma import is_installed
from mcp_memory.stores.vectors.chroma.location import IndexFailure

Fields = Mapping[str, Any]
_LENGTHS = struct.Struct("<II")


def write_frame(stream: IO[bytes], fields: Fields, body: bytes = b"") -> None:
    """Write a message and flush it. Raises OSError or ValueError where nobody reads any more."""
    head = json.dumps(fields).encode()
    stream.write(_LENGTHS.pack(len(head), len(body)) + head + body)
    stream.flush()


def read_frame(stream: IO[bytes]) -> tuple[dict[str, Any], bytes] | None:
    """Return the next message, or None at the end of input, even in the middle of a message."""
    lengths = stream.read(_LENGTHS.size)
    if len(lengths) < _LENGTHS.size:
        return None
    head_size, body_size = _LENGTHS.unpack(lengths)
    rest = stream.read(head_size + body_size)
    if len(rest) < head_size + body_size:
        return None
    return json.loads(rest[:head_size]), rest[head_size:]


_WORKER = "mcp_memory.stores.vectors.chroma.worker"
_LEAVING_SECONDS = 2.0


class Link(Protocol):
    """A way to the worker that holds the index. Thread-safe."""

    def call(self, fields: Fields, body: bytes = b"", *, seconds: float) -> Mapping[str, Any]:
        """Send a message and return its answer.

        Raises:
            IndexFailure: the worker could not do it, or is gone.
            TimeoutError: no answer came in time; a late one is dropped.
        """
        ...

    def close(self) -> None: ...


class ChromaProcess:
    """Implements `Link` with a child process, which ends when its input does, however this process ends."""

    def __init__(self, folder: Path) -> None:
        """Start it in this folder, the memory's own. Raises IndexFailure where no process can hold Chroma."""
        if not is_installed():
            raise IndexFailure("Chroma is not installed.", keep=True)
        try:
            self._process = self._started(folder)
        except OSError as error:
            raise IndexFailure(f"No index process can be started: {error}.", keep=True) from error
        self._input, self._output = _pipe(self._process.stdin), _pipe(self._process.stdout)
        self._numbers = itertools.count()
        self._waiting: dict[int, Future[Mapping[str, Any]]] = {}
        self._lock = threading.Lock()
        self._writing = threading.Lock()
        self._is_over = False
        self._reader = threading.Thread(target=self._read, name="index-answers", daemon=True)
        self._reader.start()

    def _started(self, folder: Path) -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            isolated_command(_WORKER),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            cwd=folder,
            env=environment_for_child(),
            creationflags=subprocess.CREATE_NO_WINDOW if sys.platform == "win32" else 0,
        )

    @property
    def pid(self) -> int:
        return self._process.pid

    def call(self, fields: Fields, body: bytes = b"", *, seconds: float) -> Mapping[str, Any]:
        number = next(self._numbers)
        answer: Future[Mapping[str, Any]] = Future()
        with self._lock:
            if self._is_over:
                raise IndexFailure("The index process has ended.")
            self._waiting[number] = answer
        deadline = time.monotonic() + seconds
        try:
            self._write({"id": number, **fields}, body, deadline)
            result = answer.result(max(deadline - time.monotonic(), 0.0))
        finally:
            with self._lock:
                self._waiting.pop(number, None)
        if "failure" in result:
            raise IndexFailure(result["failure"], keep=result["keep"])
        return result

    def close(self) -> None:
        """End the process; one that is still busy after 2 s is killed."""
        self._end_calls()
        if not self._writing.acquire(timeout=_LEAVING_SECONDS):
            self._process.kill()  # A writer to a process that does not read waits for this.
            self._writing.acquire()
        try:
            with suppress(OSError):  # It may have gone first.
                self._input.close()
        finally:
            self._writing.release()
        try:
            self._process.wait(_LEAVING_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._reader.join()
        self._output.close()

    def _write(self, fields: Fields, body: bytes, deadline: float) -> None:
        """Write a message; a process that has not taken it by the deadline is killed: a pipe has none."""
        if not self._writing.acquire(timeout=max(deadline - time.monotonic(), 0.0)):
            raise TimeoutError
        killer = threading.Timer(max(deadline - time.monotonic(), 0.0), self._process.kill)
        killer.daemon = True
        killer.start()
        try:
            write_frame(self._input, fields, body)
        except (OSError, ValueError) as error:
            raise IndexFailure("The index process has ended.") from error
        finally:
            killer.cancel()
            self._writing.release()

    def _read(self) -> None:
        while frame := read_frame(self._output):
            fields = frame[0]
            with self._lock:
                answer = self._waiting.pop(fields.pop("id"), None)
            if answer is not None:
                answer.set_result(fields)
        self._end_calls()

    def _end_calls(self) -> None:
        with self._lock:
            self._is_over = True
            waiting, self._waiting = self._waiting, {}
        for answer in waiting.values():
            answer.set_result({"failure": "The index process has ended.", "keep": False})


def _pipe(stream: IO[bytes] | None) -> IO[bytes]:
    if stream is None:
        raise IndexFailure("The index process has no pipes.")
    return stream
