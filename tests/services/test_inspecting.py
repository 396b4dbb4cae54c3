"""What memory holds, shown."""

from collections.abc import Callable

import pytest

from mcp_memory.app import App
from mcp_memory.domain.records import Entity, NewRecord, Relation
from mcp_memory.errors import NotFound
from mcp_memory.services.assemble_context import ContextRequest
from mcp_memory.services.given_out import KEPT, GivenOut
from mcp_memory.services.inspecting import LOG_SHOWN
from mcp_memory.services.recall import RecallRequest
from mcp_memory.services.remember import Remembered
from mcp_memory.services.revise import Revision
from mcp_memory.services.tasks import PushRequest

RememberOne = Callable[..., Remembered]


def test_status_counts_what_is_there(app: App, remember: RememberOne) -> None:
    """C9.1: an empty memory too."""
    empty = app.status(app.caller())
    assert (empty["records"], empty["statuses"], empty["tasks"], empty["sessions"]) == ({}, {}, {}, 0)
    old = remember("The port is 5432.")
    remember("The port is 6543.", supersedes=(old.id,), session_id="other")
    remember("Chosen.", kind="decision")
    app.tasks.push(PushRequest(goal="ship", plan=("test",)), app.caller())
    status = app.status(app.caller())
    assert status["records"] == {"decision": 1, "fact": 2}
    assert status["statuses"] == {"active": 1, "new": 1, "superseded": 1}
    assert status["tasks"] == {"active": 1, "planned": 1}
    assert (status["namespace"], status["agent"], status["sessions"]) == ("test", "default", 2)
    store = status["store"]
    assert isinstance(store, dict)
    assert store["revision"] == app.records.revision()
    assert store["bytes"] == sum(path.stat().st_size for path in app.settings.data_dir.glob("memory.db*"))


def test_a_record_is_shown_in_full_with_what_it_was(app: App, remember: RememberOne) -> None:
    """R8: earlier texts, counters, where it came from."""
    fact = remember("The port is 5432.", tags=("net",))
    app.revise(Revision(id=fact.id, text="The port is 6543.", feedback="used"), app.caller())
    shown = app.describe(fact.id, app.caller())
    assert (shown["text"], shown["status"], shown["tags"]) == ("The port is 6543.", "new", ["net"])
    assert shown["earlier"] == [{"until": "2026-11-20T12:00:00Z", "text": "The port is 5432."}]
    assert isinstance(shown["counters"], dict)
    assert shown["counters"]["used"] == 1
    with pytest.raises(NotFound, match="call `recall`"):
        app.describe("r00zzzz", app.caller())


def test_a_record_of_a_branch_is_not_shown_outside(
    app: App, open_memory: Callable[..., App], remember: RememberOne
) -> None:
    """T4.3: neither by id nor in its session."""
    trial = app.caller("trial")
    app.tasks.push(PushRequest(goal="try", branch=True), trial)
    hidden = remember("Only here.", trial)
    assert app.describe(hidden.id, trial)["text"] == "Only here."
    assert app.session_log("trial", trial)["session_id"] == "trial"
    bob = open_memory(agent="bob")
    for other in (bob.caller(), app.caller("elsewhere")):
        with pytest.raises(NotFound):
            bob.describe(hidden.id, other)
        with pytest.raises(NotFound, match="No session 'trial'"):
            bob.session_log("trial", other)
        assert bob.recall(RecallRequest(ids=(hidden.id,)), other).not_found == (hidden.id,)


def test_a_session_shows_its_entries_in_their_order(app: App) -> None:
    """T5.1: as many as a reader can use."""
    app.remember([NewRecord(text=f"turn {n}", kind="message") for n in range(3)], app.caller("talk"))
    log = app.session_log("talk", app.caller())
    assert isinstance(log["records"], list)
    assert [entry["text"] for entry in log["records"] if isinstance(entry, dict)] == ["turn 0", "turn 1", "turn 2"]
    assert LOG_SHOWN >= 100


def test_the_account_of_a_context_that_is_not_kept_is_refused(app: App, open_memory: Callable[..., App]) -> None:
    """B1.3, S4.1: nor one of another agent."""
    report = app.assemble_context(ContextRequest(), app.caller()).report
    assert app.context_report(report.id, app.caller())["id"] == report.id
    bob = open_memory(agent="bob")
    for who in (bob, open_memory(namespace="other")):
        with pytest.raises(NotFound, match="kept for two weeks"):
            who.context_report(report.id, who.caller())


def test_what_was_handed_out_is_remembered_within_bounds(app: App, open_memory: Callable[..., App]) -> None:
    """B11.1: whichever session read it, with or without its label; the oldest is forgotten first."""
    given = GivenOut()
    mine, other = app.caller("s0"), open_memory(agent="bob").caller()
    given.note(mine, [("r000001", "- [r000001 fact 2026-11-20] The port is 5432.")])
    assert given.find(app.caller("s1"), "the port is 5432") == "r000001"
    assert given.find(other, "The port is 5432.") is None
    given.note(mine, ((f"r{n}", f"text {n}") for n in range(KEPT)))
    assert given.find(mine, "The port is 5432.") is None
    assert given.find(mine, f"Text {KEPT - 1}") == f"r{KEPT - 1}"


def test_a_record_shows_the_entities_and_relations_given_with_it(app: App, remember: RememberOne) -> None:
    """R7: what the caller said of them."""
    relation = Relation(source="api", type="uses", target="Postgres", weight=0.5)
    entity = Entity(name="Postgres", type="database", properties={"version": 17})
    record = remember("The API uses Postgres.", entities=(entity,), relations=(relation,))
    shown = app.describe(record.id, app.caller())
    assert isinstance(shown["entities"], list)
    assert {"name": "Postgres", "type": "database", "properties": {"version": 17}} in shown["entities"]
    assert shown["relations"] == [{"source": "api", "type": "uses", "target": "Postgres", "weight": 0.5}]
