"""The screen of memories: one search field with the ranking that agents get, facets, and without words the newest."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import TYPE_CHECKING, Final

from starlette.responses import Response

from mcp_memory.domain.model.lifecycle import DAY_SECONDS
from mcp_memory.domain.model.records import IMPORTED_AT, IMPORTED_BY, KINDS, Instant, Record
from mcp_memory.domain.model.versions import UPKEEP
from mcp_memory.entrypoints.page.bulk import BULK, MOST_AT_ONCE
from mcp_memory.entrypoints.page.listing import FACETS, FIELDS, LASTING, STATUSES, leaves_logs_out, list_request
from mcp_memory.entrypoints.page.sign_in import PAGE_PATH
from mcp_memory.entrypoints.page.visits import Screen, Visit
from mcp_memory.errors import InvalidRequest

if TYPE_CHECKING:
    from mcp_memory.domain.model.requests import RecallRequest
    from mcp_memory.services.retrieval.recall import RecallAnswer

_LABELS: Final[Mapping[str, str]] = {
    "kind": "Kind", "tag": "Tag", "author": "Agent", "session_id": "Session", "status": "Status"
}  # fmt: skip
NEW: Final = "New"
NEW_AT_MOST: Final = 200
SOURCE_LOOKED_AT: Final = 5_000
"""Records, the latest, among which those of one source are looked for."""
READ_AT_ONCE: Final = 200
FOREIGN: Final = "import-"
"""The beginning of the session of what was another server's: "import-reference"."""
_TIME: Final = re.compile(r"\d{9,11}(?:\.\d{1,7})?")  # 1795486421.535094
_YEAR_SECONDS: Final = 365 * 86_400


@dataclass(frozen=True, slots=True, kw_only=True)
class Facets:
    """One field to narrow by: its name in the address, its label, and its values with the number of records of each."""

    name: str
    label: str
    chosen: str
    values: Sequence[tuple[str, int]]


@dataclass(frozen=True, slots=True, kw_only=True)
class NewSource:
    """The origin of new records: an agent with its client, or one import, which has its own time."""

    name: str
    imported_at: Instant | None = None

    @property
    def key(self) -> str:
        """The text that names it in an address."""
        return self.name if self.imported_at is None else f"{self.name} {self.imported_at!r}"


def show_memories(visit: Visit) -> Response:
    request = list_request(visit)
    answer = visit.app.recall(request, visit.caller)
    records = visit.app.inspect.seen_of([each.id for each in answer.shown], visit.caller)
    counted = visit.app.facets(replace(request, query="", before=None), visit.caller)
    return visit.page(
        "memories.html",
        here="Memories",
        # Without a record: open work that the question found.
        found=[
            (records.get(each.id), each.data)
            for each in answer.shown
            if each.id in records or each.data["kind"] == "task"
        ],
        facets=[_facet(visit, name, counted.get(name, {})) for name in FACETS],
        degraded=answer.degraded,
        next_page=_next_page(visit, answer),
        filters=[(name, visit.asked(name)) for name in FIELDS if visit.asked(name)],
        left_out=not answer.shown and _has_logs(visit, request),
        revision=visit.app.newest_change(visit.caller),  # What changes after it, nobody saw here.
        bulk=BULK,
    )


def _has_logs(visit: Visit, request: RecallRequest) -> bool:
    """Return True where messages of sessions would be listed if they were not left out."""
    return leaves_logs_out(visit) and bool(
        visit.app.facets(replace(request, kinds=(), before=None), visit.caller)["kind"]
    )


def _facet(visit: Visit, name: str, counts: Mapping[str, int]) -> Facets:
    chosen = visit.asked(name)
    values = [*counts.items(), *([(chosen, 0)] if chosen and chosen not in counts else [])]
    if name in ("kind", "status"):
        order = KINDS if name == "kind" else STATUSES
        values = [(each, counts.get(each, 0)) for each in order]
    return Facets(name=name, label=_LABELS[name], chosen=chosen, values=values)


def _next_page(visit: Visit, answer: RecallAnswer) -> str:
    """Return the query of the address that shows more; "" at the end."""
    if answer.next_before:
        return visit.with_fields(before=answer.next_before)
    return visit.with_fields(offset=str(answer.next_offset)) if answer.next_offset else ""


