"""Keeps in a person's browser what concerns nobody else: until when they have seen what is new, and the theme."""

from __future__ import annotations

import hashlib
import re
from typing import TYPE_CHECKING, Final

from starlette.responses import Response

from mcp_memory.domain.model.lifecycle import DAY_SECONDS
from mcp_memory.entrypoints.page.sign_in import PAGE_PATH
from mcp_memory.entrypoints.page.visits import THEME_COOKIE, THEMES, Screen, Visit
from mcp_memory.errors import InvalidRequest

if TYPE_CHECKING:
    from mcp_memory.domain.model.records import Instant

TIME: Final = re.compile(r"\d{9,11}(?:\.\d{1,7})?")  # 1795486421.535094
_YEAR_SECONDS: Final = 365 * 86_400


def note_seen(visit: Visit) -> Response:
    """Keep in the person's browser until when all was seen: it is nobody else's business.

    Without a time nothing was said to be seen, as before the first time; a form that takes the last one back says so.
    """
    seen = visit.given("newest")
    if seen is None or (seen and not TIME.fullmatch(seen)):
        raise InvalidRequest("The form is not whole; load the page again.")
    earlier = visit.cookies.get(mark_of(visit), "")
    is_undo = visit.given("undo") is not None
    answer = visit.see("/new", done="unseen") if is_undo else visit.see("/new", done="seen", earlier=earlier)
    if seen:  # What an import dates ahead is seen as well, and hides nothing.
        _keep(answer, mark_of(visit), repr(min(float(seen), visit.now)))
    else:
        answer.delete_cookie(mark_of(visit), path=PAGE_PATH, httponly=True, samesite="strict")
    return answer


def looked_at(visit: Visit) -> Instant:
    """Return the time until which all was seen; without one, a day ago."""
    seen = visit.cookies.get(mark_of(visit), "")
    return float(seen) if TIME.fullmatch(seen) else visit.now - DAY_SECONDS


def mark_of(visit: Visit) -> str:
    """Name the cookie by the memory, the project and the agent: the port of `mcp-memory ui` is another each time."""
    whose = f"{visit.memory} {visit.caller.namespace} {visit.caller.agent}"
    return f"mcp-memory-seen-{hashlib.sha256(whose.encode()).hexdigest()[:12]}"


def choose_theme(visit: Visit) -> Response:
    """Keep the theme that the form names; "system" follows the browser's own."""
    theme = visit.given("theme") or ""
    if theme not in (*THEMES, "system"):
        raise InvalidRequest("There is no such theme; choose one of the three.")
    answer = visit.see(visit.back())
    _keep(answer, THEME_COOKIE, theme)
    return answer


def _keep(answer: Response, name: str, value: str) -> None:
    """Let the browser keep a value for a year: it goes with visits of this page alone, and no script reads it."""
    answer.set_cookie(name, value, max_age=_YEAR_SECONDS, path=PAGE_PATH, httponly=True, samesite="strict")


SCREENS: Final = (
    Screen(path="/seen", answer=note_seen, changes=True, right="read"),
    Screen(path="/theme", answer=choose_theme, changes=True, right="read"),
)
