"""As of a time: what was believed then, in the words of then, of what was true then."""

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from mcp_memory.app import App
from mcp_memory.domain.model.records import NewRecord
from mcp_memory.encoders.embed_minilm import MiniLMEmbedder
from mcp_memory.errors import InvalidRequest, StoreUnavailable
from mcp_memory.services.context.assemble import ContextRequest
from mcp_memory.services.memory.remember import Remembered
from mcp_memory.services.memory.revise import Revision
from mcp_memory.services.retrieval.recall import RecallRequest
from mcp_memory.services.tasks.task_stack import PushRequest

if TYPE_CHECKING:
    from tests.conftest import Clock

RememberOne = Callable[..., Remembered]
DAYS = ("2026-11-20", "2026-11-21", "2026-11-22", "2026-11-23")


def texts(app: App, as_of: str | None = None, query: str = "", **more: Any) -> list[str]:
    """The texts of the results, best first."""
    found = app.recall(RecallRequest(query=query, as_of=as_of, **more), app.caller()).results
    return [str(each["text"]) for each in found]


@pytest.fixture
def history(app: App, remember: RememberOne, clock: "Clock") -> dict[str, str]:
    """Four days: a value that was corrected twice, one that was replaced, one that was retired."""
    limit = remember("The API allows 100 requests per minute.", tags=("api",)).id
    host = remember("Sessions are kept in Redis.").id
    key = remember("The mapping key is in the vault.").id
    clock.advance(days=1)
    app.revise(Revision(id=limit, text="The API allows 250 calls per minute."), app.caller())
    cookies = remember("Sessions are kept in signed cookies.", supersedes=(host,)).id
    clock.advance(days=1)
    app.revise(Revision(id=limit, text="Since the new contract there is no quota.", tags=()), app.caller())
    app.forget([key], "retire", app.caller())
    clock.advance(days=30)
    return {"limit": limit, "host": host, "key": key, "cookies": cookies}


@pytest.mark.uncounted
def test_each_day_has_its_own_truth(app: App, history: dict[str, str]) -> None:
    """N4.1: corrected, replaced, retired, and not known yet; also by words that only the earlier text had."""
    asked = ("requests per minute", "where are sessions kept", "mapping key")
    told = {day: [texts(app, day, query)[:1] for query in asked] for day in DAYS[:3]}
    assert told == {
        DAYS[0]: [
            ["The API allows 100 requests per minute."],
            ["Sessions are kept in Redis."],
            ["The mapping key is in the vault."],
        ],
        DAYS[1]: [
            ["The API allows 250 calls per minute."],
            ["Sessions are kept in signed cookies."],
            ["The mapping key is in the vault."],
        ],
        DAYS[2]: [[], ["Sessions are kept in signed cookies."], []],
    }
    assert texts(app, DAYS[2], "is there a quota in the contract")[0] == "Since the new contract there is no quota."
    assert texts(app, "2026-11-19", "sessions") == []
    assert texts(app, "2027-06-01", "where are sessions kept")[0] == "Sessions are kept in signed cookies."


def test_lists_ids_and_filters_are_of_then_too(app: App, history: dict[str, str]) -> None:
    """N4.1: an id opens the version of then, whatever its status; what was not stored yet is not found."""
    listed = texts(app, DAYS[0])
    assert sorted(listed) == [
        "Sessions are kept in Redis.", "The API allows 100 requests per minute.", "The mapping key is in the vault.",
    ]  # fmt: skip
    assert texts(app, DAYS[1], tags=("api",)) == ["The API allows 250 calls per minute."]
    assert texts(app, DAYS[1], tags=("+api",)) == ["The API allows 250 calls per minute."]
    assert "The API allows 250 calls per minute." not in texts(app, DAYS[1], tags=("-api",))
    assert texts(app, DAYS[2], tags=("api",)) == []
    assert "Since the new contract there is no quota." in texts(app, DAYS[2], tags=("-api",))
    assert len(texts(app, DAYS[2])) == 2
    assert len(texts(app, DAYS[2], include_inactive=True)) == 4
    request = RecallRequest(ids=(*history.values(),), as_of=DAYS[0])
    opened = app.recall(request, app.caller())
    assert [(each["id"], each.get("status")) for each in opened.results] == [
        (history[name], None) for name in ("limit", "host", "key")
    ]
    assert opened.not_found == (history["cookies"],)
    with pytest.raises(InvalidRequest, match="'once' is not a time"):
        texts(app, "once", "sessions")


@pytest.mark.uncounted
def test_it_answers_as_was_answered_then(app: App, remember: RememberOne, clock: "Clock") -> None:
    """N4.1: whatever was done to the records since, undone included."""
    answers: list[list[str]] = []
    items = [NewRecord(text=f"Server {name} runs release {number}.") for number, name in enumerate("abcdef")]
    ids = [each.id for each in app.remember(items, app.caller())]
    changes: list[int] = []
    for day in range(6):
        clock.advance(days=1)
        changes.append(
            app.revise.advised(
                Revision(id=ids[day], text=f"Server {day} now runs build {day * 7}."), app.caller()
            ).change
        )
        if day % 2:
            app.forget([ids[day - 1]], "retire", app.caller())
        if day == 3:
            app.undo(changes[3], app.caller())
            app.forget([ids[0]], "restore", app.caller())
        answers.append(sorted(texts(app)))
    days = [f"2026-11-{21 + day}" for day in range(6)]
    assert [sorted(texts(app, day)) for day in days] == answers


