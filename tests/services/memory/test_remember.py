"""Remembering: once, without secrets, never silently."""

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from mcp_memory.app import App
from mcp_memory.domain.context.rendering import record_body
from mcp_memory.domain.model.records import LOG_KINDS, Entity, Json, Kind, NewRecord, Record, Relation
from mcp_memory.errors import Conflict, InvalidRequest, NotFound, StoreUnavailable
from mcp_memory.services.context.assemble import ContextRequest
from mcp_memory.services.memory.remember import Remembered
from mcp_memory.services.memory.revise import Revision
from mcp_memory.services.retrieval.recall import RecallRequest
from mcp_memory.services.tasks.task_stack import PopRequest, PushRequest

if TYPE_CHECKING:
    from tests.conftest import Clock

RememberOne = Callable[..., Remembered]
TOKEN = "ghp_" + "Ab3" * 12


def stored(app: App, record_id: str) -> Record:
    return app.records.get([record_id], app.caller().scopes)[record_id]


def found(app: App, query: str, **fields: Any) -> list[str]:
    return [str(r["text"]) for r in app.recall(RecallRequest(query=query, **fields), app.caller()).results]


def test_the_same_text_is_stored_once_and_then_confirmed(app: App, remember: RememberOne) -> None:
    """R2: also with other space around it, another kind, or twice in one call."""
    first = remember("The port is 5432.")
    assert first.status == "stored"
    again = [
        remember("The port is 5432."),
        remember("  The port is 5432.\n"),
        remember("The port is 5432.", kind="decision"),
    ]
    again += app.remember([NewRecord(text="The port is 5432.")] * 3, app.caller())
    assert {(each.id, each.status) for each in again} == {(first.id, "confirmed")}
    twins = app.remember([NewRecord(text="New in one call.")] * 2, app.caller())
    assert [each.status for each in twins] == ["stored", "confirmed"]
    assert twins[0].id == twins[1].id
    assert found(app, "port 5432 new call") == ["The port is 5432.", "New in one call."]


@pytest.mark.uncounted
@pytest.mark.parametrize("kind", sorted(LOG_KINDS))
def test_two_equal_entries_of_the_log_are_two(app: App, remember: RememberOne, kind: Kind) -> None:
    """R2: log kinds are never merged, nor mistaken for a fact of the same text."""
    fact = remember("ok")
    first, second = remember("ok", kind=kind), remember("ok", kind=kind)
    assert len({fact.id, first.id, second.id}) == 3
    assert (first.status, second.status, first.similar, second.similar) == ("stored", "stored", (), ())


def test_the_same_text_in_another_scope_is_another_record(remember: RememberOne) -> None:
    """R2: once per scope."""
    ids = {remember("The port is 5432.", visibility=scope).id for scope in ("shared", "private", "user")}
    assert len(ids) == 3


def test_what_is_met_again_in_other_sessions_rises_to_confirmed_and_core(app: App, remember: RememberOne) -> None:
    """C8.1: counted once a session."""
    fact = remember("The port is 5432.", caller=app.caller("a"))
    stages: list[tuple[str, int]] = []
    for session in ("a", "b", "b", "c", "b", "d", "e"):
        assert remember("The port is 5432.", caller=app.caller(session)).status == "confirmed"
        record = stored(app, fact.id)
        stages.append((record.status, record.counters.confirmed))
    assert stages == [
        ("new", 0), ("confirmed", 1), ("confirmed", 1), ("confirmed", 2), ("confirmed", 2), ("core", 3), ("core", 4),
    ]  # fmt: skip


def test_what_a_session_was_given_confirms_nothing_when_it_comes_back(app: App, remember: RememberOne) -> None:
    """B11.1: an echo is recognised, by recall and by assembly, as text and as a copied item."""
    fact = remember("The port is 5432.", caller=app.caller("writer"))
    app.recall(RecallRequest(query="port"), app.caller("asked"))
    block = app.assemble_context(ContextRequest(query="which port"), app.caller("assembled")).text
    for session, text in (
        ("asked", "The port is 5432."),
        ("assembled", "The port is 5432."),
        ("other", block),
        ("other", f"- [{fact.id} fact 2026-11-20] The port is 5432."),
    ):
        answer = remember(text, caller=app.caller(session))
        assert (answer.id, answer.status) == (fact.id, "confirmed")
    assert stored(app, fact.id).counters.confirmed == 0
    assert app.inspect.status(app.caller()).summary.records == {"fact": 1}


