"""A whole memory out of the database or into it: implements `Transfer`."""

from collections.abc import Iterable, Iterator

from mcp_memory.ports.transfer import Origin, Piece
from mcp_memory.stores.records import export_rows, import_rows
from mcp_memory.stores.records.database import Database


class SqliteTransfer:
    """Implements `Transfer` on the database of a record store."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def leave(self, namespace: str | None = None) -> Iterator[Origin | Piece]:
        return export_rows.leave(self._database, namespace)

    def is_empty(self) -> bool:
        with self._database.read() as connection:
            return import_rows.is_empty(connection)

    def enter(self, pieces: Iterable[Piece]) -> None:
        with self._database.write() as connection:
            import_rows.enter(connection, pieces)
