"""The screen of memories: one search field with the ranking that agents get, facets, and without words the newest."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final, cast

from starlette.responses import Response

from mcp_memory.domain.model.records import KINDS
from mcp_memory.domain.retrieval.gate import BEARS_ON_FACT, FEW_WORDS
from mcp_memory.entrypoints.page.bulk import BULK
from mcp_memory.entrypoints.page.listing import FIELDS, LASTING, STATUSES, leaves_logs_out, list_request
from mcp_memory.entrypoints.page.markdown import words_of
from mcp_memory.entrypoints.page.visits import Screen, Visit

if TYPE_CHECKING:
    from mcp_memory.domain.model.records import Json
    from mcp_memory.ports.retrieval import Facet
    from mcp_memory.services.retrieval.recall import RecallAnswer

_LABELS: Final[Mapping[Facet, str]] = {
    "tag": "Tag", "author": "Agent", "session_id": "Session", "status": "Status"
}  # fmt: skip


_CLOSE, _FAIR, _WEAK = "close match", "fair match", "weak match"
CLOSE_SCORE: Final = 0.5
"""The score from which a match is called close. Below the gate's `BEARS_ON_FACT` it is weak."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Match:
    """Tells how closely a result matches a search, in words and as a bar from 0 to 1, which a short search lacks."""

    words: str
    bar: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Facets:
    """One field to narrow by: its name in the address, its label, and its values with the number of records of each."""

    name: str
    label: str
    chosen: str
    values: Sequence[tuple[str, int]]


def show_memories(visit: Visit) -> Response:
    request = list_request(visit)
    answer = visit.app.recall(request, visit.caller)
    records = visit.app.inspect.seen_of([each.id for each in answer.shown], visit.caller)
    listed = replace(request, query="", before=None)
    counted = visit.app.facets(listed, visit.caller, "kind", *_LABELS)
    by_kind = visit.app.facets(replace(listed, kinds=()), visit.caller, "kind")["kind"]
    words = words_of(request.query)
    hides = not (request.query or visit.asked("status"))
    if hides:
        counted = {
            **counted,
            "status": visit.app.facets(replace(listed, statuses=()), visit.caller, "status")["status"],
        }
    return visit.page(
        "memories.html",
        here="Memories",
        # Without a record: open work that the question found, by its goal.
        found=[
            (records.get(each.id), each, match_of(each.data, words, is_nearest=bool(answer.unknown)))
            for each in answer.shown
            if each.id in records or each.data["kind"] == "task"
        ],
        kinds={kind: by_kind[kind] for kind in (*LASTING, *KINDS) if kind in by_kind},
        chosen=request.kinds if visit.asked("kind") else (),
        total=None if request.query else sum(counted["kind"].values()),
        superseded=counted["status"].get("superseded", 0) if hides else 0,
        lasting=frozenset(LASTING),
        words=words,
        facets=[_facet(visit, name, counted.get(name, {})) for name in _LABELS],
        degraded=answer.degraded,
        unknown=answer.unknown,
        tie=answer.tie,
        next_page=_next_page(visit, answer),
        filters=[(name, visit.asked(name)) for name in FIELDS if visit.asked(name)],
        left_out=not answer.shown and leaves_logs_out(visit) and bool(by_kind),
        revision=visit.app.newest_change(visit.caller),  # What changes after it, nobody saw here.
        bulk=BULK,
    )


def match_of(result: Mapping[str, Json], words: re.Pattern[str] | None, *, is_nearest: bool) -> Match | None:
    """Return how closely a result matches the `words` of a search, by `words_of`; None where nothing is told.

    It `is_nearest` where no record holds a name of the search: a score compares a match with the others, and is high
    for the nearest of what answers nothing. A search of one or two words is matched closely by a text that has them,
    whatever its score, and by no other.
    """
    score = result.get("score")
    if words is None or not isinstance(score, float):
        return None
    if is_nearest:
        return Match(words=_WEAK, bar=min(score, BEARS_ON_FACT))
    if words.groups < FEW_WORDS:
        text = " ".join((str(result["text"]), *cast("Sequence[str]", result.get("tags", ()))))
        has_all = len({found.lastindex for found in words.finditer(text)}) == words.groups
        return Match(words=_CLOSE if has_all else _FAIR if score >= BEARS_ON_FACT else _WEAK)
    told = _CLOSE if score >= CLOSE_SCORE else _FAIR if score >= BEARS_ON_FACT else _WEAK
    return Match(words=told, bar=score)


def _facet(visit: Visit, name: Facet, counts: Mapping[str, int]) -> Facets:
    chosen = visit.asked(name)
    values = [*counts.items(), *([(chosen, 0)] if chosen and chosen not in counts else [])]
    if name == "status":
        values = [(each, counts.get(each, 0)) for each in STATUSES]
    return Facets(name=name, label=_LABELS[name], chosen=chosen, values=values)


def _next_page(visit: Visit, answer: RecallAnswer) -> str:
    """Return the query of the address that shows more; "" at the end."""
    if answer.next_before:
        return visit.with_fields(before=answer.next_before)
    return visit.with_fields(offset=str(answer.next_offset)) if answer.next_offset else ""


SCREENS: Final = (Screen(path="/", answer=show_memories, title="Memories"),)