def show_new(visit: Visit) -> Response:
    """Show what came in since the person said that all was seen, by who stored it and with what; an import apart.

    With a `source` in the address, that one alone, since the time that the address names.
    """
    source, asked_since = visit.asked("source"), visit.asked("since")
    since = float(asked_since) if _TIME.fullmatch(asked_since) else _looked_at(visit)
    most = MOST_AT_ONCE if source else NEW_AT_MOST
    fresh = _fresh(visit, since, source, most + 1)
    newest = max((at for _, at in fresh), default=since)
    sources: dict[NewSource, list[Record]] = {}
    for each, _ in fresh[:most]:
        sources.setdefault(_source(each, visit.now), []).append(each)
    return visit.page(
        "new.html",
        here=NEW,
        sources=sources,
        since=since,
        newest="" if source else newest,
        is_more=len(fresh) > most,
        revision=visit.app.newest_change(visit.caller),  # What changes after it, nobody saw here.
        bulk=BULK,
    )


def _fresh(visit: Visit, since: Instant, source: str, most: int) -> Sequence[tuple[Record, Instant]]:
    """Return what came in since then, the latest first, with the time of each; that of one source where it is named."""
    found: list[tuple[Record, Instant]] = []
    for offset in range(0, SOURCE_LOOKED_AT, READ_AT_ONCE):
        some = visit.app.inspect.latest(visit.caller, LASTING, READ_AT_ONCE, offset)
        for each in some:
            at = _imported_at(each, visit.now) or min(each.created_at, visit.now)
            if at <= since or len(found) == most:
                return found
            if not source or _source(each, visit.now).key == source:
                found.append((each, at))
        if len(some) < READ_AT_ONCE:
            break
    return found


def _imported_at(record: Record, now: Instant) -> Instant | None:
    """Return when a record came from another memory's file, of which it keeps the dates."""
    try:
        at = datetime.fromisoformat(str(record.details.get(IMPORTED_AT))).timestamp()
    except (ValueError, OverflowError, OSError):
        return None
    return at if at <= now else None


def _source(record: Record, now: Instant) -> NewSource:
    if at := _imported_at(record, now):
        return NewSource(name=f"Imported by {record.details.get(IMPORTED_BY)}", imported_at=at)
    if record.session_id.startswith(FOREIGN):
        return NewSource(name=f"Imported from {record.session_id.removeprefix(FOREIGN)} by {record.agent}")
    # What upkeep reads out of an episode was stored in no session.
    return NewSource(name=_writer(record) if record.client or record.session_id else UPKEEP)


def _writer(record: Record) -> str:
    """Return the agent that stored a record, with its client where that goes by another name."""
    return f"{record.agent} ({record.client})" if record.client not in ("", record.agent) else record.agent


def note_seen(visit: Visit) -> Response:
    """Keep in the person's browser until when all was seen: it is nobody else's business."""
    seen = visit.given("newest") or ""
    if not _TIME.fullmatch(seen):
        raise InvalidRequest("The form is not whole; load the page again.")
    answer = visit.see("/new", done="seen")
    until = repr(min(float(seen), visit.now))  # What an import dates ahead is seen as well, and hides nothing.
    answer.set_cookie(_mark(visit), until, max_age=_YEAR_SECONDS, path=PAGE_PATH, httponly=True, samesite="strict")
    return answer


def _looked_at(visit: Visit) -> Instant:
    """Return the time until which all was seen; without one, a day ago."""
    seen = visit.cookies.get(_mark(visit), "")
    return float(seen) if _TIME.fullmatch(seen) else visit.now - DAY_SECONDS


def _mark(visit: Visit) -> str:
    """Name the cookie by the memory, the project and the agent: the port of `mcp-memory ui` is another each time."""
    whose = f"{visit.memory} {visit.caller.namespace} {visit.caller.agent}"
    return f"mcp-memory-seen-{hashlib.sha256(whose.encode()).hexdigest()[:12]}"


SCREENS: Final = (
    Screen(path="/", answer=show_memories, title="Memories"),
    Screen(path="/new", answer=show_new, title=NEW),
    Screen(path="/seen", answer=note_seen, changes=True, right="read"),
)
