"""What is kept of contexts: for repeated requests, for those that go on from what is shown, for one more record."""

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any, cast

import pytest
import toktok

from mcp_memory.app import App
from mcp_memory.domain.model.records import NewRecord
from mcp_memory.encoders.embed_minilm import MiniLMEmbedder
from mcp_memory.errors import StoreUnavailable
from mcp_memory.services.context import shown_contexts
from mcp_memory.services.context.assemble import Context, ContextRequest
from mcp_memory.services.memory.remember import Remembered
from mcp_memory.services.memory.revise import Revision
from mcp_memory.services.retrieval.recall import RecallRequest
from mcp_memory.stores import own_shown
from tests.services.tasks.moves import pop, push

if TYPE_CHECKING:
    from tests.conftest import Clock

RememberOne = Callable[..., Remembered]
independent_counts = cast("Callable[[list[str], str], list[int]]", toktok.batch_count)


def assemble(app: App, **fields: Any) -> Context:
    return app.assemble_context(ContextRequest(**fields), app.caller())


def told(context: Context, name: str) -> object:
    return context.report.metadata.get(name)


def ids(context: Context) -> list[str]:
    return [component.id for component in context.report.components]


def tokens(text: str) -> int:
    return independent_counts([text], "o200k_base")[0]


@pytest.mark.uncounted
def test_the_same_request_within_half_a_minute_is_answered_from_the_cache(
    app: App, remember: RememberOne, clock: "Clock"
) -> None:
    """B8.1: and says so; every request that could have another answer misses it."""
    remember("The port is 5432.", tags=("net",))
    first = assemble(app, query="port")
    again = assemble(app, query="port")
    assert [told(each, "cached") for each in (first, again)] == [False, True]
    assert (again.text, again.report.components, again.report.omitted) == (
        first.text, first.report.components, first.report.omitted,
    )  # fmt: skip
    others: list[dict[str, Any]] = [
        {"strategy": "recent"}, {"kinds": ("fact",)}, {"tags": ("net",)}, {"since": "yesterday"}, {"exclude": ("r1",)},
        {"until": "tomorrow"}, {"entity_types": ("host",)}, {"additional_context": "x"}, {"max_tokens": 500},
        {"order": "reverse"}, {"explain": True}, {"compress": True}, {"overrides": {"depth": 2}}, {"decay_hours": 2.0},
    ]  # fmt: skip
    assert not [other for other in others if told(assemble(app, **{"query": "port", **other}), "cached")]
    assert told(app.assemble_context(ContextRequest(query="port"), app.caller("another session")), "cached") is False
    assert told(app.assemble_context(ContextRequest(query="port"), app.caller(client="claude-code")), "cached") is False
    clock.advance(seconds=30)
    assert told(assemble(app, query="port"), "cached") is True
    clock.advance(seconds=1)
    assert told(assemble(app, query="port"), "cached") is False


@pytest.mark.uncounted
def test_any_write_misses_the_cache(app: App, open_memory: Callable[..., App], remember: RememberOne) -> None:
    """B8.1: by whichever process: a record, a correction, a task, an erasure."""
    port = remember("The port is 5432.")

    def is_cached() -> bool:
        assert told(assemble(app, query="port"), "cached") in (True, False)
        return told(assemble(app, query="port"), "cached") is True

    assert is_cached()
    writes: list[Callable[[], object]] = [
        lambda: remember("The host is db2."),
        lambda: app.revise(Revision(id=port.id, importance=4.0), app.caller()),
        lambda: app.revise(Revision(id=port.id, feedback="used"), app.caller()),
        lambda: push(app, "ship"),
        lambda: pop(app),
        lambda: open_memory(agent="bob").remember([NewRecord(text="Bob was here.")], app.caller()),
        lambda: app.forget([port.id], "erase", app.caller()),
    ]
    for write in writes:
        write()
        assert told(assemble(app, query="port"), "cached") is False
        assert is_cached()
    assert "5432" not in assemble(app, query="port").text


@pytest.mark.uncounted
@pytest.mark.parametrize(
    "asked", [{"strategy": "recent"}, {"strategy": "important", "overrides": {"weights": {"access": 1.0}}}]
)
def test_a_record_that_was_opened_since_is_weighed_by_that(
    app: App, remember: RememberOne, clock: "Clock", asked: dict[str, Any]
) -> None:
    """B8.1, A1.1, A6.5: opening one is no write, so a strategy that weighs it answers from no cache."""
    first, second = remember("The port is 5432.").id, remember("The host is db2.").id
    assert ids(assemble(app, **asked)) == [second, first]
    clock.advance(seconds=1)
    app.recall(RecallRequest(ids=(first,)), app.caller())
    assert ids(assemble(app, **asked)) == [first, second]


