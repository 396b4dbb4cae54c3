"""learn: what an agent proposes, or earlier sessions tell, is shown, stored on confirmation, and undone as one."""

import io
import json
import os
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from mcp_memory.entrypoints.commands.console import Terminal, at
from tests.forked import run_forked

if TYPE_CHECKING:
    from tests.entrypoints.cli.conftest import Run

TEXT = "Keep tides in SQLite, since the harbour has no network at night."
DECISION = {"kind": "decision", "text": TEXT, "source": "docs/adr/0004.md", "day": "2026-01-01", "tags": ["tides"]}
CENSOR = {"kind": "censor", "text": "Do not run `rm -rf archive`, since the archive has no copy."}
RULE = "From now on, use pnpm for all packages."


@pytest.fixture
def proposals(tmp_path: Path) -> str:
    """A file of two records, with an empty line between."""
    file = tmp_path / "proposals.jsonl"
    file.write_text(f"{json.dumps(DECISION)}\n\n{json.dumps(CENSOR)}\n", "utf-8")
    return str(file)


def test_what_an_agent_proposes_is_shown_first_and_stored_with_a_yes(run: "Run", proposals: str) -> None:
    shown = run("learn", "--from", proposals)
    assert shown.out.splitlines() == [
        "1. decision · 2026-01-01 · docs/adr/0004.md", f"   {TEXT}", "2. guardrail", f"   {CENSOR['text']}",
        "2 new records.",
    ]  # fmt: skip
    assert "Nothing was stored; the same command with --yes stores" in shown.err
    assert run("list", "--json").json["results"] == []
    said = run("learn", "--from", proposals, "--yes").out
    assert "Stored 2 records in the project test. `mcp-memory undo" in said
    assert run("learn", "--from", proposals, "--yes").out == "There is nothing new. Left out: known already (2).\n"
    ids = [each["id"] for each in run("list", "--json").json["results"]]
    [change] = run("undo", "--json").json
    assert change["what"].startswith("Stored ")
    run("undo", said.rpartition("mcp-memory undo ")[2].partition("`")[0])
    assert run("list", "--json").json["results"] == []
    assert "forgotten here, which --again proposes (2)" in run("learn", "--from", proposals).out
    again = run("learn", "--from", proposals, "--again", "--yes", "--json").json
    assert (again["stored"], sorted(again["ids"]), again["into"]) == (2, sorted(ids), "test")
    decision, censor = (run("show", each, "--json").json for each in again["ids"])
    assert (decision["details"], decision["tags"]) == ({"source": "docs/adr/0004.md"}, ["learned", "tides"])
    assert (censor["kind"], censor.get("details"), censor["tags"]) == ("censor", None, ["learned"]), "it warns"


def test_a_day_is_that_of_the_memorys_time_zone(run: "Run", proposals: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MCP_MEMORY_TIMEZONE", "America/New_York")
    first, _ = run("learn", "--from", proposals, "--json").json["proposed"]
    assert first["date"] == "2026-01-01"
    [stored] = run("learn", "--from", proposals, "--limit", "1", "--yes", "--json").json["ids"]
    assert run("show", stored, "--json").json["occurred_at"].startswith("2026-01-01T05:00")


def test_standard_input_is_read_by_the_program_itself(run: "Run", tmp_path: Path) -> None:
    variables = {**os.environ, "MCP_MEMORY_DATA_DIR": str(tmp_path / "data"), "MCP_MEMORY_NAMESPACE": "test"}
    given = json.dumps(DECISION).encode()
    ran = run_forked("learn", "--from", "-", "--yes", "--json", env=variables, input=given)
    assert json.loads(ran.stdout)["stored"] == 1
    [record] = run("list", "--json").json["results"]
    assert record["text"] == TEXT


def test_programs_read_what_sessions_tell(run: "Run", tmp_path: Path) -> None:
    message = {"type": "user", "message": {"role": "user", "content": RULE}, "uuid": "u1", "parentUuid": None}
    message |= {"sessionId": "s1", "isSidechain": False, "timestamp": "2026-11-20T12:00:00Z"}
    (tmp_path / "s1.jsonl").write_text(json.dumps(message) + "\n", "utf-8")
    sessions = ("learn", "--transcripts", str(tmp_path), "--json")
    [proposed] = run(*sessions).json["proposed"]
    assert (proposed["source"], proposed["text"], proposed["date"]) == ("session s1", RULE, "2026-11-20")
    assert run(*sessions, "--yes").json["stored"] == 1
    (tmp_path / "s1.jsonl").write_text("", "utf-8")
    assert run(*sessions[:-1]).out.startswith("Nothing was found. In sessions it looks for")


@pytest.mark.parametrize(("answer", "records"), [("y\n", 2), ("\n", 0)])
def test_a_person_is_asked(
    run: "Run", proposals: str, monkeypatch: pytest.MonkeyPatch, answer: str, records: int
) -> None:
    keyboard, screen = io.StringIO(answer), io.StringIO()
    for stream in (keyboard, screen):
        monkeypatch.setattr(stream, "isatty", lambda: True)
    with at(Terminal(stdin=keyboard, stdout=screen, stderr=screen, environment={})):
        ran = run("learn", "--from", proposals)
    assert "Store these records? [y/N]" in screen.getvalue()
    assert ran.code == (0 if records else 1)
    assert len(run("list", "--json").json["results"]) == records


def test_what_cannot_be_read_is_one_line(run: "Run", proposals: str, tmp_path: Path) -> None:
    assert "cannot be read" in run("learn", "--from", str(tmp_path / "none.jsonl")).err
    assert "holds no transcript" in run("learn", "--transcripts", str(tmp_path / "data")).err
    assert "name one of them" in run("learn", "--from", proposals, "--transcripts", str(tmp_path)).err
    Path(proposals).write_text(f"{json.dumps(DECISION)}\n[]\n", "utf-8")
    refused = run("learn", "--from", proposals, "--yes")
    assert refused.code == 1
    assert f"{proposals}, line 2 is no JSON object; write one record a line: {{" in refused.err
    assert "No memory at" in run("list").err


def test_alone_it_says_how_an_agent_is_asked(run: "Run") -> None:
    alone = run("learn")
    assert (alone.code, alone.code, alone.out) == (run("add").code, 2, "")
    assert "/memory:learn" in alone.err
    told = run("learn", "--instruction").out
    assert "at most 15 without a number: 15." in told
    assert "$ARGUMENTS" not in told
    assert "without a number: 5." in run("learn", "--instruction", "--limit", "5", "--json").json["instruction"]


def test_a_text_of_several_lines_looks_like_no_further_record(run: "Run", tmp_path: Path) -> None:
    """X2: the person confirms what the list shows."""
    file = tmp_path / "proposals.jsonl"
    file.write_text(json.dumps({"text": "Keep the tides.\n2. decision \u00b7 2026-01-01\n   Run as root."}), "utf-8")
    assert "\n2." not in run("learn", "--from", str(file)).out
