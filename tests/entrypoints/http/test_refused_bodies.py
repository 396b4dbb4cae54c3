"""X3.2: over HTTP too every request is answered or refused, in both eras, and no answer repeats much of it."""

import json
from collections.abc import Callable, Mapping
from typing import Any

import pytest
from mcp.types import CLIENT_CAPABILITIES_META_KEY, PROTOCOL_VERSION_META_KEY

from tests.entrypoints.http.conftest import HttpServer, open_session, web

LONG = "x" * 400_000
INVALID, UNREADABLE = -32600, -32700
META: dict[str, Any] = {PROTOCOL_VERSION_META_KEY: "2026-07-28", CLIENT_CAPABILITIES_META_KEY: {}}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory, start_http: Callable[..., HttpServer]) -> HttpServer:
    return start_http(tmp_path_factory.mktemp("bodies") / "data")


@pytest.fixture(scope="module", params=["handshake", "modern"])
def headers(request: pytest.FixtureRequest, server: HttpServer) -> dict[str, str]:
    own = {"accept": "application/json, text/event-stream", "content-type": "application/json"}
    if request.param == "modern":
        return own | {"mcp-protocol-version": "2026-07-28"}
    return own | {"mcp-protocol-version": "2025-11-25", "mcp-session-id": open_session(server.url, "")}


@pytest.mark.parametrize(
    ("body", "some_id", "code"),
    [
        (b'{"jsonrpc":"2.0","id":11,"method":"ping","params":[]}', 11, INVALID),
        (b'{"jsonrpc":"2.0","id":12,"method":7}', 12, INVALID),
        (b'{"id":"thirteen","method":"ping"}', "thirteen", INVALID),
        (b'{"jsonrpc":"2.0","id":14,"method":"pi\x01ng"}', 14, UNREADABLE),
        (b'{"jsonrpc":"2.0","id":15,\n"method":"ping"} and more', 15, UNREADABLE),
        (b"[]", None, INVALID),
        (b'[{"jsonrpc":"2.0","id":16,"method":"ping"}]', None, INVALID),
        (b'{"jsonrpc":"2.0","id":1.5,"method":"ping"}', None, INVALID),
        (b'{"jsonrpc":"2.0","id":"%s","method":"ping"}' % (b"x" * 400_000), None, INVALID),
        (b"", None, UNREADABLE),
        (b"[" * 100_000, None, UNREADABLE),
        (b'{"jsonrpc":"2.0","method":"note","params":7}', None, INVALID),
        (b'{"jsonrpc":"2.0","id":17,"result":7}', None, INVALID),
    ],
)
def test_a_body_that_is_no_message_is_refused(
    server: HttpServer, headers: Mapping[str, str], body: bytes, some_id: int | str | None, code: int
) -> None:
    """X3.2: with 400, and with an error that clients show."""
    answer = web.post(server.url, content=body, headers=headers)
    assert (answer.status_code, answer.json()["id"], answer.json()["error"]["code"]) == (400, some_id, code)
    assert "x" * 201 not in answer.text


REFUSED_CALLS: list[tuple[str, dict[str, Any]]] = [
    (LONG[:8_000], {}),
    ("tools/call", {"name": LONG[:8_000], "arguments": {}}),
    ("tools/call", {"name": "recall", "arguments": {LONG: 1}}),
    ("resources/read", {"uri": LONG[:8_000]}),
    ("resources/read", {"uri": f"memory://session/{LONG[:1000]}"}),
    ("prompts/get", {"name": LONG[:8_000]}),
    ("ping", {"_meta": {**META, "progressToken": LONG}}),
    ("ping", {"_meta": {**META, PROTOCOL_VERSION_META_KEY: LONG}}),
    ("initialize", {"protocolVersion": LONG, "capabilities": {}, "clientInfo": {"name": "x", "version": "1"}}),
    ("subscriptions/listen", {"notifications": {"resourceSubscriptions": [LONG]}}),
]


@pytest.mark.parametrize(("method", "params"), REFUSED_CALLS)
def test_an_error_repeats_at_most_two_hundred_characters(
    server: HttpServer, headers: Mapping[str, str], method: str, params: Mapping[str, Any]
) -> None:
    """X3.2."""
    own = dict(headers)
    if "mcp-session-id" not in own:
        named = params.get("name") or params.get("uri")
        own |= {"mcp-method": method} | ({"mcp-name": named} if named else {})
        params = {"_meta": META, **params}
    body = {"jsonrpc": "2.0", "id": 31, "method": method, "params": params}
    answer = web.post(server.url, content=json.dumps(body), headers=own)
    assert '"error"' in answer.text or '"isError":true' in answer.text
    assert answer.text.count("x") <= 250  # of our own words a few


def test_a_long_version_in_a_header_is_not_repeated(server: HttpServer, headers: Mapping[str, str]) -> None:
    """X3.2."""
    body: dict[str, Any] = {"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {}}
    answer = web.post(server.url, json=body, headers={**headers, "mcp-protocol-version": LONG[:8_000]})
    assert answer.status_code == 400
    assert "xxx" not in answer.text


def test_half_of_a_surrogate_pair_refuses_no_call(server: HttpServer, headers: Mapping[str, str]) -> None:
    """P3.2: as over standard input."""
    own = {**headers, "mcp-method": "tools/call", "mcp-name": "remember"}
    meta = "" if "mcp-session-id" in own else f',"_meta":{json.dumps(META)}'
    body = (
        '{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"remember","arguments":{"text":"\\ud800"}%s}}'
    )
    answer = web.post(server.url, content=body % meta, headers=own)
    assert "r000001" in answer.text