def test_the_cache_is_bounded(app: App, remember: RememberOne, monkeypatch: pytest.MonkeyPatch) -> None:
    """B8.1: the oldest go first."""
    monkeypatch.setattr(shown_contexts, "CACHED", 3)
    remember("The port is 5432.")
    for n in range(4):
        assemble(app, max_tokens=500 + n)
    assert [told(assemble(app, max_tokens=500 + n), "cached") for n in (3, 1, 0)] == [True, True, False]


def test_a_follow_up_says_that_nothing_changed(app: App, remember: RememberOne, clock: "Clock") -> None:
    """C7.1: for another question with the same answer as well, and after a while."""
    remember("The port of the database is 5432.")
    first = assemble(app, query="Which port has the database?")
    for query in ("Which port has the database?", "Which port does the database have?"):
        clock.advance(seconds=31)
        kept = assemble(app, query=query, previous=first.report.id)
        assert kept.text == f'<memory-context id="{first.report.id}">\nunchanged\n</memory-context>'
        assert told(kept, "follow_up") == "unchanged"
        assert kept.report.token_count == tokens(kept.text)


def failed(message: str, **fields: Any) -> NewRecord:
    return NewRecord(text="run", kind="event", details={"type": "error", "message": message}, **fields)


@pytest.mark.parametrize("query", ["Why does the login of the shop fail?", ""])
def test_errors_since_are_told_once_beside_a_full_block(app: App, remember: RememberOne, query: str) -> None:
    """C7.1: at most three, the newest first; what fits beside the shown is added as ever."""
    app.remember(
        [NewRecord(text=f"The login of the shop fails where handler {n} checks rule {n * 7}.") for n in range(80)],
        app.caller(),
    )
    first = assemble(app, query=query, max_tokens=500)
    messages = [f"KeyError {name} in the login of the shop" for name in ("basket", "cookie", "coupon", "session")]
    errors = app.remember([failed(message) for message in messages], app.caller())
    app.remember([NewRecord(text="The login was looked at.", kind="event")], app.caller())
    told_once = assemble(app, query=query, max_tokens=500, previous=first.report.id)
    assert told(told_once, "follow_up") == "unchanged"
    assert told(told_once, "errors") == [each.id for each in errors[:0:-1]]
    fence, said, *lines, _ = told_once.text.splitlines()
    assert (fence, said) == (f'<memory-context id="{first.report.id}">', "unchanged, and since then:")
    assert [line.partition("Error: ")[2] for line in lines] == messages[:0:-1]
    assert told_once.report.token_count == tokens(told_once.text)
    again = assemble(app, query=query, max_tokens=500, previous=first.report.id)
    assert again.text == f'<memory-context id="{first.report.id}">\nunchanged\n</memory-context>'


@pytest.mark.parametrize("query", ["Why does the login of the shop fail?", ""])
def test_errors_since_are_told_once_in_a_block_that_is_rebuilt(app: App, query: str) -> None:
    """C7.1: though others fill it; an account says what it left out for them."""
    rules = [NewRecord(text=f"The login of the shop fails where handler {n} checks rule {n * 7}.") for n in range(24)]
    app.remember(rules, app.caller())
    first = assemble(app, query=query, max_tokens=500)
    app.revise(Revision(id=ids(first)[0], text="The login of the shop fails at noon."), app.caller())
    [error] = app.remember([failed("KeyError coupon in the login of the shop")], app.caller())
    second = assemble(app, query=query, max_tokens=500, previous=first.report.id)
    assert (told(second, "follow_up"), told(second, "reason")) == ("rebuilt", "what was shown has changed")
    assert second.text.count("Error: KeyError coupon in the login of the shop") == 1
    assert second.report.token_count == tokens(second.text) <= 500
    assert error.id not in {each.id for each in second.report.omitted}
    again = assemble(app, query=query, max_tokens=500, previous=second.report.id)
    assert (told(again, "follow_up"), told(again, "errors")) == ("unchanged", None)


