"""claude-mem's database, of several versions."""

import hashlib
import json
import os
import sqlite3
from collections import Counter
from contextlib import closing
from pathlib import Path

import pytest

from mcp_memory.domain.model.records import NewRecord
from mcp_memory.entrypoints.transfer.importers import claude_mem
from mcp_memory.entrypoints.transfer.importers.claude_mem import MAX_ROW_BYTES, read_claude_mem
from mcp_memory.errors import InvalidRequest

OBSERVATIONS = """
CREATE TABLE observations (
    id INTEGER PRIMARY KEY, memory_session_id TEXT, project TEXT NOT NULL, text TEXT, type TEXT NOT NULL, title TEXT,
    subtitle TEXT, facts TEXT, narrative TEXT, concepts TEXT, files_read TEXT, files_modified TEXT,
    merged_into_project TEXT, created_at TEXT, created_at_epoch INTEGER
);
"""
SUMMARIES = """
CREATE TABLE session_summaries (
    id INTEGER PRIMARY KEY, project TEXT NOT NULL, request TEXT, investigated TEXT, learned TEXT, completed TEXT,
    next_steps TEXT, notes TEXT, created_at_epoch INTEGER
);
CREATE TABLE user_prompts (id INTEGER PRIMARY KEY, prompt_text TEXT);
INSERT INTO user_prompts (prompt_text) VALUES ('one'), ('two');
"""


def written(tmp_path: Path, script: str, **rows: dict[str, object]) -> Path:
    """A database made by the script, with one row more in each of the tables."""
    path = tmp_path / "claude-mem.db"
    with closing(sqlite3.connect(path)) as database:
        database.executescript(script)
        for table, row in rows.items():
            marks = ", ".join("?" for _ in row)
            database.execute(f"INSERT INTO {table} ({', '.join(row)}) VALUES ({marks})", tuple(row.values()))
        database.commit()
    return path


def entangle(path: Path, table: str) -> None:
    """Put eight pages above the root of a table, each of which names the one below it forty times."""
    with closing(sqlite3.connect(path)) as database:
        [root] = database.execute("SELECT rootpage FROM sqlite_master WHERE name = ?", (table,)).fetchone()
        database.execute("CREATE TABLE spare (text)")
        database.execute("INSERT INTO spare VALUES (zeroblob(8000))")  # pages to write over
        database.commit()
    content = bytearray(path.read_bytes())
    last = len(content) // 512
    content[(last - 1) * 512 : last * 512] = content[(root - 1) * 512 : root * 512]
    below = last
    for page in (*range(last - 1, last - 8, -1), root):
        cells = range(472 - 5 * 40, 472, 5)
        head = bytes([5, 0, 0, 0, 40]) + cells.start.to_bytes(2) + bytes(1) + below.to_bytes(4)
        head += b"".join(cell.to_bytes(2) for cell in cells)
        body = (below.to_bytes(4) + b"\x01") * 40
        content[(page - 1) * 512 : page * 512] = head.ljust(cells.start, b"\0") + body.ljust(512 - cells.start, b"\0")
        below = page
    path.write_bytes(content)


def read(path: Path, project: str | None = None) -> tuple[list[NewRecord], Counter[str]]:
    left_out = Counter[str]()
    return list(read_claude_mem(path, project, left_out)), left_out


def test_observations_their_facts_and_summaries_become_records(tmp_path: Path) -> None:
    """S7.1: with the time they were made; prompts are counted; the database is left as it is."""
    path = written(
        tmp_path,
        OBSERVATIONS + SUMMARIES,
        observations={
            "project": "tides", "type": "decision", "title": "Sample slowly", "subtitle": "Saves power",
            "narrative": "Every thirty seconds.", "facts": json.dumps(["The cell gives 2 W", " "]),
            "concepts": json.dumps(["trade-off"]), "files_read": json.dumps(["a.py"]),
            "files_modified": json.dumps(["a.py", "b.py"]), "created_at_epoch": 1_700_000_000_000,
        },
        session_summaries={"project": "tides", "request": "Fix it", "next_steps": "Ship\x00", "created_at_epoch": None},
    )  # fmt: skip
    before = hashlib.blake2b(path.read_bytes()).digest()
    (observed, fact, summary), left_out = read(path)
    assert (observed.kind, observed.text) == ("decision", "Sample slowly\nSaves power\nEvery thirty seconds.")
    assert observed.tags == ("decision", "trade-off")
    assert observed.details == {"files": ["a.py", "b.py"]}
    assert observed.occurred_at == 1_700_000_000.0
    assert (fact.kind, fact.text) == ("fact", "The cell gives 2 W")
    assert (summary.kind, summary.text) == ("episode", "Request: Fix it\nNext steps: Ship")
    assert left_out == {"prompts": 2}
    assert hashlib.blake2b(path.read_bytes()).digest() == before
    assert [each.name for each in tmp_path.iterdir()] == ["claude-mem.db"]


