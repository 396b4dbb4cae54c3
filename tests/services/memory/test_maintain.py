"""Maintenance: what time and counts make of records, once, whoever does it."""

import sqlite3
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mcp_memory.app import LOOKS_APART_SECONDS, App
from mcp_memory.domain.model.records import Counters, NewRecord, Record, Status
from mcp_memory.domain.model.scopes import RecordFilter
from mcp_memory.domain.model.tasks import FinalStatus
from mcp_memory.encoders.embed_minilm import MiniLMEmbedder
from mcp_memory.errors import StoreBusy, StoreUnavailable
from mcp_memory.ports.text import Vectors
from mcp_memory.services.memory.maintain import STEP_RECORDS, Maintained
from mcp_memory.services.memory.remember import Remembered
from mcp_memory.services.memory.revise import Revision
from mcp_memory.services.retrieval.recall import RecallRequest
from mcp_memory.services.tasks.task_stack import PopRequest, PushRequest
from tests.embedders import HashingEmbedder

if TYPE_CHECKING:
    from tests.conftest import Clock

RememberOne = Callable[..., Remembered]
EPISODE = """\
We met about the billing service for the whole afternoon, and much was said that nobody wrote down.
We decided to use SQLite for invoices. The staging server runs on db2. Should we move it? Maybe it is too slow.
Deploys must never happen on Fridays. It was a long day, and the coffee was gone by four; still, everybody stayed until
the list of open points was empty, which had not happened in the three meetings before this one, as far as I know."""
STATED = {
    "We decided to use SQLite for invoices.": ("decision", "recorded"),
    "The staging server runs on db2.": ("fact", "new"),
    "Deploys must never happen on Fridays.": ("fact", "new"),
}


class Meddling:
    """The built-in embedder, which lets something happen while it works, and can be away."""

    def __init__(self, inner: MiniLMEmbedder) -> None:
        self._inner = inner
        self.meanwhile: Callable[[], object] = lambda: None
        self.is_away = False
        self.id, self.dimensions = inner.id, inner.dimensions
        self.embed, self.embed_query = inner.embed, inner.embed_query
        self.share_known = inner.share_known

    def embed_many(self, texts: Sequence[str]) -> Sequence[Vectors]:
        if self.is_away:
            raise StoreUnavailable("The embedder is away.")
        meanwhile, self.meanwhile = self.meanwhile, lambda: None
        meanwhile()
        return self._inner.embed_many(texts)


@pytest.fixture
def embedder(embedder: MiniLMEmbedder) -> Meddling:
    return Meddling(embedder)


def run(app: App) -> Maintained:
    return app.maintain(lambda done, total: None)


def everything(app: App) -> dict[str, Record]:
    where = RecordFilter(scopes=app.caller().scopes, include_inactive=True)
    return {record.id: record for record in app.records.list(where, "created", 1000)}


def status(app: App, record_id: str) -> Status:
    return everything(app)[record_id].status


def sources(app: App) -> dict[str, object]:
    """What was extracted, with where it comes from."""
    return {each.text: each.details["source"] for each in everything(app).values() if "source" in each.details}


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
    assert run(app) == Maintained(archived=1, extracted=3)
    assert status(app, episode.id) == "archived"


def test_a_history_of_long_ago_is_new_when_it_is_imported(app: App, remember: RememberOne, clock: "Clock") -> None:
    """C8.2, P4.2, C8.7: what was opened lately stays; nothing is left for a second run."""
    remember(EPISODE, kind="episode", occurred_at=clock.now - 4_000 * 86_400)
    opened = remember("The pump was loud.", kind="episode", occurred_at=clock.now - 4_000 * 86_400)
    assert run(app) == Maintained()
    clock.advance(days=89)
    app.recall(RecallRequest(ids=(opened.id,)), app.caller())
    clock.advance(days=1)
    assert run(app) == Maintained(archived=1, extracted=3)
    assert status(app, opened.id) == "active"
    assert run(app) == Maintained()


