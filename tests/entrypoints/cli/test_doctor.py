"""doctor over a real memory, its index made by a real server process, and what status shows of both."""

import hashlib
import json
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from mcp_memory.app import App
from mcp_memory.domain.records import NewRecord
from mcp_memory.settings import Settings

if TYPE_CHECKING:
    from tests.entrypoints.cli.conftest import Run

OpenMemory = Callable[..., App]
SETTLE_SECONDS = 60.0


@pytest.fixture
def memory(open_memory: OpenMemory) -> App:
    """With two records in it."""
    opened = open_memory()
    opened.remember([NewRecord(text="The cat sleeps."), NewRecord(text="The dog barks.")], opened.caller())
    return opened


def execute(settings: Settings, statement: str) -> None:
    """Change the database behind its back."""
    with closing(sqlite3.connect(settings.data_dir / "memory.db", isolation_level=None)) as database:
        database.execute(statement)


def digests(folder: Path) -> dict[str, str]:
    """Of every file but the database's, which whoever opens it may tidy, and the locks."""
    files = [path for path in folder.rglob("*") if path.is_file() and path.suffix != ".lock"]
    return {str(path): hashlib.blake2b(path.read_bytes()).hexdigest() for path in files if path.parent != folder}


@pytest.mark.usefixtures("memory")
def test_a_sound_memory_is_a_line_for_each_part(run: "Run") -> None:
    """S2.2, S7.1: as JSON a list."""
    ran = run("doctor")
    assert (ran.code, ran.err) == (0, "")
    lines = [line.split(maxsplit=2)[:2] for line in ran.out.splitlines()]
    parts = ["database", "keywords", "vectors", "graph", "index"]
    assert lines == [["ok", f"{part}:"] for part in parts]
    findings = run("doctor", "--json").json
    assert [(each["part"], each["state"], each["remedy"]) for each in findings] == [(part, "ok", "") for part in parts]


def test_what_is_wrong_ends_with_1_until_it_is_mended(run: "Run", memory: App, settings: Settings) -> None:
    """S2.2: each on a line of its own with its remedy; looking alone changes nothing."""
    execute(settings, "DELETE FROM terms")
    revision = memory.records.revision()
    for _ in range(2):
        ran = run("doctor")
        assert ran.code == 1
        [line] = [line for line in ran.out.splitlines() if not line.startswith("ok")]
        assert line.startswith("wrong  keywords: 2 records cannot be found")
        assert "`mcp-memory doctor --mend`" in line
    ran = run("doctor", "--json")
    assert [each["part"] for each in json.loads(ran.out) if each["state"] == "wrong"] == ["keywords"]
    assert ran.code == 1
    assert memory.records.revision() == revision
    ran = run("doctor", "--mend")
    assert (ran.code, [line[:15] for line in ran.out.splitlines() if line[:2] != "ok"]) == (0, ["mended keywords"])
    assert run("doctor").code == 0


def test_an_index_in_use_whole_and_damaged(run: "Run", memory: App, settings: Settings) -> None:
    """S2.2: whole it is left as it is, damaged it is dropped when asked to, and the next server makes it anew."""
    memory.index.start()
    assert memory.index.settle(SETTLE_SECONDS), memory.index.state()
    assert run("doctor").out.splitlines()[-1] == "ok     index 0: in use by a server, which keeps it itself"
    memory.close()
    shown = run("status", "--json").json["index_directories"]
    assert [(each["name"], each["clean"]) for each in shown] == [("0", True)]
    assert f"embedded, at change {shown[0]['applied']} of" in run("status").out
    before = digests(settings.data_dir)
    assert run("doctor").out.splitlines()[-1] == f"ok     index 0: whole up to change {shown[0]['applied']}"
    assert digests(settings.data_dir) == before
    (settings.data_dir / "index" / "0" / "chroma.sqlite3").write_bytes(b"garbled" * 1000)
    ran = run("doctor")
    assert ran.code == 1
    assert ran.out.splitlines()[-1].startswith("wrong  index 0: its files are damaged. `mcp-memory doctor --mend`")
    assert run("doctor", "--mend").out.splitlines()[-1].startswith("mended index 0: its files are damaged; dropped")
    assert not (settings.data_dir / "index" / "0").exists()


@pytest.mark.usefixtures("memory")
def test_status_shows_index_graph_and_what_waits(run: "Run", settings: Settings) -> None:
    """C9.1, S2.2: before there is an index too."""
    assert "embedded, no directory" in run("status").out
    assert "0 entities, 0 relations" in run("status").out
    assert "waiting" not in run("status").out
    execute(settings, "DELETE FROM vectors WHERE row = 1")
    execute(settings, "INSERT INTO meta VALUES ('unembedded', '1')")
    assert run("status", "--json").json["unembedded"] == 1
    assert "1 waiting for vectors" in run("status").out
    assert run("doctor", "--mend").code == 0
    assert "waiting" not in run("status").out


def test_doctor_makes_no_memory_and_says_so_in_one_line(run: "Run", settings: Settings) -> None:
    """S7.1, S3.1."""
    ran = run("doctor")
    assert (ran.code, ran.out) == (1, "")
    assert ran.err.startswith("mcp-memory: No memory at ")
    assert len(ran.err.splitlines()) == 1
    assert not settings.data_dir.exists()
