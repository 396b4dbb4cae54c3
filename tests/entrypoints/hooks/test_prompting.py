from collections.abc import Callable
from math import ceil
from typing import TYPE_CHECKING

import pytest

from mcp_memory.domain.model.records import NewRecord

if TYPE_CHECKING:
    from mcp_memory.app import App
    from tests.entrypoints.hooks.conftest import RunHook

ContextOf = Callable[[str], str]
PORT = "The staging database listens on port 6543."
TEA = "Marta likes green tea better than coffee."
ASKED = "On which port does the staging database listen?"


@pytest.fixture
def known(memory: "App") -> "App":
    """A memory of several things, of which a small start block holds few."""
    items = [NewRecord(text=PORT), NewRecord(text=TEA, kind="fact")]
    items += [NewRecord(text=f"Release {n} went out on a Friday.", kind="episode") for n in range(8)]
    memory.remember(items, memory.caller())
    return memory


def test_a_prompt_is_given_what_it_calls_for_once(known: "App", run_hook: "RunHook", context_of: ContextOf) -> None:
    """S7.2."""
    text = context_of(run_hook("UserPromptSubmit", prompt=ASKED))
    assert PORT in text
    assert TEA not in text
    assert run_hook("UserPromptSubmit", prompt=ASKED) == ""
    assert PORT in context_of(run_hook("UserPromptSubmit", prompt=ASKED, session_id="another"))


def test_what_the_session_began_with_is_not_given_again(
    known: "App", run_hook: "RunHook", context_of: ContextOf
) -> None:
    """S7.2."""
    assert PORT in context_of(run_hook("SessionStart", source="startup"))
    assert run_hook("UserPromptSubmit", prompt=ASKED) == ""


def test_a_window_that_was_cleared_is_told_anew(known: "App", run_hook: "RunHook", context_of: ContextOf) -> None:
    little: dict[str, object] = {"hook_max_tokens": 150}
    run_hook("UserPromptSubmit", prompt=ASKED)
    run_hook("SessionStart", little, source="resume")
    assert run_hook("UserPromptSubmit", prompt=ASKED) == ""
    begun = context_of(run_hook("SessionStart", little, source="compact"))
    assert PORT not in begun
    assert PORT in context_of(run_hook("UserPromptSubmit", prompt=ASKED))


@pytest.mark.parametrize(
    "prompt", ["", "  ", "go on", "yes please", "thanks!", "Write a haiku about the moon over mountains."]
)
def test_it_is_silent_where_the_prompt_calls_for_nothing(known: "App", run_hook: "RunHook", prompt: str) -> None:
    """S7.2."""
    assert run_hook("UserPromptSubmit", prompt=prompt) == ""


def test_prompts_that_nobody_wrote_are_left_alone(known: "App", run_hook: "RunHook") -> None:
    assert run_hook("UserPromptSubmit", prompt=ASKED, source="system") == ""


def test_what_is_added_keeps_within_its_budget(known: "App", run_hook: "RunHook", context_of: ContextOf) -> None:
    items = [NewRecord(text=f"The staging database {n} listens on port {6_000 + n}, behind a proxy.") for n in range(9)]
    known.remember(items, known.caller())
    text = context_of(run_hook("UserPromptSubmit", {"hook_prompt_max_tokens": 250}, prompt=ASKED))
    factor = known.factor(known.caller(client="claude-code")).factor
    assert ceil(known.counter.count(text) * factor) <= 250
    assert text.count("- [r") >= 2


def test_a_budget_that_holds_no_line_gives_none(known: "App", run_hook: "RunHook") -> None:
    assert run_hook("UserPromptSubmit", {"hook_prompt_max_tokens": 20}, prompt=ASKED) == ""
