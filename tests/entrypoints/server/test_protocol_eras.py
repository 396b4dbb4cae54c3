import gc
import json
import threading
from typing import TYPE_CHECKING, Any

import pytest
from mcp import Client
from mcp.server import MCPServer
from mcp.shared.exceptions import MCPError
from mcp.types import INVALID_PARAMS, CallToolResult, Implementation, TextContent, TextResourceContents

from mcp_memory import __version__
from mcp_memory.domain.model.records import NewRecord
from mcp_memory.entrypoints.server.mcp_server import INSTRUCTIONS, build_server
from mcp_memory.entrypoints.server.tools.forget import PENDING
from mcp_memory.stores.records import store_sqlite

if TYPE_CHECKING:
    from mcp_memory.app import App

TOOLS = ["remember", "recall", "assemble_context", "push_task", "pop_task", "compact", "revise", "forget"]


@pytest.fixture(params=["auto", "legacy"])
def era(request: pytest.FixtureRequest) -> str:
    """How a client of the SDK connects: by discovery (2026-07-28), or by the handshake (2025-11-25)."""
    return str(request.param)


@pytest.fixture
def server(app: "App") -> MCPServer:
    return build_server(app)


def text_of(result: CallToolResult) -> str:
    assert len(result.content) == 1
    assert isinstance(result.content[0], TextContent)
    return result.content[0].text


async def read_json(client: Client, uri: str) -> dict[str, Any]:
    content = (await client.read_resource(uri)).contents[0]
    assert isinstance(content, TextResourceContents)
    assert content.mime_type == "application/json"
    return json.loads(content.text)


async def test_a_client_learns_who_serves_and_what_for(server: MCPServer, era: str) -> None:
    """S6.2."""
    async with Client(server, mode=era) as client:
        assert client.server_info is not None
        assert (client.server_info.name, client.server_info.version) == ("mcp-memory", __version__)
        assert client.instructions == INSTRUCTIONS
        assert [tool.name for tool in (await client.list_tools()).tools] == TOOLS
        assert {one.uri for one in (await client.list_resources()).resources} == {
            "memory://status",
            "skill://memory/SKILL.md",
            "memory://tasks",
            "memory://review",
        }
        templates = (await client.list_resource_templates()).resource_templates
        assert [one.uri_template for one in templates] == [
            "memory://record/{id}",
            "memory://record/{id}/files",
            "memory://session/{id}/anthropic",
            "memory://session/{id}/openai",
            "memory://session/{id}",
            "memory://context/{id}",
        ]


async def test_a_record_is_stored_found_revised_and_forgotten(server: MCPServer, era: str) -> None:
    async with Client(server, mode=era) as client:
        stored = (await client.call_tool("remember", {"text": "The build runs on port 8123 — ✓"})).structured_content
        assert stored is not None
        [told] = stored["records"]
        assert told["status"] == "stored"
        assert (told["similar"], told["redacted"]) == ([], 0)
        found = (await client.call_tool("recall", {"query": "which port does the build use"})).structured_content
        assert found is not None
        assert [result["id"] for result in found["results"]] == [told["id"]]
        assert "8123 — ✓" in found["results"][0]["text"]
        revised = await client.call_tool("revise", {"id": told["id"], "text": "The build runs on port 9000"})
        assert revised.structured_content is not None
        assert revised.structured_content["text"] == "The build runs on port 9000"
        assert (await read_json(client, f"memory://record/{told['id']}"))["id"] == told["id"]
        forgotten = await client.call_tool("forget", {"ids": [told["id"], "r0none"]})
        assert forgotten.structured_content == {"retired": [told["id"]], "not_found": ["r0none"], "change": 4}


async def test_several_records_share_what_is_said_beside_them(server: MCPServer, era: str) -> None:
    items = [{"text": "Alpha uses Postgres"}, {"text": "Beta was dropped", "kind": "decision"}]
    async with Client(server, mode=era) as client:
        stored = await client.call_tool("remember", {"items": items, "kind": "fact", "tags": ["db"]})
        assert stored.structured_content is not None
        ids = [record["id"] for record in stored.structured_content["records"]]
        kinds = [(await read_json(client, f"memory://record/{one}"))["kind"] for one in ids]
        assert kinds == ["fact", "decision"]


