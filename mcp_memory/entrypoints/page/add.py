"""The form by which a person adds a memory: it is stored as an agent's is, in their own name."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, cast, get_args

from starlette.responses import Response

from mcp_memory.domain.model.records import LOG_KINDS, GivenKind, NewRecord, Visibility
from mcp_memory.entrypoints.page.kind_fields import KIND_FIELDS, read_fields
from mcp_memory.entrypoints.page.visits import TEXT_BYTES, Screen, Visit
from mcp_memory.entrypoints.server.arguments import read_arguments
from mcp_memory.entrypoints.server.request_arguments import request_of
from mcp_memory.entrypoints.server.wire import ItemArgument
from mcp_memory.errors import InvalidRequest

if TYPE_CHECKING:
    from mcp_memory.domain.model.records import Kind

NAME: Final = "Memories"
_REASON: Final = "added on the page"
KINDS_TO_ADD: Final = tuple(kind for kind in get_args(GivenKind) if kind not in LOG_KINDS)
_FIELDS: Final = (
    *("text", "kind", "tags", "importance", "visibility", "pinned"),
    *(field.name for fields in KIND_FIELDS.values() for field in fields),
)


def show_add(visit: Visit) -> Response:
    return _add_page(visit)


def _add_page(visit: Visit, status: int = 200, said: str = "") -> Response:
    return visit.page(
        "add.html",
        status,
        here=NAME,
        kinds=KINDS_TO_ADD,
        kind_fields=KIND_FIELDS,
        visibilities=get_args(Visibility),
        given={name: visit.given(name) or "" for name in _FIELDS},
        said=said,
    )


def add(visit: Visit) -> Response:
    """Store what the form says; a text that is there already is confirmed, and its record shown."""
    try:
        item = request_of(NewRecord, read_arguments(ItemArgument, _asked(visit)))
    except InvalidRequest as error:  # The form keeps what the person wrote.
        return _add_page(visit, 400, str(error))
    [remembered] = visit.app.remember([item], visit.caller, undoable=_REASON)
    is_new = remembered.status == "stored"
    if not is_new:
        return visit.see(f"/record/{remembered.superseded_by or remembered.id}", done="known")
    done = "added_similar" if remembered.similar or remembered.conflicts else "added"
    return visit.see(f"/record/{remembered.id}", done=done, change=remembered.change)


def _asked(visit: Visit) -> dict[str, Any]:
    """Return the fields of the form as an agent would give them. Raises InvalidRequest."""
    said = {name: (visit.given(name) or "").strip() for name in _FIELDS}
    if said["kind"] not in KINDS_TO_ADD:
        raise InvalidRequest("Choose a kind of the list.")
    if not said["text"]:
        raise InvalidRequest("Write what is to be remembered.")
    asked: dict[str, Any] = {name: said[name] for name in ("text", "kind", "visibility") if said[name]}
    if tags := [tag for line in said["tags"].split("\n") if (tag := line.strip())]:
        asked["tags"] = tags
    if said["importance"]:
        try:
            asked["importance"] = float(said["importance"].replace(",", "."))
        except ValueError:
            raise InvalidRequest(f"{said['importance'][:40]!r} is no number; importance is 0 to 10.") from None
    if said["pinned"]:
        asked["pinned"] = True
    details = {name: value for name, value in read_fields(said, cast("Kind", said["kind"])).items() if value}
    if details:
        asked["details"] = details
    return asked


SCREENS: Final = (
    Screen(path="/add", answer=show_add, right="write"),
    Screen(path="/added", answer=add, changes=True, most_bytes=TEXT_BYTES),
)