def test_an_episode_that_was_archived_once_is_read_once(app: App, remember: RememberOne, clock: "Clock") -> None:
    """C8.2, G1.1: back by a migration and old again, it takes nobody's correction back."""
    episode = remember(EPISODE, kind="episode")
    clock.advance(days=90)
    assert run(app) == Maintained(archived=1, extracted=3)
    app.forget([each for each in everything(app) if each != episode.id], "erase", app.caller())
    with app.records.write() as transaction:
        record = transaction.get(episode.id)
        assert record is not None
        transaction.update(replace(record, status="active"))
    assert run(app) == Maintained(archived=1)


def test_what_an_episode_states_is_kept_by_itself(
    app: App, open_memory: Callable[..., App], remember: RememberOne, clock: "Clock"
) -> None:
    """C8.2: facts and decisions, with whose they are, when it was, and where they come from."""
    ann = app.caller("kickoff")
    episode = remember(
        EPISODE, caller=ann, kind="episode", tags=("billing",), visibility="private", importance=8.0, pinned=True,
        speaker="Ada", outcome="success", confidence=0.5,
    )  # fmt: skip
    happened = clock.now
    clock.advance(days=91)
    run(app)
    records = everything(app)
    extracted = [record for record in records.values() if record.details == {"source": episode.id}]
    assert {record.text: (record.kind, record.status) for record in extracted} == STATED
    for record in extracted:
        assert (record.scope, record.session_id, record.tags, record.speaker) == (
            records[episode.id].scope, "kickoff", ("billing",), "Ada",
        )  # fmt: skip
        assert (record.occurred_at, record.created_at, record.updated_at) == (happened, clock.now, clock.now)
        assert (record.importance, record.pinned, record.outcome, record.confidence) == (1.0, False, None, None)
        assert record.micro == record.summary == record.text
    found = app.recall(RecallRequest(query="which machine is staging"), app.caller()).results
    assert "The staging server runs on db2." in [each["text"] for each in found]
    bob = open_memory(agent="bob")
    assert bob.recall(RecallRequest(query="which machine is staging"), bob.caller()).results == ()


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


def test_what_is_known_or_was_corrected_is_not_extracted(app: App, remember: RememberOne, clock: "Clock") -> None:
    """C8.2, R2, R8: word for word, or but for its spelling; the same said twice is kept once."""
    remember("The staging server runs on db2.")
    remember("we decided to use SQLite for invoices")
    fridays = remember("Deploys must never happen on Fridays.")
    app.revise(Revision(id=fridays.id, text="Deploys may happen on Fridays."), app.caller())
    remember(EPISODE, kind="episode")
    remember("Nothing new.\nThe port is 5432.", kind="episode")
    remember("Nothing else.\nThe port is 5432.", kind="episode")
    remember("We laughed.", kind="episode")
    clock.advance(days=91)
    assert run(app) == Maintained(archived=4, extracted=1)
    assert [each.text for each in everything(app).values() if "source" in each.details] == ["The port is 5432."]


def test_an_episode_of_one_sentence_states_it(app: App, remember: RememberOne, clock: "Clock") -> None:
    """C8.2: it is not what makes its own statement known; nor is another episode."""
    episode = remember("We decided to use SQLite for invoices.", kind="episode")
    clock.advance(days=91)
    assert run(app) == Maintained(archived=1, extracted=1)
    assert sources(app) == {"We decided to use SQLite for invoices.": episode.id}


