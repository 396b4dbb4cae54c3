"""What a session taught is noted: its own until something confirms it."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from mcp_memory.app import App
from mcp_memory.domain.context.rendering import record_line
from mcp_memory.domain.model.records import Record
from mcp_memory.domain.model.scopes import Caller, RecordFilter
from mcp_memory.entrypoints.server.record_answers import show_account
from mcp_memory.errors import NotFound
from mcp_memory.ports.transfer import Origin
from mcp_memory.services.context.assemble import ContextRequest
from mcp_memory.services.memory.extract import Extractor, LearntDraft
from mcp_memory.services.memory.merge import Merger
from mcp_memory.services.memory.remember import Remembered
from mcp_memory.services.memory.revise import Revision
from mcp_memory.services.retrieval.recall import RecallRequest
from mcp_memory.services.tasks.task_stack import PushRequest
from tests.services.memory.outcomes import FIX, Sessions

if TYPE_CHECKING:
    from tests.conftest import Clock

RememberOne = Callable[..., Remembered]
OpenMemory = Callable[..., App]
QUERY = "why did pytest fail on the clock"


@pytest.fixture
def here(app: App) -> Caller:
    return app.caller("here")


@pytest.fixture
def state(app: App, clock: "Clock") -> Callable[[Caller], list[str | None]]:
    """Log a failure and its fix in a session, and extract it; return what was stored."""
    sessions = Sessions(app, clock)

    def state_it(caller: Caller) -> list[str | None]:
        sessions.mended(caller)
        return sessions.extract(caller)

    return state_it


State = Callable[[Caller], list[str | None]]


@pytest.fixture
def noted(state: State, here: Caller) -> str:
    (record_id,) = state(here)
    assert record_id
    return record_id


def stored(app: App, record_id: str) -> Record:
    return app.records.get([record_id], app.caller().scopes)[record_id]


def sees(app: App, record_id: str, caller: Caller) -> set[str]:
    """The ways in which the caller comes across the record."""
    found = {
        "recall": app.recall(RecallRequest(query=QUERY, kinds=("fact",)), caller).results,
        "list": app.recall(RecallRequest(kinds=("fact",)), caller).results,
        "id": app.recall(RecallRequest(ids=(record_id,)), caller).results,
        "log": app.session_accounts.stored("here", caller).records,
    }
    ways = {name for name, results in found.items() if record_id in str(results)}
    context = app.assemble_context(ContextRequest(query=QUERY, max_tokens=2_000), caller)
    return ways | ({"context"} if record_id in context.text else set[str]())


@pytest.mark.uncounted
def test_only_its_session_sees_it(app: App, noted: str, here: Caller, remember: RememberOne) -> None:
    """D10.1: not another session, nor another agent in one of the same name, nor another project."""
    assert sees(app, noted, here) == {"recall", "list", "id", "log"}
    bob = Caller(namespace=here.namespace, agent="bob", session_id="here", named_session=True)
    for other in (app.caller("there"), bob):
        assert sees(app, noted, other) == set()
        with pytest.raises(NotFound):
            app.inspect.record(noted, other)
        with pytest.raises(NotFound):
            app.revise(Revision(id=noted, feedback="used"), other)
        with pytest.raises(NotFound):
            app.tasks.push(PushRequest(goal="try", inherit=(noted,)), other)
    elsewhere = Caller(namespace="elsewhere", agent=here.agent, session_id="here", named_session=True)
    assert app.recall(RecallRequest(query=QUERY), elsewhere).results == ()
    assert app.inspect.status(app.caller("there")).summary.statuses == {"active": 7}
    assert app.inspect.status(here).summary.statuses == {"active": 7, "noted": 1}
    assert noted not in remember(FIX.upper(), caller=app.caller("there")).similar


@pytest.mark.uncounted
def test_the_graph_holds_it_once_it_is_confirmed(app: App, noted: str, here: Caller, remember: RememberOne) -> None:
    """D10.1: what it mentions leads nobody to it before."""
    other = remember("The file src/clock.py is old.", caller=app.caller("there"))

    def near() -> str:
        return str(show_account(app.inspect.record(other.id, app.caller("there")), app.caller("there"))["near"])

    assert noted not in near()
    app.revise(Revision(id=noted, feedback="used"), here)
    assert noted in near()


@pytest.mark.uncounted
def test_no_context_holds_it_nor_a_reminder(app: App, noted: str, here: Caller) -> None:
    """D10.1: not even its own session's, whatever asks for it; once it is confirmed both do."""
    app.tasks.push(PushRequest(goal="mend the clock", inherit=(noted,)), here)
    app.revise(Revision(id=noted, pinned=True), here)
    asked = (QUERY, FIX, "")

    def shown() -> list[bool]:
        blocks = [app.assemble_context(ContextRequest(query=each, max_tokens=2_000), here).text for each in asked]
        return [*(noted in each for each in blocks), noted in app.remind(FIX, (), 500, here).ids]

    assert shown() == [False] * 4
    app.revise(Revision(id=noted, feedback="helpful"), here)
    assert shown() == [True] * 4


