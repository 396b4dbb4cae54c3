"""The screens of sessions: their logs against the window, each compaction as a step, what they state, and the log."""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote

from starlette.responses import Response

from mcp_memory.domain.model.requests import CompactRequest
from mcp_memory.domain.model.session_log import REPLACEMENT, Entry, SessionLog, id_order
from mcp_memory.domain.model.token_factor import CountedTokens
from mcp_memory.domain.sessions.pressure import Dominant, makeup
from mcp_memory.entrypoints.page.rendering import BarPart, bar_of
from mcp_memory.entrypoints.page.visits import Screen, Visit
from mcp_memory.errors import InvalidRequest, NotFound

if TYPE_CHECKING:
    from mcp_memory.domain.model.scopes import Caller
    from mcp_memory.services.sessions.fullness import LogStanding
    from mcp_memory.services.sessions.session_account import CompactionStep

NAME: Final = "Sessions"
PAGE_SESSIONS: Final = 20
PAGE_ENTRIES: Final = 30
PAGE_STEPS: Final = 10
PAGE_BLOCKS: Final = 20
WHOLE_CHARACTERS: Final = 600
"""Characters up to which a message stands there whole; a longer one is folded."""
SHOWN_CHARACTERS: Final = 4_000
"""Characters of a folded message; the record's own page has all of them."""
_PLACE = re.compile(r"[^/]{1,200}/.{1,300}", re.DOTALL)  # "ann/s1", an agent and its session
_BLOCK_ID = re.compile(rf"{REPLACEMENT}[0-9a-f]{{1,20}}")  # "x8c9ac785b1"
_MAKEUP: Final[Mapping[Dominant, str]] = {
    "user": "The user's words",
    "assistant": "The agent's words and calls",
    "tool_output": "Tool output",
    "summaries": "Blocks and summaries",
}


def show_sessions(visit: Visit) -> Response:
    before = visit.position(_PLACE)
    found = visit.app.session_accounts.latest(visit.caller, PAGE_SESSIONS + 1, before, of_all=visit.visitor.is_owner)
    shown = found[:PAGE_SESSIONS]
    standings = [visit.app.log_standing(_in_session(visit, each.session_id, each.agent, each.client)) for each in shown]
    bars = [_bar([("The log", each.tokens)], each) for each in standings]
    return visit.page(
        "sessions.html",
        here=NAME,
        sessions=[*zip(shown, standings, bars, strict=True)],
        next_page=visit.further(*shown[-1].place) if len(found) > PAGE_SESSIONS else "",
    )


def show_session(visit: Visit) -> Response:
    caller = _session(visit)
    account = visit.app.session_accounts(caller)
    caller = replace(caller, client=account.client)
    standing = visit.app.log_standing(caller)
    first, end = _shown_places(visit, account.log.entries)
    shown = account.log.entries[first:end]
    steps = [step for step in account.steps if step.compaction.number < visit.asked_number("step", 10**9)]
    last_step = steps[PAGE_STEPS - 1].compaction.number if steps[PAGE_STEPS:] else ""
    log_keys = {"after": "", "before": "", "end": ""}
    return visit.page(
        "session.html",
        **_about(visit, caller),
        standing=standing,
        bar=_bar(_parts(account.log, visit, caller), standing),
        steps=[(step, _step_bar(step, standing, visit, caller)) for step in steps[:PAGE_STEPS]],
        earlier_steps=visit.with_fields(step=str(last_step)) if last_step else "",
        entries=shown,
        first=first + 1,
        of=len(account.log.entries),
        back=visit.with_fields(**log_keys | {"before": shown[0].covers[0]}) if first else "",
        further=visit.with_fields(**log_keys | {"after": shown[-1].covers[0]}) if account.log.entries[end:] else "",
        to_end=visit.with_fields(**log_keys | {"end": "1"}),
        may_undo=visit.may("write") and caller.agent == visit.caller.agent,
    )  # fmt: skip


def show_stated(visit: Visit) -> Response:
    caller = _session(visit)
    accounts = visit.app.session_accounts
    return visit.page("stated.html", **_about(visit, caller), sections=accounts.stated(accounts(caller).log))


def show_compaction(visit: Visit) -> Response:
    caller, first = _session(visit), visit.asked_number("from", 0)
    number = int(visit.parts["number"]) if re.fullmatch(r"[0-9]{1,9}", visit.parts["number"]) else 0
    step, made = visit.app.session_accounts.made_in(number, caller, PAGE_BLOCKS + 1, first)
    return visit.page(
        "compaction.html",
        **_about(visit, caller),
        step=step,
        blocks=[each.entry for each in made[:PAGE_BLOCKS]],
        next_page=visit.with_fields(**{"from": str(first + PAGE_BLOCKS)}) if made[PAGE_BLOCKS:] else "",
    )


