"""A host finds the apps over standard streams, over HTTP, and through a process that passes messages on to a server."""

from collections.abc import Callable
from contextlib import AsyncExitStack
from pathlib import Path

import pytest
from mcp import Client
from mcp.client.extension import advertise
from mcp.types import TextResourceContents

from mcp_memory.entrypoints.server.mcp_server import APPS
from tests.entrypoints.http.conftest import ERAS, HttpServer, connected, environment_of
from tests.forked import forked_stdio

DRAWS = advertise(APPS, {"mimeTypes": ["text/html;profile=mcp-app"]})


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory, start_http: Callable[..., HttpServer]) -> HttpServer:
    return start_http(tmp_path_factory.mktemp("apps") / "data")


async def check(client: Client) -> None:
    [link] = {
        tool.meta["ui"]["resourceUri"]
        for tool in (await client.list_tools()).tools
        if tool.meta and "context" in tool.name
    }
    assert link in [each.uri for each in (await client.list_resources()).resources]
    [document] = (await client.read_resource(link)).contents
    assert isinstance(document, TextResourceContents)
    assert document.text.startswith("<!doctype html>")


@pytest.mark.parametrize("era", ERAS)
async def test_over_http(server: HttpServer, era: str) -> None:
    """U4.2: each client is answered by what it announced itself."""
    async with connected(server.url, era=era, extensions=[DRAWS]) as client, connected(server.url, era=era) as other:
        await check(client)
        assert not any(tool.meta for tool in (await other.list_tools()).tools)


@pytest.mark.parametrize("attached", [False, True])
async def test_over_standard_streams(server: HttpServer, tmp_path: Path, attached: bool) -> None:
    """U4.2: with a memory of its own, or with that of a server."""
    environment = environment_of(tmp_path / "data", **({"MCP_MEMORY_URL": server.url} if attached else {}))
    async with AsyncExitStack() as connections:
        for era in ERAS:
            await check(
                await connections.enter_async_context(Client(forked_stdio(environment), mode=era, extensions=[DRAWS]))
            )
