"""Admits people to the page: by the link of `mcp-memory ui`, or over HTTP by a token; then by a cookie.

The cookie is 256 random bits. The table of sessions keeps its digest, and who came in by it: never a token's secret.
"""

from __future__ import annotations

import hashlib
import hmac
import html
import os
import secrets
import stat
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

from mcp_memory.domain.model.scopes import RIGHTS, Right
from mcp_memory.entrypoints.server.identity import RequestSender
from mcp_memory.errors import InvalidRequest

if TYPE_CHECKING:
    from starlette.requests import Request

    from mcp_memory.app import App

PAGE_PATH: Final = "/ui"
LIVE_PATH: Final = f"{PAGE_PATH}/live"
"""The path of streams, which last as long as a page is open."""
CLIENT: Final = "page"
"""The name of the client in the history of what was changed here."""
IDLE_SECONDS: Final = 12 * 3600
MAX_SESSIONS: Final = 128
"""Sessions that are kept at once; one more ends the one that was idle longest."""
OWNER, LOCAL = "owner", "local"
"""Doors beside tokens: the link of `mcp-memory ui`, and a server that lets in its own machine."""
LINK_FOLDER: Final = "page"
"""The folder in the data directory for the file by which a browser is given the link."""
SESSIONS_A_DOOR: Final = 8
"""Sessions of one door: a token that signs in again and again ends its own."""
LEFT_SECONDS: Final = 600.0
"""Time after which a file for the browser belongs to a process that was killed."""
_REDIRECT: Final = """\
<!doctype html><meta charset="utf-8"><meta name="referrer" content="no-referrer"><title>mcp-memory</title>
<meta http-equiv="refresh" content="0; url={link}"><p><a href="{link}">Open the memory</a></p>
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class PageSession:
    """A session of the page: the door that its person came through, the namespace that it looks at, and its last visit.

    `seen` counts in seconds, by the clock of the table.
    """

    door: str
    namespace: str
    seen: float


class PageSessions:
    """The sessions of this process; they end with it. Thread-safe."""

    def __init__(self, clock: Callable[[], float] = time.time) -> None:
        self._by_digest: dict[bytes, PageSession] = {}
        self._clock = clock
        self._changing = threading.Lock()

    def begin(self, door: str, namespace: str = "") -> str:
        """Begin a session; return its id, which only the cookie holds."""
        session_id = secrets.token_urlsafe(32)
        with self._changing:
            present = self._by_digest
            same = [digest for digest, session in present.items() if session.door == door]
            if len(same) >= SESSIONS_A_DOOR or len(present) >= MAX_SESSIONS:
                among = same if len(same) >= SESSIONS_A_DOOR else present
                del present[min(among, key=lambda digest: present[digest].seen)]
            present[_digest(session_id)] = PageSession(door=door, namespace=namespace, seen=self._clock())
        return session_id

    def find(self, session_id: str) -> PageSession | None:
        """Return the session with that id, unless it ended; it counts as seen now."""
        digest, now = _digest(session_id), self._clock()
        with self._changing:
            session = self._by_digest.get(digest)
            if session is None or now - session.seen > IDLE_SECONDS:
                return None
            self._by_digest[digest] = replace(session, seen=now)
        return session

    def move(self, session_id: str, namespace: str) -> None:
        """Let a session look at another namespace."""
        digest = _digest(session_id)
        with self._changing:
            if session := self._by_digest.get(digest):
                self._by_digest[digest] = replace(session, namespace=namespace)

    def end(self, session_id: str) -> None:
        with self._changing:
            self._by_digest.pop(_digest(session_id), None)


def _digest(session_id: str) -> bytes:
    return hashlib.sha256(session_id.encode("utf-8", "surrogatepass")).digest()


def new_link_file(data_dir: Path) -> Path:
    """Return a path for the file by which a browser is given the link, which nobody can guess."""
    return data_dir / LINK_FOLDER / f"open-{secrets.token_hex(8)}.html"


class SignInLink:
    """The link by which `mcp-memory ui` lets its user's browsers in, as often as they come, until its server ends.

    A file redirects the first one: arguments of programs are public. Thread-safe.
    """

    def __init__(self, file: Path) -> None:
        """`file` is for `file_for`, in a folder that is private to the user; `new_link_file` names one."""
        self._key = secrets.token_urlsafe(32)
        self._file = file

    def at(self, address: str) -> str:
        return f"{address}{PAGE_PATH}/enter?key={self._key}"

    def file_for(self, address: str) -> Path:
        """Write the file that redirects a browser to the link; return its path. Raises OSError.

        Files that a process left behind when it was killed go: a browser needs its own for a moment alone.
        """
        folder = self._file.parent
        folder.mkdir(mode=0o700, exist_ok=True)
        found = folder.lstat()
        if not stat.S_ISDIR(found.st_mode) or (hasattr(os, "getuid") and found.st_uid != os.getuid()):
            raise NotADirectoryError(f"{folder} is no folder of yours")  # Its owner could redirect the browser.
        for old in folder.glob("open-*.html"):
            with suppress(OSError):
                if time.time() - old.lstat().st_mtime > LEFT_SECONDS:
                    old.unlink()
        content = _REDIRECT.format(link=html.escape(self.at(address))).encode()
        part = self._file.with_suffix(".part")  # Who waits for the file finds it whole.
        with os.fdopen(os.open(part, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600), "wb") as file:
            file.write(content)
        part.rename(self._file)
        return self._file

    def use(self, key: str) -> bool:
        """Return True for the right key; the file for the browser goes with its first use."""
        is_right = hmac.compare_digest(key.encode("utf-8", "surrogatepass"), self._key.encode())
        if is_right:
            self.remove_file()
        return is_right

    def remove_file(self) -> None:
        with suppress(OSError):
            self._file.unlink()


@dataclass(frozen=True, slots=True, kw_only=True)
class Visitor:
    """A person who is let in: who asks, the session's id, and the value that forms of this session carry."""

    sender: RequestSender
    session_id: str
    is_owner: bool

    @property
    def right(self) -> Right:
        return self.sender.grant.right if self.sender.grant else "admin"

    def may(self, right: Right) -> bool:
        return RIGHTS.index(right) <= RIGHTS.index(self.right)

    @property
    def form_token(self) -> str:
        return hashlib.sha256(f"form {self.session_id}".encode()).hexdigest()