def show_block(visit: Visit) -> Response:
    """Show a block of a log and its originals, to visitors who see all of those."""
    block_id, first = visit.parts["id"], visit.asked_number("from", 0)
    if not _BLOCK_ID.fullmatch(block_id):
        raise NotFound("There is nothing at this address.")
    found = visit.app.session_accounts.originals(block_id, visit.reader, PAGE_ENTRIES, first)
    after = first + PAGE_ENTRIES
    return visit.page(
        "block.html",
        **_about(visit, visit.reader),
        block=found.block,
        originals=found.originals,
        next_page=visit.with_fields(**{"from": str(after)}) if after < len(found.block.covers) else "",
    )


def undo_compaction(visit: Visit) -> Response:
    """Undo the compaction that the form names, as an agent's call does; not another one that came meanwhile."""
    session_id, number = visit.given("session") or "", visit.number("number")
    if not session_id:
        raise InvalidRequest("The form is not whole; load the page again.")
    caller = visit.caller.in_session(session_id)
    with visit.app.idle_compaction.kept_off(caller):
        visit.app.compact(CompactRequest(undo=True, number=number), caller)
    return visit.see(f"/session/{quote(session_id)}", done="uncompacted")


def _session(visit: Visit) -> Caller:
    """Return the reader in the session that the path names."""
    if not visit.parts["id"]:
        raise NotFound("There is nothing at this address.")
    return visit.reader.in_session(visit.parts["id"])


def _in_session(visit: Visit, session_id: str, agent: str, client: str) -> Caller:
    return replace(visit.caller, agent=agent, client=client).in_session(session_id)


def _about(visit: Visit, caller: Caller) -> dict[str, Any]:
    """Return what every screen of a session needs: whose it is, and numbers of tokens as its client counts them."""
    return {
        "here": NAME,
        "whose": caller,
        "of_agent": "" if caller.agent == visit.caller.agent else caller.agent,
        "theirs": _theirs(visit, caller),
        "whole_characters": WHOLE_CHARACTERS,
        "shown_characters": SHOWN_CHARACTERS,
    }


def _theirs(visit: Visit, caller: Caller) -> Callable[[int], int]:
    factor = visit.app.factor(caller)
    return lambda tokens: factor.client(CountedTokens(tokens))


def _shown_places(visit: Visit, entries: Sequence[Entry]) -> tuple[int, int]:
    """Return from where to where a log is shown. An address names an original, so that a log may grow or shrink."""
    keys = [id_order(entry.covers[0]) for entry in entries]
    last_page = max(len(keys) - PAGE_ENTRIES, 0)
    first = 0
    if after := visit.asked("after"):
        first = bisect_right(keys, id_order(after))
    elif before := visit.asked("before"):
        first = bisect_left(keys, id_order(before)) - PAGE_ENTRIES
    if visit.asked("end") or first >= len(keys):
        first = last_page
    return max(first, 0), max(first, 0) + PAGE_ENTRIES


def _parts(log: SessionLog, visit: Visit, caller: Caller) -> list[tuple[str, int]]:
    """Return of what a log is made, in the client's tokens."""
    shares, theirs = makeup(log), _theirs(visit, caller)
    return [(title, theirs(round(shares[name] * log.tokens))) for name, title in _MAKEUP.items()]


def _step_bar(step: CompactionStep, standing: LogStanding, visit: Visit, caller: Caller) -> Sequence[BarPart]:
    """Return the length after a compaction, and what it took away."""
    theirs, before, after = _theirs(visit, caller), step.compaction.before, step.compaction.after
    return _bar([("after it", theirs(after)), ("saved", theirs(max(before - after, 0)))], standing)


def _bar(parts: Sequence[tuple[str, int]], standing: LogStanding) -> Sequence[BarPart]:
    """Return parts of a window; a log that is longer fills the bar."""
    return bar_of(parts, max(standing.window, sum(tokens for _, tokens in parts)))


SCREENS: Final = (
    Screen(path="/sessions", answer=show_sessions, title=NAME),
    Screen(path="/session/{id:path}", answer=show_session),
    Screen(path="/stated/{id:path}", answer=show_stated),
    Screen(path="/compaction/{number}/{id:path}", answer=show_compaction),
    Screen(path="/block/{id}", answer=show_block),
    Screen(path="/uncompacted", answer=undo_compaction, changes=True),
)
