"""Serves the page: checks each request before anything of it is read, runs a screen in a thread, and seals the answer.

Knows no screen's content.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Awaitable, Callable, Generator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from anyio import CapacityLimiter, to_thread
from starlette.requests import Request
from starlette.responses import HTMLResponse, PlainTextResponse, RedirectResponse, Response
from starlette.routing import Route

from mcp_memory.entrypoints.page import (
    access,
    add,
    bulk,
    command_palette,
    contexts,
    edit,
    health,
    kept_by_browser,
    memories,
    new,
    reads,
    record,
    review,
    sessions,
    topics,
    work,
)
from mcp_memory.entrypoints.page.live import Feed, Standing
from mcp_memory.entrypoints.page.markdown import drawn
from mcp_memory.entrypoints.page.rendering import assets, environment
from mcp_memory.entrypoints.page.sign_in import LIVE_PATH, PAGE_PATH, Doors, Visitor, cookie_names, session_cookie
from mcp_memory.entrypoints.page.visits import (
    FORM_BYTES,
    Fields,
    Rejected,
    Screen,
    Visit,
    came_from,
    checked_form,
    fields_of,
    form_body,
    safe_path,
    visit_of,
)
from mcp_memory.entrypoints.server.identity import sender_of, told, visited_by
from mcp_memory.entrypoints.server.server_log import log_defect
from mcp_memory.errors import Conflict, InvalidRequest, McpMemoryError, NotFound, StoreUnavailable
from mcp_memory.services.access.served_requests import gave

if TYPE_CHECKING:
    from mcp_memory.app import App

logger = logging.getLogger(__name__)

SCREENS: Final[tuple[Screen, ...]] = (
    *memories.SCREENS,
    *add.SCREENS,
    *topics.SCREENS,
    *new.SCREENS,
    *kept_by_browser.SCREENS,
    *bulk.SCREENS,
    *record.SCREENS,
    *reads.SCREENS,
    *edit.SCREENS,
    *contexts.SCREENS,
    *work.SCREENS,
    *sessions.SCREENS,
    *review.SCREENS,
    *health.SCREENS,
    *access.SCREENS,
    *command_palette.SCREENS,
)
"""Every screen, in the order of the navigation."""
SIGN_IN_BYTES: Final = 4 * 1024
AT_ONCE: Final = 12
"""Threads of the page, apart from those of the tools; one more looks cookies up, so that no screen keeps people out.

Requests of one revision go on together, so that people get the share of their threads among all (decision 0055).
"""
MOST_WAITING: Final = 64
"""Requests of people who were let in that wait for one of these threads."""
LARGE_AT_ONCE: Final = 4
"""Forms with a record's text that are there at once, one of a session: each may take tens of megabytes."""
FIRST_TEMPLATES: Final = (
    "sign_in.html", "bare.html", "base.html", "icons.html", "macros.html", "memories.html", "record.html",
    "reads_macros.html", "contexts_macros.html",
)  # fmt: skip
"""Templates of the first page and of a record, which take up to 40 ms each to compile."""
_HEADERS: Final[Mapping[str, str]] = {
    "Content-Security-Policy": "default-src 'self'; frame-ancestors 'none'; base-uri 'none'; form-action 'self';"
    " object-src 'none'",
    "Referrer-Policy": "same-origin",  # With none at all a browser names no origin of its forms.
    "X-Content-Type-Options": "nosniff",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
}
_TITLES: Final[Mapping[int, str]] = {
    403: "Not allowed", 404: "Nothing here", 405: "Nothing here", 408: "Too slow",
    409: "Changed meanwhile", 413: "Too large", 500: "Something broke", 503: "Not available at present",
}  # fmt: skip
_RECORD_LINK = re.compile(rb'(?<!class="id named" )(?:href|action)="/ui/record/(r[0-9a-z]+)')
"""A record that a page shows: it links to it, as `<a class="text" href="/ui/record/r00001a"`, or changes it by a form.

The log of reads names ids alone, by links of the class "named". A link in a text is escaped: `&#34;/ui/record/r00001a`.
"""
_OTHERWISE: Final = "That did not work"
_LOGGED: Final = "It was logged. Load the page again."
_UNAVAILABLE: Final = "The memory is not available at present; the server's log says why."
_FOR_PEOPLE: Final[Mapping[str, str]] = {"call `recall` to find ids": "search finds what there is"}
"""Next steps that messages name for agents, and the same for people."""


