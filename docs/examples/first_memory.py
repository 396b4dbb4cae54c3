"""Two sessions of an agent, for docs/tutorial.md: one that is killed in the middle of a task, and one that goes on.

python first_memory.py work     stores what was learnt, then kills its server
python first_memory.py resume   asks a new server, with nothing but a budget
"""

import asyncio
import sys

import psutil
from mcp import Client, StdioServerParameters

from mcp_memory.bridge.door import owner_of
from mcp_memory.locations import data_dir

SERVER = StdioServerParameters(command=sys.executable, args=["-I", "-m", "mcp_memory"])
SERVER.env = {"MCP_MEMORY_DATA_DIR": data_dir({})}  # that of this shell


async def work() -> None:
    async with Client(SERVER) as agent:
        await agent.call_tool("push_task", {"goal": "Publish the tide table every night", "plan": ["Parse the gauge"]})
        await agent.call_tool("push_task", {"goal": "Read the gauge over the radio link", "branch": True})
        await agent.call_tool("pop_task", {"result": "The link drops when a ferry passes.", "status": "failed"})
        decision = {"text": "The gauge is read over its serial cable.", "kind": "decision", "importance": 7}
        await agent.call_tool("remember", decision | {"details": {"reasons": ["the radio link drops"]}})
        server = psutil.Process(owner_of(data_dir({}))["pid"])
        print(f"Stored. Killing the server, process {server.pid}.")
        server.kill()


async def resume() -> None:
    async with Client(SERVER) as agent:
        answer = await agent.call_tool("assemble_context", {"max_tokens": 500})
        print("".join(part.text for part in answer.content if part.type == "text"))


if __name__ == "__main__":
    asyncio.run(work() if sys.argv[1:] == ["work"] else resume())
