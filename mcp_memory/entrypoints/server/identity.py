"""The sender of the present message: in a local process its own agent, over HTTP the one that the token names.

It is set again for each message, and carried into the threads that work on it.
"""

import logging
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypedDict
from urllib.parse import urlsplit
from urllib.request import url2pathname
from weakref import WeakKeyDictionary

import anyio
from anyio import to_thread
from mcp.server.context import CallNext, HandlerResult, ServerRequestContext
from mcp.shared.exceptions import MCPError
from mcp.types import ListRootsRequest, ListRootsResult
from pydantic import ValidationError

from mcp_memory.domain.model.scopes import Grant, RepeatableCall, Right
from mcp_memory.domain.text.control_characters import whole_characters
from mcp_memory.errors import InvalidRequest, McpMemoryError, StoreUnavailable
from mcp_memory.ports.walls import beyond, stay_within
from mcp_memory.projects import folder_exists
from mcp_memory.services.access.served_requests import asked_by

if TYPE_CHECKING:
    from mcp_memory.app import App, Seat
    from mcp_memory.domain.model.scopes import Caller

logger = logging.getLogger(__name__)

_UNAVAILABLE: Final = "The memory is not available at present; the server's log says why."


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestSender:
    """The sender of a message that did not come from the process's own client: where it works, its session's label.

    Without a grant it is the process's own agent: the server listens to its own machine and asks for no token. An empty
    `namespace` or `session` is the process's own; an empty `client` gave itself no name. `is_window` is True where the
    session is one of the protocol over HTTP. Another window of this machine has a `seat`, whose names count alone.
    `call` is the key of a call that is asked again where its answer is lost, else "". `token` is the name of the token
    that let it in, else "".
    """

    grant: Grant | None
    namespace: str = ""
    session: str = ""
    client: str = ""
    is_window: bool = False
    seat: "Seat | None" = None
    call: str = ""
    token: str = ""


_visitor: ContextVar[RequestSender | None] = ContextVar("visitor", default=None)


@contextmanager
def visited_by(visitor: RequestSender) -> Generator[None]:
    """Work for this visitor."""
    token = _visitor.set(visitor)
    try:
        yield
    finally:
        _visitor.reset(token)


def is_local() -> bool:
    """True where the message came from the same machine and user, over standard input or from a window beside."""
    visitor = _visitor.get()
    return visitor is None or visitor.seat is not None


class SenderNames(TypedDict):
    """The agent that sent a message, and the name of its token."""

    agent: str
    token: str


def sender_of(app: "App") -> SenderNames:
    """Return who sent the message, without a look into the store."""
    visitor = _visitor.get()
    if visitor is None:
        return {"agent": app.settings.agent, "token": ""}
    seat = visitor.seat or app.own
    return {"agent": visitor.grant.agent if visitor.grant else seat.settings.agent, "token": visitor.token}


def seat_at_hand() -> "Seat | None":
    """Return the seat of the window that sent the message; None for the process's own client, and over HTTP."""
    visitor = _visitor.get()
    return visitor.seat if visitor else None


def client_at_hand() -> str:
    """Return the name of the sender's client; "" where it gave none."""
    visitor = _visitor.get()
    return visitor.client if visitor else ""


def key_of_call() -> str:
    """Return the key of the call at hand, the same when it is asked again; "" where its sender gave none."""
    visitor = _visitor.get()
    return visitor.call if visitor else ""


_call: ContextVar[RepeatableCall | None] = ContextVar("call", default=None)


@contextmanager
def calling(call: RepeatableCall | None) -> Generator[None]:
    """Work for this call."""
    token = _call.set(call)
    try:
        yield
    finally:
        _call.reset(token)


def asking(app: "App", client: str = "", session_id: str | None = None) -> "Caller":
    """Return who asks: the only way from a message to a `Caller`. `session_id` is the session named in the call.

    From then on the message's work reads within the caller's scopes alone. Raises CallDone where the call is one that
    was done before.
    """
    with beyond():  # Whoever is not known yet has no scopes.
        caller = _asking(app, client, session_id)
    stay_within(caller.scopes)
    asked_by(caller)
    call = _call.get()
    if call is None:
        return caller
    if not call.is_noted:
        app.refuse_done(call)
    return replace(caller, call=call)


