"""What a session states is noted: its own until something confirms it."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from mcp_memory.app import App
from mcp_memory.domain.context.rendering import record_line
from mcp_memory.domain.model.records import NewRecord, Record
from mcp_memory.domain.model.scopes import Caller, RecordFilter
from mcp_memory.encoders.embed_minilm import MiniLMEmbedder
from mcp_memory.encoders.tokens_tiktoken import TiktokenCounter
from mcp_memory.errors import NotFound
from mcp_memory.ports.transfer import Origin
from mcp_memory.services.context.assemble import ContextRequest
from mcp_memory.services.memory.extract import Extractor, StatementDraft
from mcp_memory.services.memory.merge import Merger
from mcp_memory.services.memory.remember import Remembered
from mcp_memory.services.memory.revise import Revision
from mcp_memory.services.retrieval.recall import RecallRequest
from mcp_memory.services.tasks.task_stack import PushRequest

if TYPE_CHECKING:
    from tests.conftest import Clock

RememberOne = Callable[..., Remembered]
OpenMemory = Callable[..., App]
FACT = "The billing server runs on db2."
QUERY = "where does the billing server run"


@pytest.fixture
def here(app: App) -> Caller:
    return app.caller("here")


@pytest.fixture
def state(app: App, embedder: MiniLMEmbedder, clock: "Clock", remember: RememberOne) -> Callable[..., list[str | None]]:
    """Say it in a session's log a second later, and extract what the log states; return what was stored of it."""
    extracting = Extractor(app.records, embedder, TiktokenCounter())

    def state_it(text: str, caller: Caller, role: str = "user") -> list[str | None]:
        remember("Please look at the billing.", caller=caller, kind="message", role="user")
        clock.advance(seconds=1)
        remember(text, caller=caller, kind="message", role=role)
        where = RecordFilter(scopes=caller.scopes, session_id=caller.session_id, own_of=caller.agent)
        log = [each for each in reversed(app.records.list(where, "created", 100)) if each.kind == "message"]
        drafts = extracting.drafts(log, embedded=True)
        with app.records.write() as transaction:
            return [extracting.store(draft, clock.now, transaction) for draft in drafts]

    return state_it


State = Callable[..., list[str | None]]


@pytest.fixture
def noted(state: State, here: Caller) -> str:
    (record_id,) = state(FACT, here)
    assert record_id
    return record_id


def stored(app: App, record_id: str) -> Record:
    return app.records.get([record_id], app.caller().scopes)[record_id]


def sees(app: App, record_id: str, caller: Caller) -> set[str]:
    """The ways in which the caller comes across the record."""
    found = {
        "recall": app.recall(RecallRequest(query=QUERY), caller).results,
        "list": app.recall(RecallRequest(), caller).results,
        "id": app.recall(RecallRequest(ids=(record_id,)), caller).results,
        "log": app.inspect.session_log("here", caller)["records"],
    }
    ways = {name for name, results in found.items() if record_id in str(results)}
    context = app.assemble_context(ContextRequest(query=QUERY, max_tokens=2_000), caller)
    return ways | ({"context"} if record_id in context.text else set[str]())


def test_only_its_session_sees_it(app: App, noted: str, here: Caller, remember: RememberOne) -> None:
    """D10.1: not another session, nor another agent in one of the same name, nor another project."""
    again = remember("the BILLING server runs on db2", caller=app.caller("there"))
    assert noted not in again.similar
    assert sees(app, noted, here) == {"recall", "list", "id", "log", "context"}
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
    assert app.inspect.status(app.caller("there"))["statuses"] == {"active": 2, "new": 1}
    assert app.inspect.status(here)["statuses"] == {"active": 2, "new": 1, "noted": 1}


def test_the_graph_holds_it_once_it_is_confirmed(app: App, state: State, here: Caller, remember: RememberOne) -> None:
    """D10.1: what it mentions leads nobody to it before."""
    (noted,) = state("Never restart BillingServer on Fridays.", here)
    assert noted
    other = remember("BillingServer is old.", caller=app.caller("there"))

    def near() -> str:
        return str(app.inspect.record(other.id, app.caller("there"))["near"])

    assert noted not in near()
    app.revise(Revision(id=noted, feedback="used"), here)
    assert noted in near()


def test_its_lines_say_that_nobody_confirmed_it(app: App, noted: str, here: Caller) -> None:
    """D10.1."""
    [shown] = app.recall(RecallRequest(ids=(noted,)), here).results
    assert shown["status"] == "noted"
    assert "noted, not confirmed" in record_line(stored(app, noted), FACT, "full")
    assert "noted, not confirmed" in app.assemble_context(ContextRequest(query=QUERY, max_tokens=2_000), here).text


def test_it_opens_by_id_for_a_call_that_names_no_session(app: App, noted: str) -> None:
    """D10.1: an agent opens by id what it stored; it is not listed."""
    assert sees(app, noted, app.caller()) == {"id"}


