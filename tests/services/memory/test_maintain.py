"""Maintenance: what time and counts make of records, once, whoever does it."""

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeGuard

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mcp_memory.app import LOOKS_APART_SECONDS, App
from mcp_memory.domain.model.lifecycle import moved_to
from mcp_memory.domain.model.records import Counters, NewRecord, Record, Status
from mcp_memory.domain.model.scopes import RecordFilter
from mcp_memory.errors import StoreBusy
from mcp_memory.ports.transfer import Origin, WholeRecord
from mcp_memory.services.memory.maintain import STEP_RECORDS, Maintained
from mcp_memory.services.memory.remember import Remembered
from mcp_memory.services.memory.revise import Revision
from mcp_memory.services.retrieval.recall import RecallRequest
from tests.embedders import HashingEmbedder

if TYPE_CHECKING:
    from tests.conftest import Clock

RememberOne = Callable[..., Remembered]
EPISODE = "We met the whole afternoon. We decided to use SQLite for invoices. The coffee was gone by four."


def run(app: App) -> Maintained:
    return app.maintain(lambda done, total: None)


def everything(app: App) -> dict[str, Record]:
    where = RecordFilter(scopes=app.caller().scopes, include_inactive=True)
    return {record.id: record for record in app.records.list(where, "created", 1000)}


def status(app: App, record_id: str) -> Status:
    return everything(app)[record_id].status


def judge(app: App, record_id: str, counters: Counters) -> None:
    """Counters as an earlier version left them, without moving the record."""
    with app.records.write() as transaction:
        record = transaction.get(record_id)
        assert record is not None
        transaction.update(replace(record, counters=counters))


def test_an_episode_is_summarized_then_archived(app: App, remember: RememberOne, clock: "Clock") -> None:
    """C8.2: at 30 and 90 days."""
    episode = remember(EPISODE, kind="episode")
    clock.advance(days=29)
    assert run(app) == Maintained()
    clock.advance(days=1)
    assert run(app) == Maintained(summarized=1)
    assert (status(app, episode.id), everything(app)[episode.id].updated_at) == ("summarized", clock.now)
    clock.advance(days=59)
    assert run(app) == Maintained()
    clock.advance(days=1)
    assert run(app) == Maintained(archived=1)
    assert status(app, episode.id) == "archived"


def test_a_history_of_long_ago_is_new_when_it_is_imported(app: App, remember: RememberOne, clock: "Clock") -> None:
    """C8.2, P4.2, C8.7: what was opened lately stays; nothing is left for a second run."""
    remember(EPISODE, kind="episode", occurred_at=clock.now - 4_000 * 86_400)
    opened = remember("The pump was loud.", kind="episode", occurred_at=clock.now - 4_000 * 86_400)
    assert run(app) == Maintained()
    clock.advance(days=89)
    app.recall(RecallRequest(ids=(opened.id,)), app.caller())
    clock.advance(days=1)
    assert run(app) == Maintained(archived=1)
    assert status(app, opened.id) == "active"
    assert run(app) == Maintained()


def test_the_whole_text_of_an_archived_episode_is_found_and_opened(
    app: App, remember: RememberOne, clock: "Clock"
) -> None:
    """C8.2: recoverable."""
    episode = remember(EPISODE, kind="episode")
    clock.advance(days=91)
    run(app)
    assert episode.id in [each["id"] for each in app.recall(RecallRequest(query="coffee"), app.caller()).results]
    [opened] = app.recall(RecallRequest(ids=(episode.id,), detail="full"), app.caller()).results
    assert opened["text"] == EPISODE


def test_nothing_is_extracted_from_an_archived_episode(app: App, remember: RememberOne, clock: "Clock") -> None:
    """C8.2, D10.1: no rule for sentences is right often enough."""
    episode = remember(EPISODE, kind="episode")
    clock.advance(days=91)
    run(app)
    assert list(everything(app)) == [episode.id]


