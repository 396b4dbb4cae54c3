"""Other clients' events, in the forms of their documents: what each says is understood, and it takes the answer."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Protocol

import pytest

from mcp_memory.app import App
from mcp_memory.domain.model.records import NewRecord
from mcp_memory.entrypoints.hooks.answering import run
from mcp_memory.errors import InvalidRequest
from tests.entrypoints.hooks.conftest import SESSION

REASON = "It holds the only backups."
FACT = "The staging database listens on port 6543."
ASKED = "Which port does the staging database listen on?"


class Say(Protocol):
    def __call__(self, client: str, event: str, **fields: Any) -> Any: ...


@pytest.fixture
def say(tmp_path: Path, memory: App) -> Say:
    """Run a client's hook for its own JSON; the JSON that it prints, None for nothing."""
    caller = memory.caller()
    share: Mapping[str, Any] = {"pattern": "rm -rf /mnt/share", "reason": REASON, "action": "block"}
    memory.remember(
        [
            NewRecord(text=FACT),
            NewRecord(text="Never wipe the share.", kind="censor", details=share),
            NewRecord(text="Never edit `migrations/*.sql`.", kind="censor"),
        ],
        caller,
    )
    common: Mapping[str, Mapping[str, Any]] = {
        "codex": {"session_id": SESSION, "transcript_path": None, "cwd": str(tmp_path), "permission_mode": "default"},
        "gemini-cli": {
            "session_id": SESSION,
            "transcript_path": str(tmp_path / "chat.json"),
            "cwd": str(tmp_path),
            "timestamp": "2026-11-29T10:00:00Z",
        },
        "cursor": {
            "conversation_id": SESSION,
            "generation_id": "g-1",
            "workspace_roots": [str(tmp_path)],
            "user_email": None,
            "transcript_path": None,
        },
    }

    def say_it(client: str, event: str, **fields: Any) -> Any:
        told = json.dumps({**common[client], **fields}).encode()
        said = run(event, told, {"data_dir": tmp_path / "data", "namespace": "test"}, client)
        return json.loads(said) if said else None

    return say_it


def added(name: str, said: Any) -> str:
    assert said["hookSpecificOutput"]["hookEventName"] == name
    return said["hookSpecificOutput"]["additionalContext"]


WIPE = {"command": "rm -rf /mnt/share/old"}


def test_codex(say: Say, tmp_path: Path, memory: App) -> None:
    """The forms are of https://developers.openai.com/codex/hooks.md."""
    start = say("codex", "SessionStart", hook_event_name="SessionStart", model="gpt-5", source="startup")
    assert FACT in added("SessionStart", start)
    prompted = say("codex", "UserPromptSubmit", hook_event_name="UserPromptSubmit", turn_id="t", prompt=ASKED)
    assert prompted is None, "the session has it"
    denied = say("codex", "PreToolUse", tool_name="Bash", tool_input=WIPE, tool_use_id="c")["hookSpecificOutput"]
    assert denied["permissionDecision"] == "deny"
    assert REASON in denied["permissionDecisionReason"]
    patch = "*** Begin Patch\n*** Update File: db/migrations/1.sql\n@@\n-rm -rf /mnt/share\n+x\n*** End Patch"
    warned = say("codex", "PreToolUse", tool_name="apply_patch", tool_input={"command": patch}, tool_use_id="c")
    assert "migrations" in added("PreToolUse", warned)
    other = "*** Begin Patch\n*** Add File: a.txt\n+rm -rf /mnt/share\n*** End Patch"
    assert say("codex", "PreToolUse", tool_name="apply_patch", tool_input={"command": other}) is None
    assert say("codex", "PreToolUse", tool_name="apply_patch", tool_input={}) is None
    assert say("codex", "PreCompact", hook_event_name="PreCompact", trigger="auto") is None
    rollout = tmp_path / "rollout.jsonl"
    message = {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "Ship the export."}]}
    rollout.write_text(json.dumps({"type": "response_item", "payload": message}) + "\n", "utf-8")
    assert say("codex", "Stop", transcript_path=str(rollout)) is None
    log = memory.live_log(SESSION, memory.caller())
    assert [each.text for each in log.entries] == ["Ship the export."]


def test_gemini_cli(say: Say) -> None:
    """The forms are of https://geminicli.com/docs/hooks/reference."""
    assert FACT in added("SessionStart", say("gemini-cli", "SessionStart", source="startup"))
    prompted = say("gemini-cli", "UserPromptSubmit", prompt=ASKED, session_id="another")
    assert FACT in added("BeforeAgent", prompted)
    denied = say("gemini-cli", "PreToolUse", tool_name="run_shell_command", tool_input=WIPE)
    assert (denied["decision"], REASON in denied["reason"]) == ("deny", True)
    changed = {"file_path": "db/migrations/1.sql", "content": "x"}
    assert say("gemini-cli", "PreToolUse", tool_name="write_file", tool_input=changed) is None, "no place for a warning"
    assert say("gemini-cli", "PreCompact", trigger="manual") is None
    assert say("gemini-cli", "SessionEnd", reason="exit") is None


def test_cursor(say: Say) -> None:
    """The forms are of https://cursor.com/docs/hooks.md."""
    start = say("cursor", "SessionStart", session_id=SESSION, is_background_agent=False, composer_mode="agent")
    assert list(start) == ["additional_context"]
    assert FACT in start["additional_context"]
    denied = say("cursor", "PreToolUse", tool_name="Shell", tool_input={**WIPE, "working_directory": "/"}, cwd="/")
    assert denied["permission"] == "deny"
    assert REASON in denied["agent_message"]
    assert say("cursor", "PreToolUse", tool_name="Shell", tool_input={"command": "ls /mnt/share"}) is None
    assert say("cursor", "PreToolUse", tool_name="MCP:x", tool_input="{}") is None
    assert say("cursor", "PreCompact", trigger="auto", context_usage_percent=85) is None
    assert say("cursor", "SessionEnd", reason="user_close") is None


def test_cursor_names_a_folder_of_windows_in_its_own_way(say: Say) -> None:
    from mcp_memory.entrypoints.hooks.client_events import client_events

    read = client_events("cursor").read({"conversation_id": "c", "workspace_roots": ["/c:/work/shop"], "cwd": "x"})
    assert (read["cwd"], read["session_id"]) == ("c:/work/shop", "c")
    assert client_events("cursor").read({"cwd": "x"})["cwd"] == "x"


def test_a_client_that_is_not_known_is_named(tmp_path: Path) -> None:
    with pytest.raises(InvalidRequest, match="--client 'emacs' has no hooks here; known are claude-code, codex"):
        run("SessionStart", b"{}", {"data_dir": tmp_path}, "emacs")
