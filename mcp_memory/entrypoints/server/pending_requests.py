"""Counts the requests of one client that are not answered yet, so that an end can wait for them. Knows no tool."""

import threading
import time
from typing import TYPE_CHECKING, Any, Final

from mcp_memory.entrypoints.server.identity import seat_at_hand

if TYPE_CHECKING:
    from mcp.server.context import CallNext, HandlerResult, ServerRequestContext

WRITING_SECONDS: Final = 0.05
"""Time that an answer may take from its handler to the client."""


class PendingRequests:
    """Counts the requests that are not answered yet; as middleware, it sees them go.

    The library drops answers that are due when the input ends. A script that pipes its requests in wants them.
    """

    def __init__(self) -> None:
        self._count = 0
        self._changed = threading.Condition()

    @property
    def is_busy(self) -> bool:
        return self._count > 0

    def add(self, method: str) -> None:
        self._change(method, 1)

    async def __call__(self, ctx: "ServerRequestContext[Any, Any]", call_next: "CallNext") -> "HandlerResult":
        """Pass the message on, and count it as answered."""
        try:
            return await call_next(ctx)
        finally:
            if ctx.request_id is not None and seat_at_hand() is None:  # Other windows' calls are not ours to wait for.
                self.settle(ctx.method)

    def settle(self, method: str) -> None:
        self._change(method, -1)

    def wait(self, seconds: float) -> None:
        """Wait until every request has been answered, at most so long."""
        with self._changed:
            was_busy = self.is_busy
            self._changed.wait_for(lambda: self._count <= 0, seconds)
        if was_busy:
            time.sleep(WRITING_SECONDS)

    def _change(self, method: str, by: int) -> None:
        if method != "subscriptions/listen":  # which is answered when it ends
            with self._changed:
                self._count += by
                self._changed.notify_all()
