"""The prompt `learn`: what the plugin's command of that name has an agent do, for every client."""

from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from mcp import Client
from mcp.shared.exceptions import MCPError
from mcp.types import TextContent

from mcp_memory.entrypoints.server.mcp_server import build_server

if TYPE_CHECKING:
    from mcp_memory.app import App

COMMAND = Path(__file__).parents[3] / "plugin" / "commands" / "learn.md"


async def asked(client: Client, **arguments: str) -> str:
    (message,) = (await client.get_prompt("learn", arguments)).messages
    assert isinstance(message.content, TextContent)
    return message.content.text


@pytest.mark.anyio
async def test_the_prompt_is_the_plugins_command_with_the_number_that_was_asked_for(app: "App") -> None:
    body = COMMAND.read_text("utf-8").split("---\n", 2)[2].strip()
    async with Client(build_server(app)) as client:
        [listed] = [each for each in (await client.list_prompts()).prompts if each.name == "learn"]
        assert [(each.name, each.required) for each in listed.arguments or ()] == [("number", False)]
        assert await asked(client) == body.replace("$ARGUMENTS", "15")
        assert await asked(client, number=" 12 ") == body.replace("$ARGUMENTS", "12")


@pytest.mark.anyio
@pytest.mark.parametrize("number", ["0", "501", "ten", "-1", "1" * 5_000])
async def test_a_number_that_is_none_is_refused(app: "App", number: str) -> None:
    async with Client(build_server(app)) as client:
        with pytest.raises(MCPError, match="must be from 1 to 500; without one it is 15"):
            await asked(client, number=number)
