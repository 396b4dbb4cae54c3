"""Keeping the session's log: what the transcript says since the last hook. Nothing is embedded: servers do that."""

import hashlib
import os
import time
from pathlib import Path

from mcp_memory.entrypoints.hooks.hooked import Hooked

LATELY_SECONDS = 15.0
"""After every call of a tool would be too often: calls come by the dozen, and the turn's end misses none."""
MARK_BYTES = 1024
"""The end of what was read: another file hardly has the same before the same byte, the less with ids and times."""


def feed(hook: Hooked) -> None:
    """Add to the log what the transcript has and the log has not, piece by piece, so that an early end loses nothing.

    Raises:
        InvalidRequest: there is no such transcript.
        StoreUnavailable: what was stored so far stays.
    """
    if not hook.settings.hook_log:
        return
    path, start = Path(hook.payload.transcript_path), hook.notes.fed_until
    if not hook.payload.transcript_path:
        return
    if mark_before(path, start) != hook.notes.fed_mark:
        start = 0  # Another file, or the session's written anew: what the log has already is not added again.
    elif _size(path) == start:
        return
    from mcp_memory.entrypoints.conversations.transcripts import read_piece

    while True:
        piece = read_piece(path, start)
        if piece.records:
            hook.app.feed(piece.records, hook.caller)
        if piece.end != start:
            hook.note_fed(piece.end, mark_before(path, piece.end))
        if piece.end <= start:
            return
        start = piece.end


def feed_now_and_then(hook: Hooked) -> None:
    """Do so unless it was done a moment ago."""
    if time.time() - hook.notes.written_at >= LATELY_SECONDS:
        feed(hook)


def mark_before(path: Path, until: int) -> str:
    """A digest of what stands in a file before a byte; "" for its beginning, and where it cannot be read."""
    try:
        if not until or not path.is_file():
            return ""
        with path.open("rb") as file:
            file.seek(max(until - MARK_BYTES, 0), os.SEEK_SET)
            return hashlib.blake2b(file.read(min(until, MARK_BYTES)), digest_size=12).hexdigest()
    except (OSError, ValueError):
        return ""


def _size(path: Path) -> int:
    """The bytes of the file; -1 where it cannot be asked, which reading will say."""
    try:
        return path.stat().st_size
    except (OSError, ValueError):
        return -1
