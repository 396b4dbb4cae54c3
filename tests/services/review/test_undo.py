"""Undo: one write is taken back by its number, and nothing else."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from mcp_memory.app import App
from mcp_memory.domain.model.ids import number_of
from mcp_memory.domain.model.records import NewRecord, Record
from mcp_memory.domain.model.reviews import Way
from mcp_memory.entrypoints.transfer.memory_file import piece_line
from mcp_memory.errors import Conflict, NotFound
from mcp_memory.ports.transfer import Origin
from mcp_memory.services.memory.remember import Remembered
from mcp_memory.services.memory.revise import Revision
from mcp_memory.services.retrieval.recall import RecallRequest
from mcp_memory.services.review.enqueue import enqueue
from mcp_memory.services.review.settle import Settling

if TYPE_CHECKING:
    from tests.conftest import Clock

RememberOne = Callable[..., Remembered]


def exported(app: App) -> Sequence[bytes]:
    return [piece_line(each) for each in app.records.transfer().leave() if not isinstance(each, Origin)]


def stored(app: App, record_id: str) -> Record:
    return app.records.get([record_id], app.caller().scopes)[record_id]


def last_write(app: App, record_id: str) -> int:
    return app.records.versions([record_id])[record_id][-1].write


def revise(app: App, record_id: str, **fields: Any) -> int:
    app.revise(Revision(id=record_id, **fields), app.caller())
    return last_write(app, record_id)


def group_of(app: App, *ids: str) -> str:
    with app.records.write() as transaction:
        review = enqueue("duplicates", ids, "They say the same.", 5.0, transaction)
    assert review
    return review.id


WAYS: Sequence[tuple[Way, dict[str, str]]] = [
    ("merge", {"text": "Grafana, of Ines in Graz, shows that the database, Postgres 15, listens on port 5432."}),
    ("merge", {}),
    ("supersedes", {}),
    ("both-true", {"when": "in Europe"}),
    ("unrelated", {"reason": "Two machines."}),
    ("ask", {"reason": "Which one?"}),
]


@pytest.mark.uncounted
@pytest.mark.parametrize(("way", "fields"), WAYS)
def test_a_settlement_taken_back_leaves_the_export_as_it_was(
    app: App, remember: RememberOne, clock: "Clock", way: Way, fields: dict[str, str]
) -> None:
    """N2.1: byte for byte, with entities, times and the queue; the text is found by its words and meaning again."""
    first = remember("Postgres 15 listens on port 5432.", tags=("net",))
    second = remember("Grafana shows that the database listens on port 5432.", importance=4.0, pinned=True)
    group = group_of(app, first.id, second.id)
    clock.advance(hours=1)
    before = exported(app)
    keep = {"keep": first.id} if way in ("merge", "supersedes") else {}
    settled = app.settle(Settling(id=group, settle=way, **keep, **fields), app.caller())
    assert exported(app) != before
    clock.advance(hours=1)
    undone = app.undo(settled.change, app.caller())
    assert exported(app) == before
    assert undone.groups == (group,)
    assert [each.review.id for each in app.reviews.waiting(app.caller())] == [group]
    found = app.recall(RecallRequest(query="What does Postgres 15 listen on?"), app.caller()).results
    assert found[0]["text"] == "Postgres 15 listens on port 5432."
    assert (app.records.defects(), app.records.stale_terms(), app.graph.check()) == ([], [], [])


def test_a_revision_is_taken_back_and_stays_in_the_history(app: App, remember: RememberOne, clock: "Clock") -> None:
    """N2.1, N5.1: its text, tags and outcome; the history says who did both."""
    fact = remember("The port is 5432.", tags=("net",)).id
    before = exported(app)
    clock.advance(hours=1)
    change = revise(app, fact, text="The port is 5433.", tags=(), outcome="success", pinned=True)
    undone = app.undo(change, app.caller())
    assert [(each.id, each.text, each.tags) for each in undone.records] == [(fact, "The port is 5432.", ("net",))]
    changed = [line for line in zip(before, exported(app), strict=True) if line[0] != line[1]]
    assert all(b'"accessed_at"' in line for _, line in changed)  # A revision is an access.
    versions = app.records.versions([fact])[fact]
    assert [each.undone for each in versions] == [versions[1].write] * 2
    assert versions[1].reason == f"undo of change {change}"


def test_a_group_that_a_revision_let_wait_goes_with_it(app: App, remember: RememberOne) -> None:
    """N2.1: the values that its new words contradict; a group that waited before stays."""
    there = remember("The staging database of the shop listens on port 8081.")
    here = remember("The staging database of the shop listens on the port 8081.")
    waiting = group_of(app, there.id, here.id)
    before = exported(app)
    write = revise(app, here.id, text="The staging database of the shop listens on port 8082.")
    with app.records.write() as transaction:
        assert {each.id for each in transaction.reviews_of([here.id])} > {waiting}
    app.undo(write, app.caller())
    assert exported(app) == before
    assert [each.review.id for each in app.reviews.waiting(app.caller())] == [waiting]


@pytest.mark.parametrize("mode", ["retire", "supersede"])
def test_what_was_retired_or_superseded_holds_again(app: App, remember: RememberOne, mode: str) -> None:
    """N2.1."""
    fact = remember("The port is 5432.").id
    if mode == "retire":
        app.forget([fact], "retire", app.caller())
    else:
        remember("The port is 5433 now.", supersedes=(fact,))
    assert not stored(app, fact).holds
    app.undo(last_write(app, fact), app.caller())
    assert (stored(app, fact).status, stored(app, fact).superseded_by) == ("new", None)


def test_a_later_change_is_in_the_way_and_named(
    app: App, remember: RememberOne, open_memory: Callable[..., App]
) -> None:
    """N2.1, N5.1: the later one first."""
    fact = remember("The port is 5432.").id
    first = revise(app, fact, text="The port is 5433.")
    bob = open_memory(agent="bob")
    later = revise(bob, fact, importance=5.0)
    with pytest.raises(Conflict, match=rf"{fact} was changed since, by bob on 2026-11-20 \(change {later}\)"):
        app.undo(first, app.caller())
    app.undo(later, app.caller())
    app.undo(first, app.caller())
    assert (stored(app, fact).text, stored(app, fact).importance) == ("The port is 5432.", 1.0)


def test_further_evidence_is_not_in_the_way(app: App, remember: RememberOne, open_memory: Callable[..., App]) -> None:
    """N2.1: a record met again keeps that; a field that both changed is in the way."""
    fact = remember("The port is 5432.").id
    change = revise(app, fact, importance=5.0)
    bob = open_memory(agent="bob")
    bob.remember([NewRecord(text="The port is 5432.", tags=("net",))], bob.caller())
    app.undo(change, app.caller())
    record = stored(app, fact)
    assert (record.importance, record.tags, record.status) == (1.0, ("net",), "confirmed")
    change = revise(app, fact, importance=5.0)
    bob.remember([NewRecord(text="The port is 5432.", importance=9.0)], bob.caller())
    with pytest.raises(Conflict, match="by bob"):
        app.undo(change, app.caller())


def test_an_undo_is_made_once(app: App, remember: RememberOne) -> None:
    """N2.1: and is not undone itself."""
    fact = remember("The port is 5432.").id
    change = revise(app, fact, text="The port is 5433.")
    app.undo(change, app.caller())
    undo = last_write(app, fact)
    with pytest.raises(Conflict, match=f"was undone by change {undo}"):
        app.undo(change, app.caller())
    with pytest.raises(Conflict, match="is an undo itself"):
        app.undo(undo, app.caller())


def test_only_what_one_sees_is_taken_back(app: App, remember: RememberOne, open_memory: Callable[..., App]) -> None:
    """S4.1: a number that nobody may know tells nothing."""
    fact = remember("The port is 5432.", visibility="private").id
    change = revise(app, fact, importance=5.0)
    bob = open_memory(agent="bob")
    for number in (change, 1, 10**9):
        with pytest.raises(NotFound, match=f"Change {number} replaced nothing that you may restore"):
            bob.undo(number, bob.caller())
    assert stored(app, fact).importance == 5.0


def test_who_undoes_what_an_agent_stored_is_told_how_it_goes(app: App, remember: RememberOne) -> None:
    """U2.1: what agents store is no change of its own."""
    fact = remember("The port is 5432.").id
    with pytest.raises(NotFound, match=f"It stored {fact}; `mcp-memory forget {fact}` takes that out. Nothing was"):
        app.undo(number_of(fact), app.caller())
    assert app.undo.latest(app.caller(), 10) == []


def test_words_that_left_with_a_move_do_not_come_back(app: App, remember: RememberOne) -> None:
    """S4.1: others do not read what was said in private."""
    fact = remember("The port is 5432.", visibility="private").id
    change = revise(app, fact, text="The port is open.")
    revise(app, fact, visibility="shared")
    with pytest.raises(Conflict, match="earlier words"):
        app.undo(change, app.caller())


def test_a_text_that_another_record_took_does_not_come_back(app: App, remember: RememberOne) -> None:
    """R2."""
    fact = remember("The port is 5432.").id
    change = revise(app, fact, text="The port is 5433.")
    other = remember("The port is 5432.", reassert=True).id
    with pytest.raises(Conflict, match=f"{other} says since"):
        app.undo(change, app.caller())


def test_a_question_is_not_taken_back_below_its_answer(app: App, remember: RememberOne) -> None:
    """N2.1."""
    one, other = remember("The port is 5432.").id, remember("It listens on 5432.").id
    group = group_of(app, one, other)
    asked = app.settle(Settling(id=group, settle="ask", reason="Which?"), app.caller())
    answered = app.settle(Settling(id=group, settle="supersedes", keep=one), app.caller())
    with pytest.raises(Conflict, match=f"settled since .change {answered.change}"):
        app.undo(asked.change, app.caller())
    app.undo(answered.change, app.caller())
    assert [each.review.question for each in app.reviews.waiting(app.caller())] == ["Which?"]
    app.undo(asked.change, app.caller())
    assert [each.review.question for each in app.reviews.waiting(app.caller())] == [""]


def test_why_an_undo_is_refused_is_known_without_a_change(app: App, remember: RememberOne) -> None:
    """U1.1: as the undo itself would say; a group without a change of records can be undone."""
    caller = app.caller()
    one, other = remember("The port is 5432.").id, remember("It listens on 5432.").id
    settled = app.settle(Settling(id=group_of(app, one, other), settle="supersedes", keep=one), caller)
    revision = app.records.revision()
    assert app.undo.refusal(settled.change, caller) == ""
    later = revise(app, other, tags=("net",))
    assert f"Record {other} was changed since, by you" in app.undo.refusal(settled.change, caller)
    assert app.records.revision() == revision + 1
    app.undo(later, caller)
    assert app.undo.refusal(settled.change, caller) == ""
    app.undo(settled.change, caller)
    assert "was undone by change" in app.undo.refusal(settled.change, caller)
    unrelated = app.settle(Settling(id=group_of(app, one, other), settle="unrelated"), caller)
    assert app.undo.refusal(unrelated.change, caller) == ""
    own = remember("The key is in the drawer.", visibility="private").id
    assert "that you do not see" in app.undo.refusal(revise(app, own, pinned=True), replace(caller, agent="bob"))


def test_the_latest_changes_say_what_each_record_was_and_became(app: App, remember: RememberOne) -> None:
    """U2.1: also after later changes, and of a group that was settled without any change of a record."""
    port, moon = remember("The port is 5432.").id, remember("The moon is full.").id
    sky = remember("The sky is grey.").id
    apart = app.settle(Settling(id=group_of(app, sky, moon), settle="unrelated"), app.caller())
    first = revise(app, port, text="The port is 5433.")
    second = revise(app, port, pinned=True)
    undone = revise(app, moon, pinned=True)
    app.undo(undone, app.caller())
    merged = app.settle(Settling(id=group_of(app, moon, port), settle="supersedes", keep=port), app.caller())
    found = app.undo.latest(app.caller(), 10)
    assert [each.change for each in found] == [merged.change, undone, second, first, apart.change]
    assert [each.undone > 0 for each in found] == [False, True, False, False, False]
    assert [each.settled.review.way for each in found if each.settled] == ["supersedes", "unrelated"]
    (before, after) = found[3].records[0]
    assert (before.text, after.text, after.pinned) == ("The port is 5432.", "The port is 5433.", False)
    assert (found[-1].records, found[-1].agent, found[-1].at) == ((), app.caller().agent, apart.review.settled_at)
    assert [each.change for each in app.undo.latest(app.caller(), 2)] == [merged.change, undone]


def test_the_last_own_change_is_the_agents_with_its_client(app: App, remember: RememberOne) -> None:
    """U2.1: others, and the same agent elsewhere, keep what they changed."""
    mine = replace(app.caller(), client="ide")
    port, moon = remember("The port is 5432.").id, remember("The moon is full.").id
    with pytest.raises(NotFound, match="with this client is left to undo"):
        app.undo.last_own(mine)
    own = app.forget([port], "retire", mine).change
    app.forget([moon], "retire", replace(mine, client="page"))
    app.forget([moon], "restore", replace(mine, agent="bob"), app.records.revision())
    assert app.undo.last_own(mine).change == own
    app.forget([port], "restore", replace(mine, agent="bob"), app.records.revision())
    app.settle(Settling(id=group_of(app, port, moon), settle="unrelated"), replace(mine, agent="bob"))
    found = app.undo.last_own(mine)
    assert [(before.status, after.status) for before, after in found.records] == [("new", "retired")]
    with pytest.raises(Conflict, match="was changed since, by bob"):
        app.undo(found.change, mine)


def test_a_group_that_may_have_been_settled_by_the_same_hand_is_named_first(app: App, remember: RememberOne) -> None:
    """U2.1: no earlier change is taken back in its place; one that changed a record names its client."""
    mine = replace(app.caller(), client="ide")
    port, moon = remember("The port is 5432.").id, remember("The moon is full.").id
    merged = app.settle(Settling(id=group_of(app, port, moon), settle="supersedes", keep=moon), mine)
    assert app.undo.last_own(mine).change == merged.change
    app.undo(merged.change, mine)
    apart = app.settle(Settling(id=group_of(app, port, moon), settle="unrelated"), mine)
    with pytest.raises(Conflict, match=rf"\(change {apart.change}\), and which client did so is not known"):
        app.undo.last_own(mine)
