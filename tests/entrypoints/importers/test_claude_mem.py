"""claude-mem's database, of several versions."""

import hashlib
import json
import sqlite3
from collections import Counter
from contextlib import closing
from pathlib import Path

import pytest

from mcp_memory.domain.records import NewRecord
from mcp_memory.entrypoints.importers.claude_mem import read_claude_mem
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
    assert (summary.kind, summary.text) == ("episode", "Request: Fix it\nNext steps: Ship\ufffd")
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
