"""Who sees what of a session's log: summaries reach no further than what they tell of."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from mcp_memory.app import App
from mcp_memory.domain.model.records import NewRecord, Record
from mcp_memory.domain.model.scopes import Caller
from mcp_memory.entrypoints.server.record_answers import show_session
from mcp_memory.errors import SummaryIncomplete
from mcp_memory.services.memory.revise import Revision
from mcp_memory.services.retrieval.recall import RecallRequest
from mcp_memory.services.sessions.compact import CompactRequest
from mcp_memory.services.tasks.task_stack import PopRequest, PushRequest
from tests.conftest import Clock
from tests.services.memory.outcomes import Sessions
from tests.services.sessions.conversations import fed, session

SUMMARISE = CompactRequest(window=2_000, force=True, passes=("threshold",))
SECRET = NewRecord(kind="message", role="user", text="Zanzibar stays closed next year.", visibility="private")


@pytest.fixture
def caller(app: App) -> Caller:
    return app.caller("work")


@pytest.fixture
def bob(open_memory: Callable[..., App]) -> App:
    return open_memory(agent="bob")


def _summaries(app: App, caller: Caller) -> list[Record]:
    """The records of summaries that the caller sees, the oldest first."""
    answer = app.recall(RecallRequest(kinds=("summary",), include_inactive=True, max_tokens=50_000), caller)
    records = app.records.get([str(result["id"]) for result in answer.results], caller.scopes)
    return sorted(records.values(), key=lambda record: record.id)


def _stand_in(app: App, caller: Caller) -> str:
    return next(entry.id for entry in app.logs.log(caller).entries if entry.form == "summary")


def _open(app: App, entry_id: str, caller: Caller) -> list[str]:
    """The texts that an id of a log opens."""
    answer = app.recall(RecallRequest(ids=(entry_id,), detail="full", max_tokens=50_000, limit=500), caller)
    assert bool(answer.results) != bool(answer.not_found)
    return [str(result["text"]) for result in answer.results]


def _shown(app: App, caller: Caller) -> str:
    """All that the page of the caller's session shows."""
    stored = app.session_accounts.stored(caller.session_id, caller)
    return str(show_session(stored, app.log_standing(caller), caller))


@pytest.mark.uncounted
def test_a_summary_of_what_is_shared_is_opened_by_every_agent(app: App, caller: Caller, bob: App) -> None:
    """T5.1, S4.1: it names its id, which opens what it stands for, for whoever sees that."""
    fed(app, caller, 20)
    app.compact(SUMMARISE, caller)
    (summary,) = _summaries(bob, bob.caller())
    assert summary.visibility == "shared"
    assert session(1)[0].text in _open(bob, str(summary.details["replacement"]), bob.caller())
    elsewhere = replace(bob.caller(), namespace="elsewhere")
    assert _open(bob, str(summary.details["replacement"]), elsewhere) == []


@pytest.mark.uncounted
def test_a_summary_of_anything_private_is_private(app: App, caller: Caller, bob: App) -> None:
    """S4.1, D3.1: neither its record, nor its id, nor the page of its session shows it to another agent."""
    app.remember([SECRET], caller)
    fed(app, caller, 20)
    app.compact(SUMMARISE, caller)
    (summary,) = _summaries(app, caller)
    assert SECRET.text in summary.text
    assert summary.visibility == "private"
    entry_id = _stand_in(app, caller)
    assert SECRET.text in _open(app, entry_id, caller)
    for other in (bob.caller(), bob.caller("work")):
        assert _summaries(bob, other) == []
        assert _open(bob, entry_id, other) == []
        assert bob.recall(RecallRequest(ids=(entry_id, "x0")), other).not_found == (entry_id, "x0")
        found = bob.recall(RecallRequest(query="Is Zanzibar closed?", detail="full"), other)
        assert "Zanzibar" not in str(found.results)
    assert "Zanzibar" not in _shown(bob, bob.caller("work"))


def test_a_shared_summary_holds_beside_the_private_one_that_it_grew_into(app: App, caller: Caller, bob: App) -> None:
    """D6.2, S4.1: others still have the one that they see."""
    fed(app, caller, 20)
    app.compact(SUMMARISE, caller)
    app.remember([SECRET], caller)
    app.feed(session(40)[100:], caller)
    app.compact(SUMMARISE, caller)
    shared, private = _summaries(app, caller)
    assert (shared.visibility, shared.holds, private.visibility) == ("shared", True, "private")
    assert [summary.id for summary in _summaries(bob, bob.caller())] == [shared.id]
    app.compact(CompactRequest(undo=True), caller)
    assert [summary.holds for summary in _summaries(app, caller)] == [True, False]


