"""Keeps tokens, trusted folders, quotas and reads: `TokenStore`, `FolderStore`, `QuotaStore`, `ReadStore`."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from math import inf
from typing import Any

from mcp_memory.domain.model.projects import TrustedFolder
from mcp_memory.domain.model.quotas import Quota
from mcp_memory.domain.model.records import Instant
from mcp_memory.domain.model.scopes import Grant
from mcp_memory.errors import Conflict
from mcp_memory.ports.access import Token, Usage
from mcp_memory.ports.reads import ReadEntry
from mcp_memory.stores.records.database import NO_PARTITION, Connection, Database, Row
from mcp_memory.stores.records.rows import path_from_column, path_to_column

_PATHS = ("folder", "repository")


class SqlTokens:
    """Implements `TokenStore` on the database of a record store; the port documents each method."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def add(self, token: Token) -> None:
        with self._database.write() as connection:
            if connection.run("has_live_token", (token.name,)).fetchone():
                raise Conflict(f"There is a token {token.name!r} already; revoke it first, or choose another name.")
            row = connection.run("person_of_agent", (token.grant.agent,)).fetchone()
            if row and row["person"] != token.grant.person:
                raise Conflict(
                    f"Agent {token.grant.agent!r} works for {row['person']!r}; name another agent for another person."
                )
            for name in token.grant.namespaces:
                if former := connection.run("former_namespace", (name,)).fetchone():
                    raise Conflict(f"The project {name!r} is called {former['namespace']!r} now; name that.")
            connection.run("add_token", _token_to_row(token))

    def get(self, token_id: str) -> Token | None:
        rows = self._database.rows("get_token", (token_id,))
        return _token_from_row(rows[0]) if rows else None

    def tokens(self) -> Sequence[Token]:
        return [_token_from_row(row) for row in self._database.rows("list_tokens")]

    def has_any(self) -> bool:
        return bool(self._database.rows("has_tokens")[0][0])

    def person_of(self, agent: str) -> str:
        rows = self._database.rows("person_of_agent", (agent,))
        return rows[0]["person"] if rows else ""

    def revoke(self, name: str, at: Instant) -> bool:
        with self._database.write() as connection:
            return connection.run("revoke_token", {"name": name, "at": at}).rowcount > 0


def _token_to_row(token: Token) -> dict[str, Any]:
    grant = token.grant
    return {
        **asdict(token),
        "agent": grant.agent,
        "person": grant.person,
        "namespaces": json.dumps(grant.namespaces),
        "right_held": grant.right,
    }


def _token_from_row(row: Row) -> Token:
    columns = dict(row)
    agent, person, right = (columns.pop(name) for name in ("agent", "person", "right_held"))
    namespaces = tuple(json.loads(columns.pop("namespaces")))
    return Token(**columns, grant=Grant(agent=agent, person=person, namespaces=namespaces, right=right))


class SqlFolders:
    """Implements `FolderStore` on the database of a record store; the port documents each method."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def folders(self) -> Sequence[TrustedFolder]:
        return [_folder_from_row(row) for row in self._database.rows("list_folders")]

    def is_trusted(self, namespace: str, folder: str, repository: str) -> bool:
        asked = {
            "namespace": namespace, "folder": path_to_column(folder), "repository": path_to_column(repository),
        }  # fmt: skip
        return bool(self._database.rows("is_trusted", asked)[0][0])

    def is_taken(self, namespace: str) -> bool:
        with self._database.read() as connection:
            return _is_taken(connection, namespace)

    def take(self, folder: TrustedFolder) -> bool:
        with self._database.write() as connection:
            if _is_taken(connection, folder.namespace):
                return False
            connection.run("trust_folder", _folder_to_row(folder))
            return True

    def trust(self, folder: TrustedFolder) -> None:
        with self._database.write() as connection:
            connection.run("trust_folder", _folder_to_row(folder))

    def revoke(self, folder: str, at: Instant) -> Sequence[TrustedFolder]:
        with self._database.write() as connection:
            rows = connection.run("revoke_folder", {"folder": path_to_column(folder), "at": at}).fetchall()
        return [_folder_from_row(row) for row in rows]


class SqlQuotas:
    """Implements `QuotaStore` on the database of a record store; the port documents each method."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def quotas(self) -> Sequence[Quota]:
        return [Quota(**dict(row)) for row in self._database.rows("list_quotas")]

    def put(self, quota: Quota) -> None:
        with self._database.write() as connection:
            connection.run("drop_quota" if quota.is_empty else "put_quota", asdict(quota))

    def used(self, partition: str) -> Usage:
        rows = self._database.rows("size_of_partition", (partition,))
        return Usage(**dict(rows[0])) if rows else Usage()


def _is_taken(connection: Connection, namespace: str) -> bool:
    return bool(connection.run("is_taken", {"namespace": namespace}).fetchone()[0])


def _folder_to_row(folder: TrustedFolder) -> dict[str, Any]:
    paths = {name: path_to_column(getattr(folder, name)) for name in _PATHS}
    return asdict(folder) | paths


def _folder_from_row(row: Row) -> TrustedFolder:
    paths = {name: path_from_column(row[name]) for name in _PATHS}
    return TrustedFolder(**paths, namespace=row["namespace"], since=row["since"], is_first=bool(row["is_first"]))


class SqlReads:
    """Implements `ReadStore` on the database of a record store; the port documents each method."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def add(self, entries: Sequence[ReadEntry]) -> None:
        rows = [asdict(each) | {"ids": json.dumps(each.ids, separators=(",", ":"))} for each in entries]
        with self._database.write(durable=False, partition=NO_PARTITION) as connection:
            connection.run_each("add_read", rows)
            by_record = [{name: row[name] for name in ("at", "request", "ids")} for row in rows]
            connection.run_each("add_read_records", by_record)

    def prune(self, before: Instant) -> None:
        oldest = self._database.rows("oldest_read")[0][0]
        if oldest is None or oldest >= before:
            return
        with self._database.write(durable=False, partition=NO_PARTITION) as connection:
            for name in ("prune_reads", "prune_read_records"):
                connection.run(name, (before,))

    def entries(
        self, namespace: str, limit: int, *, agent: str = "", before: tuple[Instant, str] | None = None
    ) -> Sequence[ReadEntry]:
        asked = {"namespace": namespace, "agent": agent, "limit": limit, **_place(before)}
        return [_entry(row) for row in self._database.rows("list_reads", asked)]

    def of_record(
        self, record_id: str, limit: int, *, namespace: str = "", agent: str = "",
        before: tuple[Instant, str] | None = None,
    ) -> Sequence[ReadEntry]:  # fmt: skip
        asked = {"id": record_id, "namespace": namespace, "agent": agent, "limit": limit, **_place(before)}
        return [_entry(row) for row in self._database.rows("reads_of_record", asked)]

    def between(self, since: Instant, until: Instant) -> Iterator[ReadEntry]:
        with self._database.read() as connection:
            yield from map(_entry, connection.stream("all_reads", {"since": since, "until": until}))


def _place(before: tuple[Instant, str] | None) -> dict[str, Instant | str]:
    at, request = before or (inf, "")
    return {"at": at, "request": request}


def _entry(row: Row) -> ReadEntry:
    columns = dict(row)
    return ReadEntry(ids=tuple(json.loads(columns.pop("ids"))), **columns)
