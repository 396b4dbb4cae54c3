"""The `revise` tool."""

from typing import TYPE_CHECKING

from mcp_memory.domain.model.records import Json
from mcp_memory.entrypoints.server.answers import show_cleaned, show_record
from mcp_memory.entrypoints.server.identity import asking
from mcp_memory.entrypoints.server.strict_tool import ClientSide, StrictTool, annotations, make_tool
from mcp_memory.entrypoints.server.wire import ReviseArguments, request_of
from mcp_memory.services.memory.revise import Revision

if TYPE_CHECKING:
    from mcp_memory.app import App

DESCRIPTION = """\
Use when a record proves wrong or outdated (new text keeps the old version; supersedes ranks others below it), when \
its outcome is known, or after it was used (feedback)."""


def build(app: "App") -> StrictTool:
    """The tool over this app."""

    def answer(arguments: ReviseArguments, client: ClientSide) -> dict[str, Json]:
        caller = asking(app, client.name)
        revised = app.revise(request_of(Revision, arguments), caller)
        return show_record(revised, caller) | show_cleaned(arguments.text)

    return make_tool("revise", "Revise", DESCRIPTION, ReviseArguments, answer, annotations())
