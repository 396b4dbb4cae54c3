"""Answers hooks out of a running server, whose memory is loaded: a socket of its own, for processes of this user alone.

Nothing here is needed for the server's calls: where there can be no socket, or no thread, hooks open the memory
themselves.
"""

import contextlib
import logging
import os
import socket
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias

from mcp_memory.entrypoints.hooks import live_sockets
from mcp_memory.entrypoints.server import lead, private_sockets
from mcp_memory.errors import McpMemoryError
from mcp_memory.locations import NAMES, fingerprint
from mcp_memory.settings import settings_of_window

if TYPE_CHECKING:
    from mcp_memory.app import App

logger = logging.getLogger(__name__)

AT_ONCE: Final = 4
"""Hooks answered side by side; one more is refused at once."""
PATIENCE_SECONDS: Final = 2.0
"""Time for a hook to send its question, and to take the answer."""
_LOCK: Final = ".lock"
SUFFIXES: Final = {_LOCK: live_sockets.SUFFIX, lead.LOCK_SUFFIX: lead.SOCKET_SUFFIX}
"""The suffixes of sockets, by those of the locks beside them."""


class Answer(NamedTuple):
    """One of live_sockets' kinds, a text, and what to do once the hook has it."""

    kind: bytes
    text: str = ""
    taken: Callable[[], None] = lambda: None


class Question(NamedTuple):
    """A hook's name, its payload, its working directory, and the names that its settings give it."""

    name: str
    payload: bytes
    folder: Path
    named: Mapping[str, str]


Answering: TypeAlias = Callable[[Question], Answer]


def of_memory(app: "App") -> Answering:
    """Return what answers hooks of all sessions on this process's memory, each in its own folder's namespace."""

    def answer(asked: Question) -> Answer:
        from mcp_memory.entrypoints.hooks.events import HOOKS
        from mcp_memory.entrypoints.hooks.hook_call import hook_call, read_payload

        if asked.name not in HOOKS:
            return Answer(live_sockets.NOT_MINE)
        settings = settings_of_window(app.settings, asked.named)
        hook = hook_call(read_payload(asked.payload), settings, asked.folder, app)
        if hook.seat.membership.is_refused and not app.is_apart(hook.caller):
            return Answer(live_sockets.NOT_MINE)  # Its own process says in each block what the folder was refused.
        text = HOOKS[asked.name](hook) or ""
        return Answer(live_sockets.OUTPUT, text, hook.note_given)

    return answer


