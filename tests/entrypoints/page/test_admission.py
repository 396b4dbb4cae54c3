"""The server's gate and its calls: the page takes no place of theirs, and ends with the server as they do."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, cast

import anyio
import pytest
from anyio import to_thread
from anyio.lowlevel import checkpoint

from mcp_memory.entrypoints.http.connections import Limits
from mcp_memory.entrypoints.http.request_checks import (
    Authenticator,
    RequestGate,
    transport_security,
)

if TYPE_CHECKING:
    from starlette.types import Message, Receive, Scope, Send

LIMITS = Limits(
    connections=9, from_this_machine=9, from_elsewhere=9, head_seconds=9, transfer_seconds=9, idle_seconds=9,
    calls=1, waiting_calls=0,
)  # fmt: skip
PAGES = 100
CALL = b'{"jsonrpc": "2.0", "id": 1, "method": "tools/list"}'


class NoTokens:
    def are_asked_for(self) -> bool:
        return False


class Stage:
    """A gate before an application that answers when it is told to."""

    def __init__(self) -> None:
        self.inside = 0
        self.go = anyio.Event()
        authenticator = Authenticator(tokens=cast("Any", NoTokens()), is_loopback=True, anonymous=False)
        self.gate = RequestGate(
            self._answer,
            authenticator,
            transport_security("127.0.0.1", ()),
            LIMITS,
            lambda visitor: None,
            lambda name: None,
        )

    async def _answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        self.inside += 1
        await self.go.wait()
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b""})

    async def request(self, method: str, path: str, headers: Mapping[str, str] = {}, body: bytes = b"") -> int:
        """The status of the answer."""
        said = {"host": "127.0.0.1:1", "content-length": str(len(body)), **headers}
        scope: Scope = {
            "type": "http",
            "method": method,
            "path": path,
            "query_string": b"",
            "scheme": "http",
            "server": ("127.0.0.1", 1),
            "headers": [(name.encode(), value.encode()) for name, value in said.items()],
        }
        statuses: list[int] = []

        async def receive() -> Message:
            return {"type": "http.request", "body": body, "more_body": False}

        async def send(message: Message) -> None:
            if message["type"] == "http.response.start":
                statuses.append(message["status"])

        await self.gate(scope, receive, send)
        return statuses[0]

    async def until(self, inside: int) -> None:
        with anyio.fail_after(60):
            while self.inside < inside:
                await checkpoint()


@pytest.fixture
def stage() -> Stage:
    return Stage()


pytestmark = pytest.mark.anyio


async def test_pages_take_no_place_of_the_calls(stage: Stage) -> None:
    """With room for one call, it comes in while many pages are on their way: those that nobody let in yet, too."""
    async with anyio.create_task_group() as group:
        for number in range(PAGES):
            group.start_soon(stage.request, ("GET", "POST")[number % 2], "/ui/undo")
        await stage.until(PAGES)
        group.start_soon(stage.request, "POST", "/mcp", dict[str, str](), CALL)
        await stage.until(PAGES + 1)
        assert await stage.request("POST", "/mcp", {}, CALL) == 503
        stage.go.set()


@pytest.mark.parametrize("method", ["GET", "POST"])
async def test_an_end_waits_for_pages_whatever_header_they_have(stage: Stage, method: str) -> None:
    """A header of MCP says that nobody waits for an answer: not on a request of the page."""
    ended = anyio.Event()

    async def end() -> None:
        await to_thread.run_sync(stage.gate.close, 60)
        ended.set()

    async with anyio.create_task_group() as group:
        headers = {"mcp-method": "subscriptions/listen"}
        group.start_soon(stage.request, method, "/ui/undo", headers)
        await stage.until(1)
        group.start_soon(end)
        with anyio.fail_after(60):
            while await stage.request("POST", "/mcp", {}, b"no message") != 503:
                await checkpoint()
        assert await stage.request("POST", "/ui/undo", headers) == 503
        assert not ended.is_set()
        stage.go.set()
        await ended.wait()


async def test_a_page_of_another_host_or_origin_does_not_come_in(stage: Stage) -> None:
    assert await stage.request("GET", "/ui", {"host": "evil.example"}) == 421
    assert await stage.request("POST", "/ui/undo", {"origin": "https://evil.example"}) == 403
    assert await stage.request("POST", "/ui/undo", {"origin": "null"}) == 403
    assert stage.inside == 0