def test_a_block_of_several_records_says_nothing_of_any_one(app: App, remember: RememberOne) -> None:
    """B11.1, W8.2: whatever kind it is given."""
    first, second = remember("The port is 5432."), remember("The host is db2.")
    block = app.assemble_context(ContextRequest(), app.caller()).text
    answer = remember(block, kind="decision", importance=9)
    assert (answer.status, {answer.id, *answer.similar}) == ("confirmed", {first.id, second.id})
    assert stored(app, first.id).kind == "fact"


def test_what_a_task_came_to_is_remembered_as_another_kind(app: App, remember: RememberOne) -> None:
    """W8.2: beside the result, which stays what it is."""
    app.tasks.push(PushRequest(goal="Choose a port"), app.caller())
    app.tasks.pop(PopRequest(result="We take 6543."), app.caller())
    [found] = app.recall(RecallRequest(query="port 6543"), app.caller()).results
    text = stored(app, str(found["id"])).text
    assert remember(text).id == found["id"]
    decided = remember(text, kind="decision")
    assert (decided.status, stored(app, decided.id).kind) == ("stored", "decision")


def test_what_is_new_around_recalled_text_is_kept_without_it(app: App, remember: RememberOne) -> None:
    """B11.1: the block goes, the new sentence stays."""
    remember("The port is 5432.")
    block = app.assemble_context(ContextRequest(query="port"), app.caller()).text
    answer = remember(f"{block}\nThe host is db2.")
    assert (answer.status, stored(app, answer.id).text) == ("stored", "The host is db2.")


def test_nothing_but_recalled_text_of_unknown_records_is_refused(app: App, remember: RememberOne) -> None:
    """B11.1: the message says what to send instead; nothing is stored."""
    with pytest.raises(InvalidRequest, match="send what is new"):
        remember('<memory-context id="c1">\n- [r0000zz fact 2026-11-20] x\n</memory-context>')
    assert app.inspect.status(app.caller()).summary.records == {}


@pytest.mark.parametrize("text", ["", " ", "\n\t \u2003"])
def test_an_empty_text_is_refused(remember: RememberOne, text: str) -> None:
    """S3.1: with the caller's next move."""
    with pytest.raises(InvalidRequest, match="text is empty; say what to remember"):
        remember(text)


def test_an_event_needs_no_text_beside_its_details(app: App, remember: RememberOne) -> None:
    """C2.0: its text is what its line says, which is shown once, and it is found by it; secrets are taken out first."""
    for details, text in (
        ({"type": "error", "message": "KeyError: 'walrus'"}, "Error: KeyError: 'walrus'"),
        ({"command": "pytest tests/walrus", "stdout": "1 failed"}, "Executed: `pytest tests/walrus`"),
        ({"type": "deploy", "env": "walrus"}, '{"type":"deploy","env":"walrus"}'),
        ({"type": "error", "message": f"walrus {TOKEN}"}, "Error: walrus [REDACTED GitHub Token]"),
    ):
        record = stored(app, remember(" ", kind="event", details=details).id)
        assert record.text == text
        assert record_body(record, record.text).partition("\n")[0] == text
    assert "walrus" in str(app.recall(RecallRequest(query="KeyError walrus"), app.caller()).results[0]["text"])


@pytest.mark.parametrize(
    ("kind", "details"), [("event", {}), ("event", {"asked_as": ["Who?"]}), ("fact", {"message": "boom"})]
)
def test_only_an_event_that_tells_something_needs_no_text(
    remember: RememberOne, kind: str, details: dict[str, Json]
) -> None:
    """C2.0."""
    with pytest.raises(InvalidRequest, match="text is empty; say what to remember"):
        remember("", kind=kind, details=details)


