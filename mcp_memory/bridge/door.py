"""The door of a memory: the kernel's lock that makes its one owner, and the socket where clients arrive.

The lock falls with the process. So of several that start at once, or that lose their owner, only one opens the memory.
The process that has the lock may pass it on to one that it forks. It is tried first, for writing and for reading: who
does not get it is a client, or is told a sentence.
"""

import contextlib
import json
import os
import queue
import socket
import threading
import time
from collections.abc import Mapping
from typing import Final, NamedTuple, cast

from mcp_memory import __version__
from mcp_memory.bridge import private_sockets
from mcp_memory.errors import CHOOSE_FOLDER, StoreUnavailable

HERE: Final = b"\0here\n"
"""The owner has heard a client, at its first words and whenever it asks STILL_HERE. No message begins with a zero."""
STILL_HERE: Final = b"\0?\n"
REFUSED: Final = b"\0no "
"""The owner cannot serve this client; a sentence for its user follows."""
PLACE: Final = b"\0place "
"""The place of the window in the task tree follows, which its next owner gives it again."""
BYE: Final = b"\0bye "
"""Begins the line by which an owner says that it reads no more, and ends in order."""
FAREWELL: Final = BYE + b"0\n"
"""The whole line. Earlier versions said in it how much they had read."""
ABOUT: Final = "owner.json"
"""This file holds what the owner says about itself, and counts while somebody has the lock."""
SOCKET: Final = "owner.sock"
PATIENCE_SECONDS: Final = 2.0
"""Time for a client to say who it is, and for the owner to have heard it."""
REFUSED_SECONDS: Final = 0.5
"""Time for a refused client to close its end."""
LOOK_SECONDS: Final = 0.02
LATER: Final = b"\0later\n"
"""Said to a window of an earlier build: a later one has the memory, or is about to."""
YIELD_SECONDS: Final = 5.0
"""Time without an owner in which such a window leaves the memory to a later build."""
LOST_SECONDS: Final = 25.0
"""Time without an owner after which a client is told, and that an owner may take to leave the memory to the next.

With the seconds in which a silent owner is asked, a machine may stand still for half a minute before a call fails.
"""
MOST_HELLO_BYTES: Final = 262_144
MOST_NAME_BYTES: Final = 1_000
ALONE: Final = "alone"
_ALONE: Final = (
    "The process that owns this memory (pid {pid}) serves its own client alone, since the system lets it make no"
    " socket. Close that client, or allow it sockets, and try again."
)
_NO_SOCKET: Final = (
    "The system lets this process make no socket, by which it would reach the process that owns this memory (pid"
    " {pid}). Allow it, or close that process's clients, and try again."
)


def build() -> tuple[int, ...]:
    """Return the version of the installed package and when it was installed: a later one is greater."""
    try:
        at = os.stat(__file__).st_mtime_ns
    except OSError:
        at = 0
    return (*(int(part) if part.isdecimal() else 0 for part in __version__.split(".")), at)


OWN_BUILD: Final = build()
"""The build of what this process has loaded."""


class Arrival(NamedTuple):
    """A client that has come in: its connection, and what it said first."""

    connection: socket.socket
    hello: bytes

    @property
    def said(self) -> Mapping[str, object]:
        """The client's first words; empty for what no client says."""
        try:
            said: object = json.loads(self.hello)
        except (ValueError, RecursionError):
            return {}
        return cast("Mapping[str, object]", said) if isinstance(said, dict) else {}

    @property
    def is_later(self) -> bool:
        """True for a client of a later build than this process has loaded."""
        return self._build > OWN_BUILD

    @property
    def is_earlier(self) -> bool:
        """True for a client of an earlier build; False for one whose program was replaced: it starts the later one."""
        return () < self._build < OWN_BUILD

    @property
    def _build(self) -> tuple[int, ...]:
        said = self.said.get("build")
        parts = cast("list[object]", said) if isinstance(said, list) else []
        return tuple(part for part in parts if isinstance(part, int))

    def send_on(self) -> None:
        """Close the connection of a client that finds the next owner. Raises OSError."""
        with self.connection:
            if self.said.get("kind") == "window":
                self.connection.sendall(FAREWELL)


