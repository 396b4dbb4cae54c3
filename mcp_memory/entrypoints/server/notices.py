"""Notices: tells clients that subscribed to a resource when it reads otherwise, whichever process changed it.

Since 2026-07-28 a client opens a stream (`subscriptions/listen`); before, it subscribes in its session. The lists of
tools, prompts and resources never change while a process runs.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Awaitable, Callable, Iterable
from contextlib import suppress
from contextvars import Context, copy_context
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from anyio import to_thread
from mcp.server.mcpserver.exceptions import ResourceError
from mcp.server.subscriptions import InMemorySubscriptionBus, ListenHandler, ResourceUpdated
from mcp.shared.exceptions import MCPError
from mcp.types import (
    INVALID_REQUEST,
    EmptyResult,
    SubscribeRequestParams,
    SubscriptionsListenRequestParams,
    SubscriptionsListenResult,
    UnsubscribeRequestParams,
)

from mcp_memory.entrypoints.server.server_log import log_defect
from mcp_memory.errors import StoreUnavailable

if TYPE_CHECKING:
    from mcp.server.connection import Connection
    from mcp.server.context import ServerRequestContext

POLL_SECONDS = 1.0
TELL_SECONDS = 1.0
"""Time that a client may take to be told; one that reads nothing must not keep the others waiting."""
MOST_WATCHED = 50
"""Resources that one client may subscribe to at a time: each is read after every change."""
MOST_LISTENERS = 200


@dataclass(eq=False)
class _Listener:
    """A client: what tells it of a resource, and what it would have read of each at a revision or later.

    It reads in the name of the agent that subscribed. `read` maps each URI to the digest of its text, "" for none.
    """

    tell: Callable[[str], Awaitable[None]]
    revision: int
    asked_in: Context = field(default_factory=copy_context)
    read: dict[str, str] = field(default_factory=dict[str, str])


class Notices:
    """Watches what clients subscribed to. It asks for the store's revision once a second, only while there are any."""

    def __init__(self, revision: Callable[[], int], read: Callable[[str], Awaitable[Iterable[Any]]]) -> None:
        """`read` returns a resource as the sender of the present message reads it. Raises ResourceError."""
        self._revision = revision
        self._read = read
        self._listeners: set[_Listener] = set()
        self._sessions: dict[Connection, _Listener] = {}
        self._watch: asyncio.Task[None] | None = None

    async def listen(
        self, ctx: ServerRequestContext[Any], params: SubscriptionsListenRequestParams
    ) -> SubscriptionsListenResult:
        """Serve a client's stream until it ends. Raises MCPError for more than is watched at a time."""
        bus = InMemorySubscriptionBus()
        listener = await self._listener(lambda uri: bus.publish(ResourceUpdated(uri=uri)))
        for uri in params.notifications.resource_subscriptions or ():
            await self._follow(listener, uri)
        self._add(listener)  # The stream hears the bus before anything else runs.
        try:
            return await ListenHandler(bus)(ctx, params)
        finally:
            self._remove(listener)

    async def subscribe(self, ctx: ServerRequestContext[Any], params: SubscribeRequestParams) -> EmptyResult:
        """Tell this session when a resource reads otherwise. Raises MCPError as `listen` does."""
        connection = _connection(ctx)
        listener = self._sessions.get(connection)
        if listener is None:
            new = await self._listener(ctx.session.send_resource_updated)
            if (listener := self._sessions.setdefault(connection, new)) is new:
                self._add(new)
                connection.exit_stack.callback(self._leave, connection)
        await self._follow(listener, params.uri)
        return EmptyResult()

    async def unsubscribe(self, ctx: ServerRequestContext[Any], params: UnsubscribeRequestParams) -> EmptyResult:
        """Tell this session no more of a resource."""
        listener = self._sessions.get(_connection(ctx))
        if listener is not None:
            listener.read.pop(params.uri, None)
        return EmptyResult()

    async def _listener(self, tell: Callable[[str], Awaitable[None]]) -> _Listener:
        if len(self._listeners) >= MOST_LISTENERS:
            raise MCPError(INVALID_REQUEST, f"{MOST_LISTENERS} clients subscribed already; read the resource instead.")
        return _Listener(tell, await to_thread.run_sync(self._revision))

    async def _follow(self, listener: _Listener, uri: str) -> None:
        if len(listener.read) >= MOST_WATCHED and uri not in listener.read:
            raise MCPError(INVALID_REQUEST, f"More than {MOST_WATCHED} resources; unsubscribe from one of them first.")
        listener.read[uri] = await self._digest(uri)

    def _add(self, listener: _Listener) -> None:
        self._listeners.add(listener)
        if self._watch is None:
            self._watch = asyncio.create_task(self._watching())

    def _remove(self, listener: _Listener) -> None:
        self._listeners.discard(listener)
        if not self._listeners and self._watch is not None:
            self._watch.cancel()
            self._watch = None

    def _leave(self, connection: Connection) -> None:
        self._remove(self._sessions.pop(connection))

    async def _watching(self) -> None:
        while True:
            await asyncio.sleep(POLL_SECONDS)
            with suppress(StoreUnavailable):  # Whoever calls a tool is told.
                revision = await to_thread.run_sync(self._revision)
                for listener in [each for each in self._listeners if each.revision != revision]:
                    listener.revision = revision
                    for uri in list(listener.read):
                        await self._compare(listener, uri)

    async def _compare(self, listener: _Listener, uri: str) -> None:
        digest = await asyncio.create_task(self._digest(uri), context=listener.asked_in)
        if listener.read.get(uri, digest) != digest:
            before, listener.read[uri] = listener.read[uri], digest
            try:
                async with asyncio.timeout(TELL_SECONDS):
                    await listener.tell(uri)
            except TimeoutError:
                listener.read[uri] = before  # It is told after the next change.
            except Exception as error:  # noqa: BLE001 - a client that is gone must not end the watch for the others
                log_defect("A notice", error)

    async def _digest(self, uri: str) -> str:
        try:
            contents = await self._read(uri)
        except ResourceError:
            return ""
        return hashlib.sha256("".join(str(each.content) for each in contents).encode()).hexdigest()


def _connection(ctx: ServerRequestContext[Any]) -> Connection:
    return ctx.session._connection  # noqa: SLF001