def test_all_items_are_stored_or_none(app: App) -> None:
    """R1: one item that cannot be stored undoes the others."""
    items = [NewRecord(text="Fine."), NewRecord(text="Replaces nothing.", supersedes=("r00zzzz",))]
    with pytest.raises(NotFound, match="Nothing was changed"):
        app.remember(items, app.caller())
    with pytest.raises(NotFound, match="No task"):
        app.remember([NewRecord(text="Fine."), NewRecord(text="Lost.", task_id="t00zzzz")], app.caller())
    assert app.inspect.status(app.caller()).summary.records == {}


def test_a_corrected_fact_does_not_come_back(app: App, open_memory: Callable[..., App], remember: RememberOne) -> None:
    """R8: not from this agent, nor from another, nor in another session; the answer names the newer record."""
    old = remember("The port is 5432.")
    new = remember("The port is 6543.", supersedes=(old.id,))
    bob = open_memory(agent="bob")
    for answer in (
        remember("The port is 5432."),
        remember("The port is 5432.", caller=app.caller("later")),
        bob.remember([NewRecord(text="The port is 5432.")], bob.caller())[0],
    ):
        assert (answer.status, answer.id, answer.superseded_by) == ("superseded", old.id, new.id)
    corrected = f"The port is 6543. (before {old.id}, 2026-11-20: 5432)"
    gone = f"The port is 5432. (superseded by {new.id})"
    assert found(app, "which port") == [corrected]
    assert found(app, "which port", include_inactive=True) == [corrected, gone]


def test_a_text_corrected_in_place_does_not_come_back(app: App, remember: RememberOne) -> None:
    """R8: the old wording is remembered as old."""
    fact = remember("The port is 5432.")
    app.revise(Revision(id=fact.id, text="The port is 6543."), app.caller())
    answer = remember("The port is 5432.", caller=app.caller("later"))
    assert (answer.status, answer.superseded_by) == ("superseded", fact.id)
    assert found(app, "which port") == ["The port is 6543."]


def test_what_was_proven_wrong_does_not_come_back(app: App, remember: RememberOne) -> None:
    """C8.1, R8: inactive is out of search, and stays out."""
    fact = remember("The moon is cheese.")
    app.revise(Revision(id=fact.id, feedback="wrong"), app.caller())
    answer = remember("The moon is cheese.")
    assert (answer.status, answer.superseded_by, answer.similar) == ("superseded", None, ())
    assert found(app, "moon cheese") == []


def test_reassert_brings_a_corrected_value_back(app: App, remember: RememberOne) -> None:
    """R8: unless reassert is set; what it supersedes gives way."""
    old = remember("The port is 5432.")
    new = remember("The port is 6543.", supersedes=(old.id,))
    answer = remember("The port is 5432.", reassert=True, supersedes=(new.id,))
    assert (answer.status, answer.id) == ("stored", old.id)
    assert (stored(app, old.id).status, stored(app, old.id).superseded_by) == ("new", None)
    assert (stored(app, new.id).status, stored(app, new.id).superseded_by) == ("superseded", old.id)


@pytest.mark.parametrize("reassert", [False, True])
def test_what_is_remembered_again_after_it_was_forgotten_says_all_that_it_says_now(
    app: App, remember: RememberOne, reassert: bool
) -> None:
    """R2, R9: importance, a pin, tags, its outcome, in the short forms too, what it replaces, and its details."""
    old, other = remember("We use MongoDB.", kind="decision", tags=("db",)), remember("We use Redis.", kind="decision")
    app.forget([old.id], "retire", app.caller())
    again = remember(
        "We use MongoDB.", kind="decision", reassert=reassert, importance=9.0, pinned=True, tags=("store",),
        outcome="failure", details={"reasons": ["Zanzibar insists"]}, supersedes=(other.id,),
    )  # fmt: skip
    assert (again.id, again.status) == (old.id, "stored")
    record = stored(app, old.id)
    assert (record.importance, record.pinned, record.tags) == (9.0, True, ("db", "store"))
    assert (record.outcome, record.status, record.details) == (
        "failure", "reviewed", {"reasons": ["Zanzibar insists"]},
    )  # fmt: skip
    assert "fail" in record.micro
    assert stored(app, other.id).superseded_by == old.id
    assert found(app, "zanzibar")[0].startswith("We use MongoDB.")
    assert (app.records.stale_terms(), app.records.count_unembedded()) == ([], 0)


