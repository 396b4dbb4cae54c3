"""Checks requests on their way in: who sends them, their size, their form. The outermost layer of the HTTP server.

Knows no tool.
"""

from __future__ import annotations

import hashlib
import logging
import re
import threading
from collections import Counter
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from math import inf
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import unquote

from anyio import CapacityLimiter, to_thread
from mcp.server.auth.middleware.auth_context import AuthContextMiddleware
from mcp.server.auth.middleware.bearer_auth import AuthenticatedUser
from mcp.server.auth.provider import AccessToken
from mcp.server.transport_security import TransportSecurityMiddleware, TransportSecuritySettings
from mcp.types.version import HANDSHAKE_PROTOCOL_VERSIONS
from starlette.middleware.cors import CORSMiddleware
from starlette.requests import Request

from mcp_memory.bridge.window_state import CALL_HEADER
from mcp_memory.entrypoints.hooks.hook_call import REMOTE_PATH
from mcp_memory.entrypoints.http.exchange import PATH, Exchange, Gone, Refused
from mcp_memory.entrypoints.page.sign_in import LIVE_PATH, PAGE_PATH
from mcp_memory.entrypoints.server.identity import RequestSender, visited_by
from mcp_memory.entrypoints.server.json_lines import MAX_ECHO_CHARS, Refusal, parse_message
from mcp_memory.entrypoints.server.server_log import log_defect
from mcp_memory.errors import InvalidRequest, QuotaReached, StoreUnavailable
from mcp_memory.services.access.access_tokens import PREFIX

if TYPE_CHECKING:
    from mcp.server.context import CallNext, HandlerResult, ServerRequestContext
    from starlette.types import ASGIApp, Receive, Scope, Send

    from mcp_memory.domain.model.scopes import Grant, Right
    from mcp_memory.entrypoints.http.connections import Limits
    from mcp_memory.entrypoints.http.issued_tokens import Issuer
    from mcp_memory.entrypoints.server.json_lines import JsonRpcMessage
    from mcp_memory.ports.access import Token
    from mcp_memory.services.access.access_tokens import AccessTokens

logger = logging.getLogger(__name__)

HOOK_PATH: Final = f"{PATH}{REMOTE_PATH}"
HEALTH_PATH: Final = "/healthz"
WELL_KNOWN: Final = "/.well-known/"
"""The path where clients look for OAuth. A 401 there would tell them that there is some."""
VERSION_HEADER: Final = "mcp-protocol-version"
VISITOR: Final = "mcp_memory.visitor"
"""The field of a request's scope that names its sender."""
NAMESPACE_HEADER: Final = "mcp-memory-namespace"
SESSION_HEADER: Final = "mcp-session-id"
LABEL_DIGITS: Final = 12
MAX_NAMESPACE: Final = 200
SAID_ONCE: Final = ("authorization", NAMESPACE_HEADER, SESSION_HEADER, CALL_HEADER)
"""Headers that say who comes, where to, and with which call: of two, a proxy might believe one and we the other."""
_FORWARDED: Final = ("forwarded", "via", "x-forwarded-for", "x-forwarded-host", "x-forwarded-proto", "x-real-ip")
_CALL_KEY = re.compile(r"[!-~]{1,100}")
"""A window's label and a call's number: `s1f0c9a2b7d34/7`."""
_PRODUCT = re.compile(r"[\w.+-]{1,64}")
"""A client's name in its User-Agent: "claude-code/2.1.0 (cli)" → "claude-code"."""
_SCHEME: Final = "bearer "
READERS: Final = 8
"""Threads that look tokens up: apart from those of the tools, which may all be busy."""
_HOST_REFUSED: Final = "This server does not answer to that Host; allow it with --allowed-host."
_ORIGIN_REFUSED: Final = "Pages of that Origin may not call this server; allow its name with --allowed-host."
_UNREADABLE: Final = "The memory cannot be read at present; the server's log says why."
_BUSY: Final = "The server is busy, and as many calls wait as may; call again in a few seconds."
_TWO_LENGTHS: Final = "The request has Content-Length and Transfer-Encoding; send one of them."
_NO_SESSIONS: Final = "This server keeps no sessions, as others serve the same memory; send each message with POST."
_STOPPING: Final = "The server is stopping; call again in a few seconds."


