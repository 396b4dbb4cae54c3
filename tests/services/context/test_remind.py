from collections.abc import Callable
from dataclasses import replace
from math import ceil

import pytest

from mcp_memory.app import App
from mcp_memory.domain.model.records import NewRecord
from mcp_memory.domain.model.token_factor import EXACT
from mcp_memory.errors import StoreUnavailable
from mcp_memory.services.context.remind import EMBEDDED_TEXTS, READ_CHARACTERS, Reminder
from mcp_memory.services.retrieval.recall import RecallRequest
from mcp_memory.services.retrieval.search import ParsedQuery
from mcp_memory.services.tasks.task_stack import PopRequest, PushRequest
from tests.conftest import Clock

PORT = "The staging database listens on port 6543."
ASKED = "On which port does the staging database listen?"


def stored(app: App, *items: NewRecord) -> list[str]:
    return [one.id for one in app.remember(items, app.caller())]


def test_what_was_learnt_is_given_with_its_account(app: App) -> None:
    (port, _) = stored(app, NewRecord(text=PORT), NewRecord(text="Marta likes green tea."))
    reminder = app.remind(ASKED, (), 500, app.caller())
    assert reminder.ids == (port,)
    assert f"## Known Information\n- [{port} 11-20] {PORT}\n</memory-context>" in reminder.text
    context_id = reminder.text.split('"')[1]
    (fate,) = app.recall(RecallRequest(ids=(context_id,)), app.caller()).results
    assert (fate["id"], fate["detail"]) == (port, "full")
    assert app.records.get([port], app.caller().scopes)[port].counters.accessed == 1


def test_what_is_known_is_not_given_again(app: App) -> None:
    (port,) = stored(app, NewRecord(text=PORT))
    assert app.remind(ASKED, [port], 500, app.caller()) == Reminder()


def test_neither_messages_nor_what_was_replaced_are_given(app: App, clock: Clock) -> None:
    (old,) = stored(app, NewRecord(text=PORT))
    clock.advance(hours=1)
    (new, _) = stored(
        app,
        NewRecord(text="The staging database listens on port 7000.", supersedes=(old,)),
        NewRecord(text="Where does the staging database listen?", kind="message"),
    )
    assert app.remind(ASKED, (), 500, app.caller()).ids == (new,)


def test_what_says_the_same_is_given_once(app: App) -> None:
    first, second = stored(app, NewRecord(text=PORT), NewRecord(text=PORT.rstrip("."), kind="procedure"))
    assert set(app.remind(ASKED, (), 500, app.caller()).ids) < {first, second}


@pytest.mark.uncounted
def test_what_happened_in_a_finished_task_is_spoken_for_by_its_result(app: App) -> None:
    me = app.caller()
    app.tasks.push(PushRequest(goal="Move the database"), me)
    app.tasks.push(PushRequest(goal="Find its port"), me)
    stored(app, NewRecord(text="We saw the staging database listen on port 6543.", kind="episode"))
    assert app.remind(ASKED, (), 500, me).ids
    app.tasks.pop(PopRequest(result="6543"), me)
    [result] = app.remind(ASKED, (), 500, me).ids
    assert app.inspect.record(result, me).record.text == "Find its port → 6543"


def test_a_budget_shortens_and_then_leaves_out(app: App) -> None:
    long = (
        " It was moved there in spring, when the old machine was given back and nobody wanted to pay for two of them."
    )
    stored(app, *(NewRecord(text=f"The staging database {n} listens on port {6000 + n}.{long}") for n in range(5)))
    whole = app.remind(ASKED, (), 2_000, app.caller())
    assert len(whole.ids) == 5
    for budget in (0, 20, 60, 120, 200, 300):
        reminder = app.remind(ASKED, (), budget, app.caller())
        assert ceil(app.counter.count(reminder.text) * EXACT.factor) <= budget
        assert len(reminder.ids) <= 5
    assert 0 < len(app.remind(ASKED, (), 120, app.caller()).ids) < 5


def test_a_prompt_without_a_subject_calls_for_nothing(app: App) -> None:
    stored(app, NewRecord(text="Go on Fridays: releases are approved then."))
    assert app.remind("ok, go on", (), 500, app.caller()) == Reminder()


