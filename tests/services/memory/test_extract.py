"""What sessions taught becomes records of its own."""

from collections.abc import Callable
from typing import TYPE_CHECKING

import pytest

from mcp_memory.app import App
from mcp_memory.domain.model.scopes import RecordFilter
from mcp_memory.domain.model.tasks import FinalStatus
from mcp_memory.services.memory.forget import ForgetMode
from mcp_memory.services.memory.remember import Remembered
from mcp_memory.services.memory.revise import Revision
from mcp_memory.services.retrieval.recall import RecallRequest
from mcp_memory.services.tasks.task_stack import PopRequest, PushRequest
from tests.services.memory.outcomes import COMMIT, FIX, RULE, Sessions, everything, extracted

if TYPE_CHECKING:
    from tests.conftest import Clock

RememberOne = Callable[..., Remembered]


@pytest.fixture
def sessions(app: App, clock: "Clock") -> Sessions:
    return Sessions(app, clock)


def test_what_a_session_taught_is_kept_by_itself(app: App, sessions: Sessions, clock: "Clock") -> None:
    """D4.1: with whose it is, when it was, and the entry that it comes from."""
    here = app.caller("moving")
    app.tasks.push(PushRequest(goal="move the database"), here)
    given = {"speaker": "Ada", "visibility": "private", "importance": 9.0, "pinned": True, "tags": ("move",)}
    sources = [sessions.mended(here, **given), sessions.committed(here, **given), sessions.told(here, **given)]
    clock.advance(hours=1)
    stored = sessions.extract(here)
    records = extracted(app)
    assert {each.text: (each.kind, each.status, each.outcome) for each in records.values()} == {
        RULE: ("fact", "noted", None),
        COMMIT: ("episode", "noted", "success"),
        FIX: ("fact", "noted", None),
    }
    assert [each.id for each in records.values()] == stored
    origins = {each.id: each for each in everything(app)}
    assert {str(each.details["source"]) for each in records.values()} == set(sources)
    for each in records.values():
        source = origins[str(each.details["source"])]
        assert (each.scope, each.visibility, each.session_id, each.speaker, each.tags) == (
            source.scope, "private", "moving", "Ada", ("move",),
        )  # fmt: skip
        assert each.task_id == source.task_id is not None
        assert (each.occurred_at, each.created_at) == (source.occurred_at, clock.now)
        assert (each.importance, each.pinned, each.role, each.tool, each.call_id) == (1.0, False, None, None, None)
    found = app.recall(RecallRequest(query=COMMIT, kinds=("episode",)), here).results
    assert [each["text"] for each in found] == [f"{COMMIT} → success (noted, not confirmed)"]


def test_a_clients_summary_teaches_its_errors_and_fixes(app: App, remember: RememberOne, sessions: Sessions) -> None:
    """D10.1: without the tags of the summary; a second time nothing is new."""
    said = remember("4. Errors and fixes:\n- **Port taken**: 8443 was in use, now 8444", kind="summary", tags=("own",))
    summary = next(each for each in everything(app) if each.id == said.id)
    (noted,) = sessions.extracting.note([*sessions.extracting.drafts_of_summary(summary)])
    (fact,) = extracted(app).values()
    assert (fact.id, fact.text, fact.kind, fact.status, fact.tags) == (
        noted, "**Port taken**: 8443 was in use, now 8444", "fact", "noted", (),
    )  # fmt: skip
    assert sessions.extracting.note([*sessions.extracting.drafts_of_summary(summary)]) == ()


def test_nothing_is_taken_from_other_sentences(app: App, remember: RememberOne, sessions: Sessions) -> None:
    """D10.1: whoever says them, and of whatever kind; no rule for them is right often enough."""
    said = "The port is 5432. Never push to main. Raising the timeout did not help. Let's go with SQLite."
    for role in ("user", "assistant"):
        remember(said, kind="message", role=role)
    remember(RULE, kind="message", role="assistant")
    assert sessions.drafts(app.caller()) == []


def test_what_happened_twice_is_kept_once(app: App, sessions: Sessions) -> None:
    """D4.1, R2."""
    here = app.caller("here")
    sessions.committed(here)
    sessions.told(here)
    assert len(set(sessions.extract(here))) == 2
    assert sessions.extract(here) == [None, None]
    assert list(extracted(app)) == [RULE, COMMIT]


