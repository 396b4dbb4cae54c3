"""A browser without scripts, as far as the page needs one: it keeps cookies and fills in forms."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import httpx2
import pytest
from starlette.responses import Response

from mcp_memory.app import App, open_app
from mcp_memory.entrypoints.page.sign_in import Visitor
from mcp_memory.entrypoints.page.site import SCREENS
from mcp_memory.entrypoints.page.visits import Visit, visit_of
from mcp_memory.entrypoints.server.identity import RequestSender, visited_by
from mcp_memory.settings import load_settings
from tests.entrypoints.http.conftest import PATIENCE_SECONDS, HttpServer, start_http

__all__ = ["start_http"]
NAMESPACE = "shop"
_BESIDE = {"memory", "session", "erased", "review", "compaction", "replacement"}
_HISTORY = re.compile(r'"accessed_at":[0-9.e+]+,')
"""The time of the last look or change, which no undo sets back."""


class _Page(HTMLParser):
    """The forms of a page, each with its action and its fields, and the words that it shows."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.forms: list[tuple[str, dict[str, list[str]]]] = []
        self.words: list[str] = []
        self.attributes: set[str] = set()
        self._filling = ""
        self._select = ""
        self._hidden = 0
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        said = {name: value or "" for name, value in attrs}
        self.attributes |= said.keys()
        self._hidden += tag in ("script", "style", "dialog", "option")
        if tag == "form":
            self.forms.append((said.get("action", ""), {}))
        if not self.forms:
            return
        fields = self.forms[-1][1]
        is_chosen = said.get("type") not in ("checkbox", "radio") or (said["type"] == "radio" and "checked" in said)
        if tag == "input" and is_chosen and "name" in said:
            fields.setdefault(said["name"], []).append(said.get("value", ""))
        elif tag == "textarea":
            self._filling = said["name"]
            fields[self._filling] = [""]
        elif tag == "select":
            self._select = said["name"]
        elif tag == "option" and "selected" in said:
            fields[self._select] = [said["value"]] if "value" in said else [""]

    def handle_endtag(self, tag: str) -> None:
        self._hidden -= tag in ("script", "style", "dialog", "option")
        if tag == "textarea":
            fields = self.forms[-1][1]
            fields[self._filling] = [fields[self._filling][0].removeprefix("\n")]
            self._filling = ""

    def handle_data(self, data: str) -> None:
        if self._filling:
            self.forms[-1][1][self._filling][0] += data
        elif not self._hidden:
            self.words.append(data)


def words_of(answer: httpx2.Response | str) -> str:
    """The words that a page shows, with single blanks."""
    page = answer if isinstance(answer, str) else answer.text
    return " ".join(" ".join(_Page(page).words).split())


_opened: list[httpx2.Client] = []


def _closing(client: httpx2.Client) -> httpx2.Client:
    _opened.append(client)
    return client


@pytest.fixture(scope="module", autouse=True)
def connections_end() -> Iterator[None]:
    """People close their browsers at the end."""
    yield
    while _opened:
        _opened.pop().close()


def attributes_of(answer: httpx2.Response) -> set[str]:
    """The names of all attributes on a page."""
    return _Page(answer.text).attributes


