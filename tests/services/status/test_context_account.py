"""A context that was given is shown line by line, in its words of then, with what was left out."""

from collections.abc import Callable
from dataclasses import replace
from itertools import product
from typing import TYPE_CHECKING

import pytest

from mcp_memory.app import App
from mcp_memory.domain.model.contexts import Circumstances, Component, ContextReport, Omission
from mcp_memory.domain.model.records import Entity, NewRecord, Relation
from mcp_memory.errors import NotFound
from mcp_memory.services.context.assemble import ContextRequest
from mcp_memory.services.memory.remember import Remembered
from mcp_memory.services.memory.revise import Revision
from mcp_memory.services.status.context_account import OMITTED_SHOWN, Account, AccountLine, shared_out
from mcp_memory.services.tasks.task_stack import PushRequest

if TYPE_CHECKING:
    from tests.conftest import Clock

RememberOne = Callable[..., Remembered]


def lines_of(account: Account) -> dict[str, AccountLine]:
    return {line.component.id: line for section in account.sections for line in section.lines}


def test_the_account_of_a_block_has_its_lines_and_its_circumstances(
    app: App, remember: RememberOne, clock: "Clock"
) -> None:
    """U1.1: each line as the agent read it, below its title; when, for which session, out of what."""
    task = app.tasks.push(PushRequest(goal="Move the database"), app.caller()).current
    assert task
    remember("Ask before you deploy.", kind="censor")
    remember("The port of the database is 5432.", entities=(Entity(name="Postgres"),))
    request = ContextRequest(query="Which port does the database have?", max_tokens=900, occasion="start")
    context = app.assemble_context(request, app.caller())
    account = app.accounts(context.report.id, app.caller())
    assert [each.id for _, each in app.accounts.given(app.caller(), 9)] == [context.report.id]
    assert [each.id for _, each in app.accounts.naming(task.id, app.caller(), 9)] == [context.report.id]
    assert [section.title for section in account.sections][:2] == ["Active Constraints", "Task"]
    for line in lines_of(account).values():
        if line.record:
            assert line.text in context.text
            assert not line.is_changed
    assert account.text == context.text
    assert lines_of(account)[task.id].text == f"- now [{task.id}]: Move the database"
    assert sum(each.tokens for each in account.sections) <= account.report.token_count
    told = account.report.circumstances
    assert (told.at, told.occasion, told.budget) == (clock.now, "start", 900)
    assert (told.session, told.client) == (app.caller().session_id, "")
    clock.advance(seconds=1)
    reminder = app.remind("Which port does the database have?", (), 300, app.caller())
    [(_, kept), _] = app.records.contexts(app.caller(), 2)
    assert (kept.circumstances.occasion, kept.circumstances.budget) == ("prompt", 300)
    reminded = app.accounts(kept.id, app.caller())
    assert (tuple(lines_of(reminded)), reminded.text) == (reminder.ids, reminder.text)


def test_a_line_keeps_its_words_of_then(
    app: App, open_memory: Callable[..., App], remember: RememberOne, clock: "Clock"
) -> None:
    """U1.1, R9: also once the record is corrected; not where it was erased, or is out of sight."""
    kept, erased = remember("The port is 5432."), remember("The host is walrus.")
    bob = open_memory(agent="bob")
    [moved] = bob.remember([NewRecord(text="The user is postgres.")], bob.caller())
    context = app.assemble_context(ContextRequest(), app.caller())
    clock.advance(hours=1)
    app.revise(Revision(id=kept.id, text="The port is 6543."), app.caller())
    bob.revise(Revision(id=moved.id, visibility="private"), bob.caller())
    account = app.accounts(context.report.id, app.caller())
    read = [each for each in context.text.split("\n") if f"[{moved.id} " not in each]
    assert [each for each in account.text.split("\n") if each not in read] == [f"- [{moved.id}] (out of sight)"]
    app.forget([erased.id], "erase", app.caller())
    account = app.accounts(context.report.id, app.caller())
    assert account.text == "", "it may quote what was erased"
    lines = lines_of(account)
    assert lines[kept.id].text.endswith("] The port is 5432.")
    assert (lines[kept.id].is_changed, lines[kept.id].record is not None) == (True, True)
    assert [(lines[each].text, lines[each].record) for each in (erased.id, moved.id)] == [("", None), ("", None)]
    with pytest.raises(NotFound):
        bob.accounts(context.report.id, bob.caller())