def test_reassert_stores_an_old_wording_anew(app: App, remember: RememberOne) -> None:
    """R8: where the record itself has moved on."""
    fact = remember("The port is 5432.")
    app.revise(Revision(id=fact.id, text="The port is 6543."), app.caller())
    answer = remember("The port is 5432.", reassert=True)
    assert answer.status == "stored"
    assert answer.id != fact.id


def test_reassert_takes_nothing_from_a_fact_that_holds(app: App, remember: RememberOne) -> None:
    """C8.1: a core fact said once more stays core."""
    fact = remember("The port is 5432.")
    app.revise(Revision(id=fact.id, status="core"), app.caller())
    assert remember("The port is 5432.", reassert=True).status == "confirmed"
    assert stored(app, fact.id).status == "core"
    assert remember("Never said before.", reassert=True).status == "stored"


def test_a_forgotten_text_stored_again_holds_again(app: App, remember: RememberOne) -> None:
    """R9: retiring is reversible, also by saying it anew."""
    fact = remember("The port is 5432.")
    app.forget([fact.id], "retire", app.caller())
    again = remember("The port is 5432.")
    assert replace(again, forgotten=None) == Remembered(id=fact.id, status="stored")
    assert again.forgotten == app.now()
    assert found(app, "port") == ["The port is 5432."]


def test_replacing_a_forgotten_or_wrong_record_does_not_show_it_again(app: App, remember: RememberOne) -> None:
    """R8, R9: it knows its successor and stays out of search."""
    forgotten, wrong = remember("The host is db1."), remember("The host is db9.")
    app.forget([forgotten.id], "retire", app.caller())
    app.revise(Revision(id=wrong.id, feedback="wrong"), app.caller())
    remember("The host is db2.", supersedes=(forgotten.id, wrong.id))
    assert found(app, "host") == ["The host is db2."]


def test_meeting_a_fact_again_may_supersede_others(app: App, remember: RememberOne) -> None:
    """R8: and a record never supersedes itself."""
    right, wrong = remember("The port is 6543."), remember("The port is 5432.")
    answer = remember("The port is 6543.", supersedes=(wrong.id, right.id))
    assert (answer.status, answer.id) == ("confirmed", right.id)
    assert stored(app, wrong.id).superseded_by == right.id
    assert stored(app, right.id).superseded_by is None


def test_when_the_successor_was_erased_the_old_value_may_be_stored_again(app: App, remember: RememberOne) -> None:
    """R9: nothing points to what is gone."""
    old = remember("The port is 5432.")
    new = remember("The port is 6543.", supersedes=(old.id,))
    app.forget([new.id], "erase", app.caller())
    assert remember("The port is 5432.").status == "stored"
    assert stored(app, old.id).status == "new"


def test_near_duplicates_are_reported_and_kept(app: App, remember: RememberOne) -> None:
    """R3: equal after normalising case, space and punctuation, or nearly equal in meaning."""
    first = remember("The port is 5432.")
    second = remember("the  port is 5432")
    assert (second.status, second.similar) == ("stored", (first.id,))
    third = remember("The port is: 5432!")
    assert set(third.similar) == {first.id, second.id}
    near = remember("We deploy the service every Tuesday morning.")
    nearer = remember("We deploy the service each Tuesday morning.")
    assert nearer.similar == (near.id,)
    assert remember("Lunch is at one.").similar == ()


def test_secrets_are_cut_out_before_anything_is_stored(app: App, remember: RememberOne) -> None:
    """R4: of the text and of every detail; the answer says how many."""
    answer = remember(f"The token is {TOKEN}.", kind="event", details={"command": f"curl -H {TOKEN}", "n": [TOKEN]})
    assert answer.redacted == 3
    record = stored(app, answer.id)
    assert TOKEN not in repr(record)
    assert record.text == "The token is [REDACTED GitHub Token]."


def test_a_secret_is_in_no_file_of_the_store(app: App, remember: RememberOne) -> None:
    """R4: not even in the log that is folded in later."""
    entity = Entity(name="CI", properties={"token": TOKEN, "seats": 3})
    answer = remember(f"The token is {TOKEN}.", details={"nested": {"deep": TOKEN}}, entities=(entity,))
    assert answer.redacted == 3
    for path in app.settings.data_dir.rglob("*"):
        assert path.is_dir() or TOKEN.encode() not in path.read_bytes()


