"""What memory holds, shown."""

from collections.abc import Callable
from dataclasses import asdict
from typing import Any

import pytest

from mcp_memory.app import App
from mcp_memory.domain.model.health_figures import LEAST_FACTS
from mcp_memory.domain.model.lifecycle import DAY_SECONDS
from mcp_memory.domain.model.records import Entity, NewRecord, Relation
from mcp_memory.domain.model.scopes import RecordFilter
from mcp_memory.entrypoints.server.record_answers import show_account, show_connections
from mcp_memory.entrypoints.server.status_answers import show_status
from mcp_memory.errors import NotFound
from mcp_memory.services.context.assemble import ContextRequest
from mcp_memory.services.memory.remember import Remembered
from mcp_memory.services.memory.revise import Revision
from mcp_memory.services.retrieval.recall import RecallRequest
from mcp_memory.services.sessions.session_account import LOG_SHOWN
from mcp_memory.services.tasks.task_stack import PushRequest
from tests.conftest import Clock

RememberOne = Callable[..., Remembered]


def test_status_counts_what_is_there(app: App, remember: RememberOne) -> None:
    """C9.1: an empty memory too."""
    empty = show_status(app.status(app.caller()))
    assert (empty["records"], empty["statuses"], empty["tasks"], empty["sessions"]) == ({}, {}, {}, 0)
    old = remember("The port is 5432.")
    remember("The port is 6543.", supersedes=(old.id,), session_id="other")
    remember("Chosen.", kind="decision")
    app.tasks.push(PushRequest(goal="ship", plan=("test",)), app.caller())
    status = show_status(app.status(app.caller()))
    assert status["records"] == {"decision": 1, "fact": 2}
    assert status["statuses"] == {"recorded": 1, "new": 1, "superseded": 1}
    assert status["tasks"] == {"active": 1, "planned": 1}
    assert (status["namespace"], status["agent"], status["sessions"]) == ("test", "default", 2)
    health, whole = app.health(app.caller()), app.status(app.caller())
    facts = asdict(health.memory.summary)
    assert facts.items() <= asdict(whole.memory.summary).items(), "both tell the same of the store"
    assert (health.memory.waiting, health.memory.figures) == (whole.memory.waiting, whole.memory.figures)
    store = status["store"]
    assert isinstance(store, dict)
    assert store["revision"] == app.records.revision()
    assert str(store["engine"]).startswith("SQLite 3.")
    assert store["bytes"] == sum(path.stat().st_size for path in app.settings.data_dir.glob("memory.db*"))


def figures_of(app: App) -> dict[str, tuple[object, object]]:
    """Value and verdict of every figure of health in status."""
    health: Any = show_status(app.status(app.caller()))["health"]
    return {name: (figure["value"], figure["verdict"]) for name, figure in health.items()}


@pytest.mark.uncounted
def test_status_says_how_well_memory_serves(app: App, remember: RememberOne, clock: Clock) -> None:
    """C9.1: each figure beside its band, absent where nothing is known."""
    assert figures_of(app) == {
        "context_relevance": (None, None),
        "budget_utilisation": (None, None),
        "refresh_rate": (None, None),
        "used_share": (None, None),
        "cold_build_ms": (None, None),
        "growth_7_days": (0, None),
        "fact_confirmation_rate": (None, None),
        "brier_score": (None, None),
    }
    old = remember("The port of the database is 5432.")
    clock.advance(days=8)
    assert remember("The port of the database is 5432.", app.caller("later")).id == old.id
    remember("Invoices are due in May.")
    app.remember([NewRecord(text=f"Crate {n} holds pears.") for n in range(LEAST_FACTS - 2)], app.caller())
    decision = remember("Use Postgres.", kind="decision", confidence=0.9)
    app.revise(Revision(id=decision.id, outcome="failure", feedback="ignored"), app.caller())
    app.revise(Revision(id=old.id, feedback="used"), app.caller())
    context = app.assemble_context(ContextRequest(query="port of the database", max_tokens=1_000), app.caller())
    figures = figures_of(app)
    assert figures["context_relevance"][0] == context.report.metadata["relevance"]
    assert figures["budget_utilisation"] == (context.report.metadata["utilisation"], None), "one is too few"
    assert figures["used_share"] == (0.5, None)
    assert isinstance(figures["cold_build_ms"][0], float)
    assert figures["growth_7_days"] == (LEAST_FACTS, None)
    assert figures["fact_confirmation_rate"] == (0.1, None), "nine of them are new"
    assert figures["brier_score"] == (0.81, None)
    health: Any = show_status(app.status(app.caller()))["health"]
    assert health["used_share"] == {"value": 0.5, "target": "> 0.4", "verdict": None}
    clock.advance(days=8)
    assert figures_of(app)["fact_confirmation_rate"] == (0.1, "below")


