"""One of everything that a project can hold, and where the file names a project."""

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

from mcp_memory.app import App
from mcp_memory.domain.model.records import Entity, NewRecord, Relation
from mcp_memory.domain.model.requests import CompactRequest, ContextRequest
from tests.services.sessions.conversations import fed
from tests.services.tasks.moves import push


def rows_with(data: Path, name: str) -> list[tuple[str, str]]:
    """Return the tables and columns that hold a name of a namespace, alone or in a scope."""
    kept: list[tuple[str, str]] = []
    with closing(sqlite3.connect(data / "memory.db")) as connection:
        tables = [row[0] for row in connection.execute("SELECT name FROM sqlite_schema WHERE type = 'table'")]
        for table in tables:
            for _, column, *_ in connection.execute(f"PRAGMA table_info({table})").fetchall():
                held = f"SELECT count(*) FROM {table} WHERE instr(CAST({column} AS TEXT), ?)"
                if connection.execute(held, (name,)).fetchone()[0]:
                    kept.append((table, column))
    return kept


NAMES = {"namespace": "{0}", "scope": "shared/{0}", "namespaces": '["{0}"]'}
"""The columns that name a project, and how."""
_LEFT = ("former_namespaces", "folders")
"""Tables that keep a former name: who says it is led on by it."""


def plant(data: Path, name: str) -> set[str]:
    """Put a row that names the project into each table that can; return the tables. It follows the schema."""
    planted: set[str] = set()
    with closing(sqlite3.connect(data / "memory.db")) as connection, connection:
        connection.execute("PRAGMA ignore_check_constraints = ON")
        for (table,) in connection.execute("SELECT name FROM sqlite_schema WHERE type = 'table'").fetchall():
            columns = {row[1]: row[2] for row in connection.execute(f"PRAGMA table_info({table})")}
            if NAMES.keys() & columns.keys() and table not in _LEFT:
                others: dict[str, object] = {"INTEGER": 99, "REAL": 1.0, "BLOB": b""}
                row = [
                    NAMES[each].replace("{0}", name) if each in NAMES else others.get(columns[each], "{}")
                    for each in columns
                ]
                connection.execute(f"INSERT INTO {table} VALUES ({', '.join('?' * len(row))})", row)
                planted.add(table)
    return planted


def fill(app: App, text: str) -> dict[str, Any]:
    """Store one of everything that belongs to a namespace."""
    caller = app.caller("s1")
    items = [
        NewRecord(
            text=text,
            entities=(Entity(name="Gateway", type="service", properties={"aliases": ["gw"]}),),
            relations=(Relation(source="Gateway", type="uses", target="Redis"),),
        ),
        NewRecord(text=f"A secret thought. {text}", visibility="private"),
        NewRecord(text=f"What I like. {text}", visibility="user"),
        NewRecord(text=f"To be erased. {text}", visibility="private"),
    ]
    shared, private, user, erased = [each.id for each in app.remember(items, caller)]
    app.forget([erased], "erase", caller)
    push(app, f"Ship the {text}")
    log = fed(app, app.caller("s2"), 8)
    app.compact(CompactRequest(window=log.tokens), app.caller("s2"))
    assert app.logs.stand_ins(app.caller("s2"))
    app.assemble_context(ContextRequest(query=text), caller)
    app.exclusions.exclude(shared, caller, agent=caller.agent)
    return {"shared": shared, "private": private, "user": user}
