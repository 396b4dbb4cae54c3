"""Reads and writes an exported memory, line by line, and names the line in which something is wrong. Knows no store."""

from collections.abc import Generator, Iterator
from contextlib import contextmanager
from typing import BinaryIO, Final

from mcp_memory.bounded_files import MB, bounded_lines
from mcp_memory.entrypoints.transfer.pieces import origin_line, piece_line, read_origin, read_piece
from mcp_memory.errors import InvalidRequest
from mcp_memory.ports.transfer import Origin, Piece, Transfer
from mcp_memory.services.memory.reindex import Progress

MAX_PIECE_BYTES: Final = 64 * MB
"""A record of the largest kind, with a dozen earlier texts as large, stays below it."""


def write_memory(transfer: Transfer, target: BinaryIO, namespace: str | None, progress: Progress) -> int:
    """Write a whole memory, or what belongs to one namespace; return the number of pieces. Raises StoreUnavailable."""
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


class MemoryFile:
    """An exported memory, read once. `name` is what people call it."""

    def __init__(self, file: BinaryIO, name: str) -> None:
        """Read the first line. Raises InvalidRequest where it is not one that this version can read."""
        self._lines = bounded_lines(file, MAX_PIECE_BYTES)
        self._name = name
        self._number = 1
        with self.located():
            self.origin = read_origin(_bounded(next(self._lines, b"")))

    def pieces(self, progress: Progress) -> Iterator[Piece]:
        """All that follows. Raises InvalidRequest at a line that is wrong, and where lines are missing at the end."""
        for line in self._lines:
            self._number += 1
            if self._number - 1 > self.origin.pieces:
                raise InvalidRequest(f"Only {self.origin.pieces} lines should follow the first.")
            yield read_piece(_bounded(line))
            progress(self._number - 1, self.origin.pieces)
        if self._number - 1 != self.origin.pieces:
            self._number += 1
            raise InvalidRequest(f"The file ends here, but {self.origin.pieces} lines should follow the first.")

    @contextmanager
    def located(self) -> Generator[None]:
        """Say of whatever is wrong with a piece in which line it stands, and that nothing was kept."""
        try:
            yield
        except InvalidRequest as error:
            raise InvalidRequest(f"{self._name}, line {self._number}: {error} Nothing was imported.") from error
        except RecursionError as error:
            raise InvalidRequest(
                f"{self._name}, line {self._number}: It is nested too deeply. Nothing was imported."
            ) from error


def _bounded(line: bytes | None) -> bytes:
    """Raises InvalidRequest for a line that is too long."""
    if line is None:
        raise InvalidRequest(f"It is longer than {MAX_PIECE_BYTES // MB} MB, which no line of a memory is.")
    return line