Confirm = Callable[[App, str, Caller, State], object]
CONFIRMED: Mapping[str, tuple[Confirm, str]] = {
    "used": (lambda app, noted, here, state: app.revise(Revision(id=noted, feedback="used"), here), "new"),
    "helpful": (lambda app, noted, here, state: app.revise(Revision(id=noted, feedback="helpful"), here), "new"),
    "by hand": (lambda app, noted, here, state: app.revise(Revision(id=noted, status="core"), here), "core"),
    "corrected": (lambda app, noted, here, state: app.revise(Revision(id=noted, text="It runs on db3."), here), "new"),
    "the user again": (lambda app, noted, here, state: state(FACT, here), "new"),
    "another session": (lambda app, noted, here, state: state(FACT, app.caller("there")), "new"),
}


@pytest.mark.parametrize(("confirm", "status"), CONFIRMED.values(), ids=CONFIRMED)
def test_it_is_promoted(app: App, noted: str, here: Caller, state: State, confirm: Confirm, status: str) -> None:
    """D10.1: then others see it, maintenance leaves it, and the status counts it."""
    confirm(app, noted, here, state)
    assert stored(app, noted).status == status
    if status == "new":
        assert "list" in sees(app, noted, app.caller("there"))
        assert app.inspect.status(app.caller("there"))["promoted"] == 1


@pytest.mark.parametrize("session", ["here", "there"])
def test_storing_the_same_text_promotes_it(app: App, noted: str, remember: RememberOne, session: str) -> None:
    """D10.1: also in its own session, as the agent vouches for it."""
    assert remember(FACT, caller=app.caller(session)).id == noted
    assert stored(app, noted).status == ("new" if session == "here" else "confirmed")


def test_an_episode_that_says_it_promotes_it(app: App, state: State, here: Caller, clock: "Clock") -> None:
    """D10.1, C8.2: what an episode says was stored on purpose."""
    app.remember([_episode(f"We met. {FACT}")], app.caller("there"))
    clock.advance(days=91 - 1)
    (noted,) = state(FACT, here)
    assert noted
    clock.advance(days=1)
    app.maintain(lambda done, total: None)
    assert stored(app, noted).status == "new"


def _episode(text: str) -> NewRecord:
    return NewRecord(text=text, kind="episode")


def test_the_agent_that_repeats_itself_promotes_nothing(app: App, state: State, here: Caller) -> None:
    """D10.1: nor does extracting it again."""
    dead_end = "Raising the timeout did not work."
    (noted,) = state(dead_end, here, "assistant")
    assert noted
    assert state(dead_end, here, "assistant") == [None]
    assert stored(app, noted).status == "noted"


def test_a_log_that_is_stored_again_under_another_name_promotes_nothing(
    app: App, noted: str, state: State, clock: "Clock"
) -> None:
    """D10.1: a client that resumes a session may send it again, with its times."""
    clock.advance(seconds=-1)
    assert state(FACT, app.caller("resumed")) == [None]
    assert stored(app, noted).status == "noted"


def test_an_extraction_that_was_killed_is_completed(
    app: App, state: State, here: Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    """D10.1: one transaction is all or nothing; the next run stores all of it, once."""
    text = f"{FACT} Never restart it on Fridays. Raising the timeout did not work."
    whole, begun = Extractor.store, list[str]()

    def killed(self: Extractor, draft: StatementDraft, *rest: Any) -> str | None:
        if begun:
            raise KeyboardInterrupt
        begun.append(draft.statement.text)
        return whole(self, draft, *rest)

    with monkeypatch.context() as patched:
        patched.setattr(Extractor, "store", killed)
        with pytest.raises(KeyboardInterrupt):
            state(text, here)
    first = state("Go on.", here)
    assert None not in first
    assert len(first) == len(set(first)) >= 2
    assert set(state("Go on.", here)) == {None}


def test_it_expires(app: App, noted: str, here: Caller, clock: "Clock") -> None:
    """D10.1: after two weeks, and does not return by being extracted."""
    clock.advance(days=13)
    app.maintain(lambda done, total: None)
    assert stored(app, noted).status == "noted"
    clock.advance(days=1)
    app.maintain(lambda done, total: None)
    assert stored(app, noted).status == "retired"


def test_a_later_correction_wins(app: App, noted: str, here: Caller, state: State) -> None:
    """D10.1, R8: what was corrected comes back neither alone nor between other sentences, in no session."""
    app.revise(Revision(id=noted, text="The billing server runs on db3."), here)
    assert state(FACT, here) == [None]
    assert state(FACT, app.caller("there")) == [None]
    assert state(f"It turned out to be the pool of 40. {FACT}", app.caller("there"), "assistant") == [None]
    assert app.recall(RecallRequest(query=QUERY, kinds=("fact",)), app.caller("there")).results[0]["id"] == noted


def test_what_a_call_came_to_is_erased_with_it(
    app: App, remember: RememberOne, embedder: MiniLMEmbedder, here: Caller
) -> None:
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
        (FACT, "noted", "here")
    ]