class Door:
    """The right to own a memory, and the socket where its clients arrive: the process that `open`s it lets them in.

    Without a `listener`, as where the system forbids such sockets, nobody arrives, and nobody else may open the memory.
    """

    def __init__(self, data_dir: str, lock: int, listener: socket.socket | None) -> None:
        self._data_dir = data_dir
        self._lock = lock
        self._listener = listener
        self._socket = private_sockets.mark_of(self._path(SOCKET)) if listener else None
        self._is_open = self._is_closed = self._is_starved = False
        self._arrivals: queue.SimpleQueue[Arrival | None] = queue.SimpleQueue()

    @classmethod
    def claim(cls, data_dir: str) -> "Door | None":
        """Return the door of the memory in that directory, which is made; None where another process has it.

        Raises StoreUnavailable where there can be no lock.
        """
        lock = private_sockets.locked(data_dir)
        return None if lock is None else cls.inherit(data_dir, lock)

    @classmethod
    def inherit(cls, data_dir: str, lock: int) -> "Door":
        """Return the door of the memory whose lock this process has, or was handed. Raises StoreUnavailable."""
        try:
            private_sockets.make_folder(data_dir)
            place = private_sockets.open_private(data_dir)
        except OSError as error:
            os.close(lock)
            raise StoreUnavailable(f"{data_dir}/{private_sockets.FOLDER}: {error.strerror}; {CHOOSE_FOLDER}") from error
        except StoreUnavailable:
            os.close(lock)
            raise
        listener = None
        with contextlib.suppress(OSError):
            os.unlink(ABOUT, dir_fd=place)  # What the last owner said of itself.
        with contextlib.suppress(OSError):  # Without a socket the memory is this process's all the same.
            listener = private_sockets.listening(data_dir, place, SOCKET)
        os.close(place)
        return cls(data_dir, lock, listener)

    @property
    def is_open(self) -> bool:
        """True once clients may come in."""
        return self._is_open

    @property
    def is_reachable(self) -> bool:
        """True where clients can arrive once it is open."""
        return self._listener is not None

    @property
    def descriptors(self) -> tuple[int, ...]:
        """The files of the lock and the socket."""
        return (self._lock,) if self._listener is None else (self._lock, self._listener.fileno())

    @property
    def is_held(self) -> bool:
        """False once no client is let in: the folder or the socket is gone or another's, or no thread can be had."""
        if self._is_starved:
            return False
        try:
            os.close(private_sockets.open_private(self._data_dir))
            is_here = os.path.samestat(os.stat(self._data_dir), os.fstat(self._lock))
        except (OSError, StoreUnavailable):
            return False
        return is_here and self._socket == private_sockets.mark_of(self._path(SOCKET))

    def _path(self, name: str) -> str:
        return os.path.join(self._data_dir, private_sockets.FOLDER, name)

    def open(self, **said: object) -> None:
        """Let clients in from now on. What the process says about itself stands in a file beside the socket."""
        about = {"pid": os.getpid(), "version": __version__, "since": time.time(), **said}
        if self._listener is None:
            about[ALONE] = True
        with contextlib.suppress(OSError):  # On a full disk nobody is told.
            private_sockets.write_private(self._path(ABOUT), json.dumps(about).encode())
        self._is_open = True
        if self._listener is not None:
            threading.Thread(target=self._accept, args=(self._listener,), name="door", daemon=True).start()

    def pass_on(self) -> None:
        """Leave both to the forked process that has copies of them."""
        if self._listener is not None:
            self._listener.close()
        os.close(self._lock)

    def next_arrival(self) -> Arrival | None:
        """Wait for a client; return None once nobody may arrive any more."""
        return self._arrivals.get()

    def close(self) -> None:
        """Let nobody arrive any more, but keep the memory. It may be called twice, by two threads."""
        self._is_closed = True
        if self._listener is None:
            return self._arrivals.put(None)
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)  # The thread that accepts closes it, and says that nobody comes.
        return None

    def refuse_all(self, sentence: str) -> None:
        """Refuse clients that arrive, and have arrived, with this sentence, until the door is closed.

        One of a later build may open what this one cannot.
        """
        while arrival := self.next_arrival():
            with contextlib.suppress(OSError):
                if arrival.is_later:
                    arrival.send_on()
                else:
                    _refuse(arrival.connection, sentence)

    def hand_over(self, successor: socket.socket) -> None:
        """Leave the memory to the process at the other end, which called `take_over`, and to no other."""
        with successor, contextlib.suppress(OSError):
            socket.send_fds(successor, [b"\n"], [self._lock])
        self.release()

    def release(self) -> None:
        """Leave the memory to another process. It may be called twice. Both files stay: the next process uses them."""
        self.close()
        if self._listener is not None and not self._is_open:
            self._listener.close()
        lock, self._lock = self._lock, -1
        if lock >= 0:
            os.close(lock)

    def _accept(self, listener: socket.socket) -> None:
        """Take clients in until the door is closed. Where files have run out, they wait at it."""
        greeting: list[threading.Thread] = []
        with listener:
            while not self._is_closed:
                try:
                    client, _ = listener.accept()
                except OSError:
                    time.sleep(LOOK_SECONDS)
                else:
                    greeting = [each for each in greeting if each.is_alive()]
                    arrival = threading.Thread(target=self._greet, args=(client,), name="arrival", daemon=True)
                    try:
                        arrival.start()
                    except RuntimeError:  # As many as the limits of the process allow; its next owner may have others.
                        self._is_starved = True
                        client.close()
                    else:
                        greeting.append(arrival)
        for each in greeting:
            each.join()
        self._arrivals.put(None)

    def _greet(self, client: socket.socket) -> None:
        with contextlib.suppress(OSError):
            if arrival := _greeted(client):
                return self._arrivals.put(arrival)
        return client.close()


