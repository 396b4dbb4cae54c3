"""The queue fills: as records are stored, and by upkeep among what is new or was noted; each group is offered once."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from mcp_memory.app import App
from mcp_memory.domain.model.records import NewRecord
from mcp_memory.domain.model.scopes import Caller
from mcp_memory.services.memory.remember import Remembered
from mcp_memory.services.memory.revise import Revision
from mcp_memory.services.review import fill_queue, reviews
from mcp_memory.services.review.settle import Settling
from tests.embedders import HashingEmbedder

if TYPE_CHECKING:
    from tests.conftest import Clock

RememberOne = Callable[..., Remembered]
ALIKE = (
    "The database listens on port 5432.",
    "The database listens on the port 5432.",
    "The database listens on port 5432 !",
)
UNLIKE = tuple(f"The database listens on port {port}." for port in (5432, 5433, 5434))


def waiting(app: App, caller: Caller | None = None) -> list[tuple[str, Sequence[str]]]:
    return [(each.review.kind, each.review.record_ids) for each in app.reviews.waiting(caller or app.caller())]


def fill(app: App) -> int:
    """Step until nothing is new; return the number of full steps."""
    return sum(1 for _ in iter(app.fill_queue.step, False))


def unadvised(app: App, *texts: str) -> list[str]:
    return [each.id for each in app.remember([NewRecord(text=text) for text in texts], app.caller(), advise=False)]


def test_a_contradiction_waits_and_is_offered(app: App, remember: RememberOne) -> None:
    """N2.1, R3: with the group's id, once in a session; a third one joins them. A near-duplicate waits for nobody."""
    first = remember(UNLIKE[0])
    second = remember(UNLIKE[1])
    assert first.review == ""
    assert second.review
    third = remember(UNLIKE[2])
    assert [(kind, {*ids}) for kind, ids in waiting(app)] == [("contradictions", {first.id, second.id, third.id})]
    assert remember("Tea is at four o'clock.").review == ""
    assert remember("Tea is at four o'clock !").review == ""


def test_what_is_offered_once_is_not_offered_again(app: App, monkeypatch: pytest.MonkeyPatch) -> None:
    """N2.1: in the same session; another one hears of it. What waits for the user is offered to nobody."""
    one, other = unadvised(app, *ALIKE[:2])
    found: list[reviews.Found | None] = [("duplicates", (one, other), "They say the same."), None]
    ann, bob = app.caller("ann"), app.caller("bob")
    (group, none), again, elsewhere = (app.reviews.queue(found, caller) for caller in (ann, ann, bob))
    assert group
    assert (none, again, elsewhere) == ("", ["", ""], [group, ""])
    monkeypatch.setattr(reviews, "OFFERS_KEPT", 1)
    assert app.reviews.queue(found, app.caller("eve")) == [group, ""]
    assert app.reviews.queue(found, ann) == [group, ""]  # Forgotten meanwhile.
    app.settle(Settling(id=group, settle="ask", reason="Which?"), ann)
    assert app.reviews.queue(found, app.caller("mia")) == ["", ""]


def test_a_task_that_ends_is_offered_its_own_group(app: App) -> None:
    """N2.1: or its session's; others wait for theirs."""
    one, other = unadvised(app, *UNLIKE[:2])
    fill(app)
    ann, bob = app.caller("ann"), app.caller("bob")
    assert app.reviews.next_of("t000001", bob) is None
    with app.records.write() as transaction:
        for record_id in (one, other):
            record = transaction.get(record_id)
            assert record
            transaction.update(replace(record, session_id="ann"))
    own = app.reviews.next_of("t000001", app.caller())
    assert own
    assert app.reviews.next_of("t000001", app.caller()) is None
    assert app.reviews.next_of("t000001", ann) is None


def test_upkeep_finds_what_nobody_compared(app: App, monkeypatch: pytest.MonkeyPatch) -> None:
    """N2.1: a bounded number of changes at a time, each once; what is of the log is left alone."""
    monkeypatch.setattr(fill_queue, "LOOKED_AT", 2)
    one, other = unadvised(app, *UNLIKE[:2])
    app.remember([NewRecord(text=UNLIKE[0], kind="message", role="user") for _ in range(2)], app.caller())
    assert fill(app) == 2
    assert waiting(app) == [("contradictions", (one, other))]
    assert fill(app) == 0
    group = app.reviews.waiting(app.caller())[0].review.id
    app.settle(Settling(id=group, settle="supersedes", keep=one), app.caller())
    fill(app)
    assert waiting(app) == []


