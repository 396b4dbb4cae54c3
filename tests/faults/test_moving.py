"""Memories that are carried elsewhere while others write, and by processes that are killed."""

import os
import subprocess
import time
from collections.abc import Iterator
from io import BytesIO
from pathlib import Path
from typing import Any

import pytest

from mcp_memory.app import App, open_app
from mcp_memory.domain.model.records import NewRecord
from mcp_memory.entrypoints.transfer.memory_file import write_memory
from mcp_memory.settings import load_settings
from mcp_memory.wiring import restore_backup
from tests.forked import ForkedProcess, run_forked

PATIENCE_SECONDS = 60.0
ACKNOWLEDGED = 5
WRITER = """
import itertools, sys
from mcp_memory.app import open_app
from mcp_memory.domain.model.records import NewRecord
from mcp_memory.services.memory.revise import Revision
from mcp_memory.settings import load_settings

app = open_app(load_settings(data_dir=sys.argv[1], namespace="test"))
for turn in itertools.count():
    stored = app.remember([NewRecord(text=f"Note {turn}.{part}", kind="fact") for part in range(3)], app.caller())
    app.revise(Revision(id=stored[0].id, text=f"Corrected note {turn}"), app.caller())
    print(" ".join(each.id for each in stored), flush=True)
"""


@pytest.fixture
def writer(tmp_path: Path) -> "Iterator[subprocess.Popen[str]]":
    """A process that never stops writing; it names what was acknowledged, a line for each write."""
    with ForkedProcess(str(tmp_path / "data"), code=WRITER, stdout=subprocess.PIPE, text=True) as process:
        yield process
        process.kill()


def acknowledged(writer: "subprocess.Popen[str]") -> set[str]:
    """Ids of a few more writes."""
    assert writer.stdout is not None
    return {each for _ in range(ACKNOWLEDGED) for each in writer.stdout.readline().split()}


def opened(folder: Path) -> App:
    return open_app(load_settings(data_dir=folder, namespace="test"))


def run(*arguments: str, data_dir: Path) -> None:
    """The program itself."""
    variables = {**os.environ, "MCP_MEMORY_DATA_DIR": str(data_dir), "MCP_MEMORY_NAMESPACE": "test"}
    run_forked(*arguments, env=variables, check=True, timeout=PATIENCE_SECONDS)


def assert_whole(copy: App, ids: set[str]) -> None:
    """What was acknowledged is there, each write whole, and all that is derived agrees with it."""
    where = copy.caller().scopes
    assert copy.records.get(ids, where).keys() == ids
    assert [finding for finding in copy.examine(repair=False) if finding.state != "ok"] == []
    assert copy.status(copy.caller()).memory.summary.records["fact"] % 3 == 0


def test_a_backup_and_an_export_taken_under_load_are_consistent(
    writer: "subprocess.Popen[str]", tmp_path: Path
) -> None:
    """S7.1, R1: each of one moment, with all that was acknowledged before it began; what is restored goes on."""
    ids = acknowledged(writer)
    run("backup", str(tmp_path / "copy.db"), data_dir=tmp_path / "data")
    ids_later = ids | acknowledged(writer)
    run("export", str(tmp_path / "memory.jsonl"), data_dir=tmp_path / "data")
    assert acknowledged(writer)
    writer.kill()
    settings = load_settings(data_dir=tmp_path / "restored", namespace="test")
    restore_backup(settings, tmp_path / "copy.db", "now")
    copy = opened(tmp_path / "restored")
    assert_whole(copy, ids)
    copy.remember([NewRecord(text="Goes on.")], copy.caller())
    copy.close()
    run("import", str(tmp_path / "memory.jsonl"), data_dir=tmp_path / "imported")
    copy = opened(tmp_path / "imported")
    assert_whole(copy, ids_later)
    copy.close()


def test_an_import_that_is_killed_leaves_all_of_it_or_nothing(tmp_path: Path) -> None:
    """S2.1, S7.1: and the next one finds an empty memory, or a whole one."""
    source = opened(tmp_path / "data")
    source.remember([NewRecord(text=f"Note {number}") for number in range(300)], source.caller(), advise=False)
    exported = BytesIO()
    write_memory(source.moving.leave(), exported, lambda done, total: None)
    source.close()
    written = exported.getvalue()
    target = tmp_path / "copy"
    variables = {**os.environ, "MCP_MEMORY_DATA_DIR": str(target), "MCP_MEMORY_NAMESPACE": "test"}
    pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stderr": subprocess.DEVNULL}
    with ForkedProcess("import", "-", **pipes, env=variables) as process:
        assert process.stdin is not None
        process.stdin.write(written)
        process.stdin.close()
        deadline = time.monotonic() + PATIENCE_SECONDS
        while not _has_begun(target) and time.monotonic() < deadline:
            time.sleep(0.01)
        process.kill()
    copy = opened(target)
    assert copy.records.count_all() in (0, 300)
    copy.close()


def _has_begun(folder: Path) -> bool:
    log = folder / "memory.db-wal"
    return log.exists() and log.stat().st_size > 0


def test_others_write_while_what_is_imported_still_comes(tmp_path: Path) -> None:
    """S1.1, S7.1: from a slow pipe; only what is there is entered, all of it at once."""
    source, target = opened(tmp_path / "data"), opened(tmp_path / "there")
    source.remember([NewRecord(text=f"Note {number}.") for number in range(20)], source.caller())
    written = BytesIO()
    write_memory(source.moving.leave(), written, lambda done, total: None)
    target.remember([NewRecord(text="First.")], target.caller())
    lines = written.getvalue().splitlines(keepends=True)
    pipes: dict[str, Any] = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
    with ForkedProcess("import", "-", "--data-dir", str(tmp_path / "there"), **pipes) as importing:
        assert importing.stdin is not None
        assert importing.stderr is not None
        importing.stdin.write(b"".join(lines[:10]))
        importing.stdin.flush()
        with pytest.raises(subprocess.TimeoutExpired):
            importing.wait(3.0)
        assert target.remember([NewRecord(text="Meanwhile.")], target.caller())[0].status == "stored"
        importing.stdin.write(b"".join(lines[10:]))
        out, err = importing.communicate(timeout=PATIENCE_SECONDS)
    assert importing.returncode == 0, err
    assert b"20 records stored" in out
    source.close()
    target.close()
