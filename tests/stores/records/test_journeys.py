"""How often a recall waits for PostgreSQL, by its kind."""

from __future__ import annotations

import sys
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import psycopg
import pytest

from mcp_memory.app import App
from mcp_memory.domain.model.lifecycle import DAY_SECONDS
from mcp_memory.domain.model.records import NewRecord
from mcp_memory.domain.model.requests import PushRequest, RecallRequest
from mcp_memory.domain.model.scopes import Caller
from mcp_memory.domain.text.times import iso_day
from mcp_memory.services.memory.revise import Revision
from tests.conftest import Clock
from tests.postgres import new_database

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="No package brings PostgreSQL there")
MOST = 6


@contextmanager
def journeys(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """Note what asks for each journey to the database, inside."""
    made, wait = list[str](), psycopg.Connection.wait

    def noted(connection: psycopg.Connection[Any], *given: Any, **named: Any) -> Any:
        frames = [each.name for each in traceback.extract_stack() if "mcp_memory" in each.filename]
        made.append(" > ".join(frames[-9:]))
        return wait(connection, *given, **named)

    with monkeypatch.context() as patched:
        patched.setattr(psycopg.Connection, "wait", noted)
        yield made


def test_no_kind_of_recall_makes_more_than_six_journeys(
    open_memory: Callable[..., App], monkeypatch: pytest.MonkeyPatch, clock: Clock
) -> None:
    """M1, M5.1: one begins, one ends it and notes what was shown; statements that can, go together in between."""
    address = new_database()
    app = open_memory(folder=None, database_url=address)
    me = app.caller("s")
    told = [
        NewRecord(
            text=f"The gauge of pier {number} is wet.", tags=("gauge",), kind="decision" if number % 2 else "fact"
        )
        for number in range(12)
    ]
    told.append(NewRecord(text="I drink my coffee on pier 3.", visibility="user"))
    told += [NewRecord(text=f"Ferry F-{number} meets Zoltan at Quay-{number}.") for number in range(3)]
    told += [NewRecord(text=f"Quay-{number} belongs to the Marlin-{number} company.") for number in range(3)]
    made = app.remember(told, me)
    clock.advance(seconds=3_600)
    then = iso_day(clock())
    clock.advance(seconds=3 * DAY_SECONDS)
    app.remember([NewRecord(text="The gauge of pier 4 is dry since Monday.", supersedes=(made[4].id,))], me)
    app.revise(Revision(id=made[6].id, text="The gauge of pier 6 is dry."), me)
    stack = app.tasks.push(PushRequest(goal="Dry the gauges of all piers"), me)
    app.remember([NewRecord(text="The gauge of pier 40 was dried.")], me)
    others = app.caller("t")
    asked = "which pier has a wet gauge"
    kinds: dict[str, tuple[RecallRequest, Caller]] = {
        "plain": (RecallRequest(query=asked), me),
        "of a session without a task": (RecallRequest(query=asked), others),
        "first of a session": (RecallRequest(query=asked), app.caller("new")),
        "filtered": (RecallRequest(query=asked, kinds=("fact",), tags=("gauge",)), me),
        "of a task": (RecallRequest(query=asked, task_id=stack.path[-1].id), me),
        "of an entity": (RecallRequest(query="what of it", entities=("Zoltan",)), me),
        "of a person": (RecallRequest(query="where do I drink coffee"), me),
        "as of a time": (RecallRequest(query=asked, as_of=then), me),
        "true at a time": (RecallRequest(query=asked, valid_at=then), me),
        "of a time": (RecallRequest(query="what happened last week"), me),
        "with what was replaced": (RecallRequest(query=asked, include_inactive=True), me),
        "of two things": (RecallRequest(query="how is Zoltan tied to Marlin-1"), me),
        "about open work": (RecallRequest(query="what is still open"), me),
        "without an answer": (RecallRequest(query="Grüße an Wuxtry"), me),
        "a list": (RecallRequest(kinds=("fact",)), me),
        "by id": (RecallRequest(ids=(made[1].id, made[4].id)), me),
    }
    for request, caller in kinds.values():
        app.recall(request, replace(caller, session_id="warm"))
    counted: dict[str, list[str]] = {}
    for kind, (request, caller) in kinds.items():
        with journeys(monkeypatch) as counted[kind]:
            app.recall(request, caller)
    assert {kind: made for kind, made in counted.items() if len(made) > MOST} == {}
    with psycopg.connect(address) as connection:
        noted = "SELECT count(*) FROM records WHERE accessed > 0 AND id IN (SELECT record_id FROM shown_texts)"
        assert connection.execute(noted.encode()).fetchone() != (0,)
