"""A store of an earlier schema, opened by this version."""

import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

from mcp_memory.app import App
from mcp_memory.domain.contexts import ContextReport
from mcp_memory.domain.records import Kind, NewRecord, Outcome, Status
from mcp_memory.domain.scopes import Caller
from mcp_memory.stores.records_sqlite import FILE_NAME, SqliteRecordStore
from mcp_memory.stores.records_sqlite.statements import migrations

OLD: list[tuple[Kind, Status, Outcome | None, int]] = [
    ("decision", "active", None, 0),
    ("decision", "active", "pending", 0),
    ("decision", "active", "partial", 0),
    ("decision", "retired", "success", 0),
    ("censor", "active", None, 0),
    ("censor", "active", None, 1),
    ("censor", "escalated", None, 3),
    ("procedure", "active", None, 0),
]


def test_a_store_of_the_first_schema_counts_contexts_from_now_on(tmp_path: Path) -> None:
    """S2.3, C9.1: what it holds stays; what was assembled before is not known."""
    with closing(sqlite3.connect(tmp_path / FILE_NAME)) as connection:
        connection.executescript(migrations()[0])
        connection.execute("UPDATE sequence SET value = 41")
        connection.execute("PRAGMA user_version = 1")
        connection.commit()
    store = SqliteRecordStore(tmp_path, "e")
    ann = Caller(namespace="here", agent="ann", session_id="s1")
    assert store.revision() == 41
    assert store.assembled(ann, 0.0).contexts == 0
    report = ContextReport(id="c1", token_count=1, truncated=False, strategy="recent", components=(), omitted=())
    store.keep_context(report, ann, 1.0)
    assert store.assembled(ann, 0.0).strategies == {"recent": 1}
    store.close()


def test_decisions_and_censors_of_the_first_schema_have_their_own_stages(
    open_memory: Callable[..., App], tmp_path: Path
) -> None:
    """S2.3, C8.4, C8.5: those that were active, by their outcomes and by whether they were triggered."""
    memory = open_memory()
    items = [NewRecord(text=f"Record {number}.", kind=kind) for number, (kind, *_) in enumerate(OLD)]
    ids = [each.id for each in memory.remember(items, memory.caller())]
    memory.close()
    with closing(sqlite3.connect(tmp_path / "data" / FILE_NAME)) as connection:
        for record_id, (_, status, outcome, activated) in zip(ids, OLD, strict=True):
            row = (status, outcome, activated, record_id)
            connection.execute("UPDATE records SET status = ?, outcome = ?, activated = ? WHERE id = ?", row)
        connection.commit()
        connection.executescript("DROP TABLE assemblies; DROP INDEX records_by_source; PRAGMA user_version = 1")
    memory = open_memory()
    assert [each.status for each in memory.records.get(ids, memory.caller().scopes).values()] == [
        "recorded", "pending", "reviewed", "retired", "created", "active", "escalated", "active",
    ]  # fmt: skip
