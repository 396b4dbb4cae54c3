"""A server's life: where it may listen, what it says when it cannot, and how it ends."""

import contextlib
import signal
import socket
import sqlite3
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx2
import psutil
import pytest

from mcp_memory.entrypoints.http.request_checks import transport_security
from mcp_memory.entrypoints.http.server import Listening, serve
from mcp_memory.errors import InvalidRequest
from mcp_memory.settings import load_settings
from tests.entrypoints.http.conftest import (
    PATIENCE_SECONDS,
    HttpServer,
    command_line,
    connected,
    found,
    headers_of,
    make_token,
    open_session,
    post,
    revoke_token,
    wait_until,
    web,
)

STORE = {"name": "remember", "arguments": {"text": "Seven is a number."}}
RECALL = {"name": "recall", "arguments": {"query": "number"}}


@pytest.fixture
def server(tmp_path: Path, start_http: Callable[..., HttpServer]) -> HttpServer:
    """A server of this machine alone, which has no tokens."""
    return start_http(tmp_path / "data")


def refusal_to_start(data_dir: Path, monkeypatch: pytest.MonkeyPatch, **chosen: Any) -> str:
    monkeypatch.setenv("MCP_MEMORY_CONFIG", str(data_dir / "none.toml"))
    with pytest.raises(InvalidRequest) as refused:
        serve(load_settings(data_dir=data_dir), Listening(port=0, **chosen))
    return str(refused.value)


def test_names_that_are_allowed_are_known_as_browsers_write_them() -> None:
    """S4.2."""
    security = transport_security("127.0.0.1", ("Memory.Example.com",))
    assert "memory.example.com" in security.allowed_hosts
    assert "https://memory.example.com:*" in security.allowed_origins


@pytest.mark.parametrize("chosen", [{"host": "0.0.0.0"}, {"allowed_hosts": ("memory.example.com",)}])
def test_without_a_token_nobody_but_this_machine_is_served(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, chosen: dict[str, Any]
) -> None:
    """S4.2."""
    assert "`mcp-memory tokens add`" in refusal_to_start(tmp_path / "data", monkeypatch, **chosen)


def test_nobody_is_let_in_anonymously_from_elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """S4.2."""
    make_token(tmp_path / "data", "ann")
    told = refusal_to_start(tmp_path / "data", monkeypatch, host="0.0.0.0", anonymous=True)
    assert "--anonymous lets in this machine only" in told


def test_a_host_that_is_not_this_machines_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for host, why in (
        ("no.such.invalid", "There is no host"),
        ("192.0.2.1", "Cannot listen on"),
        ("é" * 80, "no host"),
    ):
        assert why in refusal_to_start(tmp_path / "data", monkeypatch, host=host)
    assert not (tmp_path / "data").exists()


def test_a_port_that_is_taken_is_said_in_a_line(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        done = command_line(tmp_path / "data", "serve", "--http", "--port", str(port))
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == f"mcp-memory: Port {port} on 127.0.0.1 is taken; choose another with --port.\n"


async def test_this_machine_needs_no_token_until_there_is_one(server: HttpServer) -> None:
    """S4.2: then it does, also once that was revoked; what comes by a proxy always does."""
    async with connected(server.url) as client:
        await client.call_tool("remember", {"text": "Gulls nest here."})
        assert await found(client, "Gulls") == ["Gulls nest here."]
    async with connected(server.url, namespace="pier%2Fsouth") as client:
        assert await found(client, "Gulls") == []
    assert web.get(server.address("/metrics")).status_code == 200
    for proxy in ("x-forwarded-for", "x-forwarded-host", "via"):
        assert post(server.url, "tools/call", RECALL, {proxy: "192.0.2.1"}).status_code == 401
    assert post(server.url, "tools/call", RECALL, {"mcp-memory-namespace": "a" * 201}).status_code == 400
    make_token(server.data_dir, "ann")
    assert web.get(server.address("/metrics")).status_code == 401
    revoke_token(server.data_dir, "ann")
    assert web.get(server.address("/metrics")).status_code == 401


async def test_this_machine_is_let_in_beside_tokens_where_told_so(
    tmp_path: Path, start_http: Callable[..., HttpServer]
) -> None:
    """S4.2: a wrong token is wrong all the same; a session that was opened without one is nobody else's."""
    secret = make_token(tmp_path / "data", "ann")
    server = start_http(tmp_path / "data", "--port", "0", "--anonymous")
    session = open_session(server.url, "")
    assert post(server.url, "tools/call", RECALL, {"mcp-session-id": session}).status_code == 200
    stolen = post(server.url, "tools/call", RECALL, headers_of(secret) | {"mcp-session-id": session})
    assert stolen.status_code == 404
    assert post(server.url, "tools/call", RECALL, headers_of("wrong")).status_code == 401


@pytest.mark.skipif(not hasattr(signal, "SIGTERM"), reason="no such signal")
def test_told_to_stop_it_finishes_what_is_in_flight_and_leaves_nothing(
    tmp_path: Path, start_http: Callable[..., HttpServer]
) -> None:
    """S5.1: also with a stream open that would never end."""
    server = start_http(tmp_path / "data", semantic_store="chroma")
    session = open_session(server.url, "")
    mine = {"mcp-session-id": session}
    assert post(server.url, "tools/call", RECALL, mine).status_code == 200  # The services are made.
    wait_until(lambda: bool(psutil.Process(server.process.pid).children()))  # the index's process is up
    family = psutil.Process(server.process.pid).children(recursive=True)
    answers: list[httpx2.Response] = []

    def call() -> None:
        answers.append(post(server.url, "tools/call", STORE, mine, 7))

    def listen() -> None:
        with (
            contextlib.suppress(httpx2.HTTPError),
            web.stream("GET", server.url, headers={"accept": "text/event-stream", **mine}) as stream,
        ):
            is_open.set()
            stream.read()

    is_open = threading.Event()
    threads = [threading.Thread(target=listen), threading.Thread(target=call)]
    threads[0].start()
    assert is_open.wait(PATIENCE_SECONDS)
    figures = server.address("/metrics")
    with contextlib.closing(sqlite3.connect(tmp_path / "data" / "memory.db", isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")  # The call waits for this writer, however quick the machine is.
        threads[1].start()
        wait_until(lambda: "mcp_memory_calls_in_flight 1.0" in web.get(figures).text)
        server.process.send_signal(signal.SIGTERM)
        wait_until(lambda: post(server.url, "tools/list", {}, mine).status_code == 503)
        assert answers == []
        other.execute("ROLLBACK")
    assert server.process.wait(PATIENCE_SECONDS) == 0
    for thread in threads:
        thread.join(PATIENCE_SECONDS)
    [answer] = answers
    assert answer.status_code == 200
    assert '"status":"stored"' in answer.text.replace("\\", "")
    wait_until(lambda: not any(child.is_running() and child.status() != psutil.STATUS_ZOMBIE for child in family))


def test_a_store_that_cannot_be_read_is_unwell(server: HttpServer) -> None:
    """S2.3."""
    for file in server.data_dir.glob("memory.db*"):
        with file.open("r+b") as damaged:
            damaged.write(b"no database " * 1_000)
    answer = web.get(server.address("/healthz"))
    assert (answer.status_code, answer.json()["status"]) == (503, "unavailable")
