"""docs/tools.md lists the arguments of the tools."""

from typing import TYPE_CHECKING

from mcp_memory.entrypoints.server.mcp_server import build_server
from tools.arguments_table import PAGE, written

if TYPE_CHECKING:
    from mcp_memory.app import App


async def test_the_arguments_of_the_docs_are_those_of_the_schemas(app: "App") -> None:
    """S6.1, U3.2."""
    page = PAGE.read_text("utf-8")
    assert page == written(page, await build_server(app).list_tools()), "python -m tools.arguments_table"
