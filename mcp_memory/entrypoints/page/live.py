"""Tells open pages that something which they may read has changed, by server-sent events. Sends numbers, and no text.

One task asks the store for its progress once a second, while anybody listens; a page then loads what it shows again.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Final

from anyio import CapacityLimiter, to_thread
from starlette.responses import Response, StreamingResponse

from mcp_memory.entrypoints.page.visits import Rejected
from mcp_memory.errors import McpMemoryError, StoreUnavailable

POLL_SECONDS: Final = 1.0
BEAT_SECONDS: Final = 20.0
"""The longest silence of a stream: a proxy, or a computer that slept, may have lost the other end."""
LIFE_SECONDS: Final = 600.0
"""The life of a stream; then a browser comes again, and is let in again or not."""
MOST_LISTENERS: Final = 64
AGAIN_SECONDS: Final = 5
_HEADERS: Final = {"X-Accel-Buffering": "no"}  # A proxy that collects an answer would keep all of it.

Standing = tuple[str, Mapping[str, str]]
"""A text that is another one after each change of what a visitor reads, and the counts of the header."""
Look = Callable[[], Standing | None]
"""Returns the standing for a visitor, from a thread; None where nobody lets them in any more."""


@dataclass(eq=False)
class _OpenPage:
    changed: asyncio.Event = field(default_factory=asyncio.Event)


class Feed:
    """The streams of one server, for its event loop."""

    def __init__(self, progress: Callable[[], int]) -> None:
        """`progress` returns another number after each change. Raises StoreUnavailable."""
        self._progress = progress
        self._threads = CapacityLimiter(1)
        self._listeners: set[_OpenPage] = set()
        self._watch: asyncio.Task[None] | None = None

    def answer(self, look: Look, seen: str) -> Response:
        """Return a stream of what changes after the standing that the page was made of. Raises Rejected."""
        if len(self._listeners) >= MOST_LISTENERS:
            raise Rejected(503, "Too many pages listen; this one shows what is new when it is loaded again.")
        return StreamingResponse(self._events(look, seen), media_type="text/event-stream", headers=_HEADERS)

    async def _events(self, look: Look, seen: str) -> AsyncIterator[str]:
        listener = _OpenPage()
        self._add(listener)
        try:
            yield f"retry: {1000 * AGAIN_SECONDS}\n\n"
            ends_at = asyncio.get_running_loop().time() + LIFE_SECONDS
            told = await self._look(look)
            if told is not None and seen not in ("", told[0]):  # It changed before the stream was there.
                yield f"data: {json.dumps(told[1])}\n\n"
            while told is not None and asyncio.get_running_loop().time() < ends_at:
                try:
                    async with asyncio.timeout(BEAT_SECONDS):
                        await listener.changed.wait()
                except TimeoutError:
                    yield ":\n\n"
                    continue
                listener.changed.clear()
                before, told = told, await self._look(look)
                if told is not None and told != before:
                    yield f"data: {json.dumps(told[1])}\n\n"
        finally:
            self._remove(listener)

    async def _look(self, look: Look) -> Standing | None:
        with suppress(McpMemoryError):
            return await to_thread.run_sync(look, limiter=self._threads)
        return None

    def _add(self, listener: _OpenPage) -> None:
        self._listeners.add(listener)
        if self._watch is None:
            self._watch = asyncio.create_task(self._watching())

    def _remove(self, listener: _OpenPage) -> None:
        self._listeners.discard(listener)
        if not self._listeners and self._watch is not None:
            self._watch.cancel()
            self._watch = None

    async def _watching(self) -> None:
        known = -1
        while True:
            with suppress(StoreUnavailable):  # A page that is loaded says so.
                progress = await to_thread.run_sync(self._progress, limiter=self._threads)
                if progress != known:
                    known = progress
                    for each in self._listeners:
                        each.changed.set()
            await asyncio.sleep(POLL_SECONDS)