def test_a_record_keeps_all_it_was_given(app: App, remember: RememberOne, clock: "Clock") -> None:
    """C2.0: and the fields a caller leaves out get their defaults (A2.1)."""
    answer = remember(
        "We chose SQLite.", kind="decision", importance=8.5, confidence=0.7, tags=("storage",), outcome="pending",
        details={"reasons": "one file"}, occurred_at=clock.now - 500, pinned=True, speaker="Ada", role="user",
        tool="t", call_id="c", session_id="talk",
        entities=(Entity(name="SQLite", type="database", properties={"version": 3}),),
        relations=(Relation(source="SQLite", type="replaces", target="Postgres"),),
    )  # fmt: skip
    record = stored(app, answer.id)
    assert (record.importance, record.confidence, record.tags, record.outcome) == (8.5, 0.7, ("storage",), "pending")
    assert (record.details, record.pinned, record.status) == ({"reasons": ["one file"]}, True, "pending")
    assert (record.speaker, record.role, record.tool, record.call_id) == ("Ada", "user", "t", "c")
    assert (record.session_id, record.occurred_at, record.created_at) == ("talk", clock.now - 500, clock.now)
    assert (record.micro, record.summary, record.text_tokens) == (record.text, record.text, 4)
    assert stored(app, remember("Plain.").id).importance == 1.0
    for name in ("sqlite", "POSTGRES"):
        assert found(app, "chose", entities=(name,)) == ["We chose SQLite. Because: one file → pending (70 % sure)"]


def test_what_is_planned_for_the_future_was_not_accessed_there(app: App, remember: RememberOne, clock: "Clock") -> None:
    """A1.1: a date ahead does not keep a record on top for ever."""
    record = stored(app, remember("The freeze begins.", occurred_at=clock.now + 9e6).id)
    assert (record.occurred_at, record.accessed_at) == (clock.now + 9e6, clock.now)


def test_a_record_belongs_to_the_task_one_stands_in_or_names(app: App, remember: RememberOne) -> None:
    """T1.1: outside any task it belongs to none."""
    assert stored(app, remember("Before.").id).task_id is None
    root = app.tasks.push(PushRequest(goal="ship"), app.caller()).path[0]
    inner = app.tasks.push(PushRequest(goal="build", branch=True), app.caller()).path[1]
    here, there = remember("Here."), remember("There.", task_id=root.id)
    assert (stored(app, here.id).task_id, stored(app, here.id).branch_id) == (inner.id, inner.id)
    assert (stored(app, there.id).task_id, stored(app, there.id).branch_id) == (root.id, None)


@pytest.mark.uncounted
@pytest.mark.parametrize(
    "text",
    [
        "the of and",
        "?!",
        "🙂",
        "\u200b",
        "\n".join(f"line {n}" for n in range(300)),
        "x" * 20_000,
        "数据库在东京。" * 300,
    ],
)
def test_any_text_is_stored_once_and_found_by_its_own_words(app: App, remember: RememberOne, text: str) -> None:
    """R1, R2: stop words, signs, emoji, invisible, long, without spaces."""
    answer = remember(text)
    assert (answer.status, remember(text).id) == ("stored", answer.id)
    record = stored(app, answer.id)
    assert record.text == text
    assert record.micro_tokens <= 20
    assert record.summary_tokens <= 100
    opened = app.recall(RecallRequest(query=text), app.caller()).results
    assert [result["id"] for result in opened] == [answer.id]


def test_a_search_for_duplicates_that_fails_undoes_nothing(
    app: App, remember: RememberOne, monkeypatch: pytest.MonkeyPatch
) -> None:
    """S2.2: the record was acknowledged; similar ones are advice."""
    remember("The port is 5432.")

    def unavailable(*_: object, **__: object) -> None:
        raise StoreUnavailable("The index is away; call again.")

    monkeypatch.setattr("mcp_memory.stores.vectors.exact.ExactVectorStore.search", unavailable)
    answer = remember("The host is db2.")
    assert (answer.status, answer.similar) == ("stored", ())


