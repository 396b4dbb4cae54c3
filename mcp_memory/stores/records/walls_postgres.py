"""The walls of the PostgreSQL database: row-level security, by which a request finds what is in its own scopes alone.

A server logs in as a role that does not own the tables. Each transaction says whose scopes it reads, and what works for
the memory as a whole takes the role for upkeep, both until the transaction ends: a pooler may stand between.
"""

from __future__ import annotations

import json
import re
from functools import cache
from typing import Any

import psycopg
from psycopg import errors
from psycopg.sql import SQL, Identifier

from mcp_memory.errors import StoreUnavailable
from mcp_memory.ports.walls import EVERYTHING, wall
from mcp_memory.stores.records.sql_files import is_beyond, is_change, postgres_statement, scripts_in

STAND = b"SELECT set_config('role', %s, TRUE), set_config('mcp_memory.scopes', %s, TRUE)"
_POLICY = re.compile(r"^CREATE POLICY wall ON (\w+)", re.MULTILINE)  # e.g. "CREATE POLICY wall ON records"
_ACTIVE = "SELECT bool_and(row_security_active(t)), bool_or(row_security_active(t)) FROM unnest(%s::text[]) AS t"

Place = tuple[str, str]
"""The role of a transaction and the scopes that it names, as STAND takes them."""


def walled_tables() -> list[str]:
    """Return the names of the tables that have a wall, which the migrations give them."""
    return [name for script in scripts_in("migrations_postgres") for name in _POLICY.findall(script)]


def place_of(name: str, role: str) -> Place | None:
    """Return where a statement is to run with this role for upkeep; None where it reads no table with a wall.

    What changes something may reach further than its caller reads: erasing takes along what others' logs say of it.
    """
    if not _has_walls(name):
        return None
    scopes = EVERYTHING if _is_beyond(name) else wall()
    if scopes == EVERYTHING:
        return role, ""
    return "none", json.dumps(scopes) if scopes else ""


@cache
def _has_walls(name: str) -> bool:
    return not _tables_with_walls().isdisjoint(re.findall(r"\w+", postgres_statement(name)))


@cache
def _tables_with_walls() -> frozenset[str]:
    return frozenset(walled_tables())


@cache
def _is_beyond(name: str) -> bool:
    return is_beyond(name) or is_change(name)


def raise_walls(url: str) -> None:
    """Let the walls stand, where they do not yet. Raises StoreUnavailable where this address's role may not."""
    down = "SELECT relname FROM pg_class WHERE NOT relrowsecurity AND oid = ANY (%s::text[]::regclass[])"
    try:
        with psycopg.connect(url, connect_timeout=10) as connection:
            for (table,) in connection.execute(down, (walled_tables(),)).fetchall():
                connection.execute(SQL("ALTER TABLE {} ENABLE ROW LEVEL SECURITY").format(Identifier(table)))
    except errors.InsufficientPrivilege as error:
        raise StoreUnavailable(
            "This role may not raise walls in the memory's database; name the one that owns the tables in"
            " MCP_MEMORY_MIGRATE_URL."
        ) from error


def check_walls(connection: psycopg.Connection[Any], role: str) -> None:
    """Raise StoreUnavailable where the walls do not hold this server, or hold it where it knows of none.

    They hold no role that owns the tables, and none with BYPASSRLS; the one for upkeep has to be such a role.
    """
    holds_all, holds_any = _active(connection)
    if not role and holds_any:
        raise StoreUnavailable(
            "The memory's database has walls, and this role reads nothing by itself; name the role for upkeep in"
            " MCP_MEMORY_UPKEEP_ROLE (docs/postgres.md)."
        )
    if not role:
        return
    if not holds_all:
        raise StoreUnavailable(
            "The walls in the memory's database do not hold this server's role: it owns the tables, or bypasses"
            " row-level security. Let MCP_MEMORY_DATABASE_URL name another one (docs/postgres.md)."
        )
    try:
        with connection.transaction():
            connection.execute(STAND, (role, ""))
            holds_all, holds_any = _active(connection)
    except psycopg.Error as error:
        raise StoreUnavailable(
            f"This server may not take the role {role!r} for upkeep; grant it to the role that logs in."
        ) from error
    if holds_any:
        raise StoreUnavailable(
            f"The walls in the memory's database hold the role {role!r} as well; let it have BYPASSRLS, or be a"
            " member of the role that owns the tables."
        )


def _active(connection: psycopg.Connection[Any]) -> tuple[bool, bool]:
    """Return whether row-level security holds the present role at all of the tables, and at any."""
    row = connection.execute(_ACTIVE, (walled_tables(),)).fetchone()
    assert row is not None, "An aggregate has one row."
    return bool(row[0]), bool(row[1])
