"""D11.1: the loop of docs/compaction.md, with a server of its own over its standard streams, and a scripted model."""

import base64
import importlib.util
import itertools
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from mcp import Client, MCPError, StdioServerParameters
from mcp.types import TextResourceContents

from mcp_memory.client import Conversation, MemoryRefused
from tests.e2e.conftest import ServerProcess, server_environment
from tests.entrypoints.conversations.message_rules import of_anthropic

EXAMPLE = Path(__file__).parents[2] / "docs" / "examples" / "agent_loop.py"
pytestmark = pytest.mark.anyio


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture
def memory(tmp_path: Path, start_server: Callable[..., ServerProcess]) -> StdioServerParameters:
    """The command of a server that finds an owner there: it starts none, which would load everything."""
    factor = {"MCP_MEMORY_TOKEN_FACTOR": "1"}
    start_server(tmp_path / "data", factor)
    env = server_environment(tmp_path / "data") | factor
    return StdioServerParameters(command=sys.executable, args=["-I", "-m", "mcp_memory"], env=env)


def _loop() -> Any:
    spec = importlib.util.spec_from_file_location("agent_loop", EXAMPLE)
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


async def test_the_loop_of_the_docs_stays_inside_its_window(memory: StdioServerParameters) -> None:
    """Every request is valid, and none is longer than the window; what went is opened by its id."""
    numbers, sizes = itertools.count(), list[int]()

    async def model(messages: list[dict[str, Any]]) -> dict[str, Any]:
        assert of_anthropic(messages, messages) == []
        sizes.append(sum(len(str(message["content"])) for message in messages) // 4)
        number = next(numbers)
        if number % 3 == 2:
            return {"role": "assistant", "content": [{"type": "text", "text": f"Part {number} is done."}]}
        call = {"type": "tool_use", "id": f"c{number}", "name": "read", "input": {"path": f"part{number}.py"}}
        return {"role": "assistant", "content": [{"type": "text", "text": f"I read part {number}."}, call]}

    async def read(arguments: dict[str, Any]) -> str:
        return f"# {arguments['path']}\n" + "\n".join(f"value_{line} = {line * 7919}" for line in range(250))

    messages = await _loop().work(memory, model, {"read": read}, [f"Do part {place}." for place in range(5)])
    assert max(sizes) < 20_000
    assert str(messages).count("Do part") >= 5
    mask = next(part for message in messages for part in message["content"] if "ARCHIVED" in str(part))
    async with Client(memory) as client:
        conversation = Conversation(client=client, session_id="exports", window=20_000)
        [opened] = await conversation.recalled([str(mask).partition("ARCHIVED id=")[2].split()[0]])
        assert opened["text"].endswith("value_249 = 1971831")
        with pytest.raises(MemoryRefused, match="has an unknown role"):
            await conversation.fitted([{"role": "oracle", "content": "Hello."}])


async def test_an_image_comes_back_whole_and_its_messages_id_opens_it(memory: StdioServerParameters) -> None:
    """D11.1: a picture of a megabyte, over the server's standard streams."""
    data = base64.b64encode(bytes(range(256)) * 4_000).decode()
    image = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": data}}
    shown = {"role": "user", "content": [{"type": "text", "text": "Look at this."}, image]}

    async def read(client: Client, uri: str) -> Any:
        (page,) = (await client.read_resource(uri)).contents
        assert isinstance(page, TextResourceContents)
        return json.loads(page.text)

    async with Client(memory) as client:
        conversation = Conversation(client=client, session_id="pictures", window=20_000)
        await conversation.fitted([shown])
        page = await read(client, "memory://session/pictures/anthropic")
        assert page["messages"] == [shown]
        found = await client.call_tool("recall", {"query": "Look at this", "kinds": ["message"]})
        assert found.structured_content is not None
        record = found.structured_content["results"][0]["id"]
        (file,) = (await read(client, f"memory://record/{record}/files"))["files"]
        assert (file["type"], file["data"]) == ("image/png", data)
        await client.call_tool("forget", {"ids": [record], "mode": "erase"})
        with pytest.raises(MCPError, match="No record"):
            await read(client, f"memory://record/{record}/files")