def test_a_record_erased_between_reading_and_writing_is_not_stored_anew_unless_its_agent_insists(
    app: App, open_memory: Callable[..., App], remember: RememberOne, monkeypatch: pytest.MonkeyPatch
) -> None:
    """R1: another process may erase what this one had just found."""
    fact = remember("The port is 5432.")
    other = open_memory()
    write = app.records.write

    def erase_first(*given: Any, **named: Any) -> object:
        other.forget([fact.id], "erase", other.caller())
        return write(*given, **named)

    monkeypatch.setattr(app.records, "write", erase_first)
    with pytest.raises(Conflict, match="erased here"):
        remember("The port is 5432.")
    monkeypatch.undo()
    answer = remember("The port is 5432.", reassert=True)
    assert answer.status == "stored"
    assert answer.id != fact.id
    assert found(app, "port") == ["The port is 5432."]


def test_a_corrected_value_stored_again_names_the_one_that_holds_now(remember: RememberOne) -> None:
    """R8: at the end of the chain of corrections, however long."""
    first = remember("The port is 1.")
    second = remember("The port is 2.", supersedes=(first.id,))
    third = remember("The port is 3.", supersedes=(second.id,))
    assert remember("The port is 1.").superseded_by == third.id


def test_a_private_record_does_not_take_a_shared_one_from_the_others(app: App, remember: RememberOne) -> None:
    """S4.1: refused, and nothing of it is stored."""
    shared = remember("The port is 5432.")
    with pytest.raises(Conflict, match="others do not see"):
        remember("The port is 6543.", visibility="private", supersedes=(shared.id,))
    assert found(app, "port") == ["The port is 5432."]


def test_a_message_that_quotes_memory_is_logged_as_what_was_said(app: App, remember: RememberOne) -> None:
    """R2: a quoted item is no echo in the log; of a quoted block a word remains."""
    fact = remember("The port is 5432.")
    quoted = f"[{fact.id}] The port is 5432."
    message = remember(quoted, kind="message")
    assert (message.status, stored(app, message.id).text) == ("stored", quoted)
    block = app.assemble_context(ContextRequest(), app.caller()).text
    again = remember(f"It said:\n{block}", kind="message")
    assert stored(app, again.id).text == "It said:\n[recalled context]"


def test_secrets_in_tags_are_cut_out(app: App, remember: RememberOne) -> None:
    """R4: a tag is text like any other."""
    assert TOKEN not in "".join(stored(app, remember("Tagged.", tags=(TOKEN, "db")).id).tags)


@pytest.mark.uncounted
@pytest.mark.parametrize("again", ["the API port is 8080", "The  API port is 8080", '"The API port is 8080."'])
@pytest.mark.parametrize("visibility", ["shared", "private"])
def test_a_corrected_value_does_not_come_back_in_another_guise(
    app: App, remember: RememberOne, again: str, visibility: str
) -> None:
    """R8: other case, space or punctuation, or as a private record; whether it was superseded or revised."""
    old = remember("The API port is 8080.")
    app.revise(Revision(id=old.id, text="The API port is 9090."), app.caller())
    answer = remember(again, visibility=visibility)
    assert (answer.status, answer.superseded_by) == ("superseded", old.id)
    assert found(app, "API port") == ["The API port is 9090."]


def test_what_differs_by_more_than_punctuation_is_another_text(remember: RememberOne) -> None:
    """R2, R8: C is not C++."""
    old = remember("Written in C.")
    remember("Written in C++.", supersedes=(old.id,))
    assert remember("Written in C#.").status == "stored"


def test_a_value_can_be_stored_again_once_what_replaced_it_is_forgotten(app: App, remember: RememberOne) -> None:
    """R8: nobody is left without any value."""
    old = remember("The port is 1.")
    newer = remember("The port is 2.", supersedes=(old.id,))
    app.forget([newer.id], "retire", app.caller())
    assert remember("The port is 1.").status == "stored"
    assert found(app, "port") == ["The port is 1."]


@pytest.mark.uncounted
def test_a_summary_that_was_read_and_is_stored_again_is_an_echo(app: App, remember: RememberOne) -> None:
    """B11.1: also in another session."""
    record = remember("The port is 5432. " * 100)
    [summary] = found(app, "port")
    answer = app.remember([NewRecord(text=summary)], app.caller("another"))[0]
    assert (answer.id, answer.status) == (record.id, "confirmed")
    assert stored(app, record.id).counters.confirmed == 0


