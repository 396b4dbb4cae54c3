"""Open pages are told that something they may read has changed: at once, in numbers, as long as they are open."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import httpx2
import pytest

from mcp_memory.domain.model.records import NewRecord
from mcp_memory.domain.model.requests import PushRequest
from mcp_memory.domain.model.scopes import Grant
from mcp_memory.entrypoints.page import live
from mcp_memory.entrypoints.page.live import Feed
from mcp_memory.entrypoints.page.visits import Rejected
from tests.entrypoints.http.conftest import HttpServer
from tests.entrypoints.page.conftest import NAMESPACE, Beside, Person, memory_of, person, words_of


@contextmanager
def listening(somebody: Person, seen: str = "") -> Generator[Iterator[str]]:
    """The lines of a person's stream, once it is there."""
    with somebody.client.stream("GET", f"/ui/live?seen={seen}", timeout=30) as answer:
        assert answer.status_code == 200
        assert answer.headers["content-type"].startswith("text/event-stream")
        assert answer.headers["cache-control"] == "no-store"
        lines = answer.iter_lines()
        assert next(lines).startswith("retry: ")
        yield lines


def told(lines: Iterator[str]) -> dict[str, str]:
    return json.loads(next(line for line in lines if line.startswith("data: ")).removeprefix("data: "))


def test_a_page_is_told_of_memories_and_work(beside: Beside) -> None:
    """U1.1: with the counts of its header, and without a text."""
    with listening(beside.person) as lines:
        beside.memory.remember([NewRecord(text="The canal is frozen.")], beside.memory.caller())
        assert told(lines) == {"New": "1"}
        beside.memory.tasks.push(PushRequest(goal="Skate home"), beside.memory.caller())
        assert told(lines) == {"New": "1"}


def test_what_changed_before_the_stream_was_there_is_told(beside: Beside) -> None:
    """U1.1: a page says of which standing it was made."""
    beside.memory.remember([NewRecord(text="The lock is broken.")], beside.memory.caller())
    [seen] = re.findall(r'data-seen="(\w+)"', beside.person.get("/").text)
    beside.memory.remember([NewRecord(text="The lock is mended.")], beside.memory.caller())
    with listening(beside.person, seen) as lines:
        assert told(lines)["New"]


def test_nobody_is_told_of_what_they_may_not_read_or_after_their_token_was_revoked(
    start_http: Callable[..., HttpServer], tmp_path: Path
) -> None:
    """S5.1, U1.1: not even that there was something; a stream ends with the first change after a revocation."""
    memory = memory_of(tmp_path / "data")
    grant = Grant(agent="bob", person="bob", namespaces=(NAMESPACE,), right="read")
    secret, _ = memory.tokens.add("bob", grant)
    server = start_http(tmp_path / "data", namespace=NAMESPACE, agent="ann")
    somebody = person(server, secret)
    with listening(somebody) as lines:
        elsewhere = replace(memory.caller(), namespace="elsewhere")
        memory.remember([NewRecord(text="The vault is open.")], elsewhere)
        memory.remember([NewRecord(text="The gate is shut.")], memory.caller())
        assert told(lines) == {"New": "1"}, "of what it reads alone"
        memory.tokens.revoke("bob")
        memory.remember([NewRecord(text="The gate is open.")], memory.caller())
        assert not [line for line in lines if line.startswith("data: ")]
    assert Person(server.address("")).get("/live").status_code == 401
    memory.close()


def test_as_many_listen_as_may_and_nothing_is_asked_when_nobody_does(
    beside: Beside, monkeypatch: pytest.MonkeyPatch
) -> None:
    """U1.1: the watch ends with the last page; a place is free again when its page is closed."""
    monkeypatch.setattr(live, "MOST_LISTENERS", 0)
    with pytest.raises(Rejected):
        Feed(lambda: 1).answer(lambda: None, "")
    for _ in range(live.MOST_LISTENERS + 70):
        with contextmanager(_opened)(beside.person.client):
            pass


def _opened(client: httpx2.Client) -> Generator[None]:
    with client.stream("GET", "/ui/live") as answer:
        assert answer.status_code == 200
        yield


def test_the_header_counts_what_is_new_until_it_was_seen(beside: Beside) -> None:
    """U1.1: at once, although the numbers are kept between changes."""
    beside.memory.remember([NewRecord(text="The weir is open.")], beside.memory.caller())
    before = words_of(beside.person.get("/new"))
    assert re.search(r"New \d+ Contexts", before)
    assert re.search(r"New Contexts", words_of(beside.person.send("/seen")))
    beside.memory.remember([NewRecord(text="The weir is shut.")], beside.memory.caller())
    assert re.search(r"New 1 Contexts", words_of(beside.person.get("/health")))