class Site:
    """The page over one memory; `routes` are mounted into a server whose gate has checked Host and Origin."""

    def __init__(self, app: App, doors: Doors, transfer_seconds: float) -> None:
        self._app = app
        self._doors = doors
        self._seconds = transfer_seconds
        self._threads = CapacityLimiter(AT_ONCE)
        self._readers = CapacityLimiter(1)
        self._large = CapacityLimiter(LARGE_AT_ONCE)
        self._feed = Feed(app.progress)
        self._attention = new.KeptAttention()
        self._sending = set[str]()
        """Sessions of which such a form is there."""

    def routes(self) -> list[Route]:
        """Return a route for each screen, and those by which people come and go."""
        shown = [Route(_full(each.path), self._screen(each), methods=_methods(each)) for each in SCREENS]
        own = [
            Route(PAGE_PATH, self._guarded(_to_first_screen)),
            Route(f"{PAGE_PATH}/static/{{name}}", _static),
            Route(f"{PAGE_PATH}/enter", self._guarded(self._enter)),
            Route(f"{PAGE_PATH}/sign-in", self._guarded(self._sign_in), methods=["POST"]),
            Route(f"{PAGE_PATH}/sign-out", self._guarded(self._sign_out), methods=["POST"]),
            Route(LIVE_PATH, self._guarded(self._live), methods=["GET"]),
            Route(f"{PAGE_PATH}/namespace", self._guarded(self._look_at), methods=["POST"]),
        ]
        return [*own, *shown, Route(f"{PAGE_PATH}/{{rest:path}}", self._guarded(self._nowhere), methods=["GET"])]

    def warm(self) -> None:
        """Load what the first page would wait for. Raises StoreUnavailable."""
        for name in FIRST_TEMPLATES:
            environment().get_template(name)
        drawn("")
        self._app.warm_lists()

    def _screen(self, screen: Screen) -> Callable[[Request], Awaitable[Response]]:
        async def answer(request: Request) -> Response:
            visitor = await self._admitted(request)
            if not visitor.may(screen.takes):
                raise Rejected(403, f"This takes the right to {screen.takes}, which your token does not have.")
            if screen.most_bytes <= FORM_BYTES:
                return await self._answer(screen, visitor, request)
            with self._alone(visitor):
                async with self._large:
                    return await self._answer(screen, visitor, request)

        return self._guarded(answer)

    async def _answer(self, screen: Screen, visitor: Visitor, request: Request) -> Response:
        body = await form_body(request, screen.most_bytes, self._seconds) if screen.changes else b""
        if self._threads.statistics().tasks_waiting >= MOST_WAITING:
            raise Rejected(503, "Too many people look at this moment; load the page again.")
        return await to_thread.run_sync(self._answered, screen, visitor, request, body, limiter=self._threads)

    @contextmanager
    def _alone(self, visitor: Visitor) -> Generator[None]:
        """Take one form with a record's text of a session at a time. Raises Rejected."""
        if visitor.session_id in self._sending:
            raise Rejected(503, "Another form of yours is still on its way; wait for it, and send this one again.")
        self._sending.add(visitor.session_id)
        try:
            yield
        finally:
            self._sending.remove(visitor.session_id)

    def _answered(self, screen: Screen, visitor: Visitor, request: Request, body: bytes) -> Response:
        """Answer for a screen, in the visitor's name; also where the memory refuses."""
        with visited_by(visitor.sender), self._app.serving(f"page {screen.path}", **sender_of(self._app)):
            try:
                query = fields_of(request.scope["query_string"])
                form = checked_form(body, visitor) if screen.changes else dict[str, list[str]]()
                answer = screen(self._visit(visitor, request, query, form))
                gave(each.decode() for each in _RECORD_LINK.findall(bytes(answer.body)))
                return answer
            except McpMemoryError as error:
                raise Rejected(_status_of(error), _for_people(told(error))) from error

    def _visit(self, visitor: Visitor, request: Request, query: Fields, form: Fields) -> Visit:
        return visit_of(
            self._app,
            visitor,
            path=request.url.path.removeprefix(PAGE_PATH) or "/",
            query=query,
            form=form,
            parts=request.path_params,
            cookies=request.cookies,
            nav=SCREENS,
            attention=self._attention,
        )

    async def _admitted(self, request: Request) -> Visitor:
        """Return who sent a request. Nothing of its body is read yet. Raises Rejected."""
        visitor = None
        if session_id := session_cookie(request):
            headers = dict(request.headers)
            visitor = await to_thread.run_sync(self._doors.visitor, session_id, headers, limiter=self._readers)
        if visitor is None:
            raise Rejected(401, "")
        return visitor

    async def _enter(self, request: Request) -> Response:
        """Let in the browser that comes by the link.

        The page loads again by itself: a strict cookie does not go with a visit that began elsewhere.
        """
        key = request.query_params.get("key", "")
        session_id = self._doors.enter_by_link(key) if request.method == "GET" else ""
        if not session_id:
            raise Rejected(
                403,
                "This link is of a run of `mcp-memory ui` that has ended. Open the latest one, or run it again.",
            )
        answer = _page("entered.html", 200)
        return self._with_cookie(answer, request, session_id)

    async def _sign_in(self, request: Request) -> Response:
        form = fields_of(await form_body(request, SIGN_IN_BYTES, self._seconds))
        secret = next(iter(form.get("token", ())), "").strip()
        headers = dict(request.headers)
        session_id = await to_thread.run_sync(self._doors.enter_by_token, secret, headers, limiter=self._readers)
        if not session_id:
            return await self._ask(request, 403, "This token is unknown, was revoked or has expired.")
        back = safe_path(next(iter(form.get("back", ())), ""))
        return self._with_cookie(RedirectResponse(PAGE_PATH + back, 303), request, session_id)

    async def _sign_out(self, request: Request) -> Response:
        visitor = await self._admitted(request)
        checked_form(await form_body(request, SIGN_IN_BYTES, self._seconds), visitor)
        self._doors.leave(visitor)
        answer = await self._ask(request, 200, "You have signed out.")
        for name in cookie_names(request):
            answer.delete_cookie(name, path=PAGE_PATH, secure=name.startswith("__"), httponly=True, samesite="strict")
        return answer

    async def _look_at(self, request: Request) -> Response:
        visitor = await self._admitted(request)
        form = checked_form(await form_body(request, SIGN_IN_BYTES, self._seconds), visitor)
        try:
            self._doors.look_at(visitor, next(iter(form.get("namespace", ())), ""))
        except InvalidRequest as error:
            raise Rejected(403, str(error)) from error
        return RedirectResponse(f"{PAGE_PATH}/", 303)

    async def _live(self, request: Request) -> Response:
        """Tell the page as long as it is open what changes for its visitor, whose rights are looked up each time."""
        await self._admitted(request)
        session_id, headers = session_cookie(request), dict(request.headers)

        def look() -> Standing | None:
            visitor = self._doors.visitor(session_id, headers)
            if visitor is None:
                return None
            with visited_by(visitor.sender):
                visit = self._visit(visitor, request, {}, {})
                counts = visit.attention(visit).counts
                return visit.told(counts), counts

        return self._feed.answer(look, request.query_params.get("seen", ""))

    async def _nowhere(self, request: Request) -> Response:
        await self._admitted(request)
        raise Rejected(404, "There is nothing at this address.")

    def _with_cookie(self, answer: Response, request: Request, session_id: str) -> Response:
        """Give the session's cookie. A proxy may have taken the TLS off: the page's origin tells that there is some."""
        is_secure = request.url.scheme == "https" or request.headers.get("origin", "").startswith("https://")
        plain, secure = cookie_names(request)
        answer.set_cookie(
            secure if is_secure else plain,
            session_id,
            path=PAGE_PATH,
            secure=is_secure,
            httponly=True,
            samesite="strict",
        )
        return answer

    async def _ask(self, request: Request, status: int, notice: str = "") -> Response:
        """Answer with the form that asks for a token, or says how to come in."""
        back = request.url.path.removeprefix(PAGE_PATH) if request.method == "GET" else ""
        query = f"?{request.url.query}" if back and request.url.query else ""
        needs_token = not await to_thread.run_sync(self._doors.is_open, dict(request.headers), limiter=self._readers)
        shown = {"has_link": self._doors.has_link, "needs_token": needs_token, "back": safe_path(back + query)}
        return _page("sign_in.html", status, said=notice, **shown)

    def _guarded(self, answer: Callable[[Request], Awaitable[Response]]) -> Callable[[Request], Awaitable[Response]]:
        """Answer whatever happens, with what browsers are to hold every page to."""

        async def guarded(request: Request) -> Response:
            try:
                return _sealed(await self._tried(answer, request))
            except StoreUnavailable as error:  # Before anybody was let in: the error's words name files.
                logger.warning("%s", error)
                return _sealed(_plain_page(503, _UNAVAILABLE))
            except Exception as error:  # noqa: BLE001 - the edge
                log_defect("The page", error)
                return _sealed(_plain_page(500, _LOGGED))

        return guarded

    async def _tried(self, answer: Callable[[Request], Awaitable[Response]], request: Request) -> Response:
        try:
            return await answer(request)
        except Rejected as rejected:
            if rejected.status == 401:
                return await self._ask(request, 401)
            return await self._refusal(request, rejected)
        except StoreUnavailable:
            raise
        except Exception as error:  # noqa: BLE001 - the edge
            log_defect("The page", error)
            return await self._refusal(request, Rejected(500, _LOGGED))

    async def _refusal(self, request: Request, rejected: Rejected) -> Response:
        """Say why nothing came of a request; with the header and the ways on to somebody who was let in."""
        try:
            visitor = await self._admitted(request)
            if self._threads.statistics().tasks_waiting < MOST_WAITING:
                return await to_thread.run_sync(self._refused, visitor, request, rejected, limiter=self._threads)
        except (Rejected, StoreUnavailable):
            pass
        return _plain_page(rejected.status, str(rejected), is_form=request.method == "POST")

    def _refused(self, visitor: Visitor, request: Request, rejected: Rejected) -> Response:
        with visited_by(visitor.sender):
            visit = self._visit(visitor, request, {}, {})
            return visit.page(
                "refused.html",
                rejected.status,
                here="",
                notice="",
                title=_TITLES.get(rejected.status, _OTHERWISE),
                why=str(rejected),
                is_form=request.method == "POST",
                came_from=came_from(request),
            )