def test_storing_a_known_text_adds_what_else_is_said_of_it(app: App, remember: RememberOne) -> None:
    """R2: nothing the caller gave is dropped silently."""
    first = remember("Never force-push.", tags=("git",))
    remember("Never force-push.", importance=9.0, pinned=True, tags=("safety",), outcome="success")
    record = stored(app, first.id)
    assert (record.importance, record.pinned, record.tags, record.outcome) == (9.0, True, ("git", "safety"), "success")


@pytest.mark.parametrize("how", ["recall", "assembled", "copied"])
def test_a_line_of_the_log_that_was_recalled_is_remembered_as_what_it_is(
    app: App, remember: RememberOne, how: str
) -> None:
    """W8.2: with its kind, tags, importance and pin; once, and the echo of that confirms nothing."""
    said = "The nightly export is slow because of an N+1 query in ExportWriter.rows."
    line = remember(said, kind="message", role="assistant")
    if how == "assembled":
        app.assemble_context(ContextRequest(query="nightly export slow"), app.caller())
    else:
        app.recall(RecallRequest(query="nightly export slow"), app.caller())
    text = f"- [{line.id} message 2026-11-20] {said}" if how == "copied" else said
    answer = remember(text, kind="decision", importance=8.0, tags=("perf",), pinned=True, details={"reasons": ["seen"]})
    assert (answer.status, answer.id == line.id) == ("stored", False)
    record = stored(app, answer.id)
    assert (record.kind, record.text, record.importance, record.tags, record.pinned, record.details) == (
        "decision", said, 8.0, ("perf",), True, {"reasons": ["seen"]},
    )  # fmt: skip
    assert [remember(said, kind="decision", caller=app.caller("another")).status for _ in range(2)] == ["confirmed"] * 2
    app.recall(RecallRequest(query="nightly export slow"), app.caller("third"))
    assert remember(said, kind="decision", caller=app.caller("third")).added == ()
    assert app.inspect.status(app.caller()).summary.records == {"message": 1, "decision": 1}


def test_a_text_that_is_known_keeps_what_is_said_more_of_it(app: App, remember: RememberOne) -> None:
    """R2, W8.2: a kind, details, a date and entities as well; the answer names them; nothing is said of an echo."""
    first = remember("Exports are cut at 500 rows.", details={"reasons": ["memory"], "by": "Ann"})
    index = Entity(name="ExportWriter", type="class")
    more = remember(
        "Exports are cut at 500 rows.", kind="decision", importance=8.0, occurred_at=1_000.0, entities=(index,),
        details={"reasons": ["time", "memory"], "by": "Bo"}, tags=("export",), caller=app.caller("another"),
    )  # fmt: skip
    assert (more.id, more.status, more.kind) == (first.id, "confirmed", None)
    assert set(more.added) == {"kind", "importance", "tags", "details", "occurred_at", "entities"}
    record = stored(app, first.id)
    assert (record.kind, record.status, record.occurred_at) == ("decision", "recorded", 1_000.0)
    assert record.details == {"reasons": ["memory", "time"], "by": "Bo"}
    assert found(app, "rows", kinds=frozenset({"decision"}), entities=("ExportWriter",)) == [
        f"{record.text} Because: memory; time"
    ]
    assert remember("Exports are cut at 500 rows.", caller=app.caller("third")).added == ()
    assert stored(app, first.id).kind == "decision"


def test_what_is_said_more_of_a_known_text_can_be_taken_back(app: App, remember: RememberOne) -> None:
    """W8.2, R8: the kind, the details and the date that it had are kept as a version."""
    first = remember("Exports are cut at 500 rows.", details={"by": "Ann"}, occurred_at=5.0)
    was = stored(app, first.id)
    remember("Exports are cut at 500 rows.", kind="decision", details={"by": "Bo"}, occurred_at=1_000.0)
    [version] = app.records.versions([first.id])[first.id]
    assert {"kind", "details", "occurred_at"} <= set(version.told)
    app.undo(version.write, app.caller())
    record = stored(app, first.id)
    assert (record.kind, record.status, record.details, record.occurred_at) == (
        was.kind, was.status, was.details, was.occurred_at,
    )  # fmt: skip