def test_an_error_since_is_told_beside_what_is_added(app: App, remember: RememberOne) -> None:
    """C7.1: where nothing was asked and no call is quoted."""
    remember("The port of the database is 5432.")
    first = assemble(app, max_tokens=1_000)
    new = remember("The port of the mirror database is 5433.")
    other = app.caller("another session")
    [error] = app.remember([failed("The port of the database is closed")], other)
    second = assemble(app, max_tokens=1_000, previous=first.report.id)
    assert told(second, "follow_up") == "added"
    assert sorted(ids(second)) == [new.id, error.id]
    third = assemble(app, max_tokens=1_000, previous=second.report.id)
    assert (told(third, "follow_up"), told(third, "errors")) == ("unchanged", None)


@pytest.mark.uncounted
def test_no_error_is_told_that_bears_on_something_else_or_was_not_asked_for(app: App, remember: RememberOne) -> None:
    """C7.1: nor what a client's own window shows, nor one for which the budget has no room."""
    remember("The port of the database is 5432.")
    query = "Which port has the database?"
    for asked, error in (
        ({}, failed("No paper in the canteen's printer")),
        ({}, NewRecord(text="port refused", kind="tool_result", outcome="failure", call_id="c1")),
        ({"kinds": ("fact",)}, failed("The port of the database is closed")),
        ({"kinds": ("message",)}, failed("The port of the database is open")),
    ):
        first = assemble(app, query=query, **asked)
        app.remember([error], app.caller())
        second = assemble(app, query=query, previous=first.report.id, **asked)
        assert told(second, "errors") is None
    app.remember([NewRecord(text=f"The port of database {n} is 54{n}.") for n in range(10, 20)], app.caller())
    small = assemble(app, max_tokens=70)
    app.remember([failed("The port of the database is closed again, " * 8)], app.caller())
    assert told(assemble(app, max_tokens=70, previous=small.report.id), "errors") is None


@pytest.mark.uncounted
def test_a_follow_up_adds_only_what_is_new(app: App, remember: RememberOne) -> None:
    """C7.1: a chain of them, inside the budget of the first; the rest stays what the client shows (C7.2)."""
    remember("Never force-push.", kind="censor")
    old = remember("The port of the database is 5432.")
    first = assemble(app, query="Which port has the database?")
    new = remember("The port of the mirror database is 5433.")
    second = assemble(app, query="Which port has the database?", previous=first.report.id)
    assert (told(second, "follow_up"), told(second, "previous")) == ("added", first.report.id)
    assert second.text.startswith(f'<memory-context id="{second.report.id}" adds-to="{first.report.id}">')
    assert ids(second) == [new.id]
    assert "5432" not in second.text
    assert "force-push" not in second.text
    assert second.report.token_count == tokens(second.text) <= 8_000 - first.report.token_count
    third_fact = remember("The port of the test database is 5434.")
    third = assemble(app, query="Which port has the database?", previous=second.report.id)
    assert ids(third) == [third_fact.id]
    same = assemble(app, query="Which port has the database?", previous=third.report.id)
    assert told(same, "follow_up") == "unchanged"
    assert f'id="{third.report.id}"' in same.text
    assert old.id not in ids(third)


def test_a_name_that_is_new_is_searched_for_and_added(app: App, remember: RememberOne) -> None:
    """C7.1: "and what of Grace?"; that the first one is not named any more is no change."""
    ada = remember("Ada Lovelace is on call for the billing service this week.")
    first = assemble(app, query="Is Ada Lovelace on call this week?")
    assert ids(first) == [ada.id]
    remember("Grace Hopper is on call for the mail service this week.")
    second = assemble(app, query="Is Grace Hopper on call this week?", previous=first.report.id)
    assert told(second, "follow_up") == "added"
    assert "Grace Hopper" in second.text
    assert ada.id not in ids(second)


def test_a_task_that_moves_on_is_added_and_its_stack_stays(app: App, remember: RememberOne) -> None:
    """C7.1, C7.2: the new line of the task, not the whole block again."""
    remember("The port of the database is 5432.")
    push(app, "move the database to another port")
    first = assemble(app, strategy="planning")
    push(app, "stop the database on its port")
    again = "move the database to another port"
    second = assemble(app, query=again, strategy="planning", previous=first.report.id)
    assert told(second, "follow_up") == "added"
    assert "stop the database on its port" in second.text
    assert "5432" not in second.text


