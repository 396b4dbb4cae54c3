"""Keeps access tokens and trusted folders: implements `TokenStore` and `FolderStore`."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Sequence
from dataclasses import asdict

from mcp_memory.domain.model.projects import TrustedFolder
from mcp_memory.domain.model.records import Instant
from mcp_memory.domain.model.scopes import Grant
from mcp_memory.errors import Conflict
from mcp_memory.ports.access import Token
from mcp_memory.stores.records.database import Database
from mcp_memory.stores.records.statements import statement


class SqliteTokens:
    """Implements `TokenStore` on the database of a record store; the port documents each method."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def add(self, token: Token) -> None:
        with self._database.write() as connection:
            if connection.execute(statement("has_live_token"), (token.name,)).fetchone():
                raise Conflict(f"There is a token {token.name!r} already; revoke it first, or choose another name.")
            row = connection.execute(statement("person_of_agent"), (token.grant.agent,)).fetchone()
            if row and row["person"] != token.grant.person:
                raise Conflict(
                    f"Agent {token.grant.agent!r} works for {row['person']!r}; name another agent for another person."
                )
            connection.execute(statement("add_token"), _token_to_row(token))

    def get(self, token_id: str) -> Token | None:
        rows = self._all("get_token", token_id)
        return _token_from_row(rows[0]) if rows else None

    def tokens(self) -> Sequence[Token]:
        return [_token_from_row(row) for row in self._all("list_tokens")]

    def has_any(self) -> bool:
        return bool(self._all("has_tokens")[0][0])

    def person_of(self, agent: str) -> str:
        rows = self._all("person_of_agent", agent)
        return rows[0]["person"] if rows else ""

    def revoke(self, name: str, at: Instant) -> bool:
        with self._database.write() as connection:
            return connection.execute(statement("revoke_token"), {"name": name, "at": at}).rowcount > 0

    def _all(self, name: str, *parameters: str) -> Sequence[sqlite3.Row]:
        with self._database.read() as connection:
            return connection.execute(statement(name), parameters).fetchall()


def _token_to_row(token: Token) -> dict[str, str | float | None]:
    return {
        "id": token.id,
        "digest": token.digest,
        "name": token.name,
        "agent": token.grant.agent,
        "person": token.grant.person,
        "namespaces": json.dumps(token.grant.namespaces),
        "right_held": token.grant.right,
        "created_at": token.created_at,
        "expires_at": token.expires_at,
    }


def _token_from_row(row: sqlite3.Row) -> Token:
    return Token(
        id=row["id"],
        digest=row["digest"],
        name=row["name"],
        grant=Grant(
            agent=row["agent"],
            person=row["person"],
            namespaces=tuple(json.loads(row["namespaces"])),
            right=row["right_held"],
        ),
        created_at=row["created_at"],
        expires_at=row["expires_at"],
        revoked_at=row["revoked_at"],
    )


class SqliteFolders:
    """Implements `FolderStore` on the database of a record store; the port documents each method."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def folders(self) -> Sequence[TrustedFolder]:
        with self._database.read() as connection:
            return [_folder_from_row(row) for row in connection.execute(statement("list_folders"))]

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
        return [_folder_from_row(row) for row in rows]


def _is_taken(connection: sqlite3.Connection, namespace: str) -> bool:
    return bool(connection.execute(statement("is_taken"), {"namespace": namespace}).fetchone()[0])


def _folder_from_row(row: sqlite3.Row) -> TrustedFolder:
    return TrustedFolder(
        namespace=row["namespace"],
        folder=row["folder"],
        repository=row["repository"],
        since=row["since"],
        is_first=bool(row["is_first"]),
    )
