"""One of two hooks of the same event acts, also where both run at the same moment."""

import json
import os
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from mcp_memory.bridge.duplicate_hooks import SAME_SECONDS, SUFFIX, is_first, let_again
from mcp_memory.locations import NOTES_FOLDER
from tests.forked import run_forked


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path


def first(folder: Path, name: str, **payload: object) -> bool:
    return is_first(name, json.dumps({"session_id": "s1", **payload}).encode(), str(folder), {})


def test_the_same_event_is_answered_once(folder: Path) -> None:
    """D9.3, P4: of an event and session one, of other sessions and arguments each its own."""
    assert [first(folder, "SessionStart", source="startup") for _ in range(3)] == [True, False, False]
    assert first(folder, "SessionStart", source="startup", session_id="s2")
    raw = json.dumps({"session_id": "s2", "source": "startup"}).encode()
    assert is_first("SessionStart", raw, str(folder), {"namespace": "other"})


def test_hooks_of_two_memories_act_both(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert first(folder, "SessionStart", source="startup")
    monkeypatch.setenv("MCP_MEMORY_NAMESPACE", "another")
    assert first(folder, "SessionStart", source="startup")


def test_of_many_at_the_same_moment_one_is_first(folder: Path) -> None:
    with ThreadPoolExecutor(16) as threads:
        asked = [threads.submit(first, folder, "UserPromptSubmit", prompt="Go on") for _ in range(64)]
        answers = [each.result() for each in asked]
    assert answers.count(True) == 1


@pytest.mark.parametrize("between", ["PreCompact", "PostCompact", "UserPromptSubmit", "Stop", "SessionEnd"])
def test_after_something_else_the_same_event_is_another(folder: Path, between: str) -> None:
    """P4: a second compaction and a session that is resumed again get theirs."""
    assert first(folder, "SessionStart", source="compact")
    assert first(folder, between)
    assert first(folder, "SessionStart", source="compact")


def test_a_resumed_session_and_another_prompt_get_theirs(folder: Path) -> None:
    assert first(folder, "SessionStart", source="startup")
    assert first(folder, "SessionStart", source="resume")
    assert first(folder, "UserPromptSubmit", prompt="One")
    assert first(folder, "UserPromptSubmit", prompt="Two")


def test_what_runs_in_the_background_or_prints_nothing_acts_each_time(folder: Path) -> None:
    assert first(folder, "SessionStart", source="startup")
    assert first(folder, "PostToolUse")
    assert not first(folder, "SessionStart", source="startup")
    assert [first(folder, "Stop") for _ in range(2)] == [True, True]


def test_seconds_later_the_same_event_is_another(folder: Path) -> None:
    assert first(folder, "SessionStart", source="compact")
    [file] = (folder / NOTES_FOLDER).glob(f"*{SUFFIX}")
    event = file.read_text("ascii").split()[0]
    file.write_text(f"{event} {time.time() - SAME_SECONDS - 1:.3f} 0", "ascii")
    assert first(folder, "SessionStart", source="compact")
    file.write_text("what is this?", "ascii")
    assert first(folder, "SessionStart", source="compact")


def test_where_the_session_went_on_the_same_event_is_another(folder: Path) -> None:
    """P4: what the client writes beside the hooks does not count."""
    transcript = folder / "t.jsonl"
    given = {"source": "compact", "transcript_path": str(transcript)}
    transcript.write_text('{"type": "user"}\n', "utf-8")
    assert first(folder, "SessionStart", **given)
    with transcript.open("a", encoding="utf-8") as file:
        file.write('{"type": "system"}\n{"type": "user", "isCompactSummary": true}\n[1]\nno JSON\n')
    assert not first(folder, "SessionStart", **given)
    with transcript.open("a", encoding="utf-8") as file:
        file.write('{"type": "assistant"}\n')
    assert first(folder, "SessionStart", **given)


def test_where_nothing_was_printed_the_same_event_may_be_answered(folder: Path) -> None:
    """P4: a server that was stopped had no time for it."""
    raw = json.dumps({"session_id": "s1", "prompt": 'She said: "source": "x" \\'}).encode()
    assert is_first("UserPromptSubmit", raw, str(folder), {})
    let_again("UserPromptSubmit", raw, str(folder))
    assert is_first("UserPromptSubmit", raw, str(folder), {})
    assert not is_first("UserPromptSubmit", raw, str(folder), {})
    let_again("PreCompact", raw, str(folder))
    let_again("UserPromptSubmit", b"{}", str(folder))
    let_again("UserPromptSubmit", b'{"session_id": "s9"}', str(folder))
    assert not is_first("UserPromptSubmit", raw, str(folder), {})


@pytest.mark.parametrize(
    "raw", [b"", b"[]", b"{", b'{"session_id": 5}', b'{"session_id": "\\x"}', b'{"session_id": "s']
)
def test_what_cannot_be_told_apart_acts(folder: Path, raw: bytes) -> None:
    assert all(is_first("SessionStart", raw, str(folder), {}) for _ in range(2))


def test_without_a_memory_nothing_is_made(folder: Path) -> None:
    assert first(folder / "none", "SessionStart", source="startup")
    assert not (folder / "none").exists()
    assert is_first("SessionStart", b'{"session_id": "s1"}', "", {})


@pytest.mark.skipif(os.name == "nt", reason="a link takes a right there")
def test_a_link_in_the_place_of_the_file_is_not_followed(folder: Path) -> None:
    assert first(folder, "SessionStart", source="startup")
    [file] = (folder / NOTES_FOLDER).glob(f"*{SUFFIX}")
    file.unlink()
    file.symlink_to(folder / "elsewhere")
    assert all(first(folder, "SessionStart", source="startup") for _ in range(2))
    assert not (folder / "elsewhere").exists()


def test_two_processes_give_one_block(tmp_path: Path) -> None:
    """P4: as a client runs hooks that are registered in two places."""
    here = {**os.environ, "MCP_MEMORY_DATA_DIR": str(tmp_path / "data"), "MCP_MEMORY_NAMESPACE": "test"}
    told = ("add", "The staging database listens on port 6543.")
    run_forked(*told, env=here, check=True, timeout=60)
    payload = json.dumps({"session_id": "s", "source": "startup", "cwd": str(tmp_path)}).encode()

    def hook(_: int) -> bytes:
        return run_forked("hook", "SessionStart", check=True, input=payload, env=here, timeout=60).stdout

    with ThreadPoolExecutor(2) as threads:
        outputs = sorted(threads.map(hook, range(2)))
    assert outputs[0] == b""
    assert b"6543" in outputs[1]
