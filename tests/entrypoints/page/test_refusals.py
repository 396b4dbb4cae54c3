"""Whoever was let in finds the way on from a page on which nothing came of a request."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import httpx2
import pytest

from mcp_memory.domain.model.records import NewRecord
from mcp_memory.entrypoints.page.site import SCREENS
from tests.entrypoints.http.conftest import HttpServer, make_token
from tests.entrypoints.page.conftest import NAMESPACE, Beside, Person, person, words_of

NAV = 'aria-label="Screens"'


def has_ways_on(answer: httpx2.Response) -> bool:
    return NAV in answer.text and 'id="go"' in answer.text and 'action="/ui/sign-out"' in answer.text


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("/record/r0zzzzz", 404),
        ("/task/t0zzzzz", 404),
        ("/context/c0f4b6a5d1e", 404),
        ("/nowhere", 404),
        ("/?kind=x", 400),
    ],
)
def test_a_page_that_is_not_there_has_the_usual_header_and_leads_back(beside: Beside, path: str, status: int) -> None:
    """U1.1: to where one came from, and nowhere outside of the page."""
    somebody = beside.person

    def came_from(referer: str) -> str:
        answer = somebody.client.get(f"/ui{path}", headers={"referer": referer})
        assert answer.status_code == status
        assert has_ways_on(answer)
        return answer.text.partition('<main id="main"')[2]

    assert 'href="/ui/work?before=1~t00001k"' in came_from(f"{somebody.address}/ui/work?before=1~t00001k")
    for elsewhere in (
        "https://evil.example/ui/work",
        f"{somebody.address}/mcp",
        f"{somebody.address}/ui{path}",
        "//x",
        "http://[",
    ):
        assert re.findall(r'<a [^>]*href="([^"]*)', came_from(elsewhere)) == ["/ui/"], elsewhere
    assert '<a class="button" href="/ui/">To the memories</a>' in somebody.client.get(f"/ui{path}").text


def test_a_form_that_is_refused_has_the_usual_header_and_says_where_ones_words_are(beside: Beside) -> None:
    """U1.1: an empty selection, a form that is not whole, one of another session."""
    beside.memory.remember([NewRecord(text="The oar is broken.")], beside.memory.caller())
    csrf = beside.person.csrf
    for path, fields, why in (
        ("/export", {"csrf": csrf}, "Nothing selected"),
        ("/bulk", {"csrf": csrf, "do": "retire"}, "Nothing selected"),
        ("/undo", {"csrf": csrf, "change": "x"}, "The form is not whole"),
        ("/undo", {"csrf": "0" * 64, "change": "1"}, "belongs to another session"),
    ):
        answer = beside.person.post(path, fields, referer=f"{beside.person.address}/ui/?kind=fact")
        assert answer.status_code in (400, 403)
        assert why in words_of(answer)
        assert "kept by your browser" in words_of(answer)
        assert has_ways_on(answer)
        assert 'href="/ui/?kind=fact"' in answer.text


def test_a_form_without_its_fields_is_refused_and_no_defect(beside: Beside) -> None:
    """U1.1: of each screen that changes something, about a record and a group that are there."""
    caller = beside.memory.caller()
    items = [NewRecord(text="The weir is 3 metres wide."), NewRecord(text="The weir has a width of 3 metres.")]
    ids = [each.id for each in beside.memory.remember(items, caller)]
    [group] = beside.memory.reviews.queue([("duplicates", ids, "They say the same.")], caller)
    answer = beside.person.post(f"/review/{group}", {"csrf": beside.person.csrf})
    assert (answer.status_code, "Choose how to settle the group" in words_of(answer)) == (400, True)
    assert has_ways_on(answer)
    for screen in SCREENS:
        if screen.changes:
            path = screen.path.replace("{id}", group if screen.path.startswith("/review") else ids[0])
            answer = beside.person.post(re.sub(r"\{\w+\}", "1", path), {"csrf": beside.person.csrf})
            assert answer.status_code < 500, path


def test_who_lacks_a_right_is_told_so_within_the_page_and_who_is_not_let_in_sees_no_screens(
    tmp_path: Path, start_http: Callable[..., HttpServer]
) -> None:
    """U1.1, S4.1."""
    secret = make_token(tmp_path / "data", "eve", NAMESPACE, right="read")
    server = start_http(tmp_path / "data")
    stranger = Person(server.address(""))
    for answer in (stranger.get("/nowhere"), stranger.get("/enter?key=x"), stranger.post("/undo", {"change": "1"})):
        assert answer.status_code in (401, 403)
        assert NAV not in answer.text
    reader = person(server, secret)
    answer = reader.get("/access")
    assert answer.status_code == 403
    assert "the right to admin" in words_of(answer)
    assert has_ways_on(answer)
    assert ">Access<" not in answer.text
