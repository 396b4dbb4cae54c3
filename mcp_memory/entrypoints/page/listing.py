"""The list of memories, as an address asks for it: a search, what it is narrowed to, and the place where it begins."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final, get_args

from mcp_memory.domain.model.kind_words import kinds_named
from mcp_memory.domain.model.records import KINDS, LOG_KINDS, OUT_OF_SEARCH, Status
from mcp_memory.domain.model.requests import RecallRequest
from mcp_memory.entrypoints.page.visits import Visit
from mcp_memory.errors import InvalidRequest

if TYPE_CHECKING:
    from mcp_memory.domain.model.records import Kind

PAGE_RECORDS: Final = 50
PAGE_TOKENS: Final = 60_000
READ_AT_ONCE: Final = 100
MAX_FIELD: Final = 2_000
STATUSES: Final[tuple[Status, ...]] = get_args(Status)
IN_FORCE: Final = tuple(each for each in STATUSES if each not in {*OUT_OF_SEARCH, "superseded"})
"""Statuses that are listed where no search and no status is asked for: what was superseded has a successor there."""
FACETS: Final = ("kind", "tag", "author", "session_id", "status")
FIELDS: Final = ("q", *FACETS, "pinned", "since", "until", "valid_at")
"""Every field of the address that says what is listed."""
LASTING: Final[tuple[Kind, ...]] = tuple(kind for kind in KINDS if kind not in LOG_KINDS)
"""Kinds that are listed where none is asked for: a session's log would bury what was learnt."""


def list_request(visit: Visit) -> RecallRequest:
    """Return what the address asks for. Raises InvalidRequest."""
    asked = {name: visit.asked(name) for name in (*FIELDS, "before")}
    if any(len(value) > MAX_FIELD for value in asked.values()):
        raise InvalidRequest("A field of the search is too long; ask for less.")
    kinds = _kinds(asked["kind"])
    is_pinned = asked["pinned"] == "yes"
    is_wide = leaves_logs_out(visit)
    return RecallRequest(
        query=asked["q"],
        kinds=LASTING if is_wide else kinds,
        tags=(f"+{asked['tag']}",) if asked["tag"] else (),
        authors=(asked["author"],) if asked["author"] else (),
        statuses=_statuses(asked["status"]) or (() if asked["q"] else IN_FORCE),
        session_id=asked["session_id"] or None,
        pinned=is_pinned,
        since=asked["since"] or None,
        until=asked["until"] or None,
        valid_at=(asked["q"].strip() and asked["valid_at"]) or None,  # Of a question alone: a list has no truth.
        before=None if asked["q"] else asked["before"],
        offset=visit.asked_number("offset", 0, digits=6),
        limit=PAGE_RECORDS,
        max_tokens=PAGE_TOKENS,
        only_looks=True,
    )


def leaves_logs_out(visit: Visit) -> bool:
    """Return True where the address asks for no kind, words, session or pin: then messages of sessions are left out."""
    return not (any(visit.asked(name) for name in ("kind", "q", "session_id")) or visit.asked("pinned") == "yes")


def _kinds(word: str) -> tuple[Kind, ...]:
    """Return the kinds that a word of the address means, stored or for people; a stored one is itself alone.

    Raises InvalidRequest for a word that names none.
    """
    stored = tuple(kind for kind in KINDS if kind == word)
    return stored or tuple(kinds_named(word) if word else ())


def _statuses(name: str) -> tuple[Status, ...]:
    """Return the chosen status as a filter has it. Raises InvalidRequest for one that there is not."""
    if name and name not in STATUSES:
        raise InvalidRequest("There is no such status; choose one of the list.")
    return (name,) if name else ()


def all_listed(visit: Visit, most: int) -> tuple[list[str], bool]:
    """Return the ids of the newest records that pass the filter, at most so many; and True where more do.

    A query narrows nothing here: it ranks. Raises InvalidRequest.
    """
    request = replace(
        list_request(visit),
        query="",
        valid_at=None,
        offset=0,
        before="",
        limit=READ_AT_ONCE,
        max_tokens=PAGE_TOKENS,
        detail="micro",
    )
    ids: list[str] = []
    while True:
        answer = visit.app.recall(request, visit.caller)
        ids += [each.id for each in answer.shown]
        if not answer.next_before or len(ids) > most:
            return ids[:most], len(ids) > most
        request = replace(request, before=answer.next_before)
