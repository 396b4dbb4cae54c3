"""Apps are offered to clients that announce that they draw them, and to nobody else."""

import json
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest
from mcp import Client
from mcp.client.extension import advertise
from mcp.server import MCPServer
from mcp.shared.exceptions import MCPError
from mcp.types import TextResourceContents

from mcp_memory.entrypoints.server.mcp_server import APPS, build_server
from mcp_memory.entrypoints.server.resources import SKILL_URI as SKILL
from mcp_memory.entrypoints.server.resources import SKILLS
from tests.entrypoints.http.conftest import ERAS

if TYPE_CHECKING:
    from mcp_memory.app import App

MIME_TYPE = "text/html;profile=mcp-app"
CONTEXT, TASKS = "ui://mcp-memory/context.html", "ui://mcp-memory/tasks.html"
EMPTY = {f"{kind}Domains": list[str]() for kind in ("connect", "resource", "frame", "baseUri")}
ASKS_NEITHER = """\
import asyncio, sys
from mcp import Client
from mcp_memory.app import open_app
from mcp_memory.entrypoints.server.mcp_server import build_server
from mcp_memory.settings import load_settings

async def main():
    async with Client(build_server(open_app(load_settings(data_dir=sys.argv[1], namespace="test")))) as client:
        await client.list_tools()
        await client.list_resources()
        apps = ("mcp.server.apps", "mcp_memory.entrypoints.server.apps")
        print([name for name in sys.modules if name.startswith(apps)])

asyncio.run(main())
"""


@pytest.fixture
def server(app: "App") -> MCPServer:
    return build_server(app)


def client_of(server: MCPServer, era: str, *mime_types: str) -> Client:
    """A client that announces the extension with these types."""
    return Client(server, mode=era, extensions=[advertise(APPS, {"mimeTypes": list(mime_types)})])


async def listed(client: Client) -> tuple[str, str]:
    """The lists of tools and resources, as they came."""
    tools, resources = await client.list_tools(), await client.list_resources()
    return tools.model_dump_json(by_alias=True), resources.model_dump_json(by_alias=True)


@pytest.mark.parametrize("era", ERAS)
async def test_a_client_that_draws_apps_finds_and_reads_them(server: MCPServer, era: str) -> None:
    """U4.2: each is one document that asks for no domain and loads nothing."""
    async with client_of(server, era, "text/other", MIME_TYPE) as client:
        linked = {tool.name: tool.meta for tool in (await client.list_tools()).tools if tool.meta}
        assert linked == {
            "assemble_context": {"ui": {"resourceUri": CONTEXT}},
            "push_task": {"ui": {"resourceUri": TASKS}},
            "pop_task": {"ui": {"resourceUri": TASKS}},
        }
        resources = {each.uri: each for each in (await client.list_resources()).resources}
        assert set(resources) == {"memory://status", "memory://tasks", "memory://review", SKILL, CONTEXT, TASKS}
        for uri in (CONTEXT, TASKS):
            [document] = (await client.read_resource(uri)).contents
            assert isinstance(document, TextResourceContents)
            assert (document.uri, document.mime_type, resources[uri].mime_type) == (uri, MIME_TYPE, MIME_TYPE)
            assert document.meta == resources[uri].meta == {"ui": {"csp": EMPTY, "prefersBorder": True}}
            assert document.text.startswith("<!doctype html>\n")
            assert document.text.count("</script>") == document.text.count("</style>") == 1
            assert not any(
                word in document.text for word in ("http:", "https:", "innerHTML", "src=", "@import", "url(")
            )
            fields = (await client.read_resource(uri)).model_fields_set
            assert fields == (await client.read_resource("memory://tasks")).model_fields_set
        with pytest.raises(MCPError, match="Unknown resource"):
            await client.read_resource("ui://mcp-memory/other.html")
        assert json.loads((await client.read_resource("memory://tasks")).contents[0].model_dump()["text"])


@pytest.mark.parametrize("era", ERAS)
async def test_for_any_other_client_nothing_differs(
    app: "App", server: MCPServer, era: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """U4.2: neither where it announces nothing nor where it draws another kind; as if there were no apps."""
    async with Client(server, mode=era) as silent, client_of(server, era, "text/html") as other:
        lists = await listed(silent)
        assert lists == await listed(other)
        for client in (silent, other):
            with pytest.raises(MCPError, match="Unknown resource"):
                await client.read_resource(CONTEXT)

    async def nothing(ctx: Any, call_next: Any) -> Any:
        return await call_next(ctx)

    monkeypatch.setattr("mcp_memory.entrypoints.server.mcp_server.offer_apps", nothing)
    async with Client(build_server(app), mode=era) as client:
        assert await listed(client) == lists


async def test_the_server_says_that_it_has_apps(server: MCPServer) -> None:
    """U4.2: in the era whose answers have a place for it; the library leaves it out of the older ones."""
    async with Client(server) as client:
        assert client.server_capabilities.extensions == {APPS: {}, SKILLS: {}}


@pytest.mark.parametrize("era", ERAS)
async def test_what_the_model_reads_is_the_same_with_apps(server: MCPServer, era: str) -> None:
    """U4.2, B11.1: the block as text; its account stays beside, in `_meta`, where the app finds it."""
    async with Client(server, mode=era) as silent, client_of(server, era, MIME_TYPE) as drawing:
        await silent.call_tool("remember", {"text": "The build runs on port 8123."})
        asked = {"query": "build port", "max_tokens": 500}
        first, second = [await client.call_tool("assemble_context", asked) for client in (silent, drawing)]
        assert first.content == second.content
        assert first.structured_content is second.structured_content is None
        assert second.meta is not None
        assert second.meta["context"]["components"]


def test_nothing_of_the_apps_is_loaded_for_others(tmp_path: Any) -> None:
    """U4.2: neither at the start nor with the first lists."""
    command = [sys.executable, "-c", ASKS_NEITHER, str(tmp_path / "data")]
    assert subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip() == "[]"