@pytest.mark.parametrize("mode", ["retire", "wrong"])
def test_an_archived_episode_is_restored_as_such(app: App, remember: RememberOne, clock: "Clock", mode: str) -> None:
    """C8.2, C8.6."""
    episode = remember(EPISODE, kind="episode")
    clock.advance(days=91)
    run(app)
    if mode == "retire":
        app.forget([episode.id], "retire", app.caller())
    else:
        app.revise(Revision(id=episode.id, feedback="wrong"), app.caller())
    app.forget([episode.id], "restore", app.caller())
    assert status(app, episode.id) == "archived"
    assert run(app) == Maintained()


def test_an_episode_that_changes_meanwhile_is_left_for_the_next_step(
    app: App, remember: RememberOne, clock: "Clock", monkeypatch: pytest.MonkeyPatch
) -> None:
    """C8.2, C8.7: nor is one judged anew that was erased, or that another process moved on."""
    changed, erased, moved = (remember(f"Day {number} went by.", kind="episode") for number in range(3))
    clock.advance(days=91)
    begin = app.records.write

    def meddle(**given: Any) -> object:
        monkeypatch.undo()
        app.revise(Revision(id=changed.id, text="All went well."), app.caller())
        app.forget([erased.id], "erase", app.caller())
        with begin() as transaction:
            record = transaction.get(moved.id)
            assert record is not None
            transaction.update(moved_to(moved_to(record, "summarized"), "archived"))
        return begin(**given)

    monkeypatch.setattr(app.records, "write", meddle)
    assert app.maintain.step() == Maintained()
    assert status(app, changed.id) == "active"


def test_procedures_and_censors_are_judged_anew(app: App, remember: RememberOne) -> None:
    """C8.3, C8.4: where their counts call for another stage than they have."""
    good, bad = remember("Call twice.", kind="procedure"), remember("Call once.", kind="procedure")
    false, new = remember("Never call.", kind="censor"), remember("Never shout.", kind="censor")
    judge(app, good.id, Counters(activated=6, succeeded=5))
    judge(app, bad.id, Counters(activated=6, succeeded=1))
    judge(app, false.id, Counters(activated=6, false_positives=4))
    assert run(app) == Maintained(judged=3)
    assert [status(app, each.id) for each in (good, bad, false, new)] == [
        "effective", "ineffective", "retired", "created",
    ]  # fmt: skip


@pytest.mark.uncounted
def test_maintenance_is_for_every_project_and_agent(
    app: App, open_memory: Callable[..., App], remember: RememberOne, clock: "Clock"
) -> None:
    """C8.7: whoever does it; each record stays where it belongs."""
    for memory in (app, open_memory(namespace="another"), open_memory(agent="bob")):
        for visibility in ("shared", "private", "user"):
            text = f"A day of {memory.settings.namespace} {memory.settings.agent} {visibility}."
            memory.remember([NewRecord(text=text, kind="episode", visibility=visibility)], memory.caller())
    clock.advance(days=31)
    assert run(app) == Maintained(summarized=9)
    other = open_memory(namespace="another")
    assert {record.namespace for record in everything(other).values() if record.scope != "user"} == {"another"}


@pytest.mark.uncounted
def test_a_step_is_small_and_a_run_tells_how_far_it_is(app: App, remember: RememberOne, clock: "Clock") -> None:
    """C8.7: what is due can be asked for without doing it."""
    count = STEP_RECORDS + 3
    for number in range(count):
        remember(f"Day {number} went by.", kind="episode")
    clock.advance(days=31)
    told: list[tuple[int, int]] = []
    assert app.maintain.due() == app.maintain.due() == Maintained(summarized=count)
    assert app.maintain.step() == Maintained(summarized=STEP_RECORDS)
    assert app.maintain(lambda done, total: told.append((done, total))) == Maintained(summarized=3)
    assert told == [(3, 3)]
    clock.advance(days=60)
    assert app.maintain.due() == Maintained(archived=count)


def test_a_step_waits_for_nobody_unless_it_is_told_to(
    app: App, open_memory: Callable[..., App], remember: RememberOne, clock: "Clock"
) -> None:
    """C8.7: a write goes before; what was put off is done later."""
    remember("A day went by.", kind="episode")
    clock.advance(days=31)
    other = open_memory()
    with other.records.write(), pytest.raises(StoreBusy):
        app.maintain.step(patiently=False)
    assert app.maintain.step(patiently=False) == Maintained(summarized=1)


