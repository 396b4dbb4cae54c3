"""Before a call of a tool: what is denied, what is warned of, and what goes on as if nobody had looked."""

import json
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from mcp_memory.app import App
from mcp_memory.domain.model.lifecycle import Feedback
from mcp_memory.domain.model.records import NewRecord
from mcp_memory.domain.model.requests import Revision
from tests.entrypoints.hooks.conftest import RunHook

REASON = "It holds the only backups."
SHARE = {"pattern": "rm -rf /mnt/share", "reason": REASON, "action": "block"}
WIPE: dict[str, Any] = {"tool_name": "Bash", "tool_input": {"command": "cd /mnt && rm -rf share/old /mnt/share/old"}}
PASSED = (
    "ls /mnt/share", "rm -rf build", "rm /mnt/share/a.txt", "git rm -r docs", "echo rm -rf /mnt/share", "make clean",
    "grep -rn 'rm -rf /mnt/share' .", "git commit -m 'Never rm -rf /mnt/share'", "rm -rf /mnt/shared",
)  # fmt: skip


def stored(memory: App, text: str, **details: Any) -> str:
    return memory.remember([NewRecord(text=text, kind="censor", details=details)], memory.caller())[0].id


def verdict(output: str) -> tuple[str, str]:
    """What the client does, and what the agent reads."""
    if not output:
        return "", ""
    told = json.loads(output)["hookSpecificOutput"]
    assert told["hookEventName"] == "PreToolUse"
    return told.get("permissionDecision", "warned"), told.get("permissionDecisionReason") or told["additionalContext"]


def test_a_guardrail_that_blocks_denies_what_meets_it_and_nothing_else(memory: App, run_hook: RunHook) -> None:
    """U4.1: the reason, the id and the way out are told, and the look is counted."""
    rule = stored(memory, "Never wipe the share.", **SHARE)
    decision, text = verdict(run_hook("PreToolUse", **WIPE))
    assert decision == "deny"
    assert f"[{rule}] Never wipe the share. Because: {REASON}" in text
    assert "false_positive" in text
    assert memory.records.get([rule], memory.caller().scopes)[rule].counters.accessed == 1
    for command in PASSED:
        assert run_hook("PreToolUse", tool_name="Bash", tool_input={"command": command}) == "", command
    assert (
        run_hook("PreToolUse", tool_name="Write", tool_input={"file_path": "a.md", "content": "rm -rf /mnt/share"})
        == ""
    )


def test_one_that_warns_says_a_line_and_so_does_another_agents(memory: App, run_hook: RunHook) -> None:
    """U4.1."""
    stored(memory, "Never use `git push`.")
    other = replace(memory.caller(), agent="else")
    memory.remember([NewRecord(text="Keep the share.", kind="censor", details=SHARE)], other)
    decision, text = verdict(run_hook("PreToolUse", tool_name="Bash", tool_input={"command": "git push"}))
    assert (decision, "Never use `git push`." in text) == ("warned", True)
    decision, text = verdict(run_hook("PreToolUse", **WIPE))
    assert (decision, "by else] " in text or "by else" in text) == ("warned", True)


def test_one_that_was_wrong_only_warns_until_it_was_right(memory: App, run_hook: RunHook) -> None:
    """U4.1."""
    rule = stored(memory, "Never wipe the share.", **SHARE)
    given: Sequence[tuple[Feedback, str]] = (("false_positive", "warned"), ("triggered", "deny"))
    for feedback, decision in given:
        memory.revise(Revision(id=rule, feedback=feedback), memory.caller())
        assert verdict(run_hook("PreToolUse", **WIPE))[0] == decision


@pytest.mark.parametrize(
    "payload",
    [
        {"tool_name": "Bash", "tool_input": "rm -rf /mnt/share"},
        {"tool_name": "Bash", "tool_input": {"command": None}},
        {"tool_name": 3, "tool_input": {"command": "rm -rf /mnt/share"}},
        {},
    ],
)
def test_what_is_no_call_is_let_through(memory: App, run_hook: RunHook, payload: dict[str, Any]) -> None:
    """Never a denial by error."""
    stored(memory, "Never wipe the share.", **SHARE)
    assert run_hook("PreToolUse", **payload) == ""


def test_it_can_be_switched_off_and_begins_no_memory(run_hook: RunHook, memory: App) -> None:
    stored(memory, "Never wipe the share.", **SHARE)
    assert run_hook("PreToolUse", {"hook_guardrails": False}, **WIPE) == ""
    others: dict[str, object] = {"agent": "else", "guidance_from_others": False}
    assert run_hook("PreToolUse", others, **WIPE) == ""
