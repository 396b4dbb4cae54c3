"""Reads an exported memory, line by line, and says in which line something is wrong. Knows no store."""

from collections.abc import Generator, Iterable, Iterator
from contextlib import contextmanager

from mcp_memory.entrypoints.exchange.lines import read_origin, read_piece
from mcp_memory.errors import InvalidRequest
from mcp_memory.ports import Piece
from mcp_memory.services.reindex import Progress


class MemoryFile:
    """An exported memory, read once. `name` is what people call it."""

    def __init__(self, lines: Iterable[bytes], name: str) -> None:
        """Read the first line. Raises InvalidRequest where it is not one that this version can read."""
        self._lines = iter(lines)
        self._name = name
        self._number = 1
        with self.located():
            self.origin = read_origin(next(self._lines, b""))

    def pieces(self, progress: Progress) -> Iterator[Piece]:
        """All that follows. Raises InvalidRequest at a line that is wrong, and where lines are missing at the end."""
        for line in self._lines:
            self._number += 1
            yield read_piece(line)
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
