"""What a person pinned and where a task stands reach every context that has room for them."""

from collections.abc import Callable
from dataclasses import dataclass

import pytest

from mcp_memory.app import App
from mcp_memory.domain.model.records import NewRecord
from mcp_memory.services.context.assemble import Context, ContextRequest
from mcp_memory.services.context.fit_to_budget import NO_ROOM_PINNED
from mcp_memory.services.memory.remember import Remembered
from mcp_memory.services.tasks.task_stack import PopRequest, PushRequest

RememberOne = Callable[..., Remembered]
ASKED = "how are the labels of the pallets printed"
FACTS = (
    "The office closes at 18:00 on Fridays.",
    "The label printer of hall {n} needs rolls of 102 mm, and jams on the thinner ones of the old supplier.",
    "Pallets from dock {n} go to the cold store within 40 minutes, or the driver calls the shift leader.",
    "The scanner on gate {n} reads Code 128 alone; a QR label needs the handheld of the shift leader.",
)


@dataclass(frozen=True, kw_only=True)
class Depot:
    """A memory of 30 records and a task, with the ids of what a block must hold."""

    app: App
    pinned: str
    guardrail: str
    dead_end: str
    planned: tuple[str, ...]

    def ask(self, query: str, max_tokens: int) -> tuple[Context, set[str]]:
        asked = ContextRequest(query=query, max_tokens=max_tokens)
        context = self.app.assemble_context(asked, self.app.caller())
        return context, {each.id for each in context.report.components}


@pytest.fixture
def depot(app: App, remember: RememberOne) -> Depot:
    caller = app.caller()
    facts = [NewRecord(text=FACTS[n % 4 if n else 0].format(n=n)) for n in range(28)]
    app.remember(facts, caller, advise=False)
    why = "The carrier bills each pallet whose weight differs from its label, and twice one in five did."
    text = "Print a label only after the scale has sent the weight, never from the weight in the order."
    pinned = remember(text, kind="decision", pinned=True, details={"reasons": [why]})
    rule = {"action": "block", "trigger": "print labels", "reason": "The carrier refused 60 pallets."}
    guardrail = remember("Never print labels from the test profile.", kind="censor", details=rule)
    app.tasks.push(PushRequest(goal="Print the labels of pallets on demand"), caller)
    dead = app.tasks.push(PushRequest(goal="Send the labels through the driver of the old printer"), caller).current
    assert dead
    failed = "The driver cuts texts at 20 characters, and its maker sells no other one."
    app.tasks.pop(PopRequest(result=failed, status="failed"), caller)
    planned = ("Write the template in the printer's own language", "Try the template on a hundred pallets of dock 4")
    steps = app.tasks.push(PushRequest(goal="Write the worker that prints", plan=planned), caller)
    return Depot(
        app=app, pinned=pinned.id, guardrail=guardrail.id, dead_end=dead.id,
        planned=tuple(each.id for each in steps.planned),
    )  # fmt: skip


@pytest.mark.uncounted
@pytest.mark.parametrize("budget", [500, 2_000])
@pytest.mark.parametrize("query", [ASKED, ""])
def test_pinned_records_dead_ends_and_next_steps_are_there(depot: Depot, query: str, budget: int) -> None:
    """W1.1: first, and of what the answers leave where their parts are full."""
    context, there = depot.ask(query, budget)
    wanted = {depot.pinned, depot.guardrail, depot.dead_end, *depot.planned}
    assert not wanted - there, (context.report.token_count, context.text)
    assert context.report.token_count <= budget


@pytest.mark.uncounted
def test_what_a_budget_has_no_room_for_is_told_as_pinned(app: App, remember: RememberOne) -> None:
    """W1.1, B1.3: a question keeps its answer, and the account names each pinned record that is left out."""
    answer = remember("The port of the database is 5432.")
    texts = [f"Shift {n} begins with the check of the brakes of lift {n}, and ends with it." for n in range(30)]
    pinned = {
        each.id
        for each in app.remember([NewRecord(text=text, pinned=True) for text in texts], app.caller(), advise=False)
    }
    for query in ("which port has the database", ""):
        report = app.assemble_context(ContextRequest(query=query, max_tokens=300), app.caller()).report
        there = {each.id for each in report.components}
        told = {each.id for each in report.omitted if each.reason == NO_ROOM_PINNED}
        assert there & pinned
        assert told == pinned - there
        assert report.truncated
        assert report.token_count <= 300
        assert not query or answer.id in there


@pytest.mark.uncounted
def test_a_pinned_record_comes_before_others_of_its_section(app: App, remember: RememberOne) -> None:
    """W1.1: whatever their importance, with and without a question."""
    for n in range(20):
        remember(f"Lift {n} of the depot has a brake of its own and a bell.", importance=9)
    pinned = remember("Nobody rides on a lift.", importance=0, pinned=True)
    for query in ("which brake has the lift of the depot", ""):
        for budget in (100, 1_000):
            report = app.assemble_context(ContextRequest(query=query, max_tokens=budget), app.caller()).report
            assert report.components[0].id == pinned.id


@pytest.mark.uncounted
@pytest.mark.parametrize("rules", [1, 6])
def test_a_pinned_guardrail_is_there_whatever_is_asked(app: App, remember: RememberOne, rules: int) -> None:
    """W1.1: also one of another domain, and one of many."""
    for n in range(rules):
        remember(f"Never repaint gate {n}.", kind="censor", details={"domain": "paint", "trigger": f"repaint gate {n}"})
    rule = {"domain": "lifts", "trigger": "ride a lift"}
    pinned = remember("Never ride on a lift.", kind="censor", pinned=True, details=rule)
    asked = ContextRequest(query="how do I repaint gate 2", max_tokens=500)
    assert pinned.id in {each.id for each in app.assemble_context(asked, app.caller()).report.components}