@pytest.mark.uncounted
def test_it_never_stands_beside_its_source(app: App, noted: str, here: Caller, remember: RememberOne) -> None:
    """D10.1: neither in an answer nor in a list, whose pages go on behind it."""
    source = stored(app, noted).details["source"]
    requests = (RecallRequest(query=QUERY), RecallRequest(), RecallRequest(before=""))
    for request in requests:
        ids = [each["id"] for each in app.recall(request, here).results]
        assert (source in ids, noted in ids) == (True, False)
    listed = app.recall(RecallRequest(), here).results
    paged: list[object] = []
    request = RecallRequest(limit=3)
    while True:
        page = app.recall(request, here)
        paged += [each["id"] for each in page.results if each["id"] != noted]
        if page.next_offset is None:
            break
        request = replace(request, offset=page.next_offset)
    assert paged == [each["id"] for each in listed]
    few = app.recall(RecallRequest(limit=6, max_tokens=120), here)
    assert few.next_offset is not None
    rest = app.recall(RecallRequest(offset=few.next_offset), here)
    assert [each["id"] for each in (*few.results, *rest.results) if each["id"] != noted] == paged
    app.revise(Revision(id=noted, feedback="used"), here)
    assert noted in [each["id"] for each in app.recall(RecallRequest(query=QUERY), here).results]


def test_its_lines_say_that_nobody_confirmed_it(app: App, noted: str, here: Caller) -> None:
    """D10.1."""
    [shown] = app.recall(RecallRequest(ids=(noted,)), here).results
    assert shown["status"] == "noted"
    assert "noted, not confirmed" in record_line(stored(app, noted), FIX, "full")


def test_it_opens_by_id_for_a_call_that_names_no_session(app: App, noted: str) -> None:
    """D10.1: an agent opens by id what it stored; it is not listed."""
    assert sees(app, noted, app.caller()) == {"id"}


Confirm = Callable[[App, str, Caller, State], object]
CONFIRMED: Mapping[str, tuple[Confirm, str]] = {
    "used": (lambda app, noted, here, state: app.revise(Revision(id=noted, feedback="used"), here), "new"),
    "helpful": (lambda app, noted, here, state: app.revise(Revision(id=noted, feedback="helpful"), here), "new"),
    "by hand": (lambda app, noted, here, state: app.revise(Revision(id=noted, status="core"), here), "core"),
    "corrected": (lambda app, noted, here, state: app.revise(Revision(id=noted, text=FIX.upper()), here), "new"),
    "another session": (lambda app, noted, here, state: state(app.caller("there")), "new"),
}


@pytest.mark.uncounted
@pytest.mark.parametrize(("confirm", "status"), CONFIRMED.values(), ids=CONFIRMED)
def test_it_is_promoted(app: App, noted: str, here: Caller, state: State, confirm: Confirm, status: str) -> None:
    """D10.1: then others see it, maintenance leaves it, and the status counts it."""
    confirm(app, noted, here, state)
    assert stored(app, noted).status == status
    if status == "new":
        assert "recall" in sees(app, noted, app.caller("there"))
        assert app.inspect.status(app.caller("there")).summary.promoted == 1


