"""A memory of each landed schema opens, and leaves a copy of what it was beside it."""

import shutil
import sqlite3
import stat
import sys
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from mcp_memory.app import App
from mcp_memory.domain.model.ids import RECORD, make_id
from mcp_memory.domain.text.words import normal_hash, packed_terms
from mcp_memory.services.retrieval.recall import RecallRequest
from mcp_memory.stores.records import FILE_NAME, restore
from mcp_memory.stores.records.database_sqlite import SqliteDatabase
from mcp_memory.stores.records.schema_sqlite import APPLICATION_ID, migrations
from mcp_memory.stores.records.sql_files import statement
from tests.stores.records.test_database import in_a_child

NEWEST = len(migrations())
ZEROS = {"TEXT": "", "INTEGER": 0, "REAL": 0.0, "BLOB": b""}
TEXT = "The port is 5432."
SAID = {
    "text": TEXT, "summary": TEXT, "micro": TEXT, "text_tokens": 8, "summary_tokens": 8, "micro_tokens": 8,
    "id": make_id(RECORD, 1), "change": 1, "scope": "shared/test", "namespace": "test", "visibility": "shared",
    "agent": "ann", "session_id": "s1", "kind": "fact", "status": "active", "tags": "[]",
    "details": "{}", "normal_hash": normal_hash(TEXT), "stored_at": 1.0, "updated_at": 1.0,
}  # fmt: skip


def memory_of(schema: int, folder: Path, *, fillers: int = 0) -> Path:
    """A memory as the first migrations leave it, with one record, which waits for its vectors."""
    folder.mkdir(parents=True, exist_ok=True)
    with closing(sqlite3.connect(folder / FILE_NAME, isolation_level=None)) as connection:
        connection.execute("PRAGMA journal_mode = WAL")
        for script in migrations()[:schema]:
            connection.executescript(script)
        columns = connection.execute("PRAGMA table_info (records)").fetchall()
        row = {name: ZEROS[kind] for _, name, kind, is_needed, default, _ in columns if is_needed and default is None}
        row |= {name: value for name, value in SAID.items() if name in {column[1] for column in columns}}
        marks = ", ".join(f":{name}" for name in row)
        connection.execute(f"INSERT INTO records ({', '.join(row)}) VALUES ({marks})", row)
        connection.execute("INSERT INTO terms VALUES (1, ?)", (packed_terms(TEXT),))
        connection.executemany(
            "INSERT INTO meta VALUES (?, ?)",
            [("unembedded", "1"), *((f"filler {number}", "x" * 1000) for number in range(fillers))],
        )
        connection.execute("UPDATE sequence SET value = 1")
        if connection.execute("SELECT 1 FROM sqlite_schema WHERE name = 'partitions'").fetchone():
            connection.execute(statement("fill_partitions"), {"last_write": ""})
        connection.execute(f"PRAGMA user_version = {schema}")
        connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
    return folder / FILE_NAME


def copies_in(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir() if ".schema-" in path.name or ".copying" in path.name)


def schema_of(path: Path) -> int:
    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute("PRAGMA quick_check").fetchone()[0] == "ok"
        assert connection.execute("SELECT text FROM records").fetchall() == [(TEXT,)]
        return connection.execute("PRAGMA user_version").fetchone()[0]


@pytest.mark.parametrize("schema", range(1, NEWEST + 1))
def test_a_memory_of_each_schema_is_copied_opens_and_is_found(
    open_memory: Callable[..., App], tmp_path: Path, schema: int
) -> None:
    """G1.1, G1.2: what was said is found, and beside it lies what it was; nothing where nothing changes."""
    folder = tmp_path / "data"
    memory_of(schema, folder)
    memory = open_memory()
    found = memory.recall(RecallRequest(query="Which port is it?"), memory.caller()).results
    assert [(each["id"], each["text"]) for each in found] == [(SAID["id"], TEXT)]
    assert memory.records.defects() == []
    assert memory.records.stale_terms() == []
    memory.close()
    if schema == NEWEST:
        assert copies_in(folder) == []
        return
    assert copies_in(folder) == [f"{FILE_NAME}.schema-{schema}"]
    copy = folder / f"{FILE_NAME}.schema-{schema}"
    assert schema_of(copy) == schema
    assert sys.platform == "win32" or stat.S_IMODE(copy.stat().st_mode) == 0o600


