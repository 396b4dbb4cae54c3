"""doctor over a real memory, its index made by a real server process, and what status shows of both."""

import hashlib
import json
import sqlite3
import stat
import sys
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from mcp_memory import locations
from mcp_memory.app import App
from mcp_memory.domain.model.records import NewRecord
from mcp_memory.entrypoints.cli import doctor
from mcp_memory.locations import FAILURES_FILE, NOTES_FOLDER
from mcp_memory.settings import Settings
from tests.stores.records.test_migration_copies import memory_of

if TYPE_CHECKING:
    from tests.entrypoints.cli.conftest import Run

OpenMemory = Callable[..., App]
SETTLE_SECONDS = 60.0
posix_only = pytest.mark.skipif(sys.platform == "win32", reason="Windows keeps profiles private by access lists")


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A person's folder without any client, and a project's below it."""
    home = tmp_path / "home"
    (home / "project").mkdir(parents=True)
    for name in ("HOME", "USERPROFILE"):
        monkeypatch.setenv(name, str(home))
    for name in ("APPDATA", "LOCALAPPDATA", "XDG_CONFIG_HOME", "CLAUDE_CONFIG_DIR", "CODEX_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.chdir(home / "project")
    return home


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
    """Of every file but the database's, which whoever opens it may tidy, the locks, and the words of an owner."""
    unstable = (".lock", ".json")
    files = [path for path in folder.rglob("*") if path.is_file() and path.suffix not in unstable]
    return {str(path): hashlib.blake2b(path.read_bytes()).hexdigest() for path in files if path.parent != folder}


@pytest.mark.usefixtures("memory")
def test_a_sound_memory_is_a_line_for_each_part(run: "Run") -> None:
    """S2.2, S7.1: as JSON a list."""
    ran = run("doctor")
    assert (ran.code, ran.err) == (0, "")
    lines = [line.split(maxsplit=2)[:2] for line in ran.out.splitlines()]
    parts = ["folder", "disk", "clients", "place", "database", "keywords", "vectors", "graph", "index"]
    assert lines == [["ok", f"{part}:"] for part in parts]
    findings = run("doctor", "--json").json
    assert [(each["part"], each["state"], each["remedy"]) for each in findings] == [(part, "ok", "") for part in parts]