def _full(path: str) -> str:
    return f"{PAGE_PATH}{path}"


def _methods(screen: Screen) -> list[str]:
    return ["POST"] if screen.changes else ["GET"]


def _sealed(answer: Response) -> Response:
    answer.headers.update({name: value for name, value in _HEADERS.items() if name not in answer.headers})
    answer.headers.setdefault("Cache-Control", "no-store")
    return answer


def _page(template: str, status: int, **values: object) -> Response:
    return HTMLResponse(environment().get_template(template).render(values), status)


def _plain_page(status: int, why: str, *, is_form: bool = False) -> Response:
    return _page("error.html", status, title=_TITLES.get(status, _OTHERWISE), why=why, is_form=is_form)


async def _to_first_screen(_: Request) -> Response:
    return RedirectResponse(f"{PAGE_PATH}/", 303)


async def _static(request: Request) -> Response:
    asset = assets().get(request.path_params["name"])
    if asset is None:
        return _sealed(PlainTextResponse("Nothing here\n", 404))
    kept = {"Cache-Control": "public, max-age=31536000, immutable"} if request.url.query else {}
    return _sealed(Response(asset.content, media_type=asset.media_type, headers=kept))


def _status_of(error: McpMemoryError) -> int:
    if isinstance(error, NotFound):
        return 404
    if isinstance(error, Conflict):
        return 409
    return 400 if isinstance(error, InvalidRequest) else 503


def _for_people(message: str) -> str:
    for to_agents, to_people in _FOR_PEOPLE.items():
        message = message.replace(to_agents, to_people)
    return message