def test_a_new_memory_has_no_copy(tmp_path: Path) -> None:
    """G1.1."""
    SqliteDatabase(tmp_path).close()
    assert [path.name for path in tmp_path.iterdir()] == [FILE_NAME]


def test_a_copy_is_kept_until_the_next_migration(tmp_path: Path) -> None:
    """G1.1: whatever earlier ones left goes once the schema is newer; what `restore` kept stays."""
    memory_of(NEWEST - 1, tmp_path)
    for left in ("schema-3", f"schema-{NEWEST - 1}", "copying", "before-20261124-101500"):
        (tmp_path / f"{FILE_NAME}.{left}").write_bytes(b"left")
    SqliteDatabase(tmp_path).close()
    assert copies_in(tmp_path) == [f"{FILE_NAME}.schema-{NEWEST - 1}"]
    assert schema_of(tmp_path / f"{FILE_NAME}.schema-{NEWEST - 1}") == NEWEST - 1
    assert (tmp_path / f"{FILE_NAME}.before-20261124-101500").exists()
    SqliteDatabase(tmp_path).close()
    assert copies_in(tmp_path) == [f"{FILE_NAME}.schema-{NEWEST - 1}"]


def test_what_only_the_log_of_a_former_file_holds_is_restored_too(tmp_path: Path) -> None:
    """G1.1: `restore` moves a memory away with its log, which nobody has moved into it, and doctor names it."""
    database = SqliteDatabase(tmp_path / "old")
    with database.write() as connection:
        connection.execute("INSERT INTO meta VALUES ('late', 'in the log')")
    former = tmp_path / "new" / f"{FILE_NAME}.before-20261124-101500"
    former.parent.mkdir()
    for suffix in ("", "-wal"):
        shutil.copy(tmp_path / "old" / f"{FILE_NAME}{suffix}", former.with_name(former.name + suffix))
    database.close()
    assert restore(tmp_path / "new", former, "now") is None
    restored = SqliteDatabase(tmp_path / "new")
    assert [tuple(row) for row in restored.rows("get_meta", ("late",))] == [("in the log",)]
    restored.close()


KILLED = """
    import resource, signal, sys
    from pathlib import Path
    from mcp_memory.stores.records.database_sqlite import SqliteDatabase
    signal.signal(signal.SIGXFSZ, signal.SIG_DFL)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, resource.RLIM_INFINITY))
    SqliteDatabase(Path(sys.argv[1]))
"""


@pytest.mark.skipif(sys.platform == "win32", reason="signals are POSIX's")
def test_a_kill_while_it_is_copied_leaves_the_memory_as_it_was(tmp_path: Path) -> None:
    """G1.1: the system kills the process at the 100,000th byte; what that leaves passes for no copy."""
    database = memory_of(NEWEST - 1, tmp_path, fillers=500)
    child = in_a_child(KILLED, str(tmp_path))
    assert child.returncode < 0, child.stderr
    assert f"{FILE_NAME}.copying" in copies_in(tmp_path)
    assert f"{FILE_NAME}.schema-{NEWEST - 1}" not in copies_in(tmp_path)
    assert schema_of(database) == NEWEST - 1
    SqliteDatabase(tmp_path).close()
    assert copies_in(tmp_path) == [f"{FILE_NAME}.schema-{NEWEST - 1}"]
    assert schema_of(tmp_path / f"{FILE_NAME}.schema-{NEWEST - 1}") == NEWEST - 1


def test_two_former_databases_of_one_second_are_both_kept(tmp_path: Path) -> None:
    """What was acknowledged between two restores is in the second one."""
    database = memory_of(len(migrations()), tmp_path / "data")
    backup = tmp_path / "backup.db"
    backup.write_bytes(database.read_bytes())
    kept = {restore(database.parent, backup, "20260101-000000") for _ in range(3)}
    assert (len(kept), all(path is not None and path.exists() for path in kept)) == (3, True)
