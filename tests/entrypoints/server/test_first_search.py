"""What a server loads before it answers a first search: nothing that storing, counting, assembling or dates need."""

import subprocess
import sys
from pathlib import Path

SLOW = {
    "dateparser",
    "mcp_memory.domain.text.conflicts",
    "mcp_memory.domain.text.exact_forms",
    "mcp_memory.domain.text.micro_and_summary",
    "mcp_memory.domain.text.statements",
    "mcp_memory.services.context.assemble",
    "mcp_memory.services.review.settle",
    "mcp_memory.services.sessions.compact",
    "numpy.ma",
    "tiktoken",
}
SEARCHES_AT_ONCE = """\
import asyncio, sys
from mcp import Client
from mcp_memory.app import open_app
from mcp_memory.entrypoints.server.mcp_server import build_server
from mcp_memory.settings import load_settings

async def main():
    app = open_app(load_settings(data_dir=sys.argv[1], namespace="test"))
    async with Client(build_server(app)) as client:
        await client.list_tools()
        app.warm_search()
        await client.call_tool("recall", {"query": "which port does the billing service use"})
        slow = SLOW
        print(sorted(sys.modules.keys() & slow))
        app.warm()
        print(sorted(slow - sys.modules.keys()))

asyncio.run(main())
""".replace("SLOW", repr(SLOW))


def test_a_first_search_waits_for_nothing_that_it_does_not_need(tmp_path: Path) -> None:
    """L2.1, L3.2: patterns and dates take a fifth of a start, and follow once there was time for a search.

    The vocabulary waits for the first call that counts: 42 MB that a server does without which searches alone.
    """
    done = subprocess.run(
        [sys.executable, "-c", SEARCHES_AT_ONCE, str(tmp_path)], check=False, capture_output=True, text=True
    )
    assert done.stdout.splitlines() == ["[]", "['numpy.ma', 'tiktoken']"], done.stderr
