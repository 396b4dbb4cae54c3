"""Calls that may be asked again: done once, whoever is asked the second time."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from mcp_memory.domain.model.records import NewRecord
from mcp_memory.domain.model.scopes import RepeatableCall
from mcp_memory.errors import CallDone, InvalidRequest
from mcp_memory.stores.records.database_sqlite import SqliteConnection
from mcp_memory.stores.records.write_checks import CALLS_KEPT_SECONDS

if TYPE_CHECKING:
    from mcp_memory.app import App
    from tests.conftest import Clock

OpenMemory = Callable[..., "App"]


def call(key: str = "s1/1", digest: bytes = b"a") -> RepeatableCall:
    return RepeatableCall(key=key, digest=digest)


def texts(app: "App") -> list[str]:
    return [row["text"] for row in rows(app, "SELECT text FROM records ORDER BY row")]


def rows(app: "App", sql: str) -> list[Any]:
    with app.records._database.read() as connection:  # noqa: SLF001
        assert isinstance(connection, SqliteConnection)
        return connection.execute(sql).fetchall()


def store(app: "App", text: str, asked: RepeatableCall) -> str:
    caller = replace(app.caller(), call=asked)
    app.records.refuse_done(asked)
    return app.remember([NewRecord(text=text)], caller)[0].id


def test_a_call_is_done_once_and_says_what_it_made(open_memory: OpenMemory) -> None:
    """O1.3: under its key."""
    app = open_memory()
    made = store(app, "The port is 80.", call())
    with pytest.raises(CallDone) as done:
        store(app, "The port is 80.", call())
    assert done.value.made == [made]
    assert texts(app) == ["The port is 80."]


def test_two_that_run_at_once_are_one(open_memory: OpenMemory) -> None:
    """O1.3: the first was given up by its window while its process stood still, and both go on."""
    app = open_memory()
    first, second = (replace(app.caller(), call=call()) for _ in range(2))
    app.remember([NewRecord(text="The port is 80.")], second)
    with pytest.raises(CallDone):
        app.remember([NewRecord(text="The port is 80, said late.")], first)
    assert texts(app) == ["The port is 80."]


def test_what_a_call_writes_later_belongs_to_it(open_memory: OpenMemory) -> None:
    app = open_memory()
    caller = replace(app.caller(), call=call())
    app.remember([NewRecord(text="The port is 80.")], caller)
    app.remember([NewRecord(text="The host is db1.")], caller)
    assert len(texts(app)) == 2


def test_a_call_that_failed_may_be_asked_again(open_memory: OpenMemory) -> None:
    app = open_memory()
    with pytest.raises(InvalidRequest):
        store(app, "", call())
    store(app, "The port is 80.", call())
    assert texts(app) == ["The port is 80."]


def test_another_request_under_the_same_key_is_refused(open_memory: OpenMemory) -> None:
    app = open_memory()
    store(app, "The port is 80.", call())
    with pytest.raises(InvalidRequest, match="id of its own"):
        store(app, "The port is 81.", call(digest=b"b"))
    assert texts(app) == ["The port is 80."]


def test_calls_are_kept_for_a_day(open_memory: OpenMemory, clock: "Clock", tmp_path: Path) -> None:
    """And they hold no text."""
    app = open_memory()
    store(app, "The port is 80.", call())
    clock.advance(seconds=CALLS_KEPT_SECONDS - 1)
    store(app, "The host is db1.", call("s1/2"))
    with pytest.raises(CallDone):
        app.records.refuse_done(call())
    clock.advance(seconds=2)
    store(app, "The name is Vega.", call("s1/3"))
    app.records.refuse_done(call())
    kept = rows(app, "SELECT key, made FROM calls_done ORDER BY key")
    assert [row["key"] for row in kept] == ["s1/2", "s1/3"]
    assert all("port" not in row["made"] and "host" not in row["made"] for row in kept)
