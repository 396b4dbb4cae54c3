"""The screen of what came in since the person last looked, by day and by who stored it; and what the header counts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from starlette.responses import Response

from mcp_memory.domain.model.ids import number_of
from mcp_memory.domain.model.records import IMPORTED_AT, IMPORTED_BY, Instant, Record
from mcp_memory.domain.model.versions import UPKEEP
from mcp_memory.entrypoints.page import review
from mcp_memory.entrypoints.page.bulk import BULK, MOST_AT_ONCE
from mcp_memory.entrypoints.page.kept_by_browser import TIME, looked_at, mark_of
from mcp_memory.entrypoints.page.listing import LASTING
from mcp_memory.entrypoints.page.rendering import DiffPart, WordDiff, day_in_words
from mcp_memory.entrypoints.page.sign_in import CLIENT
from mcp_memory.entrypoints.page.versions import difference
from mcp_memory.entrypoints.page.visits import Attention, Screen, Visit
from mcp_memory.services.review.undo import PastChange

NAME: Final = "New"
NEW_AT_MOST: Final = 200
COUNTED_AT_MOST: Final = 99
"""Records that the header counts; of more it says "99+"."""
COUNTED_AT_ONCE: Final = 50
"""Records that are read at once to count them: mostly fewer are new."""
COUNTED_SECONDS: Final = 60
MOST_KEPT: Final = 128
"""Visitors whose counts are kept, as many as have sessions."""
CHANGES_AT_MOST, CHANGED_SHOWN = 20, 3
"""Changes that are listed, the latest, and the records that are shown of each."""
SOURCE_LOOKED_AT: Final = 5_000
"""Records, the latest, among which those of one source are looked for."""
READ_AT_ONCE: Final = 200
FOREIGN: Final = "import-"
"""The beginning of the session of what was another server's: "import-reference"."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NewSource:
    """The origin of new records: an agent with its client, or one import, which has its own time."""

    name: str
    imported_at: Instant | None = None

    @property
    def key(self) -> str:
        """The text that names it in an address."""
        return self.name if self.imported_at is None else f"{self.name} {self.imported_at!r}"


@dataclass(frozen=True, slots=True, kw_only=True)
class NewDay:
    """Holds what came in on a day, by its sources; where one source alone is asked for, all of it, without a title."""

    title: str
    sources: Mapping[NewSource, Sequence[Record]]

    @property
    def number(self) -> int:
        return sum(map(len, self.sources.values()))


@dataclass(frozen=True, slots=True, kw_only=True)
class NewChange:
    """A change that somebody else made of records: what it made of the first of them, and how many more there are."""

    past: PastChange
    by: str
    records: Sequence[tuple[Record, Sequence[str], Sequence[DiffPart]]]
    more: int


def show_new(visit: Visit) -> Response:
    """Show what came in since the person said that all was seen, by day, and by who stored it; an import apart.

    Before it stands what others changed. With a `source` in the address, what came from that alone, since the time that
    the address names.
    """
    source, asked_since = visit.asked("source"), visit.asked("since")
    since = float(asked_since) if TIME.fullmatch(asked_since) else looked_at(visit)
    most = MOST_AT_ONCE if source else NEW_AT_MOST
    fresh = _fresh(visit, since, source, most + 1)
    changed = [] if source else _changed(visit, since)
    newest = max((*(at for _, at in fresh), *(each.past.at for each in changed)), default=since)
    days: dict[str, dict[NewSource, list[Record]]] = {}
    for each, at in fresh[:most]:
        day = "" if source else day_in_words(at, visit.now)
        days.setdefault(day, {}).setdefault(_source(each, visit.now), []).append(each)
    earlier = visit.asked("earlier")
    return visit.page(
        "new.html",
        here=NAME,
        changed=changed,
        days=[NewDay(title=title, sources=sources) for title, sources in days.items()],
        since=since,
        is_first=not (asked_since or visit.cookies.get(mark_of(visit))),
        newest="" if source else newest,
        is_more=len(fresh) > most,
        takes_back=visit.asked("done") == "seen",
        earlier=earlier if TIME.fullmatch(earlier) else "",
        revision=visit.app.newest_change(visit.caller),  # What changes after it, nobody saw here.
        bulk=BULK,
    )


