"""What may enter a context: by what the query finds, by hand, by being at hand, and by the strategy's own rules."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest

from mcp_memory.app import App
from mcp_memory.domain.model.records import NewRecord
from mcp_memory.domain.model.requests import RecallRequest
from mcp_memory.services.context.assemble import ContextRequest
from mcp_memory.services.memory.remember import Remembered
from tests.services.tasks.moves import pop, push

if TYPE_CHECKING:
    from tests.conftest import Clock

RememberOne = Callable[..., Remembered]
DAY = 86_400.0


def assemble(app: App, **fields: Any) -> Any:
    return app.assemble_context(ContextRequest(**fields), app.caller())


def section(text: str, title: str) -> str:
    """What stands under a heading; empty where there is none."""
    return text.partition(f"\n## {title}\n")[2].partition("\n## ")[0]


def fates(app: App, **fields: Any) -> dict[str, str]:
    """Each candidate's reason, empty for what is shown."""
    report = assemble(app, **fields).report
    return {**{c.id: "" for c in report.components}, **{o.id: o.reason for o in report.omitted}}


@pytest.mark.uncounted
def test_the_newest_of_the_session_and_the_best_of_five_others_are_looked_at(app: App, clock: "Clock") -> None:
    """B3.2: by what has a share for them; at most 50 of its own, of another session 3 or its summary, no id twice."""
    for session in range(7):
        said = [
            NewRecord(
                text=f"Session {session} said {n}.", kind="episode", session_id=f"s{session}", importance=float(n)
            )
            for n in range(5)
        ]
        app.remember(said, app.caller())
        clock.advance(hours=1)
    app.remember([NewRecord(text="Session 6 in short.", kind="summary", session_id="s6", importance=0)], app.caller())
    own = [NewRecord(text=f"I said {n}.", kind="episode", session_id="mine") for n in range(60)]
    app.remember(own, app.caller(), advise=False)
    context = app.assemble_context(ContextRequest(strategy="coding", max_tokens=20_000), app.caller("mine"))
    assert "'recent': 63," in repr(context.report.metadata["candidates"])
    ids = [c.id for c in context.report.components]
    assert len(ids) == len(set(ids)) == 97
    recent = {c.text.partition("] ")[2] for c in context.report.components if c.source == "recent"}
    assert recent == {
        *(f"I said {n}." for n in range(10, 60)),
        *(f"Session {session} said {n}." for session in range(2, 6) for n in (2, 3, 4)),
        "Session 6 in short.",
    }


def test_constraints_apply_by_domain_or_trigger(app: App, remember: RememberOne) -> None:
    """C3.1: and the others are accounted for (B1.3)."""
    everywhere = remember("Never log passwords.", kind="censor")
    testing = remember("Never skip a test.", kind="censor", details={"domain": "testing"})
    deploys = remember(
        "Never on a Friday.", kind="censor", details={"domain": "releases", "trigger": "deploying", "action": "block"}
    )
    remember("The deploy fails with a time-out.", kind="episode")
    found = fates(app, query="why does the deploy fail?", strategy="debugging")
    assert [found[each.id] for each in (everywhere, testing, deploys)] == ["", "", ""]
    found = fates(app, query="what does the canteen serve?", strategy="question")
    assert [found[each.id] for each in (everywhere, testing, deploys)] == ["", *["does not apply here"] * 2]
    assert [fates(app)[each.id] for each in (everywhere, testing, deploys)] == ["", "", ""]