def test_an_entry_that_becomes_private_takes_its_summary_along(
    app: App, caller: Caller, bob: App, clock: Clock
) -> None:
    """S4.1: and what was extracted from it, as long as it says its words."""
    source = Sessions(app, clock).mended(caller)
    fed(app, caller, 20)
    app.compact(SUMMARISE, caller)
    (summary,) = _summaries(bob, bob.caller())
    for visibility in ("private", "shared", "private"):  # Shown again, the message does not take its words along.
        app.revise(Revision(id=source, visibility=visibility), caller)
    assert _summaries(bob, bob.caller()) == []
    assert _open(bob, str(summary.details["replacement"]), bob.caller()) == []
    assert not any(record.details["source"] == source for record in _extracted(bob, bob.caller("work")))
    assert any(record.details["source"] == source for record in _extracted(app, caller))
    app.revise(Revision(id=app.logs.said(caller)[0].id, visibility="private"), caller)
    assert [each.visibility for each in _summaries(app, caller)] == ["private"]


def _extracted(app: App, caller: Caller) -> list[Record]:
    answer = app.recall(RecallRequest(kinds=("fact", "decision"), limit=100, max_tokens=50_000), caller)
    records = app.records.get([str(result["id"]) for result in answer.results], app.caller().scopes)
    return [record for record in records.values() if "source" in record.details]


@pytest.mark.uncounted
def test_a_summary_of_a_branch_is_seen_where_the_branch_is(app: App, caller: Caller) -> None:
    """T4.3: from the trunk neither its record, nor its text, nor what it opens, until the branch has ended."""
    branch = app.tasks.push(PushRequest(goal="try", branch=True), caller).path[-1]
    fed(app, caller, 20)
    app.tasks.push(PushRequest(goal="Something else"), app.caller("trunk"))
    app.compact(SUMMARISE, caller)
    (summary,) = _summaries(app, caller)
    entry_id, trunk = _stand_in(app, caller), app.caller("trunk")
    assert summary.branch_id == branch.id
    assert (_summaries(app, trunk), _open(app, entry_id, trunk)) == ([], [])
    assert session(1)[0].text in _open(app, entry_id, caller)
    app.tasks.pop(PopRequest(result="It works.", status="complete", task_id=branch.id), caller)
    assert [each.id for each in _summaries(app, trunk)] == [summary.id]
    assert _open(app, entry_id, trunk)


@pytest.mark.uncounted
def test_a_summary_made_outside_of_a_branch_that_it_tells_of_lies_in_the_branch(app: App, caller: Caller) -> None:
    """T4.3: its session has gone to another task meanwhile; what it covers decides."""
    root = app.tasks.push(PushRequest(goal="all of it"), caller).path[-1]
    branch = app.tasks.push(PushRequest(goal="try", branch=True), caller).path[-1]
    fed(app, caller, 20)
    app.tasks.push(PushRequest(task_id=root.id), caller)
    app.remember([NewRecord(kind="message", role="user", text="Let us wait for the others.")], caller)
    app.compact(SUMMARISE, caller)
    assert _summaries(app, caller) == []
    entry_id = _stand_in(app, caller)
    assert _open(app, entry_id, caller) == []
    assert entry_id not in _shown(app, caller)
    app.tasks.push(PushRequest(task_id=branch.id), caller)
    assert [each.branch_id for each in _summaries(app, caller)] == [branch.id]
    assert entry_id in _shown(app, caller)


def test_a_summary_of_two_branches_is_no_record_while_they_are_open(app: App, caller: Caller) -> None:
    """T4.3: nobody sees both; the log is compacted all the same, and the originals are found from their branches."""
    root = app.tasks.push(PushRequest(goal="all of it"), caller).path[-1]
    for part in range(2):
        app.tasks.push(PushRequest(goal=f"way {part}", parent_id=root.id, branch=True), caller)
        app.feed(session(20)[50 * part : 50 * (part + 1)], caller)
    app.compact(SUMMARISE, caller)
    assert _summaries(app, caller) == []
    assert [each.record_id for each in app.logs.stand_ins(caller) if each.entry.form == "summary"] == [None]
    app.compact(CompactRequest(undo=True), caller)
    assert len(app.logs.log(caller).entries) == 100


def test_secrets_in_a_callers_summary_are_cut_out(app: App, caller: Caller) -> None:
    """R4: before it is stored, in the log and as a record."""
    fed(app, caller, 20)
    asked = app.compact(replace(SUMMARISE, summarizer="caller"), caller).asked
    assert asked
    sections = ("Goal", "Constraints", "Key facts", "Current state", "Completed", "In progress", "Next steps")
    given = "\n".join(f"## {name}\n- none" for name in (*sections, "Decisions", "Dead ends"))
    given = given.replace(
        "- none",
        "- Old ports stay open: the key is AKIAIOSFODNN7QZKWMTR, and ghp_16C7e42F292c6912E7710c838347Ae178B4a.",
        1,
    )
    own = replace(SUMMARISE, summary=given, span=asked.span)
    with pytest.raises(SummaryIncomplete, match="leaves out"):
        app.compact(own, caller)
    app.compact(own, caller)
    texts = [entry.text for entry in app.logs.log(caller).entries] + [each.text for each in _summaries(app, caller)]
    assert any("the key is" in text for text in texts)
    assert not any("AKIA" in text or "ghp_16" in text for text in texts)
