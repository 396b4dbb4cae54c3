"""The folders that may use a namespace: implements `FolderStore`."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from dataclasses import asdict

from mcp_memory.domain.model.projects import TrustedFolder
from mcp_memory.domain.model.records import Instant
from mcp_memory.stores.records.database import Database
from mcp_memory.stores.records.statements import statement


class SqliteFolders:
    """Implements `FolderStore` on the database of a record store; see the port for what each method promises."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def folders(self) -> Sequence[TrustedFolder]:
        with self._database.read() as connection:
            return [_from_row(row) for row in connection.execute(statement("list_folders"))]

    def is_trusted(self, namespace: str, folder: str, repository: str) -> bool:
        asked = {"namespace": namespace, "folder": folder, "repository": repository}
        with self._database.read() as connection:
            return bool(connection.execute(statement("is_trusted"), asked).fetchone()[0])

    def is_taken(self, namespace: str) -> bool:
        with self._database.read() as connection:
            return _is_taken(connection, namespace)

    def take(self, folder: TrustedFolder) -> bool:
        with self._database.write() as connection:
            if _is_taken(connection, folder.namespace):
                return False
            connection.execute(statement("trust_folder"), asdict(folder))
            return True

    def trust(self, folder: TrustedFolder) -> None:
        with self._database.write() as connection:
            connection.execute(statement("trust_folder"), asdict(folder))

    def revoke(self, folder: str, at: Instant) -> Sequence[TrustedFolder]:
        with self._database.write() as connection:
            rows = connection.execute(statement("revoke_folder"), {"folder": folder, "at": at}).fetchall()
        return [_from_row(row) for row in rows]


def _is_taken(connection: sqlite3.Connection, namespace: str) -> bool:
    return bool(connection.execute(statement("is_taken"), {"namespace": namespace}).fetchone()[0])


def _from_row(row: sqlite3.Row) -> TrustedFolder:
    return TrustedFolder(
        namespace=row["namespace"],
        folder=row["folder"],
        repository=row["repository"],
        since=row["since"],
        is_first=bool(row["is_first"]),
    )
