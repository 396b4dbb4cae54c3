"""One request of a person, what it carries, and how a screen sees it; and a screen, as the site sees it."""

from __future__ import annotations

import hashlib
import hmac
import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import parse_qsl, urlencode

from anyio import fail_after
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response

from mcp_memory.domain.model.ids import RECORD, is_id
from mcp_memory.domain.model.scopes import Caller, Right
from mcp_memory.entrypoints.page.rendering import environment
from mcp_memory.entrypoints.page.sign_in import CLIENT, PAGE_PATH, Visitor
from mcp_memory.entrypoints.server.identity import asking
from mcp_memory.errors import InvalidRequest, NotFound
from mcp_memory.ports.walls import EVERYTHING, stay_within

if TYPE_CHECKING:
    from mcp_memory.app import App
    from mcp_memory.domain.model.records import Instant

Fields = Mapping[str, Sequence[str]]
"""Fields of an address or of a form: each name with its values, in their order."""
THEMES: Final = ("light", "dark")
THEME_COOKIE: Final = "mcp-memory-theme"
"""Not the store of a script: that is another one for each port, and `mcp-memory ui` has a new port each time."""
MOST_FIELDS: Final = 2_000
FORM_BYTES: Final = 64 * 1024
TEXT_BYTES: Final = 13 * 1024 * 1024
"""Bytes of a form with a record's text: a million characters of four bytes, of which each may come as `%F0`."""
_CSRF: Final = re.compile(rb"(?:^|&)csrf=([0-9a-f]{64})(?:&|$)")
DONE: Final[Mapping[str, str]] = {
    "added": "Added.",
    "added_similar": "Added. Something like it was stored before: see what is near it, and Review.",
    "known": "This is known already. Here is the record that says it.",
    "changed": "Changed.",
    "excluded": "Kept out: it is no longer given here. Search still finds it, and its page says so.",
    "included": "It can be given there again.",
    "erased": "Erased for good.",
    "erased_copies": "Erased for good; a copy beside the memory that held it was deleted as well.",
    "pending": "Erased: no answer shows it now. Its bytes leave the files once other processes pause.",
    "pinned": "Pinned: contexts take it first, while it fits.",
    "unpinned": "Unpinned.",
    "promoted": "Promoted.",
    "restored": "Restored.",
    "retired": "Retired: agents no longer find it.",
    "superseded": "Superseded: this record replaces the other one, which ranks below it.",
    "undone": "Undone.",
    "undone_some": "Undone. As before the change: {}.",
    "undone_one": "Undone. As before the change:",
    "waits_again": "Undone. The group is waiting again.",
    "uncompacted": "Undone: the log is as it was before this compaction, plus what was said since.",
    "kept": "Undone, but this record stays: others have changed it since, or rely on it.",
    "unchanged": "Nothing was changed: it was like that already.",
    "wrong": "Marked as wrong: no search finds it now.",
    "retired_all": "Retired {}: agents no longer find them.",
    "restored_all": "Restored {}.",
    "pinned_all": "Pinned {}.",
    "unpinned_all": "Unpinned {}.",
    "wrong_all": "Marked {} as wrong: no search finds them now.",
    "promoted_all": "Promoted {}.",
    "seen": "Marked as seen.",
    "unseen": "Undone: these are new again.",
    "ended": "Ended: the result is part of the memory, and who was in it is told.",
    "blocked": "Blocked: it waits until somebody takes it up again.",
    "handed": "Handed over.",
    "reopened": "Reopened.",
    "revoked": "Revoked: the token no longer lets anybody in.",
    "untrusted": "Revoked: agents in that folder have a memory of their own once they start again.",
    "settled": "Settled.",
}
"""Sentences that tell what was done, by the word that an address carries; `{}` gets the number of records."""
_TIME: Final = re.compile(r"\d{1,12}(?:\.\d{1,9})?")  # "1795176000.25"
_TOLD: Final = frozenset({"done", "change", "made", "at", "earlier", "retired", "number", "was"})
"""Fields of an address that tell what was done, and at which line of the page."""
_LINE: Final = re.compile(r"[a-z][0-9a-z]{0,40}")  # "r00001a"


