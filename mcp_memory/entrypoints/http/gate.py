"""The outermost layer of the HTTP server: every request passes it on its way in, and out. Knows no tool."""

from __future__ import annotations

import json
import logging
import threading
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from anyio import CapacityLimiter, to_thread
from mcp.server.auth.middleware.auth_context import AuthContextMiddleware
from mcp.server.auth.middleware.bearer_auth import AuthenticatedUser
from mcp.server.auth.provider import AccessToken
from mcp.server.transport_security import TransportSecurityMiddleware, TransportSecuritySettings
from mcp.types import INVALID_REQUEST
from starlette.requests import Request
from starlette.responses import Response

from mcp_memory.entrypoints.http.door import SAID_ONCE, Refused
from mcp_memory.entrypoints.identity import Visitor, visited_by
from mcp_memory.entrypoints.strict_tool import log_defect
from mcp_memory.errors import StoreUnavailable

if TYPE_CHECKING:
    from mcp.server.context import CallNext, HandlerResult, ServerRequestContext
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

    from mcp_memory.entrypoints.http.door import Admitted, Door

logger = logging.getLogger(__name__)

OPEN_PATH: Final = "/healthz"
VISITOR: Final = "mcp_memory.visitor"
"""Where the scope of a request says who sent it."""
READERS: Final = 8
"""Threads that look tokens up: apart from those of the tools, which may all be busy."""
_TOO_LARGE: Final = "The request is larger than 4 MiB; send less at once, a long conversation in several calls."
_HOST: Final = "This server does not answer to that Host; who runs it can allow it with --allowed-host."
_ORIGIN: Final = "Pages of that Origin may not call this server; who runs it can allow its name with --allowed-host."
_UNREADABLE: Final = "The memory cannot be read at present; why is in the log of the server, for who runs it."
_STOPPING: Final = "The server is stopping; call again in a few seconds."


class Gate:
    """Lets in whom the door admits, and counts the calls inside. Answers itself where the layers below say too little.

    On the way in a request is checked by its headers before anything of its body is read.
    """

    def __init__(self, app: ASGIApp, door: Door, security: TransportSecuritySettings) -> None:
        self._app = AuthContextMiddleware(app)
        self._door = door
        self._security = TransportSecurityMiddleware(security)
        self._readers = CapacityLimiter(READERS)
        self._calls = 0
        self._changed = threading.Condition()
        self._is_closed = False

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["path"] == OPEN_PATH:
            return await self._app(scope, receive, send)
        answer = _Answer(scope, receive, send)
        is_call = scope["method"] == "POST" and not _listens(scope)
        if is_call and not self._enter():
            return await answer.refuse(503, _STOPPING)
        try:
            await self._pass(scope, receive, answer)
        except Exception as error:  # noqa: BLE001 - the edge: the server's own report would show its words
            log_defect("HTTP", error)
            if not answer.has_begun:
                await answer.refuse(500, "Internal error; it was logged. Try again.")
        finally:
            if is_call:
                self._leave()
        return None

    def close(self, seconds: float) -> None:
        """Let no further call in, and wait for those inside to be answered, at most so long. From any thread."""
        with self._changed:
            self._is_closed = True
            self._changed.wait_for(lambda: self._calls == 0, seconds)

    async def _pass(self, scope: Scope, receive: Receive, answer: _Answer) -> None:
        try:
            admitted = await self._admitted(Request(scope))
        except Refused as refused:
            return await answer.refuse(refused.status, str(refused))
        except StoreUnavailable as error:
            logger.warning("Tokens cannot be read: %s", error)
            return await answer.refuse(503, _UNREADABLE)
        scope[VISITOR] = admitted.visitor
        if admitted.token:
            # By this the protocol's library knows whose a session is. It needs no secret for that.
            access = AccessToken(token="", client_id=admitted.token.id, scopes=[])
            scope["user"] = AuthenticatedUser(access)
        return await self._app(scope, receive, answer)

    async def _admitted(self, request: Request) -> Admitted:
        refusal = await self._security.validate_request(request)
        if refusal is not None:
            logger.info("Turned away: host %.100a, origin %.100a.", *map(request.headers.get, ("host", "origin")))
            raise Refused(refusal.status_code, _ORIGIN if refusal.status_code == 403 else _HOST)
        for name in SAID_ONCE:
            if len(request.headers.getlist(name)) > 1:
                raise Refused(400, f"The header {name} came more than once; send it once.")
        headers = {name.lower(): value for name, value in request.headers.items()}
        return await to_thread.run_sync(self._door.admit, headers, limiter=self._readers)

    def _enter(self) -> bool:
        with self._changed:
            self._calls += not self._is_closed
            return not self._is_closed

    def _leave(self) -> None:
        with self._changed:
            self._calls -= 1
            self._changed.notify_all()


class Identify:
    """Middleware of the protocol's server that says for each message who sent it, as the gate found out."""

    async def __call__(self, ctx: ServerRequestContext[Any, Any], call_next: CallNext) -> HandlerResult:
        """Pass the message on in its sender's name. One that came past the gate fails: nobody sent it."""
        request: Request | None = ctx.request
        if request is None:
            raise RuntimeError("a message that no request brought")
        visitor: Visitor = request.scope[VISITOR]
        client = ctx.session.client_params
        with visited_by(replace(visitor, client=client.client_info.name if client else "")):
            return await call_next(ctx)


class _Answer:
    """The way out of one request: knows whether an answer has begun, and says more than "too large"."""

    def __init__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self._request = (scope, receive)
        self._send = send
        self._is_replaced = False
        self.has_begun = False

    async def __call__(self, message: Message) -> None:
        if message["type"] == "http.response.start" and message["status"] == 413:
            self._is_replaced = True
            await self.refuse(413, _TOO_LARGE)
        elif not self._is_replaced:
            self.has_begun = True
            await self._send(message)

    async def refuse(self, status: int, why: str) -> None:
        """Answer with an error of the protocol, which clients show, or with the sentence alone."""
        scope, receive = self._request
        self.has_begun = True
        headers = {"WWW-Authenticate": "Bearer"} if status == 401 else {}
        if scope["path"] == "/mcp":
            error = {"jsonrpc": "2.0", "id": None, "error": {"code": INVALID_REQUEST, "message": why}}
            response = Response(json.dumps(error), status, headers, "application/json")
        else:
            response = Response(f"{why}\n", status, headers, "text/plain")
        await response(scope, receive, self._send)


def _listens(scope: Scope) -> bool:
    """True for a request that is answered when its client leaves; nobody waits for that."""
    return (b"mcp-method", b"subscriptions/listen") in scope["headers"]