def test_nothing_is_taken_from_what_failed(app: App, remember: RememberOne, clock: "Clock") -> None:
    """T1.3, T2.2: a failed episode, a dead end, and what lies in one; a task that was completed counts."""
    remember(EPISODE, kind="episode", outcome="failure")
    ends: list[FinalStatus] = ["failed", "abandoned", "complete"]
    for port, end in enumerate(ends, start=1):
        app.tasks.push(PushRequest(goal=f"try {end}"), app.caller())
        app.tasks.push(PushRequest(goal="a part of it"), app.caller())
        remember(f"It was long.\nThe port is {port}.", kind="episode")
        app.tasks.pop(PopRequest(result="done"), app.caller())
        app.tasks.pop(PopRequest(result="so it went", status=end), app.caller())
    clock.advance(days=91)
    assert app.maintain.due() == Maintained(archived=4, extracted=1)
    assert run(app) == Maintained(archived=4, extracted=1)
    assert list(sources(app)) == ["The port is 3."]


def test_nothing_is_taken_from_what_fails_meanwhile(
    app: App, remember: RememberOne, clock: "Clock", embedder: Meddling
) -> None:
    """T1.3: what was made ready is not stored."""
    app.tasks.push(PushRequest(goal="try"), app.caller())
    remember(EPISODE, kind="episode")
    clock.advance(days=91)
    embedder.meanwhile = lambda: app.tasks.pop(PopRequest(result="no", status="failed"), app.caller())
    assert run(app) == Maintained(archived=1)
    assert sources(app) == {}


@pytest.mark.parametrize("visibility", ["shared", "private", "user"])
def test_what_was_corrected_for_its_readers_does_not_come_back(
    app: App, remember: RememberOne, clock: "Clock", visibility: str
) -> None:
    """R8: a private episode's reader also reads what is shared and what is the person's."""
    old = remember("The port is 5432.", visibility="user")
    remember("The port is 6543.", visibility="user", supersedes=(old.id,))
    remember("It was long.\nThe port is 5432.", kind="episode", visibility=visibility)
    clock.advance(days=91)
    assert run(app) == Maintained(archived=1)


def test_what_only_a_branch_knows_becomes_known_outside_of_it(app: App, remember: RememberOne, clock: "Clock") -> None:
    """T4.3, R2: it is stored once; inside the branch it is known."""
    remember("It was long.\nThe port is 5432.", kind="episode")
    app.tasks.push(PushRequest(goal="try", branch=True), app.caller("inside"))
    known = remember("The port is 5432.", caller=app.caller("inside"))
    remember("The host is db1.", caller=app.caller("inside"))
    remember("It was long.\nThe host is db1.", caller=app.caller("inside"), kind="episode")
    found = app.recall(RecallRequest(query="port"), app.caller("outside")).results
    assert known.id not in [each["id"] for each in found]
    clock.advance(days=91)
    assert app.maintain.due() == Maintained(archived=2, extracted=1)
    assert run(app) == Maintained(archived=2, extracted=1)
    found = app.recall(RecallRequest(query="port"), app.caller("outside")).results
    assert [each["id"] for each in found if each["text"] == "The port is 5432."] == [known.id]
    assert sources(app) == {}


@pytest.mark.parametrize("mode", ["retire", "wrong"])
def test_what_was_extracted_and_erased_is_not_extracted_again(
    app: App, remember: RememberOne, clock: "Clock", mode: str
) -> None:
    """R9, C8.2: an archived episode is restored as such."""
    episode = remember(EPISODE, kind="episode")
    clock.advance(days=91)
    run(app)
    extracted = [each.id for each in everything(app).values() if "source" in each.details]
    app.forget(extracted, "erase", app.caller())
    if mode == "retire":
        app.forget([episode.id], "retire", app.caller())
    else:
        app.revise(Revision(id=episode.id, feedback="wrong"), app.caller())
    app.forget([episode.id], "restore", app.caller())
    assert status(app, episode.id) == "archived"
    assert run(app) == Maintained()
    assert list(everything(app)) == [episode.id]


