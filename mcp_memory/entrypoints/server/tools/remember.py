"""The `remember` tool."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from mcp_memory.domain.model.records import ASKED_AS, Entity, Json, NewRecord, Relation, checked_details
from mcp_memory.domain.text.times import iso_day
from mcp_memory.entrypoints.server.answers import show_conflicts, show_near, unless_empty
from mcp_memory.entrypoints.server.arguments import Arguments
from mcp_memory.entrypoints.server.identity import asking
from mcp_memory.entrypoints.server.request_arguments import given, request_of
from mcp_memory.entrypoints.server.review_answers import HOW
from mcp_memory.entrypoints.server.strict_tool import ClientSide, StrictTool, annotations, make_tool
from mcp_memory.entrypoints.server.wire import RememberArguments
from mcp_memory.errors import InvalidRequest

if TYPE_CHECKING:
    from mcp_memory.app import App
    from mcp_memory.services.memory.remember import Remembered

MOST_JUDGED = 10
"""Items of a call, at most, of which the answer shows what is near: nobody judges more at once."""
DESCRIPTION = """\
Use as soon as something is learnt that will matter later: a decision and why, a fact, a procedure that worked, a \
mistake to avoid (censor), who someone is. One idea each, in words that stand alone. Equal text is stored once; \
revise or supersede `similar` and `conflicts`. If it replaces one of `near`, revise it with `supersedes`."""


def build(app: "App") -> StrictTool:
    """The tool over this app."""

    def answer(arguments: Arguments, client: ClientSide) -> dict[str, Json]:
        items = _new_records(arguments, app)
        remembered = app.remember(items, asking(app, client.name))
        reasons: list[Json] = list(dict.fromkeys(one.degraded for one in remembered if one.degraded))
        how = HOW if any(one.review for one in remembered) else ""
        shown = [_show(one, is_one_of_few=len(remembered) <= MOST_JUDGED) for one in remembered]
        return {"records": shown} | unless_empty(degraded=reasons, settle=how)

    return make_tool("remember", "Remember", DESCRIPTION, RememberArguments, answer, annotations())


def _new_records(arguments: Arguments, app: "App") -> list[NewRecord]:
    """Raises InvalidRequest; of several items it names the one at fault."""
    defaults = given(arguments)
    items: Sequence[Arguments] = defaults.pop("items", ())
    if bool(defaults.get("text") or (_is_told(defaults) and not items)) == bool(items):
        raise InvalidRequest("Give either `text` (one record) or `items` (a list of 1 to 500 objects with `text`).")
    records: list[NewRecord] = []
    for number, fields in enumerate([defaults | given(item) for item in items] or [defaults]):
        try:
            records.append(_new_record(fields, app))
        except InvalidRequest as error:
            raise InvalidRequest(f"items[{number}]: {error}" if items else str(error)) from error
    return records


def _is_told(fields: Mapping[str, Any]) -> bool:
    """Return True for an event whose details tell it without a text."""
    return fields.get("kind") == "event" and bool(fields.get("details"))


def _new_record(fields: dict[str, Any], app: "App") -> NewRecord:
    """The record that an item's fields describe; a name, id or time given as "" counts as not given."""
    said = {name: value for name, value in fields.items() if value != ""}
    if "text" not in said and not _is_told(said):
        raise InvalidRequest("text is empty; say what to remember in one or more words.")
    if "occurred_at" in said:
        said["occurred_at"] = app.searcher.instant(said["occurred_at"])
    said |= app.searcher.validity(said.get("valid_from", ""), said.get("valid_until", ""))
    asked_as = said.pop(ASKED_AS, ())
    details = said.get("details", {}) | ({ASKED_AS: list(asked_as)} if asked_as else {})
    said["details"] = checked_details(said.get("kind", "fact"), details)
    said["entities"] = tuple(request_of(Entity, entity) for entity in said.get("entities", ()))
    said["relations"] = tuple(request_of(Relation, relation) for relation in said.get("relations", ()))
    return NewRecord(**said)


def _show(remembered: "Remembered", *, is_one_of_few: bool) -> dict[str, Json]:
    shown: dict[str, Json] = {
        "id": remembered.id,
        "status": remembered.status,
        "similar": list(remembered.similar),
        "redacted": remembered.redacted,
    }
    return shown | unless_empty(
        conflicts=show_conflicts(remembered.conflicts),
        near=show_near(remembered.near if is_one_of_few else ()),
        cleaned=remembered.cleaned,
        superseded_by=remembered.superseded_by,
        group=remembered.review,
        added=list(remembered.added),
        kind=remembered.kind,
        forgotten=_forgotten(remembered.forgotten),
    )


def _forgotten(at: float | None) -> str:
    return f"It was forgotten on {iso_day(at)}, and is live again; forget it again if it shall stay so." if at else ""