@pytest.mark.uncounted
def test_a_way_of_working_brings_its_questions(app: App, remember: RememberOne) -> None:
    """C3.1, C1.1, F8.2: as the current approach, where there is something to say and the way was asked for by name."""
    assert "Current Approach" not in assemble(app, query="why does the deploy fail?", strategy="debugging").text
    remember("The deploy fails with a time-out.", kind="episode")
    context = assemble(app, query="why does the deploy fail?", strategy="debugging")
    approach = section(context.text, "Current Approach")
    assert approach.startswith("- Finding out why something fails")
    assert "  - Has this failed before, and what helped then?" in approach
    assert ("strategy", "strategy:debugging") in [(c.kind, c.id) for c in context.report.components]
    picked = assemble(app, query="Fix the deploy, it fails with a time-out")
    assert picked.report.metadata["picked"] == "debugging"
    assert "Current Approach" not in picked.text
    remember("Grace owns the billing service.")
    asked = assemble(app, query="who owns the billing service?")
    assert "Grace" in asked.text
    assert asked.report.metadata["picked"] == "question"
    assert "Current Approach" not in asked.text
    assert "Current Approach" not in assemble(app, strategy="important").text


def test_what_is_not_relevant_is_dropped_however_fresh_and_successful(
    app: App, remember: RememberOne, clock: "Clock"
) -> None:
    """C4.2: the floor comes before the score."""
    old = remember("We chose Postgres for billing.", kind="decision", occurred_at=clock.now - 300 * DAY)
    fresh = remember("The canteen got a new oven.", kind="decision", outcome="success", importance=10, confidence=1.0)
    found = fates(app, query="Which database did we choose for billing?", strategy="question")
    assert found == {old.id: "", fresh.id: "below the relevance floor", "strategy:question": ""}


def test_a_strategy_may_keep_some_of_a_kind_below_the_floor_or_take_none_of_it(app: App, remember: RememberOne) -> None:
    """C4.2, C3.1: `least` and `limits`, here as a call gives them (A6.5)."""
    oven, soup = remember("The canteen pays its suppliers late."), remember("Soup is served on Mondays.")
    rules = {remember(f"Billing rule {n}: invoices go out on day {n}.", kind="decision").id for n in range(1, 5)}
    query = "When do billing invoices go out?"
    found = fates(app, query=query, strategy="decision")
    assert [found[oven.id], found[soup.id]] == ["below the relevance floor"] * 2
    nearest = assemble(app, query=query, strategy="decision", overrides={"least": {"fact": 1}})
    assert [line for line in nearest.text.splitlines() if line.endswith("(nearest known)")] == [
        line for line in nearest.text.splitlines() if oven.id in line
    ]
    none = assemble(app, query=query, strategy="decision", overrides={"limits": {"decision": 0}})
    assert {o.reason for o in none.report.omitted if o.id in rules} == {"no decisions under this strategy"}
    assert none.report.truncated


@pytest.mark.uncounted
def test_a_limit_leaves_no_room_empty_while_relevant_records_wait(app: App) -> None:
    """F5.2: beyond its limit a kind takes what all others leave, and nothing irrelevant comes in."""
    kinds = ("decision", "fact", "procedure")
    items = [
        NewRecord(text=f"Billing rule {n}: invoices of region {n} go out on day {n % 28}, by post.", kind=kinds[n % 3])
        for n in range(150)
    ]
    ovens = app.remember([NewRecord(text=f"The canteen got oven {n}.") for n in range(20)], app.caller())
    app.remember(items, app.caller())
    asked: dict[str, Any] = {"query": "On which day do the billing invoices of a region go out?", "max_tokens": 8_000}
    for strategy in ("decision", "question", "auto"):
        report = assemble(app, strategy=strategy, **asked).report
        shown = {part.id for part in report.components}
        assert len(shown - {f"strategy:{strategy}"}) == 150
        assert not shown & {oven.id for oven in ovens}
        assert not report.truncated
    small = assemble(app, strategy="decision", overrides={"limits": {"fact": 2}}, **asked | {"max_tokens": 1_000})
    assert small.report.truncated
    assert sum(part.kind == "fact" for part in small.report.components) <= 2


