"""Writes a memory out, line by line. Knows neither folder nor screen."""

from typing import BinaryIO

from mcp_memory.entrypoints.transfer.jsonl import origin_line, piece_line
from mcp_memory.ports.transfer import Origin, Transfer
from mcp_memory.services.memory.reindex import Progress


def write_memory(transfer: Transfer, target: BinaryIO, namespace: str | None, progress: Progress) -> int:
    """Write a whole memory, or what belongs to one namespace; how many pieces. Raises StoreUnavailable."""
    written = total = 0
    for piece in transfer.leave(namespace):
        if isinstance(piece, Origin):
            total = piece.pieces
            target.write(origin_line(piece))
            continue
        target.write(piece_line(piece))
        written += 1
        progress(written, total)
    return written
