"""The screen of access: tokens, agents and their people, and trusted folders, as far as the visitor may know of them.

Who has the memory's files sees all and may do all. A token with the right to administer sees the tokens of its own
projects and may end them, but makes none: it could name another agent or person, and so read what is private to them.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Final

from starlette.responses import Response

from mcp_memory.domain.model.lifecycle import DAY_SECONDS
from mcp_memory.domain.model.projects import TrustedFolder
from mcp_memory.domain.model.scopes import RIGHTS, Grant
from mcp_memory.entrypoints.hooks.session_notes import forget_namespaces
from mcp_memory.entrypoints.page.agents import agents_here
from mcp_memory.entrypoints.page.visits import Screen, Visit
from mcp_memory.errors import InvalidRequest, McpMemoryError, NotFound
from mcp_memory.ports.access import Token
from mcp_memory.projects import folder_exists

NAME: Final = "Access"
TOKENS_SHOWN: Final = 200
FOLDERS_SHOWN: Final = 200
MOST_DAYS: Final = 36_500
_FIELDS: Final = ("name", "agent", "person", "namespaces", "right", "days")


def show_access(visit: Visit) -> Response:
    return _access_page(visit)


def _access_page(visit: Visit, status: int = 200, said: str = "", secret: str = "") -> Response:
    is_owner = visit.visitor.is_owner
    known = _known_tokens(visit)
    order = sorted(known, key=lambda token: (token.is_valid(visit.now), token.created_at), reverse=True)
    folders = visit.app.trust.folders() if is_owner else ()
    return visit.page(
        "access.html",
        status,
        here=NAME,
        tokens=[(token, _state(token, visit.now)) for token in order[:TOKENS_SHOWN]],
        tokens_more=len(order) - TOKENS_SHOWN,
        agents=agents_here(visit, known)[:TOKENS_SHOWN],
        folders=[(each, folder_exists(Path(each.folder))) for each in folders[:FOLDERS_SHOWN]],
        folders_more=len(folders) - FOLDERS_SHOWN,
        has_reads=visit.app.reads.days > 0,
        rights=RIGHTS,
        given={name: visit.given(name) or "" for name in _FIELDS},
        said=said,
        secret=secret,
    )


def _known_tokens(visit: Visit) -> Sequence[Token]:
    """Return the tokens that the visitor may know of: all, or those of its own projects alone."""
    tokens = visit.app.tokens.all()
    if visit.visitor.is_owner:
        return tokens
    grant = visit.visitor.sender.grant
    own = set(grant.namespaces if grant else (visit.caller.namespace,))
    return [token for token in tokens if own.issuperset(token.grant.namespaces)]


def _state(token: Token, now: float) -> str:
    return "valid" if token.is_valid(now) else "revoked" if token.revoked_at is not None else "expired"


def add_token(visit: Visit) -> Response:
    """Make a token, and show its secret on this one page."""
    _require_owner(visit)
    try:
        secret, _ = visit.app.tokens.add((visit.given("name") or "").strip(), _grant(visit), _expiry(visit))
    except McpMemoryError as error:  # The form keeps what the person wrote.
        return _access_page(visit, 400, said=str(error))
    return _access_page(visit, secret=secret)


def _grant(visit: Visit) -> Grant:
    agent, right = (visit.given("agent") or "").strip(), visit.given("right") or ""
    if right not in RIGHTS:
        raise InvalidRequest("Choose what the token may do.")
    if agent == visit.app.settings.agent:
        raise InvalidRequest(f"{agent!r} is the name of this machine's own agents; choose another for the token.")
    namespaces = [line.strip() for line in (visit.given("namespaces") or "").split("\n") if line.strip()]
    person = (visit.given("person") or "").strip()
    return Grant(agent=agent, person=person, namespaces=tuple(namespaces), right=right)


def _expiry(visit: Visit) -> float | None:
    days = (visit.given("days") or "").strip()
    if not days:
        return None
    if not (days.isascii() and days.isdecimal() and len(days) <= 5 and 0 < int(days) <= MOST_DAYS):
        raise InvalidRequest(f"A token is valid for 1 to {MOST_DAYS:,} days, or without end.")
    return visit.now + int(days) * DAY_SECONDS


def revoke_token(visit: Visit) -> Response:
    """End a token that the visitor may know of; any other is answered like one that is not there."""
    name = visit.given("name") or ""
    if not any(token.name == name for token in _known_tokens(visit) if token.revoked_at is None):
        raise NotFound("There is no such token to be revoked here.")
    visit.app.tokens.revoke(name)
    return visit.see("/access", done="revoked")


def revoke_folder(visit: Visit) -> Response:
    """Withdraw trust from a folder; running servers see it when they start again."""
    _require_owner(visit)
    revoked: Sequence[TrustedFolder] = visit.app.trust.revoke(visit.given("folder") or "")
    forget_namespaces(visit.app.settings.data_dir, {each.namespace for each in revoked})
    return visit.see("/access", done="untrusted")


def _require_owner(visit: Visit) -> None:
    if not visit.visitor.is_owner:
        raise NotFound("There is nothing at this address.")


SCREENS: Final = (
    Screen(path="/access", answer=show_access, title=NAME, right="admin"),
    Screen(path="/access/token-added", answer=add_token, changes=True, right="admin"),
    Screen(path="/access/token-revoked", answer=revoke_token, changes=True, right="admin"),
    Screen(path="/access/folder-revoked", answer=revoke_folder, changes=True, right="admin"),
)