def test_an_early_database_has_fewer_columns_and_tables(tmp_path: Path) -> None:
    """S7.1: a text that is no list of texts stands for itself; what says nothing is counted."""
    script = """
    CREATE TABLE observations (id INTEGER PRIMARY KEY, project TEXT, type TEXT, text TEXT, facts TEXT);
    INSERT INTO observations (project, type, text, facts) VALUES
        ('tides', 'bugfix', 'The cable was loose.', 'not json'), ('tides', 'change', NULL, '{}');
    CREATE TABLE session_summaries (id INTEGER PRIMARY KEY, project TEXT);
    INSERT INTO session_summaries (project) VALUES ('tides');
    """
    items, left_out = read(written(tmp_path, script))
    assert [(item.kind, item.text) for item in items] == [("episode", "The cable was loose."), ("fact", "not json")]
    assert items[0].occurred_at is None
    assert left_out == {"observations that say nothing": 1, "summaries that say nothing": 1}


def test_of_several_projects_one_must_be_chosen(tmp_path: Path) -> None:
    """S7.1: none is mixed with another; what was merged into one is its own."""
    script = (
        OBSERVATIONS
        + """
    INSERT INTO observations (project, type, title, merged_into_project) VALUES
        ('tides', 'change', 'One', NULL), ('side', 'change', 'Two', 'tides'), ('other', 'change', 'Three', NULL);
    """
    )
    path = written(tmp_path, script)
    for project in (None, "side"):
        with pytest.raises(InvalidRequest, match="--project, and where it goes with --namespace: other, tides"):
            read(path, project)
    assert [item.text for item in read(path, "tides")[0]] == ["One", "Two"]


@pytest.mark.parametrize("what", ["nothing", "folder", "text", "stranger"])
def test_what_is_no_such_database_is_refused(tmp_path: Path, what: str) -> None:
    """S7.1."""
    path = tmp_path / "claude-mem.db"
    if what == "folder":
        path.mkdir()
    elif what == "text":
        path.write_text("no database " * 100)
    elif what == "stranger":
        written(tmp_path, "CREATE TABLE cats (id)")
    with pytest.raises(InvalidRequest, match=r"name (its file|claude-mem's own file)"):
        read(path)


@pytest.mark.parametrize("instant", [1e300, -1e300, float("inf"), 10**18, "soon"])
def test_what_is_no_date_is_none(tmp_path: Path, instant: object) -> None:
    """S7.1: every answer with such a record in it would fail."""
    row = {"project": "tides", "type": "discovery", "title": "High at noon", "created_at_epoch": instant}
    [item] = read(written(tmp_path, OBSERVATIONS, observations=row))[0]
    assert item.occurred_at is None


ROW: dict[str, object] = {"project": "tides", "type": "discovery", "title": "High at noon"}


def test_a_database_with_a_log_leaves_no_file_behind(tmp_path: Path) -> None:
    """S7.1, X6.4: as claude-mem keeps it; SQLite would make two files beside one whose log is gone."""
    path = written(tmp_path, f"PRAGMA journal_mode = WAL; {OBSERVATIONS}", observations=ROW)
    assert len(read(path)[0]) == 1
    assert [each.name for each in tmp_path.iterdir()] == ["claude-mem.db"]


def test_what_a_running_server_has_in_its_log_is_read(tmp_path: Path) -> None:
    """S7.1."""
    path = written(tmp_path, f"PRAGMA journal_mode = WAL; {OBSERVATIONS}")
    with closing(sqlite3.connect(path)) as running:
        running.execute("INSERT INTO observations (project, type, title) VALUES ('tides', 'discovery', 'New')")
        running.commit()
        assert [item.text for item in read(path)[0]] == ["New"]


