"""The screen of memories: one search field with the ranking that agents get, facets, and without words the newest."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final, cast, get_args

from starlette.responses import Response

from mcp_memory.domain.model.lifecycle import DAY_SECONDS
from mcp_memory.domain.model.records import KINDS, LOG_KINDS, Instant, Record, Status
from mcp_memory.domain.model.versions import UPKEEP
from mcp_memory.entrypoints.page.doors import PAGE_PATH
from mcp_memory.entrypoints.page.visits import Screen, Visit, checked_id
from mcp_memory.errors import InvalidRequest, NotFound
from mcp_memory.services.retrieval.recall import RecallRequest
from mcp_memory.services.tasks.branch_visibility import visible_to

if TYPE_CHECKING:
    from mcp_memory.domain.model.records import Kind
    from mcp_memory.services.retrieval.recall import RecallAnswer

PAGE_RECORDS: Final = 50
MOST_AT_ONCE: Final = 500
"""Records of one change in bulk, as of one call."""
PAGE_TOKENS: Final = 60_000
LISTED_AT_MOST: Final = 20
"""Records that a confirmation shows; it tells the number of the others."""
STATUSES: Final[tuple[Status, ...]] = get_args(Status)
FACETS: Final = ("kind", "tag", "author", "session_id", "status")
_LABELS: Final[Mapping[str, str]] = {
    "kind": "Kind", "tag": "Tag", "author": "Agent", "session_id": "Session", "status": "Status"
}  # fmt: skip
_LASTING: Final[tuple[Kind, ...]] = tuple(kind for kind in KINDS if kind not in LOG_KINDS)
"""Kinds that are listed where none is asked for: a session's log would bury what was learnt."""
MAX_FIELD: Final = 2_000
NEW: Final = "New"
NEW_AT_MOST: Final = 200
_TIME: Final = re.compile(r"\d{9,11}(?:\.\d{1,7})?")  # 1795486421.535094
_YEAR_SECONDS: Final = 365 * 86_400
_GONE: Final = "None of these records is there any more; nothing was retired."


@dataclass(frozen=True, slots=True, kw_only=True)
class Facets:
    """One field to narrow by: its name in the address, its label, and its values with the number of records of each."""

    name: str
    label: str
    chosen: str
    values: Sequence[tuple[str, int]]


def show_memories(visit: Visit) -> Response:
    request = _request(visit)
    revision = visit.app.records.revision()  # Before the list is read: what changes after it, nobody saw here.
    answer = visit.app.recall(request, visit.caller)
    ids = [str(each["id"]) for each in answer.results]
    with visit.app.follower.snapshot():
        records = visit.app.records.get(ids, visit.caller.scopes)
        counted = visit.app.facets(replace(request, query="", before=None), visit.caller)
    return visit.page(
        "memories.html",
        here="Memories",
        found=[(records[str(each["id"])], each) for each in answer.results if str(each["id"]) in records],
        facets=[_facet(visit, name, counted.get(name, {})) for name in FACETS],
        degraded=answer.degraded,
        next_page=_next_page(visit, answer),
        filters=[(name, visit.asked(name)) for name in ("q", *FACETS, "since", "until") if visit.asked(name)],
        revision=revision,
        most=MOST_AT_ONCE,
    )


def _request(visit: Visit) -> RecallRequest:
    """Return what the address asks for. Raises InvalidRequest."""
    asked = {name: visit.asked(name) for name in ("q", *FACETS, "since", "until", "before")}
    if any(len(value) > MAX_FIELD for value in asked.values()):
        raise InvalidRequest("A field of the search is too long; ask for less.")
    kinds = cast("tuple[Kind, ...]", _of(asked["kind"], KINDS))
    is_wide = not kinds and not asked["q"] and not asked["session_id"]
    return RecallRequest(
        query=asked["q"],
        kinds=_LASTING if is_wide else kinds,
        tags=(asked["tag"],) if asked["tag"] else (),
        authors=(asked["author"],) if asked["author"] else (),
        statuses=cast("tuple[Status, ...]", _of(asked["status"], STATUSES)),
        session_id=asked["session_id"] or None,
        since=asked["since"] or None,
        until=asked["until"] or None,
        before=None if asked["q"] else asked["before"],
        offset=visit.asked_number("offset", 0, digits=6),
        limit=PAGE_RECORDS,
        max_tokens=PAGE_TOKENS,
        only_looks=True,
    )


def _of(name: str, known: Iterable[str]) -> tuple[str, ...]:
    """Return the chosen value as a filter has it. Raises InvalidRequest for one that there is not."""
    if name and name not in known:
        raise InvalidRequest("There is no such kind or status; choose one of the list.")
    return (name,) if name else ()


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


