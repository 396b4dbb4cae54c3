"""Asks the process that owns a memory to run a command: with this process's streams, folder and names."""

import contextlib
import json
import os
import signal
import socket
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import typer

from mcp_memory.bridge import door
from mcp_memory.bridge.door import Door
from mcp_memory.errors import StoreUnavailable
from mcp_memory.locations import as_told, screen_variables

STREAM: Final = Path("-")
"""Standard input or output, where a file could be named."""
PATH_KEY: Final = "path"
"""Marks a path among the arguments in JSON."""
_IN_DOUBT: Final = (
    "The process that owns this memory ended during the command. What was done is kept: look, and run it again where it"
    " is missing."
)


def door_or_answer(
    folder: str, chosen: Mapping[str, object], name: str, given: Mapping[str, Any], streams: Sequence[int] | None = None
) -> Door | int | None:
    """Return the door where nobody owns the memory in that folder; else its owner runs the command: its exit code.

    None where there can be no door. `name` is a command's in `performing`, `given` are its arguments, and `streams` are
    the descriptors of its standard input, output and errors, by default this process's own.

    Raises StoreUnavailable where the owner does not answer, or ended before the command did.
    """
    content = json.dumps(given, default=_as_json).encode()
    until = time.monotonic() + door.LOST_SECONDS
    while time.monotonic() < until:
        try:
            if claimed := Door.claim(folder):
                return claimed
            with door.greet(folder, "command", _told(chosen), name=name, size=len(content)) as owner:
                return _answer(owner, content, streams)
        except TimeoutError:
            break
        except (FileNotFoundError, ConnectionError):  # It is ending, or has just begun.
            time.sleep(door.LOOK_SECONDS)
        except OSError:  # There can be no such socket, or there is no working directory.
            return None
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
    return as_told(chosen) | {"folder": str(Path.cwd()), "screen": screen, "encodings": encodings}


def _answer(owner: socket.socket, content: bytes, streams: Sequence[int] | None) -> int:
    """Hand over the arguments and the streams; return the exit code.

    Raises ConnectionError where the owner ended before it began, and StoreUnavailable where it ended after that.
    """
    owner.settimeout(None)
    said = b""
    try:
        with _lent(streams) as lent, _interrupting(owner):
            socket.send_fds(owner, [b"\n"], lent)
            owner.sendall(content)
            while part := owner.recv(door.MOST_NAME_BYTES):
                said += part
    except OSError as error:
        if said:
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


@contextlib.contextmanager
def _lent(streams: Sequence[int] | None):
    """Yield the descriptors to hand over. A terminal is read here: another session's process may not."""
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    if streams is not None or not os.isatty(0):
        yield list(streams or (0, 1, 2))
        return
    read, write = os.pipe()

    def pump() -> None:
        with contextlib.suppress(OSError), os.fdopen(write, "wb", buffering=0) as pipe:
            while part := os.read(0, 65_536):
                pipe.write(part)

    threading.Thread(target=pump, name="terminal", daemon=True).start()
    try:
        yield [read, 1, 2]
    finally:
        os.close(read)


@contextlib.contextmanager
def _interrupting(owner: socket.socket):
    """Tell the owner of an interrupt at the keyboard, instead of ending: it says what became of the command."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    former = signal.signal(signal.SIGINT, lambda _number, _frame: owner.shutdown(socket.SHUT_WR))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, former)


def end_with(code: int) -> None:
    """End the command with the exit code of its answer. Raises typer.Exit for any but 0."""
    if code:
        raise typer.Exit(code)
