"""The log of reads: what waits is written together, and everybody is told what they may know."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from math import inf
from typing import Any

import pytest

from mcp_memory.app import App
from mcp_memory.domain.model.records import NewRecord
from mcp_memory.domain.model.requests import ContextRequest, RecallRequest
from mcp_memory.domain.model.scopes import Caller
from mcp_memory.errors import StoreUnavailable
from mcp_memory.ports.reads import ALL_RECORDS, ReadEntry
from mcp_memory.services.access import read_log
from mcp_memory.services.access.read_log import DAY_SECONDS, ReadLog
from mcp_memory.services.access.served_requests import (
    RequestsServed,
    ServedRequest,
    asked_by,
    gave,
    gave_in,
    present_request,
)

ANN = Caller(namespace="shop", agent="ann", session_id="s1")
BOB = replace(ANN, agent="bob", session_id="s2", person="eve")


@pytest.fixture
def memory(open_memory: Callable[..., App]) -> App:
    return open_memory(read_log_days=30, namespace="shop", agent="ann")


def test_who_asks_outside_of_a_request_is_noted_nowhere() -> None:
    asked_by(ANN)
    gave(["r000001"])
    assert present_request() is None


@pytest.fixture
def read(memory: App, clock: Any) -> Callable[..., None]:
    """Serves a request of this caller that gives these records, a second after the one before."""

    def read_one(by: Caller, *ids: str, way: str = "tool recall") -> None:
        clock.advance(seconds=1)
        _serve(memory, by, ids, way)

    return read_one


def _serve(memory: App, by: Caller, ids: Sequence[str], way: str) -> None:
    with memory.serving(way, token="laptop" if by is BOB else ""):
        asked_by(by)
        gave(ids)
    memory.reads.write()


def test_what_recall_a_context_and_a_reminder_give_is_noted_once_a_request(memory: App, clock: Any) -> None:
    """S4.3: ids in their order, by whom and by which way; an account of a context gives no record."""
    ann = memory.caller()
    [port] = memory.remember([NewRecord(text="The till listens on port 4711.")], ann)
    with memory.serving("tool recall") as recall:
        memory.recall(RecallRequest(query="Which port does the till listen on?"), memory.caller())
        gave(["r", "relation:till --[has]--> port", "t000001"])
    clock.advance(seconds=1)
    with memory.serving("tool assemble_context"):
        context = memory.assemble_context(ContextRequest(query="the till's port"), memory.caller())
    clock.advance(seconds=1)
    with memory.serving("hook UserPromptSubmit"):
        memory.remind("On which port does the till listen?", (), 600, memory.caller())
    with memory.serving("tool recall"):
        memory.recall(RecallRequest(ids=(context.report.id,)), memory.caller())
    memory.recall(RecallRequest(query="port"), ann)  # Nobody's request.
    memory.reads.write()
    entries = memory.reads.of_agent(ann, "", 9).entries
    assert [entry.way for entry in entries] == ["hook UserPromptSubmit", "tool assemble_context", "tool recall"]
    assert entries[-1] == ReadEntry(
        request=recall.id, at=entries[-1].at, way="tool recall", namespace="shop", agent="ann", person="", token="",
        session_id=ann.session_id, ids=(port.id,),
    )  # fmt: skip
    assert all(entry.ids == (port.id,) for entry in entries)


def test_an_answer_gives_the_records_whose_words_are_in_it() -> None:
    given = ServedRequest(way="tool revise")
    answer: dict[str, Any] = {
        "id": "r00000a", "text": "Said.", "details": {"id": "r00000b", "text": "A caller's own."}, "version": 3,
        "near": [{"id": "r00000c", "micro": "Few words."}, {"id": "r00000d", "status": "stored"}],
        "of": ({"id": 7, "text": ""},),
    }  # fmt: skip
    read_of: list[ServedRequest] = []
    gave_in(answer)
    with RequestsServed(read_of.append)(given.way) as request:
        gave_in(answer)
    assert read_of == [request]
    assert list(request.given) == ["r00000a", "r00000c"]


def test_everybody_is_told_what_they_may_know(memory: App, read: Callable[..., None]) -> None:
    """S4.1: the owner all; who administers, what its scopes hold; an agent, its own requests."""
    [shared] = memory.remember([NewRecord(text="The till is by the door.")], ANN)
    [private] = memory.remember([NewRecord(text="Bob keeps his own.", visibility="private")], BOB)
    read(ANN, shared.id)
    read(BOB, private.id)
    read(BOB, shared.id, private.id)
    read(replace(BOB, namespace="toys"), shared.id)
    read(BOB, ALL_RECORDS, way="command export")
    log, everyone = memory.reads, ["bob", "bob", "bob", "ann"]

    def told(found: Any) -> list[tuple[str, tuple[str, ...]]]:
        return [(entry.agent, entry.ids) for entry in found.entries]

    assert [agent for agent, _ in told(log.of_agent(ANN, "", 9, of_all=True))] == everyone
    assert told(log.of_agent(ANN, "bob", 9)) == [("ann", (shared.id,))]
    admin = replace(ANN, is_admin=True)
    assert told(log.of_agent(admin, "bob", 9)) == [("bob", (ALL_RECORDS,)), ("bob", (shared.id,))]
    assert told(log.of_record(shared.id, ANN, 9)) == [("ann", (shared.id,))]
    assert len(told(log.of_record(shared.id, admin, 9))) == 3
    assert len(told(log.of_record(shared.id, ANN, 9, of_all=True))) == 4
    page = log.of_agent(ANN, "", 3, of_all=True)
    assert page.further == (page.entries[-1].at, page.entries[-1].request)
    rest = log.of_agent(ANN, "", 3, page.further, of_all=True)
    assert (told(rest), rest.further) == ([("ann", (shared.id,))], None)
    assert len([*log.between(0.0, inf)]) == 5


class Disk:
    """Keeps entries where it is not full."""

    def __init__(self) -> None:
        self.is_full = False
        self.kept: list[ReadEntry] = []
        self.pruned: list[float] = []

    def add(self, entries: Sequence[ReadEntry]) -> None:
        if self.is_full:
            raise StoreUnavailable("full")
        self.kept += entries

    def prune(self, before: float) -> None:
        self.pruned.append(before)


@pytest.fixture
def disk(monkeypatch: pytest.MonkeyPatch) -> Disk:
    monkeypatch.setattr(read_log, "MOST_WAITING", 3)
    return Disk()


def log_on(disk: Disk, days: float = 2.0, now: Callable[[], float] = lambda: 9 * DAY_SECONDS) -> ReadLog:
    store: Any = disk
    return ReadLog(store, lambda ids, caller: (), now, days)


def asked(number: int, by: Caller | None = ANN) -> ServedRequest:
    return ServedRequest(way="tool recall", id=str(number), caller=by, given={"r000001": None})


def test_what_waits_is_written_a_moment_later_or_at_the_end_and_survives_a_full_disk(
    disk: Disk, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """S4.3: by a thread of its own; the oldest are lost where too many wait, and that is said."""
    monkeypatch.setattr(read_log, "WRITTEN_WITHIN_SECONDS", 0.02)
    log = log_on(disk)
    for number in range(2):
        log.note(asked(number))
    log.note(asked(2, by=None))
    log.note(ServedRequest(way="tool recall", caller=ANN))
    until = time.monotonic() + 20
    while not disk.kept and time.monotonic() < until:
        time.sleep(0.01)
    assert [entry.request for entry in disk.kept] == ["0", "1"]
    monkeypatch.setattr(read_log, "WRITTEN_WITHIN_SECONDS", 60)
    disk.is_full = True
    with caplog.at_level(logging.WARNING):
        for some in ((0,), (1, 2, 3)):
            for number in some:
                log.note(asked(number))
            log.write()
    assert caplog.messages == [
        "could not write 1 entries of the log of reads: StoreUnavailable",
        "could not write 4 entries of the log of reads: StoreUnavailable",
        "the log of reads lost 1 entries",
    ]
    disk.is_full = False
    log.note(asked(9))
    log.close()
    log.close()
    assert [entry.request for entry in disk.kept[2:]] == ["1", "2", "3", "9"]


def test_what_is_old_goes_once_an_hour_and_nothing_is_noted_for_no_days(disk: Disk) -> None:
    now = [9 * DAY_SECONDS]
    log = log_on(disk, now=lambda: now[0])
    for hours in (0, 0.5, 0.5):
        now[0] += 3_600 * hours
        log.prune()
    assert disk.pruned == [7 * DAY_SECONDS, 7 * DAY_SECONDS + 3_600]
    off = log_on(disk, days=0.0)
    off.note(asked(1))
    off.close()
    assert disk.kept == []


def test_a_request_has_a_line_in_the_log_that_says_how_it_ended(memory: App, caplog: pytest.LogCaptureFixture) -> None:
    """S4.3: counts and names, whatever happened."""
    with caplog.at_level(logging.INFO, "mcp_memory.services.access.served_requests"):
        with memory.serving("tool recall", agent="ann"):
            gave(["r000001", "r000001", "r000002"])
        with pytest.raises(ValueError, match="the words"), memory.serving("page /"):
            raise ValueError("the words of a record")
    first, second = caplog.records
    assert first.getMessage().startswith("tool recall for ann: ok in ")
    assert {**vars(first)["figures"], "milliseconds": 0} == {"milliseconds": 0, "records": 2, "outcome": "ok"}
    assert second.getMessage().startswith("page / for nobody: failed in ")
    assert "words" not in caplog.text
