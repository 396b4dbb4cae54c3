"""What stands on something that changed is to be checked, until somebody vouches for it."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest

from mcp_memory.app import App
from mcp_memory.domain.model.records import Kind, NewRecord
from mcp_memory.entrypoints.server.record_answers import show_account
from mcp_memory.errors import NotFound
from mcp_memory.ports.transfer import Origin, WholeGround, WholeRecord
from mcp_memory.services.context.assemble import ContextRequest
from mcp_memory.services.memory.merge import Merger
from mcp_memory.services.memory.remember import Remembered
from mcp_memory.services.memory.revise import Revision
from mcp_memory.services.retrieval.recall import RecallRequest
from mcp_memory.services.review.settle import Settling
from mcp_memory.services.status import overview
from mcp_memory.services.status.overview import Support
from mcp_memory.services.tasks.task_stack import PopRequest, PushRequest

if TYPE_CHECKING:
    from tests.conftest import Clock

RememberOne = Callable[..., Remembered]


def checks(app: App, *record_ids: str) -> list[Any]:
    """The ids of changed grounds that each of the records is shown with."""
    shown = app.recall(RecallRequest(ids=record_ids, max_tokens=9_000), app.caller()).results
    by_id = {str(each["id"]): each.get("check", []) for each in shown}
    return [by_id[each] for each in record_ids]


def chain(remember: RememberOne) -> tuple[str, str, str]:
    """A fact, a decision on it, and a procedure on that."""
    fact = remember("Production runs Postgres 13.").id
    decision = remember("Upserts use ON CONFLICT.", kind="decision", depends_on=(fact,)).id
    return fact, decision, remember("Load into tmp, then upsert.", kind="procedure", depends_on=(decision,)).id


def supersede(app: App, record_id: str) -> None:
    app.remember([NewRecord(text="Production runs Postgres 16.", supersedes=(record_id,))], app.caller())


def erase(app: App, record_id: str) -> None:
    app.forget([record_id], "erase", app.caller())


def retire(app: App, record_id: str) -> None:
    app.forget([record_id], "retire", app.caller())


def revise(app: App, record_id: str, **fields: Any) -> None:
    app.revise(Revision(id=record_id, **fields), app.caller())


def reword(app: App, record_id: str) -> None:
    revise(app, record_id, text="Production runs Postgres 14.")


def disprove(app: App, record_id: str) -> None:
    revise(app, record_id, feedback="wrong")


def fail(app: App, record_id: str) -> None:
    revise(app, record_id, outcome="failure")


@pytest.mark.uncounted
@pytest.mark.parametrize("change", [supersede, retire, erase, reword, disprove, fail])
def test_what_stands_on_a_changed_ground_is_to_be_checked_step_by_step(
    app: App, remember: RememberOne, change: Callable[[App, str], None]
) -> None:
    """N3.1: superseded, retired, erased, revised, found wrong, failed; whatever stands on something else is not."""
    fact, decision, procedure = chain(remember)
    other = remember("Errors go to Sentry.", kind="decision", depends_on=(remember("Sentry is paid for.").id,)).id
    assert checks(app, decision, procedure, other) == [[], [], []]
    change(app, fact)
    assert checks(app, decision, procedure, other) == [[fact], [fact], []]


@pytest.mark.uncounted
def test_what_stands_on_dependents_is_told_with_its_steps(
    app: App, open_memory: Callable[..., App], remember: RememberOne
) -> None:
    """O4.2, S4.1: all that breaks with a record, also in its resource; none by way of what the caller does not see."""
    fact, decision, procedure = chain(remember)
    bob = open_memory(agent="bob")
    [private] = bob.remember(
        [NewRecord(text="Bob's own.", visibility="private", depends_on=(procedure,))], bob.caller()
    )
    beyond = remember(
        "Ann built on what Bob has.", depends_on=(remember("It is gone.", depends_on=(procedure,)).id,)
    ).id
    shown = app.inspect.footing(fact, app.caller())
    assert [each.id for each in shown.dependents] == [decision]
    assert {each.id: each.steps for each in shown.further}.items() >= {procedure: 2, beyond: 4}.items()
    assert private.id not in str(shown)
    assert private.id in str(bob.inspect.footing(fact, bob.caller()).further)
    resource: Any = show_account(app.inspect.record(fact, app.caller()), app.caller())
    told = [[each["id"] for each in resource[name]] for name in ("dependents", "further")]
    assert told == [[each.id for each in some] for some in (shown.dependents, shown.further)]
    assert "depends_on" not in resource
    retire(app, procedure)
    shown = app.inspect.footing(fact, app.caller())
    assert shown.further == []


def test_of_what_stands_on_dependents_a_bounded_part_is_told(
    app: App, remember: RememberOne, monkeypatch: pytest.MonkeyPatch
) -> None:
    """O4.2: so many steps, and so many records."""
    for name, most in (("FOOTING_SHOWN", 4), ("FURTHER_SHOWN", 6), ("FURTHER_STEPS", 3)):
        monkeypatch.setattr(overview, name, most)
    first = last = remember("Step 0.").id
    for number in range(1, 5):
        last = remember(f"Step {number} stands on the one before it.", depends_on=(last,)).id
    shown = app.inspect.footing(first, app.caller())
    assert [each.steps for each in shown.further] == [2, 3]
    fan = [NewRecord(text=f"Part {n} of the plan.", depends_on=(first,)) for n in range(4)]
    for each in app.remember(fan, app.caller()):
        app.remember([NewRecord(text=f"{each.id} {n} more", depends_on=(each.id,)) for n in range(4)], app.caller())
    shown = app.inspect.footing(first, app.caller())
    assert (len(shown.dependents), len(shown.further)) == (4, 4)


def test_a_record_is_shown_with_what_it_stands_on_and_what_stands_on_it(
    app: App, open_memory: Callable[..., App], remember: RememberOne, monkeypatch: pytest.MonkeyPatch
) -> None:
    """U1.1, S4.1: a bounded number of each, and how many more; nothing of other namespaces, agents and branches."""
    task = app.tasks.push(PushRequest(goal="ship"), app.caller()).current
    assert task
    fact, decision, procedure = chain(remember)
    mine = remember("It runs on the new host.", kind="decision", depends_on=(fact, task.id)).id
    bob = open_memory(agent="bob")
    [private] = bob.remember([NewRecord(text="Bob's.", visibility="private", depends_on=(fact,))], bob.caller())
    reword(app, fact)
    shown = app.inspect.footing(mine, app.caller())
    assert (shown.dependents, shown.depends_on_more, shown.dependents_more) == ([], 0, 0)
    assert shown.depends_on == [
        Support(id=fact, found=False, changed=True, kind="fact", text="Production runs Postgres 14.", status="new"),
        Support(id=task.id, found=False, changed=False, kind="task", text="ship", status="active"),
    ]
    shown = app.inspect.footing(fact, app.caller())
    assert [each.id for each in shown.dependents] == [mine, decision]
    shown = bob.inspect.footing(fact, bob.caller())
    assert [each.id for each in shown.dependents] == [private.id, mine, decision]
    shown = app.inspect.footing(decision, app.caller())
    assert ([each.id for each in shown.depends_on], shown.dependents[0].id) == ([fact], procedure)
    elsewhere = open_memory(namespace="elsewhere", inherit=("test",))
    shown = elsewhere.inspect.footing(mine, elsewhere.caller())
    assert [each.id for each in shown.depends_on] == [fact]  # The task belongs to another namespace.
    monkeypatch.setattr(overview, "FOOTING_SHOWN", 3)
    more = [NewRecord(text=f"Host {n} runs it.", depends_on=(fact,)) for n in range(6)]
    stored = app.remember(more, app.caller())
    shown = app.inspect.footing(fact, app.caller())
    assert [each.id for each in shown.dependents] == [each.id for each in stored[:2:-1]]
    assert shown.dependents_more == 5
    with pytest.raises(NotFound):
        app.inspect.footing(private.id, app.caller())


def test_a_change_that_says_nothing_else_raises_no_doubt(app: App, remember: RememberOne) -> None:
    """N3.1: used, pinned, met again, or restored as it was."""
    fact, decision, procedure = chain(remember)
    revise(app, fact, feedback="used", pinned=True, tags=("db",), importance=3.0)
    remember("Production runs Postgres 13.", caller=app.caller().in_session("another"))
    assert checks(app, decision, procedure) == [[], []]
    retire(app, fact)
    app.forget([fact], "restore", app.caller())
    assert checks(app, decision, procedure) == [[], []]


@pytest.mark.uncounted
@pytest.mark.parametrize("fields", [{"feedback": "helpful"}, {"status": "core"}, {}], ids=str)
def test_who_confirms_a_record_vouches_for_it_and_for_what_stands_on_it(
    app: App, remember: RememberOne, fields: dict[str, Any]
) -> None:
    """N3.1: the doubt came by way of it; another change raises another."""
    fact = remember("Production runs Postgres 13.").id
    middle = remember("Upserts use ON CONFLICT.", depends_on=(fact,)).id
    last = remember("Load into tmp, then upsert.", kind="procedure", depends_on=(middle,)).id
    revise(app, fact, text="Production runs Postgres 14.")
    if fields:
        revise(app, middle, **fields)
    else:
        remember("Upserts use ON CONFLICT.")
    assert checks(app, middle, last) == [[], []]
    revise(app, fact, text="Production runs Postgres 15.")
    assert checks(app, middle, last) == [[fact], [fact]]


def test_a_record_may_be_confirmed_while_what_it_stands_on_is_still_in_doubt(app: App, remember: RememberOne) -> None:
    """N3.1: an opinion on the end of the chain, which says nothing of its middle."""
    fact, decision, procedure = chain(remember)
    retire(app, fact)
    revise(app, procedure, feedback="succeeded")
    assert checks(app, decision, procedure) == [[fact], []]
    revise(app, decision, text="Upserts use MERGE.")
    assert checks(app, decision, procedure) == [[], [decision]]


def test_a_confirmed_record_stands_on_the_successor_of_its_ground(app: App, remember: RememberOne) -> None:
    """N3.1: what changed once may change again."""
    fact, decision, _ = chain(remember)
    newer = remember("Production runs Postgres 16.", supersedes=(fact,)).id
    revise(app, decision, feedback="used")
    assert checks(app, decision) == [[]]
    retire(app, newer)
    assert checks(app, decision) == [[newer]]


def test_a_failed_task_puts_what_stands_on_it_in_doubt(app: App, remember: RememberOne) -> None:
    """N3.1, W4.3: on the task, or on what was said in it; not on what was learnt meanwhile, nor what knew it."""
    task = app.tasks.push(PushRequest(goal="Move search to Redis"), app.caller()).current
    assert task is not None
    noted = remember("Redis answers in 2 ms.").id
    on_task = remember("Order Redis licences.", depends_on=(task.id,), visibility="user").id
    said = remember("Redis will do.", kind="message", role="user").id
    on_note = remember("Drop the query cache.", depends_on=(noted,), visibility="user").id
    on_said = remember("Stop the old cache.", depends_on=(said,), visibility="user").id
    app.tasks.pop(PopRequest(result="Too slow.", status="failed"), app.caller())
    assert checks(app, on_task, on_note, on_said) == [[task.id], [], [said]]
    assert checks(app, remember("Stay with Postgres.", depends_on=(task.id,)).id) == [[]]


def test_what_is_named_as_ground_must_be_there_and_hold(app: App, remember: RememberOne, open_memory: Any) -> None:
    """N3.1: an unknown one is refused, and one that was replaced is to be checked at once."""
    for unknown in ("r000zzz", "t000zzz"):
        with pytest.raises(NotFound, match=unknown):
            remember("Upserts use ON CONFLICT.", depends_on=(unknown,))
    old = remember("Production runs Postgres 13.").id
    supersede(app, old)
    assert checks(app, remember("Upserts use ON CONFLICT.", depends_on=(old,)).id) == [[old]]
    bob = open_memory(agent="bob")
    hidden = remember("Mine alone.", visibility="private").id
    with pytest.raises(NotFound):
        bob.remember([NewRecord(text="Theirs.", depends_on=(hidden,))], bob.caller())


def test_grounds_may_be_added_later_and_circles_end(app: App, remember: RememberOne) -> None:
    """N3.1: by telling the same text again; nothing stands on itself."""
    one = remember("The cache holds a day.").id
    two = remember("Prices are a day old.", depends_on=(one,)).id
    remember("The cache holds a day.", depends_on=(two, one))
    revise(app, one, text="The cache holds an hour.")
    assert checks(app, one, two) == [[], [one]]
    retire(app, one)
    remember("The cache holds an hour.", depends_on=(remember("Traffic is low.").id,))
    revise(app, two, text="Prices are an hour old.")
    assert checks(app, one) == [[two]]


def test_a_ground_that_the_reader_cannot_see_is_not_named(app: App, remember: RememberOne, open_memory: Any) -> None:
    """S2: whose record it is sees the doubt."""
    private = remember("The budget is 900.", visibility="private").id
    shared = remember("We buy two servers.", depends_on=(private,)).id
    retire(app, private)
    assert (checks(app, shared), checks(open_memory(agent="bob"), shared)) == ([[private]], [[]])


@pytest.mark.uncounted
def test_a_change_reaches_five_steps_and_three_grounds_are_named(app: App, remember: RememberOne) -> None:
    """N3.1: the doubt is bounded."""
    line = [remember("Step 0.").id]
    for number in range(1, 8):
        line.append(remember(f"Step {number}.", depends_on=line[-1:]).id)
    retire(app, line[0])
    assert [bool(each) for each in checks(app, *line[1:])] == [True] * 5 + [False] * 2
    many = [remember(f"Ground {i}.").id for i in range(4)]
    top = remember("On all of them.", depends_on=tuple(many)).id
    for each in many:
        retire(app, each)
    assert checks(app, top) == [many[:0:-1]]


def test_the_doubt_is_shown_wherever_the_record_is(app: App, remember: RememberOne, clock: "Clock") -> None:
    """N3.1: in recall and contexts, with the day."""
    fact, decision, _ = chain(remember)
    clock.advance(days=2)
    retire(app, fact)
    for request in (RecallRequest(query="upserts on conflict"), RecallRequest(kinds=("decision",))):
        (shown,) = [each for each in app.recall(request, app.caller()).results if each["id"] == decision]
        assert (shown["check"], shown["changed_at"]) == ([fact], "2026-11-22")
    block = app.assemble_context(ContextRequest(query="how do upserts work"), app.caller()).text
    assert f"Upserts use ON CONFLICT. (to be checked: {fact} changed 2026-11-22)" in block
    revise(app, decision, feedback="used")
    assert "to be checked" not in app.assemble_context(ContextRequest(query="upserts"), app.caller()).text


@pytest.mark.uncounted
@pytest.mark.parametrize(
    ("kind", "text", "details", "ground"),
    [
        ("decision", "Queue exports.", {"reasons": ["the vendor allows only 100 requests per minute"]}, "fact"),
        ("decision", "Queue exports, since the vendor allows 100 requests per minute.", {}, "fact"),
        ("procedure", "Run `make release`, then edit deploy/limits.yaml.", {}, "fact"),
        ("censor", "Do not exceed it.", {"reason": "T-118: the vendor bans whoever does"}, "episode"),
        ("fact", "According to T-118 the vendor is strict.", {}, "episode"),
    ],
)
def test_a_ground_is_found_in_the_words_of_reasons_guidance_and_results(
    app: App, remember: RememberOne, kind: Kind, text: str, details: dict[str, Any], ground: Kind
) -> None:
    """N3.1: nobody named it."""
    said = "Vendor API allows 100 requests per minute; see deploy/limits.yaml and T-118."
    known = remember(said, kind=ground).id
    for text_beside in ("Errors go to Sentry.", "The office is in Graz.", "The vendor's API speaks JSON."):
        remember(text_beside)
    found = remember(text, kind=kind, details=details).id
    retire(app, known)
    assert checks(app, found) == [[known]]


def test_what_was_found_in_earlier_words_goes_with_them(app: App, remember: RememberOne) -> None:
    """N3.1: what was given stays."""
    known = remember("The vendor allows 100 requests per minute.").id
    given = remember("Exports are slow.").id
    decision = remember(
        "Queue exports because the vendor allows 100 requests per minute.", kind="decision", depends_on=(given,)
    ).id
    revise(app, decision, text="Queue all exports because the vendor allows 100 requests per minute.")
    retire(app, known)
    assert checks(app, decision) == [[known]]
    revise(app, decision, text="Queue exports because users complain.")
    retire(app, given)
    assert checks(app, decision) == [[given]]
    app.forget([known], "restore", app.caller())
    assert checks(app, decision) == [[given]]


def test_dependence_comes_along_into_another_memory(app: App, remember: RememberOne, open_memory: Any) -> None:
    """S7.1: merged by what the records say; tasks stay where they are."""
    chain(remember)
    task = app.tasks.push(PushRequest(goal="Move to Postgres"), app.caller()).current
    assert task is not None
    remember("Order more disks.", depends_on=(task.id,))
    other = open_memory(folder="other")
    Merger(other.records, other.now, "ann")(
        [each for each in app.records.transfer().leave() if not isinstance(each, Origin)]
    )
    there = {str(r["text"]): str(r["id"]) for r in other.recall(RecallRequest(limit=50), other.caller()).results}
    retire(other, there["Production runs Postgres 13."])
    assert all(checks(other, there["Upserts use ON CONFLICT."], there["Load into tmp, then upsert."]))


def grounds(app: App) -> dict[str, tuple[WholeGround, ...]]:
    """What each record stands on, as an export has it."""
    whole = [each for each in app.records.transfer().leave() if isinstance(each, WholeRecord)]
    return {each.record.id: each.grounds for each in whole}


def waiting(app: App) -> list[tuple[str, tuple[str, ...]]]:
    while app.fill_queue.step():
        pass
    return [(each.review.kind, each.review.record_ids) for each in app.reviews.waiting(app.caller())]


def test_dependents_wait_for_a_review_behind_what_holds_now(app: App, remember: RememberOne) -> None:
    """N2.1, N3.1: by scope, so that whoever reads one reads all of the group."""
    fact, decision, _ = chain(remember)
    mine = remember("My upserts use MERGE.", depends_on=(fact,), visibility="private").id
    newer = remember("Production runs Postgres 16.", supersedes=(fact,)).id
    assert waiting(app) == [("dependents", (newer, mine)), ("dependents", (newer, decision))]
    groups = [each.review.id for each in app.reviews.waiting(app.caller())]
    app.settle(Settling(id=groups[0], settle="unrelated"), app.caller())
    assert checks(app, decision, mine) == [[fact], []]
    before = grounds(app)
    change = app.settle(Settling(id=groups[1], settle="both-true"), app.caller()).change
    assert checks(app, decision) == [[]]
    app.undo(change, app.caller())
    assert checks(app, decision, mine) == [[fact], []]
    assert grounds(app) == before


def test_dependents_of_what_is_gone_wait_alone(app: App, remember: RememberOne) -> None:
    """N2.1, N3.1: retired, erased."""
    fact, decision, procedure = chain(remember)
    retire(app, fact)
    erase(app, decision)
    assert waiting(app) == [("dependents", (procedure,))]


def test_an_undo_gives_back_the_doubt_and_the_grounds_of_earlier_words(app: App, remember: RememberOne) -> None:
    """N2.1: vouching is part of the write that it came with."""
    known = remember("The vendor allows 100 requests per minute.").id
    text = "Queue exports because the vendor allows 100 requests per minute."
    decision = remember(text, kind="decision").id
    retire(app, known)
    assert checks(app, decision) == [[known]]
    before = grounds(app)
    revise(app, decision, text="Queue exports because users complain.")
    assert checks(app, decision) == [[]]
    (version,) = app.records.versions([decision])[decision]
    app.undo(version.write, app.caller())
    assert checks(app, decision) == [[known]]
    assert grounds(app) == before