def test_what_was_true_then_ranks_above_what_was_known_and_not_true(
    app: App, remember: RememberOne, clock: "Clock"
) -> None:
    """N4.1: known at once, true one after the other; the end may be corrected later."""
    first = remember("The ticket costs 290.", **app.searcher.validity("2026-11-01", "2026-11-30")).id
    remember("The ticket costs 380.", **app.searcher.validity("2026-12-01", ""))
    clock.advance(days=40)
    app.revise(Revision(id=first, **app.searcher.validity("", "2026-12-31")), app.caller())
    told = {
        day: [
            (each["text"].partition(" (")[0], each["valid"]) for each in _results(app, "what does the ticket cost", day)
        ]
        for day in ("2026-11-25", "2026-12-10")
    }
    assert told == {
        "2026-11-25": [
            ("The ticket costs 290.", "from 2026-11-01 until 2026-11-30"),
            ("The ticket costs 380.", "not yet: from 2026-12-01"),
        ],
        "2026-12-10": [
            ("The ticket costs 380.", "from 2026-12-01"),
            ("The ticket costs 290.", "past: from 2026-11-01 until 2026-11-30"),
        ],
    }


def _results(app: App, query: str, as_of: str) -> list[Any]:
    return list(app.recall(RecallRequest(query=query, as_of=as_of), app.caller()).results)


def test_only_what_the_reader_could_read_then_and_may_read_now(
    app: App, remember: RememberOne, clock: "Clock", open_memory: Callable[..., App]
) -> None:
    """S2, N4.1: others' private words, erased words, and what was only noted elsewhere stay where they are."""
    private = remember("My budget is 900.", visibility="private").id
    hidden = remember("The salary is 70.").id
    erased = remember("The password hint is blue.").id
    clock.advance(days=1)
    app.revise(Revision(id=private, visibility="shared"), app.caller())
    app.revise(Revision(id=hidden, text="The salary is known to HR."), app.caller())
    app.revise(Revision(id=hidden, visibility="private"), app.caller())
    app.forget([erased], "erase", app.caller())
    clock.advance(days=1)
    bob = open_memory(agent="bob")
    assert texts(bob, DAYS[0]) == []
    assert [each["id"] for each in bob.recall(RecallRequest(ids=(private,)), bob.caller()).results] == [private]
    assert bob.recall(RecallRequest(ids=(private,), as_of=DAYS[0]), bob.caller()).results == ()
    # Its words of then went when it moved.
    assert texts(app, DAYS[0]) == ["My budget is 900."]
    assert texts(bob, DAYS[1]) == ["My budget is 900."]


def test_what_was_noted_is_not_believed_elsewhere_until_it_is_confirmed(
    app: App, remember: RememberOne, clock: "Clock", open_memory: Callable[..., App]
) -> None:
    """N4.1."""
    noted = remember("The staging server is db2.").id
    with app.records.write() as transaction:
        record = transaction.get(noted)
        assert record is not None
        transaction.update(replace(record, status="noted"))
    clock.advance(days=1)
    app.revise(Revision(id=noted, feedback="helpful"), app.caller())
    clock.advance(days=1)
    bob = open_memory(agent="bob")
    assert (texts(bob, DAYS[0]), texts(bob, DAYS[1])) == ([], ["The staging server is db2."])


def test_looking_back_does_not_count_as_opening(app: App, history: dict[str, str]) -> None:
    """N4.1: the present ranks by it."""
    before = app.records.get([*history.values()], app.caller().scopes)
    texts(app, DAYS[0], "sessions")
    assert app.records.get([*history.values()], app.caller().scopes) == before


class Leaving(MiniLMEmbedder):
    """The built-in embedder, which can be away for whatever is stored."""

    is_away = False

    def embed_many(self, texts: Any) -> Any:
        if self.is_away:
            raise StoreUnavailable("The embedder is away.")
        return super().embed_many(texts)


def test_without_an_embedder_the_rest_is_answered_and_it_is_said(
    open_memory: Callable[..., App], clock: "Clock"
) -> None:
    """S3, N4.1."""
    embedder = Leaving()
    app = open_memory(embedder=embedder)
    ids = [
        each.id
        for each in app.remember(
            [NewRecord(text="The API allows 100 requests."), NewRecord(text="The API speaks JSON requests.")],
            app.caller(),
        )
    ]
    clock.advance(days=1)
    app.revise(Revision(id=ids[0], text="There is no quota."), app.caller())
    embedder.is_away = True
    found = app.recall(RecallRequest(query="API requests", as_of=DAYS[0]), app.caller())
    assert [each["id"] for each in found.results] == [ids[1]]
    assert found.degraded == ("earlier texts: The embedder is away.",)


@pytest.mark.parametrize("strategy", ["auto", "recent"])
@pytest.mark.parametrize("query", ["where are sessions kept, and how many requests per minute", ""])
def test_contexts_show_what_was_believed_then(app: App, history: dict[str, str], query: str, strategy: str) -> None:
    """N4.1: with the moment, and without tasks, which have no versions."""
    app.tasks.push(PushRequest(goal="Move sessions to Postgres"), app.caller())
    app.remember([NewRecord(text="Never keep sessions in files.", kind="censor")], app.caller())
    asked = ContextRequest(query=query, strategy=strategy, as_of=DAYS[0])
    text = app.assemble_context(asked, app.caller()).text
    assert "What was believed at 2026-11-20T23:59 UTC." in text
    assert "Sessions are kept in Redis." in text
    assert "The API allows 100 requests per minute." in text
    for later in ("cookies", "250", "quota", "Postgres", "files"):
        assert later not in text
    now = app.assemble_context(ContextRequest(query=query), app.caller()).text
    assert "Move sessions to Postgres" in now
