"""Lets one of several hooks of the same event act: clients run what is registered in two places twice, side by side.

A file for each session says which event came last, and when. The same event again, within seconds and with nothing in
between, is the same one: a second compaction, a resumed session and the next prompt come after something else. Nothing
slow is imported here, and no text of the session is kept.
"""

import os
import time
from collections.abc import Mapping

from mcp_memory.locations import NOTES_FOLDER, digest, named

SUFFIX = ".once"
SAME_SECONDS = 10.0
"""As long as the slower of two hooks that begin together may take; later ones are another event's."""
ACTS_ONCE = frozenset({"SessionStart", "UserPromptSubmit", "PreCompact", "PostCompact"})
"""Events whose hooks print or store something; the others are told apart from them alone."""
_PRINTS = frozenset({"SessionStart", "UserPromptSubmit"})
_UNNOTED = frozenset({"PreToolUse", "PostToolUse"})
"""Come with each call of a tool, several at once, and beside whatever comes next."""
_TELLING = ("session_id", "source", "trigger", "prompt", "compact_summary")
_TAIL = 65_536
"""Bytes of a transcript that are looked at for what came since."""


def is_first(name: str, raw: bytes, data_dir: str, chosen: Mapping[str, object]) -> bool:
    """Return False where another process has begun on the same event; `chosen` are the arguments of the process.

    Of another memory, by arguments or environment, it is another event. True where that cannot be known: no session has
    to go without its memory for it.
    """
    path = _notes_of(name, raw, data_dir)
    if path is None:
        return True
    told = repr([name, sorted(named(chosen).items()), sorted(chosen.items()), *(_text(raw, each) for each in _TELLING)])
    event = digest(told.encode("utf-8", "replace"), 12)
    transcript = _text(raw, "transcript_path")
    size = _size(transcript)
    try:
        os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
        flags = os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_BINARY", 0)
        file = os.open(path, flags, 0o600)
    except OSError:
        return True
    try:
        _lock(file)
        last, at, before = _noted(os.read(file, 200))
        is_same = name in ACTS_ONCE and last == event and abs(time.time() - at) < SAME_SECONDS
        if is_same and not _has_gone_on(transcript, before):
            return False
        os.lseek(file, 0, os.SEEK_SET)
        os.ftruncate(file, 0)
        os.write(file, f"{event} {time.time():.3f} {size}".encode())
    except OSError:
        return True
    finally:
        os.close(file)  # The lock falls with it.
    return True


def let_again(name: str, raw: bytes, data_dir: str) -> None:
    """Let the same event be answered again: this hook printed nothing, perhaps since no server had time for it."""
    path = _notes_of(name, raw, data_dir) if name in _PRINTS else None
    if path is not None:
        try:
            os.truncate(path, 0)
        except OSError:
            return


def _notes_of(name: str, raw: bytes, data_dir: str) -> str | None:
    """Return the path of the file that says which event of the session came last; None where none is kept."""
    session = _text(raw, "session_id") or _text(raw, "conversation_id")
    if name in _UNNOTED or not session or not data_dir or not os.path.isdir(data_dir):
        return None
    return os.path.join(data_dir, NOTES_FOLDER, f"{digest(session.encode('utf-8', 'replace'), 12)}{SUFFIX}")


def _text(raw: bytes, name: str) -> str:
    """Return a text of the payload, "" where it has none of that name. To load a parser would take longer.

    '{"session_id":"s1", …}', "session_id" → "s1". Inside a text the quotation marks of a name would be escaped.
    """
    begin = raw.find(b'"%s"' % name.encode())
    begin = raw.find(b":", begin) if begin >= 0 else -1
    rest = raw[begin + 1 :].lstrip() if begin >= 0 else b""
    if not rest.startswith(b'"'):
        return ""
    end = 1
    while end < len(rest) and rest[end : end + 1] != b'"':
        end += 2 if rest[end : end + 1] == b"\\" else 1
    text = rest[: end + 1]
    if b"\\" in text:  # e.g. a path of Windows
        import json

        try:
            return str(json.loads(text.decode("utf-8", "replace")))
        except ValueError:
            return ""
    return text[1:-1].decode("utf-8", "replace")


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

        msvcrt.locking(file, msvcrt.LK_LOCK, 1)  # pyrefly: ignore[missing-attribute] - Windows has it
    else:
        fcntl.flock(file, fcntl.LOCK_EX)


def _size(path: str) -> int:
    try:
        return os.stat(path).st_size if path else 0
    except (OSError, ValueError):
        return 0


def _has_gone_on(path: str, before: int) -> bool:
    """True where somebody said something in the transcript since it was so long; the client's own lines say nothing."""
    size = _size(path)
    if size <= before:
        return False
    try:
        with open(path, "rb") as file:
            file.seek(max(before, size - _TAIL))
            lines = file.read(_TAIL).splitlines()
    except OSError:
        return False
    return any(map(_is_said, lines))


def _is_said(line: bytes) -> bool:
    import json

    try:
        entry = json.loads(line.decode("utf-8", "replace"))
    except (ValueError, RecursionError):
        return False
    return isinstance(entry, dict) and _says(entry)


def _says(entry: Mapping[str, object]) -> bool:
    is_clients = any(entry.get(mark) is True for mark in ("isMeta", "isCompactSummary", "isSidechain"))
    return entry.get("type") in ("user", "assistant") and not is_clients