def _asking(app: "App", client: str, session_id: str | None) -> "Caller":
    visitor = _visitor.get()
    if visitor is None:
        own = app.caller(client=client)
        return (own if own.named_session else app.windows.placed(own)).in_session(session_id)
    client = client or visitor.client
    if visitor.seat is not None:
        own = app.caller(client=client, seat=visitor.seat)
        placed = own if own.named_session else app.windows.placed(own, visitor.session, stays=True)
        return placed.in_session(session_id)
    inherited = tuple(map(app.trust.present, app.settings.inherit))
    if visitor.grant is not None:
        caller = visitor.grant.caller(visitor.namespace, visitor.session, inherited, client)
    else:
        own = app.caller()
        if visitor.namespace:
            own = replace(own, namespace=app.trust.present(visitor.namespace), renamed_at=None)
        caller = replace(
            own,
            session_id=visitor.session or own.session_id,
            named_session=False,
            inherited=tuple(name for name in inherited if name != own.namespace),
            client=client,
        )
    caller = app.windows.placed(caller, visitor.session) if visitor.is_window else caller
    return caller.in_session(session_id)


def require(right: Right) -> None:
    """Raise InvalidRequest where the message's sender lacks the right; the message names it."""
    visitor = _visitor.get()
    if visitor is not None and visitor.grant is not None:
        visitor.grant.require(right)


def told(error: McpMemoryError) -> str:
    """Return an error's words for the sender: with a token nothing of the server's files, which its own log names."""
    visitor = _visitor.get()
    if visitor is None or visitor.grant is None or type(error) is not StoreUnavailable:
        return whole_characters(str(error))
    logger.warning("%s", error)
    return _UNAVAILABLE


def require_local(instead: str) -> None:
    """Raise InvalidRequest for a message over HTTP: its files are not on the server's machine."""
    if not is_local():
        raise InvalidRequest(f"Over HTTP the server reads no files; {instead}")


FOLDER_SECONDS: Final = 5.0
"""Time for the client to name its folders; it has them at hand."""
_ASKS_FOR_MEMORY: Final = frozenset({"tools/call", "prompts/get", "resources/read", "resources/subscribe"})


class FolderOfClient:
    """Middleware that asks for the folder before a window's first request for something of the memory.

    Requests that come meanwhile wait. A client that names no folder, or none in time, works where its settings say.
    """

    def __init__(self, app: "App") -> None:
        self._app = app
        self._asking: WeakKeyDictionary[Seat, anyio.Lock] = WeakKeyDictionary()

    async def __call__(self, ctx: ServerRequestContext[Any, Any], call_next: CallNext) -> HandlerResult:
        """Pass the message on."""
        if ctx.method in _ASKS_FOR_MEMORY and is_local():
            seat = seat_at_hand() or self._app.own
            if seat.awaits_folder:
                async with self._asking.setdefault(seat, anyio.Lock()):
                    if seat.awaits_folder:
                        seat.take_folder(await _folder_of(ctx))
        return await call_next(ctx)


async def _folder_of(ctx: ServerRequestContext[Any, Any]) -> Path | None:
    """Return the first folder of this machine that the client says is open; None where it says none."""
    client = ctx.session.client_capabilities
    if client is None or client.roots is None or not ctx.session.can_send_request:
        return None
    try:
        with anyio.fail_after(FOLDER_SECONDS):
            found = await ctx.session.send_request(ListRootsRequest(), ListRootsResult)
    except (MCPError, ValidationError, TimeoutError) as error:
        logger.warning("The client did not say which folder is open (%s).", type(error).__name__)
        return None
    return await to_thread.run_sync(_first_folder, [str(root.uri) for root in found.roots])


def _first_folder(addresses: Sequence[str]) -> Path | None:
    """Return the first of these addresses that is a folder here, e.g. "file:///home/you/shop"."""
    for address in addresses:
        parts = urlsplit(address)
        if parts.scheme == "file" and parts.netloc in ("", "localhost"):
            folder = Path(url2pathname(parts.path))
            if folder.is_absolute() and folder_exists(folder):
                return folder
    return None