def test_old_sessions_are_not_the_latest_for_being_maintained(open_memory: Callable[..., App], clock: "Clock") -> None:
    """A2.1, C9.1: nor is what was extracted growth; not even where it is all that the store got lately."""
    app = open_memory(embedder=HashingEmbedder())
    for number in range(60):
        text = "It was long.\n" + "\n".join(f"The port {number}-{port} is open." for port in range(10))
        app.remember([NewRecord(text=text, kind="episode")], app.caller(f"old{number}"), advise=False)
    clock.advance(days=91)
    app.remember([NewRecord(text="Today it rains.")], app.caller("new"))
    where = RecordFilter(scopes=app.caller().scopes)
    latest, grown = app.records.recent_sessions(where, 6), app.records.tally(where, clock.now - 1).stored
    before = app.status(app.caller())["sessions"]
    assert run(app).extracted == 600
    assert latest[0] == "new"
    assert app.records.recent_sessions(where, 6) == latest
    assert app.records.tally(where, clock.now - 1).stored == grown == 1
    assert app.status(app.caller())["sessions"] == before


def test_another_embedders_store_is_maintained(app: App, remember: RememberOne, clock: "Clock", tmp_path: Path) -> None:
    """S2.2: what is extracted waits for its vectors, as all do."""
    remember(EPISODE, kind="episode")
    with closing(sqlite3.connect(tmp_path / "data" / "memory.db")) as connection:
        connection.execute("UPDATE meta SET value = 'another' WHERE name = 'embedder'")
        connection.commit()
    clock.advance(days=91)
    assert run(app) == Maintained(archived=1, extracted=3)
    assert len(sources(app)) == 3


def test_what_is_due_counts_each_statement_once(app: App, remember: RememberOne, clock: "Clock") -> None:
    """C8.7: however many episodes say so, in whatever spelling."""
    remember("We met.\nThe port is 5432.\nthe PORT is 5432!", kind="episode")
    remember("We met again.\nThe port is  5432.", kind="episode")
    clock.advance(days=91)
    assert app.maintain.due() == Maintained(archived=2, extracted=1)
    assert run(app) == Maintained(archived=2, extracted=1)


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


def test_two_at_once_do_the_work_once(
    app: App, open_memory: Callable[..., App], remember: RememberOne, clock: "Clock", embedder: Meddling
) -> None:
    """C8.7: the second finds it done."""
    remember(EPISODE, kind="episode")
    clock.advance(days=91)
    other = open_memory()
    done: list[Maintained] = []
    embedder.meanwhile = lambda: done.append(run(other))
    assert run(app) == Maintained()
    assert done == [Maintained(archived=1, extracted=3)]
    assert len(everything(app)) == 4


def test_an_episode_that_changes_meanwhile_is_left_for_the_next_step(
    app: App, remember: RememberOne, clock: "Clock", embedder: Meddling
) -> None:
    """C8.2: nothing is kept of what it no longer says, nor of one that was erased."""
    changed, erased = remember(EPISODE, kind="episode"), remember(f"{EPISODE} The port is 1.", kind="episode")
    clock.advance(days=91)

    def meddle() -> None:
        app.revise(Revision(id=changed.id, text="The port is 5432. All went well."), app.caller())
        app.forget([erased.id], "erase", app.caller())

    embedder.meanwhile = meddle
    assert run(app) == Maintained()
    clock.advance(days=90)
    assert run(app) == Maintained(archived=1, extracted=1)
    assert {record.text for record in everything(app).values()} == {
        "The port is 5432.",
        "The port is 5432. All went well.",
    }


def test_without_an_embedder_statements_wait_for_their_vectors(
    app: App, remember: RememberOne, clock: "Clock", embedder: Meddling
) -> None:
    """C8.2, S2.2: they are found by their words at once."""
    remember(EPISODE, kind="episode")
    clock.advance(days=91)
    embedder.is_away = True
    assert run(app) == Maintained(archived=1, extracted=3)
    assert app.records.count_unembedded() == 3
    embedder.is_away = False
    assert app.reindex.catch_up() == 3


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
@settings(max_examples=30)
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
