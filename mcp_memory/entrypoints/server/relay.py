"""Passes a client's messages on to the process that leads the windows of this memory, as long as there is one.

Such a process loads neither the memory nor the protocol's library: it starts in a blink, and takes a tenth of the
memory. When its lead ends, it finds the next one or becomes it, and tells it what the client had said.
"""

import contextlib
import json
import os
import select
import signal
import socket
import sys
import time
from collections.abc import Mapping
from typing import Final, NamedTuple, NoReturn

from mcp_memory.entrypoints.server import lead, private_sockets
from mcp_memory.entrypoints.server.lead import Lead
from mcp_memory.entrypoints.server.process_end import GRACE_SECONDS, WATCH_SECONDS, leave
from mcp_memory.entrypoints.server.window_state import MOST_BYTES, WindowState, take_lines
from mcp_memory.locations import data_dir, is_elsewhere, lead_name, named, shares_server

FINDING_SECONDS: Final = 5.0
"""Time in which a lead must be found: then the process serves by itself, which costs memory alone."""
LOOK_SECONDS: Final = 0.02
ASK_SECONDS: Final = 2.0
"""Silence of a lead that owes an answer, after which it is asked whether it lives."""
SILENT_SECONDS: Final = 5.0
"""Silence after that, until it counts as stopped: a shell's Ctrl-Z stops a client with its server."""
MOST_FRUITLESS: Final = 3
"""Leads that may end one after another before they have said anything."""
PIECE: Final = 65_536
PIPE_BYTES: Final = 4_096
"""Bytes that a pipe takes without waiting whenever it says that it takes any."""


class Takeover(NamedTuple):
    """The start of a process that serves its client: the lead, if it has it, and what the client has said up to now."""

    window: WindowState
    names: Mapping[str, str] = {}
    """The `locations.NAMES` that count for it, as they were at its start: the file may say others by now."""
    lead: Lead | None = None
    folder: str = ""
    name: str = ""

    def claim(self) -> Lead | None:
        """Return the lead, tried for again where the data directory was not there before; None where another has it."""
        if self.lead is not None or not self.name:
            return self.lead
        with contextlib.suppress(OSError):
            return Lead.claim(self.folder, self.name)
        return None


def pass_on(chosen: Mapping[str, object]) -> Takeover:
    """Pass messages on as long as another process leads the windows of this memory; return when this one must serve.

    Ends the process when its client leaves. `chosen` are the arguments that the settings are made with.
    """
    window, names, fruitless = WindowState(), named(chosen), 0
    folder = data_dir(chosen)
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda _number, _frame: leave())
    if not folder or not _can_be_shared(chosen):
        return Takeover(window=window, names=names)
    try:
        name, hello = lead_name(chosen), {"folder": os.getcwd(), "named": names, "session": window.session}
        while os.path.isdir(os.path.join(folder, private_sockets.FOLDER)):
            found = _find(folder, name, {**hello, "place": window.place})
            if isinstance(found, Lead) and _code() != _OWN_CODE:
                found.resign()
                _serve_by_newer_code(window)
            if isinstance(found, Lead):
                return Takeover(window=window, names=names, lead=found, folder=folder, name=name)
            relay = None if found is None else _Relay(window, found)
            if relay is None or not relay.run():
                return Takeover(window=window, names=names)
            fruitless = 0 if relay.has_heard else fruitless + 1
            if fruitless > MOST_FRUITLESS:
                return Takeover(window=window, names=names)
    except OSError:  # There can be no such socket here, or no working directory.
        return Takeover(window=window, names=names)
    return Takeover(window=window, names=names, folder=folder, name=name)


def _code() -> tuple[int, int]:
    """Tell the installed version of this module from another; (0, 0) where there is none."""
    try:
        found = os.stat(__file__)
    except OSError:
        return 0, 0
    return found.st_ino, found.st_mtime_ns


_OWN_CODE: Final = _code()


def _serve_by_newer_code(window: WindowState) -> NoReturn:
    """Serve by a new process: this one was started before an update, and can load no module that fits it any more."""
    import subprocess

    ours, theirs = socket.socketpair()
    with theirs:
        subprocess.Popen([sys.executable, *sys.orig_argv[1:]], stdin=theirs.fileno(), stdout=theirs.fileno())
    _Relay(window, ours, asks=False).run()
    leave()


def _can_be_shared(chosen: Mapping[str, object]) -> bool:
    """False also for a person at a terminal, and for a memory elsewhere."""
    has_client = sys.__stdin__ is not None and sys.__stdout__ is not None and not os.isatty(0)
    return private_sockets.are_possible() and has_client and not is_elsewhere(chosen) and shares_server(chosen)


