"""L1.2: the windows of other processes, as the process that owns their memory serves them."""

import json
import socket
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import anyio
import pytest
from anyio import to_thread

from mcp_memory.bridge import private_sockets
from mcp_memory.entrypoints.server import shared_server
from mcp_memory.entrypoints.server.mcp_server import build_server
from mcp_memory.entrypoints.server.shared_server import SharedServer
from mcp_memory.locations import as_told

if TYPE_CHECKING:
    from mcp_memory.app import App

pytestmark = pytest.mark.skipif(not private_sockets.are_possible(), reason="no sockets that name their user")

PING = {"jsonrpc": "2.0", "id": 1, "method": "ping"}


@pytest.mark.anyio
async def test_a_window_that_was_killed_before_it_read_is_not_waited_for_as_long_as_its_call_takes(
    app: "App", tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What it has not read makes the end of its connection an error."""
    monkeypatch.setattr(shared_server, "WINDOW_GRACE_SECONDS", 0.0)
    begun, ended = anyio.Event(), anyio.Event()

    async def hold(ctx: Any, call_next: Any) -> Any:
        begun.set()
        with anyio.CancelScope(shield=True):
            await ended.wait()
        return await call_next(ctx)

    server = build_server(app)
    windows = SharedServer(app, server, lambda: None)
    server.middleware.append(hold)
    ours, theirs = socket.socketpair()
    hello = {**as_told({}), "folder": str(tmp_path), "session": "one", "place": None}
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(windows.receive, ours, hello)
        try:
            with anyio.fail_after(30):
                theirs.sendall(json.dumps(PING).encode() + b"\n")
                await begun.wait()
                await anyio.wait_readable(theirs)
                assert windows.has_windows
                theirs.close()
                await to_thread.run_sync(_wait_until_empty, windows, abandon_on_cancel=True)
        finally:
            ended.set()


def _wait_until_empty(windows: SharedServer) -> None:
    while windows.has_windows:
        time.sleep(0.01)
