"""The schema of the PostgreSQL database: its numbered migrations, and which versions of the program may use it."""

from __future__ import annotations

import random
import time
from typing import Any

import psycopg
from psycopg import errors

from mcp_memory.errors import SchemaTooNew, StoreUnavailable
from mcp_memory.stores.records.sql_files import scripts_in

MIGRATION_SECONDS = 60.0
# Two servers that create or migrate at once: all but one meet what the other has just made.
_MET = (
    errors.DuplicateTable,
    errors.DuplicateFunction,
    errors.DuplicateObject,
    errors.UniqueViolation,
    errors.DeadlockDetected,
    errors.InternalError_,
)
_OTHER_ENCODING = (
    "The memory's database keeps texts in {}, which has no room for many of them; create another one with"
    " ENCODING 'UTF8' TEMPLATE template0, and name it in MCP_MEMORY_DATABASE_URL."
)


def migrations() -> tuple[str, ...]:
    """Return the migration scripts in order; the schema's number is the number of those applied."""
    return scripts_in("migrations_postgres")


def refuse_newer(oldest: int) -> None:
    """Raise SchemaTooNew where the oldest schema that may still be used is newer than the one this version knows."""
    if oldest > len(migrations()):
        raise SchemaTooNew(
            "This store was migrated by a newer mcp-memory, and versions as old as this one may not use it any more;"
            " update mcp-memory and restart. Nothing was changed."
        )


def migrate(url: str) -> None:
    """Bring the schema up to date, each script in one transaction, by trying: no lock outlives a transaction.

    Raises StoreUnavailable where the database cannot be reached or may not be changed.
    """
    deadline = time.monotonic() + MIGRATION_SECONDS
    while True:
        try:
            with psycopg.connect(url, connect_timeout=10) as connection:
                if (kept_in := connection.info.parameter_status("server_encoding")) != "UTF8":
                    raise StoreUnavailable(_OTHER_ENCODING.format(kept_in))
                if (number := _number(connection)) >= len(migrations()):
                    return
                connection.execute(migrations()[number].encode())
            continue  # Committed: look again.
        except _MET:
            if time.monotonic() > deadline:
                raise
        except psycopg.OperationalError as error:
            raise StoreUnavailable(
                "The memory's database cannot be reached; look at MCP_MEMORY_DATABASE_URL, or start the database."
            ) from error
        except errors.InsufficientPrivilege as error:
            raise StoreUnavailable(
                "The memory's database may not be changed by this role; let a role that owns it migrate by"
                " MCP_MEMORY_MIGRATE_URL."
            ) from error
        time.sleep(random.uniform(0.05, 0.2))


def _number(connection: psycopg.Connection[tuple[Any, ...]]) -> int:
    if connection.execute("SELECT to_regclass('schema')").fetchone() == (None,):
        return 0
    row = connection.execute("SELECT number, oldest FROM schema FOR UPDATE").fetchone()
    number, oldest = row or (0, 0)
    refuse_newer(oldest)
    return number