class Doors:
    """Lets people in, and recognises them by their cookie. Thread-safe.

    `is_open` says by a request's headers whether it needs no token.
    """

    def __init__(
        self,
        app: App,
        sessions: PageSessions,
        is_open: Callable[[Mapping[str, str]], bool],
        link: SignInLink | None = None,
    ) -> None:
        self._app = app
        self._sessions = sessions
        self._link = link
        self.is_open = is_open

    @property
    def has_link(self) -> bool:
        """True for `mcp-memory ui`, which takes no token."""
        return self._link is not None

    def enter_by_link(self, key: str) -> str:
        """Return the id of a new session; "" where the key is wrong."""
        return self._sessions.begin(OWNER) if self._link and self._link.use(key) else ""

    def enter_by_token(self, secret: str, headers: Mapping[str, str]) -> str:
        """Return the id of a new session; "" where the token is refused. Raises StoreUnavailable."""
        if self._link:
            return ""
        if not secret:
            return self._sessions.begin(LOCAL) if self.is_open(headers) else ""
        token = self._app.tokens.recognise(secret)
        return self._sessions.begin(token.id) if token else ""

    def visitor(self, session_id: str, headers: Mapping[str, str]) -> Visitor | None:
        """Return who has this cookie, None where it opens nothing any more. Raises StoreUnavailable."""
        session = self._sessions.find(session_id) if session_id else None
        if session is None:
            return None
        grant, namespace, token_name = None, session.namespace, ""
        if session.door == LOCAL and not self.is_open(headers):
            return None
        if session.door not in (OWNER, LOCAL):
            token = self._app.tokens.valid(session.door)
            if token is None:
                return None
            grant, namespace, token_name = token.grant, self._app.trust.present(namespace), token.name
            namespace = namespace if namespace in grant.namespaces else grant.namespaces[0]
        label = f"p{_digest(session_id).hex()[:12]}"
        sender = RequestSender(grant=grant, namespace=namespace, session=label, token=token_name)
        return Visitor(sender=sender, session_id=session_id, is_owner=session.door == OWNER)

    def leave(self, visitor: Visitor) -> None:
        self._sessions.end(visitor.session_id)

    def look_at(self, visitor: Visitor, namespace: str) -> None:
        """Let the session look at another namespace from now on. Raises InvalidRequest.

        One of its token's, or, for who has the files, one that is there, or the one that the program began in.
        """
        if visitor.sender.grant:
            namespace = visitor.sender.grant.namespace(namespace)
        elif not visitor.is_owner or namespace not in (
            *self._app.projects.names(),
            self._app.caller().namespace,
        ):
            raise InvalidRequest("There is no such project to look at.")
        self._sessions.move(visitor.session_id, namespace)


def cookie_names(request: Request) -> tuple[str, str]:
    """Return the cookie's name without TLS and with it: one for each port, because a host's ports share cookies."""
    server = request.scope.get("server")
    name = f"mcp-memory-{server[1] if server else 0}"
    return name, f"__Secure-{name}"


def session_cookie(request: Request) -> str:
    """Return the session's id that a browser sent; "" where it sent none."""
    return next((value for name in reversed(cookie_names(request)) if (value := request.cookies.get(name))), "")