def test_status_says_how_often_follow_ups_were_rebuilt(app: App, remember: RememberOne) -> None:
    """C9.1: of all turns, also of those that found their context unchanged."""
    for text in ("The cat sleeps on the sofa.", "Invoices are due in May."):
        remember(text)
    first = app.assemble_context(ContextRequest(query="Where does the cat sleep?"), app.caller()).report
    other = ContextRequest(query="When are invoices due?", previous=first.id)
    second = app.assemble_context(other, app.caller()).report
    assert second.metadata["follow_up"] == "rebuilt"
    assert figures_of(app)["refresh_rate"] == (1.0, None)
    for _ in range(19):
        app.assemble_context(ContextRequest(query="When are invoices due?", previous=second.id), app.caller())
    assert figures_of(app)["refresh_rate"] == (0.05, "inside")


def test_status_counts_which_strategies_are_used(app: App, open_memory: Callable[..., App], clock: Clock) -> None:
    """A7.2, S4.1: for `auto` also by what it picked; of this agent alone, for two weeks."""
    bob = open_memory(agent="bob")
    bob.assemble_context(ContextRequest(strategy="clustered", query="bob's"), bob.caller())
    for strategy, query in (("recent", ""), ("recent", ""), ("important", ""), ("auto", "Why does the test fail?")):
        app.assemble_context(ContextRequest(strategy=strategy, query=query), app.caller())
    picked = app.assemble_context(ContextRequest(query="Why does the test fail?"), app.caller()).report
    assert show_status(app.status(app.caller()))["contexts"] == {
        "days": 14,
        "given": 5,
        "strategies": {"auto": 2, "important": 1, "recent": 2},
        "picked": {str(picked.metadata["picked"]): 2},
    }
    clock.advance(days=14, seconds=1)
    assert show_status(app.status(app.caller()))["contexts"] == {"days": 14, "given": 0, "strategies": {}, "picked": {}}


@pytest.mark.uncounted
def test_no_figure_tells_of_what_others_keep_for_themselves(
    app: App, open_memory: Callable[..., App], remember: RememberOne
) -> None:
    """S4.1, C9.1: neither private records, nor open branches, nor another agent's contexts."""
    remember("The port is 5432.")
    before = figures_of(app)
    bob = open_memory(agent="bob")
    private = NewRecord(text="Bob's own", visibility="private", kind="decision", confidence=0.5, outcome="failure")
    mine = bob.remember([private], bob.caller())[0]
    bob.revise(Revision(id=mine.id, feedback="used"), bob.caller())
    bob.tasks.push(PushRequest(goal="try", branch=True), bob.caller())
    bob.remember([NewRecord(text="Only in the branch.")], bob.caller())
    bob.assemble_context(ContextRequest(query="port"), bob.caller())
    assert figures_of(app) == before


@pytest.mark.uncounted
def test_a_status_that_tells_something_is_shown(app: App, remember: RememberOne, clock: "Clock") -> None:
    """C8.2, C8.3, C8.4: what failed, what blocks and what is old; the usual course of a life is not."""
    procedure = remember("Restart it.", kind="procedure")
    assert "status" not in app.recall(RecallRequest(ids=(procedure.id,)), app.caller()).results[0]
    for _ in range(5):
        app.revise(Revision(id=procedure.id, feedback="failed"), app.caller())
    censor = remember("Do not push.", kind="censor")
    for _ in range(3):
        app.revise(Revision(id=censor.id, feedback="triggered"), app.caller())
    episode = remember("We met.", kind="episode")
    clock.advance(days=31)
    app.maintain.step()
    for record, status in ((procedure, "ineffective"), (censor, "escalated"), (episode, "summarized")):
        assert app.recall(RecallRequest(ids=(record.id,)), app.caller()).results[0]["status"] == status
    clock.advance(days=90)  # Since it was opened.
    app.maintain.step()
    assert app.recall(RecallRequest(ids=(episode.id,)), app.caller()).results[0]["status"] == "archived"
    context = app.assemble_context(ContextRequest(query="How do I restart it?"), app.caller())
    assert "Restart it. (ineffective)" in context.text


