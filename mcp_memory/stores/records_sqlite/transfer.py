"""A whole memory out of the database or into it: implements `Transfer`."""

from collections.abc import Iterable, Iterator

from mcp_memory.ports import Origin, Piece
from mcp_memory.stores.records_sqlite import entering, leaving
from mcp_memory.stores.records_sqlite.database import Database


class SqliteTransfer:
    """Implements `Transfer` on the database of a record store."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def leave(self, namespace: str | None = None) -> Iterator[Origin | Piece]:
        return leaving.leave(self._database, namespace)

    def is_empty(self) -> bool:
        with self._database.read() as connection:
            return entering.is_empty(connection)

    def enter(self, pieces: Iterable[Piece]) -> None:
        with self._database.write() as connection:
            entering.enter(connection, pieces)