@pytest.mark.uncounted
def test_a_kind_that_others_crowd_out_is_looked_for_by_itself(app: App) -> None:
    """C3.1, C1.4: procedures are found among a hundred notes that say the same better."""
    notes = [f"Deploy note {n}: the deploy of service {n} went well." for n in range(150)]
    items = [NewRecord(text=text, kind="episode", session_id="old", importance=5) for text in notes]
    steps = "To deploy a service, build the image, run the smoke tests, then switch over."
    items.append(NewRecord(text=steps, kind="procedure", session_id="old", importance=0))
    how = app.remember(items, app.caller())[-1].id
    query = "deploy service note went well"
    least = {"least": {"procedure": 1}}
    assert fates(app, query=query, strategy="planning", overrides=least)[how] == ""
    assert how not in fates(
        app, query=query, strategy="planning", overrides={"limits": {"episode": 10}}, max_tokens=2_000
    )
    assert how not in fates(app, query=query, strategy="planning", kinds=("episode",), overrides=least)


def test_what_failed_is_left_out_where_the_strategy_says_so(app: App, remember: RememberOne) -> None:
    """C3.1: `support` promises nothing that failed; `coding` wants to know it; pinned or not."""
    worked = remember("Resetting the router helped with the slow line.", kind="episode", outcome="success")
    failed = remember("Changing the cable for the slow line.", kind="episode", outcome="failure")
    pinned = remember("Calling the slow line's operator.", kind="episode", outcome="failure", pinned=True)
    found = fates(app, query="the line is slow", strategy="support")
    assert found[worked.id] == ""
    assert [found[i] for i in (failed.id, pinned.id)] == ["failed, which the strategy leaves out"] * 2
    found = fates(app, query="the line is slow", strategy="coding")
    assert [found[each.id] for each in (worked, failed, pinned)] == ["", "", ""]


def test_what_is_at_hand_is_what_is_pinned_in_open_tasks_what_is_next_and_what_was_said_last(
    app: App, remember: RememberOne, clock: "Clock"
) -> None:
    """C1.5: the question before its answer; nothing of another conversation."""
    push(app, "release", plan=("announce it",))
    remember("The release manager is Ada.", pinned=True)
    push(app, "fix the build")
    remember("Pin numpy below 3.", pinned=True, kind="decision")
    remember("Why is it red?", kind="message", speaker="Ada", occurred_at=clock.now - 120)
    remember("Numpy 3 broke it.", kind="message", speaker="Bot", occurred_at=clock.now - 60)
    remember("An older word.", kind="message", occurred_at=clock.now - 900)
    context = assemble(app, query="what broke the build?")
    focus = section(context.text, "Current Focus")
    for line in ("The release manager is Ada.", "Pin numpy below 3.", "Why is it red?", "Numpy 3 broke it."):
        assert line in focus
    assert "An older word." not in focus
    assert focus.index("Why is it red?") < focus.index("Numpy 3 broke it.")
    assert "announce it" in section(context.text, "Task")
    assert {c.source for c in context.report.components if c.kind == "message"} >= {"exchange"}
    ids = [c.id for c in context.report.components]
    assert len(ids) == len(set(ids))
    clock.advance(hours=13)
    assert "Numpy 3 broke it." in section(assemble(app, query="what broke the build?").text, "Current Focus")
    pop(app, "pinned it")
    assert "Pin numpy below 3." not in section(assemble(app, query="what broke the build?").text, "Current Focus")


def test_a_session_without_words_of_its_own_goes_on_from_those_of_its_task(app: App, remember: RememberOne) -> None:
    """C1.5: what was said last in the task, by whichever session."""
    push(app, "fix the build")
    remember("Numpy 3 broke it.", kind="message", session_id="yesterday")
    text = app.assemble_context(ContextRequest(query="what broke the build?"), app.caller()).text
    assert "Numpy 3 broke it." in section(text, "Current Focus")
    only = ContextRequest(query="what broke the build?", kinds=("fact",))
    assert "Numpy" not in app.assemble_context(only, app.caller()).text


