"""An agent loop whose conversation stays inside its window. docs/compaction.md explains it."""

from collections.abc import Awaitable, Callable
from typing import Any

from mcp import Client, StdioServerParameters

from mcp_memory.client import Conversation

Message = dict[str, Any]
Model = Callable[[list[Message]], Awaitable[Message]]
Tool = Callable[[dict[str, Any]], Awaitable[str]]


async def work(
    server: StdioServerParameters, model: Model, tools: dict[str, Tool], prompts: list[str]
) -> list[Message]:
    """Answer the prompts one after the other; `model` sends messages to the Anthropic interface."""
    messages: list[Message] = []
    async with Client(server) as client:
        conversation = Conversation(client=client, session_id="exports", window=20_000)
        for prompt in prompts:
            messages.append({"role": "user", "content": prompt})
            while True:
                messages = await conversation.fitted(messages)
                said = await model(messages)
                messages.append(said)
                calls = [part for part in said["content"] if part["type"] == "tool_use"]
                if not calls:
                    break
                results = [
                    {
                        "type": "tool_result",
                        "tool_use_id": call["id"],
                        "content": await tools[call["name"]](call["input"]),
                    }
                    for call in calls
                ]
                messages.append({"role": "user", "content": results})
    return messages