def test_upkeep_looks_at_new_changes_alone(app: App, remember: RememberOne) -> None:
    """N2.1."""
    remember("The cat sleeps.")
    before = app.records.reviews().looked_at()
    fill(app)
    assert app.records.reviews().looked_at() > before
    looked_at = app.records.reviews().looked_at()
    remember("The dog barks.")
    app.keep_up(maintains=False)
    assert app.records.reviews().looked_at() == looked_at
    app.keep_up()
    assert app.records.reviews().looked_at() > looked_at


def test_upkeep_compares_nothing_by_another_embedder(app: App, open_memory: Callable[..., App]) -> None:
    """S2.2: the vectors of two mean different things."""
    unadvised(app, *ALIKE[:2])
    assert fill(open_memory(embedder=HashingEmbedder())) == 0
    assert waiting(app) == []


def test_what_was_noted_and_opened_may_be_worth_keeping(app: App, remember: RememberOne) -> None:
    """N2.1, D10.1: a group of one, for its session; once."""
    record = remember("The build takes four minutes.")
    with app.records.write() as transaction:
        noted = transaction.get(record.id)
        assert noted
        transaction.update(replace(noted, status="noted"))
    fill(app)
    assert waiting(app) == []
    for at in (1.0, 2.0):
        app.records.touch([record.id], at)
    app.fill_queue.step()
    (group,) = app.reviews.waiting(app.caller())
    assert (group.review.kind, group.review.record_ids, group.review.why) == (
        "noted", (record.id,), "It was only noted, but opened 2 times. Is it worth keeping?",
    )  # fmt: skip
    assert waiting(app, app.caller("another session")) == []
    app.settle(Settling(id=group.review.id, settle="unrelated"), app.caller())
    app.fill_queue.step()
    assert waiting(app) == []


@pytest.mark.parametrize(
    ("done", "text", "is_overtaken"),
    [
        ('{"command": "git mv scripts/release.sh tools/release.py"}', "Release with scripts/release.sh.", True),
        ('{"command": "git rm -q scripts/release.sh"}', "Release with release.sh, from the root.", True),
        ('{"command": "uv pip install \'numpy==2.1\'"}', "Build wheels against numpy 1.26.", True),
        # Another file, a habit, the same version, a command that changes nothing, and no command.
        ('{"command": "git mv docs/release.md docs/old.md"}', "Release with scripts/release.sh.", False),
        ('{"command": "rm -f app.db"}', "To begin anew, delete app.db.", False),
        ('{"command": "pip install numpy==1.26.4"}', "Build wheels against numpy 1.26.", False),
        (
            '{"command": "cat > notes.md <<EOF\\ngit mv scripts/release.sh old.sh\\nEOF"}',
            "Release with scripts/release.sh.",
            False,
        ),
        ('{"command": "cat scripts/release.sh"}', "Release with scripts/release.sh.", False),
        ("scripts/release.sh is gone", "Release with scripts/release.sh.", False),
    ],
)
def test_guidance_is_to_be_checked_where_the_log_shows_that_its_file_or_version_changed(
    app: App, remember: RememberOne, clock: "Clock", done: str, text: str, is_overtaken: bool
) -> None:
    """N6.2: marked and filed, until somebody vouches for it."""
    procedure = remember(text, kind="procedure")
    fact = remember("A fact about scripts/release.sh, app.db and numpy 1.26.")
    clock.advance(seconds=60)
    call = remember(done, kind="tool_call", tool="Bash", call_id="c1")
    fill(app)

    def checked(record_id: str) -> list[str]:
        return [each.id for each in app.records.get([record_id], app.caller().scopes)[record_id].check]

    assert checked(procedure.id) == ([call.id] if is_overtaken else [])
    assert waiting(app) == ([("guidance", (procedure.id,))] if is_overtaken else [])
    assert checked(fact.id) == []
    app.revise(Revision(id=procedure.id, feedback="succeeded"), app.caller())
    app.forget([call.id], "retire", app.caller())
    assert checked(procedure.id) == []


def test_guidance_stored_after_a_change_knows_of_it(app: App, remember: RememberOne, clock: "Clock") -> None:
    """N6.2: an event of a client, whose command stands in its details, is older here."""
    remember("Moved it.", kind="event", details={"type": "bash", "command": "git mv old.sh new.sh"})
    clock.advance(seconds=60)
    remember("The move of old.sh to new.sh was made for Windows.", kind="procedure")
    fill(app)
    assert waiting(app) == []
