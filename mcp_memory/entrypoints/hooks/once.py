"""Lets one of several hooks of the same event act: clients run what is registered in two places twice, side by side.

A file for each session says which event came last, and when. The same event again, within seconds and with nothing in
between, is the same one: a second compaction, a resumed session and the next prompt come after something else. Nothing
slow is imported here, and no text of the session is kept.
"""

import json
import os
import time
from collections.abc import Mapping
from typing import Any, Final, cast

from mcp_memory.locations import NOTES_FOLDER, digest

SUFFIX: Final = ".once"
SAME_SECONDS: Final = 10.0
"""As long as the slower of two hooks that begin together may take; later ones are another event's."""
ACTS_ONCE: Final = frozenset({"SessionStart", "UserPromptSubmit", "PreCompact", "PostCompact"})
"""Events whose hooks print or store something; the others are told apart from them alone."""
_UNNOTED: Final = frozenset({"PostToolUse"})
"""Runs in the background, beside whatever comes next."""
_TELLING: Final = ("session_id", "source", "trigger", "prompt", "compact_summary")
_TAIL: Final = 65_536
"""Bytes of a transcript that are looked at for what came since."""


def is_first(name: str, raw: bytes, data_dir: str, chosen: Mapping[str, object]) -> bool:
    """Return False where another process has begun on the same event; `chosen` are the arguments of the process.

    True where that cannot be known: no session has to go without its memory for it.
    """
    payload = _payload(raw)
    session = payload.get("session_id")
    if name in _UNNOTED or not isinstance(session, str) or not data_dir or not os.path.isdir(data_dir):
        return True
    told = repr([name, sorted(chosen.items()), *(payload.get(each) for each in _TELLING)])
    event = digest(told.encode("utf-8", "replace"), 12)
    size = _size(payload.get("transcript_path"))
    try:
        folder = os.path.join(data_dir, NOTES_FOLDER)
        os.makedirs(folder, mode=0o700, exist_ok=True)
        path = os.path.join(folder, f"{digest(session.encode('utf-8', 'replace'), 12)}{SUFFIX}")
        flags = os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_BINARY", 0)
        file = os.open(path, flags, 0o600)
    except OSError:
        return True
    try:
        _lock(file)
        last, at, before = _noted(os.read(file, 200))
        is_same = name in ACTS_ONCE and last == event and abs(time.time() - at) < SAME_SECONDS
        if is_same and not _has_gone_on(payload.get("transcript_path"), before):
            return False
        os.lseek(file, 0, os.SEEK_SET)
        os.ftruncate(file, 0)
        os.write(file, f"{event} {time.time():.3f} {size}".encode())
    except OSError:
        return True
    finally:
        os.close(file)  # The lock falls with it.
    return True


def _payload(raw: bytes) -> dict[str, Any]:
    try:
        found: object = json.loads(raw.decode("utf-8", "replace").removeprefix("\ufeff"))
    except (ValueError, RecursionError):
        return {}
    return cast("dict[str, Any]", found) if isinstance(found, dict) else {}


def _noted(content: bytes) -> tuple[str, float, int]:
    """Return the last event, its time, and the transcript's length then; what is damaged is no event."""
    try:
        event, at, size = content.decode("ascii").split(" ")
        return event, float(at), int(size)
    except ValueError:
        return "", 0.0, 0


def _lock(file: int) -> None:
    """Wait until no other process looks at the file. Raises OSError."""
    try:
        import fcntl
    except ImportError:
        import msvcrt

        lock = cast("Any", msvcrt)
        lock.locking(file, lock.LK_LOCK, 1)
    else:
        fcntl.flock(file, fcntl.LOCK_EX)


def _size(path: object) -> int:
    try:
        return os.stat(path).st_size if isinstance(path, str) and path else 0
    except (OSError, ValueError):
        return 0


def _has_gone_on(path: object, before: int) -> bool:
    """True where somebody said something in the transcript since it was so long; the client's own lines say nothing."""
    size = _size(path)
    if size <= before:
        return False
    try:
        with open(cast("str", path), "rb") as file:
            file.seek(max(before, size - _TAIL))
            lines = file.read(_TAIL).splitlines()
    except OSError:
        return False
    return any(_is_said(_payload(line)) for line in lines)


def _is_said(entry: Mapping[str, Any]) -> bool:
    is_clients = any(entry.get(mark) is True for mark in ("isMeta", "isCompactSummary", "isSidechain"))
    return entry.get("type") in ("user", "assistant") and not is_clients