def test_facts_of_records_that_need_not_be_in_the_block_are_not_told_again(app: App) -> None:
    """S4.1: another person with an agent of that name may read the account, and not the record behind the fact."""
    ann, bob = (replace(app.caller(), person=each) for each in ("ann", "bob"))
    told = NewRecord(
        text="Zelda is treated at Northgate.", visibility="user",
        entities=(Entity(name="Zelda", type="person", properties={"illness": "mumps"}), Entity(name="Northgate")),
        relations=(Relation(source="Zelda", type="treated-at", target="Northgate"),),
    )  # fmt: skip
    app.remember([told], ann)
    context = app.assemble_context(ContextRequest(query="How are Zelda and Northgate tied?", max_tokens=2_000), ann)
    assert "mumps" in context.text
    for reader in (ann, bob):
        account = app.accounts(context.report.id, reader)
        assert "mumps" not in f"{account.text}{lines_of(account)}"
        assert "- zelda (…)" in account.text.lower()


@pytest.mark.uncounted
def test_what_was_too_far_says_how_far_in_its_words_of_then(app: App, remember: RememberOne, clock: "Clock") -> None:
    """U1.1: its relevance beside what was enough; none was where nothing bears on the question."""
    far = remember("The otters of the zoo are fed at noon by the old keeper.")
    remember("The port of the database is 5432.")
    context = app.assemble_context(ContextRequest(query="port of the database", max_tokens=400), app.caller())
    clock.advance(hours=1)
    app.revise(Revision(id=far.id, text="The otters of the zoo are fed at dusk."), app.caller())
    [left] = app.accounts(context.report.id, app.caller()).left_out
    assert (left.id, left.is_changed) == (far.id, True)
    assert "at noon by the old keeper" in left.text
    assert left.score is not None
    assert left.needed is not None
    assert left.score < left.needed
    unknown = app.assemble_context(ContextRequest(query="who baked the wedding cake", max_tokens=400), app.caller())
    told = app.accounts(unknown.report.id, app.caller()).left_out
    assert {(each.score is None, each.needed) for each in told} == {(False, None)}


def test_what_was_left_out_is_shown_with_its_text_and_why(app: App, remember: RememberOne) -> None:
    """U1.1: some at a time; what nobody may see has no text. An account of an earlier version is shown too."""
    task = app.tasks.push(PushRequest(goal="ship"), app.caller()).current
    assert task
    fact = remember("The port is 5432.")
    parts = [
        Component(source="found", kind="fact", id=fact.id, tokens=9, score=0.5, detail="passage"),
        Component(source="graph", kind="relation", id="relation:A --[b]--> C", tokens=5, score=0.5, detail="full"),
        Component(source="found", kind="fact", id="r00zzzz", tokens=9, score=0.5, detail="micro", section="Unheard"),
    ]
    omitted = [Omission(id=each, reason="no room in the budget") for each in (fact.id, task.id, "r00zzzz")]
    report = ContextReport(
        id="c000001", token_count=60, truncated=True, strategy="auto", components=tuple(parts), omitted=tuple(omitted)
    )
    app.records.keep_context(report, app.caller(), 100.0)
    account = app.accounts("c000001", app.caller())
    assert [(each.id, each.kind, each.text) for each in account.left_out] == [
        (fact.id, "fact", "The port is 5432."), (task.id, "task", "ship"), ("r00zzzz", "", ""),
    ]  # fmt: skip
    assert [(section.title, section.tokens) for section in account.sections] == [("Known Information", 18), ("Note", 5)]
    assert account.report.circumstances == Circumstances()
    assert lines_of(account)[fact.id].is_shortened
    assert lines_of(account)["relation:A --[b]--> C"].text == "A --[b]--> C"
    app.records.keep_context(replace(report, omitted=tuple(omitted * OMITTED_SHOWN)), app.caller(), 100.0)
    assert len(app.accounts("c000001", app.caller()).left_out) == OMITTED_SHOWN
    assert len(app.accounts("c000001", app.caller(), 3 * OMITTED_SHOWN - 2).left_out) == 2


