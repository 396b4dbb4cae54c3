"""Changes of many records at once, in one write: of a selection, or of all that a filter lists, which is shown first.

One undo takes a change back as a whole. A selection also leaves as a file.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from io import BytesIO
from typing import Final

from starlette.responses import Response

from mcp_memory.domain.model.records import OUT_OF_SEARCH, Record
from mcp_memory.domain.model.requests import ForgetMode, Revision
from mcp_memory.entrypoints.page.listing import all_listed
from mcp_memory.entrypoints.page.record import promotion_of
from mcp_memory.entrypoints.page.visits import Screen, Visit, checked_id
from mcp_memory.entrypoints.transfer.memory_file import origin_line, piece_line
from mcp_memory.errors import InvalidRequest, NotFound
from mcp_memory.ports.transfer import Origin
from mcp_memory.services.access.served_requests import gave

MOST_AT_ONCE: Final = 500
"""Records of one change in bulk, as of one call."""
MOST_EXPORTED: Final = 5_000
EXPORT_BYTES: Final = 32 * 1024 * 1024
LISTED_AT_MOST: Final = 20
"""Records that a confirmation shows; it tells the number of the others."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Bulk:
    """A change of many records: its button, its question, what it does, which records it concerns, and the change.

    `done` is the word of what was done (`visits.DONE`). `make` returns the number of the write, for an undo.
    """

    button: str
    asks: str
    does: str
    done: str
    concerns: Callable[[Record], bool]
    make: Callable[[Visit, Sequence[Record], int], int]


def _forgetting(mode: ForgetMode) -> Callable[[Visit, Sequence[Record], int], int]:
    def make(visit: Visit, records: Sequence[Record], seen: int) -> int:
        return visit.app.forget([each.id for each in records], mode, visit.caller, seen).change

    return make


def _revising(change: Callable[[Record], Revision]) -> Callable[[Visit, Sequence[Record], int], int]:
    def make(visit: Visit, records: Sequence[Record], seen: int) -> int:
        revisions = [replace(change(each), version=seen) for each in records]
        return visit.app.revise.together(revisions, visit.caller)

    return make


BULK: Final[Mapping[str, Bulk]] = {
    "retire": Bulk(
        button="Retire",
        asks="Retire {}?",
        does="Searches will no longer find them.",
        done="retired_all",
        concerns=lambda record: record.status != "retired",
        make=_forgetting("retire"),
    ),
    "restore": Bulk(
        button="Restore",
        asks="Restore {}?",
        does="Searches will find them again.",
        done="restored_all",
        concerns=lambda record: not record.is_live,
        make=_forgetting("restore"),
    ),
    "pin": Bulk(
        button="Pin",
        asks="Pin {}?",
        does="Contexts take them first, while they fit.",
        done="pinned_all",
        concerns=lambda record: not record.pinned,
        make=_revising(lambda record: Revision(id=record.id, pinned=True)),
    ),
    "unpin": Bulk(
        button="Unpin",
        asks="Unpin {}?",
        does="They are part of a context only where they bear on it.",
        done="unpinned_all",
        concerns=lambda record: record.pinned,
        make=_revising(lambda record: Revision(id=record.id, pinned=False)),
    ),
    "wrong": Bulk(
        button="Mark as wrong",
        asks="Mark {} as wrong?",
        does="Searches will no longer find them, and what they had replaced will hold again.",
        done="wrong_all",
        concerns=lambda record: record.status not in OUT_OF_SEARCH,
        make=_revising(lambda record: Revision(id=record.id, feedback="wrong")),
    ),
    "promote": Bulk(
        button="Promote",
        asks="Promote {}?",
        does="What was only noted counts from now on, and facts become core, which contexts weigh more than others.",
        done="promoted_all",
        concerns=lambda record: promotion_of(record) is not None,
        make=_revising(lambda record: Revision(id=record.id, status=promotion_of(record))),
    ),
}
"""Every change in bulk by the name that forms give it, in the order of the list."""


def ask(visit: Visit) -> Response:
    """Show what a change would change: the records that were selected, or all that pass the filter."""
    bulk = _asked(visit)
    visit.reads()
    ids, is_more = all_listed(visit, MOST_AT_ONCE) if visit.given("all") else (_selected(visit, MOST_AT_ONCE), False)
    there = _there(visit, ids)
    records = [each for each in there if bulk.concerns(each)]
    return visit.page(
        "bulk.html",
        here="Memories",
        bulk=bulk,
        name=visit.given("do"),
        records=records,
        settled=len(there) - len(records),
        listed=LISTED_AT_MOST,
        is_more=is_more,
        seen=visit.app.newest_change(visit.caller) if visit.given("all") else visit.number("seen"),
        back=visit.back(),
    )


def make(visit: Visit) -> Response:
    """Make a change of records that were selected or shown, in one write, which one undo takes back."""
    bulk = _asked(visit)
    records = [each for each in _there(visit, _selected(visit, MOST_AT_ONCE)) if bulk.concerns(each)]
    change = bulk.make(visit, records, visit.number("seen")) if records else 0
    return visit.see(visit.back(), done=bulk.done if change else "unchanged", change=change, number=len(records))


def export(visit: Visit) -> Response:
    """Give what was selected, or all that the filter lists, as a file that `mcp-memory import` reads."""
    visit.reads()
    ids, is_more = all_listed(visit, MOST_EXPORTED) if visit.given("all") else (_selected(visit, MOST_EXPORTED), False)
    too_much = InvalidRequest("This is too much for one file; narrow the list, or use `mcp-memory export`.")
    if is_more:
        raise too_much
    seen = visit.app.inspect.seen_of(ids, visit.caller)
    visit.reading.close()
    gave(seen)
    file = BytesIO()
    for piece in visit.app.moving.select([each for each in ids if each in seen]):
        file.write(origin_line(piece) if isinstance(piece, Origin) else piece_line(piece))
        if file.tell() > EXPORT_BYTES:
            raise too_much
    headers = {"Content-Disposition": 'attachment; filename="memories.jsonl"'}
    return Response(file.getvalue(), media_type="application/x-ndjson", headers=headers)


def _there(visit: Visit, ids: Sequence[str]) -> Sequence[Record]:
    """Return the records that the visitor's agent sees, in that order. Raises NotFound where there is none."""
    found = visit.app.inspect.seen_of(ids, visit.caller)
    if not found:
        raise NotFound("None of these records is there any more; nothing was changed.")
    return [found[each] for each in ids if each in found]


def _asked(visit: Visit) -> Bulk:
    bulk = BULK.get(visit.given("do") or "")
    if bulk is None:
        raise InvalidRequest("Choose what to do first, in the list beside the button. Nothing was changed.")
    return bulk


def _selected(visit: Visit, most: int) -> list[str]:
    ids = [checked_id(each, "r") for each in visit.form.get("ids", ())]
    if not ids:
        raise InvalidRequest("Nothing selected. Select some records first.")
    if len(ids) > most:
        raise InvalidRequest(f"These are more than {most:,} records; select fewer.")
    return ids


SCREENS: Final = (
    Screen(path="/bulk", answer=ask, changes=True),
    Screen(path="/bulk/made", answer=make, changes=True),
    Screen(path="/export", answer=export, changes=True, right="read"),
)