@pytest.mark.uncounted
@pytest.mark.parametrize("session", ["here", "there"])
def test_storing_the_same_text_promotes_it(app: App, noted: str, remember: RememberOne, session: str) -> None:
    """D10.1: also in its own session, as the agent vouches for it."""
    assert remember(FIX, caller=app.caller(session)).id == noted
    assert stored(app, noted).status == ("new" if session == "here" else "confirmed")


def test_the_agent_that_repeats_itself_promotes_nothing(app: App, noted: str, state: State, here: Caller) -> None:
    """D10.1: nor does extracting it again."""
    assert set(state(here)) == {None}
    assert stored(app, noted).status == "noted"


@pytest.mark.uncounted
def test_a_log_that_is_stored_again_under_another_name_promotes_nothing(
    app: App, noted: str, state: State, clock: "Clock"
) -> None:
    """D10.1: a client that resumes a session may send it again, with its times."""
    clock.advance(seconds=-60)
    assert state(app.caller("resumed")) == [None]
    assert stored(app, noted).status == "noted"


def test_an_extraction_that_was_killed_is_completed(
    app: App, clock: "Clock", here: Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    """D10.1: one transaction is all or nothing; the next run stores all of it, once."""
    sessions, whole, begun = Sessions(app, clock), Extractor.store, list[str]()
    sessions.mended(here)
    sessions.told(here)

    def killed(self: Extractor, draft: LearntDraft, *rest: Any) -> str | None:
        if begun:
            raise KeyboardInterrupt
        begun.append(draft.learnt.text)
        return whole(self, draft, *rest)

    with monkeypatch.context() as patched:
        patched.setattr(Extractor, "store", killed)
        with pytest.raises(KeyboardInterrupt):
            sessions.extract(here)
    first = sessions.extract(here)
    assert len(set(first) - {None}) == 2
    assert sessions.extract(here) == [None, None]


def test_it_expires(app: App, noted: str, here: Caller, clock: "Clock") -> None:
    """D10.1: after two weeks, and does not return by being extracted."""
    clock.advance(days=13)
    app.maintain(lambda done, total: None)
    assert stored(app, noted).status == "noted"
    clock.advance(days=1)
    app.maintain(lambda done, total: None)
    assert stored(app, noted).status == "retired"


@pytest.mark.uncounted
def test_a_later_correction_wins(app: App, noted: str, here: Caller, state: State) -> None:
    """D10.1, R8: what was corrected comes back in no session."""
    app.revise(Revision(id=noted, text="pytest -q failed, as the host ran ahead of the clock."), here)
    assert set(state(here)) == {None}
    assert state(app.caller("there")) == [None]
    assert app.recall(RecallRequest(query=QUERY, kinds=("fact",)), app.caller("there")).results[0]["id"] == noted


def test_what_a_call_came_to_is_erased_with_it(app: App, remember: RememberOne, here: Caller) -> None:
    """D10.1, R9: what failed and what fixed it is read out of results of tools, too."""
    result = remember("FAILED test_port", caller=here, kind="tool_result", tool="bash", call_id="c1")
    with app.records.write() as transaction:
        source = transaction.get(result.id)
        assert source is not None
        fixed = remember_from(source)
        transaction.insert(fixed, None, (), (), in_session=False)
    assert app.forget([result.id], "erase", here).extracted == (fixed.id,)


def remember_from(source: Record) -> Record:
    return replace(source, id="r000900", kind="fact", status="noted", text="It failed.", details={"source": source.id})


def test_another_memory_keeps_it_noted(app: App, noted: str, open_memory: OpenMemory) -> None:
    """D10.1, S7.1."""
    other = open_memory(folder="other")
    Merger(other.records, other.now, "ann")(
        piece for piece in app.records.transfer().leave() if not isinstance(piece, Origin)
    )
    where = RecordFilter(scopes=other.caller().scopes)
    assert [(each.text, each.status, each.session_id) for each in other.records.list(where, "created", 9)] == [
        (FIX, "noted", "here")
    ]
