"""Runs one hook in this process, and ends it: in time, with exit code 0, and with one line on stderr at the most.

A hook is beside the session's work. The client shows what it prints to the model, waits while it runs, and takes some
exit codes for a veto: so nothing that goes wrong here may be seen there.

The memory's owner answers for it, which it starts where there is none. Nothing slow is imported.
"""

import os
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable, Mapping

from mcp_memory.bridge import door, private_sockets
from mcp_memory.bridge.door import Door
from mcp_memory.bridge.duplicate_hooks import is_first, let_again
from mcp_memory.bridge.owner_start import Own, start
from mcp_memory.errors import InvalidRequest, McpMemoryError, StoreUnavailable
from mcp_memory.locations import (
    FAILURES_FILE,
    MEMORY_FILE,
    NOTES_FOLDER,
    as_told,
    data_dir,
    is_elsewhere,
    working_folder,
)

Alone = Callable[[str, bytes, Mapping[str, object]], str]
OUTPUT, FAILURE = b"o", b"e"
"""The first byte of an owner's answer: a text for the client follows, or a complaint."""
END = b"\0"
"""The last byte of an answer: without it the owner ended in the middle."""
MOST_BYTES = 16 * 1024 * 1024
FINDING_SECONDS = 6.0
"""Time in which an owner that is ending has left the memory to the next."""
COMPLAINT_CHARACTERS = 300
MOST_FAILURE_BYTES = 65_536
SECONDS: Mapping[str, float] = {
    "SessionStart": 8.0,
    "UserPromptSubmit": 8.0,
    # A call waits for it: beside an owner it takes a twentieth of a second, and the first one may have to start that.
    "PreToolUse": 3.0,
    "PostToolUse": 30.0,
    "Stop": 6.0,
    "PreCompact": 20.0,
    "PostCompact": 10.0,
    # Claude Code gives all hooks of a session's end 1.5 seconds together, and complains where one takes longer.
    "SessionEnd": 1.2,
}
"""The events of Claude Code that are listened to, and the seconds after which a hook's process ends wherever it is.

A compaction fires SubagentStop as well: that one is not listened to.
"""
_ONLY_READ = frozenset({"SessionStart", "UserPromptSubmit", "PreToolUse"})
"""Events whose hooks find nothing where there is no memory yet, and begin none."""
UNKNOWN_SECONDS = 1.0
ENDING = "SessionEnd"
"""Does as much as it can in its time, and has not failed when that is over."""
BEHIND_SECONDS = 10.0
"""Time for the work of a process behind the session's end, for which nobody waits."""


def main(name: str, overrides: Mapping[str, object], own: Own, alone: Alone, client: str = "") -> None:
    """Run the client's hook over standard input and output, and end the process: it does not return.

    `own` is what another process runs that owns the memory; `alone` runs the hook here where there can be none, or
    where the memory lies elsewhere.
    """
    out, err, null = _take_outputs()
    seconds = SECONDS.get(name, UNKNOWN_SECONDS)
    if name == ENDING and _is_behind():
        out, err, seconds = _let_go(out, err, null), null, BEHIND_SECONDS
    late = Late(name, err, overrides)
    late.end_after(seconds)
    try:
        raw = _input()
        if not is_first(name, raw, data_dir(overrides), overrides):
            _leave()  # Registered twice: the other process has begun on this event.
        answer = _ask(name, raw, overrides, own, client) if _may_have_owner(name, overrides) else None
        if answer is None:
            late.end_after(seconds, threaded=True)
            answer = OUTPUT, _run_alone(name, raw, overrides, alone)
        sort, said = answer
        if sort == FAILURE:
            _complain(err, name, overrides, said.decode("utf-8", "replace"))
        else:
            _write(out, said)
        if sort == FAILURE or not said:
            let_again(name, raw, data_dir(overrides))
    except McpMemoryError as error:
        _complain(err, name, overrides, str(error))
    except BaseException as error:  # noqa: BLE001 - the edge: a defect of ours is no matter of the session's
        _complain(err, name, overrides, f"{type(error).__name__}; `mcp-memory doctor` looks for what is wrong.")
    _leave()


class Late:
    """Ends the process when its time is over."""

    def __init__(self, name: str, err: int, overrides: Mapping[str, object]) -> None:
        self._given = name, err, overrides

    def end_after(self, seconds: float, *, threaded: bool = False) -> None:
        """End the process after this time; `threaded` also where a library holds the main thread up.

        Without a thread, since an owner may have to be forked off.
        """
        if threaded or not hasattr(signal, "setitimer"):
            timer = threading.Timer(seconds, _give_up, self._given)
            timer.daemon = True
            timer.start()
        else:
            signal.signal(signal.SIGALRM, lambda _number, _frame: _give_up(*self._given))
            signal.setitimer(signal.ITIMER_REAL, seconds)


def _may_have_owner(name: str, overrides: Mapping[str, object]) -> bool:
    """False where the memory lies elsewhere or can have no owner, and where nothing needs one."""
    folder = data_dir(overrides)
    if not folder or is_elsewhere(overrides) or not private_sockets.are_possible():
        return False
    return name not in _ONLY_READ or os.path.exists(os.path.join(folder, MEMORY_FILE))


