"""Passes a client's messages on to the owner of this memory, and starts one where there is none.

Such a process loads neither the memory nor the protocol's library: it starts in a blink, and takes a tenth of the
memory. When the owner ends, it finds or starts the next one, and tells it what the client had said. Where an owner is
there but does not answer, the client is told so: nobody else may open the memory.
"""

import contextlib
import os
import select
import signal
import socket
import sys
import time
from collections.abc import Callable, Mapping
from typing import Final, NamedTuple, NoReturn

from mcp_memory.bridge import door, private_sockets
from mcp_memory.bridge.door import Door
from mcp_memory.bridge.end_with_client import WATCH_SECONDS, leave
from mcp_memory.bridge.owner_start import LOG_FILE, Own, start
from mcp_memory.bridge.window_state import MOST_BYTES, WindowState, take_lines
from mcp_memory.errors import StoreUnavailable
from mcp_memory.locations import LIVE_FOLDER, as_told, data_dir, is_elsewhere, named, working_folder

LOOK_SECONDS: Final = 0.05
ASK_SECONDS: Final = 2.0
"""Silence of an owner that owes an answer, after which it is asked whether it lives."""
SILENT_SECONDS: Final = 5.0
"""Silence after that, until it counts as stopped."""
GRACE_SECONDS: Final = 5.0
"""Time that calls in flight may still take after the client's input has ended, once the owner has them."""
START_SECONDS: Final = 1.0
"""Pause after an owner that ended before it had said anything: an update may be under way."""
MOST_STARTED: Final = 5
"""Owners that may be started one after another and end before they have said anything."""
PIECE: Final = 65_536
UNREAD_BYTES: Final = 1_048_576
"""More than the system keeps for an owner that does not read."""
PIPE_BYTES: Final = 4_096
"""Bytes that a pipe takes without waiting whenever it says that it takes any."""
_MOVED: Final = (
    "{folder} was moved, deleted or replaced while this client used its memory, and no empty memory is begun in its"
    " place. Move it back and call again, or restart this client: it then uses what is at that path."
)


class Takeover(NamedTuple):
    """The start of a process that serves its client by itself: its names as they were, and the door, if it has it."""

    names: Mapping[str, str] = {}
    """The `locations.NAMES` that count for it, as they were at its start: the file may say others by now."""
    door: Door | None = None


def pass_on(chosen: Mapping[str, object], own: Own) -> Takeover:
    """Pass messages on until the client leaves, and end the process; return where this one must own the memory.

    `chosen` are the arguments that the settings are made with, and `own` is what another process runs that owns it.

    Raises StoreUnavailable where the memory can have no owner.
    """
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda _number, _frame: leave())
    names, folder = named(chosen), data_dir(chosen)
    if not folder or not _has_client() or is_elsewhere(chosen) or not private_sockets.are_possible():
        return Takeover(names=names)
    told = as_told(chosen) | {"folder": working_folder()}
    claimed = Door.claim(folder)
    if claimed and not start(claimed, folder, chosen, own):
        return Takeover(names=names, door=claimed)
    return _serve_client(folder, told, lambda door: start(door, folder, chosen, own))


def _has_client() -> bool:
    return sys.__stdin__ is not None and sys.__stdout__ is not None


def _serve_client(folder: str, told: Mapping[str, object], start_owner: Callable[[Door], bool]) -> NoReturn:
    """Pass messages on, from one owner to the next, until the client leaves."""
    relay, started, mark = Relay(WindowState()), 1, _mark(folder)
    while True:
        found = None
        try:
            if _mark(folder) != mark:
                raise StoreUnavailable(_MOVED.format(folder=folder))
            found = _reach(folder, told, relay.window, claims=relay.may_claim)
        except StoreUnavailable as error:
            relay.give_up(str(error))
        if isinstance(found, Door):
            if start_owner(found):
                started += 1
            else:
                found.pass_on()
        elif found is not None and relay.run(found):
            started = 0
        if started > MOST_STARTED:
            relay.give_up(f"The process that owns this memory ends at once; see {LOG_FILE} in {folder}/{LIVE_FOLDER}.")
            started = 0
        relay.wait(folder, LOOK_SECONDS if started < 2 else START_SECONDS)
        while relay.may_rest:
            relay.rest()


