"""The list of memories says what it leaves out."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from mcp_memory.app import App
from mcp_memory.domain.model.records import NewRecord
from mcp_memory.entrypoints.page.memories import show_memories
from tests.entrypoints.page.conftest import asked, memory_of, words_of


@pytest.fixture
def memory(tmp_path: Path) -> Iterator[App]:
    opened = memory_of(tmp_path / "data")
    yield opened
    opened.close()


def test_an_empty_list_says_that_messages_of_sessions_are_left_out(memory: App) -> None:
    """U1.1: only where there would be some, and nothing asks for them."""
    left_out = "Messages of sessions are left out; choose a kind or a session to see them."
    assert left_out not in words_of(asked(memory, show_memories))
    memory.remember([NewRecord(text="Is the oven hot?", kind="message", role="user", tags=("oven",))], memory.caller())
    for query in ({}, {"tag": "oven"}, {"author": "ann"}):
        words = words_of(asked(memory, show_memories, query=query))
        assert left_out in words
        assert ("Nothing found." in words) == bool(query)
        assert "Nothing is stored here yet." not in words
    assert "Is the oven hot?" in words_of(asked(memory, show_memories, query={"tag": "oven", "kind": "message"}))
    for query in ({"tag": "stove"}, {"tag": "stove", "kind": "fact"}, {"pinned": "yes"}):
        words = words_of(asked(memory, show_memories, query=query))
        assert left_out not in words
        assert "Nothing found. Try other words" in words