class HookSocket:
    """A server's socket for hooks, open from `start` to `stop`. Neither raises."""

    def __init__(self, answer: Answering, data_dir: Path, chosen: Mapping[str, object]) -> None:
        self._answer = answer
        self._data_dir = str(data_dir)
        self._settings = fingerprint(chosen)
        self._places = threading.BoundedSemaphore(AT_ONCE)
        self._listener: socket.socket | None = None

    def start(self) -> None:
        """Listen from now on. The hooks' own code is loaded for the first of them."""
        if not private_sockets.are_possible():
            return
        try:
            Path(self._data_dir).mkdir(mode=0o700, parents=True, exist_ok=True)  # Where the memory lies elsewhere.
            folder = Path(self._data_dir, private_sockets.FOLDER)
            folder.mkdir(mode=0o700, exist_ok=True)
            place = private_sockets.open_private(self._data_dir)
            _tidy(place)
            name = f"{private_sockets.name_of(self._settings, Path.cwd())}{os.urandom(3).hex()}"
            self._lock = private_sockets.locked(f"{name}{_LOCK}", place)
            listener = private_sockets.listening(self._data_dir, place, f"{name}{live_sockets.SUFFIX}")
        except OSError as error:
            logger.info("Hooks find no socket of this server (%s).", error.strerror or type(error).__name__)
            return
        self._place, self._name, self._listener = place, name, listener
        threading.Thread(target=self._accept, args=(listener,), name="hooks", daemon=True).start()

    def stop(self, seconds: float) -> None:
        """Take no further hook, and wait for those that are being answered, at most so long each."""
        if self._listener is None:
            return
        _remove(self._place, self._name)  # Here: the process may be gone before the other thread comes to it.
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)  # The thread that accepts closes it.
        for _ in range(AT_ONCE):
            self._places.acquire(timeout=seconds)

    def _accept(self, listener: socket.socket) -> None:
        while True:
            try:
                hook, _ = listener.accept()
            except OSError:  # It was closed; or files ran out, and hooks help themselves from now on.
                _remove(self._place, self._name)
                return listener.close()
            if self._places.acquire(blocking=False):
                threading.Thread(target=self._serve, args=(hook,), name="hook", daemon=True).start()
            else:
                hook.close()

    def _serve(self, hook: socket.socket) -> None:
        try:
            with hook:
                hook.settimeout(PATIENCE_SECONDS)
                if private_sockets.is_same_user(hook):
                    self._exchange(hook)
        except (OSError, ValueError) as error:  # It left, or said nothing that a hook says.
            logger.info("A hook was not answered (%s).", type(error).__name__)
        finally:
            self._places.release()

    def _exchange(self, hook: socket.socket) -> None:
        """Raises OSError where the hook left, and ValueError for what is no question."""
        name, folder, *given, payload = _read(hook).split(b"\0", 2 + len(NAMES))
        hook.sendall(live_sockets.HEARD)  # Fails where the hook has given up: then nothing is done for it.
        names = {each: os.fsdecode(value) for each, value in zip(NAMES, given, strict=True) if value}
        answer = self._answered(Question(os.fsdecode(name), payload, Path(os.fsdecode(folder)), names))
        text = answer.text.encode("utf-8", "replace").replace(live_sockets.END, b" ")
        hook.sendall(answer.kind + text + live_sockets.END)
        answer.taken()

    def _answered(self, asked: Question) -> Answer:
        try:
            return self._answer(asked)
        except McpMemoryError as error:
            return Answer(live_sockets.FAILURE, str(error))
        except Exception as error:  # noqa: BLE001 - the edge
            from mcp_memory.entrypoints.server.strict_tool import log_defect  # It loads the protocol's library.

            log_defect("A hook", error)
            return Answer(live_sockets.NOT_MINE)


def _read(hook: socket.socket) -> bytes:
    """Return all that the hook says. Raises OSError, and ValueError for more than the limit."""
    told = bytearray()
    while part := hook.recv(65_536):
        told += part
        if len(told) > 2 * live_sockets.MOST_BYTES:
            raise ValueError
    return bytes(told)


def _tidy(place: int) -> None:
    """Remove the sockets of servers that were killed: the kernel has released their locks."""
    import fcntl

    for file in map(Path, os.listdir(place)):
        if file.suffix in SUFFIXES:
            with contextlib.suppress(OSError):
                lock = os.open(file, os.O_RDWR | os.O_CLOEXEC, dir_fd=place)
                try:
                    fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    if os.fstat(lock).st_ino == os.stat(file, dir_fd=place).st_ino:
                        _remove(place, file.stem, file.suffix)  # A lead's name may be another's meanwhile.
                finally:
                    os.close(lock)


def _remove(place: int, name: str, lock_suffix: str = _LOCK) -> None:
    """Remove a socket, then the lock beside it: a socket without a lock would stay for ever."""
    for suffix in (SUFFIXES[lock_suffix], lock_suffix):
        with contextlib.suppress(OSError):
            os.unlink(f"{name}{suffix}", dir_fd=place)


def answer_hooks(chosen: Mapping[str, object], app: "App") -> HookSocket:
    """Answer hooks out of this memory from now on; `chosen` are the arguments that its settings were made with."""
    opened = HookSocket(of_memory(app), app.settings.data_dir, chosen)
    opened.start()
    return opened
