"""The truth in a PostgreSQL database, and the files of conversations: implements `RecordStore` and `FileStore`."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path

from mcp_memory.domain.model.scopes import Caller
from mcp_memory.ports.indexes import Finding
from mcp_memory.ports.text import Clock
from mcp_memory.stores.records.database import NO_PARTITION
from mcp_memory.stores.records.database_postgres import PostgresDatabase
from mcp_memory.stores.records.embedding_queue import MadeVectors
from mcp_memory.stores.records.erasures import REWRITTEN_ROWS, UNPURGED
from mcp_memory.stores.records.leases import SqlLeases
from mcp_memory.stores.records.pushed_vectors import PushedVectors
from mcp_memory.stores.records.server_postgres import dump, examine
from mcp_memory.stores.records.shown import SqlShown
from mcp_memory.stores.records.store import SqlRecordStore


class PostgresFiles:
    """Implements `FileStore`; the port documents each method.

    A file is stored before the write that refers to it commits.
    """

    def __init__(self, database: PostgresDatabase) -> None:
        self._database = database

    def keep(self, digest: str, content: bytes) -> None:
        self._database.alone("keep_file", {"digest": digest, "content": content})

    def read(self, digest: str) -> bytes | None:
        rows = self._database.rows("read_file", (digest,))
        content = bytes(rows[0]["content"]) if rows else None
        return content if content is not None and hashlib.sha256(content).hexdigest() == digest else None

    def digests(self) -> Collection[str]:
        return frozenset(row["digest"] for row in self._database.rows("file_digests"))

    def drop(self, digests: Collection[str]) -> None:
        for digest in digests:
            self._database.alone("drop_file", {"digest": digest})


class PostgresRecordStore(SqlRecordStore):
    """Implements `RecordStore`; the port documents each method."""

    _database: PostgresDatabase  # pyrefly: ignore[bad-override-mutable-attribute] - nothing sets it anew

    def __init__(
        self, url: str, embedder: str, clock: Clock = time.time, migrate_url: str = "", upkeep_role: str = ""
    ) -> None:
        """Open or create the store. Raises StoreUnavailable with the remedy where it can do neither."""
        super().__init__(PostgresDatabase(url, migrate_url, upkeep_role), embedder, clock)
        self._has_embedder = False
        self._leases = SqlLeases(self._database)
        self._direct_url = migrate_url or url

    def _partition_of(self, caller: Caller) -> str | None:
        """Let the first writes of a memory follow each other: all have the same embedder."""
        return super()._partition_of(caller) if self._knows_embedder() else None

    def _parted(self, vectors: MadeVectors) -> Mapping[str | None, MadeVectors]:
        if not self._knows_embedder():
            return {None: vectors}
        parts = self._by_partition([record_id for record_id, _ in vectors])
        return {name: {key: made for key, made in vectors.items() if key[0] in ids} for name, ids in parts.items()}

    def _knows_embedder(self) -> bool:
        self._has_embedder = self._has_embedder or bool(self._rows("get_meta", ("embedder",)))
        return self._has_embedder

    def _is_most(self, partition: str) -> bool:
        return False  # To ask costs a journey, and one by its index none.

    def has_write(self, mark: str) -> bool:
        return bool(self._rows("has_write", (mark,)))

    def files(self) -> PostgresFiles:
        return PostgresFiles(self._database)

    def shown(self) -> SqlShown:
        return SqlShown(self._database, self._clock)

    def leases(self) -> SqlLeases:
        return self._leases

    def pushed_vectors(self) -> PushedVectors:
        return PushedVectors(self._database, self._direct_url)

    def purge(self, *, patiently: bool = True) -> Sequence[str]:
        """Do nothing more: no table has what was erased.

        Its bytes go with the next vacuum, and from archives with their retention, which is the database's own.
        """
        pending = self._noted(UNPURGED)
        if pending is not None:
            with self._database.write(partition=NO_PARTITION) as connection:  # An erasure waits for it, and it for one.
                done = [(UNPURGED, pending), (REWRITTEN_ROWS, self._noted(REWRITTEN_ROWS) or "[]")]
                connection.run_each("drop_meta", done)
        return ()

    def erased_remains(self) -> str:
        dead, is_archived = self._database.dead_rows()
        return (
            "what is erased is in no table, index, query or export; its bytes are gone after a vacuum"
            f" ({dead:,} dead rows wait for one), and from the write-ahead log{', its archive' * is_archived} and base"
            " backups after their retention"
        )

    def backup(self, target: str) -> None:
        dump(self._direct_url, Path(target))

    def defects(self) -> Sequence[str]:
        return []

    def examine_server(self) -> Sequence[Finding]:
        with self._database.read() as connection:
            return list(examine(connection.raw, self._database.location))

    def engine(self) -> str:
        return self._database.engine()
