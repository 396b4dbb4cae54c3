"""Serves one address in several processes: starts them, replaces those that end, passes connections between them.

A session of the protocol lives in one process: its stream, its subscriptions and its window. So its id names its
worker, and a connection on which a request for it arrives moves there, socket and all. Knows no request's meaning.
"""

from __future__ import annotations

import asyncio
import logging
import mmap
import os
import re
import secrets
import shutil
import signal
import socket
import sys
import tempfile
import threading
import time
import zlib
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NoReturn, TypeAlias

from mcp_memory.entrypoints.page.doors import SESSION_BYTES
from mcp_memory.entrypoints.server.process_end import leave
from mcp_memory.errors import InvalidRequest

if TYPE_CHECKING:
    from types import FrameType

    from starlette.types import ASGIApp, Message, Receive, Scope, Send

logger = logging.getLogger(__name__)

LOOK_SECONDS: Final = 0.5
STARTING_LOOK_SECONDS: Final = 0.02
PAUSE_SECONDS: Final = 1.0
"""Time before a worker that ended is replaced: one that cannot live costs no more than a start a second."""
END_SECONDS: Final = 15.0
"""Time that workers have to end, which is more than they take for themselves."""
SLACK: Final = 1
"""Connections by which a token's worker may be ahead of the one that the connection came to."""
DOWN: Final = -1
STOPS: Final = (signal.SIGTERM, signal.SIGINT)
_CONNECTION, _STIR = b"c", b"s"
Take: TypeAlias = Callable[[socket.socket, bytes], Awaitable[None]]
_SESSION = re.compile(rb"\r\nmcp-session-id:[ \t]*(\d{1,4})\.", re.IGNORECASE)  # Mcp-Session-Id: 1.7f3a…
_TOKEN = re.compile(rb"\r\nauthorization:([^\r\n]+)", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Shared:
    """The sockets, counts and key that workers share, made before they are forked.

    `loads` holds the connections of each, DOWN for one that is not up. An inbox is a pair of sockets, from and to which
    all read and write: what waits there survives its worker. `figures` is a folder, and `key` seals what clients keep.
    `sessions` is for those of the page.
    """

    loads: memoryview
    inboxes: Sequence[tuple[socket.socket, socket.socket]]
    figures: str
    key: bytes
    sessions: memoryview

    @classmethod
    def of(cls, count: int) -> Shared:
        """Prepare for so many workers."""
        loads = memoryview(mmap.mmap(-1, 4 * count)).cast("i")
        inboxes = [socket.socketpair() for _ in range(count)]
        for number, pair in enumerate(inboxes):
            loads[number] = DOWN
            for end in pair:
                end.setblocking(False)
        sessions = memoryview(mmap.mmap(-1, SESSION_BYTES * count))
        return cls(loads, inboxes, tempfile.mkdtemp(prefix="mcp-memory-"), secrets.token_bytes(32), sessions)


@dataclass(frozen=True, slots=True)
class HttpWorker:
    """One of the processes, as it knows itself and the others; `number` counts from 0. For one event loop."""

    number: int
    leader: int
    shared: Shared

    @property
    def inbox(self) -> socket.socket:
        return self.shared.inboxes[self.number][0]

    @property
    def is_left(self) -> bool:
        """True where the process that started the workers is gone."""
        return os.getppid() != self.leader

    def count(self, connections: int) -> None:
        """Tell the others how many connections are here."""
        self.shared.loads[self.number] = connections

    def lightest(self) -> int:
        """Return the worker with the fewest connections, which is this one unless another has fewer."""
        up = [number for number, load in enumerate(self.shared.loads) if load != DOWN]
        return min(up, key=lambda number: (self.shared.loads[number], number != self.number), default=self.number)

    def home(self, head: bytes, *, is_first: bool) -> int:
        """Return the worker that a request belongs to, by its head; this one where it belongs to none.

        A session has one. The calls of a token come to the same one where it is not busier than others, as it knows
        what it showed; only the `is_first` request of a connection moves for that.
        """
        loads = self.shared.loads
        if named := _SESSION.search(head):
            return int(named[1]) if int(named[1]) < len(loads) else self.number
        if is_first and (token := _TOKEN.search(head)):
            usual = zlib.crc32(token[1].strip()) % len(loads)
            if DOWN < loads[usual] < loads[self.number] + SLACK:
                return usual
        return self.number

    def is_elsewhere(self, session: str) -> bool:
        """True for the id of a session that lives in another worker."""
        return self.home(f"\r\nmcp-session-id: {session}".encode(), is_first=False) != self.number

    def pass_on(self, number: int, descriptor: int, data: bytes = b"") -> bool:
        """Give a connection to another worker, with what was read from it. False where it takes none at present."""
        ours, theirs = socket.socketpair()
        with theirs:
            try:
                socket.send_fds(self.shared.inboxes[number][1], [_CONNECTION], [descriptor, theirs.fileno()])
            except OSError:
                ours.close()
                return False
        ours.setblocking(False)
        _keep(asyncio.create_task(_write(ours, data)))
        return True

    def stir(self) -> bool:
        """Wake the first worker's upkeep, which works for all."""
        with suppress(OSError):  # Full: it will be woken by what waits there.
            self.shared.inboxes[0][1].send(_STIR)
        return False

    def listen(self, take: Take, stirred: threading.Event) -> None:
        """From now on, call `take` with connections that others pass on, and set `stirred` when one of them stirs."""
        loop = asyncio.get_running_loop()

        def hear() -> None:
            with suppress(BlockingIOError):
                said, descriptors, *_ = socket.recv_fds(self.inbox, 1, 2)
                if said == _STIR:
                    stirred.set()
                else:
                    client, pipe = map(_socket, descriptors)
                    _keep(asyncio.create_task(_read(client, pipe, take)))

        loop.add_reader(self.inbox, hear)
        self.count(0)


_kept: set[asyncio.Task[None]] = set()


def _keep(task: asyncio.Task[None]) -> None:
    """Hold on to a task until it is done: the loop alone would let it go."""
    _kept.add(task)
    task.add_done_callback(_kept.discard)


def _socket(descriptor: int) -> socket.socket:
    made = socket.socket(fileno=descriptor)
    made.setblocking(False)
    return made


async def _write(pipe: socket.socket, data: bytes) -> None:
    with pipe, suppress(OSError):
        await asyncio.get_running_loop().sock_sendall(pipe, data)


async def _read(client: socket.socket, pipe: socket.socket, take: Take) -> None:
    data = bytearray()
    with pipe, suppress(OSError):
        while piece := await asyncio.get_running_loop().sock_recv(pipe, 65_536):
            data += piece
    await take(client, bytes(data))


class SessionNames:
    """Puts the worker's number before the ids of its sessions on their way out, and takes it off on their way in."""

    def __init__(self, app: ASGIApp, number: int) -> None:
        self._app = app
        self._prefix = f"{number}.".encode()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return await self._app(scope, receive, send)

        async def named(message: Message) -> None:
            if message["type"] == "http.response.start":
                theirs = [(n, self._prefix + v if _is_session(n) else v) for n, v in message["headers"]]
                message = {**message, "headers": theirs}
            await send(message)

        plain = [(n, v.removeprefix(self._prefix) if _is_session(n) else v) for n, v in scope["headers"]]
        return await self._app({**scope, "headers": plain}, receive, named)


def _is_session(name: bytes) -> bool:
    return name.lower() == b"mcp-session-id"


def until_told(at_once: Callable[[], object] = leave) -> threading.Event:
    """Return what the first signal to stop sets; the second calls `at_once`."""
    told = threading.Event()

    def on_signal(_number: int, _frame: FrameType | None) -> None:
        if told.is_set():
            at_once()
        told.set()

    for name in STOPS:
        signal.signal(name, on_signal)
    return told


def fork_workers(count: int, at_start: Callable[[], None]) -> tuple[HttpWorker, threading.Event]:
    """Return in each of so many new processes what it is, and what is set when it is to stop. Call it without threads.

    The present process never returns. It replaces workers that end, calls `at_start` when all are up, and ends when it
    is told to and all have ended. Where one ends before all are up, it ends with 1: the worker has said why.

    Raises:
        InvalidRequest: this system cannot fork.
    """
    if sys.platform == "win32":
        raise InvalidRequest("--workers needs Linux or macOS; leave it out, one process serves here.")
    return _Leader(Shared.of(count)).lead(at_start)


class _Leader:
    """The process that starts the workers. It serves nothing itself."""

    def __init__(self, shared: Shared) -> None:
        self._shared = shared
        self._pids: dict[int, int] = {}
        self._due = [0.0] * len(shared.loads)

    def lead(self, at_start: Callable[[], None]) -> tuple[HttpWorker, threading.Event]:
        told, is_up = until_told(self._kill), False
        while True:
            if told.wait(LOOK_SECONDS if is_up else STARTING_LOOK_SECONDS):
                self._end(0)
            if ended := self._bury():
                if not is_up:
                    self._end(1)
                logger.warning("Workers %s have ended; others take their places.", ended)
            for number, due in enumerate(self._due):
                # The first alone makes the memory, and finds out what keeps all from serving.
                waits = number > 0 and not is_up and self._shared.loads[0] == DOWN
                if number in self._pids or waits or time.monotonic() < due:
                    continue
                if begun := self._fork(number):
                    return begun
            if not is_up and DOWN not in self._shared.loads.tolist():
                is_up = True
                at_start()

    def _fork(self, number: int) -> tuple[HttpWorker, threading.Event] | None:
        """Start a worker, and return in it what it is. No signal falls between two owners."""
        leader = os.getpid()
        signal.pthread_sigmask(signal.SIG_BLOCK, STOPS)
        try:
            self._pids[number] = os.fork()
            if self._pids[number]:
                return None
            told = until_told()
            signal.signal(signal.SIGINT, signal.SIG_IGN)  # From a terminal it comes to all; the leader tells us.
            return HttpWorker(number, leader, self._shared), told
        finally:
            signal.pthread_sigmask(signal.SIG_UNBLOCK, STOPS)

    def _bury(self) -> list[int]:
        """Return the workers that have ended, which are to be replaced in a while."""
        ended = [number for number, pid in self._pids.items() if os.waitpid(pid, os.WNOHANG)[0]]
        for number in ended:
            del self._pids[number]
            self._shared.loads[number] = DOWN
            self._due[number] = time.monotonic() + PAUSE_SECONDS
        return ended

    def _end(self, code: int) -> NoReturn:
        """End with all workers, which finish what is in flight."""
        for pid in self._pids.values():
            os.kill(pid, signal.SIGTERM)
        until = time.monotonic() + END_SECONDS
        while self._pids and time.monotonic() < until:
            time.sleep(STARTING_LOOK_SECONDS)
            self._pids = {n: pid for n, pid in self._pids.items() if not os.waitpid(pid, os.WNOHANG)[0]}
        self._kill(code)

    def _kill(self, code: int = 0) -> NoReturn:
        for pid in self._pids.values():
            os.kill(pid, signal.SIGKILL)
        shutil.rmtree(self._shared.figures, ignore_errors=True)
        os._exit(code)