async def test_everything_that_can_be_said_of_a_record_is_kept(server: MCPServer, era: str) -> None:
    said = {
        "text": "Mosquitto runs on the Pi",
        "kind": "procedure",
        "importance": 3,
        "confidence": 0.5,
        "tags": ["mqtt"],
        "entities": [{"name": "Mosquitto", "type": ""}, {"name": "Pi", "type": "device", "properties": {"ram_gb": 1}}],
        "relations": [{"source": "Mosquitto", "type": "runs_on", "target": "Pi"}],
        "outcome": "success",
        "details": {"name": "start the broker", "description": "systemctl start mosquitto"},
        "session_id": "s-42",
        "occurred_at": "2024-05-06",
        "pinned": True,
        "visibility": "private",
        "task_id": "",
    }
    async with Client(server, mode=era) as client:
        stored = await client.call_tool("remember", said)
        assert stored.structured_content is not None, text_of(stored)
        record = await read_json(client, f"memory://record/{stored.structured_content['records'][0]['id']}")
        assert record["importance"] == 3
        assert (record["confidence"], record["tags"], record["outcome"], record["pinned"]) == (
            0.5,
            ["mqtt"],
            "success",
            True,
        )
        assert record["details"] == said["details"]
        assert record["occurred_at"].startswith("2024-05-06")
        assert (record["visibility"], record["session_id"]) == ("private", "s-42")
        log = await read_json(client, "memory://session/s-42")
        assert [entry["id"] for entry in log["records"]] == [record["id"]]


async def test_a_long_text_is_opened_page_by_page(server: MCPServer, era: str) -> None:
    text = " ".join(f"word{number}" for number in range(1000))
    async with Client(server, mode=era) as client:
        stored = await client.call_tool("remember", {"text": text})
        assert stored.structured_content is not None
        record_id = stored.structured_content["records"][0]["id"]
        pages: list[str] = []
        offset: int | None = 0
        while offset is not None:
            page = await client.call_tool(
                "recall", {"ids": [record_id, "r0none"], "detail": "full", "max_tokens": 1000, "offset": offset}
            )
            assert page.structured_content is not None
            assert page.structured_content["not_found"] == ["r0none"]
            pages.append(page.structured_content["results"][0]["text"])
            offset = page.structured_content.get("next_offset")
        assert len(pages) > 1
        assert "".join(pages) == text


@pytest.mark.parametrize(
    "strategy", ["recent", {"name": "recent", "order": "reverse", "decay_hours": 5}, '{"name": "recent"}']
)
async def test_a_strategy_is_a_name_or_an_object(server: MCPServer, era: str, strategy: object) -> None:
    """A1.4."""
    async with Client(server, mode=era) as client:
        result = await client.call_tool("assemble_context", {"strategy": strategy})
        assert result.meta is not None, text_of(result)
        assert result.meta["context"]["strategy"] == "recent"


async def test_a_context_is_text_alone_with_its_account_beside(server: MCPServer, era: str) -> None:
    """B11.1."""
    async with Client(server, mode=era) as client:
        await client.call_tool("remember", {"text": "Deployments happen on Tuesdays"})
        result = await client.call_tool("assemble_context", {"query": "when do we deploy", "max_tokens": 500})
        assert result.structured_content is None
        assert result.meta is not None
        account = result.meta["context"]
        assert text_of(result).startswith(f'<memory-context id="{account["id"]}"')
        assert text_of(result).endswith("</memory-context>")
        assert "Tuesdays" in text_of(result)
        assert set(account) == {"id", "token_count", "truncated", "strategy", "components", "omitted", "metadata"}
        assert 0 < account["token_count"] <= 500
        assert (await read_json(client, f"memory://context/{account['id']}"))["id"] == account["id"]


async def test_tasks_are_entered_and_left(server: MCPServer, era: str) -> None:
    async with Client(server, mode=era) as client:
        pushed = await client.call_tool("push_task", {"goal": "Ship it", "plan": ["Test", "Release"]})
        assert pushed.structured_content is not None
        task = pushed.structured_content["task"]
        assert (task["goal"], task["status"], task["depth"], task["parent_id"]) == ("Ship it", "active", 0, None)
        assert [step["goal"] for step in pushed.structured_content["planned"]] == ["Test", "Release"]
        tree = await read_json(client, "memory://tasks")
        assert [step["goal"] for step in tree["tasks"][0]["subtasks"]] == ["Test", "Release"]
        popped = await client.call_tool("pop_task", {"result": "Shipped", "cascade": True})
        assert popped.structured_content is not None
        assert popped.structured_content["popped"]["status"] == "complete"
        assert popped.structured_content["current"] is None


async def test_a_tool_that_is_not_there_is_answered_with_those_that_are(server: MCPServer, era: str) -> None:
    """S3.1."""
    async with Client(server, mode=era) as client:
        result = await client.call_tool("memorize", {})
        assert result.is_error
        assert text_of(result) == f"Unknown tool. The tools are: {', '.join(TOOLS)}."


