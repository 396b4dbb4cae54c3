"""How often each kind of recall waits for a database that is far, and that it answers as from a file."""

from __future__ import annotations

import re
import sys
import traceback
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from typing import Any

import psycopg
import pytest

from mcp_memory.app import App
from mcp_memory.domain.model.lifecycle import DAY_SECONDS
from mcp_memory.domain.model.records import Entity, NewRecord
from mcp_memory.domain.model.requests import PushRequest, RecallRequest
from mcp_memory.domain.model.scopes import Caller
from mcp_memory.domain.text.times import iso_day
from mcp_memory.services.memory.revise import Revision
from mcp_memory.services.retrieval.recall import RecallAnswer
from tests.conftest import Clock
from tests.postgres import new_database

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="No package brings PostgreSQL there")
MOST = 6
# e.g. "r00001k", "t00001m", and "'version': 3"
_ID, _VERSION = re.compile(r"\b[rt]0[0-9a-z]{5}\b"), re.compile(r"'version': \d+")
TIED = "How is Acme Foods tied to the outage INC-7?"


@contextmanager
def journeys(monkeypatch: pytest.MonkeyPatch) -> Generator[list[str]]:
    """Note what asks for each journey to the database, inside."""
    made, wait = list[str](), psycopg.Connection.wait

    def noted(connection: psycopg.Connection[Any], *given: Any, **named: Any) -> Any:
        frames = [each.name for each in traceback.extract_stack() if "mcp_memory" in each.filename]
        made.append(" > ".join(frames[-9:]))
        return wait(connection, *given, **named)

    with monkeypatch.context() as patched:
        patched.setattr(psycopg.Connection, "wait", noted)
        yield made


def filled(app: App, clock: Clock) -> Mapping[str, tuple[RecallRequest, Caller]]:
    """Store what the kinds of recall find, and return them: corrections, a task, a person's own, and tied names."""
    me, asked = app.caller("s"), "which pier has a wet gauge"
    gauges = [f"The gauge of pier {number} is wet." for number in range(12)]
    told = [NewRecord(text=text, tags=("gauge",), kind="fact") for text in gauges]
    told.append(NewRecord(text="I drink my coffee on pier 3.", visibility="user"))
    told += [NewRecord(text=f"Ferry F-{number} meets Zoltan at Quay-{number}.") for number in range(3)]
    told += [NewRecord(text=f"Quay-{number} belongs to the Marlin-{number} company.") for number in range(3)]
    acme, copperline, brae, outage = (
        Entity(name=name) for name in ("Acme Foods", "Copperline", "brae clock", "INC-7")
    )  # fmt: skip
    told += [
        NewRecord(text="Acme Foods runs Copperline.", entities=(acme, copperline)),
        NewRecord(text="Copperline takes its time from the brae clock.", entities=(copperline,)),
        NewRecord(text="The leap second came with INC-7.", entities=(brae, outage)),
    ]
    for number in range(8):
        texts = (f"Acme Foods asked for invoice {number}.", f"The report of INC-7, part {number}, is late.")
        told += [NewRecord(text=text) for text in texts]
    made = app.remember(told, me)
    clock.advance(seconds=3_600)
    then = iso_day(clock())
    clock.advance(seconds=3 * DAY_SECONDS)
    app.remember([NewRecord(text="The gauge of pier 4 is dry since Monday.", supersedes=(made[4].id,))], me)
    app.revise(Revision(id=made[6].id, text="The gauge of pier 6 is dry."), me)
    stack = app.tasks.push(PushRequest(goal="Dry the gauges of all piers"), me)
    app.remember([NewRecord(text="The gauge of pier 40 was dried.")], me)
    return {
        "plain": (RecallRequest(query=asked), me),
        "without a task": (RecallRequest(query=asked), app.caller("t")),
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
        "of two things and a name that only a text says": (RecallRequest(query=TIED), me),
        "about open work": (RecallRequest(query="what is still open"), me),
        "without an answer": (RecallRequest(query="Grüße an Wuxtry"), me),
        "a list": (RecallRequest(kinds=("fact",)), me),
        "by id": (RecallRequest(ids=(made[1].id, made[4].id)), me),
    }


def told(answers: Mapping[str, RecallAnswer]) -> Mapping[str, str]:
    """The answers with their ids by rank, and without versions: PostgreSQL leaves out some numbers of changes."""
    texts = {kind: _VERSION.sub("", repr(answer)) for kind, answer in answers.items()}
    ids = sorted({each for text in texts.values() for each in _ID.findall(text)})
    ranks = {each: f"#{rank}" for rank, each in enumerate(ids)}
    return {kind: _ID.sub(lambda found: ranks[found[0]], text) for kind, text in texts.items()}


def test_no_kind_of_recall_makes_more_than_six_journeys(
    open_memory: Callable[..., App], monkeypatch: pytest.MonkeyPatch, clock: Clock
) -> None:
    """M1, M5.1: one begins, one ends it and notes what was shown; the statements between go together where they can."""
    begun, address = clock(), new_database()
    near, far = open_memory(folder=None, agent="ann"), open_memory(folder=None, agent="ann", database_url=address)
    wanted = filled(near, clock)
    expected = {kind: near.recall(*asked) for kind, asked in wanted.items()}
    clock.now = begun
    wanted = filled(far, clock)
    far.recall(*wanted["plain"])  # It loads the indexes.
    answers, counted = dict[str, RecallAnswer](), dict[str, list[str]]()
    for kind, asked in wanted.items():
        with journeys(monkeypatch) as counted[kind]:
            answers[kind] = far.recall(*asked)
    assert told(answers) == told(expected)
    assert {kind: made for kind, made in counted.items() if len(made) > MOST} == {}
    tied = [answers[kind].tie for kind in wanted if kind.startswith("of two things")]
    assert [" brae clock " in each for each in tied] == [False, True]
    with psycopg.connect(address) as connection:
        noted = "SELECT count(*) FROM records WHERE accessed > 0 AND id IN (SELECT record_id FROM shown_texts)"
        assert connection.execute(noted.encode()).fetchone() != (0,)