@pytest.mark.uncounted
def test_what_was_remembered_or_corrected_is_not_stored(app: App, remember: RememberOne, sessions: Sessions) -> None:
    """D4.1, R8: by the words of it, as a record of any kind outside the log."""
    remember(FIX.upper())
    old = remember(RULE, visibility="user")
    app.revise(Revision(id=old.id, text="The clock of the host will do."), app.caller())
    for visibility in ("private", "shared"):
        here = app.caller(visibility)
        sessions.mended(here, visibility=visibility)
        sessions.told(here, visibility=visibility)
        sessions.extract(here)
    assert {(each.visibility, each.text) for each in extracted(app).values()} == {("private", FIX)}


@pytest.mark.parametrize("status", ["failed", "abandoned", "complete"])
def test_of_a_task_that_failed_nothing_is_kept(app: App, sessions: Sessions, status: FinalStatus) -> None:
    """D4.1, T1.3, T2.2: what mended it may be wrong."""
    here = app.caller("here")
    app.tasks.push(PushRequest(goal="try it"), here)
    sessions.mended(here)
    sessions.extract(here, lambda: app.tasks.pop(PopRequest(result="so it went", status=status), here))
    assert list(extracted(app)) == ([FIX] if status == "complete" else [])


def test_of_a_call_that_failed_nothing_is_kept(app: App, sessions: Sessions) -> None:
    """D4.1, T1.3."""
    here = app.caller("here")
    source = sessions.mended(here)
    sessions.extract(here, lambda: app.revise(Revision(id=source, outcome="failure"), app.caller()))
    assert extracted(app) == {}


@pytest.mark.uncounted
@pytest.mark.parametrize("mode", ["erase", "retire"])
def test_nothing_is_kept_of_what_is_forgotten(app: App, sessions: Sessions, mode: ForgetMode) -> None:
    """D4.1, R9: also where that happens while it is made ready."""
    here = app.caller("here")
    sources = [sessions.mended(here), sessions.told(here)]
    assert sessions.extract(here, lambda: app.forget(sources, mode, app.caller())) == [None, None]


def test_what_an_entry_no_longer_says_is_not_kept(app: App, sessions: Sessions) -> None:
    """D4.1."""
    here = app.caller("here")
    source = sessions.told(here)
    assert sessions.extract(here, lambda: app.revise(Revision(id=source, text="Well."), app.caller())) == [None]


def test_what_was_extracted_from_an_entry_is_erased_with_it(app: App, sessions: Sessions) -> None:
    """D4.1, R9: of whatever kind, where it still has the words that it was extracted with."""
    here = app.caller("here")
    sources = [sessions.mended(here), sessions.committed(here)]
    commit, fix = sessions.extract(here)
    assert commit
    assert fix
    app.revise(Revision(id=fix, text="The clock is the database's."), here)
    assert app.forget(sources, "erase", app.caller()).extracted == (commit,)
    assert list(extracted(app)) == ["The clock is the database's."]


def test_what_only_a_branch_knows_comes_out_of_it(app: App, sessions: Sessions) -> None:
    """T4.3, R2: found outside of it as well, each is stored once."""
    inside, outside = app.caller("inside"), app.caller("outside")
    app.tasks.push(PushRequest(goal="try", branch=True), inside)
    for here in (inside, outside):
        sessions.mended(here)
        sessions.told(here)
    stored = sessions.extract(inside)
    assert all(each.branch_id for each in extracted(app).values())
    assert sessions.extract(outside) == stored
    assert [each.branch_id for each in extracted(app).values()] == [None, None]


def test_vectors_come_later(app: App, sessions: Sessions) -> None:
    """D4.1, S2.2: a compaction cannot wait for thousands."""
    here = app.caller("here")
    sessions.mended(here)
    sessions.extract(here)
    assert app.reindex.catch_up() == 1


def test_what_was_extracted_was_stored_in_no_session(
    app: App, sessions: Sessions, remember: RememberOne, clock: "Clock"
) -> None:
    """A2.1, C9.1: an old session is not the latest for being compacted, nor has the memory grown."""
    sessions.mended(app.caller("old"))
    clock.advance(hours=1)
    remember("Hello.", caller=app.caller("new"), kind="message", role="user")
    where = RecordFilter(scopes=app.caller().scopes)
    before = app.records.tally(where, 0.0).stored
    clock.advance(hours=1)
    sessions.extract(app.caller("old"))
    assert app.records.recent_sessions(where, 6)[0] == "new"
    assert app.records.tally(where, 0.0).stored == before
