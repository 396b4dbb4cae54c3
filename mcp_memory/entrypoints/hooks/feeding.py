"""Keeping the session's log: what the transcript says since the last hook. Nothing is embedded: servers do that."""

import time
from pathlib import Path

from mcp_memory.entrypoints.hooks.hooked import Hooked

LATELY_SECONDS = 15.0
"""After every call of a tool would be too often: calls come by the dozen, and the turn's end misses none."""


def feed(hook: Hooked) -> None:
    """Add to the log what the transcript has and the log has not, piece by piece, so that an early end loses nothing.

    Raises:
        InvalidRequest: there is no such transcript.
        StoreUnavailable: what was stored so far stays.
    """
    if not hook.settings.hook_log:
        return
    path, start = Path(hook.payload.transcript_path), hook.notes.fed_until
    if not hook.payload.transcript_path or _size(path) == start:
        return
    from mcp_memory.entrypoints.transcripts import read_piece

    while True:
        piece = read_piece(path, start)
        if piece.records:
            hook.app.feed(piece.records, hook.caller)
        if piece.end != start:
            hook.note_fed(piece.end)
        if piece.end <= start:
            return
        start = piece.end


def feed_now_and_then(hook: Hooked) -> None:
    """Do so unless it was done a moment ago."""
    if time.time() - hook.notes.written_at >= LATELY_SECONDS:
        feed(hook)


def _size(path: Path) -> int:
    """The bytes of the file; -1 where it cannot be asked, which reading will say."""
    try:
        return path.stat().st_size
    except (OSError, ValueError):
        return -1