@pytest.mark.parametrize("what", ["link", "pipe"])
@pytest.mark.parametrize("end", ["-journal", "-wal", "-shm"])
def test_what_lies_beside_it_and_is_no_ordinary_file_is_refused(tmp_path: Path, end: str, what: str) -> None:
    """X6.4: a link would be read wherever it leads; at a pipe SQLite would wait for ever."""
    path = written(tmp_path, OBSERVATIONS, observations=ROW)
    (tmp_path / "claude-mem.db-wal").touch()
    beside = tmp_path / f"claude-mem.db{end}"
    beside.unlink(missing_ok=True)
    beside.symlink_to("/etc/passwd") if what == "link" else os.mkfifo(beside)
    with pytest.raises(InvalidRequest, match=r"a symbolic link|not an ordinary file"):
        read(path)


def test_a_view_in_the_place_of_a_table_is_none(tmp_path: Path) -> None:
    """X6.4: this one never ends."""
    endless = "WITH RECURSIVE n(x) AS (VALUES (1) UNION ALL SELECT x + 1 FROM n) SELECT x AS id, 'p' AS project FROM n"
    with pytest.raises(InvalidRequest, match="no table of observations"):
        read(written(tmp_path, f"CREATE VIEW observations AS {endless}"))


@pytest.mark.parametrize("column", ["project", "merged_into_project", "id", "title", "created_at_epoch"])
def test_no_generated_column_is_computed(tmp_path: Path, column: str) -> None:
    """X6.4: whichever it is. This one fails where it is computed; another would search 60 MB for 30 MB."""
    stored = {"id": "1", "project": "'tides'", "merged_into_project": "NULL", "title": "'x'", "created_at_epoch": "0"}
    del stored[column]
    script = f"""
    CREATE TABLE observations ({", ".join(stored)}, text);
    INSERT INTO observations VALUES ({", ".join(stored.values())}, 'y');
    ALTER TABLE observations ADD COLUMN {column} AS (abs(-9223372036854775807 - length(text)));
    """
    path = written(tmp_path, script)
    if column == "project":
        with pytest.raises(InvalidRequest, match="no table of observations with their projects"):
            read(path)
    else:
        assert [item.text for item in read(path)[0]] == ["y" if column == "title" else "x\ny"]


@pytest.mark.parametrize("table", ["observations", "session_summaries", "user_prompts"])
def test_rows_without_end_are_given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, table: str) -> None:
    """X6.4: pages that name one page again and again make endless rows of one, in a file of some kilobytes."""
    script = f"PRAGMA page_size = 512; {OBSERVATIONS}{SUMMARIES}"
    path = written(tmp_path, script, observations=ROW, session_summaries={"project": "tides"})
    entangle(path, table)
    monkeypatch.setattr(claude_mem, "MAX_STEPS", 200_000)
    with pytest.raises(InvalidRequest, match="it takes more than 200,000 steps"):
        read(path)


def test_a_value_beyond_all_measure_is_not_read(tmp_path: Path) -> None:
    """X6.4."""
    path = written(tmp_path, OBSERVATIONS, observations=ROW)
    with closing(sqlite3.connect(path)) as database:
        database.execute("UPDATE observations SET title = zeroblob(?)", (MAX_ROW_BYTES + 1,))
        database.commit()
    with pytest.raises(InvalidRequest, match="too big"):
        read(path)


def test_a_text_that_is_no_utf_8_is_read_as_far_as_it_goes(tmp_path: Path) -> None:
    """X6.4: and hinders no other."""
    row = {**ROW, "facts": "[" * 100_000}
    path = written(tmp_path, OBSERVATIONS, observations=row)
    with closing(sqlite3.connect(path)) as database:
        database.execute("UPDATE observations SET title = CAST(x'48ff' AS TEXT)")
        database.commit()
    assert next(item.text for item in read(path)[0]) == "H\ufffd"


def test_of_many_projects_a_few_are_named(tmp_path: Path) -> None:
    """X3.2: an answer is not as long as somebody else's file."""
    path = written(tmp_path, OBSERVATIONS)
    with closing(sqlite3.connect(path)) as database:
        rows = [(f"p{number:04}{'x' * 500}", "change") for number in range(1000)]
        database.executemany("INSERT INTO observations (project, type) VALUES (?, ?)", rows)
        database.commit()
    with pytest.raises(InvalidRequest, match=r"p0000x{95}, .* and 980 more") as caught:
        read(path)
    assert len(str(caught.value)) < 3000