def test_a_memory_in_another_folder_than_the_usual_one_says_who_named_it(
    run: "Run", memory: App, settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """S2.2: and that the usual one has a memory, where it has."""
    monkeypatch.setattr(locations, "default_data_dir", lambda: str(tmp_path / "usual"))
    usual = f"not the usual folder {tmp_path / 'usual'}, which has"
    named = f"ok       place: {settings.data_dir}, as MCP_MEMORY_DATA_DIR names it; {usual} no memory"
    assert named in run("doctor").out.splitlines()
    (tmp_path / "usual").mkdir()
    (tmp_path / "usual" / locations.MEMORY_FILE).touch()
    told = f"memory.db, as MCP_MEMORY_DATA_DIR names it; {usual} a memory"
    assert told in " ".join(run("status").out.split())
    file = tmp_path / "config.toml"
    file.write_text(f'data_dir = "{(tmp_path / "deep" / "x").as_posix()}"\n', "utf-8")
    monkeypatch.setenv("MCP_MEMORY_CONFIG", str(file))
    monkeypatch.delenv("MCP_MEMORY_DATA_DIR")
    assert f"as {file} names it; {usual} a memory" in run("doctor").out
    assert "as --data-dir names it" in run("doctor", "--data-dir", str(tmp_path / "other")).out
    assert run("doctor", "--data-dir", str(file)).err == f"mcp-memory: --data-dir: {file} is a file; name a folder.\n"


def test_what_is_wrong_ends_with_1_until_it_is_repaired(run: "Run", memory: App, settings: Settings) -> None:
    """S2.2: each on a line of its own with its remedy; looking alone changes nothing."""
    execute(settings, "DELETE FROM terms")
    revision = memory.records.revision()
    for _ in range(2):
        ran = run("doctor")
        assert ran.code == 1
        [line] = [line for line in ran.out.splitlines() if not line.startswith("ok")]
        assert line.startswith("wrong    keywords: 2 records cannot be found")
        assert "`mcp-memory doctor --repair`" in line
    ran = run("doctor", "--json")
    assert [each["part"] for each in json.loads(ran.out) if each["state"] == "wrong"] == ["keywords"]
    assert ran.code == 1
    assert memory.records.revision() == revision
    ran = run("doctor", "--repair")
    assert (ran.code, [line[:17] for line in ran.out.splitlines() if line[:2] != "ok"]) == (0, ["repaired keywords"])
    assert run("doctor").code == 0


@pytest.mark.usefixtures("memory")
def test_an_index_in_use_whole_and_damaged(
    run: "Run", open_memory: OpenMemory, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    """S2.2: whole it is left as it is, damaged it is dropped when asked to, and the next server builds it again."""
    monkeypatch.setenv("MCP_MEMORY_SEMANTIC_STORE", "chroma")
    memory = open_memory({"semantic_store": "chroma"})
    memory.index.start()
    assert memory.index.settle(SETTLE_SECONDS), memory.index.state()
    assert run("doctor").out.splitlines()[-1] == "ok       index directory: in use by a server, which keeps it itself"
    memory.close()
    shown = run("status", "--json").json["index_directory"]
    assert shown["clean"]
    assert "Chroma, all 2 vectors indexed (change" in " ".join(run("status").out.split())
    before = digests(settings.data_dir)
    assert run("doctor").out.splitlines()[-1] == f"ok       index directory: whole up to change {shown['applied']}"
    assert digests(settings.data_dir) == before
    (settings.data_dir / "chroma" / "index" / "chroma.sqlite3").write_bytes(b"garbled" * 1000)
    ran = run("doctor")
    assert ran.code == 1
    assert ran.out.splitlines()[-1].startswith(
        "wrong    index directory: its files are damaged. `mcp-memory doctor --repair`"
    )
    assert ran.out.splitlines()[-2].endswith("; a server has yet to fill the index of Chroma")
    assert (
        run("doctor", "--repair")
        .out.splitlines()[-1]
        .startswith("repaired index directory: its files are damaged; dropped")
    )
    assert not (settings.data_dir / "chroma" / "index").exists()


@pytest.mark.usefixtures("memory")
def test_status_counts_the_hooks_that_failed(run: "Run", settings: Settings) -> None:
    """U1.1: as the page's Health does, in the same sentence."""
    assert "Nothing needs your attention." in run("status").out
    failures = settings.data_dir / NOTES_FOLDER / FAILURES_FILE
    failures.parent.mkdir(exist_ok=True)
    failures.write_text(f"{time.time():.0f} Stop\n{time.time():.0f} Stop\n1 Start\n", "utf-8")
    shown = " ".join(run("status").out.split())
    assert "Hooks that failed 2 Stop" in shown
    assert "One thing needs your attention." in shown


@pytest.mark.usefixtures("memory")
def test_status_shows_index_graph_and_what_waits(run: "Run", settings: Settings) -> None:
    """C9.1, S2.2: before there is an index too."""
    assert "Search by meaning exact search over 2 vectors" in " ".join(run("status").out.split())
    assert "waiting" not in run("status").out
    execute(settings, "DELETE FROM vectors WHERE row = 1")
    execute(settings, "INSERT INTO unembedded VALUES (1)")
    assert run("status", "--json").json["unembedded"] == 1
    assert "1 memory not yet in it" in run("status").out
    assert run("doctor", "--repair").code == 0
    assert "waiting" not in run("status").out


@posix_only
@pytest.mark.usefixtures("memory")
def test_what_others_may_read_is_said_and_made_private(run: "Run", settings: Settings) -> None:
    """S5.1, S7.1: the folder and the files in it; what else lies there stays as it is."""
    (settings.data_dir / "memory.db.before-x").touch(0o644)
    settings.data_dir.chmod(0o755)
    [line] = [line for line in run("doctor").out.splitlines() if not line.startswith("ok")]
    assert line.startswith(
        "wrong    folder: others may read 2 in it (data, memory.db.before-x). Only their owner should read them"
    )
    ran = run("doctor", "--repair")
    assert (ran.code, ran.out.splitlines()[0][:17]) == (0, "repaired folder: ")
    assert stat.S_IMODE(settings.data_dir.stat().st_mode) == 0o700
    assert stat.S_IMODE((settings.data_dir / "memory.db.before-x").stat().st_mode) == 0o600
    assert run("doctor").code == 0


@pytest.mark.usefixtures("memory")
@pytest.mark.skipif(sys.platform == "win32", reason="profiles are private by their own access lists")
def test_what_is_not_the_memorys_stays_open(run: "Run", settings: Settings) -> None:
    """S7.1: a memory may lie in a folder where others have something to do."""
    program = settings.data_dir / "program"
    program.touch(0o755)
    program.chmod(0o755)
    settings.data_dir.chmod(0o755)
    (settings.data_dir / "memory.db.before-x").touch(0o644)
    assert run("doctor", "--repair").out.startswith("repaired folder: others may read 1 in it (memory.db.before-x)")
    assert [stat.S_IMODE(path.stat().st_mode) for path in (program, settings.data_dir)] == [0o755, 0o755]
    assert run("doctor").code == 0


@pytest.mark.usefixtures("memory")
def test_little_room_is_said(run: "Run", monkeypatch: pytest.MonkeyPatch) -> None:
    """S2.3, S7.1: before writes are refused for it."""
    monkeypatch.setattr(doctor, "LEAST_FREE_BYTES", 2**62)
    [line] = [line for line in run("doctor").out.splitlines() if not line.startswith("ok")]
    assert line.startswith("wrong    disk: ")
    assert line.endswith("GB free. Free some, or writes will be refused.")


@pytest.mark.usefixtures("memory")
def test_clients_that_cannot_start_the_server_are_named(run: "Run", home: Path) -> None:
    """S7.1: with the command that puts it right; one that can is named as well."""
    (home / ".cursor").mkdir()
    entry = {"command": sys.executable, "args": ["-m", "mcp_memory", "serve"]}
    config = home / ".cursor" / "mcp.json"
    config.write_text(json.dumps({"mcpServers": {"memory": entry}}))
    assert "ok       clients: Cursor can start the server" in run("doctor").out.splitlines()
    config.write_text(json.dumps({"mcpServers": {"memory": {**entry, "command": str(home / "gone" / "mcp-memory")}}}))
    ran = run("doctor")
    [line] = [line for line in ran.out.splitlines() if not line.startswith("ok")]
    assert ran.code == 1
    assert line.startswith("wrong    clients: Cursor. ")
    assert "mcp-memory install cursor" in line


def test_a_client_that_has_the_plugin_and_an_entry_is_named(run: "Run", home: Path) -> None:
    """S7.1: it starts both, and its agent has each tool twice; the plugin alone is enough."""
    listed = home / ".claude" / "plugins" / "installed_plugins.json"
    listed.parent.mkdir(parents=True)
    listed.write_text('{"version": 2, "plugins": {"memory@mcp-memory": [{"scope": "user"}]}}', "utf-8")
    assert "ok       clients: Claude Code can start the server" in run("doctor").out.splitlines()
    config = home / ".claude.json"
    config.write_text(json.dumps({"mcpServers": {"memory": {"command": sys.executable, "args": ["-m", "mcp_memory"]}}}))
    told = f"twice, by its plugin and by the entry in {config}. One is enough: `mcp-memory uninstall claude-code`."
    assert f"ok       clients: Claude Code has the server {told}" in run("doctor").out.splitlines()


def test_a_store_of_a_newer_version_is_a_finding(run: "Run", memory: App, settings: Settings) -> None:
    """S2.3, S7.1: as is one that cannot be read; what surrounds it is examined all the same."""
    memory.close()
    execute(settings, "PRAGMA user_version = 99")
    ran = run("doctor", "--json")
    findings = json.loads(ran.out)
    assert (ran.code, ran.err) == (1, "")
    assert [each["part"] for each in findings] == ["folder", "disk", "clients", "place", "database"]
    assert "update mcp-memory" in findings[-1]["says"]


def test_without_a_memory_what_surrounds_it_is_examined(run: "Run", settings: Settings, home: Path) -> None:
    """S7.1, S3.1: none is made, and that there is none is no fault; a client that cannot start it is."""
    ran = run("doctor")
    assert (ran.code, ran.err) == (0, "")
    clients, _place, database = ran.out.splitlines()
    assert clients.startswith("ok       clients: none has the server yet")
    assert database.startswith(f"ok       database: none at {settings.data_dir} yet; ")
    assert not settings.data_dir.exists()
    (home / ".cursor").mkdir()
    (home / ".cursor" / "mcp.json").write_text("{")
    assert run("doctor").code == 1


@pytest.mark.usefixtures("memory")
def test_an_index_that_is_not_there_is_missed_by_large_memories_alone(
    run: "Run", monkeypatch: pytest.MonkeyPatch
) -> None:
    """S2.2, O4.1: below the setting's number the exact search answers anyway."""
    exactly = "exact search over 2 vectors; Chroma takes over from 20,000 in one scope"
    assert run("doctor").out.splitlines()[-1] == f"ok       index: {exactly}"
    assert exactly in " ".join(run("status").out.split())
    monkeypatch.setenv("MCP_MEMORY_SEMANTIC_STORE", "chroma")
    assert run("doctor").out.splitlines()[-1].endswith("; a server has yet to fill the index of Chroma")


def test_what_waits_for_a_server_is_no_fault(run: "Run", memory: App, settings: Settings) -> None:
    """S2.2: it is told by its number, and search says that the others are searched."""
    execute(settings, "DELETE FROM vectors WHERE row = 1")
    assert run("doctor").code == 1
    execute(settings, "INSERT INTO unembedded VALUES (1)")
    ran = run("doctor")
    assert ran.code == 0
    assert "ok       vectors: 1 record waits to be embedded. A server embeds them, or `mcp-memory reindex`" in ran.out
    said = run("search", "dog").err
    assert "Searched in part only; vector: 1 record is not embedded yet, and found by words alone; all others" in said


def test_the_copy_that_a_migration_made_is_named_and_brings_back_what_was(run: "Run", settings: Settings) -> None:
    """G1.1, G1.2: a memory of an older schema is opened, and gone back to, by the same version."""
    memory_of(9, settings.data_dir)
    assert run("add", "The dog barks.").code == 0
    copy = settings.data_dir / "memory.db.schema-9"
    remedy = (
        f'Without servers, `mcp-memory restore-backup "{copy}"` goes back to it and keeps the present one beside it.'
    )
    [finding] = [each for each in run("doctor", "--json").json if each["part"] == "copies"]
    assert finding["says"].startswith(f"{copy} (0.")
    assert finding["says"].endswith(" MB) is the memory of schema 9 as it was before a migration or `restore-backup`")
    assert (finding["state"], finding["remedy"]) == ("ok", remedy)
    assert f"ok       copies: {finding['says']}. {remedy}" in run("doctor").out.splitlines()
    kept = run("restore", str(copy), "--json").json["kept"]
    assert [each["text"] for each in run("list", "--json").json["results"]] == ["The port is 5432."]
    assert run("doctor").code == 0
    Path(kept).write_bytes(b"garbled" * 1000)
    told = [(each["state"], each["says"]) for each in run("doctor", "--json").json if each["part"] == "copies"]
    assert [says.split(" (")[0] for _, says in told] == [str(copy), kept]
    assert told[1] == ("ok", f"{kept} (0.0 MB), damaged, is kept as it is")


def test_what_is_erased_is_deleted_with_the_copy_that_holds_it(run: "Run", settings: Settings) -> None:
    """G1.1, R9: and only then."""
    memory_of(9, settings.data_dir)
    later = run("add", "The dog barks.", "--json").json["id"]
    assert run("forget", later, "--erase", "--yes", "--json").json == {"erased": [later]}
    copy = settings.data_dir / "memory.db.schema-9"
    assert copy.exists()
    ran = run("forget", "r000001", "--erase", "--yes")
    told = "Copies beside the memory that held it were deleted with it: memory.db.schema-9."
    assert ran.out == f"Erased: r000001. {told}\n"
    assert not copy.exists()
