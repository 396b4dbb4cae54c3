"""The demo as a newcomer runs it: one process, against a real server."""

import json
import os
import re
import subprocess
import sys
import tempfile
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import anyio
import psutil
import pytest

from mcp_memory.encoders.tokens_tiktoken import TiktokenCounter
from mcp_memory.entrypoints.cli.demo import STORY, DemoFailed, Scene, play
from tests.hostile_folder import HostileFolder

KEY_PREFIX = "AKIA"


def run_demo(tmp_path: Path, *arguments: str, folder: Path | None = None) -> "subprocess.CompletedProcess[str]":
    """The demo with a temporary directory, a home and settings of its own, started in the folder."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("MCP_MEMORY_")}
    temporary = dict.fromkeys(("TMPDIR", "TEMP", "TMP"), str(tmp_path))
    # A person's own settings; the demo must neither read nor touch that person's memory.
    own = {"MCP_MEMORY_DATA_DIR": str(tmp_path / "own"), "MCP_MEMORY_REDACT_SECRETS": "false"}
    command = [sys.executable, "-I", "-m", "mcp_memory", "demo", *arguments]
    environment = kept | temporary | own | {"COLUMNS": "300", "PYTHONIOENCODING": "utf-8"}
    return subprocess.run(command, env=environment, cwd=folder, capture_output=True, encoding="utf-8", check=False)


def scenes(steps: list[dict[str, Any]], name: str) -> list[dict[str, Any]]:
    return [step["result"] for step in steps if step["name"] == name]


def test_the_demo_shows_what_it_promises_and_leaves_nothing_behind(tmp_path: Path) -> None:
    """S7.1, R1, R4, R8, T1.3, A3.1, S2.1."""
    ran = run_demo(tmp_path, "--json")
    assert (ran.returncode, ran.stderr) == (0, "")
    steps = json.loads(ran.stdout)["steps"]
    [stored] = scenes(steps, "remember")
    assert "[REDACTED" in stored["redacted"]["text"]
    assert KEY_PREFIX not in ran.stdout
    by_word, by_meaning, corrected = (scene["results"] for scene in scenes(steps, "recall"))
    assert "anemometer" in by_word[0]["text"]
    assert by_meaning[0]["kind"] == "censor"
    assert not by_meaning[0]["signals"].get("keyword")
    assert corrected[0]["earlier"].startswith("before r")
    assert "superseded" not in [each.get("status") for each in corrected]
    [context] = scenes(steps, "context")
    assert TiktokenCounter("o200k_base").count(context["text"]) == context["counted_tokens"]
    assert context["counted_tokens"] == context["context"]["token_count"] <= context["max_tokens"]
    assert "- dead end (failed)" in context["text"]
    assert re.search(r"\*\*BLOCK:\*\* .*Never flash", context["text"])
    [killed] = scenes(steps, "kill")
    [resumed] = scenes(steps, "resume")
    assert resumed["before"] == resumed["after"]
    assert resumed["same_context"]
    assert [task["status"] for task in resumed["tasks"][0]["subtasks"]] == ["complete", "failed", "active"]
    assert killed["killed"]
    assert not any(psutil.pid_exists(pid) for pid in killed["killed"])
    assert list(tmp_path.iterdir()) == []


def test_the_demo_is_readable(tmp_path: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    """S7.1, X1.1: in any folder, of which neither it nor its servers run anything."""
    hostile = HostileFolder(tmp_path_factory.mktemp("hostile"))
    ran = run_demo(tmp_path, folder=hostile.path)
    assert (ran.returncode, ran.stderr) == (0, "")
    assert hostile.take_witness() == []
    assert "[REDACTED" in ran.stdout
    assert "dead end" in ran.stdout
    assert "(before r" in ran.stdout
    assert f"of {STORY['max_tokens']} tokens" in ran.stdout
    assert "30 of 30 records" in ran.stdout
    program = r"\S+( --from mcp-memory-stack python)? -I -m mcp_memory"
    assert re.search(rf"Install it in Claude Code: {program} install claude-code$", ran.stdout, re.MULTILINE)
    assert re.search(r"^(Process \d+ is|Processes \d+(, \d+)+ are) gone\.$", ran.stdout, re.MULTILINE)


def test_a_demo_that_is_refused_says_why_and_leaves_nothing_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """S7.1."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    before = set(psutil.Process().children(recursive=True))
    story = {**STORY, "questions": [{"shows": "nothing", "query": "x" * 200_000}]}
    seen: list[Scene] = []
    with pytest.raises(DemoFailed, match="recall was refused"):
        anyio.run(play, story, datetime(2026, 11, 20, tzinfo=UTC), len, seen.append)
    assert [scene.name for scene in seen] == ["start", "remember", "correct"]
    assert set(psutil.Process().children(recursive=True)) == before
    assert list(tmp_path.iterdir()) == []


def test_a_demo_whose_server_dies_says_what_its_log_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """S7.1."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))

    def take_the_server_away(scene: Scene) -> None:
        if scene.name == "correct":
            for process in set(psutil.Process().children(recursive=True)) - before:
                process.kill()

    before = set(psutil.Process().children(recursive=True))
    with pytest.raises(DemoFailed, match="server went away"):
        anyio.run(play, STORY, datetime(2026, 11, 20, tzinfo=UTC), len, take_the_server_away)
    assert list(tmp_path.iterdir()) == []
