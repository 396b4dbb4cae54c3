"""Starts the owner of a memory: a process of its own, which neither a client's end nor a signal to it reaches."""

import contextlib
import json
import os
import signal
from collections.abc import Callable, Mapping
from typing import Final

from mcp_memory.bridge.door import OWN_BUILD, Door, build
from mcp_memory.isolated_python import isolated_command
from mcp_memory.locations import LIVE_FOLDER

Own = Callable[[Door, str, Mapping[str, object]], object]
"""Owns the memory in that directory by this door until nobody needs it, with settings by these arguments."""

LOG_FILE: Final = "owner.log"
MOST_LOG_BYTES: Final = 1_000_000
_LIMITS: Final = ("RLIMIT_AS", "RLIMIT_CPU", "RLIMIT_DATA", "RLIMIT_FSIZE", "RLIMIT_NOFILE", "RLIMIT_NPROC")
"""Calls of clients take these: memory, time, bytes of a file, open files, threads."""


def start(door: Door, data_dir: str, chosen: Mapping[str, object], own: Own) -> bool:
    """Fork a process that owns the memory by this door; False where the system cannot fork, or nobody could reach it.

    No thread may have been started. The other process does not return from here. Where this one was started before an
    update, the other one starts Python again: what is loaded fits no module that it would load now.
    """
    if not hasattr(os, "fork") or not door.is_reachable:
        return False
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)  # A client may have left it ignored: then no child is waited for.
    try:
        child = os.fork()
    except OSError:
        return False
    if child == 0:
        try:
            os.setsid()
            if os.fork() == 0:  # A child of nobody, so that no client that ends its children ends it.
                _let_go(data_dir, door.descriptors)
                if build() != OWN_BUILD:
                    _start_again(door, data_dir, chosen)
                own(door, data_dir, chosen)
            os._exit(0)
        finally:
            os._exit(1)
    if os.waitpid(child, 0)[1]:
        return False
    door.pass_on()
    return True


def _start_again(door: Door, data_dir: str, chosen: Mapping[str, object]) -> None:
    for each in door.descriptors:
        os.set_inheritable(each, True)
    given = {name: str(value) for name, value in chosen.items() if value is not None}
    command = isolated_command("mcp_memory.entrypoints.owner.main")
    os.execv(command[0], [*command, json.dumps([data_dir, given, *door.descriptors])])


def _let_go(data_dir: str, kept: tuple[int, ...]) -> None:
    """Let go of the client's streams, for whose end it waits, and of all files but the two. Raises OSError."""
    null = os.open(os.devnull, os.O_RDWR)
    log = os.path.join(data_dir, LIVE_FOLDER, LOG_FILE)
    try:
        told = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW, 0o600)
        if os.fstat(told).st_size > MOST_LOG_BYTES:
            os.ftruncate(told, 0)
    except OSError:  # Without a log, clients are served all the same.
        told = null
    for number, stream in enumerate((null, null, told)):
        os.dup2(stream, number)
    for each in map(int, os.listdir("/dev/fd")):
        if each > 2 and each not in kept:
            with contextlib.suppress(OSError):  # The listing itself had one.
                os.close(each)
    signal.pthread_sigmask(signal.SIG_SETMASK, [])
    os.umask(0o077)
    _raise_limits()


def _raise_limits() -> None:
    """Let the owner have what it may have: `ulimit -S` of its first client is no limit of the others'.

    A hard limit stays, which the super-user alone may raise, as does the priority.
    """
    import resource  # Windows has none.

    for name in _LIMITS:
        limit = getattr(resource, name)
        with contextlib.suppress(OSError, ValueError):
            _, hard = resource.getrlimit(limit)
            resource.setrlimit(limit, (hard, hard))
