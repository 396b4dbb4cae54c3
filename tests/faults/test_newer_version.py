"""What becomes of a memory, and of whoever uses it, when a newer version changes its layout: real processes of both."""

from __future__ import annotations

import hashlib
import json
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

import mcp_memory
from mcp_memory.stores.records.schema_sqlite import migrations
from tests.e2e.conftest import ServerProcess, server_environment
from tests.faults.documented import documented
from tests.faults.test_what_is_told import linux, mounted, run
from tests.forked import PROGRAM, run_forked
from tests.stores.records.test_migration_copies import memory_of

NEWEST = len(migrations())
OPENING = "from mcp_memory import app, settings; app.open_app(settings.load_settings())"
MIGRATION = "CREATE TABLE of_the_future (value TEXT);\nINSERT INTO of_the_future SELECT text FROM records;"
Start = Callable[..., ServerProcess]


@pytest.fixture
def newer(tmp_path: Path) -> Mapping[str, str]:
    """What the environment of a newer version adds: this one, copied, with one more migration."""
    package = tmp_path / "newer" / "mcp_memory"
    shutil.copytree(Path(mcp_memory.__file__).parent, package)  # With what is compiled.
    (package / "stores" / "records" / "migrations" / f"{NEWEST + 1:04}_future.sql").write_text(MIGRATION, "utf-8")
    (package / "bridge" / "door.py").touch()  # By which an owner knows a later build: a copy keeps the former time.
    return {"PYTHONPATH": str(package.parent)}


def text_of(result: Mapping[str, Any]) -> str:
    return result["content"][0]["text"]


def refusal(result: Mapping[str, Any]) -> bool:
    assert result["isError"], result
    return documented("newer-schema").fullmatch(text_of(result)) is not None


def texts(result: Mapping[str, Any]) -> set[str]:
    assert not result["isError"], result
    return {each["text"] for each in result["structuredContent"]["results"]}


@linux
def test_without_room_for_the_copy_nothing_is_changed(tmp_path: Path) -> None:
    """G1.1: it is said in a sentence, and the older version goes on."""
    folder = tmp_path / "data"
    database = memory_of(NEWEST - 1, folder, fillers=500)
    data = database.read_bytes()
    small = tmp_path / "small"
    small.mkdir()
    before, after = 'mount -t tmpfs -o size=4m none "$0" && cp "$1" "$0"', 'ls -A "$0"; sha256sum < "$0/memory.db"'
    ended = run(small, "list", code=mounted(before, small, database, after=after))
    assert documented("full-disk-of-a-migration").fullmatch(ended.stderr), ended.stderr
    assert ended.stdout.split() == ["live", "memory.db", hashlib.sha256(data).hexdigest(), "-"]


def test_a_running_server_refuses_a_newer_file_at_its_next_call(
    tmp_path: Path,
    start: Start,
    newer: Mapping[str, str],
) -> None:
    """G1.2: to write and to read; nothing is lost, the newer version goes on, and a copy leads back."""
    folder = tmp_path / "data"
    server = start(folder)
    server.call("remember", text="The port is 5432.")
    assert texts(server.call("recall", query="port")) == {"The port is 5432."}
    migrating = [sys.executable, "-c", OPENING]  # Beside the process that owns the memory, as no program of ours does.
    told = {**server_environment(folder), **newer}
    subprocess.run(migrating, env=told, cwd=tmp_path, check=True, capture_output=True)
    for _ in range(2):
        assert refusal(server.call("remember", text="The port is 6543."))
        assert refusal(server.call("recall", query="port"))
        assert refusal(server.call("assemble_context", query="port"))
    assert server.process.poll() is None
    later = start(folder, newer, command=PROGRAM, folder=tmp_path)
    assert not later.call("remember", text="The host is db1.")["isError"]
    assert texts(later.call("recall", query="port host")) == {"The port is 5432.", "The host is db1."}
    with closing(sqlite3.connect(folder / "memory.db")) as connection:
        assert connection.execute("SELECT value FROM of_the_future").fetchall() == [("The port is 5432.",)]
    server.stop()
    later.stop()
    environment = server_environment(folder)
    shown = run_forked("doctor", "--json", input="", env=environment, text=True, timeout=60)
    (copy,) = (each for each in json.loads(shown.stdout) if each["part"] == "copies")
    assert f"memory.db.schema-{NEWEST} (" in copy["says"]
    path = copy["remedy"].split('"')[1]
    assert run_forked("restore", path, input="", env=environment, text=True, timeout=60).returncode == 0
    assert texts(start(folder).call("recall", query="port host")) == {"The port is 5432."}