def reason(app: App, previous: Context, **fields: Any) -> object:
    context = assemble(app, previous=previous.report.id, **fields)
    assert told(context, "follow_up") == "rebuilt"
    assert "unchanged" not in context.text
    assert "5433" in context.text or "5432" in context.text or "lunch" in context.text
    replaces = f' replaces="{previous.report.id}">'
    assert (replaces in context.text.splitlines()[0]) == (
        told(context, "reason") != "the earlier context is not known here"
    )
    assert context.report.token_count == tokens(context.text)
    return told(context, "reason")


def test_a_block_is_rebuilt_with_its_reason(app: App, open_memory: Callable[..., App], remember: RememberOne) -> None:
    """C7.1: another strategy, another question, a decision, something not known here."""
    remember("The port of the database is 5432.")
    remember("In the canteen lunch is at noon.")
    query = "Which port has the database?"
    first = assemble(app, query=query)
    assert reason(app, first, query=query, strategy="debugging") == "another strategy"
    assert reason(app, first, query="When is lunch in the canteen?") == "another question"
    deciding = assemble(app, query=query, strategy="decision")
    remember("The port of the mirror is 5433.")
    assert reason(app, deciding, query=query, strategy="decision") == "a decision is about to be made"
    bob = open_memory(agent="bob")
    assert reason(bob, first, query=query) == "the earlier context is not known here"


@pytest.mark.parametrize("change", ["outcome", "text", "superseded", "retired", "erased"])
def test_a_block_is_rebuilt_where_something_it_shows_is_not_so_any_more(
    app: App, remember: RememberOne, change: str
) -> None:
    """C7.1, R8, R9: the client must not go on from a wrong line."""
    old = remember("The port of the database is 5432.", kind="decision")
    remember("The port of the mirror database is 5433.")
    query = "What is the port of the database?"
    first = assemble(app, query=query, strategy="question")
    assert old.id in ids(first)
    if change == "outcome":
        app.revise(Revision(id=old.id, outcome="failure"), app.caller())
    elif change == "text":
        app.revise(Revision(id=old.id, text="The port of the database is 5433."), app.caller())
    elif change == "superseded":
        remember("The port of the database is 5434.", supersedes=(old.id,))
    else:
        app.forget([old.id], "retire" if change == "retired" else "erase", app.caller())
    context = assemble(app, query=query, strategy="question", previous=first.report.id)
    assert told(context, "follow_up") == "rebuilt"
    assert ("5432" in context.text) == (change in ("outcome", "superseded"))
    assert ("5434. (before r000001, 2026-11-20: 5432)" in context.text) == (change == "superseded")


@pytest.mark.uncounted
def test_under_token_pressure_the_block_is_rebuilt_and_what_must_stay_stays(app: App, remember: RememberOne) -> None:
    """C7.1, C7.2: censors, identity and the task stack."""
    remember("You are the release manager.", kind="identity")
    remember("Never force-push.", kind="censor", details={"action": "block"})
    push(app, "ship the release of service number seven")
    app.remember([NewRecord(text=f"Service {n} has release number {n}.") for n in range(12)], app.caller())
    first = assemble(app, query="release of service", max_tokens=500)
    app.remember(
        [NewRecord(text=f"Release number {n} of service {n} failed.", pinned=True) for n in range(12)], app.caller()
    )
    context = assemble(app, query="release of service", max_tokens=500, previous=first.report.id)
    assert (told(context, "follow_up"), told(context, "reason")) == ("rebuilt", "token pressure")
    for line in ("You are the release manager.", "Never force-push.", "ship the release of service number seven"):
        assert line in context.text
    assert context.report.token_count == tokens(context.text) <= 500


def test_what_does_not_fit_beside_the_shown_is_not_added_in_part(app: App, remember: RememberOne) -> None:
    """C7.1: there is room for one line more, and there are ten."""
    remember("Service seven has release number seven.")
    first = assemble(app, query="release of service", max_tokens=120)
    app.remember([NewRecord(text=f"Service {n} has release number {n}.") for n in range(10)], app.caller())
    context = assemble(app, query="release of service", max_tokens=120, previous=first.report.id)
    assert (told(context, "follow_up"), told(context, "reason")) == ("rebuilt", "token pressure")
    assert context.report.token_count == tokens(context.text) <= 120