async def test_a_prompt_that_is_not_there_is_an_error(
    server: MCPServer, era: str, caplog: pytest.LogCaptureFixture
) -> None:
    """S3.1, S6.2: as an error of the protocol, whose words reach no log."""
    async with Client(server, mode=era) as client:
        assert [prompt.name for prompt in (await client.list_prompts()).prompts] == ["review", "learn"]
        with pytest.raises(MCPError, match=r"The prompts are: review, learn\.") as caught:
            await client.get_prompt("Quetzalcoatlus")
        assert caught.value.code == INVALID_PARAMS
    assert "Quetzalcoatlus" not in caplog.text


async def test_a_resource_that_is_not_there_is_a_protocol_error_with_a_next_move(server: MCPServer, era: str) -> None:
    """S3.1."""
    async with Client(server, mode=era) as client:
        with pytest.raises(MCPError, match="No record"):
            await client.read_resource("memory://record/r0none")


async def test_status_is_readable(server: MCPServer, era: str) -> None:
    async with Client(server, mode=era, client_info=Implementation(name="some-client", version="1")) as client:
        assert await read_json(client, "memory://status")


async def test_text_and_items_exclude_each_other(server: MCPServer, era: str) -> None:
    """S3.1."""
    async with Client(server, mode=era) as client:
        wrong: list[dict[str, Any]] = [{}, {"text": "a", "items": [{"text": "b"}]}, {"items": []}]
        for arguments in wrong:
            result = await client.call_tool("remember", arguments)
            assert result.is_error
            assert text_of(result).startswith("Give either `text` (one record) or `items`")


async def test_of_several_items_the_wrong_one_is_named(server: MCPServer, era: str) -> None:
    """S3.1: whatever is wrong with it."""
    wrong: list[dict[str, Any]] = [
        {"text": "c", "kind": "wisdom"},
        {"text": "c", "kind": "censor", "details": {"action": "forbid"}},
        {"text": "c", "occurred_at": "the day the music died"},
    ]
    async with Client(server, mode=era) as client:
        for item in wrong:
            result = await client.call_tool("remember", {"items": [{"text": "a"}, {"text": "b"}, item]})
            assert result.is_error
            assert "items[2]" in text_of(result)
        single = await client.call_tool("remember", wrong[1])
        assert text_of(single).startswith("details.action of a censor")


@pytest.mark.parametrize("warm_up", [False, True])
async def test_models_are_loaded_once_after_the_first_answer_where_asked_for(
    app: "App", era: str, warm_up: bool
) -> None:
    """S5.1."""
    async with Client(build_server(app, warm_up=warm_up), mode=era) as client:
        await client.list_tools()
        await client.list_tools()
        loading = [thread for thread in threading.enumerate() if thread.name == "warm-up"]
        assert len(loading) == warm_up
        for thread in loading:
            thread.join()


async def test_the_garbage_collector_leaves_out_what_a_start_has_loaded(app: "App", era: str) -> None:
    """L3.2: the program turns it off for its start; after the warm-up it looks at what is newer alone."""
    gc.disable()
    gc.unfreeze()  # What was imported for the tests is left out too.
    try:
        async with Client(build_server(app, warm_up=True), mode=era) as client:
            await client.list_tools()
            for thread in threading.enumerate():
                if thread.name == "warm-up":
                    thread.join()
        assert gc.isenabled()
        assert gc.get_freeze_count() > 0
    finally:
        gc.unfreeze()
        gc.enable()


async def test_what_is_erased_is_told_so_though_its_bytes_are_still_in_use(
    app: "App", server: MCPServer, era: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """R9: no error for what was done; the note says what is to come, and the next answer has none."""
    monkeypatch.setattr(store_sqlite, "PURGE_PATIENCE_SECONDS", 0.05)
    told = [NewRecord(text=each) for each in ("Amber.", "Birch.", "Cedar.", "Delta.")]
    ids = [each.id for each in app.remember(told, app.caller())]
    async with Client(server, mode=era) as client:
        reading = app.records.changes(0, str(app.records.embedder_id()))
        next(reading)
        erased = await client.call_tool("forget", {"ids": ids[:1], "mode": "erase"})
        assert not erased.is_error
        assert erased.structured_content == {"erased": ids[:1], "not_found": [], "note": PENDING}
        assert list(reading)
        later = await client.call_tool("forget", {"ids": ids[1:2], "mode": "erase"})
        assert later.structured_content == {"erased": ids[1:2], "not_found": []}
    assert not app.keep_up()
