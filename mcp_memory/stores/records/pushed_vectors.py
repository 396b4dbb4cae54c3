"""Vectors of large scopes in PostgreSQL with pgvector, which names candidates for a search.

They are a projection of `vectors`: triggers keep those of a scope that is *pushed*, in the transaction of each write,
and a snapshot finds them as they were at its moment. No server owns them, and any may fill a scope.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Generator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import psycopg
from psycopg import errors

from mcp_memory.domain.model.scopes import partition_of
from mcp_memory.errors import StoreUnavailable
from mcp_memory.ports.indexes import IndexDifference
from mcp_memory.stores.records.postgres_values import only_value

if TYPE_CHECKING:
    from mcp_memory.domain.retrieval.queries import Vector
    from mcp_memory.stores.records.database_postgres import PostgresDatabase

FILLED_AT_ONCE = 100
"""Records that one write fills: others of the partition wait for it."""
MOST_DIMENSIONS = 4_000
"""Dimensions that an index of pgvector's may have, of 16 bits each."""
LACKING = "The database's server has no pgvector; install it there, or set MCP_MEMORY_SEMANTIC_STORE to exact."
RESTORED_WITHOUT = (
    "The memory's database was restored without pgvector, and lacks the table of its vectors; restore it where pgvector"
    " is installed, or set MCP_MEMORY_SEMANTIC_STORE to exact."
)
# Of the transaction, as a pooler hands connections on. Without iterative scans a scope that has a small share of all
# vectors would find few of its own.
DEEP = b"""
SELECT set_config('hnsw.ef_search', '1000', TRUE), set_config('hnsw.iterative_scan', 'relaxed_order', TRUE),
    set_config('hnsw.max_scan_tuples', '100000', TRUE)
"""
_DIMENSIONS = """
SELECT atttypmod FROM pg_attribute
WHERE attrelid = 'pushed_vectors'::regclass AND attname = 'vector' AND NOT attisdropped
"""
_MADE = """
LOCK TABLE pushed_scopes, pushed_vectors;
CREATE EXTENSION IF NOT EXISTS vector;
TRUNCATE pushed_scopes, pushed_vectors;
ALTER TABLE pushed_vectors DROP COLUMN IF EXISTS vector;
ALTER TABLE pushed_vectors ADD COLUMN vector halfvec({dimensions}) NOT NULL;
CREATE INDEX pushed_vectors_near ON pushed_vectors USING hnsw (vector halfvec_ip_ops)
    WITH (m = 24, ef_construction = 200);
"""
_AVAILABLE = b"SELECT 1 FROM pg_available_extensions WHERE name = 'vector'"
_GONE = (
    errors.UndefinedTable,
    errors.UndefinedColumn,
    errors.UndefinedObject,
    errors.UndefinedFunction,
    errors.UndefinedFile,
)
"""The errors of a search after somebody dropped the extension, or where its files are missing."""


