from typing import TYPE_CHECKING

import pytest

from mcp_memory.domain.model.records import NewRecord
from mcp_memory.errors import InvalidRequest

if TYPE_CHECKING:
    from mcp_memory.app import App
    from tests.entrypoints.hooks.conftest import RunHook, Transcript


def test_at_its_end_a_session_leaves_nothing_undone_that_is_due(
    memory: "App", run_hook: "RunHook", transcript: "Transcript"
) -> None:
    old = NewRecord(text="We moved the office.", kind="episode", occurred_at=1_500_000_000.0)
    (stored,) = memory.remember([old], memory.caller())
    transcript.say("user", "Good night.")
    run_hook("SessionEnd")
    assert memory.records.count_unembedded() == 0
    assert memory.records.get([stored.id], memory.caller().scopes)[stored.id].status == "archived"


def test_without_maintenance_it_feeds_alone(memory: "App", run_hook: "RunHook", transcript: "Transcript") -> None:
    transcript.say("user", "Good night.")
    run_hook("SessionEnd", {"maintain_minutes": 0})
    assert memory.records.count_unembedded() == 1


def test_a_missing_transcript_keeps_nobody_from_maintaining(memory: "App", run_hook: "RunHook") -> None:
    old = NewRecord(text="We moved the office.", kind="episode", occurred_at=1_500_000_000.0)
    (stored,) = memory.remember([old], memory.caller())
    with pytest.raises(InvalidRequest, match="no file"):
        run_hook("SessionEnd")
    assert memory.records.get([stored.id], memory.caller().scopes)[stored.id].status == "archived"
