"""Figures for Prometheus: how often tools are called, how that ends and how long it takes. No text, no id, no name."""

from __future__ import annotations

import time
from collections.abc import Collection
from typing import TYPE_CHECKING, Any, Final, cast

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

if TYPE_CHECKING:
    from mcp.server.context import CallNext, HandlerResult, ServerRequestContext

    from mcp_memory.app import App

SECONDS: Final = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 60.0)
"""Upper bounds of the buckets."""
_OTHER: Final = "other"


class Metrics:
    """Middleware of the protocol's server that counts, and the page that shows what it counted since the start."""

    def __init__(self, app: App, tools: Collection[str]) -> None:
        """`tools` are those that there are: what a client makes up counts as `other`."""
        self._app = app
        self._tools = frozenset(tools)
        self._registry = registry = CollectorRegistry()
        what = ["tool", "outcome"]
        self._calls = Counter("mcp_memory_calls", "Calls by tool and outcome.", what, registry=registry)
        self._seconds = Histogram(
            "mcp_memory_call_seconds", "Seconds a call took.", ["tool"], buckets=SECONDS, registry=registry
        )
        self._in_flight = Gauge("mcp_memory_calls_in_flight", "Calls not answered yet.", registry=registry)
        self._tokens = Counter(
            "mcp_memory_context_tokens", "Tokens of the contexts that were handed out.", registry=registry
        )
        self._records = Gauge("mcp_memory_records", "Records in the memory.", registry=registry)
        self._waiting = Gauge("mcp_memory_unembedded_records", "Records that wait for vectors.", registry=registry)

    async def __call__(self, ctx: ServerRequestContext[Any, Any], call_next: CallNext) -> HandlerResult:
        """Pass the message on, and count it where it is a call of a tool or reads a resource."""
        what = self._what(ctx)
        if what is None:
            return await call_next(ctx)
        started, outcome = time.perf_counter(), "failed"
        try:
            with self._in_flight.track_inprogress():
                result = await call_next(ctx)
            outcome = "error" if _is_error(result) else "ok"
        finally:
            self._calls.labels(what, outcome).inc()
            self._seconds.labels(what).observe(time.perf_counter() - started)
        self._tokens.inc(_context_tokens(result))
        return result

    def page(self) -> bytes:
        """What Prometheus reads. Raises StoreUnavailable."""
        self._records.set(self._app.records.count_all())
        self._waiting.set(self._app.records.count_unembedded())
        return generate_latest(self._registry)

    def _what(self, ctx: ServerRequestContext[Any, Any]) -> str | None:
        if ctx.method == "resources/read":
            return "resource"
        if ctx.method != "tools/call":
            return None
        name = (ctx.params or {}).get("name")
        return name if isinstance(name, str) and name in self._tools else _OTHER


def _is_error(result: HandlerResult) -> bool:
    return bool(_part(result, "isError"))


def _context_tokens(result: HandlerResult) -> int:
    """What the account beside a context says it costs; 0 for any other answer."""
    tokens = _part(_part(_part(result, "_meta"), "context"), "token_count")
    return tokens if isinstance(tokens, int) else 0


def _part(whole: object, name: str) -> object:
    return cast("dict[str, object]", whole).get(name) if isinstance(whole, dict) else None
