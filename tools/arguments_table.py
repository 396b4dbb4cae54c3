"""Writes the part of docs/tools.md that lists the arguments of each tool, from the schemas that clients get.

    python -m tools.arguments_table

tests/entrypoints/server/test_tools_page.py compares them.
"""

import asyncio
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from mcp.types import Tool

from mcp_memory.app import open_app
from mcp_memory.entrypoints.server.mcp_server import build_server
from mcp_memory.settings import load_settings

PAGE = Path(__file__).resolve().parent.parent / "docs" / "tools.md"
BEGIN, END = "<!-- arguments: begin -->", "<!-- arguments: end -->"
_BOUNDS = {"minimum": "at least", "maximum": "at most"}


def written(page: str, tools: Iterable[Tool]) -> str:
    """Return the page with the tables as the schemas are now."""
    before, _, rest = page.partition(BEGIN)
    after = rest.partition(END)[2]
    return "\n\n".join([f"{before}{BEGIN}", *map(_section, tools), f"{END}{after}"])


def _section(tool: Tool) -> str:
    schema = tool.input_schema
    needed = schema.get("required", [])
    rows = [_row(name, shape, is_needed=name in needed) for name, shape in schema["properties"].items()]
    return "\n".join(
        [f"### {tool.name}\n", f"{tool.description}\n", "| argument | type | default | |", "|---|---|---|---|", *rows]
    )


def _row(name: str, shape: Mapping[str, Any], *, is_needed: bool) -> str:
    default = "required" if is_needed else f"`{shape['default']}`" if "default" in shape else ""
    cells = [f"`{name}`", _type(shape), default, shape.get("description", "")]
    return f"| {' | '.join(cell.replace('|', '&#124;') for cell in cells)} |"


def _type(shape: Mapping[str, Any], plural: str = "") -> str:
    """Return a type in words: "number, at most 10", "list of objects: `name` (string), …"."""
    if "enum" in shape:
        return ", ".join(f"`{word}`" for word in shape["enum"])
    if shape["type"] == "array":
        return f"list of {_type(shape['items'], 's')}"
    fields = ", ".join(f"`{name}` ({_type(each)})" for name, each in shape.get("properties", {}).items())
    named = f"{shape['type']}{plural}{': ' * bool(fields)}{fields}"
    return ", ".join([named, *_bounds(shape)])


def _bounds(shape: Mapping[str, Any]) -> Iterator[str]:
    yield from (f"{words} {shape[name]:,}" for name, words in _BOUNDS.items() if name in shape)


if __name__ == "__main__":
    with TemporaryDirectory() as folder:
        app = open_app(load_settings(data_dir=Path(folder), namespace="arguments"))
        tools = asyncio.run(build_server(app).list_tools())
        app.close()
    PAGE.write_text(written(PAGE.read_text("utf-8"), tools), "utf-8")
