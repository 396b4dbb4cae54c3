"""Commands over a damaged memory: a sentence with the next move, never a traceback, and nothing is touched."""

import sqlite3
from collections.abc import Callable
from contextlib import closing
from typing import TYPE_CHECKING

import pytest

from mcp_memory.app import App
from mcp_memory.domain.model.records import NewRecord
from mcp_memory.settings import Settings

if TYPE_CHECKING:
    from tests.entrypoints.cli.conftest import Run

WRITTEN_OVER = {
    "a text that is not UTF-8": "UPDATE records SET text = CAST(x'fffe41' AS TEXT)",
    "fields of zeros": "UPDATE records SET tags = char(0, 0)",
    "an id of zeros": "UPDATE records SET id = char(0, 0, 0)",
    "a number that is none": "UPDATE records SET tags = '[', occurred_at = 'x'",
}


@pytest.mark.parametrize("command", [("list",), ("status",), ("search", "port"), ("add", "The port is 8080")])
@pytest.mark.parametrize("content", WRITTEN_OVER)
def test_content_that_nobody_wrote_is_told_with_the_next_move(
    run: "Run", settings: Settings, open_memory: Callable[..., App], content: str, command: tuple[str, ...]
) -> None:
    """S2.3: SQLite takes it for sound, as where pages were cut off and filled with zeros."""
    memory = open_memory()
    memory.remember([NewRecord(text="The port of the gateway is 9090.", tags=("net",))], memory.caller())
    memory.close()
    with closing(sqlite3.connect(settings.data_dir / "memory.db")) as connection:
        connection.execute("PRAGMA ignore_check_constraints = ON")
        connection.execute("PRAGMA foreign_keys = OFF")
        connection.execute(WRITTEN_OVER[content])
        connection.commit()
    told = run(*command)
    if told.code == 0:  # What does not read that field goes on.
        assert "Traceback" not in told.err
        return
    assert "damaged and was left as it is" in told.err
    assert "mcp-memory restore" in told.err
    assert len(told.err.splitlines()) == 1


def test_a_defect_over_a_sound_memory_is_not_called_damage(
    settings: Settings, open_memory: Callable[..., App], monkeypatch: pytest.MonkeyPatch, run: "Run"
) -> None:
    memory = open_memory()
    memory.remember([NewRecord(text="The port of the gateway is 9090.")], memory.caller())
    memory.close()

    def fails(*_: object, **__: object) -> None:
        raise ValueError("a defect of ours")

    monkeypatch.setattr(App, "status", fails)
    with pytest.raises(ValueError, match="a defect of ours"):
        run("status")
