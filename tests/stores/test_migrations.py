"""A store of an earlier schema, opened by this version."""

import sqlite3
from contextlib import closing
from pathlib import Path

from mcp_memory.domain.contexts import ContextReport
from mcp_memory.domain.scopes import Caller
from mcp_memory.stores.records_sqlite import FILE_NAME, SqliteRecordStore
from mcp_memory.stores.records_sqlite.statements import migrations


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
