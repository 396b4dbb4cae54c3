"""Strategies as a client meets them: built in, from the user's file, and changed by a call."""

from pathlib import Path
from typing import Any

import pytest
from mcp import Client
from mcp.types import CallToolResult, TextContent

from mcp_memory.app import App, open_app
from mcp_memory.domain.model.records import NewRecord
from mcp_memory.entrypoints.server.mcp_server import build_server
from mcp_memory.errors import InvalidRequest
from mcp_memory.services.context.assemble import ContextRequest
from mcp_memory.settings import load_settings


async def call(app: App, arguments: dict[str, Any]) -> tuple[str, CallToolResult]:
    async with Client(build_server(app)) as client:
        result = await client.call_tool("assemble_context", arguments)
    [content] = result.content
    assert isinstance(content, TextContent)
    return content.text, result


async def refusal(app: App, strategy: object) -> str:
    """What a client reads when it asks for that."""
    text, result = await call(app, {"strategy": strategy})
    assert result.is_error
    return text


async def assembled(app: App, strategy: object) -> dict[str, Any]:
    """The account of a context."""
    text, result = await call(app, {"strategy": strategy})
    assert result.meta is not None, text
    return result.meta["context"]


async def test_a_call_can_change_a_strategy_for_itself(app: App) -> None:
    """A6.5: by weights of its own; the next call has the old ones."""
    app.remember([NewRecord(text="The tide tables are in the drawer.", importance=2)], app.caller())
    app.remember([NewRecord(text="The lamp is serviced in March.", importance=9)], app.caller())
    usual = await assembled(app, "important")
    changed = await assembled(app, {"name": "important", "weights": {"recency": 1}, "limits": {"event": 3}})
    assert [each["score"] for each in usual["components"]] == [9, 2]
    assert all(0.99 < each["score"] <= 1 for each in changed["components"])
    assert (await assembled(app, "important"))["components"] == usual["components"]


@pytest.mark.parametrize("weights", [{"importance": 1}, '{"importance": 1}'])
async def test_weights_may_come_as_a_string_of_json(app: App, weights: object) -> None:
    """A6.5: as some clients send what is inside an object."""
    app.remember([NewRecord(text="The lamp is serviced in March.", importance=9)], app.caller())
    [component] = (await assembled(app, {"name": "recent", "weights": weights}))["components"]
    assert component["score"] == pytest.approx(0.6)  # 9 of at most 15, which use can make of it.


@pytest.mark.parametrize(
    ("strategy", "said"),
    [
        ({"weights": {"speed": 1}}, "`strategy`: weights.speed must be 'relevance', "),
        ({"decay_hours": 0}, "`strategy`: decay_hours must be greater than 0."),
        ({"depth": "deep"}, "`strategy`: depth must be a valid integer."),
        ({"shares": {"facts": 2}}, "`strategy`: shares.facts must be less than or equal to 1."),
        ({"speed": 1}, "There is no field `speed` in `strategy`. Known: name, order, "),
        ({"name": "fastest"}, "Unknown strategy 'fastest'; known: auto, balanced, "),
    ],
)
async def test_what_a_call_cannot_ask_for_is_refused_by_its_name(app: App, strategy: object, said: str) -> None:
    """A1.4, A6.5."""
    assert said in await refusal(app, strategy)


async def test_the_users_file_adds_strategies(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A6.5: strategies.toml beside config.toml, where nothing else is named."""
    monkeypatch.setenv("MCP_MEMORY_CONFIG", str(tmp_path / "config.toml"))
    (tmp_path / "strategies.toml").write_text("[newest]\nweights = { recency = 1 }\n")
    app = open_app(load_settings(data_dir=tmp_path / "data", namespace="test"))
    try:
        assert (await assembled(app, "newest"))["strategy"] == "newest"
    finally:
        app.close()


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A6.5: and says what to do."""
    monkeypatch.setenv("MCP_MEMORY_STRATEGIES_FILE", str(tmp_path / "mine.toml"))
    app = open_app(load_settings(data_dir=tmp_path / "data", namespace="test"))
    try:
        with pytest.raises(InvalidRequest, match=r"mine\.toml cannot be read: .* Make it readable"):
            app.assemble_context(ContextRequest(), app.caller())
    finally:
        app.close()