def _find(folder: str, name: str, hello: Mapping[str, object]) -> socket.socket | Lead | None:
    """Return a connection with the lead, or the lead for this process; None where it must do without either."""
    until = time.monotonic() + FINDING_SECONDS
    while time.monotonic() < until:
        if taken := Lead.claim(folder, name):
            return taken
        try:
            found = lead.connect(folder, name)
        except (FileNotFoundError, ConnectionRefusedError):  # It has just the lock, or has closed its door.
            time.sleep(LOOK_SECONDS)
            continue
        except TimeoutError:
            return None
        try:
            found.sendall(json.dumps(hello).encode() + b"\n")
            if found.recv(len(lead.HERE)) == lead.HERE:
                return found
        except TimeoutError:  # It is stopped.
            found.close()
            return None
        except OSError:
            pass
        found.close()
    return None


class _Relay:
    """Passes messages between the client and one lead. For one thread, which waits for both at once."""

    def __init__(self, window: WindowState, found: socket.socket, *, asks: bool = True) -> None:
        """With `asks`, the lead is asked whether it lives where it is silent for long."""
        self._window = window
        self._lead = found
        self._begun = bytearray()
        self._read: int | None = None
        self.has_heard = False
        self._takes_more = True
        self._is_trusted = True
        self._parent = os.getppid()
        self._left_at: float | None = None
        self._heard_at = self._said_at = time.monotonic()
        self._asked_at: float | None = None
        self._asks = asks

    def run(self) -> bool:
        """Pass messages on until the lead has ended; False where it is alive, and this window must do without it.

        Ends the process when the client leaves. After it the window is prepared for the next lead.
        """
        self._lead.setblocking(False)
        with self._lead, contextlib.suppress(ConnectionError):
            while self._is_trusted and self._step():
                pass
        if self._left_at is not None and self._is_trusted:
            leave()
        self._window.begin_anew(self._read)
        return self._is_trusted

    def _step(self) -> bool:
        """Wait for either side, and move what it has; False once the lead has ended."""
        window, poll = self._window, select.poll()
        if self._left_at is None and len(window.to_lead) < MOST_BYTES:
            poll.register(0, select.POLLIN)
        poll.register(1, select.POLLOUT if window.to_client else 0)
        takes = select.POLLIN if len(window.to_client) < MOST_BYTES else 0
        gives = select.POLLOUT if window.to_lead and self._takes_more else 0
        poll.register(self._lead, takes | gives)
        ready = dict(poll.poll(1_000 * WATCH_SECONDS))
        if os.getppid() != self._parent:
            leave()
        if ready.get(0):
            self._hear_client()
        if ready.get(1):
            self._write_to_client(ready[1])
        if ready.get(self._lead.fileno(), 0) & select.POLLOUT:
            self._tell_lead()
        if ready.get(self._lead.fileno(), 0) & ~select.POLLOUT and not self._hear_lead():
            return False
        self._look_at_clock()
        return True

    def _hear_client(self) -> None:
        try:
            piece = os.read(0, PIECE)
        except OSError:
            piece = b""
        if not self._window.is_owed:  # Else a client that goes on asking would never let the lead be asked.
            self._said_at = time.monotonic()
        if piece:
            return self._window.hear(piece)
        self._left_at = time.monotonic()
        return self._window.end()

    def _write_to_client(self, event: int) -> None:
        """Write what a pipe takes at once; end the process where nobody reads any more."""
        to_client = self._window.to_client
        try:
            if to_client:
                del to_client[: os.write(1, to_client[:PIPE_BYTES])]
            elif event:
                leave()
        except OSError:
            leave()

    def _tell_lead(self) -> None:
        """Pass on what the lead takes. The rest is for the next one; this one may still answer what it has read."""
        to_lead = self._window.to_lead
        try:
            del to_lead[: self._lead.send(to_lead[:PIECE])]
        except BlockingIOError:
            pass
        except OSError:
            self._takes_more = False

    def _hear_lead(self) -> bool:
        with contextlib.suppress(BlockingIOError):
            piece = self._lead.recv(PIECE)
            if not piece:
                return False
            self._heard_at, self._asked_at, self.has_heard = time.monotonic(), None, True
            for line in take_lines(self._begun, piece):
                self._take(line)
        return True

    def _take(self, line: bytes) -> None:
        if line.startswith(lead.PLACE):
            self._window.place = line[len(lead.PLACE) : -1].decode()
        elif line.startswith(lead.BYE):
            self._read, self._takes_more = int(line[len(lead.BYE) :]), False
        elif line == lead.NOT_MINE:
            self._read, self._is_trusted = 0, False
        elif line != lead.HERE:
            self._window.answer(line)

    def _look_at_clock(self) -> None:
        """End the process once the client has left and has its answers; ask a lead that is silent whether it lives."""
        now, window = time.monotonic(), self._window
        if self._left_at is not None:
            is_done = not (window.is_owed or window.to_client or window.to_lead)
            if is_done or now > self._left_at + GRACE_SECONDS:
                leave()
        if len(window.to_client) >= MOST_BYTES:  # It is the client that is slow, and the lead is not heard.
            self._heard_at, self._asked_at = now, None
        if self._asked_at is not None:
            self._is_trusted = now < self._asked_at + SILENT_SECONDS
        elif self._asks and window.is_owed and now > max(self._heard_at, self._said_at) + ASK_SECONDS:
            window.to_lead += lead.STILL_HERE
            self._asked_at = now