def _changed(visit: Visit, since: Instant) -> Sequence[NewChange]:
    """Return the latest changes of records since then but for the visitor's own here; what a write stored is none."""
    compare, found = WordDiff(), list[NewChange]()
    for past in visit.app.undo.latest(visit.caller, CHANGES_AT_MOST):
        is_own = (past.agent, past.client) == (visit.caller.agent, CLIENT)
        there = [(old, new) for old, new in past.records if number_of(new.id) < past.change]
        if past.at > since and there and not is_own:
            records = [(new, *difference(old, new, compare)) for old, new in there[:CHANGED_SHOWN]]
            by = visit.name_of(past.agent, past.client)
            found.append(NewChange(past=past, by=by, records=records, more=max(len(there) - CHANGED_SHOWN, 0)))
    return found


def _fresh(visit: Visit, since: Instant, source: str, most: int) -> Sequence[tuple[Record, Instant]]:
    """Return what came in since then, the latest first, with the time of each; that of one source where it is named."""
    came = _arrived(visit, since, SOURCE_LOOKED_AT if source else most, READ_AT_ONCE)
    found: list[tuple[Record, Instant]] = []
    for begin in range(0, len(came), READ_AT_ONCE):
        some = dict(came[begin : begin + READ_AT_ONCE])
        records = visit.app.inspect.seen_of([*some], visit.caller)
        found += [
            (each, at)
            for record_id, at in some.items()
            if (each := records.get(record_id)) and (not source or _source(each, visit.now).key == source)
        ]
        if len(found) >= most:
            break
    return found[:most]


def _arrived(visit: Visit, since: Instant, most: int, at_once: int) -> Sequence[tuple[str, Instant]]:
    """Return the ids of the latest records, at most so many, that came in since then, with the time of each.

    What the memory's owner added on the page is nothing new to them.
    """
    found: list[tuple[str, Instant]] = []
    for offset in range(0, SOURCE_LOOKED_AT, at_once):
        some = visit.app.inspect.arrivals(visit.caller, LASTING, at_once, offset)
        for each in some:
            at = _instant_of(each.imported_at, visit.now) or min(each.created_at, visit.now)
            if at <= since or len(found) == most:
                return found
            if visit.name_of(each.agent, each.client) != "you":
                found.append((each.id, at))
        if len(some) < at_once:
            break
    return found


def _instant_of(imported_at: object, now: Instant) -> Instant | None:
    """Return when a record came from another memory's file, of which it keeps the dates."""
    try:
        at = datetime.fromisoformat(str(imported_at)).timestamp()
    except (ValueError, OverflowError, OSError):
        return None
    return at if at <= now else None


def _source(record: Record, now: Instant) -> NewSource:
    if at := _instant_of(record.details.get(IMPORTED_AT), now):
        return NewSource(name=f"Imported by {record.details.get(IMPORTED_BY)}", imported_at=at)
    if record.session_id.startswith(FOREIGN):
        return NewSource(name=f"Imported from {record.session_id.removeprefix(FOREIGN)} by {record.agent}")
    # What upkeep reads out of an episode was stored in no session.
    return NewSource(name=_writer(record) if record.client or record.session_id else UPKEEP)


def _writer(record: Record) -> str:
    """Return the agent that stored a record, with its client where that goes by another name."""
    return f"{record.agent} ({record.client})" if record.client not in ("", record.agent) else record.agent


class KeptAttention:
    """Keeps what asks for visitors' attention: how many records are new, and which groups wait. Thread-safe.

    One look at the groups gives their count and the marks of their records. They are read again after a change of what
    the visitor reads, and each minute: without a mark of what was seen, all of a day is new.
    """

    def __init__(self) -> None:
        self._kept: dict[tuple[str, str], tuple[object, Attention]] = {}

    def __call__(self, visit: Visit) -> Attention:
        """Return what asks for the visitor's attention. Raises StoreUnavailable."""
        whose = (visit.visitor.session_id, visit.caller.namespace)
        mark = visit.cookies.get(mark_of(visit), "")
        standing = (visit.standing, mark, visit.now // COUNTED_SECONDS)
        kept = self._kept.get(whose)
        if kept is None or kept[0] != standing:
            kept = self._kept[whose] = (standing, _attention(visit))
            for each in [*self._kept][:-MOST_KEPT]:
                self._kept.pop(each, None)
        return kept[1]


def _attention(visit: Visit) -> Attention:
    new = len(_arrived(visit, looked_at(visit), COUNTED_AT_MOST + 1, COUNTED_AT_ONCE))
    waiting = visit.app.reviews.waiting(visit.caller)
    counted = {NAME: new, review.NAME: len(waiting)}
    return Attention(
        counts={name: str(n) if n <= COUNTED_AT_MOST else f"{COUNTED_AT_MOST}+" for name, n in counted.items() if n},
        marks=review.marks_of(waiting),
    )


SCREENS: Final = (Screen(path="/new", answer=show_new, title=NAME),)