@dataclass(frozen=True, slots=True, kw_only=True)
class Admitted:
    """A visitor that is let in, with its token; None where none is asked for."""

    visitor: RequestSender
    token: Token | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Authenticator:
    """Admits senders with a valid token. Thread-safe.

    `is_loopback` says that only this machine reaches the server: then nobody needs a token if none was ever made, or if
    `anonymous` is set. With an `issuer` everybody needs a token, of the memory or of the issuer. Without `has_sessions`
    a session that is named says nothing: each message stands alone, and a client's name is that of its program.
    """

    tokens: AccessTokens
    is_loopback: bool
    anonymous: bool
    issuer: Issuer | None = None
    has_sessions: bool = True

    def admit(self, headers: Mapping[str, str]) -> Admitted:
        """Find out who sent a request with these headers, whose names are lower case.

        Raises:
            Refused: they may not come in; says why.
            StoreUnavailable: tokens cannot be read.
        """
        if not self.has_sessions:
            headers = {name: value for name, value in headers.items() if name != SESSION_HEADER}
        wanted = unquote(headers.get(NAMESPACE_HEADER, ""))
        secret, call = _secret(headers), headers.get(CALL_HEADER, "")
        if call and not _CALL_KEY.fullmatch(call):
            raise Refused(400, f"{CALL_HEADER} must be 1 to 100 printable characters of ASCII, without spaces.")
        if not secret:
            if not self.is_open(headers):
                why = "Send a token as `Authorization: Bearer …`; `mcp-memory tokens add` makes one."
                raise Refused(401, why, challenge=self._challenge())
            if len(wanted) > MAX_NAMESPACE or not wanted.isprintable():
                raise Refused(400, f"{NAMESPACE_HEADER} must be 1 to {MAX_NAMESPACE} printable characters.")
            visitor = self._sender(headers, None, None, wanted)
            return Admitted(visitor=replace(visitor, call=call and f"http/{call}"), token=None)
        token, rights = self._recognised(secret)
        try:
            namespace = self.tokens.namespace(token, wanted)
        except InvalidRequest as error:
            raise Refused(403, str(error)) from error
        grant = replace(token.grant, right=rights.get(namespace, token.grant.right))
        visitor = self._sender(headers, token, grant, namespace)
        return Admitted(visitor=replace(visitor, call=call and f"{token.id}/{call}", token=token.name), token=token)

    def _sender(
        self, headers: Mapping[str, str], token: Token | None, grant: Grant | None, namespace: str
    ) -> RequestSender:
        client = "" if self.has_sessions else _program(headers) or (token.name if token else "")
        return RequestSender(
            grant=grant,
            namespace=namespace,
            session=_label(headers, token),
            client=client,
            is_window=_is_in_session(headers),
        )

    def is_open(self, headers: Mapping[str, str]) -> bool:
        """Return True where no token is asked for. What a proxy passes on does not come from this machine.

        Raises StoreUnavailable.
        """
        is_near = self.is_loopback and not any(name in headers for name in _FORWARDED)
        return self.issuer is None and is_near and (self.anonymous or not self.tokens.are_asked_for())

    @property
    def metadata_path(self) -> str:
        """The path that tells clients of the issuer; "" where there is none."""
        return self.issuer.metadata_path if self.issuer else ""

    def _recognised(self, secret: str) -> tuple[Token, Mapping[str, Right]]:
        """Return the token with this secret, and its right in each namespace where they differ. Raises Refused."""
        if self.issuer and not secret.startswith(PREFIX):
            return self.issuer.recognise(secret)
        token = self.tokens.recognise(secret)
        if token is None:
            why = "This token is unknown, was revoked or has expired; ask the server's operator for a new one."
            raise Refused(401, why, challenge=self._challenge("invalid_token"))
        return token, {}

    def _challenge(self, error: str = "") -> str:
        return self.issuer.challenge(error) if self.issuer else "Bearer"


def transport_security(host: str, allowed: Sequence[str]) -> TransportSecuritySettings:
    """Answer to the machine's own names, the address listened at, and the allowed names, with any port.

    A page in a browser reaches the server only from an origin of one of these names, which browsers write in lower
    case.
    """
    hosts = [each for name in _names(host, allowed) for each in (name, f"{name}:*")]
    origins = [f"{scheme}://{each}" for scheme in ("http", "https") for each in hosts]
    return TransportSecuritySettings(allowed_hosts=hosts, allowed_origins=origins)


def readable_from_pages(app: ASGIApp, host: str, allowed: Sequence[str]) -> ASGIApp:
    """Let pages of the allowed origins read the answers of the protocol: browsers ask first whether they may.

    What the people's page answers is for its own origin alone.
    """
    names = "|".join(re.escape(name) for name in _names(host, allowed))
    protocol = CORSMiddleware(
        app,
        allow_origin_regex=rf"https?://(?:{names})(?::\d+)?",
        allow_methods=("POST", "GET", "DELETE"),
        allow_headers=("*",),
        expose_headers=(SESSION_HEADER, "www-authenticate", "retry-after"),
    )

    async def answer(scope: Scope, receive: Receive, send: Send) -> None:
        is_protocol = scope["type"] == "http" and scope["path"] == PATH
        await (protocol if is_protocol else app)(scope, receive, send)

    return answer


