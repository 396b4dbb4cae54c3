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
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import NoReturn

from mcp_memory.entrypoints.hooks.hooked import Hooked, hooked
from mcp_memory.entrypoints.hooks.payload import read_payload
from mcp_memory.errors import InvalidRequest, McpMemoryError

LINE_CHARACTERS = 300
UNKNOWN_SECONDS = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Hook:
    """What an event calls for, and after how many seconds the process ends wherever it is.

    What is `open_ended` does as much as it can in that time, and has not failed when it is over.
    """

    act: Callable[[Hooked], str | None]
    seconds: float
    open_ended: bool = False


def _start(hook: Hooked) -> str:
    from mcp_memory.entrypoints.hooks.starting import start

    return start(hook)


def _remind(hook: Hooked) -> str:
    from mcp_memory.entrypoints.hooks.prompting import remind

    return remind(hook)


def _feed_now_and_then(hook: Hooked) -> None:
    from mcp_memory.entrypoints.hooks.feeding import feed_now_and_then

    feed_now_and_then(hook)


def _feed(hook: Hooked) -> None:
    from mcp_memory.entrypoints.hooks.feeding import feed

    feed(hook)


def _before_compaction(hook: Hooked) -> str:
    from mcp_memory.entrypoints.hooks.compacting import before_compaction

    return before_compaction(hook)


def _after_compaction(hook: Hooked) -> None:
    from mcp_memory.entrypoints.hooks.compacting import after_compaction

    after_compaction(hook)


def _end(hook: Hooked) -> None:
    from mcp_memory.entrypoints.hooks.ending import end

    end(hook)


HOOKS: Mapping[str, Hook] = {
    "SessionStart": Hook(act=_start, seconds=8.0),
    "UserPromptSubmit": Hook(act=_remind, seconds=8.0),
    "PostToolUse": Hook(act=_feed_now_and_then, seconds=30.0),
    "Stop": Hook(act=_feed, seconds=6.0),
    "PreCompact": Hook(act=_before_compaction, seconds=20.0),
    "PostCompact": Hook(act=_after_compaction, seconds=10.0),
    # Claude Code gives all hooks of a session's end 1.5 seconds together, and complains where one takes longer.
    "SessionEnd": Hook(act=_end, seconds=1.2, open_ended=True),
}
"""By the names of Claude Code's events. A compaction fires SubagentStop as well: that one is not listened to."""


def run(name: str, raw: bytes, overrides: Mapping[str, object]) -> str:
    """What the hook of that name prints, for the payload in these bytes.

    Raises:
        InvalidRequest: there is no such hook, or the payload is none; settings are refused; at a session's start also
            where the memory lies on a server.
        McpMemoryError: the memory cannot be used.
    """
    hook = HOOKS.get(name)
    if hook is None:
        raise InvalidRequest(f"There is no hook {name[:40]!r}; known are {', '.join(HOOKS)}.")
    session = hooked(read_payload(raw), overrides)
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
    _write(err, f"{line[:LINE_CHARACTERS]}\n")


def _write(stream: int, text: str) -> None:
    """Write all of it as UTF-8, whatever the console's encoding; nobody may be there to read."""
    rest = text.encode("utf-8", "replace")
    with contextlib.suppress(OSError):
        while rest:
            rest = rest[os.write(stream, rest) :]


def _leave() -> NoReturn:
    """End at once: threads that still embed or search would be waited for."""
    os._exit(0)
