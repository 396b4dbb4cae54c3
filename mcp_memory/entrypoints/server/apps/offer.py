"""Offers the apps to a client that announced that it draws them. Imported for the first such client, not at the start.

The specification is the stable one of MCP Apps, 2026-01-26.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any, Final, cast

from mcp.server.apps import APP_MIME_TYPE, ResourceCsp, client_supports_apps
from mcp.server.context import CallNext, HandlerResult, ServerRequestContext
from mcp.server.lowlevel.helper_types import ReadResourceContents
from mcp.server.mcpserver import Context

_NOTHING = ResourceCsp(connect_domains=[], resource_domains=[], frame_domains=[], base_uri_domains=[])
_META: Final[Mapping[str, Any]] = {
    "ui": {"csp": _NOTHING.model_dump(by_alias=True, exclude_none=True), "prefersBorder": True}
}


@dataclass(frozen=True, slots=True, kw_only=True)
class _App:
    """A document: its parts are files of this package."""

    name: str
    title: str
    description: str
    tools: tuple[str, ...]

    @property
    def uri(self) -> str:
        return f"ui://mcp-memory/{self.name}.html"


_APPS: Final = (
    _App(
        name="context",
        title="Memory context",
        description="A context line by line: why each line is in it, what was left out, and buttons to correct it",
        tools=("assemble_context",),
    ),
    _App(
        name="tasks",
        title="Tasks",
        description="The tree of tasks, and where you stand in it",
        tools=("push_task", "pop_task"),
    ),
)
_OF_URI: Final = {app.uri: app for app in _APPS}
_OF_TOOL: Final = {tool: app for app in _APPS for tool in app.tools}


async def offer(ctx: ServerRequestContext[Any, Any], call_next: CallNext) -> HandlerResult:
    """Add links to the apps to `tools/list`, and the apps to `resources/list`, where the client draws them."""
    result = await call_next(ctx)
    if not client_supports_apps(ctx):
        return result
    lists = cast("dict[str, Any]", result)  # As they go to the client.
    if ctx.method == "tools/list":
        return {**lists, "tools": [_linked(tool) for tool in lists["tools"]]}
    return {**lists, "resources": [*lists["resources"], *map(_listed, _APPS)]}


def read(uri: str, context: Context[Any, Any]) -> ReadResourceContents | None:
    """Return the document of that address; None where there is none, or the client does not draw it."""
    app = _OF_URI.get(uri)
    if app is None or not client_supports_apps(context):
        return None
    return ReadResourceContents(content=_document(app), mime_type=APP_MIME_TYPE, meta=dict(_META))


def _linked(tool: dict[str, Any]) -> dict[str, Any]:
    app = _OF_TOOL.get(tool["name"])
    return tool | {"_meta": {**tool.get("_meta", {}), "ui": {"resourceUri": app.uri}}} if app else tool


def _listed(app: _App) -> dict[str, Any]:
    told = {"uri": app.uri, "name": f"{app.name}-app", "title": app.title, "description": app.description}
    return {**told, "mimeType": APP_MIME_TYPE, "_meta": _META}


@cache
def _document(app: _App) -> str:
    """Return the whole document. Style and scripts are inside: a host's sandbox loads nothing from anywhere."""
    folder = files(__name__.rpartition(".")[0])
    style, shared, own = ((folder / name).read_text("utf-8") for name in ("page.css", "page.js", f"{app.name}.js"))
    return f"""<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{app.title}</title>
<style>
{style}</style>
<main></main>
<script>
"use strict";
{shared}{own}</script>
</html>
"""
