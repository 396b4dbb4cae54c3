"""The demo as a newcomer runs it: one process, against a real server."""

import os
import re
import sys
import tempfile
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import anyio
import psutil
import pytest
from mcp import StdioServerParameters

from mcp_memory.encoders.tokens_tiktoken import TiktokenCounter
from mcp_memory.entrypoints.cli import demo
from mcp_memory.entrypoints.cli.demo import STORY, DemoFailed, Scene, next_steps, play
from tests.forked import forked_stdio, run_forked
from tests.hostile_folder import HostileFolder

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.entrypoints.cli.conftest import Ran, Run

KEY_PREFIX = "AKIA"
ROOT = Path(__file__).parents[3]


@pytest.fixture(scope="module")
def played(tmp_path_factory: pytest.TempPathFactory) -> list[Scene]:
    """The scenes, played once with real servers: in a folder of which these run nothing, beside a memory of one's own.

    That the program itself runs nothing of its folder is tested of all commands; the demo leaves nothing behind.
    """
    hostile, temporary = HostileFolder(tmp_path_factory.mktemp("hostile")), tmp_path_factory.mktemp("temporary")
    shown: list[Scene] = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tempfile, "tempdir", str(temporary))
        patch.setenv("MCP_MEMORY_DATA_DIR", str(temporary / "own"))
        patch.setenv("MCP_MEMORY_REDACT_SECRETS", "false")
        patch.chdir(hostile.path)
        scenes = anyio.run(play, STORY, datetime.now(UTC), TiktokenCounter("o200k_base").count, shown.append)
    assert hostile.take_witness() == []
    assert list(temporary.iterdir()) == []
    assert shown == scenes
    return scenes


@pytest.fixture
def run_demo(played: list[Scene], run: "Run", monkeypatch: pytest.MonkeyPatch) -> "Callable[..., Ran]":
    """The command, which is given those scenes one after the other."""

    async def play_again(_story: object, *, show: "Callable[[Scene], None]", **_given: object) -> list[Scene]:
        for each in played:
            show(each)
        return played

    monkeypatch.setattr(demo, "play", play_again)
    monkeypatch.setenv("COLUMNS", "300")
    return partial(run, "demo")


def scenes(steps: list[dict[str, Any]], name: str) -> list[dict[str, Any]]:
    return [step["result"] for step in steps if step["name"] == name]


def test_the_demo_shows_what_it_promises(run_demo: "Callable[..., Ran]") -> None:
    """S7.1, R1, R4, R8, T1.3, A3.1, S2.1."""
    ran = run_demo("--json")
    steps = ran.json["steps"]
    [stored] = scenes(steps, "remember")
    assert "[REDACTED" in stored["redacted"]["text"]
    assert KEY_PREFIX not in ran.out
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


def test_the_demo_is_readable(run_demo: "Callable[..., Ran]") -> None:
    """S7.1, X1.1."""
    ran = run_demo()
    assert (ran.code, ran.err) == (0, "")
    assert "[REDACTED" in ran.out
    assert "dead end" in ran.out
    assert "(before r" in ran.out
    assert f"of {STORY['max_tokens']} tokens" in ran.out
    assert "30 of 30 records" in ran.out
    readme = (ROOT / "README.md").read_text("utf-8")
    commands = re.findall(r"^  [^:]+: (.+)$", ran.out.rpartition("Next:")[2], re.MULTILINE)
    assert [each for each in commands if each in readme] == commands, "what README.md says"
    assert len(commands) == 4
    assert re.search(r"^(Process \d+ is|Processes \d+(, \d+)+ are) gone\.$", ran.out, re.MULTILINE)


@pytest.mark.skipif(sys.platform == "win32", reason="an installer links the command into another folder")
def test_an_installed_demo_names_the_command_that_starts_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """U3.1: by its name where the shell finds it; else by its path."""
    monkeypatch.setattr(demo, "_CLONE", tmp_path / "no clone")
    monkeypatch.setenv("PATH", str(tmp_path))
    assert next_steps(1.0)[1].plain.endswith(" -I -m mcp_memory install claude-code")
    program = Path(sys.executable).parent / "mcp-memory"
    assert program.exists()
    (tmp_path / "mcp-memory").symlink_to(program)
    assert next_steps(1.0)[1].plain == "  Add it to Claude Code: mcp-memory install claude-code"


@pytest.fixture
def forking(monkeypatch: pytest.MonkeyPatch) -> None:
    """The demo's servers are forked; those of the scenes above are started."""

    def connect(command: StdioServerParameters, errlog: Any) -> Any:
        return forked_stdio({**os.environ, **(command.env or {})}, cwd=command.cwd, stderr=errlog)

    run_forked(code="pass")  # What forks them is no child that the demo leaves behind.
    monkeypatch.setattr(demo, "stdio_client", connect)


@pytest.mark.usefixtures("forking")
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


@pytest.mark.usefixtures("forking")
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
