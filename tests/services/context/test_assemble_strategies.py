"""How a strategy shapes a context: sections and their shares, layouts, weights of a call's own, and what repeats."""

import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from mcp_memory.app import App
from mcp_memory.domain.model.context_sections import CONTEXT_TITLES
from mcp_memory.domain.model.records import Kind, NewRecord
from mcp_memory.errors import InvalidRequest, StoreUnavailable
from mcp_memory.services.context.assemble import Context, ContextRequest
from mcp_memory.services.memory.remember import Remembered
from mcp_memory.services.retrieval.recall import RecallRequest
from mcp_memory.settings import working_for
from tests.services.context.conftest import Copied
from tests.services.tasks.moves import pop, push

if TYPE_CHECKING:
    from tests.conftest import Clock

RememberOne = Callable[..., Remembered]
HOUR, DAY = 3_600.0, 86_400.0
LONG = (
    "It took a while to find out, and everybody who works on billing should know about it. "
    "The ledger was closed on the last working day, after Grace had gone through every entry by hand. "
    "Two customers had paid in advance, which the export does not show before the next month begins. "
    "Whoever changes the template has to tell the auditors, who keep a copy of the former one. "
)


def assemble(app: App, **fields: Any) -> Context:
    return app.assemble_context(ContextRequest(**fields), app.caller())


def shown(context: Context) -> list[str]:
    return re.findall(r"^- \[r\w+[^\]]*\] (.*)$", context.text, re.MULTILINE)


def headings(context: Context) -> list[str]:
    return [line.removeprefix("## ") for line in context.text.splitlines() if line.startswith("## ")]


def spent(context: Context, *kinds: str) -> int:
    return sum(component.tokens for component in context.report.components if component.kind in kinds)


@pytest.fixture
def crowded(open_memory: Callable[..., App], copied: Copied) -> App:
    def fill() -> None:
        app = open_memory(session="window")
        crowd(app)
        app.close()

    copied("crowded", fill)
    return open_memory(session="window")


def crowd(app: App) -> None:
    """More of everything than fits, all of it about billing, and a deep stack of tasks."""
    counts: dict[Kind, int] = {
        "decision": 30, "fact": 30, "procedure": 15, "episode": 15, "censor": 7, "identity": 9,
    }  # fmt: skip
    for kind, count in counts.items():
        items = [
            NewRecord(text=f"Billing {kind} {n} concerns invoice {n}. " + LONG, kind=kind, importance=5)
            for n in range(count)
        ]
        app.remember(items, app.caller(), advise=False)
    push(app, "root goal: renew billing " * 4, plan=tuple(f"step {n}" for n in range(9)))
    for n in range(8):
        push(app, f"level {n} of billing " * 8)
    for n in range(12):
        push(app, f"finished {n} of billing " * 4)
        pop(app, f"result {n} of billing " * 12, status="failed" if n % 2 else "complete")


@pytest.mark.uncounted
def test_each_section_has_its_part_of_the_budget(crowded: App) -> None:
    """C1.1: 500, 300, 500, 700 of 8,000; B5.2: then T2.1's stack of 5, 15 and 10 %, then the flexible part."""
    limits = dict.fromkeys(("decision", "fact", "procedure", "episode"), 200)
    context = assemble(crowded, query="billing invoice", strategy="decision", overrides={"limits": limits})
    assert context.report.token_count <= 8_000
    assert 350 <= spent(context, "identity") <= 600  # With what others left.
    assert 150 <= spent(context, "censor") <= 400
    assert 50 <= spent(context, "strategy") <= 500
    tasks = {c.id: c for c in context.report.components if c.kind == "task"}
    stack = crowded.tasks.stack(crowded.caller())
    above = [tasks[task.id].tokens for task in stack.path[1:-1] if task.id in tasks]
    around = [tasks[task.id].tokens for task in (*stack.done, *stack.dead_ends) if task.id in tasks]
    assert {stack.path[0].id, stack.path[-1].id} <= tasks.keys()
    assert 0 < tasks[stack.path[0].id].tokens + tasks[stack.path[-1].id].tokens <= 400
    assert 0 < sum(above) <= 1_200
    assert 0 < sum(around) <= 1_000  # 800, and what was left of the whole.
    assert headings(context)[:5] == [
        "Identity", "Active Constraints", "Current Approach", "Task", "Relevant Past Decisions",
    ]  # fmt: skip
    order = [CONTEXT_TITLES.index(title) for title in headings(context) if title in CONTEXT_TITLES]
    assert order == sorted(order)


