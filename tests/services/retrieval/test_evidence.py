"""What recall shows of long records, of near equals, and of nothing."""

from collections.abc import Callable
from typing import Any

import pytest

from mcp_memory.app import App
from mcp_memory.domain.model.records import NewRecord
from mcp_memory.domain.retrieval.log_lines import SAME_COSINE
from mcp_memory.services.context.assemble import ContextRequest
from mcp_memory.services.memory.remember import Remembered
from mcp_memory.services.retrieval.recall import RecallRequest
from mcp_memory.services.tasks.task_stack import PopRequest, PushRequest

RememberOne = Callable[..., Remembered]
FILLER = [f"On day {n} the crew of the boat wrote down the weather and the course." for n in range(40)]
ANSWER = "The spare impeller lies behind the engine, in the blue box."
NOTE = " ".join([*FILLER[:25], ANSWER, *FILLER[25:]])


def found(app: App, query: str, **asked: Any) -> list[str]:
    request = RecallRequest(query=query, **asked)
    return [str(each["text"]) for each in app.recall(request, app.caller()).results]


@pytest.mark.uncounted
def test_the_passage_that_answers_is_shown_of_a_long_record(app: App, remember: RememberOne) -> None:
    """F1.1: by recall and in a context, with its place; its micro where that is asked for."""
    remember(NOTE)
    [text] = found(app, "Where is the spare impeller?", max_tokens=400)
    assert ANSWER in text
    assert "(part 26 of 41, " in text
    [micro] = found(app, "Where is the spare impeller?", detail="micro")
    assert ANSWER not in micro
    for budget in (300, 1_000):
        block = app.assemble_context(
            ContextRequest(query="Where is the spare impeller?", max_tokens=budget), app.caller()
        )
        assert ANSWER in block.text
        assert [each.detail for each in block.report.components if each.kind == "fact"] == [
            "passage" if budget == 300 else "full"
        ]


def test_the_whole_is_shown_where_there_is_room(app: App, remember: RememberOne) -> None:
    """F1.1, F5.1."""
    remember(NOTE)
    assert found(app, "spare impeller", max_tokens=8_000) == [NOTE]


def test_a_block_that_is_continued_knows_the_passages_it_showed(app: App, remember: RememberOne) -> None:
    """B9.1: another question shows another passage of the same record, which is as it was."""
    remember(NOTE)
    remember("The anchor chain is 40 m long.")
    first = app.assemble_context(ContextRequest(query="Where is the spare impeller?", max_tokens=400), app.caller())
    again = ContextRequest(query="Where is a spare impeller?", max_tokens=1_200, previous=first.report.id)
    assert app.assemble_context(again, app.caller()).report.metadata.get("follow_up") in ("added", "unchanged")


@pytest.mark.uncounted
def test_nothing_known_is_an_answer(app: App, remember: RememberOne) -> None:
    """F4.1: and a context spends nothing on it."""
    for n in range(12):
        remember(f"The {('pump', 'valve', 'hose')[n % 3]} number {n} was checked in the north well.")
    question = "Which composer wrote the opera about the flying Dutchman?"
    assert found(app, question) == []
    context = app.assemble_context(ContextRequest(query=question, max_tokens=1_000), app.caller())
    assert not [each for each in context.report.components if each.kind == "fact"]
    assert found(app, "Which pump was checked in the north well?")


@pytest.mark.uncounted
def test_what_the_current_task_noted_comes_before_what_another_did(app: App, remember: RememberOne) -> None:
    """F7.1: whichever was stored last; without a task nothing is preferred."""
    caller = app.caller()
    app.tasks.push(PushRequest(goal="Call the geocoder from the form"), caller)
    remember("The geocoder timeout is 5 seconds.")
    app.tasks.push(PushRequest(goal="Call the geocoder at night"), caller)
    remember("The geocoder timeout is 30 seconds.")
    query = "What is the timeout for the geocoder?"
    assert "30 seconds." in found(app, query)[0]
    app.tasks.pop(PopRequest(result="It hung.", status="failed"), caller)
    assert " 5 seconds." in found(app, query)[0]
    told = {
        str(each["text"]).partition(" (task")[0].partition(" (contradicts")[0]: each.get("task")
        for each in app.recall(RecallRequest(query=query), caller).results
    }
    assert told["The geocoder timeout is 30 seconds."] == "task: Call the geocoder at night"
    assert told["The geocoder timeout is 5 seconds."] is None
    assert [task for text, task in told.items() if "It hung." in text] == [None]
    app.tasks.pop(PopRequest(result="Done."), caller)
    told = {
        str(each["text"]).partition(" (task")[0].partition(" (contradicts")[0]: each.get("task")
        for each in app.recall(RecallRequest(query=query), caller).results
    }
    assert told["The geocoder timeout is 30 seconds."] is None
    assert told["The geocoder timeout is 5 seconds."] is None
    app.tasks.push(PushRequest(goal="Something else"), caller)
    told = {
        str(each["text"]).partition(" (task")[0].partition(" (contradicts")[0]: each.get("task")
        for each in app.recall(RecallRequest(query=query), caller).results
    }
    assert told["The geocoder timeout is 5 seconds."] == "task: Call the geocoder from the form"


@pytest.mark.uncounted
def test_the_holder_of_an_identifier_is_first_among_look_alikes(app: App) -> None:
    """F6.1."""
    texts = [f"Order {n} was checked by the nightly job." for n in range(400)]
    app.remember([NewRecord(text=text) for text in texts], app.caller(), advise=False)
    app.remember([NewRecord(text="Order q7x2 was checked by the nightly job.")], app.caller())
    assert found(app, "What did the nightly job do with order q7x2?")[0].startswith("Order q7x2")


@pytest.mark.uncounted
def test_constraints_that_bear_on_the_query_are_shown_and_the_rest_is_a_count(app: App) -> None:
    """F3.1: blocks before warnings among equals; a few that name no trigger."""
    subjects = ("invoices", "payroll", "tickets", "parcels", "refunds", "badges", "leases", "grants")
    censors = [
        NewRecord(
            text=f"Leave out drafts of {subject}.", kind="censor",
            details={"trigger": f"exporting {subject}", "reason": f"{subject} were counted twice"},
        )
        for subject in subjects
    ]  # fmt: skip
    general = [NewRecord(text=f"Ask before you call {name}.", kind="censor") for name in "abcdefg"]
    app.remember([*censors, *general], app.caller())
    text = app.assemble_context(ContextRequest(query="Export the payroll", max_tokens=2_000), app.caller()).text
    assert "**WARN:** when exporting payroll — Leave out drafts of payroll. Because: payroll were counted twice" in text
    assert 1 <= text.count("Ask before you call") <= 5
    assert 'more for other work: `recall` with kinds=["censor"]' in text


def test_in_a_script_that_the_model_does_not_know_nearness_puts_nothing_before_the_log(app: App) -> None:
    """F1.1, R5: all texts in it are near each other; words alone tell what answers."""
    stored = app.remember([NewRecord(text="ท่าเรือปิดจนถึงเช้า")], app.caller())[0]
    lines = [NewRecord(text="อันนาเฝ้าประภาคารคืนนี้", kind="message", role="user")]
    line = app.remember(lines, app.caller())[0]
    (before,) = app.index.alike(app.caller().scopes, [stored.id, line.id], SAME_COSINE)
    assert before[2] >= SAME_COSINE
    results = app.recall(RecallRequest(query="ใครเฝ้าประภาคารคืนนี้"), app.caller()).results
    assert results[0]["id"] == line.id