@dataclass(frozen=True, slots=True, kw_only=True)
class ReviewMark:
    """Says beside a record in a list that it waits for a verdict: the group's id, the mark, and the group's title."""

    id: str
    says: str
    title: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Attention:
    """Holds what asks for a visitor's attention: the header's counts by the titles of screens, and marks of records."""

    counts: Mapping[str, str] = field(default_factory=dict[str, str])
    marks: Mapping[str, ReviewMark] = field(default_factory=dict[str, ReviewMark])


@dataclass(frozen=True, slots=True, kw_only=True)
class Visit:
    """One request: who asks, what the address and the form say, and the ways to answer."""

    app: App
    visitor: Visitor
    caller: Caller
    path: str
    """The path below the page's own, such as `/record/r00001a`."""
    query: Fields
    form: Fields
    parts: Mapping[str, str]
    """The named parts of the path."""
    cookies: Mapping[str, str] = field(default_factory=dict[str, str])
    nav: Sequence[Screen]
    memory: str
    """The permanent name of the memory."""
    attention: Callable[[Visit], Attention] = lambda _: Attention()
    """Reads the header's counts and the marks of records."""
    reading: ExitStack = field(default_factory=ExitStack)
    """Closed once all is read: agents' calls wait for nobody who renders or compares."""

    @property
    def may_switch(self) -> bool:
        """True where there is a choice of namespaces: of those of a token, or of all for who has the memory's files."""
        grant = self.visitor.sender.grant
        return len(grant.namespaces) > 1 if grant else self.visitor.is_owner

    def may(self, right: Right) -> bool:
        return self.visitor.may(right)

    @property
    def reader(self) -> Caller:
        """The agent whose blocks and logs are looked at: the visitor's, or any for who has the memory's files."""
        agent = self.asked("of")
        return replace(self.caller, agent=agent) if agent and self.visitor.is_owner else self.caller

    def name_of(self, agent: str, client: str = CLIENT) -> str:
        """Return the name of the agent that did something by a client, by default by this page.

        What the memory's owner did here is by "you".
        """
        is_mine = self.visitor.is_owner and client == CLIENT and agent == self.caller.agent
        return "you" if is_mine else agent

    def has_log(self, session_id: str, agent: str) -> bool:
        """Return True where the session has a log, and the visitor may look at it."""
        if not session_id or not (agent == self.caller.agent or self.visitor.is_owner):
            return False
        return self.app.session_accounts.has_log(replace(self.caller, agent=agent).in_session(session_id))

    def reads(self) -> None:
        """Answer of the newest revision alone, until `reading` is closed. Write nothing meanwhile."""
        self.reading.enter_context(self.app.one_revision(self.caller, self.reader))

    @property
    def standing(self) -> str:
        """A text that is another one after each change of what the visitor reads. Raises StoreUnavailable."""
        return hashlib.sha256(repr(self.app.standing(self.caller)).encode()).hexdigest()[:16]

    def told(self, counts: Mapping[str, str]) -> str:
        """Return the standing that the visitor is told. Who came by a token learns of these counts alone.

        The numbers of a project move with what other agents keep to themselves, too.
        """
        if self.visitor.sender.grant is None:
            return self.standing
        return hashlib.sha256(repr(sorted(counts.items())).encode()).hexdigest()[:16]

    @property
    def now(self) -> float:
        return self.app.now()

    def asked(self, name: str) -> str:
        """Return a field of the address, without blanks around it; "" where it is not there."""
        return next(iter(self.query.get(name, ())), "").strip()

    def asked_number(self, name: str, otherwise: int, digits: int = 9) -> int:
        """Return a field of the address that is a number of at most so many digits; another value for anything else."""
        value = self.asked(name)
        return int(value) if value.isascii() and value.isdecimal() and len(value) <= digits else otherwise

    def position(self, known_id: re.Pattern[str]) -> tuple[Instant, str] | None:
        """Return the place where this page of a list begins, None for the first page. Raises InvalidRequest."""
        text = self.asked("before")
        at, _, last = text.partition("~")
        if not text:
            return None
        if not (_TIME.fullmatch(at) and known_id.fullmatch(last)):
            raise InvalidRequest("This address is not whole; begin with the first page.")
        return float(at), last

    def further(self, at: Instant, last: str) -> str:
        """Return the query of the page of a list that begins after this place."""
        return self.with_fields(before=f"{at!r}~{last}")

    def given(self, name: str) -> str | None:
        """Return a field of the form with LF as line break, None where it is not there."""
        value = next(iter(self.form.get(name, ())), None)
        return None if value is None else value.replace("\r\n", "\n").replace("\r", "\n")

    def number(self, name: str) -> int:
        """Return a field of the form that is a number. Raises InvalidRequest."""
        value = self.given(name) or ""
        if not (value.isascii() and value.isdecimal() and len(value) <= 15):
            raise InvalidRequest("The form is not whole; load the page again.")
        return int(value)

    def record_id(self, name: str = "id") -> str:
        """Return the id of a record that the path names. Raises NotFound where it is none."""
        return checked_id(self.parts[name], "r")

    def page(self, template: str, status: int = 200, **values: Any) -> Response:
        """Answer with a template, which reads nothing; the header's counts are read before."""
        attention = self.attention(self)
        standing = self.told(attention.counts)
        self.reading.close()
        done, change, number = self.asked("done"), self.asked("change"), self.asked_number("number", 0)
        was = self.asked("was")
        shown = (
            environment()
            .get_template(template)
            .render(
                {
                    "visit": self,
                    "now": self.now,
                    "nav": [screen for screen in self.nav if screen.title and self.may(screen.takes)],
                    "notice": DONE.get(done, "").format("1 record" if number == 1 else f"{number:,} records"),
                    "undo": change if done in DONE and change.isascii() and change.isdecimal() else "",
                    "undoes_all": done.endswith("_all"),
                    "was": was if done == "undone_one" and is_id(was, RECORD) else "",
                    "made": done == "superseded" and self.asked("made") == "1",
                    "csrf": self.visitor.form_token,
                    "counts": attention.counts,
                    "marks": attention.marks,
                    "standing": standing,
                    "theme": theme_of(self.cookies),
                    **values,
                }
            )
        )
        return HTMLResponse(shown, status)

    def see(self, path: str, **fields: str | int) -> Response:
        """Answer with another page to load: the one that shows what became of a change, at the line that it names."""
        path, _, line = path.partition("#")
        query = urlencode({name: value for name, value in {**fields, "at": line}.items() if value})
        joint = "&" if "?" in path else "?"
        return RedirectResponse(f"{PAGE_PATH}{path}{joint + query if query else ''}{'#' + line if line else ''}", 303)

    def with_fields(self, **fields: str) -> str:
        """Return the query of this address with other values of some fields, each once."""
        kept = {name: self.asked(name) for name in self.query if name not in _TOLD} | fields
        return urlencode({name: value for name, value in kept.items() if value})

    @property
    def here(self) -> str:
        """The address of this page below ours, without what it tells about the last change."""
        kept = [(name, value) for name, values in self.query.items() if name not in _TOLD for value in values]
        return f"{self.path}?{urlencode(kept)}" if kept else self.path

    @property
    def here_again(self) -> str:
        """The address of this page at the line that the last change was made at."""
        line = self.asked("at")
        return f"{self.here}#{line}" if _LINE.fullmatch(line) else self.here

    def back(self, otherwise: str = "/") -> str:
        """Return the page that a form came from, as a path below ours; another one where it names none."""
        path = safe_path(self.given("back") or "")
        return otherwise if path == "/" else path


