"""What a user is told when the disk, a file or the clock fails: the words of docs/faults.md, from real processes."""

from __future__ import annotations

import json
import os
import shutil
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from contextlib import closing, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from mcp_memory.domain.model.records import NewRecord
from mcp_memory.entrypoints.server.status_answers import show_status
from mcp_memory.errors import StoreUnavailable
from mcp_memory.services.context.assemble import ContextRequest
from mcp_memory.services.retrieval.recall import RecallRequest
from mcp_memory.stores.records.database_sqlite import SqliteDatabase
from tests.chroma import until
from tests.e2e.conftest import ServerProcess, server_environment
from tests.faults.documented import documented
from tests.forked import run_forked

if TYPE_CHECKING:
    from mcp_memory.app import App
    from tests.conftest import Clock

WORDS = "word " * 500
MOUNTED = """
import ctypes, os, subprocess
ids = {"setgroups": "deny", "uid_map": f"0 {os.getuid()} 1", "gid_map": f"0 {os.getgid()} 1"}
assert ctypes.CDLL(None).unshare(0x10020000) == 0  # CLONE_NEWUSER | CLONE_NEWNS
for name, says in ids.items():
    with open(f"/proc/self/{name}", "w") as file:
        file.write(says)
subprocess.run(["sh", "-c", before, *arguments], check=True)
from mcp_memory.__main__ import main
try:
    main()
finally:
    subprocess.run(["sh", "-c", after, *arguments], check=True)
"""
Start = Callable[..., ServerProcess]
posix = pytest.mark.skipif(sys.platform == "win32", reason="file modes and signals are POSIX's")
linux = pytest.mark.skipif(
    sys.platform != "linux", reason="mounts a file system of its own, as only Linux lets any user"
)


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A data directory with twenty records, which no process has open."""
    folder = tmp_path_factory.mktemp("filled") / "data"
    server = ServerProcess(folder)
    items = [{"text": f"Build {number} runs on port {8000 + number}. {WORDS}"} for number in range(20)]
    server.call("remember", items=items)
    owned = server.owner
    server.stop()
    owned.wait(60)
    with closing(sqlite3.connect(folder / "memory.db")) as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    return folder


@pytest.fixture
def data_dir(filled: Path, tmp_path: Path) -> Path:
    """A copy to be broken."""
    return Path(shutil.copytree(filled, tmp_path / "data", ignore=shutil.ignore_patterns("chroma", "live")))


def refused(server: ServerProcess, tool: str, **arguments: object) -> str:
    result = server.call(tool, **arguments)
    assert result["isError"], result
    return result["content"][0]["text"]


def answered(server: ServerProcess, tool: str, **arguments: object) -> dict[str, Any]:
    result = server.call(tool, **arguments)
    assert not result["isError"], result
    return result


def run(data_dir: Path, *arguments: str, code: str = "") -> subprocess.CompletedProcess[str]:
    """A command, or a server whose client leaves at once."""
    return run_forked(*arguments, code=code, input="", env=server_environment(data_dir), text=True, timeout=60)


def mounted(script: str, *arguments: object, after: str = "") -> str:
    """The code of a program that runs this script first, in a mount name space of its own, and another one last.

    Both have the arguments. Skips where nobody may.
    """
    before, texts = f"mount --make-rprivate / && {script}", [str(each) for each in arguments]
    if subprocess.run(
        ["unshare", "--map-root-user", "--mount", "sh", "-c", before, *texts], capture_output=True, check=False
    ).returncode:
        pytest.skip("this machine lets nobody mount a small file system (unshare --map-root-user --mount)")
    return f"before, after, arguments = {before!r}, {after!r}, {texts!r}\n{MOUNTED}"


@linux
def test_on_a_full_disk_a_server_goes_on_answering_and_stores_again_once_there_is_room(
    tmp_path: Path, start: Start
) -> None:
    """S2.3: nothing is acknowledged that is not stored, also of a compaction; what was stored is found all along."""
    folder = tmp_path / "data"
    folder.mkdir()
    server = start(folder, code=mounted('mount -t tmpfs -o size=4m none "$0"', folder))
    answered(server, "remember", text="The build runs on port 8123.")
    messages = [{"role": "user", "content": f"Please look at part {number}. {WORDS}"} for number in range(40)]
    answered(server, "compact", session_id="long", window=1_000_000, messages=messages)
    ballast = Path(f"/proc/{server.process.pid}/root{folder}") / "ballast"
    with suppress(OSError), ballast.open("wb", buffering=0) as file:
        while file.write(b"x" * 4096):
            pass
    full = documented("full-disk")
    assert full.fullmatch(refused(server, "remember", text=f"Another fact. {WORDS * 8}"))
    assert full.fullmatch(refused(server, "push_task", goal="Free some space"))
    assert full.fullmatch(refused(server, "compact", session_id="long", window=2_000, force=True))
    assert "8123" in str(answered(server, "recall", query="which port")["structuredContent"])
    assert "8123" in answered(server, "assemble_context", query="which port")["content"][0]["text"]
    ballast.unlink()
    answered(server, "remember", text="The deploy takes four minutes.")
    done = answered(server, "compact", session_id="long", window=2_000, force=True)["structuredContent"]
    assert done["saved"] > 0
    found = answered(server, "recall", limit=100, kinds=["fact"])["structuredContent"]["results"]
    assert sorted(each["text"] for each in found) == ["The build runs on port 8123.", "The deploy takes four minutes."]


@linux
def test_a_backup_for_which_there_is_no_room_leaves_nothing_half(data_dir: Path, tmp_path: Path) -> None:
    """S2.3: the message names the disk that is full."""
    small = tmp_path / "small"
    small.mkdir()
    code = mounted('mount -t tmpfs -o size=64k none "$0"', small, after='ls -A "$0"')
    ended = run(data_dir, "backup", str(small / "copy.db"), code=code)
    assert ended.stdout == ""
    assert documented("full-disk-of-a-backup").fullmatch(ended.stderr), ended.stderr
    assert run(data_dir, "backup", str(tmp_path / "copy.db")).returncode == 0


@linux
@pytest.mark.parametrize("fault", ["read-only-folder", "read-only-store"])
def test_a_file_system_that_is_read_only_is_named_with_the_remedy(data_dir: Path, tmp_path: Path, fault: str) -> None:
    """S2.3: for servers and commands alike, whoever starts them."""
    copying = 'cp -r "$1"/. "$0" && mkdir -p -m 700 "$0"/live' if fault == "read-only-store" else "true"
    script = f'mount -t tmpfs none "$0" && {copying} && chmod 700 "$0" && mount -o remount,ro "$0"'
    empty = tmp_path / "empty"
    empty.mkdir()
    ended = run(empty, code=mounted(script, empty, data_dir))
    assert ended.returncode == 1
    assert documented(fault).fullmatch(ended.stderr), ended.stderr


def damage(path: Path, how: str) -> None:
    size = path.stat().st_size
    if how == "cut":
        os.truncate(path, size // 3 // 4096 * 4096)
        return
    with path.open("r+b") as file:
        file.seek(0 if how == "header" else 4096)
        file.write(b"\x55" * (100 if how == "header" else size - 4096))


@pytest.mark.parametrize("how", ["header"])
def test_a_damaged_database_is_left_as_it_is_and_kept_beside_its_repair(
    data_dir: Path, tmp_path: Path, start: Start, how: str
) -> None:
    """S2.3: from what is told one can go back to a backup, and nothing of the damaged file is lost."""
    backup, database = tmp_path / "backup.db", data_dir / "memory.db"
    assert run(data_dir, "backup", str(backup)).returncode == 0
    with closing(sqlite3.connect(database)) as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    damage(database, how)
    damaged = database.read_bytes()
    ended = run(data_dir)
    assert (ended.returncode, ended.stdout) == (1, "")
    assert documented("damaged").fullmatch(ended.stderr), ended.stderr
    assert database.read_bytes() == damaged
    assert run(data_dir, "restore", str(backup)).returncode == 0
    (kept,) = (path for path in data_dir.glob("memory.db.before-*") if path.suffix not in (".db-wal", ".db-shm"))
    assert kept.read_bytes() == damaged
    found = answered(start(data_dir), "recall", query="which port has build 7")
    assert "8007" in str(found["structuredContent"])


@posix
@pytest.mark.parametrize(("how", "fault"), [("cut", "overwritten"), ("inside", "damaged")])
def test_a_server_whose_database_is_damaged_under_it_says_so_and_stays_up(
    data_dir: Path, start: Start, how: str, fault: str
) -> None:
    """S2.3, X6.2: call after call, and writes nothing more into the file: it would be lost with it."""
    server = start(data_dir)
    answered(server, "recall", query="which port")
    damage(data_dir / "memory.db", how)
    asks = (
        ("recall", {"query": "what is word"}),
        ("remember", {"text": "Another fact."}),
        ("push_task", {"goal": "Go on"}),
    )
    for tool, arguments in asks * 2:
        assert documented(fault).fullmatch(refused(server, tool, **arguments))
    assert server.process.poll() is None


@posix
def test_a_log_without_its_database_is_not_thrown_away(data_dir: Path, start: Start) -> None:
    """S2.3: emptied or deleted, the log may hold all that can be saved; moved away, one can begin anew."""
    database, log = data_dir / "memory.db", data_dir / "memory.db-wal"
    server = start(data_dir)
    answered(server, "remember", text="Only in the log yet.")
    server.kill_owner()
    server.stop()
    said = log.read_bytes()
    assert b"Only in the log yet." in said
    for lose in (lambda: os.truncate(database, 0), database.unlink):
        lose()
        with pytest.raises(StoreUnavailable) as told:
            SqliteDatabase(data_dir)
        assert documented("emptied").fullmatch(str(told.value))
        assert log.read_bytes() == said
    log.rename(data_dir / "saved-wal")
    SqliteDatabase(data_dir).close()


@posix
def test_a_database_that_was_moved_while_in_use_takes_no_writes(data_dir: Path, start: Start) -> None:
    """S2.3: they would go where nobody looks."""
    server = start(data_dir)
    (data_dir / "memory.db").rename(data_dir / "elsewhere.db")
    for _ in range(2):
        assert documented("moved").fullmatch(refused(server, "remember", text="Another fact."))
    assert not (data_dir / "memory.db").exists()


def test_a_store_of_the_future_is_not_opened(data_dir: Path) -> None:
    """S2.3: not a byte of it is changed."""
    database = data_dir / "memory.db"
    with closing(sqlite3.connect(database)) as connection:
        connection.execute("PRAGMA user_version = 999")
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    data = database.read_bytes()
    ended = run(data_dir)
    assert (ended.returncode, ended.stdout) == (1, "")
    assert documented("newer-schema").fullmatch(ended.stderr), ended.stderr
    assert database.read_bytes() == data


@posix
def test_a_server_whose_index_process_is_killed_answers_and_has_another(data_dir: Path, start: Start) -> None:
    """S2.1, S2.2: kill -9 of the one child; no answer is worse for it, and nobody has to do anything."""
    server = start(data_dir, {"MCP_MEMORY_SEMANTIC_STORE": "chroma"})
    this = server.owner

    def index_state() -> str:
        page = server.request("resources/read", {"uri": "memory://status"})["contents"][0]["text"]
        return json.loads(page)["index"]["state"]

    answered(server, "recall", query="which port")
    until(lambda: index_state() == "ready")
    (killed,) = this.children()
    os.kill(killed.pid, signal.SIGKILL)
    found = answered(server, "recall", query="which port has build 7")["structuredContent"]
    assert "8007" in found["results"][0]["text"]
    assert found["degraded"] == []
    until(lambda: [each.pid for each in this.children()] not in ([], [killed.pid]) and index_state() == "ready")


@posix
def test_a_client_that_goes_in_the_middle_of_a_call_leaves_all_of_it_or_nothing(data_dir: Path, start: Start) -> None:
    """S2.1: a hundred records in one call; the server ends, and the next one finds all of them or none."""
    server = start(data_dir)
    items = [{"text": f"Item {number} of the long list."} for number in range(100)]
    server.send_request("tools/call", {"name": "remember", "arguments": {"items": items, "tags": ["list"]}})
    server.close_input()
    server.stdout.close()
    server.process.wait(30)
    next_one = start(data_dir)
    page = next_one.request("resources/read", {"uri": "memory://status"})["contents"][0]["text"]
    assert json.loads(page)["records"]["fact"] in (20, 120)


def test_a_clock_that_jumps_back_loses_and_ages_nothing(open_memory: Callable[..., App], clock: Clock) -> None:
    """S2.3: ids go on growing, all is found, nothing is due too early, and what is of the future is just young."""
    memory = open_memory()
    me = memory.caller()
    before = memory.remember([NewRecord(text="The build ran on port 8123.", kind="episode")], me)[0].id
    context = memory.assemble_context(ContextRequest(query="build port"), me).report.id
    clock.advance(days=-400)
    after = memory.remember([NewRecord(text="The build runs on port 9000.")], me)[0].id
    assert after > before
    found = memory.recall(RecallRequest(query="which port does the build use"), me).results
    assert {str(each["id"]) for each in found} == {before, after}
    listed = memory.recall(RecallRequest(), me).results
    assert [each["id"] for each in listed] == [before, after]
    for strategy in ("recent", "balanced", "important", "clustered"):
        shown = memory.assemble_context(ContextRequest(query="build port", strategy=strategy), me)
        assert all(0 <= component.score <= 1 for component in shown.report.components), strategy
        assert {component.id for component in shown.report.components} >= {before, after}
    assert memory.inspect.context(context, me).id == context
    assert memory.maintain.step(patiently=False).records == 0
    json.dumps(show_status(memory.status(me)))
    clock.advance(days=400)
    assert memory.maintain.step(patiently=False).records == 0
    assert memory.recall(RecallRequest(ids=(after,)), me).results[0]["id"] == after
