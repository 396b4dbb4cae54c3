"""Runs one hook in this process, and ends it: in time, with exit code 0, and with one line on stderr at the most.

A hook is beside the session's work. The client shows what it prints to the model, waits while it runs, and takes some
exit codes for a veto: so nothing that goes wrong here may be seen there.

A running server answers for it where there is one; else this process opens the memory itself. Before it has asked,
nothing slow is imported.
"""

import os
import sys
import threading
import time
from collections.abc import Mapping

from mcp_memory.entrypoints.hooks.live_sockets import FAILURE, OUTPUT, ask
from mcp_memory.entrypoints.hooks.once import is_first, let_again
from mcp_memory.errors import InvalidRequest, McpMemoryError
from mcp_memory.locations import FAILURES_FILE, NOTES_FOLDER, data_dir

COMPLAINT_CHARACTERS = 300
MOST_FAILURE_BYTES = 65_536
SECONDS: Mapping[str, float] = {
    "SessionStart": 8.0,
    "UserPromptSubmit": 8.0,
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
UNKNOWN_SECONDS = 1.0
ENDING = "SessionEnd"
"""Does as much as it can in its time, and has not failed when that is over."""
BEHIND_SECONDS = 10.0
"""Time for the work of a process behind the session's end, for which nobody waits."""


def run(name: str, raw: bytes, overrides: Mapping[str, object]) -> str:
    """Run the hook of that name here for the payload in these bytes, and return what it prints.

    Raises:
        InvalidRequest: there is no such hook, or the payload is none; settings are refused.
        McpMemoryError: the memory cannot be used.
    """
    from functools import partial
    from pathlib import Path

    from mcp_memory.entrypoints.hooks.events import HOOKS
    from mcp_memory.entrypoints.hooks.hook_call import hook_call, read_payload
    from mcp_memory.settings import load_settings

    act = HOOKS.get(name)
    if act is None:
        raise InvalidRequest(f"There is no hook {name[:40]!r}; known are {', '.join(HOOKS)}.")
    hook = hook_call(read_payload(raw), load_settings(**overrides), Path.cwd())
    if hook.settings.url:  # The memory lies elsewhere: what stands here is none of the session's.
        from mcp_memory.entrypoints.hooks.remote import RemoteMemory

        act = partial(RemoteMemory(hook.settings).act, name)
    try:
        text = act(hook) or ""
        hook.note_given()
        return text
    finally:
        hook.close()


def main(name: str, overrides: Mapping[str, object]) -> None:
    """Run the hook over standard input and output, and end the process: it does not return."""
    out, err, null = _take_outputs()
    seconds = SECONDS.get(name, UNKNOWN_SECONDS)
    if name == ENDING and _is_behind():
        out, err, seconds = _let_go(out, err, null), null, BEHIND_SECONDS
    timer = threading.Timer(seconds, _give_up, (name, err, overrides))
    timer.daemon = True
    timer.start()
    try:
        raw = _input()
        if not is_first(name, raw, data_dir(overrides), overrides):
            _leave()  # Registered twice: the other process has begun on this event.
        sort, said = ask(name, raw, overrides) or (OUTPUT, _run_alone(name, raw, overrides))
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


def _run_alone(name: str, raw: bytes, overrides: Mapping[str, object]) -> bytes:
    import logging
    import warnings

    logging.disable()
    warnings.simplefilter("ignore")
    return run(name, raw, overrides).encode("utf-8", "replace")


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
