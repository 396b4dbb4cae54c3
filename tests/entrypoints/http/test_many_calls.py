"""Many calls and sessions at once: so many work, so many wait, and beyond them a client is told to call again."""

import contextlib
import re
import socket
import sqlite3
import threading
import time
from collections.abc import Callable, Generator, Mapping
from pathlib import Path
from typing import Any

import anyio
import httpx2
import pytest
from mcp.types import CreateMessageRequestParams, CreateMessageResult, TextContent

from tests.entrypoints.http.conftest import HttpServer, connected, open_session, post, text_of, wait_until, web

RECALL = {"name": "recall", "arguments": {"query": "number"}}
ACCEPTED = {"accept": "application/json, text/event-stream", "content-type": "application/json"}
Start = Callable[..., HttpServer]


@pytest.fixture
def data_dir(tmp_path: Path) -> Path:
    return tmp_path / "data"


def call(tool: str, **arguments: object) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": tool, "arguments": arguments}}


def ask(url: str, message: Mapping[str, Any], headers: Mapping[str, str], client: httpx2.Client | None = None) -> int:
    """Send a message on a connection of its own, unless one is given; the answer's status."""
    if client is not None:
        return client.post(url, json=message, headers={**ACCEPTED, **headers}).status_code
    with httpx2.Client(timeout=60, verify=False) as own:
        return ask(url, message, headers, own)


@contextlib.contextmanager
def another_writer(data_dir: Path) -> Generator[None]:
    """Whoever stores something waits meanwhile, however quick the machine is."""
    with contextlib.closing(sqlite3.connect(data_dir / "memory.db", isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        try:
            yield
        finally:
            other.execute("ROLLBACK")


def in_flight(server: HttpServer) -> int:
    page = web.get(server.address("/metrics"), headers={"connection": "close"}).text
    return int(float(re.findall(r"^mcp_memory_calls_in_flight (\S+)$", page, re.MULTILINE)[0]))


def test_a_session_is_reached_on_every_connection(data_dir: Path, start_http: Start) -> None:
    """L4.2: on new ones, on one that serves all sessions in turn as a proxy's does, and where a request trickles in."""
    server = start_http(data_dir)
    sessions = [open_session(server.url, "") for _ in range(3)]
    with httpx2.Client(timeout=60, verify=False) as shared:
        for round_trip in range(2):
            for session in sessions:
                own = {"mcp-session-id": session}
                goal = call("push_task", goal=f"Goal {round_trip} of {session}")
                assert ask(server.url, goal, own, shared) == 200
                assert ask(server.url, call("recall", query="goal"), own) == 200
    for session in sessions:
        popped = post(
            server.url, "tools/call", {"name": "pop_task", "arguments": {"result": "done"}}, {"mcp-session-id": session}
        )
        assert f"Goal 1 of {session}" in popped.text
        body = b'{"jsonrpc": "2.0", "id": 1, "method": "tools/list"}'
        lines = {**ACCEPTED, "host": "127.0.0.1", "mcp-session-id": session, "content-length": len(body)}
        head = "".join(f"{name}: {value}\r\n" for name, value in lines.items())
        request = f"POST /mcp HTTP/1.1\r\n{head}\r\n".encode() + body
        with socket.create_connection(("127.0.0.1", server.port), 60) as dripping:
            for start in range(0, len(request), 40):
                dripping.sendall(request[start : start + 40])
            assert dripping.recv(100).startswith(b"HTTP/1.1 200")
    assert post(server.url, "tools/call", RECALL, {"mcp-session-id": "7.unknown"}).status_code == 404


def test_two_dozen_clients_at_once_are_all_answered(data_dir: Path, start_http: Start) -> None:
    """L4.2: by turns. One that is told to ask again in a while does so."""
    server = start_http(data_dir, http_calls=4)
    statuses: list[int] = []

    def work(number: int) -> None:
        own = {"mcp-session-id": open_session(server.url, "")}
        for n in range(2):
            status = 503
            for _ in range(20):
                status = ask(server.url, call("remember", text=f"Client {number} says {n}."), own)
                if status != 503:
                    break
                time.sleep(0.2)
            statuses.append(status)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(24)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert statuses == [200] * 48
    assert "mcp_memory_records 48.0" in web.get(server.address("/metrics")).text


def test_a_call_beyond_those_that_may_wait_is_told_what_to_do(data_dir: Path, start_http: Start) -> None:
    """L4.2."""
    server = start_http(data_dir, http_calls=1, http_waiting_calls=1)
    sessions = [{"mcp-session-id": open_session(server.url, "")} for _ in range(3)]
    *busy, own = sessions
    assert ask(server.url, call("recall", query="number"), own) == 200
    calls = [threading.Thread(target=ask, args=(server.url, call("remember", text="One"), each)) for each in busy]
    with another_writer(data_dir):
        for each in calls:
            each.start()
        wait_until(lambda: in_flight(server) == 2)
        refused = post(server.url, "tools/call", RECALL, own)
        assert (refused.status_code, refused.headers["retry-after"]) == (503, "5")
        assert "The server is busy" in refused.json()["error"]["message"]
        assert web.get(server.address("/healthz")).status_code == 200
    for each in calls:
        each.join(60)


async def test_a_call_that_waits_for_its_client_lets_others_work(data_dir: Path, start_http: Start) -> None:
    """L4.2."""
    server = start_http(data_dir, http_calls=1, http_waiting_calls=1)
    own = {"mcp-session-id": open_session(server.url, "")}
    meanwhile: list[int] = []

    async def answer(_context: object, params: CreateMessageRequestParams) -> CreateMessageResult:
        meanwhile.append(await anyio.to_thread.run_sync(ask, server.url, call("recall", query="number"), own))
        said = TextContent(type="text", text="They spoke of gulls.")
        return CreateMessageResult(role="assistant", content=said, model="m")

    messages = [{"role": "user", "content": f"Gull {n}. " + "They fly over the wall. " * 60} for n in range(24)]
    async with connected(server.url, era="legacy", sampling_callback=answer) as client:
        done = await client.call_tool("compact", {"messages": messages, "summarizer": "sampling", "window": 4_000})
        assert not done.is_error, text_of(done)
    assert meanwhile
    assert set(meanwhile) == {200}
