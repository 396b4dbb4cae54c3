"""Exclusions: what a person keeps out of contexts stays out of them, on every way in, and search finds it still."""

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from mcp_memory.app import App
from mcp_memory.domain.model.records import NewRecord
from mcp_memory.domain.model.scopes import Caller
from mcp_memory.entrypoints.transfer.memory_file import piece_line, read_piece
from mcp_memory.errors import Conflict, InvalidRequest, NotFound
from mcp_memory.ports.transfer import Origin, WholeExclusion, WholeRecord
from mcp_memory.services.context.assemble import ContextRequest
from mcp_memory.services.context.exclusions import NEVER_HERE
from mcp_memory.services.memory.remember import Remembered
from mcp_memory.services.memory.revise import Revision
from mcp_memory.services.retrieval.recall import RecallRequest
from mcp_memory.services.tasks.task_stack import PopRequest, PushRequest

if TYPE_CHECKING:
    from tests.conftest import Clock

RememberOne = Callable[..., Remembered]
QUERY = "which port does the gateway listen on"


def entered(app: App, goal: str = "", **fields: Any) -> str:
    current = app.tasks.push(PushRequest(goal=goal, **fields), app.caller()).current
    assert current
    return current.id


def given(app: App, query: str = QUERY, caller: Caller | None = None, **fields: Any) -> set[str]:
    report = app.assemble_context(ContextRequest(query=query, **fields), caller or app.caller()).report
    return {each.id for each in report.components}


@pytest.mark.uncounted
@pytest.mark.parametrize(
    "fields",
    [{}, {"pinned": True}, {"kind": "censor"}, {"kind": "identity"}, {"kind": "message", "role": "user"}],
    ids=["found", "pinned", "guardrail", "identity", "last exchange"],
)
def test_what_is_excluded_enters_on_no_way(app: App, remember: RememberOne, fields: dict[str, object]) -> None:
    """U1.1, B1.4: with a query and without; the account says why, and search finds it."""
    record = remember("The gateway listens on port 4711.", **fields).id
    task = entered(app, "Mend the gateway")
    assert record in given(app)
    assert app.exclusions.exclude(record, app.caller(), task)
    for query in (QUERY, ""):
        report = app.assemble_context(ContextRequest(query=query), app.caller()).report
        assert record not in {each.id for each in report.components}
        assert [each.reason for each in report.omitted if each.id == record] == [NEVER_HERE]
    assert not app.remind(QUERY, (), 400, app.caller()).ids
    assert record in [each["id"] for each in app.recall(RecallRequest(query=QUERY), app.caller()).results]


def test_an_exclusion_holds_below_its_task_and_nowhere_else(app: App, remember: RememberOne) -> None:
    """U1.1: for any agent there; what is inherited by hand is kept out, too."""
    record = remember("The gateway listens on port 4711.").id
    task = entered(app, "Mend the gateway")
    app.exclusions.exclude(record, app.caller(), task)
    assert app.exclusions.excluded(app.caller().namespace, [task], "") == {record}
    entered(app, "Read its log", inherit=(record,))
    assert record not in given(app)
    bob = replace(app.caller(), agent="bob")
    assert record in given(app, caller=bob)
    assert record not in given(app, caller=bob, task_id=task)
    app.tasks.pop(PopRequest(result="done", task_id=task, cascade=True), app.caller())
    entered(app, "Paint it")
    assert record in given(app)


def test_one_of_an_agent_holds_for_it_alone(app: App, remember: RememberOne) -> None:
    """U1.1: in this project; it is named, with the agent and the time, to those who decide for that agent."""
    record = remember("The gateway listens on port 4711.").id
    caller = app.caller()
    bob = replace(caller, agent="bob")
    app.exclusions.exclude(record, caller, agent=caller.agent)
    assert record not in given(app)
    assert record in given(app, caller=bob)
    [exclusion] = app.exclusions.of(record, caller)
    assert (exclusion.agent, exclusion.by_agent, exclusion.task_id) == (caller.agent, caller.agent, "")
    assert not app.exclusions.of(record, bob)
    assert app.exclusions.of(record, replace(bob, is_admin=True)) == [exclusion]