@dataclass(frozen=True, slots=True, kw_only=True)
class Screen:
    """A part of the page: its path below `/ui`, and what answers there, in a thread of its own.

    A form goes to a screen that `changes` something, which takes the right to write where it names none. One with a
    `title` is in the navigation.
    """

    path: str
    answer: Callable[[Visit], Response]
    title: str = ""
    changes: bool = False
    right: Right | None = None
    most_bytes: int = FORM_BYTES

    def __call__(self, visit: Visit) -> Response:
        """Answer; a screen that changes nothing answers of one revision."""
        with visit.reading:
            if not self.changes:
                visit.reads()
            return self.answer(visit)

    @property
    def takes(self) -> Right:
        """The right that a visitor needs here."""
        return self.right or ("write" if self.changes else "read")


def visit_of(app: App, visitor: Visitor, **said: Any) -> Visit:
    """Return the visit of the present visitor (`identity.visited_by`). Raises StoreUnavailable."""
    caller = asking(app, CLIENT)
    if visitor.is_owner:  # Who has the memory's files may do anything with them.
        caller = replace(caller, is_admin=True)
        stay_within(EVERYTHING)
    return Visit(app=app, visitor=visitor, caller=caller, memory=app.identity(), **said)


def theme_of(cookies: Mapping[str, str]) -> str:
    """Return the theme that a browser keeps; "" where it follows the system's."""
    return kept if (kept := cookies.get(THEME_COOKIE, "")) in THEMES else ""


