"""Reads a configuration file, and replaces it as a whole or not at all. Knows nothing of its content."""

import os
import secrets
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from mcp_memory.bounded_files import MB, read_regular
from mcp_memory.errors import Conflict

MAX_CONFIGURATION_BYTES = 64 * MB
"""Limit for a configuration file: Claude Code keeps its history beside its servers, tens of megabytes of it."""
MAX_COPIES = 10
"""Kept copies that `kept_copies` looks at, the newest first."""
_BYTE_ORDER_MARK = "\ufeff"


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """A file as it was read. `place`: behind all symbolic links; `content`, `mode`: None where there is no file."""

    path: Path
    place: Path
    content: bytes | None
    mode: int | None
    text: str


def read_file(path: Path) -> Found:
    """Read a configuration file. Raises Conflict for what is no ordinary file, too large, or no UTF-8."""
    try:
        place = path.resolve()
        content = read_regular(place, MAX_CONFIGURATION_BYTES) if place.exists() else None
        mode = place.stat().st_mode & 0o777 if content is not None else None
        text = _text(content or b"")
    except UnicodeDecodeError as error:
        raise Conflict(f"{path} is not UTF-8; save it as UTF-8, and try again.") from error
    except (OSError, RuntimeError) as error:  # a circle of links is a RuntimeError
        raise Conflict(f"{path} cannot be read: {_reason(error)}. Make it readable, and try again.") from error
    return Found(path=path, place=place, content=content, mode=mode, text=text)


def kept_copies(found: Found) -> Iterator[str]:
    """Yield the texts of this file's copies from `replace_file`, newest first; unreadable ones are left out."""
    folder, prefix = found.place.parent, f"{found.place.name}.bak-"
    names = sorted((path.name for path in folder.iterdir() if path.name.startswith(prefix)), reverse=True)
    for name in names[:MAX_COPIES]:
        with suppress(OSError, UnicodeDecodeError):
            yield _text(read_regular(folder / name, MAX_CONFIGURATION_BYTES, follow_link=False))


def replace_file(found: Found, text: str, now: datetime, *, private: bool = False) -> Path | None:
    """Replace the file's content with `text`, unless it changed since it was read; return the former file's copy.

    File and copy keep their mode; where the file is to be `private`, other users lose their rights. Concurrent readers
    find the old file or the new one, never a part. Raises Conflict.
    """
    mark = _BYTE_ORDER_MARK if (found.content or b"").startswith(_BYTE_ORDER_MARK.encode()) else ""
    kept: Path | None = None
    try:
        content = (mark + text).encode("utf-8")
        found.place.parent.mkdir(parents=True, exist_ok=True)
        mode = (0o600 if found.mode is None else found.mode & 0o700) if private else found.mode
        kept = _keep(found, now, mode)
        _swap(found, content, mode)
    except (OSError, UnicodeEncodeError, Conflict) as error:
        if kept is not None:
            kept.unlink()
        if isinstance(error, Conflict):
            raise
        raise Conflict(f"{found.path} cannot be changed: {_reason(error)}. Nothing was written.") from error
    return kept


def _swap(found: Found, content: bytes, mode: int | None) -> None:
    """Replace the file. Raises Conflict where it changed since it was read."""
    temporary = found.place.with_name(f".{found.place.name}.{secrets.token_hex(4)}.tmp")
    try:
        _write_new(temporary, content, mode)
        if (read_regular(found.place, MAX_CONFIGURATION_BYTES) if found.place.exists() else None) != found.content:
            raise Conflict(f"{found.path} was changed meanwhile, perhaps by the client; close it, and try again.")
        temporary.replace(found.place)
    finally:
        temporary.unlink(missing_ok=True)


def _keep(found: Found, now: datetime, mode: int | None) -> Path | None:
    """Copy the file beside itself, under an unused name."""
    if found.content is None:
        return None
    name = f"{found.place.name}.bak-{now:%Y%m%d-%H%M%S}"
    copy, count = found.place.with_name(name), 1
    while copy.exists():
        copy, count = found.place.with_name(f"{name}-{count}"), count + 1
    _write_new(copy, found.content, mode)
    return copy


def _write_new(path: Path, content: bytes, mode: int | None) -> None:
    """Write a new file of this mode, or the default one; it is on disk before this returns."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0)
    descriptor = os.open(path, flags, 0o666 if mode is None else 0o600)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        if mode is not None:
            path.chmod(mode)
    except OSError:
        path.unlink()
        raise


def _text(content: bytes) -> str:
    return content.decode("utf-8").removeprefix(_BYTE_ORDER_MARK)


def _reason(error: Exception) -> str:
    return (error.strerror if isinstance(error, OSError) else None) or str(error)