def test_a_record_is_shown_in_full_with_what_it_was(app: App, remember: RememberOne) -> None:
    """R8: earlier texts, counters, where it came from."""
    fact = remember("The port is 5432.", tags=("net",))
    app.revise(Revision(id=fact.id, text="The port is 6543.", feedback="used"), app.caller())
    shown = show_account(app.inspect.record(fact.id, app.caller()), app.caller())
    assert (shown["text"], shown["status"], shown["tags"]) == ("The port is 6543.", "new", ["net"])
    assert shown["earlier"] == [{"until": "2026-11-20T12:00:00Z", "text": "The port is 5432.", "by": "default"}]
    assert isinstance(shown["counters"], dict)
    assert shown["counters"]["used"] == 1
    with pytest.raises(NotFound, match="call `recall`"):
        app.inspect.record("r00zzzz", app.caller())


def test_a_record_of_a_branch_is_not_shown_outside(
    app: App, open_memory: Callable[..., App], remember: RememberOne
) -> None:
    """T4.3: neither by id nor in its session."""
    trial = app.caller("trial")
    app.tasks.push(PushRequest(goal="try", branch=True), trial)
    hidden = remember("Only here.", trial)
    assert app.inspect.record(hidden.id, trial).record.text == "Only here."
    assert app.session_accounts.stored("trial", trial).session_id == "trial"
    bob = open_memory(agent="bob")
    for other in (bob.caller(), app.caller("elsewhere")):
        with pytest.raises(NotFound):
            bob.inspect.record(hidden.id, other)
        with pytest.raises(NotFound, match="No session 'trial'"):
            bob.session_accounts.stored("trial", other)
        assert bob.recall(RecallRequest(ids=(hidden.id,)), other).not_found == (hidden.id,)


def test_a_session_shows_its_entries_in_their_order(app: App) -> None:
    """T5.1: as many as a reader can use."""
    app.remember([NewRecord(text=f"turn {n}", kind="message") for n in range(3)], app.caller("talk"))
    stored = app.session_accounts.stored("talk", app.caller())
    assert [each.text for each in stored.records] == ["turn 0", "turn 1", "turn 2"]
    assert LOG_SHOWN >= 100


def test_the_account_of_a_context_that_is_not_kept_is_refused(app: App, open_memory: Callable[..., App]) -> None:
    """B1.3, S4.1: nor one of another agent."""
    report = app.assemble_context(ContextRequest(), app.caller()).report
    assert app.inspect.context(report.id, app.caller()).id == report.id
    bob = open_memory(agent="bob")
    for who in (bob, open_memory(namespace="other")):
        with pytest.raises(NotFound, match="kept for two weeks"):
            who.inspect.context(report.id, who.caller())


def test_a_record_shows_the_entities_and_relations_given_with_it(app: App, remember: RememberOne) -> None:
    """R7: what the caller said of them."""
    relation = Relation(source="api", type="uses", target="Postgres", weight=0.5)
    entity = Entity(name="Postgres", type="database", properties={"version": 17})
    record = remember("The API uses Postgres.", entities=(entity,), relations=(relation,))
    shown = show_account(app.inspect.record(record.id, app.caller()), app.caller())
    assert isinstance(shown["entities"], list)
    assert {"name": "Postgres", "type": "database", "properties": {"version": 17}} in shown["entities"]
    assert shown["relations"] == [{"source": "api", "type": "uses", "target": "Postgres", "weight": 0.5}]


def test_a_thing_is_shown_with_its_connections(app: App, remember: RememberOne) -> None:
    """O4.2: an entity by any of its names, a record by its id; and all that depends on it."""
    acme = Entity(name="Acme Foods", properties={"aliases": ["AF"]})
    relation = Relation(source="Acme Foods", type="uses", target="tide-api")
    first = remember("Acme Foods came in spring.", entities=(acme,), relations=(relation,)).id
    second = remember("Keep their orders apart.", depends_on=(first,)).id
    third = remember("Run two queues.", kind="procedure", depends_on=(second,)).id
    shown: Any = show_connections(app.inspect.connections("af", app.caller()))
    assert shown["name"] == "Acme Foods"
    assert shown["records"] == [{"id": first, "kind": "fact", "text": "Acme Foods came in spring."}]
    assert [each["target"] for each in shown["relations"]] == ["tide-api"]
    assert ([each["id"] for each in shown["dependents"]], [each["id"] for each in shown["further"]]) == (
        [second],
        [third],
    )
    other: dict[str, Any] = show_connections(app.inspect.connections(second, app.caller()))
    assert (other["id"], other["depends_on"][0]["id"], other["dependents"][0]["id"]) == (second, first, third)
    assert "further" not in other
    with pytest.raises(NotFound, match="Nothing here names 'Zeta'"):
        app.inspect.connections("Zeta", app.caller())