@pytest.mark.uncounted
def test_no_share_and_no_limit_cuts_what_answers_best(app: App) -> None:
    """W1.1, B5.1: ten decisions answer better than thirty facts, whatever part of the budget decisions have."""
    answers = [f"Billing decision {n}: invoices of region {n} go out on day {n}. " + LONG for n in range(10)]
    others = [f"Billing fact {n}. " + LONG for n in range(30)]
    ids = [each.id for each in app.remember([NewRecord(text=t, kind="decision") for t in answers], app.caller())]
    app.remember([NewRecord(text=text) for text in others], app.caller(), advise=False)
    asked = "On which day do the invoices of a region go out, by billing decision?"
    for strategy in ("decision", "coding", "auto"):
        context = assemble(app, query=asked, strategy=strategy, max_tokens=1_500)
        assert set(ids) <= {component.id for component in context.report.components}


@pytest.mark.uncounted
def test_what_an_empty_section_leaves_goes_to_the_others(app: App) -> None:
    """C1.2: decisions alone may fill all of it."""
    items = [NewRecord(text=f"Billing decision {n}. " + LONG, kind="decision") for n in range(30)]
    app.remember(items, app.caller(), advise=False)
    context = assemble(
        app, query="billing", strategy="decision", overrides={"limits": {"decision": 100}}, max_tokens=3_000
    )
    assert spent(context, "decision") > 2_500


@pytest.mark.uncounted
def test_a_short_question_takes_less_and_a_decision_more(crowded: App) -> None:
    """C1.3: 3,000 to 12,000 tokens of the flexible part by strategy; a budget that the caller names is all its own."""
    kinds = ("decision", "fact", "procedure", "episode")

    def flexible(strategy: str, **fields: Any) -> int:
        return spent(assemble(crowded, query="billing invoice", strategy=strategy, **fields), *kinds)

    asked, debugged, decided = (flexible(name) for name in ("question", "debugging", "decision"))
    assert 2_400 < asked <= 3_000 < debugged <= decided + 100 < 8_000
    assert flexible("question", max_tokens=8_000) > 3_000
    assert flexible("question", overrides={"flexible_tokens": 1_000}) <= 1_000
    assert spent(assemble(crowded, query="billing invoice", strategy="coding"), *kinds) > 3_000


def test_like_stands_beside_like(app: App) -> None:
    """A6.3: each cluster by its best, and what is alike within it side by side."""
    forms = (
        "The {} database is backed up every night.",
        "The canteen in {} serves soup on Mondays.",
        "The invoices of {} are sent by mail in May.",
    )
    places = ("Bergen", "Lisbon", "Turin")
    mixed = [
        NewRecord(text=form.format(place), importance=9 - n)
        for n, (place, form) in enumerate((place, form) for place in places for form in forms)
    ]
    app.remember(mixed, app.caller())
    context = assemble(app, strategy="clustered")
    texts = shown(context)
    assert texts == [form.format(place) for form in forms for place in places]
    assert shown(assemble(app, strategy="important")) == [item.text for item in mixed]


def test_a_call_may_bring_weights_of_its_own(app: App, remember: RememberOne, clock: "Clock") -> None:
    """A6.5: over named signals; they replace scoring alone, and what is wrong with them is said."""
    remember("The port of billing is 5432.", importance=1, confidence=0.9, occurred_at=clock.now - HOUR)
    remember("The port of mail is 25.", importance=9, confidence=0.2, occurred_at=clock.now - 400 * DAY)
    query = "which port?"

    def first(weights: dict[str, float]) -> str:
        return shown(assemble(app, query=query, strategy="auto", overrides={"weights": weights, "layout": "flat"}))[0]

    assert "mail" in first({"importance": 1})
    assert "billing" in first({"recency": 1})
    assert "billing" in first({"confidence": 1})
    usual, own = (assemble(app, query=query, overrides=o) for o in ({}, {"weights": {"recency": 1.0}}))
    assert headings(usual) == headings(own)
    assert {c.id for c in usual.report.components} == {c.id for c in own.report.components}
    with pytest.raises(InvalidRequest, match="weights"):
        assemble(app, query=query, overrides={"weights": {"charm": 1}})


@pytest.mark.uncounted
def test_the_score_of_a_component_is_the_sum_of_its_parts(app: App, remember: RememberOne) -> None:
    """B4.4: by the names of the strategy's signals, each at most its weight."""
    remember("The port of billing is 5432.", kind="decision", outcome="success")
    remember("The port of mail is 25.", pinned=True)
    for strategy in ("decision", "auto", "coding", "balanced", "recent", "important"):
        records = [
            c
            for c in assemble(app, query="which port?", strategy=strategy).report.components
            if c.kind in ("decision", "fact")
        ]
        assert len(records) == 2
        for component in records:
            assert component.parts
            assert component.score == pytest.approx(sum(component.parts.values()))
            assert all(value >= 0 for value in component.parts.values())
    [decision, _] = sorted(
        assemble(app, query="which port?", strategy="decision").report.components, key=lambda c: c.kind
    )[:2]
    weights = {"cosine": 0.5, "kind": 0.15, "recency": 0.15, "outcome": 0.1, "usage": 0.05, "confidence": 0.05}
    assert decision.parts.keys() == weights.keys()
    assert all(decision.parts[name] <= weight for name, weight in weights.items())


