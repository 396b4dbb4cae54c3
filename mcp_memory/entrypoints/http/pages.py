"""Two pages beside the protocol: whether the server is well, and figures for Prometheus."""

from __future__ import annotations

from typing import TYPE_CHECKING

from anyio import CapacityLimiter, to_thread
from prometheus_client import CONTENT_TYPE_LATEST
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Route

from mcp_memory import __version__
from mcp_memory.entrypoints.http.gate import OPEN_PATH, VISITOR
from mcp_memory.errors import InvalidRequest, McpMemoryError

if TYPE_CHECKING:
    from starlette.requests import Request

    from mcp_memory.app import App
    from mcp_memory.entrypoints.http.metrics import Metrics
    from mcp_memory.entrypoints.server.identity import Visitor


def make_pages(app: App, metrics: Metrics) -> list[Route]:
    """Their routes. What is wrong with the store is said to nobody in particular, and its remedy to the log."""
    apart = CapacityLimiter(1)  # The threads of the tools may all be busy, of which a server is not unwell.

    async def health(_: Request) -> Response:
        try:
            await to_thread.run_sync(app.records.revision, limiter=apart)
        except McpMemoryError:
            return JSONResponse({"status": "unavailable", "version": __version__}, 503)
        return JSONResponse({"status": "ok", "version": __version__})

    async def figures(request: Request) -> Response:
        visitor: Visitor = request.scope[VISITOR]
        try:
            if visitor.grant is not None:
                visitor.grant.require("admin")
            page = await to_thread.run_sync(metrics.page)
        except InvalidRequest as error:
            return PlainTextResponse(f"{error}\n", 403)
        except McpMemoryError as error:
            return PlainTextResponse(f"{error}\n", 503)
        return Response(page, media_type=CONTENT_TYPE_LATEST)

    return [Route(OPEN_PATH, health), Route("/metrics", figures)]
