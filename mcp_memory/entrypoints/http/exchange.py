"""A request over HTTP and its answer, read within bounds, and how one that is not served is refused."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Final

from anyio import fail_after
from mcp.types import INVALID_REQUEST
from starlette.responses import Response

from mcp_memory.entrypoints.server.json_lines import in_one_line

if TYPE_CHECKING:
    from starlette.types import Message, Receive, Scope, Send

    from mcp_memory.entrypoints.server.json_lines import RequestId

PATH: Final = "/mcp"
MAX_BODY_BYTES: Final = 4 * 1024 * 1024
_CLOSING_STATUSES: Final = frozenset({401, 403, 408, 413, 503})
"""Refusals after which the connection is of no further use."""
_TOO_LARGE: Final = "The request is larger than 4 MiB; send less at once, a long conversation in several calls."
_TOO_SLOW: Final = "The request did not arrive in {seconds:g} seconds; send it again, or less at once."
_RETRY: Final = {"Retry-After": "5"}


class Refused(Exception):
    """A request that is not served: the text is for its sender, `code` and `id` are those of the protocol's error.

    A 401 says by its `challenge` how to come in.
    """

    def __init__(
        self,
        status: int,
        why: str,
        code: int = INVALID_REQUEST,
        some_id: RequestId = None,
        *,
        challenge: str = "Bearer",
    ) -> None:
        super().__init__(why)
        self.challenge = challenge
        self.status = status
        self.code = code
        self.id = some_id


class Gone(Exception):
    """A client that left before its request was whole."""


class Exchange:
    """A request and its answer; knows whether the one was read and the other has begun.

    An answer to what was not read to its end closes the connection: the rest might never end.
    """

    def __init__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self.scope = scope
        self.has_begun = False
        self._receive = receive
        self._send = send
        names = [name for name, _ in scope["headers"]]
        # A proxy may go by the one and we by the other, and what one takes for a body would be a request to the other.
        self.has_two_lengths = b"transfer-encoding" in names and b"content-length" in names
        self._declared = 1 if self.has_two_lengths else _declared_bytes(scope)
        self._is_read = self._declared == 0
        self._is_stream = False

    async def receive(self) -> Message:
        message = await self._receive()
        self._is_read = self._is_read or not message.get("more_body", False)
        return message

    async def send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.has_begun = True
            if message["status"] in _CLOSING_STATUSES or not self._is_read:
                kept = [each for each in message.get("headers", ()) if each[0].lower() != b"connection"]
                message = {**message, "headers": [*kept, (b"connection", b"close")]}
            held: dict[bytes, bytes] = dict(message.get("headers", ()))
            self._is_stream = held.get(b"content-type", b"").startswith(b"text/event-stream")
        elif self._is_stream:  # Events come whole, and are read by lines.
            message = {**message, "body": in_one_line(message.get("body", b""))}
        await self._send(message)

    async def read_body(self, seconds: float) -> bytes:
        """Read the whole body.

        Raises:
            Refused: it is too large, or takes too long.
            Gone: the client left.
        """
        if self._declared > MAX_BODY_BYTES:
            raise Refused(413, _TOO_LARGE)
        body = bytearray()
        try:
            with fail_after(seconds):
                while message := await self.receive():
                    if message["type"] != "http.request":
                        raise Gone
                    body += message.get("body", b"")
                    if len(body) > MAX_BODY_BYTES:
                        raise Refused(413, _TOO_LARGE)
                    if not message.get("more_body", False):
                        break
        except TimeoutError:
            raise Refused(408, _TOO_SLOW.format(seconds=seconds)) from None
        return bytes(body)

    def replay(self, body: bytes) -> Receive:
        """Receive as before, this body first."""
        first: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

        async def receive() -> Message:
            return first.pop() if first else await self.receive()

        return receive

    async def refuse(self, refused: Refused) -> None:
        """Answer with an error of the protocol, which clients show, or with the sentence alone."""
        by_status = {401: {"WWW-Authenticate": refused.challenge}, 429: _RETRY, 503: _RETRY}
        headers = by_status.get(refused.status, {})
        if self.scope["path"] == PATH:
            error = {"code": refused.code, "message": str(refused)}
            body = json.dumps({"jsonrpc": "2.0", "id": refused.id, "error": error})
            response = Response(body, refused.status, headers, "application/json")
        else:
            response = Response(f"{refused}\n", refused.status, headers, "text/plain")
        await response(self.scope, self.receive, self.send)


def _declared_bytes(scope: Scope) -> int:
    """Return the length that a request's headers announce; 0 where it has no body, 1 where they leave it open."""
    headers: dict[bytes, bytes] = dict(scope["headers"])
    length = headers.get(b"content-length", b"1" if b"transfer-encoding" in headers else b"0")
    return int(length) if length.isdigit() else 1