STRATEGIES = ("balanced", "recent", "important", "debugging", "auto")


@pytest.mark.uncounted
def test_the_parts_of_a_block_add_up_to_its_tokens(app: App, remember: RememberOne) -> None:
    """U1.1: with room for the headings and the fence, whatever the budget and the strategy."""
    for n in range(60):
        text = f"Machine {n}: pump_{n}.flow=({n}, {7 * n}); valve “{n}” → closed…"
        remember(text, kind=("fact", "decision", "procedure", "episode", "message")[n % 5])
    squeezed = 0
    for strategy, budget in product(STRATEGIES, (200, 500, 1_000, 2_000, 4_000)):
        request = ContextRequest(query="flow of the pump", max_tokens=budget, strategy=strategy)
        context = app.assemble_context(request, app.caller())
        account = app.accounts(context.report.id, app.caller())
        told = [line.component.tokens for line in lines_of(account).values()]
        assert account.text == context.text
        assert "\n".join(line.text for line in lines_of(account).values()) in "\n".join(
            line for line in context.text.split("\n") if not line.startswith(("#", "<"))
        )
        assert sum(told) == sum(section.tokens for section in account.sections)
        assert min(told) > 0
        headings = "".join(f"## {section.title}\n" for section in account.sections)
        assert sum(told) + app.counter.count(headings) < context.report.token_count <= budget
        squeezed += sum(told) < sum(each.tokens for each in context.report.components)
    assert squeezed, "estimates are on the safe side"


def test_a_sum_is_shared_out_in_whole_numbers() -> None:
    """U1.1."""
    assert shared_out([10, 20, 30], 54) == [9, 18, 27]
    assert shared_out([10, 20, 30], 60) == [10, 20, 30]
    assert sum(shared_out([7, 7, 7, 1], 20)) == 20
    assert shared_out([3, 4], 0) == [0, 0]


@pytest.mark.uncounted
def test_accounts_are_listed_from_a_place_on(app: App, remember: RememberOne, clock: "Clock") -> None:
    """U1.1: the latest first, also of those of one moment."""
    remember("The port is 5432.")
    given: list[str] = []
    for n in range(5):
        clock.advance(seconds=n // 2)
        given.append(
            app.assemble_context(ContextRequest(query=f"port {n}", max_tokens=500 + n), app.caller()).report.id
        )
    listed: list[str] = []
    before = None
    while page := app.records.contexts(app.caller(), 2, before):
        listed += [report.id for _, report in page]
        before = page[-1][0], page[-1][1].id
    assert sorted(listed) == sorted(given)
    assert listed == [report.id for _, report in app.records.contexts(app.caller(), 9)]


def test_looking_at_what_would_be_given_leaves_no_trace(app: App, remember: RememberOne) -> None:
    """U1.1: no account, no count, and nothing that counts as shown; the block is the one that would be given."""
    remember("The port is 5432.")
    looked = app.assemble_context(ContextRequest(query="port", only_looks=True), app.caller())
    assert app.records.contexts(app.caller(), 9) == []
    assert app.status(app.caller()).memory.contexts.contexts == 0
    given = app.assemble_context(ContextRequest(query="port"), app.caller())
    assert looked.text == given.text


def test_what_was_superseded_since_is_not_taken_for_edited(app: App, remember: RememberOne, clock: "Clock") -> None:
    """U1.1: its words are those that the agent read; whether a question was asked is kept, its words are not."""
    old = remember("The port is 5432.")
    for query in ("", "which port"):
        assert not app.assemble_context(ContextRequest(query=query), app.caller()).report.metadata.get("asked")
    clock.advance(hours=1)
    remember("The port is 6543.", supersedes=(old.id,))
    (_, asked), (_, unasked) = app.records.contexts(app.caller(), 2)
    assert (asked.circumstances.asked, unasked.circumstances.asked) == (True, False)
    line = lines_of(app.accounts(asked.id, app.caller()))[old.id]
    assert (line.is_changed, line.became) == (False, "superseded")
