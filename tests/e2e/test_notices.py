"""Clients that subscribed learn that a resource reads otherwise, whichever process changed it: N6.1."""

from collections.abc import AsyncIterator

import anyio
import pytest
from mcp import Client, MCPError

from mcp_memory.entrypoints.server.notices import MOST_WATCHED
from tests.e2e.conftest import PATIENCE_SECONDS, ServerProcess
from tests.ear import Ear
from tests.forked import forked_stdio

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.filterwarnings("ignore:resources/:mcp.shared.exceptions.MCPDeprecationWarning"),
]


@pytest.fixture(params=["auto", "legacy"])
def era(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def ear() -> Ear:
    return Ear()


@pytest.fixture
async def client(server: ServerProcess, environment: dict[str, str], era: str, ear: Ear) -> AsyncIterator[Client]:
    """A client whose own process finds an owner there: it starts none, which would load everything."""
    async with Client(forked_stdio(environment), mode=era, message_handler=ear.take) as client:
        yield client


def remember(server: ServerProcess, text: str) -> str:
    return server.call("remember", text=text)["structuredContent"]["records"][0]["id"]


async def test_what_another_process_changes_is_told(client: Client, era: str, ear: Ear, server: ServerProcess) -> None:
    """Only of what was subscribed to; also of what the client's own server changes."""
    first, second = remember(server, "The port is 80."), remember(server, "The name is Orion.")
    assert client.server_capabilities.resources is not None
    assert client.server_capabilities.resources.subscribe
    watched = [f"memory://record/{first}", f"memory://record/{first}z", "memory://tasks"]
    with anyio.fail_after(PATIENCE_SECONDS):
        async with ear.listening(client, era, *watched) as heard:
            server.call("revise", id=second, text="The name is Vega.")
            server.call("revise", id=first, text="The port is 81.")
            assert await heard() == f"memory://record/{first}"
            await client.call_tool("push_task", {"goal": "Ship it."})
            assert await heard() == "memory://tasks"
            server.call("forget", ids=[first], mode="erase")
            assert await heard() == f"memory://record/{first}"


async def test_more_than_is_watched_is_refused(client: Client, era: str, ear: Ear) -> None:
    """Each resource is read after every change."""
    uris = [f"memory://record/r{number}" for number in range(MOST_WATCHED + 1)]
    with pytest.raises(MCPError, match=f"More than {MOST_WATCHED} resources"):
        await ear.listening(client, era, *uris).__aenter__()
