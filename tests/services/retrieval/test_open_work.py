"""Open work among what a question finds."""

from collections.abc import Callable, Sequence
from typing import Any

import pytest

from mcp_memory.app import App
from mcp_memory.domain.model.requests import PopRequest, PushRequest
from mcp_memory.domain.model.scopes import Caller
from mcp_memory.domain.retrieval.queries import Query
from mcp_memory.domain.text.work_questions import WorkQuestion
from mcp_memory.errors import StoreUnavailable
from mcp_memory.services.context.assemble import ContextRequest
from mcp_memory.services.memory.remember import Remembered
from mcp_memory.services.retrieval import open_work
from mcp_memory.services.retrieval.recall import RecallRequest

RememberOne = Callable[..., Remembered]
GOAL = "Migrate the crane slot service to gRPC"
CERTIFICATE = "waits for the vendor's certificate"


@pytest.fixture
def bob(app: App, open_memory: Callable[..., App]) -> App:
    """Another agent of a memory in which one goal is open with a step, and another one is blocked."""
    ann = open_memory(agent="ann")
    push(ann, GOAL, plan=("Switch the yard clients",))
    push(ann, "Write the proto files")
    cleo = open_memory(agent="cleo")
    push(cleo, "Rotate the signing keys")
    cleo.tasks.pop(PopRequest(result=CERTIFICATE, status="blocked"), cleo.caller())
    return open_memory(agent="bob")


def push(app: App, goal: str, caller: Caller | None = None, **fields: Any) -> str:
    stack = app.tasks.push(PushRequest(goal=goal, **fields), caller or app.caller())
    assert stack.current is not None
    return stack.current.id


def lines(app: App, query: str, **fields: Any) -> list[str]:
    return [each.line for each in app.recall(RecallRequest(query=query, **fields), app.caller()).shown]


def block(app: App, query: str, **fields: Any) -> str:
    return app.assemble_context(ContextRequest(query=query, **fields), app.caller()).text


@pytest.mark.uncounted
@pytest.mark.parametrize(
    "query", [GOAL, "who is working on the crane slot service?", "moving the slots of the cranes to gRPC"]
)
def test_an_open_goal_is_found_by_its_words_and_its_meaning(bob: App, remember: RememberOne, query: str) -> None:
    """W4.1: among records, in recall and in a block, with its owner."""
    remember("Lunch is at one.")
    assert lines(bob, query)[0] == f"- [t000001 open, ann since 12:00] {GOAL}"
    for budget in (300, 1_000):
        assert f"## Task\n- [t000001 open, ann since 12:00] {GOAL}\n" in block(bob, query, max_tokens=budget)


def test_a_reason_an_owner_and_a_planned_step_are_found(bob: App) -> None:
    """W4.1."""
    blocked = f"Rotate the signing keys; blocked: {CERTIFICATE}"
    for query in ("vendor certificate", "what does cleo do?"):
        assert [line.partition("] ")[2] for line in lines(bob, query)[:1]] == [blocked]
    step = lines(bob, "Switch the yard clients")[0]
    assert step.endswith(f" planned, ann since 12:00] Switch the yard clients (part of t000001: {GOAL})")


@pytest.mark.uncounted
@pytest.mark.parametrize(
    "query",
    ["what is open?", "where did we stop?", "who is working on it?", "woran arbeiten wir gerade?", "现在谁在做？"],
)
def test_a_question_about_open_work_is_answered_from_the_tree(bob: App, remember: RememberOne, query: str) -> None:
    """W4.1: in any language, the innermost of each goal with what it is for, then what is planned."""
    remember("The door of the shed is open.")
    remember("谁也没有钥匙。")
    found = [line.partition("] ")[2] for line in lines(bob, query)]
    assert set(found[:3]) == {
        f"Write the proto files (part of t000001: {GOAL})",
        f"Rotate the signing keys; blocked: {CERTIFICATE}",
        f"Switch the yard clients (part of t000001: {GOAL})",
    }
    assert "Write the proto files (part of t000001" in block(bob, query, max_tokens=300)


def test_what_waits_comes_first_where_that_is_asked(bob: App) -> None:
    """W4.1."""
    assert lines(bob, "what is blocked?")[0].endswith(f"Rotate the signing keys; blocked: {CERTIFICATE}")
    assert "Rotate the signing keys" in block(bob, "was ist blockiert?", max_tokens=300)


@pytest.mark.uncounted
@pytest.mark.parametrize(
    "query", ["what is still open in the crane slot migration?", "wer arbeitet am Crane Slot Service?"]
)
def test_a_question_about_a_goals_work_is_answered_with_its_steps(bob: App, remember: RememberOne, query: str) -> None:
    """W4.1: the goal that the question names, and what is open within it, before records with its words."""
    remember("The crane slot service keeps a slot for ten minutes.")
    push(bob, "Paint the shed")
    found = [line.partition("] ")[2] for line in lines(bob, query)]
    assert found[0] == GOAL
    assert {each.partition(" (part")[0] for each in found[1:3]} == {"Switch the yard clients", "Write the proto files"}


