"""count and compress: by the rules of contexts, without a memory."""

import json
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from typer.testing import CliRunner

from mcp_memory.client import count_tokens
from mcp_memory.entrypoints.cli import app as command_line
from mcp_memory.entrypoints.cli import measuring

if TYPE_CHECKING:
    from tests.entrypoints.cli.conftest import Run


def test_a_text_is_counted_from_a_file_or_from_standard_input(run: "Run", tmp_path: Path) -> None:
    """B7.2: as it stands, with its last line end; nothing is 0. No memory is made."""
    file = tmp_path / "note.txt"
    file.write_text("Zoë said:\nyes\n", "utf-8")
    assert run("count", str(file)).out == f"{count_tokens(file.read_text('utf-8'))}\n"
    assert CliRunner().invoke(command_line, ["count"], input="").output == "0\n"
    assert not (tmp_path / "data").exists()


def test_the_settings_or_the_model_say_whose_tokens_they_are(
    run: "Run", tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "a").write_text("one two three", "utf-8")
    assert run("count", str(tmp_path / "a"), "--json").json == {"tokens": 3, "family": "unknown", "factor": 1.0}
    named = run("count", str(tmp_path / "a"), "--model", "claude-opus-4-7", "--json").json
    assert named["tokens"] == count_tokens("one two three", model="claude-opus-4-7")
    monkeypatch.setenv("MCP_MEMORY_TOKEN_FACTOR", "2")
    assert run("count", str(tmp_path / "a")).out == "6\n"
    assert run("count", str(tmp_path / "a"), "--model", "gpt-5").out == "3\n"


def test_items_are_compressed(run: "Run", tmp_path: Path) -> None:
    """B7.1."""
    items = [{"text": "low " * 90, "score": 0.1}, {"text": "high " * 90, "score": 0.9}]
    (tmp_path / "items.json").write_text(json.dumps(items), "utf-8")
    told = ("compress", "-n", "130", str(tmp_path / "items.json"))
    first, second = run(*told, "--json").json
    assert run(*told).out.split() == [*first["text"].split(), *second["text"].split()]
    assert second == items[1]
    assert first["text"].endswith("low…")


@pytest.mark.parametrize(
    ("given", "says"),
    [
        (b"[1", "The items are no JSON"),
        (b"{}", "must be a list of objects"),
        (b"[1]", "must be a list of objects"),
        (b"[{}]", "An item needs a text"),
        (b"\xff", "Standard input is not UTF-8 text."),
        (b" " * 9, "Standard input holds more than 0 MiB; give it in parts."),
    ],
)
def test_what_is_no_list_of_texts_is_one_line_of_complaint(
    run: "Run", monkeypatch: pytest.MonkeyPatch, given: bytes, says: str
) -> None:
    monkeypatch.setattr(measuring, "MAX_BYTES", 8)
    ran = CliRunner().invoke(command_line, ["compress", "-n", "9"], input=given)
    assert ran.exit_code == 1
    assert says in ran.stderr


def test_a_file_that_cannot_be_read_is_named(run: "Run", tmp_path: Path) -> None:
    assert run("count", str(tmp_path / "no")).err.endswith("no cannot be read: No such file or directory.\n")
    (tmp_path / "bytes").write_bytes(b"\xff")
    assert run("count", str(tmp_path / "bytes")).err.endswith("bytes is not UTF-8 text.\n")