def ask_before_retiring(visit: Visit) -> Response:
    """Show what a change in bulk would change: the records that were selected, or all that pass the filter."""
    if visit.given("all"):
        ids, is_more = _passing(visit)
    else:
        ids, is_more = [checked_id(each, "r") for each in visit.form.get("ids", ())], False
    if not ids:
        raise InvalidRequest("Nothing is selected; mark the records first.")
    if len(ids) > MOST_AT_ONCE:
        raise InvalidRequest(f"These are more than {MOST_AT_ONCE} records; select fewer.")
    with visit.app.follower.snapshot() as revision:
        found = visit.app.inspect.seen_of(ids, visit.caller)
    records: list[Record] = [found[each] for each in ids if each in found]
    if not records:
        raise NotFound(_GONE)
    return visit.page(
        "retire.html",
        here="Memories",
        records=records,
        listed=LISTED_AT_MOST,
        is_more=is_more,
        seen=revision if visit.given("all") else visit.number("seen"),
        back=visit.back(),
    )


def _passing(visit: Visit) -> tuple[list[str], bool]:
    """Return the newest records that pass the filter of the list, as many as one change takes; and whether more do."""
    request = replace(_request(visit), query="", offset=0, before="", limit=100, max_tokens=PAGE_TOKENS, detail="micro")
    ids: list[str] = []
    while len(ids) < MOST_AT_ONCE:
        answer = visit.app.recall(request, visit.caller)
        ids += [str(each["id"]) for each in answer.results]
        if not answer.next_before:
            return ids[:MOST_AT_ONCE], len(ids) > MOST_AT_ONCE
        request = replace(request, before=answer.next_before)
    return ids[:MOST_AT_ONCE], True


def retire_all(visit: Visit) -> Response:
    """Retire records in one write, which one undo takes back."""
    ids = [checked_id(each, "r") for each in visit.form.get("ids", ())]
    if not 0 < len(ids) <= MOST_AT_ONCE:
        raise InvalidRequest(f"Select 1 to {MOST_AT_ONCE} records.")
    forgotten = visit.app.forget(ids, "retire", visit.caller, visit.number("seen"))
    if not forgotten.done:
        raise NotFound(_GONE)
    return visit.see(visit.back(), done="retired", change=forgotten.change)


def show_new(visit: Visit) -> Response:
    """Show what was stored since the person said that all was seen, by who stored it and with what."""
    since = _looked_at(visit)
    with visit.app.follower.snapshot():
        where = replace(visible_to(visit.app.records, visit.caller), kinds=frozenset(_LASTING))
        latest = visit.app.records.list(where, "created", NEW_AT_MOST + 1)
    fresh = [each for each in latest if each.created_at > since]
    sources: dict[str, list[Record]] = {}
    for each in fresh[:NEW_AT_MOST]:
        # What upkeep reads out of an episode was stored in no session.
        source = f"{each.agent} ({each.client})" if each.client else each.agent if each.session_id else UPKEEP
        sources.setdefault(source, []).append(each)
    newest = max((each.created_at for each in fresh), default=since)
    is_more = len(fresh) > NEW_AT_MOST
    return visit.page("new.html", here=NEW, sources=sources, since=since, newest=newest, is_more=is_more)


def note_seen(visit: Visit) -> Response:
    """Keep in the person's browser until when all was seen: it is nobody else's business."""
    seen = visit.given("newest") or ""
    if not _TIME.fullmatch(seen):
        raise InvalidRequest("The form is not whole; load the page again.")
    answer = visit.see("/new", done="seen")
    answer.set_cookie(_mark(visit), seen, max_age=_YEAR_SECONDS, path=PAGE_PATH, httponly=True, samesite="strict")
    return answer


def _looked_at(visit: Visit) -> Instant:
    """Return the time until which all was seen; without one, a day ago."""
    seen = visit.cookies.get(_mark(visit), "")
    return float(seen) if _TIME.fullmatch(seen) else visit.now - DAY_SECONDS


def _mark(visit: Visit) -> str:
    """Name the cookie by the memory, the project and the agent: the port of `mcp-memory ui` is another each time."""
    whose = f"{visit.app.records.identity()} {visit.caller.namespace} {visit.caller.agent}"
    return f"mcp-memory-seen-{hashlib.sha256(whose.encode()).hexdigest()[:12]}"


def show_projects(visit: Visit) -> Response:
    """Show the namespaces to choose from. Not on each page: to find those of a whole memory reads all its records."""
    grant = visit.visitor.sender.grant
    known = grant.namespaces if grant else visit.app.records.shared_namespaces() if visit.visitor.is_owner else ()
    return visit.page("projects.html", here="", names=sorted({*known, visit.caller.namespace}))


SCREENS: Final = (
    Screen(path="/", answer=show_memories, title="Memories"),
    Screen(path="/new", answer=show_new, title=NEW),
    Screen(path="/seen", answer=note_seen, changes=True, right="read"),
    Screen(path="/projects", answer=show_projects),
    Screen(path="/retire", answer=ask_before_retiring, changes=True),
    Screen(path="/retired", answer=retire_all, changes=True),
)
