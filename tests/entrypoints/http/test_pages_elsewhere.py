"""S4.2: pages of an allowed origin reach the server as browsers do, and read what it answers; others do not."""

import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.entrypoints.http.conftest import PATIENCE_SECONDS, HttpServer, make_token, web

NEAR = "http://localhost:6274"
INITIALIZE: dict[str, Any] = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "page", "version": "1"}},
}
ACCEPT = {"accept": "application/json, text/event-stream"}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory, start_http: Callable[..., HttpServer]) -> HttpServer:
    return start_http(tmp_path_factory.mktemp("pages") / "data")


def asked_first(url: str, origin: str) -> dict[str, str]:
    """The names of the answer's headers that say what a page may do, by what a browser asks before a call."""
    asked = {
        "origin": origin,
        "access-control-request-method": "POST",
        "access-control-request-headers": "authorization,content-type,mcp-protocol-version,mcp-session-id",
    }
    answer = web.options(url, headers=asked)
    return {"status": str(answer.status_code), **{name.lower(): value for name, value in answer.headers.items()}}


@pytest.mark.parametrize("origin", [NEAR, "https://127.0.0.1", "http://[::1]:80"])
def test_a_browser_is_told_that_a_page_of_this_machine_may_call(server: HttpServer, origin: str) -> None:
    told = asked_first(server.url, origin)
    assert (told["status"], told["access-control-allow-origin"]) == ("200", origin)
    assert "authorization" in told["access-control-allow-headers"]


@pytest.mark.parametrize(
    "origin", ["http://localhost.example.com", "https://example.com", "null", "http://localhostX:1"]
)
def test_a_browser_is_told_that_another_page_may_not(server: HttpServer, origin: str) -> None:
    told = asked_first(server.url, origin)
    assert (told["status"], told.get("access-control-allow-origin")) == ("400", None)
    refused = web.post(server.url, json=INITIALIZE, headers={**ACCEPT, "origin": origin})
    assert (refused.status_code, refused.headers.get("access-control-allow-origin")) == (403, None)


def test_a_page_reads_the_id_of_its_session(server: HttpServer) -> None:
    answer = web.post(server.url, json=INITIALIZE, headers={**ACCEPT, "origin": NEAR})
    assert answer.headers["access-control-allow-origin"] == NEAR
    assert "mcp-session-id" in answer.headers["access-control-expose-headers"].lower()


def test_the_page_for_people_is_for_its_own_origin(server: HttpServer) -> None:
    answer = web.get(server.url.removesuffix("/mcp") + "/ui", headers={"origin": NEAR})
    assert "access-control-allow-origin" not in answer.headers


def test_a_page_reads_why_it_is_refused(tmp_path: Path, start_http: Callable[..., HttpServer]) -> None:
    """The question before a call has no token; the call without one is told so."""
    make_token(tmp_path / "data", "ann")
    server = start_http(tmp_path / "data")
    assert asked_first(server.url, NEAR)["status"] == "200"
    refused = web.post(server.url, json=INITIALIZE, headers={**ACCEPT, "origin": NEAR})
    assert (refused.status_code, refused.headers["access-control-allow-origin"]) == (401, NEAR)


def test_a_handshake_with_the_id_of_a_session_that_is_gone_begins_a_new_one(server: HttpServer) -> None:
    answer = web.post(server.url, json=INITIALIZE, headers={**ACCEPT, "mcp-session-id": "of-the-server-before"})
    assert answer.status_code == 200
    assert answer.headers["mcp-session-id"] != "of-the-server-before"


def test_a_request_with_two_lengths_is_refused_and_ends_its_connection(server: HttpServer) -> None:
    """X6.1: what follows in it may have been meant as its body."""
    host, _, port = server.url.removeprefix("http://").removesuffix("/mcp").rpartition(":")
    head = f"Host: {host}:{port}\r\nContent-Type: application/json\r\nAccept: application/json\r\n"
    both = f"POST /mcp HTTP/1.1\r\n{head}Content-Length: 0\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"
    with socket.create_connection((host, int(port)), timeout=PATIENCE_SECONDS) as client:
        client.sendall(f"{both}GET /healthz HTTP/1.1\r\nHost: {host}:{port}\r\n\r\n".encode())
        got = b"".join(iter(lambda: client.recv(65_536), b""))
    assert got.count(b"HTTP/1.1 ") == 1
    assert got.startswith(b"HTTP/1.1 400")
    assert b"send one of them" in got