def refusal(sentence: str) -> bytes:
    """Return the word that refuses a client."""
    return REFUSED + " ".join(sentence.split()).encode("utf-8", "replace") + b"\n"


def _refuse(client: socket.socket, sentence: str) -> None:
    """Refuse a client, and read what it says until it has closed: else the kernel drops the sentence with that.

    Raises OSError.
    """
    with client:
        client.sendall(refusal(sentence))
        client.shutdown(socket.SHUT_WR)
        client.settimeout(REFUSED_SECONDS)
        while client.recv(65_536):
            pass


def sentence_of(refused: bytes) -> str:
    """Return the sentence of a word that refuses."""
    return refused.removeprefix(REFUSED).decode("utf-8", "replace").strip()


def _greeted(client: socket.socket) -> Arrival | None:
    """Read a client's first line, and let it know; None where it is none of this user's. Raises OSError.

    It says no more than that before it is heard.
    """
    until = time.monotonic() + PATIENCE_SECONDS
    told = b""
    while private_sockets.is_same_user(client) and (left := until - time.monotonic()) > 0:
        client.settimeout(left)  # Of the whole line, though it may come a byte a second.
        if not (piece := client.recv(65_536)):
            break
        told += piece
        if told.endswith(b"\n"):
            client.sendall(HERE)
            client.settimeout(None)
            return Arrival(client, told)
        if len(told) > MOST_HELLO_BYTES:
            break
    return None