class PushedVectors:
    """Implements `Candidates` of stores/vectors/pgvector.py. Thread-safe. `url` reaches the database directly."""

    def __init__(self, database: PostgresDatabase, url: str) -> None:
        self._database = database
        self._url = url

    def is_available(self) -> bool:
        """Return True where the database's server has pgvector."""
        with self._database.read() as connection:
            return connection.raw.execute(_AVAILABLE).fetchone() is not None

    def whole(self, embedder: str) -> Collection[str]:
        """Return the scopes all of whose vectors by this embedder are there."""
        rows = self._database.rows("pushed_scopes", {"embedder": embedder})
        return [row["scope"] for row in rows if row["is_whole"]]

    def nearest(self, scope: str, embedder: str, vector: Vector, limit: int) -> Sequence[str]:
        """Return the ids of the records of about the nearest `limit` vectors of a scope, one for each of these vectors.

        None where the scope is not whole, or pgvector is gone. Ask only once some scope was.
        """
        asked = {"scope": scope, "embedder": embedder, "vector": str(vector.tolist()), "limit": limit}
        return [row["id"] for row in self._found("nearest_pushed", asked)]

    def fill(self, scope: str, embedder: str, is_interrupted: Callable[[], bool]) -> bool:
        """Push a scope: from the first write on triggers keep it, and each further one adds some of its records.

        Several servers may fill one scope at a time. Return False where it was interrupted. Raises StoreUnavailable.
        """
        self._make(embedder)
        partition = partition_of(scope)
        reached: int | None = 0
        asked = {"scope": scope, "embedder": embedder, "limit": FILLED_AT_ONCE}
        # While no other write of the partition is open, which would not know that the scope is pushed.
        with self._database.write(partition=partition, durable=False) as write:
            if write.run("push_scope", asked).fetchall():
                write.run("drop_pushed_vectors", {"scope": scope})  # Another embedder's.
        while reached is not None:
            if is_interrupted():
                return False
            with self._database.write(partition=partition, durable=False) as write:
                reached = only_value(write.run("push_more", {**asked, "after": reached}))
                if reached is None:
                    write.run("note_whole", asked)
        with _directly(self._url) as connection:
            connection.execute("ANALYZE pushed_vectors")  # Else the planner takes each scope for small.
        return True

    def count(self, scopes: Sequence[str]) -> int:
        """Return the number of vectors of these scopes that are there."""
        found = self._found("count_pushed", {"scopes": json.dumps(list(scopes))}) if scopes else ()
        return found[0][0] if found else 0

    def differences(self, embedder: str) -> Mapping[str, IndexDifference]:
        """Compare every vector of whole scopes with the truth's; scopes without a difference are left out."""
        if not self.whole(embedder):
            return {}
        rows = self._database.rows("compare_pushed")
        return {row["scope"]: IndexDifference(missing=row["missing"], extra=row["extra"]) for row in rows}

    def drop(self) -> None:
        """Drop all: scopes are filled again once they are searched."""
        with self._database.write(durable=False) as write:
            write.run("drop_pushed_scopes")
            write.run("drop_all_pushed")

    def _found(self, name: str, asked: Mapping[str, object]) -> Sequence[Any]:
        """Return what a statement finds; nothing where pgvector is gone, and the snapshot can be read further."""
        with self._database.read() as connection:
            try:
                with connection.raw.pipeline():
                    connection.save()
                    connection.raw.execute(DEEP)
                    return connection.run(name, asked).fetchall()
            except _GONE:
                connection.go_back()
                return ()

    def _make(self, embedder: str) -> None:
        """Make the column of the embedder's length and its index, where they are not there. Raises StoreUnavailable."""
        rows = self._database.rows("stored_dimensions", (embedder,))
        dimensions = int(rows[0][0]) if rows else 0
        if not 0 < dimensions <= MOST_DIMENSIONS:
            raise StoreUnavailable(f"pgvector indexes up to {MOST_DIMENSIONS:,} dimensions, not {dimensions:,}.")
        with _directly(self._url) as connection, connection.transaction():
            if connection.execute(_DIMENSIONS).fetchone() != (dimensions,):
                connection.execute("SET LOCAL lock_timeout = '5s'")
                connection.execute(_MADE.format(dimensions=dimensions).encode())


@contextmanager
def _directly(url: str) -> Generator[psycopg.Connection[Any]]:
    """Connect as the role that may change tables. Raises StoreUnavailable with the next move."""
    try:
        with psycopg.connect(url, autocommit=True, connect_timeout=10) as connection:
            yield connection
    except (errors.FeatureNotSupported, errors.UndefinedFile) as error:
        raise StoreUnavailable(LACKING) from error
    except errors.UndefinedTable as error:
        raise StoreUnavailable(RESTORED_WITHOUT) from error
    except errors.InsufficientPrivilege as error:
        raise StoreUnavailable(
            "This role may not make pgvector's extension or change the memory's tables; have a superuser run CREATE"
            " EXTENSION vector in the memory's database, and name the tables' owner in MCP_MEMORY_MIGRATE_URL."
        ) from error
    except psycopg.Error as error:
        raise StoreUnavailable(
            f"The memory's database refused to prepare pgvector ({type(error).__name__})."
        ) from error
