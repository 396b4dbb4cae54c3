"""Examines a PostgreSQL server for `doctor`, and dumps a database by pg_dump. Knows no record."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import Any

import psycopg
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from mcp_memory.errors import InvalidRequest, StoreUnavailable
from mcp_memory.ports.indexes import Finding

LONG_SECONDS = 600.0
"""A transaction that is open for longer keeps vacuum from what was deleted or erased since."""
_LACKING = """
    SELECT DISTINCT c.relname
    FROM pg_class AS c CROSS JOIN unnest(ARRAY['SELECT', 'INSERT', 'UPDATE', 'DELETE']) AS needed
    WHERE c.relnamespace = current_schema()::regnamespace AND c.relkind = 'r'
        AND (c.relname <> 'schema' OR needed = 'SELECT') AND NOT has_table_privilege(c.oid, needed)
    ORDER BY c.relname
"""
_STANDBYS = """
    SELECT application_name, sync_state, pg_wal_lsn_diff(pg_current_wal_lsn(), replay_lsn)
    FROM pg_stat_replication WHERE state = 'streaming' ORDER BY application_name
"""
_OLDEST = """
    SELECT pid, extract(epoch FROM now() - xact_start)::float FROM pg_stat_activity
    WHERE datname = current_database() AND pid <> pg_backend_pid() AND xact_start IS NOT NULL
    ORDER BY xact_start LIMIT 1
"""
_DEAD = """
    SELECT coalesce(sum(n_dead_tup), 0)::bigint, max(greatest(last_vacuum, last_autovacuum)) FROM pg_stat_user_tables
    WHERE schemaname = current_schema()
"""


def examine(connection: psycopg.Connection[Any], location: str) -> Iterator[Finding]:
    """Yield findings on the server, the role's rights, standbys, open transactions and what vacuum has left."""
    ((version, role, number, oldest),) = connection.execute(
        "SELECT current_setting('server_version'), current_user, number, oldest FROM schema"
    ).fetchall()
    engine = f"PostgreSQL {version.split(maxsplit=1)[0]} at {location}"
    says = f"{engine}, schema {number}, for versions of schema {oldest} or newer"
    yield Finding(part="server", state="ok", says=says)
    yield _rights(connection, role)
    yield _standbys(connection)
    yield from _open_transactions(connection)
    ((dead, vacuumed),) = connection.execute(_DEAD).fetchall()
    last = f"{vacuumed:%Y-%m-%d %H:%M}" if vacuumed else "never"
    says = f"{dead} rows that were replaced, deleted or erased wait for the next vacuum (the last one: {last})"
    yield Finding(part="server", state="ok", says=says)


def _rights(connection: psycopg.Connection[Any], role: str) -> Finding:
    lacking = [row[0] for row in connection.execute(_LACKING).fetchall()]
    if not lacking:
        return Finding(part="server", state="ok", says=f"the role {role} may read and write every table")
    says = f"the role {role} may not read and write {len(lacking)} tables ({', '.join(lacking[:3])})"
    remedy = f'As their owner, run `GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA public TO "{role}"`.'
    return Finding(part="server", state="wrong", says=says, remedy=remedy)


def _standbys(connection: psycopg.Connection[Any]) -> Finding:
    ((wanted, is_standby),) = connection.execute(
        "SELECT current_setting('synchronous_standby_names'), pg_is_in_recovery()"
    ).fetchall()
    if is_standby:
        remedy = "Name all hosts, and `target_session_attrs=read-write`, in MCP_MEMORY_DATABASE_URL."
        return Finding(part="server", state="wrong", says="it is a standby, which takes no writes", remedy=remedy)
    # A role without pg_monitor's rights sees that a standby is there, and no more.
    found = connection.execute(_STANDBYS).fetchall()
    if wanted and not any(state in ("sync", "quorum", None) for _, state, _ in found):
        says = f"commits wait for a standby ({wanted}) that is not there"
        remedy = "Start it, or clear synchronous_standby_names and reload; docs/runbook.md says what is risked then."
        return Finding(part="server", state="wrong", says=says, remedy=remedy)
    waits = "commits wait for a standby" if wanted else "commits are on this server's disk alone when they are answered"
    told = ", ".join(f"{name} ({state}, {behind / 1e6:.1f} MB behind)" for name, state, behind in found if state)
    return Finding(part="server", state="ok", says=f"{waits}; standbys: {told or 'none that this role is shown'}")


def _open_transactions(connection: psycopg.Connection[Any]) -> Iterator[Finding]:
    for pid, seconds in connection.execute(_OLDEST).fetchall():
        says = f"the oldest transaction has been open for {seconds:.0f} s"
        if seconds < LONG_SECONDS:
            yield Finding(part="server", state="ok", says=says)
        else:
            remedy = f"Vacuum cannot remove what was erased since; end it by `SELECT pg_terminate_backend({pid})`."
            yield Finding(part="server", state="wrong", says=says, remedy=remedy)


def dump(url: str, path: Path) -> None:
    """Write a database into a new file, in pg_dump's custom format, readable by its owner alone.

    Raises:
        InvalidRequest: there is no pg_dump.
        StoreUnavailable: the file exists, or pg_dump says why it cannot.
    """
    program = shutil.which("pg_dump")
    if program is None:
        raise InvalidRequest(
            "pg_dump is not on the PATH; install PostgreSQL's programs in the server's version, or use"
            " `mcp-memory export`."
        )
    if path.exists():
        raise StoreUnavailable(f"{path} exists already; name a new file.")
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    part = path.with_name(f"{path.name}.part")
    with ExitStack() as stack:
        told = conninfo_to_dict(url)
        password = told.pop("password", None)
        if password is not None:  # Arguments of a process are for all to see.
            kept = stack.enter_context(NamedTemporaryFile("w", encoding="utf-8"))
            kept.write("*:*:*:*:" + str(password).replace("\\", "\\\\").replace(":", "\\:") + "\n")
            kept.flush()
            told["passfile"] = kept.name
        os.close(os.open(part, os.O_CREAT | os.O_WRONLY | os.O_TRUNC, 0o600))
        stack.callback(part.unlink, missing_ok=True)
        command = [
            program,
            "--format=custom",
            "--no-password",
            f"--file={part}",
            f"--dbname={make_conninfo('', **told)}",
        ]
        done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
        if done.returncode:
            reason = (done.stderr.strip().splitlines() or ["no reason was given"])[-1]
            raise StoreUnavailable(f"pg_dump could not copy the database ({reason}).")
        part.rename(path)