def connect(data_dir: str) -> socket.socket:
    """Return a connection with the owner of that memory.

    Raises OSError where none is there, and StoreUnavailable where there can be none.
    """
    place = private_sockets.open_private(data_dir)
    try:
        try:
            owner = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        except PermissionError as error:
            raise StoreUnavailable(_NO_SOCKET.format(pid=owner_of(data_dir).get("pid", "?"))) from error
        try:
            owner.settimeout(PATIENCE_SECONDS)
            try:
                owner.connect(private_sockets.address(data_dir, place, SOCKET))
            except BlockingIOError as error:  # As many wait at its door as may.
                raise TimeoutError from error
            if not private_sockets.is_same_user(owner):
                raise PermissionError("the socket is another user's")
        except OSError:
            owner.close()
            if owner_of(data_dir).get(ALONE):
                raise StoreUnavailable(silence(data_dir)) from None
            raise
        return owner
    finally:
        os.close(place)


def greet(data_dir: str, kind: str, told: Mapping[str, object], **said: object) -> socket.socket:
    """Return a connection with the owner of that memory, which has heard who the client is.

    `kind` is what it wants; `told` is its working directory (`folder`) and what its settings are read from
    (`locations.as_told`); what else is `said` depends on the kind.

    Raises:
        TimeoutError: the owner does not answer in time; it may be stopped.
        OSError: nobody is there.
    """
    own = OWN_BUILD if build() == OWN_BUILD else ()  # After an update its version says nothing.
    hello = {"kind": kind, "build": own, **told, **said}
    owner = connect(data_dir)
    try:
        owner.sendall(json.dumps(hello).encode() + b"\n")
        if owner.recv(len(HERE), socket.MSG_WAITALL) != HERE:
            raise ConnectionResetError("the owner is ending")
    except OSError:
        owner.close()
        raise
    return owner


def take_over(data_dir: str) -> Door | None:
    """Return the door of that memory, whose owner leaves it to this process after the calls at work.

    None where the system has no such locks. Raises StoreUnavailable where the owner stays, or does not answer.
    """
    if not private_sockets.are_possible():
        return None
    until = time.monotonic() + LOST_SECONDS
    while time.monotonic() < until:
        if claimed := Door.claim(data_dir):
            return claimed
        with contextlib.suppress(OSError):  # It is ending, has just begun, or does not answer.
            if taken := _handed_over(data_dir):
                return taken
        time.sleep(LOOK_SECONDS)
    raise StoreUnavailable(silence(data_dir))


def _handed_over(data_dir: str) -> Door | None:
    """Return the door that the owner hands over; None where it just ends. Raises StoreUnavailable and OSError."""
    with greet(data_dir, "take", {}) as owner:
        owner.settimeout(LOST_SECONDS)
        said, handed, _, _ = socket.recv_fds(owner, MOST_NAME_BYTES, 1)
    if said.startswith(REFUSED) and "at" in owner_of(data_dir):  # Else it ends, as it cannot open the memory.
        raise StoreUnavailable(sentence_of(said))
    return Door.inherit(data_dir, handed[0]) if handed else None


def silence(data_dir: str) -> str:
    """Say that the owner of that memory does not answer, and what helps."""
    owner = owner_of(data_dir)
    if owner.get(ALONE):
        return _ALONE.format(pid=owner["pid"])
    who = f"The process that owns this memory (pid {owner['pid']})" if owner else "The process that owns this memory"
    return f"{who} does not answer; it may be stopped or at its limit. Try again later; if it stays so, end it."


def owner_of(data_dir: str) -> Mapping[str, object]:
    """Return what the process that owns a memory says about itself; empty where none does.

    `pid`, `version`, `since` (seconds since 1970); `at` where it serves an address, `alone` where nobody can reach it.
    """
    try:
        if private_sockets.is_free(data_dir):
            return {}
        with open(os.path.join(data_dir, private_sockets.FOLDER, ABOUT), "rb") as file:
            said: object = json.loads(file.read(MOST_NAME_BYTES))
    except (OSError, ValueError):
        return {}
    return cast("Mapping[str, object]", said) if isinstance(said, dict) else {}