class Person:
    """Somebody with a browser: gets pages, and sends the forms that they hold."""

    def __init__(self, address: str, **headers: str) -> None:
        self.address = address
        self.client = _closing(
            httpx2.Client(base_url=address, follow_redirects=True, timeout=PATIENCE_SECONDS, headers=headers)
        )
        self.page: httpx2.Response

    def get(self, path: str) -> httpx2.Response:
        self.page = self.client.get(f"/ui{path}")
        return self.page

    def sign_in(self, token: str = "") -> httpx2.Response:
        self.page = self.post("/sign-in", {"token": token, "back": "/"})
        return self.page

    def post(self, path: str, fields: Mapping[str, Any], **headers: str) -> httpx2.Response:
        own = {"origin": self.address, "sec-fetch-site": "same-origin"} | {
            name.replace("_", "-"): value for name, value in headers.items()
        }
        return self.client.post(f"/ui{path}", data=fields, headers=own)

    def fields(self, action: str) -> dict[str, Sequence[str]]:
        """The fields of the form with this action on the present page, as they are given."""
        found = [fields for target, fields in _Page(self.page.text).forms if target.partition("?")[0] == f"/ui{action}"]
        assert found, f"no form {action} on the page: {words_of(self.page)}"
        return {**found[0]}

    def send(self, action: str, **changed: str | Sequence[str]) -> httpx2.Response:
        """Send that form with other values of some fields."""
        fields: dict[str, Any] = {**self.fields(action), **changed}
        target = next(each for each, _ in _Page(self.page.text).forms if each.partition("?")[0] == f"/ui{action}")
        self.page = self.post(target.removeprefix("/ui"), fields)
        return self.page

    def has_form(self, action: str) -> bool:
        return any(target == f"/ui{action}" for target, _ in _Page(self.page.text).forms)

    @property
    def cookie(self) -> dict[str, str]:
        """The header by which anybody else may come with this person's cookie."""
        return {"cookie": "; ".join(f"{name}={value}" for name, value in self.client.cookies.items())}

    @property
    def csrf(self) -> str:
        self.get("/")
        return self.fields("/sign-out")["csrf"][0]


def person(server: HttpServer, token: str = "", **headers: str) -> Person:
    """A person who has signed in."""
    somebody = Person(server.address(""), **headers)
    assert somebody.sign_in(token).status_code == 200, somebody.page.text
    return somebody


def memory_of(data_dir: Path, agent: str = "ann", clock: Callable[[], float] = time.time) -> App:
    """The memory of a server, opened by another process of this machine."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("MCP_MEMORY_CONFIG", str(data_dir / "none.toml"))
        return open_app(load_settings(data_dir=data_dir, namespace=NAMESPACE, agent=agent), clock)


def asked(memory: App, screen: Callable[[Visit], Response], path: str = "/", **said: Any) -> str:
    """The page that a screen answers in this process; as to who came by the link, unless `grant` says otherwise.

    `query` and `form` hold texts or lists of them, `parts` the named parts of the path.
    """
    grant = said.get("grant")
    sender = RequestSender(grant=grant, namespace=grant.namespaces[0] if grant else "")
    visitor = Visitor(sender=sender, session_id="x", is_owner=said.get("is_owner", grant is None))
    fields = {
        name: {key: [value] if isinstance(value, str) else value for key, value in said.get(name, {}).items()}
        for name in ("query", "form")
    }
    with visited_by(sender):
        visit = visit_of(memory, visitor, path=path, parts=said.get("parts", {}), nav=SCREENS, **fields)
        answer = screen(visit)
    return bytes(answer.body).decode()


@pytest.fixture(scope="module")
def beside(start_http: Callable[..., HttpServer], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Beside]:
    """An anonymous server, its owner at the page, and the same memory in this process."""
    data_dir = tmp_path_factory.mktemp("page") / "data"
    memory = memory_of(data_dir)
    server = start_http(data_dir, namespace=NAMESPACE, agent="ann")
    yield Beside(server, memory)
    memory.close()


class Beside:
    """A server, its memory, and a person in front of its page."""

    def __init__(self, server: HttpServer, memory: App) -> None:
        self.server = server
        self.memory = memory
        self.person = person(server)

    def exported(self) -> list[str]:
        """The lines of an export, but for its history, and for what the server's upkeep does meanwhile."""
        from io import BytesIO

        from mcp_memory.entrypoints.transfer.memory_file import write_memory

        target = BytesIO()
        write_memory(self.memory.moving.leave(), target, lambda done, total: None)
        lines = target.getvalue().decode().splitlines()
        return sorted(_HISTORY.sub("", line) for line in lines if not json.loads(line).keys() & _BESIDE)