def test_what_is_logged_is_ids_and_counts(
    app: App, remember: RememberOne, clock: "Clock", caplog: pytest.LogCaptureFixture
) -> None:
    """C8.7: no text."""
    episode = remember(EPISODE, kind="episode")
    clock.advance(days=91)
    with caplog.at_level("INFO", "mcp_memory.services.memory.maintain"):
        run(app)
    assert episode.id in caplog.text
    assert "archived=1" in caplog.text
    assert "SQLite" not in caplog.text


@given(
    ages=st.lists(st.integers(0, 120), max_size=6),
    counts=st.lists(st.tuples(st.sampled_from(["procedure", "censor"]), *[st.integers(0, 8)] * 3), max_size=6),
)
@settings(max_examples=15)
def test_run_twice_equals_run_once(
    open_memory: Callable[..., App],
    clock: "Clock",
    ages: list[int],
    counts: list[tuple[str, int, int, int]],
) -> None:
    """C8.7: whatever is there."""
    app = open_memory(folder=None, embedder=HashingEmbedder())
    items = [
        (NewRecord(text=f"Port {number} is open.\nDay {number}.", kind="episode"), age)
        for number, age in enumerate(ages)
    ]
    for number, (kind, activated, succeeded, false) in enumerate(counts):
        chosen = "procedure" if kind == "procedure" else "censor"
        [made] = app.remember([NewRecord(text=f"Rule {number}.", kind=chosen)], app.caller())
        counters = Counters(activated=activated, succeeded=min(succeeded, activated), false_positives=false)
        judge(app, made.id, counters)
    for item, age in items:
        clock.advance(days=-age)
        app.remember([item], app.caller())
        clock.advance(days=age)
    due = app.maintain.due()
    assert run(app) == due
    once = everything(app)
    clock.advance(hours=1)
    assert run(app) == app.maintain.due() == Maintained()
    clock.advance(hours=-1)
    assert everything(app) == once


def test_upkeep_looks_for_what_is_due_when_a_minute_has_passed(app: App, remember: RememberOne, clock: "Clock") -> None:
    """C8.2: not before every small step, as the look itself is at all that may be due."""
    while app.keep_up():
        pass
    clock.advance(days=-400)
    remember(EPISODE, kind="episode")
    clock.advance(days=400)
    app.keep_up()
    assert next(iter(everything(app).values())).status != "archived"
    clock.advance(seconds=LOOKS_APART_SECONDS)
    while app.keep_up():
        pass
    assert "archived" in {record.status for record in everything(app).values()}


def test_a_whole_memory_of_long_ago_is_new_where_it_is_restored(
    app: App, open_memory: Callable[..., App], remember: RememberOne, clock: "Clock"
) -> None:
    """P4.2: its dates stay, and the same bytes leave again; what is stored later is as old as it is."""
    old = remember(EPISODE, kind="episode")
    clock.advance(days=4_000)
    copy = open_memory(folder="copy")
    pieces = [*app.records.transfer().leave()]
    copy.records.transfer().enter(piece for piece in pieces if not isinstance(piece, Origin))
    assert copy.maintain.due() == run(copy) == Maintained()
    assert [*copy.records.transfer().leave()] == pieces
    clock.advance(days=89)
    [new] = copy.remember([NewRecord(text="The pump was loud.", kind="episode")], copy.caller())
    clock.advance(days=1)
    assert run(copy) == Maintained(archived=1)
    assert (status(copy, old.id), status(copy, new.id)) == ("archived", "active")
    [kept] = [piece.record.accessed_at for piece in copy.records.transfer().leave() if _is_of(piece, old.id)]
    assert kept == clock.now - 4_090 * 86_400


def _is_of(piece: object, record_id: str) -> TypeGuard[WholeRecord]:
    return isinstance(piece, WholeRecord) and piece.record.id == record_id