def test_without_an_embedder_only_the_same_words_are_the_same_question(
    app: App, remember: RememberOne, embedder: MiniLMEmbedder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """C7.1, S2.2: what cannot be compared is another question."""
    remember("The port of the database is 5432.")

    def fail(_: str) -> object:
        raise StoreUnavailable("no model")

    monkeypatch.setattr(embedder, "embed_query", fail)
    first = assemble(app, query="port of the database", strategy="question")
    remember("The port of the mirror database is 5433.")
    assert reason(app, first, query="database port", strategy="question") == "another question"
    second = assemble(app, query="port of the database", strategy="question", previous=first.report.id)
    assert told(second, "follow_up") == "added"
    assert "5433" in second.text


@pytest.mark.uncounted
def test_what_is_known_of_shown_blocks_is_bounded(
    app: App, remember: RememberOne, monkeypatch: pytest.MonkeyPatch
) -> None:
    """C7.1: the oldest are forgotten, and a follow-up on them is the whole block."""
    monkeypatch.setattr(own_shown, "CONTEXTS_KEPT", 3)
    remember("The port of the database is 5432.")
    first, second, *_ = [assemble(app, max_tokens=500 + n) for n in range(4)]
    assert told(assemble(app, max_tokens=9_000, previous=second.report.id), "follow_up") == "unchanged"
    context = assemble(app, max_tokens=9_000, previous=first.report.id)
    assert told(context, "reason") == "the earlier context is not known here"


def test_an_added_block_accounts_for_everything(app: App, remember: RememberOne) -> None:
    """B1.3: also for what the whole would have left out."""
    port = remember("The port of the database is 5432.")
    lunch = remember("In the canteen lunch is at noon.")
    first = assemble(app, query="Which port has the database?")
    remember("The port of the mirror database is 5433.")
    second = assemble(app, query="Which port has the database?", previous=first.report.id)
    assert told(second, "follow_up") == "added"
    assert [(o.id, o.reason) for o in second.report.omitted] == [
        (lunch.id, "below the relevance floor"), (port.id, "shown already"),
    ]  # fmt: skip


@pytest.mark.uncounted
def test_a_correction_of_what_was_shown_first_rebuilds_however_long_the_chain(app: App, remember: RememberOne) -> None:
    """C7.1, R8: also of what the present question does not find any more."""
    port = remember("The port of the database is 5432.")
    first = assemble(app, query="Which port has the database?")
    remember("The port of the mirror database is 5433.")
    second = assemble(app, query="Which port has the database?", previous=first.report.id)
    assert told(second, "follow_up") == "added"
    app.revise(Revision(id=port.id, text="Lunch is at noon in the canteen."), app.caller())
    third = assemble(app, query="Which port has the database?", previous=second.report.id)
    assert (told(third, "follow_up"), told(third, "reason")) == ("rebuilt", "what was shown has changed")
    assert "5432" not in third.text


def test_other_filters_and_a_smaller_budget_rebuild(app: App, remember: RememberOne) -> None:
    """C7.1, B1.4: what the client shows is not the answer to that."""
    port = remember("The port of the database is 5432. " + "It is the port. " * 20)
    query = "Which port has the database?"
    first = assemble(app, query=query)
    second = assemble(app, query=query, previous=first.report.id, exclude=(port.id,))
    assert (told(second, "follow_up"), told(second, "reason")) == ("rebuilt", "other filters")
    smaller = assemble(app, query=query, previous=first.report.id, max_tokens=first.report.token_count - 1)
    assert (told(smaller, "follow_up"), told(smaller, "reason")) == ("rebuilt", "token pressure")


def test_an_account_stays_when_its_context_is_confirmed(app: App, remember: RememberOne) -> None:
    """B1.3: `unchanged` is counted, and takes nothing's place."""
    remember("The port of the database is 5432. " * 8)
    first = assemble(app, query="Which port has the database?")
    before = app.inspect.context(first.report.id, app.caller())
    same = assemble(app, query="Which port has the database?", previous=first.report.id)
    assert told(same, "follow_up") == "unchanged"
    assert app.inspect.context(first.report.id, app.caller()) == before


def test_two_sessions_of_one_agent_do_not_share_what_they_show(app: App, remember: RememberOne) -> None:
    """B11.2: the id tells which block a block goes on from; another session rebuilds."""
    remember("The port of the database is 5432.")
    request = ContextRequest(query="Which port has the database?")
    first = app.assemble_context(request, app.caller("s1"))
    remember("The port of the mirror database is 5433.")
    other = app.assemble_context(replace(request, previous=first.report.id), app.caller("s2"))
    assert told(other, "reason") == "the earlier context is not known here"
