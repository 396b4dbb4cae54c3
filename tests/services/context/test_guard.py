"""What guardrails say of a call of a tool, by whose they are."""

from collections.abc import Callable
from dataclasses import replace

from mcp_memory.app import App
from mcp_memory.domain.model.records import NewRecord
from mcp_memory.domain.model.requests import Revision
from mcp_memory.domain.retrieval.guardrails import ToolCall
from mcp_memory.services.context.guard import MOST_SHOWN, Verdict

PUSH = ToolCall.of("Bash", {"command": "git push --force origin main"})
BLOCK = {"pattern": "git push --force", "action": "block", "reason": "CI."}
RULE = NewRecord(text="Keep main as it is.", kind="censor", details=BLOCK)


def test_a_call_that_meets_nothing_is_told_nothing(app: App) -> None:
    app.remember([RULE], app.caller())
    assert app.guard(ToolCall.of("Bash", {"command": "git push"}), app.caller()) == Verdict()


def test_ones_own_block_denies_before_any_other_is_told(app: App) -> None:
    """U4.1: with the reason; one that was forgotten or was wrong denies no more."""
    me, bob = app.caller(), replace(app.caller(), agent="bob")
    mine = app.remember([RULE], me)[0].id
    app.remember([replace(RULE, text=f"Rule {number}.") for number in range(MOST_SHOWN)], bob)
    verdict = app.guard(PUSH, me)
    assert (verdict.is_denied, verdict.ids) == (True, (mine,))
    assert f"[{mine}] Keep main as it is. Because: CI." in verdict.text
    app.revise(Revision(id=mine, feedback="false_positive"), me)
    warned = app.guard(PUSH, me)
    assert (warned.is_denied, len(warned.ids)) == (False, MOST_SHOWN)
    app.forget([mine], "retire", me)
    assert " by bob" in app.guard(PUSH, me).text


def test_guardrails_of_others_can_be_left_out(open_memory: Callable[..., App]) -> None:
    """X5.1."""
    app = open_memory(guidance_from_others=False)
    app.remember([RULE], replace(app.caller(), agent="bob"))
    assert app.guard(PUSH, app.caller()) == Verdict()
