"""What a client is told of resources that it subscribed to, in either era of the protocol."""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager

from mcp import Client
from mcp.server.subscriptions import ResourceUpdated
from mcp.types import ResourceUpdatedNotification


class Ear:
    """Takes the notices of a client of the era before 2026-07-28, as its message handler; later there is a stream."""

    def __init__(self) -> None:
        self._told = asyncio.Queue[str]()

    async def take(self, message: object) -> None:
        if isinstance(message, ResourceUpdatedNotification):
            await self._told.put(message.params.uri)

    @asynccontextmanager
    async def listening(self, client: Client, era: str, *uris: str) -> AsyncGenerator[Callable[[], Awaitable[str]]]:
        """Subscribe; what is given waits for the next notice and returns its URI."""
        if era == "legacy":
            for uri in uris:
                await client.subscribe_resource(uri)  # pyrefly: ignore[deprecated] - the way of its era
            yield self._told.get
            for uri in uris:
                await client.unsubscribe_resource(uri)  # pyrefly: ignore[deprecated] - the way of its era
            return
        async with client.listen(resource_subscriptions=uris) as events:

            async def receive() -> str:
                event = await anext(aiter(events))
                assert isinstance(event, ResourceUpdated)
                return event.uri

            yield receive
