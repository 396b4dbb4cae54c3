"""Two pages beside the protocol: the server's health, and figures for Prometheus without any text, id or name."""

from __future__ import annotations

import time
from collections.abc import Collection, Iterable, Mapping
from typing import TYPE_CHECKING, Any, Final, cast

from anyio import CapacityLimiter, to_thread
from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, Counter, Gauge, Histogram, Metric, generate_latest
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Route

from mcp_memory import __version__
from mcp_memory.entrypoints.http.request_checks import HEALTH_PATH, VISITOR
from mcp_memory.errors import InvalidRequest, McpMemoryError

if TYPE_CHECKING:
    from mcp.server.context import CallNext, HandlerResult, ServerRequestContext
    from starlette.requests import Request

    from mcp_memory.app import App
    from mcp_memory.entrypoints.server.identity import RequestSender

BUCKET_SECONDS: Final = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 60.0)
"""Upper bounds of the buckets."""
_OTHER: Final = "other"
GAUGES: Final[Mapping[str, str]] = {
    "records": "Records in the memory.",
    "unembedded_records": "Records that wait for vectors.",
    "index_partitions": "Partitions whose indexes are in memory.",
    "index_bytes": "Bytes that they take.",
    "index_loads": "Loads of indexes since the start.",
    "index_evictions": "Partitions that were evicted since the start.",
    "index_caught_up": "Records read since the start to bring indexes up to date.",
    "semantic_index_pending_records": "Records that changed since the semantic index took them in.",
    "oldest_transaction_seconds": "Age of the oldest open transaction of the database.",
    "standbys": "Standbys of the database that are connected.",
    "replica_lag_seconds": "Seconds by which the slowest of them is behind, as far as it answers.",
    "replica_lag_bytes": "Bytes of the log that the slowest of them has not replayed.",
}
"""The figures of `App.gauges` by their names, in words."""


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
            "mcp_memory_call_seconds", "Seconds a call took.", ["tool"], buckets=BUCKET_SECONDS, registry=registry
        )
        self._in_flight = Gauge("mcp_memory_calls_in_flight", "Calls not answered yet.", registry=registry)
        self._tokens = Counter(
            "mcp_memory_context_tokens", "Tokens of the contexts that were handed out.", registry=registry
        )
        self._gauges: dict[str, Gauge] = {}

    async def __call__(self, ctx: ServerRequestContext[Any, Any], call_next: CallNext) -> HandlerResult:
        """Pass the message on, and count it where it is a call of a tool or reads a resource."""
        what = self._what(ctx)
        if what is None:
            return await call_next(ctx)
        started, outcome = time.perf_counter(), "failed"
        try:
            with self._in_flight.track_inprogress():
                result = await call_next(ctx)
            outcome = "error" if _part(result, "isError") else "ok"
        finally:
            self._calls.labels(what, outcome).inc()
            self._seconds.labels(what).observe(time.perf_counter() - started)
        self._tokens.inc(_context_tokens(result))
        return result

    def page(self) -> bytes:
        """Return the page that Prometheus reads. Raises StoreUnavailable."""
        self.collect()
        return generate_latest(self._registry)

    def collect(self) -> Iterable[Metric]:
        """Return all figures as they are now. Raises StoreUnavailable."""
        for name, value in self._app.gauges().items():
            if name not in self._gauges:  # One that the database does not tell has no row, rather than a false 0.
                self._gauges[name] = Gauge(f"mcp_memory_{name}", GAUGES[name], registry=self._registry)
            self._gauges[name].set(value)
        return self._registry.collect()

    def _what(self, ctx: ServerRequestContext[Any, Any]) -> str | None:
        if ctx.method == "resources/read":
            return "resource"
        if ctx.method != "tools/call":
            return None
        name = (ctx.params or {}).get("name")
        return name if isinstance(name, str) and name in self._tools else _OTHER


def _context_tokens(result: HandlerResult) -> int:
    """Return the tokens by the account beside a context; 0 for any other answer."""
    tokens = _part(_part(_part(result, "_meta"), "context"), "token_count")
    return tokens if isinstance(tokens, int) else 0


def _part(whole: object, name: str) -> object:
    return cast("dict[str, object]", whole).get(name) if isinstance(whole, dict) else None


def make_pages(app: App, metrics: Metrics) -> list[Route]:
    """Return the routes of both. Neither says what is wrong with the store: the log does, with its remedy."""
    apart = CapacityLimiter(1)  # The threads of the tools may all be busy, of which a server is not unwell.

    async def health(_: Request) -> Response:
        try:
            await to_thread.run_sync(app.revision, limiter=apart)
        except McpMemoryError:
            return JSONResponse({"status": "unavailable", "version": __version__}, 503)
        return JSONResponse({"status": "ok", "version": __version__})

    async def figures(request: Request) -> Response:
        visitor: RequestSender = request.scope[VISITOR]
        try:
            if visitor.grant is not None:
                visitor.grant.require("admin")
            page = await to_thread.run_sync(metrics.page, limiter=apart)
        except InvalidRequest as error:
            return PlainTextResponse(f"{error}\n", 403)
        except McpMemoryError as error:
            return PlainTextResponse(f"{error}\n", 503)
        return Response(page, media_type=CONTENT_TYPE_LATEST)

    return [Route(HEALTH_PATH, health), Route("/metrics", figures)]
