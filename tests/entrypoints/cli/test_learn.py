"""learn: a history is shown, stored on confirmation, and undone as one."""

import io
import json
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from mcp_memory.entrypoints.commands.console import Terminal, at
from tests.made_repository import MadeRepository

if TYPE_CHECKING:
    from tests.entrypoints.cli.conftest import Run

ENTRY = "- The option `--fast` is gone. Use `--mode fast`.\n"
TEXT = "Version 2.0.0: The option `--fast` is gone. Use `--mode fast`."
RULE = "From now on, use pnpm for all packages."


@pytest.fixture
def repository(tmp_path: Path) -> MadeRepository:
    made = MadeRepository(tmp_path / "made")
    made.commit("Begin", CHANGELOG_md=f"# 2.0.0 (2026-01-01)\n\n## Removed\n\n{ENTRY}")
    return made


def test_a_history_is_shown_first_and_stored_with_a_yes(run: "Run", repository: MadeRepository) -> None:
    folder = str(repository.folder)
    shown = run("learn", "--git", folder)
    assert shown.out.splitlines()[:3] == [
        "1. decision · 2026-01-01 · CHANGELOG.md:5", f"   {TEXT}", "1 new record.",
    ]  # fmt: skip
    assert "Nothing was stored; the same command with --yes stores" in shown.err
    assert run("list", "--json").json["results"] == []
    said = run("learn", "--git", folder, "--yes").out
    assert "Stored 1 record in the project test. `mcp-memory undo" in said
    assert run("learn", "--git", folder, "--yes").out == "There is nothing new. Left out: known already (1).\n"
    [record] = run("list", "--json").json["results"]
    assert record["text"] == TEXT
    [change] = run("undo", "--json").json
    assert change["what"].startswith(f"Stored {record['id']} “Version 2.0.0: The option")
    run("undo", said.rpartition("mcp-memory undo ")[2].partition("`")[0])
    assert run("list", "--json").json["results"] == []
    assert "forgotten here, which --again proposes (1)" in run("learn", "--git", folder).out
    again = run("learn", "--git", folder, "--again", "--yes", "--json").json
    assert (again["stored"], again["ids"], again["into"]) == (1, [record["id"]], "test")
    assert run("show", record["id"], "--json").json["details"]["line"] == 5


def test_programs_read_what_is_proposed(run: "Run", repository: MadeRepository, tmp_path: Path) -> None:
    message = {"type": "user", "message": {"role": "user", "content": RULE}, "uuid": "u1", "parentUuid": None}
    message |= {"sessionId": "s1", "isSidechain": False, "timestamp": "2026-11-20T12:00:00Z"}
    (tmp_path / "s1.jsonl").write_text(json.dumps(message) + "\n", "utf-8")
    both = ("learn", "--git", str(repository.folder), "--transcripts", str(tmp_path), "--json")
    answer = run(*both).json
    assert [each["source"] for each in answer["proposed"]] == ["session s1", "CHANGELOG.md:5"]
    assert [each["text"] for each in run(*both, "--limit", "1").json["proposed"]] == [RULE]
    assert run("learn", "--transcripts", str(tmp_path), "--yes", "--json").json["stored"] == 1


@pytest.mark.parametrize(("answer", "records"), [("y\n", 1), ("\n", 0)])
def test_a_person_is_asked(
    run: "Run", repository: MadeRepository, monkeypatch: pytest.MonkeyPatch, answer: str, records: int
) -> None:
    keyboard, screen = io.StringIO(answer), io.StringIO()
    for stream in (keyboard, screen):
        monkeypatch.setattr(stream, "isatty", lambda: True)
    with at(Terminal(stdin=keyboard, stdout=screen, stderr=screen, environment={})):
        ran = run("learn", "--git", str(repository.folder))
    assert "Store these records? [y/N]" in screen.getvalue()
    assert ran.code == 1 - records
    assert len(run("list", "--json").json["results"]) == records


def test_what_cannot_be_read_is_one_line(run: "Run", tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert "is in no git repository; name one with --git." in run("learn").err
    MadeRepository(tmp_path / "bare").commit("Begin")
    assert run("learn", "--git", str(tmp_path / "bare")).out.startswith("Nothing was found. It looks for footers")
    assert "holds no transcript" in run("learn", "--transcripts", str(tmp_path)).err