@pytest.mark.parametrize("kind", ["censor", "identity"])
def test_a_rule_stays_one_whatever_its_text_is_stored_as(app: App, remember: RememberOne, kind: Kind) -> None:
    """W8.2: and the answer says which kind it keeps."""
    rule = remember("Never force-push.", kind=kind)
    again = remember("Never force-push.", kind="decision", tags=("git",))
    assert (again.id, again.status, again.kind, again.added) == (rule.id, "confirmed", kind, ("tags",))
    assert (stored(app, rule.id).kind, stored(app, rule.id).tags) == (kind, ("git",))


def test_another_agents_fact_rules_nobody_but_who_makes_a_rule_of_it(app: App, remember: RememberOne) -> None:
    """W8.2: a record is its author's who made it what it is."""
    fact = remember("Never force-push.")
    bob = replace(app.caller(), agent="bob")
    assert app.remember([NewRecord(text="Never force-push.", kind="censor")], bob)[0].added == ("kind",)
    assert (stored(app, fact.id).kind, stored(app, fact.id).author) == ("censor", "bob")


def test_a_summary_that_was_read_adds_what_is_said_of_it(app: App, remember: RememberOne) -> None:
    """W8.2, B11.1: also where less than the whole text was shown, and again it confirms nothing."""
    record = remember("The port is 5432. " * 100)
    [summary] = found(app, "port")
    answer = remember(summary, tags=("db",), pinned=True, caller=app.caller("another"))
    assert (answer.id, answer.status, set(answer.added)) == (record.id, "confirmed", {"tags", "pinned"})
    assert (stored(app, record.id).tags, stored(app, record.id).counters.confirmed) == (("db",), 0)


def test_secrets_are_cut_out_of_every_field_and_counted(app: App, remember: RememberOne) -> None:
    """R4: whatever is stored."""
    answer = remember(
        f"text {TOKEN}", tags=(TOKEN,), speaker=TOKEN, role=TOKEN, tool=TOKEN, call_id=TOKEN, details={TOKEN: TOKEN},
        entities=(Entity(name=TOKEN, type=TOKEN, properties={TOKEN: TOKEN}),),
        relations=(Relation(source=TOKEN, type=TOKEN, target=TOKEN),),
    )  # fmt: skip
    assert answer.redacted == 15
    folder = app.settings.data_dir
    assert not any(TOKEN.encode() in path.read_bytes() for path in folder.iterdir())


def test_the_reasons_of_a_decision_are_found(app: App, remember: RememberOne) -> None:
    """C2.0, R1: details that say why are searched like the text."""
    decision = remember("The limit is sixty a minute.", kind="decision", details={"reasons": ["upstream throttles us"]})
    remember("Lunch is at one.")
    assert app.recall(RecallRequest(query="throttles"), app.caller()).results[0]["id"] == decision.id


def test_what_was_said_is_kept_to_the_byte(app: App, remember: Callable[..., Remembered]) -> None:
    """D3.2: undoing a compaction gives back what was said, indentation and line ends included."""
    said = "\n    def f():\n        return 1\n\n"
    stored = remember(said, kind="tool_result")
    (shown,) = app.recall(RecallRequest(ids=(stored.id,), detail="full"), app.caller()).results
    assert shown["text"] == said


def test_without_advice_nobody_looks_for_what_is_alike(app: App, remember: RememberOne) -> None:
    """X3.1: for whoever stores many records and reads none of the answers; what is stored is the same."""
    remember("Lunch is served at noon.")
    [stored] = app.remember([NewRecord(text="Lunch is served at 12.")], app.caller(), advise=False)
    assert (stored.status, stored.similar) == ("stored", ())


def test_what_is_stored_without_vectors_is_found_by_its_words(app: App) -> None:
    """S7.1: upkeep gives it the vectors; the call itself asks no embedder, not even for what waits."""
    app.remember([NewRecord(text="The gauge stands on the pier.")], app.caller(), advise=False, embed=False)
    assert app.records.count_unembedded() == 1
    assert found(app, "gauge") == ["The gauge stands on the pier."]
    while app.keep_up():
        pass
    assert app.records.count_unembedded() == 0
