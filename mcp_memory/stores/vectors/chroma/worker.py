"""The index process: holds Chroma for one server process, and ends with it. Knows neither records nor scopes.

It is a separate process because Chroma's writes hold the interpreter's lock (6 ms for one vector, up to a second for a
batch after which it persists), and because a damaged index can crash the process that opens it.
"""

from __future__ import annotations

import itertools
import os
import queue
import sys
import threading
from collections.abc import Callable, Mapping
from dataclasses import asdict
from typing import IO, TYPE_CHECKING, Any, NoReturn

import numpy as np
import psutil

from mcp_memory.freed_memory import give_back_memory
from mcp_memory.stores.vectors.chroma.location import IndexFailure, IndexPlace
from mcp_memory.stores.vectors.chroma.open_index import Holding, hold
from mcp_memory.stores.vectors.chroma.worker_client import Fields, read_frame, write_frame

if TYPE_CHECKING:
    from mcp_memory.ports.text import Vectors

_URGENT, _USUAL = 0, 1
_NICENESS = 10
_Message = tuple[dict[str, Any], bytes]


class Worker:
    """Executes messages one at a time; `do` names the operation, the other fields are its arguments.

    `open` comes first; it closes the index that was open before.
    """

    def __init__(self) -> None:
        self._held: Holding | None = None

    def __call__(self, fields: Mapping[str, Any], body: bytes) -> Fields:
        """Return the answer to a message. Raises IndexFailure."""
        if fields["do"] == "open":
            self.close()
            self._held = hold(IndexPlace(**fields["place"]), fresh=fields["fresh"], erased=fields["erased"])
        if self._held is None:
            raise IndexFailure("The index is not open.")
        self._held.check()
        operation = _OPERATIONS.get(fields["do"])
        if operation is None:
            raise IndexFailure(f"There is no operation {fields['do']!r}.")
        if fields["do"] in _CHANGES:
            self._held.begin()
        result = operation(self._held, fields, body)
        if fields["do"] == "rest":
            give_back_memory()  # What a batch took: 10 MB of the 90 MB that this process has.
        return {"result": result}

    def close(self) -> None:
        if self._held is not None:
            held, self._held = self._held, None
            held.close()


def _vectors(body: bytes, count: int) -> Vectors:
    return np.frombuffer(body, np.float32).reshape(count, -1)


_OPERATIONS: Mapping[str, Callable[[Holding, Fields, bytes], object]] = {
    "open": lambda held, _, __: asdict(held.standing()),
    "stand": lambda held, _, __: asdict(held.standing()),
    "rest": lambda held, given, _: held.rest(given["applied"], given["names"]),
    "clear": lambda held, _, __: held.clear(),
    "names": lambda held, _, __: held.collections.names(),
    "keys": lambda held, given, _: held.collections.keys(given["name"]),
    "query": lambda held, given, body: [
        held.collections.query(name, _vectors(body, 1), given["limit"]) for name in given["names"]
    ],
    "put": lambda held, given, body: held.collections.put(
        given["name"], given["keys"], _vectors(body, len(given["keys"]))
    ),
    "delete": lambda held, given, _: held.collections.delete(given["name"], given["keys"]),
    "drop": lambda held, given, _: held.collections.drop(given["names"]),
    "erase": lambda held, given, _: held.collections.erase(given["records"]),
}
_CHANGES = ("put", "delete", "drop", "erase")
"""Operations that change collections."""


def main() -> NoReturn:
    """Serve over standard input and output until the input ends, which it does when the server process does."""
    _give_way()
    os.umask(0o077)  # Chroma makes its files readable to all.
    output = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # Stray prints must not reach the answers.
    messages: queue.PriorityQueue[tuple[int, int, _Message]] = queue.PriorityQueue()
    threading.Thread(target=_answer_all, args=(messages, output), name="answers", daemon=True).start()
    for number in itertools.count():
        message = read_frame(sys.stdin.buffer)
        if message is None:
            os._exit(0)  # Nothing to tidy up: the lock falls with the process, and what is dirty says so.
        urgency = _URGENT if message[0]["do"] == "query" else _USUAL
        messages.put((urgency, number, message))
    raise AssertionError


def _give_way() -> None:
    """Lower this process's priority: the server, which waits for nothing here, comes first."""
    below = psutil.BELOW_NORMAL_PRIORITY_CLASS if sys.platform == "win32" else _NICENESS
    psutil.Process().nice(below)


def _answer_all(messages: queue.PriorityQueue[tuple[int, int, _Message]], output: IO[bytes]) -> None:
    worker = Worker()
    while True:
        _, _, (fields, body) = messages.get()
        try:
            answer = worker(fields, body)
        except IndexFailure as failure:
            answer = {"failure": str(failure), "keep": failure.keep}
        except Exception as error:  # noqa: BLE001 - the edge of a process: the other side logs it
            answer = {"failure": f"defect in the index process: {error!r}", "keep": False}
        try:
            write_frame(output, {"id": fields["id"], **answer})
        except (OSError, ValueError):
            os._exit(0)