def _names(host: str, allowed: Sequence[str]) -> Sequence[str]:
    given = (f"[{host}]" if ":" in host else host, *allowed)
    return list(dict.fromkeys(("127.0.0.1", "localhost", "[::1]", *given, *(each.lower() for each in given))))


def _secret(headers: Mapping[str, str]) -> str:
    """Return the token's secret; "" where none is presented. Any other scheme presents a token that nobody has."""
    given = headers.get("authorization", "").strip()
    return given[len(_SCHEME) :].strip() or given if given.lower().startswith(_SCHEME) else given


def _label(headers: Mapping[str, str], token: Token | None) -> str:
    """Return a session's label in records: one per session of the protocol, or per token; not the session's own id."""
    session = headers.get(SESSION_HEADER)
    if session:
        return f"h{hashlib.sha256(session.encode()).hexdigest()[:LABEL_DIGITS]}"
    return f"t{token.id[:LABEL_DIGITS]}" if token else ""


def _program(headers: Mapping[str, str]) -> str:
    """Return the name of the sender's program; "" where it says none."""
    said = _PRODUCT.match(headers.get("user-agent", ""))
    return said[0] if said else ""


def _is_in_session(headers: Mapping[str, str]) -> bool:
    """True where the protocol's library checks the session that is named: in the other era anybody could name many."""
    version = headers.get(VERSION_HEADER)
    return bool(headers.get(SESSION_HEADER)) and (version is None or version in HANDSHAKE_PROTOCOL_VERSIONS)