@pytest.mark.uncounted
def test_confidence_is_told_how_well_it_held_up(app: App, clock: "Clock") -> None:
    """C1.1: the calibration note, for whoever weighs decisions; not where they are filtered out."""
    decided = [
        NewRecord(
            text=f"Decision number {n}: use tool {n} for the billing export.", kind="decision", confidence=0.9,
            outcome="success" if n % 2 else "failure", occurred_at=clock.now - n * DAY,
        )
        for n in range(20)
    ]  # fmt: skip
    app.remember(decided, app.caller())
    query = "which tool for the billing export?"
    context = assemble(app, query=query, strategy="decision")
    note = section(context.text, "Note")
    assert "90" in note
    assert [c.id for c in context.report.components if c.kind == "note"] == ["note"]
    explained = assemble(app, query=query, strategy="decision", explain=True)
    assert explained.text.count("\n## Note\n") == 1
    for fields in ({"strategy": "decision", "kinds": ("fact",)}, {"strategy": "coding"}):
        assert "confidence" not in section(assemble(app, query=query, **fields).text, "Note")


@pytest.mark.uncounted
def test_what_a_finished_task_did_stays_out_and_its_result_comes_up(app: App, remember: RememberOne) -> None:
    """T2.2: in the parent's and the sibling's context; what was learnt there is a candidate everywhere."""
    push(app, "ship")
    push(app, "find the cause of the red build")
    remember("I tried the red build with numpy 2.", kind="episode")
    remember("stdout of the red build: 3 errors", kind="tool_result", tool="pytest")
    remember("Is the build red because of numpy?", kind="message")
    learnt = remember("The red build needs numpy below 3.")
    pop(app, "numpy 3 broke it")
    for _ in range(2):  # In the parent, then in a sibling.
        context = assemble(app, query="red build numpy")
        kinds = {c.kind for c in context.report.components}
        assert kinds & {"episode", "tool_result", "message"} == set()
        assert {o.reason for o in context.report.omitted if o.id.startswith("r")} == {"shown as a task"}
        assert "find the cause of the red build → numpy 3 broke it" in context.text
        assert learnt.id in {c.id for c in context.report.components}
        push(app, "write it down")


@pytest.mark.uncounted
def test_what_was_learnt_in_a_failed_task_is_marked(app: App, remember: RememberOne) -> None:
    """F7, W4.3: what was said of the attempt is; its result says it itself, and what was learnt did not fail."""
    push(app, "speed up the search")
    remember("The search index fits into memory.")
    remember("The search index grew by half today.", kind="message", role="user")
    pop(app, "no faster: the search index is read once", status="failed")
    remember("The search index is rebuilt at night.")
    lines = section(assemble(app, query="search index").text, "Known Information").splitlines()
    assert sorted(line.partition("] ")[2] for line in lines if line.startswith("- ")) == [
        "The search index fits into memory.",
        "The search index is rebuilt at night.",
    ]
    everywhere = app.recall(RecallRequest(query="search index"), app.caller()).results
    assert [str(each["text"]) for each in everywhere if "task failed" in str(each["text"])] == [
        "The search index grew by half today. (task failed: speed up the search)"
    ]
    assert "(task failed)" not in section(assemble(app, query="search index").text, "Earlier Tasks")
    first = assemble(app, query="search index", strategy="coding")
    follow_up = assemble(app, query="search index", strategy="coding", previous=first.report.id)
    assert follow_up.report.metadata["follow_up"] == "unchanged"


def test_a_small_context_spends_nothing_on_the_note_on_confidence(app: App, clock: "Clock") -> None:
    judged = [
        NewRecord(text=f"Decision {n}: tool {n}.", kind="decision", confidence=0.9, outcome="success") for n in range(9)
    ]
    app.remember(judged, app.caller())
    for budget, is_there in ((300, False), (4_000, True)):
        context = assemble(app, query="which tool?", strategy="decision", max_tokens=budget)
        assert bool(section(context.text, "Note")) is is_there
