"""Asks the process that owns a memory to run a command: with this process's streams, folder and names."""

import contextlib
import json
import os
import signal
import socket
import sys
import threading
import time
from collections.abc import Generator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from mcp_memory.bridge import door
from mcp_memory.bridge.door import Door
from mcp_memory.entrypoints.commands.console import INTERRUPTED
from mcp_memory.errors import StoreUnavailable
from mcp_memory.locations import as_told, screen_variables, working_folder

STREAM: Final = Path("-")
"""Standard input or output, where a file could be named."""
PATH_KEY: Final = "path"
"""Marks a path among the arguments in JSON."""
_IN_DOUBT: Final = (
    "The process that owns this memory ended during the command. What was done is kept: look, and run it again where it"
    " is missing."
)


def door_or_answer(folder: str, chosen: Mapping[str, object], name: str, given: Mapping[str, Any]) -> Door | int:
    """Return the door where nobody owns the memory in that folder; else its owner runs the command: its exit code.

    `name` is a command's in `performing`, `given` are its arguments.

    Raises StoreUnavailable where there can be no owner, or it does not answer, or ended before the command did.
    """
    content = json.dumps(given, default=_as_json).encode()
    told, until = _told(chosen), time.monotonic() + door.LOST_SECONDS
    while time.monotonic() < until:
        if claimed := Door.claim(folder):
            return claimed
        greeting = (folder, "command", told)
        with contextlib.suppress(OSError), door.greet(*greeting, name=name, size=len(content)) as owner:
            until = time.monotonic() + door.LOST_SECONDS  # There is one, though it may end before it begins.
            return _answer(owner, content, _own_streams(given))
        time.sleep(door.LOOK_SECONDS)
    raise StoreUnavailable(door.silence(folder))


def _as_json(value: object) -> object:
    assert isinstance(value, Path)
    return {PATH_KEY: str(value if value == STREAM else value.absolute())}


def _told(chosen: Mapping[str, object]) -> dict[str, object]:
    screen = screen_variables()
    for number in (1, 2, 0):
        with contextlib.suppress(OSError):
            screen.setdefault("COLUMNS", str(os.get_terminal_size(number).columns))
    encodings = [getattr(stream, "encoding", None) or "utf-8" for stream in (sys.stdin, sys.stdout, sys.stderr)]
    return as_told(chosen) | {"folder": working_folder(), "screen": screen, "encodings": encodings}


def _answer(owner: socket.socket, content: bytes, streams: "_Streams") -> int:
    """Hand over the arguments and the streams; return the exit code.

    Raises OSError where the owner ended before it began, and StoreUnavailable where it ended after that.
    """
    owner.settimeout(None)
    said = b""
    try:
        with streams as lent, _interrupting(owner):
            socket.send_fds(owner, [b"\n"], lent)
            owner.sendall(content)
            while part := owner.recv(door.MOST_NAME_BYTES):
                said += part
    except OSError as error:
        if said:  # pyrefly: ignore[redundant-condition] - the loop sets it
            raise StoreUnavailable(_IN_DOUBT) from error
        raise
    if said.startswith(door.REFUSED):
        raise StoreUnavailable(door.sentence_of(said))
    if not said:
        raise ConnectionResetError("the owner has ended before it began")
    code = said.removeprefix(door.HERE)
    if not code.endswith(b"\n"):
        raise StoreUnavailable(_IN_DOUBT)
    return int(code)


def reads_input(given: Mapping[str, Any]) -> bool:
    """True where one of the arguments means standard input."""
    return any(value in (STREAM, str(STREAM)) for value in given.values())


_Streams = contextlib.AbstractContextManager[Sequence[int]]


@contextlib.contextmanager
def _own_streams(given: Mapping[str, Any]) -> Generator[Sequence[int]]:
    """Yield the descriptors of this process's streams; the input is lent to a command that reads it alone.

    A terminal is read here, since another session's process may not; what nobody reads stays for the shell.
    """
    with contextlib.ExitStack() as opened:
        null = os.open(os.devnull, os.O_RDWR)
        opened.callback(os.close, null)
        out, err = (null if each is None else n for n, each in ((1, sys.__stdout__), (2, sys.__stderr__)))
        for stream in (sys.stdout, sys.stderr):
            if stream is not None:
                stream.flush()
        if not reads_input(given) or sys.__stdin__ is None:
            source = null
        elif os.isatty(0):
            source = _pumped()
            opened.callback(os.close, source)
        else:
            source = 0
        yield source, out, err


def _pumped() -> int:
    """Return a pipe's end that gives what is typed."""
    read, write = os.pipe()

    def pump() -> None:
        with contextlib.suppress(OSError), os.fdopen(write, "wb", buffering=0) as pipe:
            while part := os.read(0, 65_536):
                pipe.write(part)

    threading.Thread(target=pump, name="terminal", daemon=True).start()
    return read


@contextlib.contextmanager
def _interrupting(owner: socket.socket) -> Generator[None]:
    """Tell the owner of an interrupt at the keyboard, instead of ending: it says what became of the command.

    A second one ends this process.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def on_interrupt(_number: int, _frame: object) -> None:
        signal.signal(signal.SIGINT, lambda _number, _frame: os._exit(INTERRUPTED))
        with contextlib.suppress(OSError):
            owner.shutdown(socket.SHUT_WR)

    former = signal.signal(signal.SIGINT, on_interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, former)