@pytest.mark.uncounted
def test_a_block_that_was_shown_gives_what_is_excluded_no_more(app: App, remember: RememberOne, clock: "Clock") -> None:
    """U1.1, B8.1: also within the half minute for which a block is kept, and where it corrected something since."""
    old = remember("The gateway listens on port 80.").id
    clock.now += 60
    remember("Where were we?", kind="message", role="user")
    clock.now += 60
    new = remember("The gateway listens on port 4711.", supersedes=(old,)).id
    assert new in given(app, "")
    change = app.exclusions.exclude(new, app.caller(), agent=app.caller().agent)
    assert new not in given(app, "")
    app.undo(change, app.caller())
    assert new in given(app, "")


def test_taking_back_is_undone_as_well(app: App, remember: RememberOne) -> None:
    """U1.1: each by its number, once."""
    record, caller = remember("The gateway listens on port 4711.").id, app.caller()
    made = app.exclusions.exclude(record, caller, agent=caller.agent)
    assert not app.exclusions.exclude(record, caller, agent=caller.agent)
    taken = app.exclusions.include(record, caller, agent=caller.agent)
    assert not app.exclusions.include(record, caller, agent=caller.agent)
    assert record in given(app)
    with pytest.raises(NotFound):
        app.undo(made, caller)
    app.undo(taken, caller)
    assert record not in given(app)
    assert app.exclusions.include(record, caller, agent=caller.agent)
    assert app.exclusions.exclude(record, caller, agent=caller.agent)
    assert record not in given(app)


def test_only_what_makes_sense_is_excluded(app: App, remember: RememberOne) -> None:
    """U1.1: a task or an agent, that there is, to decide for; and a record of this project."""
    record, caller = remember("The gateway listens on port 4711.").id, app.caller()
    for whose in ({}, {"task_id": entered(app, "Mend it"), "agent": caller.agent}, {"agent": "bob"}):
        with pytest.raises(InvalidRequest):
            app.exclusions.exclude(record, caller, **whose)
    for unknown in ({"record_id": "r00zzz", "agent": caller.agent}, {"record_id": record, "task_id": "t00zzz"}):
        with pytest.raises(NotFound):
            app.exclusions.exclude(caller=caller, **unknown)
    elsewhere = replace(caller, namespace="elsewhere", inherited=(caller.namespace,))
    with pytest.raises(Conflict):
        app.exclusions.exclude(record, elsewhere, agent=caller.agent)


def test_an_exclusion_leaves_with_its_record(app: App, remember: RememberOne) -> None:
    """U1.1, S2.4: an export carries it, without what was taken back; it is erased with its record."""
    record, caller = remember("The gateway listens on port 4711.").id, app.caller()
    app.exclusions.exclude(record, caller, agent=caller.agent)
    app.exclusions.exclude(record, caller, entered(app, "Mend it"))
    app.exclusions.include(record, caller, agent=caller.agent)

    def exclusions() -> list[WholeExclusion]:
        pieces = [each for each in app.records.transfer().leave() if not isinstance(each, Origin)]
        assert [read_piece(piece_line(each)) for each in pieces] == pieces
        return [one for each in pieces if isinstance(each, WholeRecord) for one in each.exclusions]

    assert [(each.task_id[:1], each.agent) for each in exclusions()] == [("t", "")]
    app.remember([NewRecord(text="Another one.")], caller)
    app.forget([record], "erase", caller)
    assert not app.records.exclusions(record, caller.namespace)
    app.revise(Revision(id=remember("One more.").id, pinned=True), caller)


def test_an_import_brings_exclusions_back(app: App, remember: RememberOne, open_memory: Callable[..., App]) -> None:
    """U1.1, S2.4."""
    record, caller = remember("The gateway listens on port 4711.").id, app.caller()
    app.exclusions.exclude(record, caller, agent=caller.agent)
    pieces = [each for each in app.records.transfer().leave() if not isinstance(each, Origin)]
    with_another = open_memory(folder="another")
    with_another.records.transfer().enter(pieces)
    assert [*with_another.exclusions.of(record, with_another.caller())] == [*app.exclusions.of(record, caller)]
    assert record not in given(with_another)
