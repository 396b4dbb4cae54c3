"""Runs one hook in this process, and ends it: in time, with exit code 0, and with one line on stderr at the most.

A hook is beside the session's work. The client shows what it prints to the model, waits while it runs, and takes some
exit codes for a veto: so nothing that goes wrong here may be seen there.
"""

import contextlib
import logging
import os
import sys
import threading
import warnings
from collections.abc import Mapping
from typing import NoReturn

from mcp_memory.entrypoints.hooks.events import HOOKS
from mcp_memory.entrypoints.hooks.session import open_session, read_payload
from mcp_memory.errors import InvalidRequest, McpMemoryError

COMPLAINT_CHARACTERS = 300
UNKNOWN_SECONDS = 1.0


def run(name: str, raw: bytes, overrides: Mapping[str, object]) -> str:
    """Run the hook of that name for the payload in these bytes, and return what it prints.

    Raises:
        InvalidRequest: there is no such hook, or the payload is none; settings are refused; at a session's start also
            where the memory lies on a server.
        McpMemoryError: the memory cannot be used.
    """
    hook = HOOKS.get(name)
    if hook is None:
        raise InvalidRequest(f"There is no hook {name[:40]!r}; known are {', '.join(HOOKS)}.")
    session = open_session(read_payload(raw), overrides)
    if session.settings.url:  # The memory lies elsewhere: what stands here is none of the session's.
        if name == "SessionStart":
            raise InvalidRequest("the memory lies on a server (MCP_MEMORY_URL), so hooks add and log nothing.")
        return ""
    try:
        return hook.act(session) or ""
    finally:
        session.close()


def main(name: str, overrides: Mapping[str, object]) -> NoReturn:
    """Run the hook over standard input and output, and end the process."""
    out, err = _take_outputs()
    timer = threading.Timer(HOOKS[name].seconds if name in HOOKS else UNKNOWN_SECONDS, _give_up, (name, err))
    timer.daemon = True
    timer.start()
    try:
        _write(out, run(name, _input(), overrides))
    except McpMemoryError as error:
        _complain(err, name, str(error))
    except BaseException as error:  # noqa: BLE001 - the edge: a defect of ours is no matter of the session's
        _complain(err, name, f"{type(error).__name__}; `mcp-memory doctor` looks for what is wrong.")
    _leave()


def _take_outputs() -> tuple[int, int]:
    """Keep both streams for ourselves: what libraries print goes nowhere."""
    logging.disable()
    warnings.simplefilter("ignore")
    null = os.open(os.devnull, os.O_WRONLY)
    kept: list[int] = []
    for number in (1, 2):
        try:
            kept.append(os.dup(number))
        except OSError:
            kept.append(null)
        os.dup2(null, number)
    return kept[0], kept[1]


def _input() -> bytes:
    if sys.stdin is None or sys.stdin.isatty():
        return b""
    return sys.stdin.buffer.read()


def _give_up(name: str, err: int) -> None:
    if name not in HOOKS or not HOOKS[name].open_ended:
        _complain(err, name, "it took too long, and was ended; what was stored stays.")
    _leave()


def _complain(err: int, name: str, message: str) -> None:
    line = " ".join(f"mcp-memory hook {name[:40]}: {message}".split())
    _write(err, f"{line[:COMPLAINT_CHARACTERS]}\n")


def _write(stream: int, text: str) -> None:
    """Write all of it as UTF-8, whatever the console's encoding; nobody may be there to read."""
    rest = text.encode("utf-8", "replace")
    with contextlib.suppress(OSError):
        while rest:
            rest = rest[os.write(stream, rest) :]


def _leave() -> NoReturn:
    """End at once: threads that still embed or search would be waited for."""
    os._exit(0)