def test_a_question_of_which_open_work_has_few_words_is_not_about_it() -> None:
    """W4.1: at least half of its subject's words."""
    for subjects, wanted in ((("crane", "budget", "review"), ()), (("crane", "budget"), ["t000001"])):
        asked = WorkQuestion(is_sure=True, subjects=subjects, is_blocked=False)
        words = {"t000001": frozenset({"crane", "slot"})}
        work = open_work.OpenWork(tasks={}, above={}, words=words, cosines={}, asked=asked, listed=("t000001",))
        assert open_work.answering(work, Query(text="", terms=()), ()) == wanted


@pytest.mark.uncounted
def test_the_words_of_a_foreign_goal_count(app: App, open_memory: Callable[..., App], remember: RememberOne) -> None:
    """W4.1: a goal in another language is indexed by that language's rules, as records are."""
    push(open_memory(agent="ines"), "Pasar los catálogos al nuevo gestor de contenidos")
    for number in range(9):
        remember(f"El ascensor del edificio {number} está averiado.")
    assert "Pasar los catálogos" in lines(open_memory(agent="bob"), "¿quién está con la migración del catálogo?")[0]


@pytest.mark.uncounted
def test_a_question_with_a_subject_of_its_own_goes_by_what_bears_on_it(bob: App, remember: RememberOne) -> None:
    """W4.1: the same gate for tasks as for records."""
    gate = remember("The harbour gate stays open until ten.").id
    assert [
        each.data["id"] for each in bob.recall(RecallRequest(query="which harbour gate is open?"), bob.caller()).shown
    ] == [gate]
    assert lines(bob, "recipe for pancakes") == []
    assert GOAL not in block(bob, "recipe for pancakes")


def test_a_name_that_only_open_work_has_is_known(bob: App, remember: RememberOne) -> None:
    """W4.1: "Nothing here names gRPC" would be wrong."""
    remember("Lunch is at one.")
    answer = bob.recall(RecallRequest(query="Why do we go to gRPC?"), bob.caller())
    assert (answer.unknown, [each.data["kind"] for each in answer.shown][:1]) == ((), ["task"])
    assert bob.recall(RecallRequest(query="Why do we go to Redis?"), bob.caller()).unknown == ("Redis",)


@pytest.mark.uncounted
@pytest.mark.parametrize(
    "fields", [{"kinds": ("fact",)}, {"tags": ("db",)}, {"since": "yesterday"}, {"as_of": "2026-11-20T13:00Z"}]
)
def test_a_filter_or_another_time_asks_for_records_alone(
    bob: App, remember: RememberOne, fields: dict[str, Any]
) -> None:
    remember("Lunch is at one.", tags=("db",))
    assert not any("[t0" in line for line in lines(bob, GOAL, **fields))
    assert GOAL not in block(bob, GOAL, **fields)


def test_the_readers_own_path_stands_in_its_block_once(bob: App) -> None:
    """W4.1: and what else it found takes the place of the plan's line."""
    root = push(bob, "Paint the shed", plan=("Buy the paint",))
    text = block(bob, "buy paint for the shed", max_tokens=3_000)
    assert text.count("Buy the paint") == 1
    assert (text.count(f"[{root}]"), text.count("Paint the shed")) == (1, 2)  # Its own line, and what the step is for.


def test_a_model_that_cannot_run_leaves_words(bob: App, monkeypatch: pytest.MonkeyPatch) -> None:
    """W4.1."""

    def refuse(texts: Sequence[str]) -> None:
        raise StoreUnavailable("no model")

    monkeypatch.setattr(bob.searcher.work._embedder, "embed_many", refuse)  # noqa: SLF001
    assert lines(bob, "what is open?")
    monkeypatch.setattr(bob.searcher._embedder, "embed_query", refuse)  # noqa: SLF001
    assert lines(bob, "crane slot service")[0].endswith(GOAL)


def test_a_rare_identifier_is_as_rare_in_a_goal(app: App, remember: RememberOne) -> None:
    """W4.1: what holds it in a record is not before what holds it in a goal for that alone."""
    remember("Ticket qx7781 came from the yard.")
    push(app, "Close qx7781 by sending the yard its missing slots")
    assert {"fact", "task"} == {
        str(each.data["kind"]) for each in app.recall(RecallRequest(query="qx7781 missing slots"), app.caller()).shown
    }


def test_vectors_of_goals_are_kept_so_many(bob: App, monkeypatch: pytest.MonkeyPatch) -> None:
    """P: each goal is embedded once."""
    monkeypatch.setattr(open_work, "KEPT_VECTORS", 1)
    bob.searcher.work.vectors(["one goal"])
    assert bob.searcher.work.vectors(["another goal", "one goal"]).keys() == {
        open_work.content_hash("one goal"), open_work.content_hash("another goal"),
    }  # fmt: skip
