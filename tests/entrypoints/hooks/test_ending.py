from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from mcp_memory.app import open_app
from mcp_memory.domain.model.records import NewRecord
from mcp_memory.errors import InvalidRequest
from mcp_memory.settings import load_settings

if TYPE_CHECKING:
    from mcp_memory.app import App
    from tests.entrypoints.hooks.conftest import RunHook, Transcript

LONG_AGO = 1_500_000_000.0


def stored_long_ago(folder: Path) -> str:
    """The id of an episode that nobody opened since 2017."""
    with closing(open_app(load_settings(data_dir=folder / "data", namespace="test"), lambda: LONG_AGO)) as then:
        (stored,) = then.remember([NewRecord(text="We moved the office.", kind="episode")], then.caller())
    return stored.id


def test_at_its_end_a_session_leaves_nothing_undone_that_is_due(
    memory: "App", run_hook: "RunHook", transcript: "Transcript", tmp_path: Path
) -> None:
    episode_id = stored_long_ago(tmp_path)
    transcript.say("user", "Good night.")
    run_hook("SessionEnd")
    assert memory.records.count_unembedded() == 0
    assert memory.records.get([episode_id], memory.caller().scopes)[episode_id].status == "archived"


def test_without_maintenance_it_feeds_alone(memory: "App", run_hook: "RunHook", transcript: "Transcript") -> None:
    transcript.say("user", "Good night.")
    run_hook("SessionEnd", {"maintain_minutes": 0})
    assert memory.records.count_unembedded() == 1


def test_a_missing_transcript_keeps_nobody_from_maintaining(memory: "App", run_hook: "RunHook", tmp_path: Path) -> None:
    episode_id = stored_long_ago(tmp_path)
    with pytest.raises(InvalidRequest, match="no file"):
        run_hook("SessionEnd")
    assert memory.records.get([episode_id], memory.caller().scopes)[episode_id].status == "archived"
