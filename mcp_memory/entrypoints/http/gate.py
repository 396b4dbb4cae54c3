"""The outermost layer of the HTTP server: every request passes it on its way in, and out. Knows no tool."""

from __future__ import annotations

import logging
import threading
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from anyio import CapacityLimiter, to_thread
from mcp.server.auth.middleware.auth_context import AuthContextMiddleware
from mcp.server.auth.middleware.bearer_auth import AuthenticatedUser
from mcp.server.auth.provider import AccessToken
from mcp.server.transport_security import TransportSecurityMiddleware, TransportSecuritySettings
from starlette.requests import Request

from mcp_memory.entrypoints.http.door import SAID_ONCE
from mcp_memory.entrypoints.http.exchange import PATH, Exchange, Gone, Refused
from mcp_memory.entrypoints.server.identity import Visitor, visited_by
from mcp_memory.entrypoints.server.json_lines import MAX_ECHO_CHARS, Refusal, parse_message
from mcp_memory.entrypoints.server.strict_tool import log_defect
from mcp_memory.errors import StoreUnavailable

if TYPE_CHECKING:
    from mcp.server.context import CallNext, HandlerResult, ServerRequestContext
    from starlette.types import ASGIApp, Receive, Scope, Send

    from mcp_memory.entrypoints.http.door import Admitted, Door

logger = logging.getLogger(__name__)

OPEN_PATH: Final = "/healthz"
WELL_KNOWN: Final = "/.well-known/"
"""Where clients look for OAuth. A 401 there would tell them that there is some."""
VERSION_HEADER: Final = "mcp-protocol-version"
VISITOR: Final = "mcp_memory.visitor"
"""Where the scope of a request says who sent it."""
READERS: Final = 8
"""Threads that look tokens up: apart from those of the tools, which may all be busy."""
_HOST: Final = "This server does not answer to that Host; who runs it can allow it with --allowed-host."
_ORIGIN: Final = "Pages of that Origin may not call this server; who runs it can allow its name with --allowed-host."
_UNREADABLE: Final = "The memory cannot be read at present; why is in the log of the server, for who runs it."
_STOPPING: Final = "The server is stopping; call again in a few seconds."


class Gate:
    """Lets in whom the door admits, and counts the calls inside. Answers itself where the layers below say too little.

    On the way in a request is checked by its headers before anything of its body is read, and a message by its form
    before it is passed on.
    """

    def __init__(self, app: ASGIApp, door: Door, security: TransportSecuritySettings, transfer_seconds: float) -> None:
        self._app = AuthContextMiddleware(app)
        self._door = door
        self._security = TransportSecurityMiddleware(security)
        self._transfer_seconds = transfer_seconds
        self._readers = CapacityLimiter(READERS)
        self._calls = 0
        self._changed = threading.Condition()
        self._is_closed = False

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return await self._app(scope, receive, send)
        exchange = Exchange(scope, receive, send)
        try:
            await self._pass(exchange)
        except Refused as refused:
            await exchange.refuse(refused)
        except Gone:
            pass
        except Exception as error:  # noqa: BLE001 - the edge: the server's own report would show its words
            log_defect("HTTP", error)
            if not exchange.has_begun:
                await exchange.refuse(Refused(500, "Internal error; it was logged. Try again."))
        return None

    def close(self, seconds: float) -> None:
        """Let no further call in, and wait for those inside to be answered, at most so long. From any thread."""
        with self._changed:
            self._is_closed = True
            self._changed.wait_for(lambda: self._calls == 0, seconds)

    async def _pass(self, exchange: Exchange) -> None:
        """Pass a request on. Raises Refused, or Gone."""
        scope = exchange.scope
        if scope["path"] == OPEN_PATH:
            return await self._app(scope, exchange.receive, exchange.send)
        if scope["path"].startswith(WELL_KNOWN):
            raise Refused(404, "Not Found")
        is_call = scope["method"] == "POST" and not _listens(scope)
        if is_call and self._is_closed:
            raise Refused(503, _STOPPING)
        admitted = await self._admitted(Request(scope))
        scope[VISITOR] = admitted.visitor
        if admitted.token:
            # By this the protocol's library knows whose a session is. It needs no secret for that.
            access = AccessToken(token="", client_id=admitted.token.id, scopes=[])
            scope["user"] = AuthenticatedUser(access)
        receive = exchange.receive
        if scope["method"] == "POST" and scope["path"] == PATH:
            receive = exchange.replay(checked_message(await exchange.read_body(self._transfer_seconds)))
        if not is_call:
            return await self._app(scope, receive, exchange.send)
        with self._call():
            return await self._app(scope, receive, exchange.send)

    async def _admitted(self, request: Request) -> Admitted:
        """Find out who sent a request. Raises Refused."""
        refusal = await self._security.validate_request(request)
        if refusal is not None:
            logger.info("Turned away: host %.100a, origin %.100a.", *map(request.headers.get, ("host", "origin")))
            raise Refused(refusal.status_code, _ORIGIN if refusal.status_code == 403 else _HOST)
        for name in SAID_ONCE:
            if len(request.headers.getlist(name)) > 1:
                raise Refused(400, f"The header {name} came more than once; send it once.")
        if len(request.headers.get(VERSION_HEADER, "")) > MAX_ECHO_CHARS:  # The library would repeat it.
            raise Refused(400, f"The header {VERSION_HEADER} is too long; name a version of the protocol.")
        headers = {name.lower(): value for name, value in request.headers.items()}
        try:
            return await to_thread.run_sync(self._door.admit, headers, limiter=self._readers)
        except StoreUnavailable as error:
            logger.warning("Tokens cannot be read: %s", error)
            raise Refused(503, _UNREADABLE) from error

    @contextmanager
    def _call(self) -> Generator[None]:
        """Count a call while it is inside. Raises Refused where none may come in any more."""
        with self._changed:
            if self._is_closed:
                raise Refused(503, _STOPPING)
            self._calls += 1
        try:
            yield
        finally:
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


def checked_message(body: bytes) -> bytes:
    """The message of a body as the protocol's library can take it. Raises Refused."""
    read = parse_message(body)
    if isinstance(read, Refusal):
        logger.warning("Turned away a body of %d bytes that is no JSON-RPC message.", len(body))
        raise Refused(400, read.why, read.code, read.id if read.is_owed else None)
    return read.line


def _listens(scope: Scope) -> bool:
    """True for a request that is answered when its client leaves; nobody waits for that."""
    return (b"mcp-method", b"subscriptions/listen") in scope["headers"]