class RequestGate:
    """Lets in whom the authenticator admits, and counts the calls inside. Answers where layers below say too little.

    On the way in a request is checked by its headers before anything of its body is read, and a message by its form
    before it is passed on. Calls beyond those that may work or wait are told so. `at_session_end` is told who ended a
    session of the protocol; `count_call` counts a call to a namespace, and raises QuotaReached.
    """

    def __init__(
        self,
        app: ASGIApp,
        authenticator: Authenticator,
        security: TransportSecuritySettings,
        limits: Limits,
        at_session_end: Callable[[RequestSender], None],
        count_call: Callable[[str], None],
    ) -> None:
        self._at_session_end = at_session_end
        self._count_call = count_call
        self._app = AuthContextMiddleware(app)
        self._authenticator = authenticator
        self._security = TransportSecurityMiddleware(security)
        self._transfer_seconds = limits.transfer_seconds
        self._most_calls = limits.calls + limits.waiting_calls
        self._readers = CapacityLimiter(READERS)
        self._readers_of_issuer = CapacityLimiter(READERS)
        self._inside = Counter[str]()
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
            self._changed.wait_for(lambda: not self._inside.total(), seconds)

    async def _pass(self, exchange: Exchange) -> None:
        """Pass a request on. Raises Refused, or Gone."""
        scope = exchange.scope
        if exchange.has_two_lengths:
            raise Refused(400, _TWO_LENGTHS)
        if scope["path"] in (HEALTH_PATH, self._authenticator.metadata_path):
            return await self._app(scope, exchange.receive, exchange.send)
        if scope["path"].startswith(WELL_KNOWN):
            raise Refused(404, "Not Found")
        if f"{scope['path']}/".startswith(f"{PAGE_PATH}/"):
            return await self._pass_to_page(exchange)
        return await self._pass_to_protocol(exchange)

    async def _pass_to_protocol(self, exchange: Exchange) -> None:
        """Pass on a request of MCP, of a hook or of monitoring. Raises Refused, or Gone."""
        scope = exchange.scope
        is_call = scope["method"] == "POST" and not _listens(scope)
        if is_call and self._is_closed:
            raise Refused(503, _STOPPING)
        admitted = await self._admitted(Request(scope))
        scope[VISITOR] = admitted.visitor
        if admitted.token:
            # By this the protocol's library knows whose a session is. It needs no secret for that.
            access = AccessToken(token="", client_id=admitted.token.id, scopes=[])
            scope["user"] = AuthenticatedUser(access)
        if not self._authenticator.has_sessions and scope["path"] == PATH and scope["method"] in ("GET", "DELETE"):
            raise Refused(405, _NO_SESSIONS)
        receive, asks = exchange.receive, True
        if scope["method"] == "POST" and scope["path"] in (PATH, HOOK_PATH):
            body = await exchange.read_body(self._transfer_seconds)
            if scope["path"] == PATH:
                message = checked_message(body)
                # A response has no method, and a call may wait for it: it comes in however many calls there are.
                body, asks = message.line, bool(message.method)
                if message.method == "initialize":
                    # A client whose session ended with the server before may still name it, and would never get in.
                    scope["headers"] = [each for each in scope["headers"] if each[0] != SESSION_HEADER.encode()]
            receive = exchange.replay(body)
        if not is_call:
            await self._app(scope, receive, exchange.send)
            if scope["method"] == "DELETE":
                await to_thread.run_sync(self._at_session_end, admitted.visitor, limiter=self._readers)
            return None
        if asks and admitted.visitor.namespace:
            await self._check_quota(admitted.visitor.namespace)
        with self._counted("calls", self._most_calls if asks else inf):
            return await self._app(scope, receive, exchange.send)

    async def _check_quota(self, namespace: str) -> None:
        """Count a call to a namespace. Raises Refused where it made as many as it may."""
        try:
            await to_thread.run_sync(self._count_call, namespace, limiter=self._readers)
        except QuotaReached as error:
            raise Refused(429, str(error)) from error
        except StoreUnavailable as error:
            logger.warning("Quotas cannot be read: %s", error)
            raise Refused(503, _UNREADABLE) from error

    async def _pass_to_page(self, exchange: Exchange) -> None:
        """Pass on a request of the page, which lets people in by itself, whatever headers of MCP it has.

        It is counted for the end alone: one that is on its way, or that nobody let in yet, takes nobody's place.
        """
        await self._check_place(Request(exchange.scope))
        if exchange.scope["path"] == LIVE_PATH:  # The end waits for nobody's stream.
            return await self._app(exchange.scope, exchange.receive, exchange.send)
        with self._counted("pages", inf):
            return await self._app(exchange.scope, exchange.receive, exchange.send)

    async def _check_place(self, request: Request) -> None:
        """Check by which name the server is called, and from where. Raises Refused."""
        refusal = await self._security.validate_request(request)
        if refusal is not None:
            logger.info("Refused: host %.100a, origin %.100a.", *map(request.headers.get, ("host", "origin")))
            raise Refused(refusal.status_code, _ORIGIN_REFUSED if refusal.status_code == 403 else _HOST_REFUSED)

    async def _admitted(self, request: Request) -> Admitted:
        """Find out who sent a request. Raises Refused."""
        await self._check_place(request)
        for name in SAID_ONCE:
            if len(request.headers.getlist(name)) > 1:
                raise Refused(400, f"The header {name} came more than once; send it once.")
        if len(request.headers.get(VERSION_HEADER, "")) > MAX_ECHO_CHARS:  # The library would repeat it.
            raise Refused(400, f"The header {VERSION_HEADER} is too long; name a version of the protocol.")
        headers = {name.lower(): value for name, value in request.headers.items()}
        is_own = _secret(headers).startswith(PREFIX)  # An issuer that answers slowly holds up no other token.
        limiter = self._readers if is_own else self._readers_of_issuer
        try:
            return await to_thread.run_sync(self._authenticator.admit, headers, limiter=limiter)
        except StoreUnavailable as error:
            logger.warning("Tokens cannot be read: %s", error)
            raise Refused(503, _UNREADABLE) from error

    @contextmanager
    def _counted(self, what: str, most: float) -> Generator[None]:
        """Count a request while it is inside. Raises Refused where none may come in any more, or too many are there."""
        with self._changed:
            if self._is_closed:
                raise Refused(503, _STOPPING)
            if self._inside[what] >= most:
                raise Refused(503, _BUSY)
            self._inside[what] += 1
        try:
            yield
        finally:
            with self._changed:
                self._inside[what] -= 1
                self._changed.notify_all()


class Identify:
    """Middleware of the protocol's server that says for each message who sent it, as the gate found out."""

    async def __call__(self, ctx: ServerRequestContext[Any, Any], call_next: CallNext) -> HandlerResult:
        """Pass the message on in its sender's name. One that came past the gate fails: nobody sent it."""
        request: Request | None = ctx.request
        if request is None:
            raise RuntimeError("a message that no request brought")
        visitor: RequestSender = request.scope[VISITOR]
        client = ctx.session.client_params
        with visited_by(replace(visitor, client=client.client_info.name if client else visitor.client)):
            return await call_next(ctx)


def checked_message(body: bytes) -> JsonRpcMessage:
    """Return the message of a body as the protocol's library can take it. Raises Refused."""
    read = parse_message(body)
    if isinstance(read, Refusal):
        logger.warning("Refused a body of %d bytes that is not a JSON-RPC message.", len(body))
        raise Refused(400, read.why, read.code, read.id if read.is_owed else None)
    return read


def _listens(scope: Scope) -> bool:
    """True for a request that is answered when its client leaves; nobody waits for that."""
    return (b"mcp-method", b"subscriptions/listen") in scope["headers"]