def test_two_things_are_shown_with_the_path_between(
    app: App, open_memory: Callable[..., App], remember: RememberOne
) -> None:
    """O4.2, S4.1: names and ids; also through a single record."""
    first = remember("Acme Foods uses `tide_api`.").id
    second = remember("INC-7 began in `tide_api`.").id
    tie, records = app.inspect.tie("acme foods", "INC-7", app.caller())
    assert tie == f"Acme Foods → {first} → tide_api → {second} → INC-7"
    assert [each.id for each in records] == [first, second]
    assert app.inspect.tie("INC-7", "tide_api", app.caller())[0] == f"INC-7 → {second} → tide_api"
    assert app.inspect.tie(first, second, app.caller())[0] == f"{first} → tide_api → {second}"
    remember("Nothing ties Zeta Labs to it.")
    with pytest.raises(NotFound, match="ties 'Zeta Labs' to 'INC-7'"):
        app.inspect.tie("Zeta Labs", "INC-7", app.caller())
    elsewhere = open_memory(namespace="elsewhere")
    with pytest.raises(NotFound, match="Nothing here names"):
        elsewhere.inspect.tie("acme foods", "INC-7", elsewhere.caller())


def test_status_names_topics(app: App, remember: RememberOne) -> None:
    """O4.2: by the spelling of their entities, the most linked first."""
    assert app.inspect.status(app.caller()).topics == []
    for number in range(4):
        remember(f"Kafka feeds Redis on host {number}.")
    remember("And Redis is slow.")
    assert app.inspect.status(app.caller()).topics == [["Redis", "Kafka"]]
    [topic] = app.inspect.topics(app.caller(), 3, 2)
    assert (topic.names, topic.together, topic.more) == (["Redis", "Kafka"], [("Kafka", "Redis", 4)], 0)
    [topic] = app.inspect.topics(app.caller(), 3, 1)
    assert (topic.names, topic.together, topic.more) == (["Redis"], [], 1)


def test_records_are_listed_in_both_orders_and_counted_by_period(app: App, remember: RememberOne, clock: Clock) -> None:
    """U1.1: in the order they came in, or happened; what came in by weeks."""
    began = clock.now
    old = remember("We met.", kind="event", occurred_at=clock.now)
    clock.advance(days=8)
    new = remember("The port is 5432.", occurred_at=began - 99)
    caller, shown = app.caller(), app.inspect
    assert [each.id for each in shown.arrivals(caller, ("fact", "event"), 9)] == [new.id, old.id]
    [first] = shown.arrivals(caller, ("fact", "event"), 9, 1)
    assert (first.id, first.agent, first.created_at, first.imported_at) == (old.id, caller.agent, began, None)
    assert [each.id for each in shown.listed(RecordFilter(scopes=()), caller, 9)] == [old.id, new.id]
    assert shown.stored_by_period(caller, began - 1, 7 * DAY_SECONDS) == {0: 1, 1: 1}
    assert shown.count_all() == 2


def test_a_record_is_shown_as_it_was_and_whether_somebody_changed_it(app: App, remember: RememberOne) -> None:
    """U2.1: versions are read a few at a time."""
    caller = app.caller()
    record = remember("The port is 0.")
    first = app.inspect.visible(record.id, caller)
    for port in range(1, 7):
        app.revise(Revision(id=record.id, text=f"The port is {port}."), caller)
    versions = [*app.inspect.versions(record.id)]
    assert [each.before["text"] for each in versions] == [f"The port is {port}." for port in reversed(range(6))]
    assert [*app.inspect.versions(record.id, versions[1].change)] == versions[2:]
    now, was, is_changed = app.inspect.since(record.id, first.changed, caller)
    assert (now.text, was.text, is_changed) == ("The port is 6.", first.text, True)
    assert app.inspect.since(record.id, now.changed, caller) == (now, now, False)
    assert app.undo.beside(record.id, versions[0].write, caller) == 0
    assert app.inspect.neighbourhood(now, caller).near == []