def checked_id(some_id: str, prefix: str) -> str:
    """Return an id of that kind. Raises NotFound for any other text, which is not repeated."""
    if not is_id(some_id, prefix):
        raise NotFound("There is nothing at this address.")
    return some_id


def safe_path(path: str) -> str:
    """Return a path below the page's own, which an address or a form names; "/" for anything else."""
    is_ours = path.startswith("/") and not path.startswith("//") and path.isascii() and path.isprintable()
    return path if is_ours and "\\" not in path and len(path) <= 2_000 else "/"


class Rejected(Exception):
    """A request that is not served, with the status of its answer."""

    def __init__(self, status: int, why: str) -> None:
        super().__init__(why)
        self.status = status


async def form_body(request: Request, most: int, seconds: float) -> bytes:
    """Read a form that a page of ours sent, of at most so many bytes. Raises Rejected."""
    site = request.headers.get("sec-fetch-site", "none")
    if site not in ("same-origin", "none"):
        raise Rejected(403, "Only the memory's own pages may send this.")
    if request.headers.get("content-type", "").partition(";")[0].strip() != "application/x-www-form-urlencoded":
        raise Rejected(400, "Send the form from the page.")
    return await _read(request, most, seconds)


async def _read(request: Request, most: int, seconds: float) -> bytes:
    """Read a body of at most so many bytes. Raises Rejected."""
    too_large = Rejected(413, f"The form is larger than {most // 1024:,} KiB; send less at once.")
    declared = request.headers.get("content-length", "")
    if declared.isascii() and declared.isdecimal() and int(declared) > most:
        raise too_large
    body = bytearray()
    try:
        with fail_after(seconds):
            async for part in request.stream():
                body += part
                if len(body) > most:
                    raise too_large
    except TimeoutError:
        raise Rejected(408, f"The form did not arrive in {seconds:g} seconds; send it again.") from None
    return bytes(body)


def fields_of(encoded: bytes) -> Fields:
    """Return the fields of an address or a form. Raises Rejected where they are too many."""
    try:
        fields = parse_qsl(encoded.decode("utf-8", "replace"), keep_blank_values=True, max_num_fields=MOST_FIELDS)
    except ValueError:
        raise Rejected(400, "These are too many fields at once.") from None
    found: dict[str, list[str]] = {}
    for name, value in fields:
        if name:
            found.setdefault(name, []).append(value)
    return found


def checked_form(body: bytes, visitor: Visitor) -> Fields:
    """Return the fields of a form that a page of this session holds; of another, decode nothing. Raises Rejected."""
    given = _CSRF.search(body)
    if not given or not hmac.compare_digest(given[1], visitor.form_token.encode()):
        raise Rejected(403, "This form belongs to another session; load the page again.")
    return fields_of(body)


def came_from(request: Request) -> str:
    """Return the page of ours that led here, as a path below ours; "" for any other, and for this one."""
    origin = f"//{request.url.netloc}{PAGE_PATH}/"  # The scheme is the proxy's, if there is one.
    _, _, path = request.headers.get("referer", "").partition(":")
    if not path.startswith(origin):
        return ""
    here = safe_path(f"/{path.removeprefix(origin)}")
    return "" if here == "/" or here.partition("?")[0] == request.url.path.removeprefix(PAGE_PATH) else here
