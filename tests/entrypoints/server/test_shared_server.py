"""L1.2: the windows of other processes, as the process that owns their memory serves them."""

import json
import socket
import time
from itertools import takewhile
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

import anyio
import pytest
from anyio import to_thread

from mcp_memory.bridge import door, private_sockets
from mcp_memory.entrypoints.server import shared_server
from mcp_memory.entrypoints.server.line_streams import LineOutput
from mcp_memory.entrypoints.server.mcp_server import build_server
from mcp_memory.entrypoints.server.shared_server import SharedServer
from mcp_memory.locations import as_told
from tests.e2e.conftest import HANDSHAKE

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


@pytest.mark.anyio
async def test_where_a_call_gets_no_memory_or_thread_another_process_is_to_serve(app: "App", tmp_path: Path) -> None:
    """The limits are those of the client that started this one, which would fail the others' calls for hours."""

    async def starve(ctx: Any, call_next: Any) -> Any:
        raise RuntimeError("can't start new thread")

    server, told = build_server(app), anyio.Event()
    windows = SharedServer(app, server, told.set)
    server.middleware.append(starve)
    ours, theirs = socket.socketpair()
    hello = {**as_told({}), "folder": str(tmp_path), "session": "one", "place": None}
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(windows.receive, ours, hello)
        with anyio.fail_after(30):
            theirs.sendall(json.dumps(PING).encode() + b"\n")
            await told.wait()
        theirs.close()


@pytest.mark.anyio
async def test_a_window_knows_its_place_before_it_has_the_answer_of_the_call_that_took_it(
    app: "App", tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its owner may be killed right behind that answer."""
    send = LineOutput._try_to_send  # noqa: SLF001

    def send_slowly(output: LineOutput, line: bytes) -> None:
        time.sleep(0.2)
        send(output, line)

    monkeypatch.setattr(LineOutput, "_try_to_send", send_slowly)
    windows = SharedServer(app, build_server(app), lambda: None)
    ours, theirs = socket.socketpair()
    hello = {**as_told({}), "folder": str(tmp_path), "session": "one", "place": None}
    pushing = {"name": "push_task", "arguments": {"goal": "Mend the pump"}}
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(windows.receive, ours, hello)
        with theirs, theirs.makefile("rb") as answers:
            for message in (
                {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": HANDSHAKE},
                {"jsonrpc": "2.0", "method": "notifications/initialized"},
                {"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": pushing},
            ):
                theirs.sendall(json.dumps(message).encode() + b"\n")
            told = await to_thread.run_sync(_lines_to, answers, b'"id":2')
            assert any(line.startswith(door.PLACE) for line in told)


def _lines_to(answers: BinaryIO, last: bytes) -> list[bytes]:
    """The lines before the one with these words."""
    return [*takewhile(lambda line: last not in line, answers)]


def _wait_until_empty(windows: SharedServer) -> None:
    while windows.has_windows:
        time.sleep(0.01)