def test_what_says_the_same_is_there_once(app: App, remember: RememberOne) -> None:
    """B1.3: the better one stays and is named; what differs in a number or a negation is not the same (R8)."""
    better = remember("The billing service is deployed on Tuesdays.", importance=9)
    worse = remember("The billing service is deployed on Tuesdays", kind="decision")
    port = [remember(f"The billing service listens on port {n}.") for n in (5432, 5433)]
    never = [remember("Billing is deployed on Fridays."), remember("Billing is never deployed on Fridays.")]
    for query in ("", "billing"):
        report = assemble(app, query=query).report
        reasons = {o.id: o.reason for o in report.omitted}
        assert reasons == {worse.id: f"says the same as {better.id}"}
        assert not report.truncated
        assert {each.id for each in (better, *port, *never)} <= {c.id for c in report.components}
    explained = assemble(app, explain=True)
    assert f"1 says the same ({worse.id})" in explained.text


def test_what_belongs_together_cannot_be_found_out_is_said(
    app: App, remember: RememberOne, monkeypatch: pytest.MonkeyPatch
) -> None:
    """S2.2: the block is there all the same, names what could not be done, and is not kept for the next request."""
    remember("The billing service is deployed on Tuesdays.")

    def unavailable(*_: object) -> object:
        raise StoreUnavailable("the vectors cannot be read")

    with monkeypatch.context() as broken:
        broken.setattr(app.index, "alike", unavailable)
        context = assemble(app, query="billing", strategy="clustered")
    assert context.report.metadata["degraded"] == ["clusters: the vectors cannot be read"]
    assert shown(context) == ["The billing service is deployed on Tuesdays."]
    assert assemble(app, query="billing", strategy="clustered").report.metadata["degraded"] == []


@pytest.mark.uncounted
def test_a_fresh_process_builds_the_same_bytes(crowded: App, open_memory: Callable[..., App]) -> None:
    """B11.2: for the same request at the same revision, whatever was opened meanwhile; stable sections stand first."""
    wanted = ContextRequest(query="billing invoice", strategy="decision", explain=True)
    first = crowded.assemble_context(wanted, crowded.caller("s"))
    for component in first.report.components[:5]:
        crowded.recall(RecallRequest(ids=(component.id,)), crowded.caller("s"))
    fresh = open_memory()
    again = fresh.assemble_context(wanted, fresh.caller("s"))
    assert again.report.metadata["cached"] is False
    assert (again.text, again.report.id) == (first.text, first.report.id)


def test_another_question_begins_with_the_same_text(app: App, remember: RememberOne) -> None:
    """B11.2, B6.1: stable sections stand first, so that a client's prompt cache survives."""
    remember("You are the release manager.", kind="identity")
    remember("Never force-push.", kind="censor")
    push(app, "ship the release")
    remember("The port of billing is 5432.", kind="decision")
    remember("The host of billing is db2.")
    texts = [assemble(app, query=f"which {word} has billing?", strategy="decision").text for word in ("port", "host")]
    stable = [text.partition("\n")[2].partition("\n## Relevant Past Decisions")[0] for text in texts]
    assert stable[0] == stable[1]
    assert "ship the release" in stable[0]


@pytest.mark.uncounted
def test_whatever_is_left_out_can_be_opened(crowded: App) -> None:
    """T5.1, B1.3: by the context's id page by page, and then by the ids that it names."""
    context = assemble(crowded, query="billing invoice", strategy="decision", max_tokens=1_500, explain=True)
    omitted = {omission.id for omission in context.report.omitted}
    assert omitted
    assert "## Note" in context.text
    found: set[str] = set()
    offset: int | None = 0
    while offset is not None:
        answer = crowded.recall(RecallRequest(ids=(context.report.id,), offset=offset), crowded.caller())
        found |= {str(result["id"]) for result in answer.results}
        offset = answer.next_offset
    assert {each for each in omitted if each.startswith("r")} <= found
    opened = crowded.recall(RecallRequest(ids=(min(i for i in omitted if i[0] == "r"),)), crowded.caller())
    assert opened.results[0]["text"]
    tasks = {task.id for task in crowded.tasks.tree(crowded.caller())}
    assert {each for each in omitted if each.startswith("t")} <= tasks


