"""What earlier sessions of a client tell: what the user said to hold, and outcomes."""

import json
import os
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from mcp_memory.entrypoints.transfer.learning import sessions
from mcp_memory.entrypoints.transfer.learning.sessions import read_sessions
from mcp_memory.errors import InvalidRequest

RULE, DECIDED = "From now on, use pnpm for all packages.", "We decided to keep SQLite for the tests."


def line(role: str, content: Any, uuid: str, parent: str | None) -> str:
    """A line as Claude Code writes it."""
    message = {"role": role, "content": content}
    at = {"timestamp": "2026-11-20T12:00:00Z", "sessionId": "s1", "isSidechain": False}
    return json.dumps({"type": role, "message": message, "uuid": uuid, "parentUuid": parent, **at})


def call(name: str, command: dict[str, str], number: int) -> list[str]:
    used = {"type": "tool_use", "id": f"t{number}", "name": name, "input": command}
    result = {"type": "tool_result", "tool_use_id": f"t{number}", "content": "[main 3f2a1bc] Compare by the clock"}
    return [
        line("assistant", [used], f"c{number}", f"r{number - 1}" if number > 1 else "u1"),
        line("user", [result], f"r{number}", f"c{number}"),
    ]


def test_only_what_the_user_said_to_hold_is_told_with_its_session_and_time(tmp_path: Path) -> None:
    commit = call("Bash", {"command": "git commit -m 'Compare by the clock'"}, 1)
    said = f"{RULE} Now fix the parser. <private>{DECIDED}</private>"
    lines = [line("user", said, "u1", None), *commit, line("assistant", DECIDED, "a1", "r1")]
    (tmp_path / "0b9c1f64.jsonl").write_text("\n".join(lines) + "\n", "utf-8")
    (tmp_path / "empty.jsonl").write_text("", "utf-8")
    [record] = read_sessions([tmp_path], Counter())
    assert (record.text, record.kind, record.details) == (RULE, "fact", {"session": "0b9c1f64"})
    assert (record.tags, record.occurred_at) == (("learned", "standing-instruction"), 1_795_176_000.0)
    assert list(read_sessions([tmp_path / "0b9c1f64.jsonl"], Counter())) == [record]


def test_what_the_user_took_back_is_not_told(tmp_path: Path) -> None:
    lines = [
        line("user", "Look at the parser.", "u1", None),
        line("assistant", "I did.", "a1", "u1"),
        line("user", RULE, "u2", "a1"),
        line("assistant", "I will.", "a2", "u2"),
        line("user", f"{DECIDED} Go on.", "u3", "a1"),
        line("assistant", "I do.", "a3", "u3"),
    ]
    (tmp_path / "back.jsonl").write_text("\n".join(lines) + "\n", "utf-8")
    assert [(each.text, each.kind) for each in read_sessions([tmp_path], Counter())] == [(DECIDED, "decision")]


def test_the_newest_sessions_are_read_and_what_is_too_large_is_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(3):
        file = tmp_path / f"{number}.jsonl"
        text = f"From now on, use port 808{number} in the tests."
        file.write_text(line("user", text, "u1", None) + "\n" + "x" * 5_000 * (number == 2) + "\n", "utf-8")
        os.utime(file, (number, number))
    monkeypatch.setattr(sessions, "MOST_SESSIONS", 2)
    monkeypatch.setattr(sessions, "MOST_BYTES", 4_000)
    left_out = Counter[str]()
    assert ["8081" in each.text for each in read_sessions([tmp_path], left_out)] == [True]
    assert left_out == {"sessions of more than 0 MB": 1}


def test_a_folder_without_transcripts_is_refused(tmp_path: Path) -> None:
    for folder in (tmp_path, tmp_path / "none"):
        with pytest.raises(InvalidRequest, match="holds no transcript"):
            list(read_sessions([folder], Counter()))
