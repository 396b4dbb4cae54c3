"""The `forget` tool."""

from typing import TYPE_CHECKING

from mcp_memory.domain.model.records import Json
from mcp_memory.domain.model.requests import Forgetting
from mcp_memory.entrypoints.server.answers import unless_empty
from mcp_memory.entrypoints.server.arguments import Arguments
from mcp_memory.entrypoints.server.identity import asking, require
from mcp_memory.entrypoints.server.request_arguments import request_of
from mcp_memory.entrypoints.server.strict_tool import ClientSide, StrictTool, annotations, make_tool
from mcp_memory.entrypoints.server.wire import ForgetArguments

if TYPE_CHECKING:
    from mcp_memory.app import App

DESCRIPTION = """\
Use when asked to forget, or for what should never have been stored. retire hides records (restore brings them back); \
erase destroys them everywhere, for good."""

_DONE_BY_MODE = {"retire": "retired", "erase": "erased", "restore": "restored"}
PENDING = (
    "Erased: no answer shows it any more. Other processes keep the memory's files in use; a server takes the bytes out "
    "of them once they pause, by itself."
)


def build(app: "App") -> StrictTool:
    """The tool over this app."""

    def answer(arguments: Arguments, client: ClientSide) -> dict[str, Json]:
        asked = request_of(Forgetting, arguments)
        if asked.mode == "erase":
            require("admin")
        forgotten = app.forget(asked.ids, asked.mode, asking(app, client.name), asked.version)
        told: dict[str, Json] = {
            _DONE_BY_MODE[asked.mode]: list(forgotten.done),
            "not_found": list(forgotten.not_found),
        }
        note = forgotten.copies_told if forgotten.purged else PENDING
        return told | unless_empty(
            extracted_from_them=list(forgotten.extracted),
            quotation_cut_from=list(forgotten.cut),
            maybe_left_in=list(forgotten.left),
            note=note,
            change=forgotten.change,
        )

    return make_tool(
        "forget", "Forget", DESCRIPTION, ForgetArguments, answer, annotations(destructive=True, idempotent=True)
    )