def test_of_a_long_prompt_both_ends_are_read(app: App) -> None:
    (port,) = stored(app, NewRecord(text=PORT))
    pasted = "x = compute(y)\n" * READ_CHARACTERS
    assert app.remind(f"{pasted}\n{ASKED}", (), 500, app.caller()).ids == (port,)


def test_private_records_of_another_agent_are_not_given(open_memory: Callable[..., App]) -> None:
    """S4.1."""
    theirs, mine = open_memory(agent="theirs"), open_memory(agent="mine")
    stored(theirs, NewRecord(text=PORT, visibility="private"))
    assert mine.remind(ASKED, (), 500, mine.caller()) == Reminder()


def test_a_record_of_one_long_sentence_is_given_by_its_summary(app: App) -> None:
    """W2.1: no passage of it fits, and a title alone is no reminder."""
    long = "The staging database listens on port 6543 " + "and is asked by the billing service " * 60
    (port,) = stored(app, NewRecord(text=long))
    reminder = app.remind(ASKED, (), 500, app.caller())
    assert reminder.ids == (port,)
    assert "port 6543" in reminder.text


@pytest.mark.uncounted
def test_what_was_chosen_and_why_in_another_session_is_given_behind_what_was_stored(app: App) -> None:
    """P1.3, D9.3: as it was said there; neither a choice without a reason, nor what this session's window holds."""
    said = "We decided to use Postgres for the orders store because MySQL lacks row level security."
    there = app.caller("monday")
    others = [f"The crane of quay {n} moves at dawn." for n in range(20)]
    told = (said, "Postgres holds the orders store.", *others)
    app.remember([NewRecord(text=each, kind="message", role="assistant") for each in told], there)
    asked = "Why did we choose Postgres for the orders store?"
    given = app.remind(asked, (), 500, app.caller("tuesday"))
    assert len(given.ids) == 1
    assert said in given.text
    assert app.remind(asked, (), 500, there) == Reminder()
    assert app.remind(asked, given.ids, 500, app.caller("tuesday")) == Reminder()


def test_what_was_chosen_is_given_before_a_server_has_embedded_it(app: App) -> None:
    """P1.3, O2.1: the hooks log without embedding; of what waits, a prompt embeds the nearest few choices alone."""
    said = "We decided to use Postgres for the orders store because MySQL lacks row level security."
    there = app.caller("monday")
    asked = "Why did we choose Postgres for the orders store?"
    talk = [f"Postgres for the orders store, part {n}." for n in range(8)]
    more = [f"We decided to keep store {n} because the crane of quay {n} needs it." for n in range(9)]
    long = f"{said} {'It holds the orders of the store, and Postgres keeps them. ' * 400}"
    for told in ((said,), talk, more, (long,)):
        fed = [NewRecord(text=each, kind="message", role="assistant") for each in told]
        app.remember(fed, there, embed=False)
    waiting = app.records.count_unembedded()
    assert app.remind(asked, (), 500, there) == Reminder()
    assert app.records.count_unembedded() == waiting
    assert said in app.remind(asked, (), 500, app.caller("tuesday")).text
    assert waiting - EMBEDDED_TEXTS <= app.records.count_unembedded() < waiting
    assert long in [text for _, _, text in app.records.awaiting_vectors(waiting)]


def test_a_prompt_is_answered_where_the_embedder_fails(app: App, monkeypatch: pytest.MonkeyPatch) -> None:
    """The choices that wait keep waiting."""
    (port,) = stored(app, NewRecord(text=PORT))
    said = "We decided that the staging database listens on port 6543 because 5432 was taken."
    app.remember([NewRecord(text=said, kind="message", role="assistant")], app.caller("monday"), embed=False)

    def fails(_: object) -> int:
        raise StoreUnavailable("The embedder does not answer.")

    monkeypatch.setattr(app.reindex, "embed", fails)
    assert app.remind(ASKED, (), 500, app.caller("tuesday")).ids == (port,)
    reads = app.searcher.read

    def reads_words(text: str) -> ParsedQuery:
        read = reads(text)
        return replace(read, query=replace(read.query, vector=None))

    monkeypatch.setattr(app.searcher, "read", reads_words)
    app.remind(ASKED, (), 500, app.caller("tuesday"))
    assert app.records.count_unembedded() == 1