def _mark(folder: str) -> tuple[int, int] | None:
    """Return what tells the memory's folder, also behind a link, from another that takes its place."""
    return private_sockets.mark_of(os.path.realpath(folder))


def _reach(
    folder: str, told: Mapping[str, object], window: WindowState, *, claims: bool
) -> socket.socket | Door | None:
    """Return a connection with the owner, or the door where nobody owns the memory; None where neither is to be had.

    The door is not taken unless it `claims`. Raises StoreUnavailable where neither can be had.
    """
    try:
        if claims and (claimed := Door.claim(folder)):
            return claimed
        return door.greet(folder, "window", told, session=window.session, place=window.place)
    except OSError:  # It is stopped, or has more at its door than it takes in; or it ends, or has just the lock.
        return None


class Relay:
    """Passes messages between the client and one owner after the other. For one thread, which waits for both."""

    def __init__(self, window: WindowState) -> None:
        self.window = window
        self._owner: socket.socket | None = None
        self._begun = bytearray()
        self._is_ending = False
        self._has_heard = self._was_heard = False
        self._takes_more = True
        self._is_trusted = True
        self._is_earlier = False
        self._parent = os.getppid()
        self._left_at: float | None = None
        self._heard_at = self._said_at = self._lost_at = time.monotonic()
        self._asked_at: float | None = None

    def run(self, owner: socket.socket) -> bool:
        """Pass messages on until the owner has ended, or is silent for long; True where it had said anything.

        Ends the process when the client leaves, or the owner refuses it. After it the window is prepared for the next
        owner.
        """
        self._owner, self._begun, self._is_ending, self._asked_at = owner, bytearray(), False, None
        self._has_heard, self._takes_more, self._is_trusted = False, True, True
        self._heard_at = time.monotonic()
        owner.setblocking(False)
        with owner, contextlib.suppress(ConnectionError):
            while self._is_trusted and self._step():
                pass
        self._owner, self._lost_at = None, time.monotonic()
        # It says that it is there before it reads: one that had said nothing has begun no call.
        self.window.begin_anew(is_lost=self._has_heard and not self._is_ending)
        return self._has_heard

    @property
    def may_claim(self) -> bool:
        """False while a later build may take the memory first: else many windows of an earlier one would, in turn."""
        has_waited = time.monotonic() > self._lost_at + door.YIELD_SECONDS
        return has_waited or not self._is_earlier or door.build() != door.OWN_BUILD

    @property
    def may_rest(self) -> bool:
        """True where the client needs no owner for now, and has not come to learn why it may have none."""
        return self._was_heard and not self.window.needs_owner

    def rest(self) -> None:
        """Serve the client for a moment in which it needs no owner."""
        self._step()
        self._lost_at = time.monotonic()

    def give_up(self, sentence: str) -> None:
        """Tell the client what it cannot have; end the process where it has had nothing yet, as a server that fails."""
        if not self.window.was_answered:
            self.end(sentence)
        self.window.give_up(sentence)

    def wait(self, folder: str, seconds: float) -> None:
        """Serve the client for so long without an owner; tell it so where there has been none for long."""
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            self._step(LOOK_SECONDS)
        if time.monotonic() > self._lost_at + door.LOST_SECONDS:
            self.window.give_up(door.silence(folder))

    def _step(self, seconds: float = WATCH_SECONDS) -> bool:
        """Wait for either side, and move what it has; False once the owner has ended."""
        window, poll = self.window, select.poll()
        if self._left_at is None and len(window.to_owner) < MOST_BYTES:
            poll.register(0, select.POLLIN)
        poll.register(1, select.POLLOUT if window.to_client else 0)
        if self._owner is not None:
            takes = select.POLLIN if len(window.to_client) < MOST_BYTES else 0
            gives = select.POLLOUT if window.to_owner and self._takes_more else 0
            poll.register(self._owner, takes | gives)
        ready = dict(poll.poll(1_000 * seconds))
        if os.getppid() != self._parent:
            leave()
        if ready.get(0):
            self._hear_client()
        if ready.get(1):
            self._write_to_client(ready[1])
        of_owner = ready.get(self._owner.fileno(), 0) if self._owner is not None else 0
        if of_owner & select.POLLOUT:
            self._tell_owner()
        if of_owner & ~select.POLLOUT and not self._hear_owner():
            return False
        self._look_at_clock()
        return True

    def _hear_client(self) -> None:
        try:
            piece = os.read(0, PIECE)
        except OSError:
            piece = b""
        if not self.window.is_owed:  # Else a client that goes on asking would never let the owner be asked.
            self._said_at = time.monotonic()
        if piece:
            return self.window.hear(piece)
        self._left_at = time.monotonic()
        return self.window.end()

    def _write_to_client(self, event: int) -> None:
        """Write what a pipe takes at once; end the process where nobody reads any more."""
        to_client = self.window.to_client
        try:
            if to_client:
                del to_client[: os.write(1, to_client[:PIPE_BYTES])]
            elif event:
                leave()
        except OSError:
            leave()

    def _tell_owner(self) -> None:
        """Pass on what the owner takes. The rest is for the next one; this one may still answer what it has read."""
        assert self._owner is not None
        to_owner = self.window.to_owner
        try:
            is_long = len(to_owner) > UNREAD_BYTES
            del to_owner[: self._owner.send(to_owner[:PIECE])]
            if is_long:  # It reads, though it says nothing of a long line before the end.
                self._heard_at = time.monotonic()
                self._asked_at = None if self._asked_at is None else self._heard_at
        except BlockingIOError:
            pass
        except OSError:
            self._takes_more = False

    def _hear_owner(self) -> bool:
        assert self._owner is not None
        with contextlib.suppress(BlockingIOError):
            piece = self._owner.recv(PIECE)
            if not piece:
                return False
            self._heard_at, self._asked_at = time.monotonic(), None
            for line in take_lines(self._begun, piece):
                self._take(line)
        return True

    def _take(self, line: bytes) -> None:
        if line.startswith(door.REFUSED):
            self._is_trusted = False
            return self.give_up(door.sentence_of(line))
        self._has_heard = self._was_heard = True
        if line.startswith(door.PLACE):
            self.window.place = line[len(door.PLACE) : -1].decode("utf-8", "replace")
        elif line == door.LATER:
            self._is_earlier = True
        elif line.startswith(door.BYE):
            self._is_ending, self._takes_more = True, False
        elif not line.startswith(b"\0"):  # As HERE is, and what another version may say.
            self.window.answer(line)
        return None

    def end(self, sentence: str) -> NoReturn:
        """End the process with this sentence for its user."""
        while self.window.to_client:
            self._write_to_client(0)
        os.write(2, f"mcp-memory: {sentence}\n".encode())
        os._exit(1)

    def _look_at_clock(self) -> None:
        """End the process once the client has left with its answers; ask an owner that is silent whether it lives."""
        now, window = time.monotonic(), self.window
        if self._left_at is not None:
            is_due = window.is_owed or window.to_client
            # An owner that has said nothing may still refuse; the first one may not have been reached yet.
            is_telling = not self._was_heard if self._owner is None else window.to_owner or not self._has_heard
            since = max(self._left_at, self._lost_at) if self._owner is None and self._was_heard else self._left_at
            if not (is_due or is_telling) or now > since + GRACE_SECONDS:
                leave()
        if len(window.to_client) >= MOST_BYTES:  # It is the client that is slow, and the owner is not heard.
            self._heard_at, self._asked_at = now, None
        if self._asked_at is not None:
            self._is_trusted = now < self._asked_at + SILENT_SECONDS
        elif (
            self._owner is not None
            and window.asks_between_lines
            and now > max(self._heard_at, self._said_at) + ASK_SECONDS
        ):
            window.to_owner += door.STILL_HERE
            self._asked_at = now
