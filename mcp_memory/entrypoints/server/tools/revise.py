"""The `revise` tool."""

from typing import TYPE_CHECKING

from mcp_memory.domain.model.records import Json
from mcp_memory.domain.model.requests import Revision
from mcp_memory.domain.model.scopes import Caller
from mcp_memory.entrypoints.server.answers import show_cleaned, show_conflicts, show_record, unless_empty
from mcp_memory.entrypoints.server.arguments import Arguments
from mcp_memory.entrypoints.server.identity import asking
from mcp_memory.entrypoints.server.request_arguments import request_of
from mcp_memory.entrypoints.server.review_answers import show_settled, show_undone
from mcp_memory.entrypoints.server.strict_tool import ClientSide, StrictTool, annotations, make_tool
from mcp_memory.entrypoints.server.wire import BesideRevision, ReviseArguments
from mcp_memory.errors import InvalidRequest

if TYPE_CHECKING:
    from mcp_memory.app import App

DESCRIPTION = """\
Use when a record proves wrong or outdated (new text keeps the old version; supersedes ranks others below it), when \
its outcome is known, after it was used (feedback), or to settle a group."""
_OF_SETTLING = frozenset({"keep", "when"})


def build(app: "App") -> StrictTool:
    """The tool over this app."""

    def answer(arguments: Arguments, client: ClientSide) -> dict[str, Json]:
        beside, caller = request_of(BesideRevision, arguments), asking(app, client.name)
        if beside.settle:
            return _settle(app, arguments, caller)
        if misplaced := _OF_SETTLING.intersection(arguments.model_fields_set):
            raise InvalidRequest(f"`{min(misplaced)}` goes with `settle`, which is not given.")
        valid = app.searcher.validity(beside.valid_from, beside.valid_until)
        revision = request_of(Revision, arguments, **valid)
        revised = app.revise.advised(revision, caller)
        shown = unless_empty(change=revised.change, conflicts=show_conflicts(revised.conflicts), group=revised.review)
        return show_record(revised.record, caller) | shown | show_cleaned(revision.text or "")

    return make_tool("revise", "Revise", DESCRIPTION, ReviseArguments, answer, annotations())


def _settle(app: "App", arguments: Arguments, caller: Caller) -> dict[str, Json]:
    """Settle a group, or undo a change."""
    from mcp_memory.services.review.settle import Settling

    if others := arguments.model_fields_set - _OF_SETTLING - {"id", "settle", "text", "reason"}:
        raise InvalidRequest(f"`{min(others)}` does not go with `settle`; revise that record by itself.")
    settling = request_of(Settling, arguments)
    if request_of(BesideRevision, arguments).settle == "undo":
        if not settling.id.isdecimal():
            raise InvalidRequest("id must be the number of the change to undo, which its answer told as `change`.")
        return show_undone(app.undo(int(settling.id), caller))
    return show_settled(app.settle(settling, caller))