def test_under_pressure_identity_constraints_and_the_task_stay(crowded: App) -> None:
    """C7.2: at a sixteenth of the usual budget there is still one line of each, and the root goal."""
    context = assemble(crowded, query="billing invoice", strategy="decision", max_tokens=500)
    kinds = {component.kind for component in context.report.components}
    assert {"identity", "censor", "task"} <= kinds
    assert "- goal [" in context.text
    assert "- now [" in context.text


@pytest.mark.parametrize(
    ("query", "strategy"), [("why is the checkout broken?", None), ("what about the checkout?", "debugging")]
)
def test_who_repairs_something_sees_what_failed_before_what_went_well(
    app: App, query: str, strategy: str | None
) -> None:
    """B2.2: errors and failed commands, then edits, then other events, whatever came first; a deploy was before all."""
    happened: list[dict[str, Any]] = [
        {"details": {"type": "deploy", "message": "Deployed checkout 2.14"}},
        {"details": {"type": "command", "command": "checkout status", "stdout": "ready"}, "outcome": "success"},
        {"details": {"type": "write", "path": "checkout/cart.ts"}},
        {"details": {"type": "command", "command": "npm test -- checkout"}, "outcome": "failure"},
        {"details": {"type": "error", "message": "TypeError in checkout/cart.ts"}},
    ]
    app.remember([NewRecord(kind="event", **each) for each in happened], app.caller())
    context = assemble(app, query=query, strategy=strategy, max_tokens=1_000)
    failed = ["Error: TypeError in checkout/cart.ts", "Executed: `npm test -- checkout` [failure]"]
    assert sorted(shown(context)[:2]) == failed
    assert shown(context)[2] == "Wrote: checkout/cart.ts"
    assert len(shown(context)) > 3


def test_a_users_product_ranks_what_bears_on_a_question(
    open_memory: Callable[..., App], tmp_path: Path, clock: "Clock"
) -> None:
    """A6.5: a formula that weighs, so a query has its part; what was opened often comes first."""
    file = tmp_path / "strategies.toml"
    file.write_text('[proven]\nformula = "product"\nweights = { importance = 1, access = 1 }', "utf-8")
    app = open_memory(strategies_file=file)
    ports = [NewRecord(text=f"Port {n} is that of the tide service.") for n in (81, 82)]
    first, second = (each.id for each in app.remember(ports, app.caller()))
    for asked in ({}, {"query": "Which port has the tide service?"}):
        app.recall(RecallRequest(ids=(second,)), app.caller())
        assert [each.id for each in assemble(app, strategy="proven", **asked).report.components] == [second, first]
        for _ in range(9):
            app.recall(RecallRequest(ids=(first,)), app.caller())
        assert [each.id for each in assemble(app, strategy="proven", **asked).report.components] == [first, second]
        for _ in range(9):
            app.recall(RecallRequest(ids=(second,)), app.caller())


def test_a_block_is_not_given_again_to_another_client_of_the_session(
    open_memory: Callable[..., App], tmp_path: Path
) -> None:
    """Neither in another time zone, nor by other strategies, nor by those of a file that was changed since."""
    file = tmp_path / "strategies.toml"
    file.write_text('[least]\nlike = "important"\nquestions = ["Of brass?"]', "utf-8")
    app = open_memory(timezone="UTC", strategies_file=file)
    app.remember([NewRecord(kind="event", text="The lamp was lit.", occurred_at=1_795_213_800.0)], app.caller())
    app.remember([NewRecord(text="The lamp is of brass.")], app.caller())
    tokyo = app.settings.of_client({"timezone": "Asia/Tokyo"}, None, None)
    without = app.settings.of_client({"strategies_file": None}, None, None)
    asked: dict[str, Any] = {"query": "the lamp", "strategy": "recent"}
    assert "event 22:30] The lamp" in assemble(app, **asked).text
    with working_for(tokyo):
        assert "11-21 07:30] The lamp" in assemble(app, **asked).text
    assert "event 22:30] The lamp" in assemble(app, **asked).text
    assert "Of brass?" in assemble(app, strategy="least").text
    with working_for(without), pytest.raises(InvalidRequest, match="Unknown strategy 'least'"):
        assemble(app, strategy="least")
    file.write_text('[least]\nlike = "important"\nquestions = ["Was it lit?"]', "utf-8")
    os.utime(file, (1, 1))
    assert "Was it lit?" in assemble(app, strategy="least").text
    file.unlink()
    with pytest.raises(InvalidRequest, match="cannot be read"):
        assemble(app, strategy="least")