def _ask(name: str, raw: bytes, overrides: Mapping[str, object], own: Own, client: str) -> tuple[bytes, bytes] | None:
    """Return the answer of the memory's owner, which is started where there is none: OUTPUT or FAILURE, and a text.

    None where this process has the lock, and can start none. Raises StoreUnavailable where it does not answer.
    """
    if len(raw) > MOST_BYTES:
        raise InvalidRequest(f"its input has more than {MOST_BYTES // 1_048_576} MiB")
    folder, until = data_dir(overrides), time.monotonic() + FINDING_SECONDS
    while time.monotonic() < until:
        told = as_told(overrides) | {"folder": working_folder()}
        claimed = Door.claim(folder)
        if claimed and not start(claimed, folder, overrides, own):
            return None  # The lock is this process's until it ends.
        is_told = False
        try:
            with door.greet(folder, "hook", told, name=name, client=client, size=len(raw)) as owner:
                owner.settimeout(None)  # The timer ends this process.
                is_told = name not in _ONLY_READ
                owner.sendall(raw)
                return _answer(owner)
        except (FileNotFoundError, ConnectionError):  # It is ending, or has just begun.
            if is_told:  # It is not asked twice for what it may have stored.
                raise StoreUnavailable("the memory's process ended meanwhile; what was stored stays") from None
            time.sleep(door.LOOK_SECONDS)
        except OSError as error:
            raise StoreUnavailable("the process that owns the memory does not answer") from error
    raise StoreUnavailable("the process that owns the memory has ended; owner.log in its folder `live` says why")


def _answer(owner: socket.socket) -> tuple[bytes, bytes]:
    """Raises ConnectionError where the owner ended in the middle."""
    said = b""
    while part := owner.recv(65_536):
        said += part
    if said.startswith(door.REFUSED):
        return FAILURE, said[len(door.REFUSED) : -1]
    if not said.endswith(END):
        raise ConnectionResetError
    return said[:1], said[1:-1]


def _run_alone(name: str, raw: bytes, overrides: Mapping[str, object], alone: Alone) -> bytes:
    import logging
    import warnings

    logging.disable()
    warnings.simplefilter("ignore")
    return alone(name, raw, overrides).encode("utf-8", "replace")


def _is_behind() -> bool:
    """Continue in a process of its own, where the system can fork; True there. The first one ends at once.

    No thread has been started, and nothing loaded that a copy would harm.
    """
    if not hasattr(os, "fork"):
        return False
    try:
        if os.fork():
            _leave()
        os.setsid()  # What ends the client's processes does not mean this one.
    except OSError:  # There may be no further process.
        return False
    return True


def _let_go(out: int, err: int, null: int) -> int:
    """Close the client's streams, for whose end it waits; return their replacement."""
    for kept in {out, err} - {null}:
        os.close(kept)
    return null


def _take_outputs() -> tuple[int, int, int]:
    """Keep both streams for ourselves: what libraries print goes nowhere, which is the third."""
    null = os.open(os.devnull, os.O_WRONLY)
    kept: list[int] = []
    for number in (1, 2):
        try:
            kept.append(os.dup(number))
        except OSError:
            kept.append(null)
        os.dup2(null, number)
    return kept[0], kept[1], null


def _input() -> bytes:
    if sys.stdin is None or sys.stdin.isatty():
        return b""
    return sys.stdin.buffer.read()


def _give_up(name: str, err: int, overrides: Mapping[str, object]) -> None:
    if name != ENDING:
        _complain(err, name, overrides, "it took too long, and was ended; what was stored stays.")
    _leave()


def _complain(err: int, name: str, overrides: Mapping[str, object], message: str) -> None:
    line = " ".join(f"mcp-memory hook {name[:40]}: {message}".split())
    _write(err, f"{line[:COMPLAINT_CHARACTERS]}\n".encode("utf-8", "replace"))
    _count_failure(name, overrides)


def _count_failure(name: str, overrides: Mapping[str, object]) -> None:
    """Add a line to the file that people's health page counts: the time and the hook, and nothing of what went wrong.

    Failures of before make room for new ones in a file that has grown long.
    """
    from pathlib import Path

    try:
        named = data_dir(overrides)
        folder = Path(named) / NOTES_FOLDER
        if not named or not folder.parent.is_dir():  # A memory that is not there yet is not begun by a failure.
            return
        folder.mkdir(mode=0o700, exist_ok=True)
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | getattr(os, "O_NOFOLLOW", 0)
        file = os.open(folder / FAILURES_FILE, flags, 0o600)
        if os.fstat(file).st_size > MOST_FAILURE_BYTES:
            os.ftruncate(file, 0)
        _write(file, f"{time.time():.0f} {name if name in SECONDS else 'unknown'}\n".encode())
        os.close(file)
    except OSError:
        pass


def _write(stream: int, rest: bytes) -> None:
    """Write all of it; nobody may be there to read."""
    try:
        while rest:
            rest = rest[os.write(stream, rest) :]
    except OSError:
        pass


def _leave() -> None:
    """End at once. Threads that still embed or search would be waited for."""
    os._exit(0)
