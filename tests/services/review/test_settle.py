"""Settling groups: each way, checked, by one of two, and taken back."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from mcp_memory.app import App
from mcp_memory.domain.model.records import HOLDS, Record
from mcp_memory.domain.model.reviews import Review, ReviewKind, Way
from mcp_memory.domain.model.scopes import Caller
from mcp_memory.entrypoints.transfer.memory_file import piece_line
from mcp_memory.errors import Conflict, InvalidRequest, NotFound
from mcp_memory.ports.transfer import Origin
from mcp_memory.services.context.assemble import ContextRequest
from mcp_memory.services.memory.remember import Remembered
from mcp_memory.services.memory.revise import Revision
from mcp_memory.services.retrieval.recall import RecallRequest
from mcp_memory.services.review.enqueue import enqueue
from mcp_memory.services.review.settle import Settled, Settling

if TYPE_CHECKING:
    from tests.conftest import Clock

RememberOne = Callable[..., Remembered]
PORT, SAME = "The database listens on port 5432.", "The database is listening on the port 5432."


def put(app: App, *ids: str, kind: ReviewKind = "duplicates", why: str = "They say the same.") -> Review | None:
    with app.records.write() as transaction:
        return enqueue(kind, ids, why, app._clock(), transaction)  # noqa: SLF001


def settle(app: App, group: str, way: Way, caller: Caller | None = None, **fields: Any) -> Settled:
    return app.settle(Settling(id=group, settle=way, **fields), caller or app.caller())


def stored(app: App, record_id: str) -> Record:
    return app.records.get([record_id], app.caller().scopes)[record_id]


def exported(app: App) -> Sequence[bytes]:
    return [piece_line(each) for each in app.records.transfer().leave() if not isinstance(each, Origin)]


def waiting(app: App, caller: Caller | None = None) -> list[str]:
    return [each.review.id for each in app.reviews.waiting(caller or app.caller())]


@pytest.fixture
def pair(app: App, remember: RememberOne) -> tuple[str, str, str]:
    """Two records and the group in which they wait."""
    first, second = remember(PORT, importance=3.0, tags=("net",)), remember("Postgres runs on 5432.", pinned=True)
    review = put(app, first.id, second.id)
    assert review is not None
    return first.id, second.id, review.id


def test_a_merge_keeps_one_record_which_says_it_all(app: App, pair: tuple[str, str, str], clock: "Clock") -> None:
    """N2.1: the others rank below it; it keeps what was said of any of them."""
    first, second, group = pair
    clock.advance(hours=1)
    text = "The database, Postgres, listens on port 5432."
    settled = settle(app, group, "merge", keep=first, text=text, reason="One sentence is enough.")
    kept, other = stored(app, first), stored(app, second)
    assert (kept.text, kept.tags, kept.importance, kept.pinned) == (text, ("net",), 3.0, True)
    assert (other.status, other.superseded_by) == ("superseded", first)
    assert (settled.review.way, settled.review.agent, settled.review.reason) == (
        "merge", app.caller().agent, "One sentence is enough.",
    )  # fmt: skip
    version = app.records.versions([first])[first][-1]
    assert (version.write, version.reason) == (settled.change, "One sentence is enough.")
    assert waiting(app) == []


@pytest.mark.parametrize("text", ["", "Postgres runs on 5432."])
def test_a_merge_without_a_new_text_keeps_that_of_the_record(app: App, pair: tuple[str, str, str], text: str) -> None:
    """N2.1."""
    first, second, group = pair
    settle(app, group, "merge", keep=second, text=text)
    assert (stored(app, second).text, stored(app, first).superseded_by) == ("Postgres runs on 5432.", second)


@pytest.mark.parametrize("text", ["The database listens.", "It listens on port 5433."])
def test_a_merge_loses_no_exact_value(app: App, pair: tuple[str, str, str], text: str) -> None:
    """N2.1: it names what is missing, and changes nothing."""
    first, second, group = pair
    before = exported(app)
    with pytest.raises(InvalidRequest, match=r"loses .*5432"):
        settle(app, group, "merge", keep=first, text=text)
    assert exported(app) == before
    assert waiting(app) == [group]
    assert stored(app, second).status == "new"


def test_small_numbers_and_dates_count_as_well(app: App, remember: RememberOne) -> None:
    """N2.1: "5 minutes" is lost in "10 minutes", though each is a small number."""
    one, two = remember("Tokens expire after 10 minutes."), remember("Tokens expire after 5 minutes, since 2026-11-03.")
    review = put(app, one.id, two.id)
    assert review
    with pytest.raises(InvalidRequest, match="5 minutes"):
        settle(app, review.id, "merge", keep=one.id)


def test_a_merge_makes_no_twin(app: App, pair: tuple[str, str, str], remember: RememberOne) -> None:
    """R2: a text is there once."""
    first, _, group = pair
    third = remember("Postgres listens on port 5432 and runs on 5432.")
    with pytest.raises(Conflict, match=third.id):
        settle(app, group, "merge", keep=first, text="Postgres listens on port 5432 and runs on 5432.")


def test_one_supersedes_the_others(app: App, pair: tuple[str, str, str]) -> None:
    """N2.1, R8."""
    first, second, group = pair
    settle(app, group, "supersedes", keep=second, when="since May")
    assert stored(app, second).details == {HOLDS: "since May"}
    assert (stored(app, first).status, stored(app, first).superseded_by) == ("superseded", second)
    assert stored(app, second).text == "Postgres runs on 5432."


@pytest.mark.parametrize("way", ["merge", "supersedes"])
def test_somebody_has_to_say_which_one_stays(app: App, pair: tuple[str, str, str], way: Way) -> None:
    """N2.1."""
    with pytest.raises(InvalidRequest, match=f"{pair[0]}, {pair[1]}"):
        settle(app, pair[2], way, keep="r00zzzz")


def test_both_are_true_each_in_its_place(app: App, pair: tuple[str, str, str]) -> None:
    """N2.1: both say so; what was said of the pair is not asked again."""
    first, second, group = pair
    settle(app, group, "both-true", when=f"{second} in staging, {first} in production")
    said = f"{second} in staging, {first} in production"
    assert [stored(app, each).details.get(HOLDS) for each in (first, second)] == [said, said]
    assert waiting(app) == []
    assert put(app, first, second, kind="contradictions") is None
    found = app.recall(RecallRequest(query="database port 5432"), app.caller()).results
    assert [each[HOLDS] for each in found] == [said] * len(found) != []
    block = app.assemble_context(ContextRequest(query="database port 5432"), app.caller())
    assert f"(holds: {said})" in block.text


def test_without_a_condition_they_stay_as_they_are(app: App, pair: tuple[str, str, str]) -> None:
    """N2.1."""
    before = stored(app, pair[0])
    settle(app, pair[2], "both-true")
    assert stored(app, pair[0]) == before


def test_both_true_is_asked_again_once_one_of_them_changed(app: App, pair: tuple[str, str, str]) -> None:
    """N2.1."""
    first, second, group = pair
    settle(app, group, "both-true")
    app.revise(Revision(id=second, text="Postgres runs on 5433."), app.caller())
    assert put(app, first, second) is not None


def test_unrelated_is_never_asked_again(app: App, pair: tuple[str, str, str], remember: RememberOne) -> None:
    """N2.1: of this pair, whatever they say later; a third one is asked of each."""
    first, second, group = pair
    settle(app, group, "unrelated", reason="Another database.")
    app.revise(Revision(id=second, text="Postgres runs on 5433."), app.caller())
    assert put(app, second, first) is None
    third = remember("The cache listens on 6379.")
    review = put(app, third.id, first, second)
    assert review
    assert review.record_ids == (third.id, first, second)
    review = put(app, first, third.id, second, kind="contradictions")
    assert review
    assert set(review.record_ids) == {third.id, first, second}


def test_the_user_is_asked(app: App, pair: tuple[str, str, str]) -> None:
    """N2.1: it waits with the question, after the others, and is settled with the answer."""
    first, second, group = pair
    with pytest.raises(InvalidRequest, match="reason"):
        settle(app, group, "ask")
    settle(app, group, "ask", reason="Which port is it?")
    (one,) = app.reviews.waiting(app.caller())
    assert (one.review.question, one.review.asked_by, one.review.way) == ("Which port is it?", app.caller().agent, None)
    with pytest.raises(Conflict, match="Which port"):
        settle(app, group, "ask", reason="Again?")
    assert settle(app, group, "supersedes", keep=first, reason="The user said so.").review.way == "supersedes"
    assert stored(app, second).superseded_by == first


def test_a_noted_record_is_kept_or_not(app: App, remember: RememberOne) -> None:
    """N2.1, D10.1: a group of one."""
    kept, other = remember("The build takes 4 minutes."), remember("The lights are on.")
    for one in (kept, other):
        with app.records.write() as transaction:
            transaction.update(replace(stored(app, one.id), status="noted"))
    first, second = put(app, kept.id, kind="noted"), put(app, other.id, kind="noted")
    assert first
    assert second
    settle(app, first.id, "merge", keep=kept.id)
    settle(app, second.id, "unrelated")
    assert (stored(app, kept.id).status, stored(app, other.id).status) == ("new", "noted")
    assert put(app, other.id, kind="noted") is None
    assert put(app, other.id, kept.id) is not None


def test_two_settle_the_same_group_and_one_is_told(
    app: App, pair: tuple[str, str, str], open_memory: Callable[..., App]
) -> None:
    """N2.1, N5.1: who did it, how, and how to take it back."""
    first, _, group = pair
    bob = open_memory(agent="bob")
    change = settle(bob, group, "supersedes", keep=first).change
    with pytest.raises(Conflict, match=f"as supersedes by bob on 2026-11-20, change {change}"):
        settle(app, group, "unrelated")
    bob.undo(change, bob.caller())
    assert settle(app, group, "unrelated").review.agent == app.caller().agent


def test_a_group_is_as_it_was_seen(app: App, pair: tuple[str, str, str]) -> None:
    """N2.1: one that changed is named, and the group waits no longer."""
    first, second, group = pair
    app.revise(Revision(id=second, text="Postgres runs on 5433."), app.caller())
    assert group not in waiting(app)
    with pytest.raises(Conflict, match=f"{second} changed"):
        settle(app, group, "merge", keep=first)
    app.revise(Revision(id=second, text="Postgres runs on 5432."), app.caller())
    assert waiting(app) == [group]
    app.forget([first], "retire", app.caller())
    assert waiting(app) == []


def test_a_group_goes_with_what_is_erased(app: App, pair: tuple[str, str, str]) -> None:
    """R9, N2.1: nothing of it is left, settled or not."""
    first, second, group = pair
    settle(app, group, "unrelated", reason="Because of 5432.")
    app.forget([second], "erase", app.caller())
    assert not any(b"5432" in line for line in exported(app) if b"review" in line)
    with pytest.raises(NotFound, match=group):
        settle(app, group, "merge", keep=first)


def test_a_group_is_only_for_those_who_read_all_of_it(
    app: App, remember: RememberOne, open_memory: Callable[..., App]
) -> None:
    """S4.1, N2.1: private stays private, and what belongs to another project stays there."""
    mine, shared = remember(PORT, visibility="private"), remember("Postgres runs on 5432.")
    review = put(app, mine.id, shared.id)
    assert review
    bob = open_memory(agent="bob")
    reader = open_memory(namespace="other", inherit=["test"])
    assert (waiting(app), waiting(bob), waiting(reader)) == ([review.id], [], [])
    for other in (bob, reader):
        with pytest.raises(NotFound, match=review.id):
            settle(other, review.id, "unrelated")
    with pytest.raises(Conflict, match="is shared and cannot be superseded"):
        settle(app, review.id, "supersedes", keep=mine.id)


def test_no_group_waits_twice(app: App, remember: RememberOne) -> None:
    """N2.1: a larger one takes in a smaller one of its kind; one that waits for the user stays."""
    a, b, c, d = (remember(f"The port of part {letter} is 5432.").id for letter in "ABCD")
    first = put(app, a, b)
    assert first
    assert put(app, b, a, kind="contradictions") == first
    second = put(app, c, a, b)
    assert second
    assert waiting(app) == [second.id]
    other = put(app, a, b, c, d, kind="contradictions")
    assert other
    assert waiting(app) == [second.id, other.id]
    settle(app, other.id, "ask", reason="Which?")
    larger = put(app, a, b, c, d, remember("The port of part E is 5432.").id, kind="contradictions")
    assert larger
    assert waiting(app) == [second.id, larger.id, other.id]
    assert put(app, a, kind="noted") == second
    assert put(app, "r00zzzz", a) is None
    assert put(app, a, "r00zzzz") is None


def test_the_groups_of_one_record_are_found(app: App, pair: tuple[str, str, str], remember: RememberOne) -> None:
    """U1.1: those that wait with it, and no other."""
    one, other, group = pair
    apart = remember("The pier is closed.").id, remember("The pier is shut.").id
    put(app, *apart)

    def of(record_id: str) -> list[str]:
        return [each.review.id for each in app.reviews.waiting(app.caller(), record_id=record_id)]

    assert of(one) == of(other) == [group]
    assert of(remember("The mole is open.").id) == []
    settle(app, group, "unrelated")
    assert of(one) == []


def test_groups_are_told_that_were_settled_last(
    app: App, pair: tuple[str, str, str], remember: RememberOne, open_memory: Callable[..., App]
) -> None:
    """U1.1: the latest first, with superseded and retired records, to who may change them; none that waits."""
    one, _, group = pair
    private = remember("The vault has two doors.", visibility="private").id, remember("The vault has three doors.").id
    hidden = put(app, *private)
    assert hidden is not None
    assert app.reviews.settled(app.caller(), 9) == []
    first = settle(app, group, "supersedes", keep=one, reason="Seen there.")
    second = settle(app, hidden.id, "both-true")
    app.forget([one], "retire", app.caller())
    told = app.reviews.settled(app.caller(), 9)
    assert [(each.review.id, each.change) for each in told] == [(hidden.id, second.change), (group, first.change)]
    assert [each.superseded_by for each in told[1].records] == [None, one]
    assert told[1].review.reason == "Seen there."
    assert [each.review.id for each in app.reviews.settled(app.caller(), 1)] == [hidden.id]
    bob = open_memory(agent="bob")
    assert [each.review.id for each in bob.reviews.settled(bob.caller(), 9)] == [group]
    app.undo(first.change, app.caller())
    assert [each.review.id for each in app.reviews.settled(app.caller(), 9)] == [hidden.id]
