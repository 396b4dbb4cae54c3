"""What says again, in other words, what was corrected: named where it is stored, and ranked below the correction."""

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from mcp_memory.app import App
from mcp_memory.domain.model.records import NewRecord
from mcp_memory.domain.model.requests import ContextRequest
from mcp_memory.errors import StoreUnavailable
from mcp_memory.services.memory.remember import Remembered
from mcp_memory.services.memory.revise import Revision
from mcp_memory.services.retrieval.recall import RecallRequest
from mcp_memory.services.review.corrected_values import SAYS_AGAIN, Corrections
from mcp_memory.services.review.settle import Settling

if TYPE_CHECKING:
    from tests.conftest import Clock

RememberOne = Callable[..., Remembered]
PAIRS = (
    (
        "Uploads may be at most 20 MB.",
        "Uploads may be at most 50 MB.",
        "The maximum upload size is 20 MB.",
        "how large may an upload be",
    ),
    (
        "Backups are kept for 14 days.",
        "Backups are kept for 30 days.",
        "We retain backups 14 days.",
        "how long do we keep backups",
    ),
    (
        "The mobile app is written in Flutter.",
        "The mobile app is written in Kotlin.",
        "Flutter is the framework of our mobile app.",
        "what is the mobile app written in",
    ),
    (
        "The owner of the billing service is Priya.",
        "The owner of the billing service is Tomas.",
        "Priya owns billing.",
        "who owns billing",
    ),
    (
        "Das Standup ist um 9:30 Uhr.",
        "Das Standup ist um 10:15 Uhr.",
        "Wir treffen uns zum Standup um 9:30.",
        "wann ist das Standup",
    ),
    (
        "Die Rechnungen verschickt Anna.",
        "Die Rechnungen verschickt Boris.",
        "Für die Rechnungen ist Anna zuständig.",
        "wer verschickt die Rechnungen",
    ),
    (
        "缓存的有效期是10分钟。",
        "缓存的有效期是30分钟。",
        "缓存10分钟后过期。",
        "缓存多久过期",
    ),
    (
        "日志保存30天。",
        "日志保存90天。",
        "日志的保留时间为30天。",
        "日志保存多久",
    ),
)
"""What was stored, its correction, the old value in other words, and a question."""
LIMIT, LIMIT_NOW, LIMIT_AGAIN = "Uploads may be at most 20 MB.", "Uploads may be at most 50 MB.", PAIRS[0][2]
ASKED = PAIRS[0][3]


def found(app: App, query: str) -> list[str]:
    request = RecallRequest(query=query)
    return [str(each["id"]) for each in app.recall(request, replace(app.caller(), session_id="reads")).results]


@pytest.fixture
def correct(app: App, remember: RememberOne, clock: "Clock") -> Callable[[str, str], str]:
    """Store a text and correct it; return its record."""

    def corrected(old: str, new: str) -> str:
        record = remember(old)
        clock.now += 60
        app.revise(Revision(id=record.id, text=new), app.caller())
        clock.now += 60
        return record.id

    return corrected


@pytest.mark.uncounted
@pytest.mark.parametrize(("old", "new", "again", "query"), PAIRS, ids=[each[2] for each in PAIRS])
def test_a_corrected_value_in_other_words_is_named_and_ranks_below(
    app: App, remember: RememberOne, correct: Callable[[str, str], str], old: str, new: str, again: str, query: str
) -> None:
    """W5.1: both records are found, the correction first."""
    record_id = correct(old, new)
    answer = remember(again, replace(app.caller(), agent="bob", session_id="other"))
    assert answer.status == "stored"
    named = [each.why for each in answer.conflicts if each.id == record_id]
    assert [why.partition(",")[0] for why in named] == [f"corrected on 2026-11-20 to {record_id}"]
    assert found(app, query)[:2] == [record_id, answer.id]
    block = app.assemble_context(ContextRequest(query=query, max_tokens=1_000), app.caller()).text
    assert block.index(new) < block.index(again)


def test_a_first_block_does_not_open_with_a_corrected_value(
    app: App, remember: RememberOne, correct: Callable[[str, str], str]
) -> None:
    """W5.1: where nobody asked, the correction stands before what says the former value again."""
    bob = replace(app.caller(), agent="bob", session_id="other")
    correct(LIMIT, LIMIT_NOW)
    remember(LIMIT_AGAIN, bob)
    app.remember([NewRecord(kind="message", role="user", text="Anything else today?")], bob)
    block = app.assemble_context(ContextRequest(max_tokens=1_000), replace(bob, session_id="the day after")).text
    assert LIMIT_NOW in block
    assert LIMIT_NOW in block.partition(LIMIT_AGAIN)[0]


def test_what_a_successor_corrected_ranks_below_it_too(app: App, remember: RememberOne, clock: "Clock") -> None:
    """W5.1: `supersedes` corrects as `revise` does, also what was stored before."""
    again, old = remember(LIMIT_AGAIN), remember(LIMIT)
    clock.now += 60
    newer = remember(LIMIT_NOW, supersedes=(old.id,))
    assert found(app, ASKED)[:2] == [newer.id, again.id]


def confirmed(app: App, clock: "Clock", answer: Remembered) -> None:
    caller = replace(app.caller(), agent="carol", session_id="much later")
    assert app.remember([NewRecord(text=LIMIT_AGAIN)], caller)[0].status == "confirmed"


def revised(app: App, clock: "Clock", answer: Remembered) -> None:
    app.revise(Revision(id=answer.id, importance=0.9), app.caller())


def settled(app: App, clock: "Clock", answer: Remembered) -> None:
    app.settle(Settling(id=answer.review, settle="both-true"), app.caller())


@pytest.mark.uncounted
@pytest.mark.parametrize("say", [confirmed, revised, settled])
def test_it_keeps_its_place_once_somebody_says_otherwise(
    app: App,
    remember: RememberOne,
    correct: Callable[[str, str], str],
    clock: "Clock",
    say: Callable[[App, "Clock", Remembered], None],
) -> None:
    """W5.1: whoever confirms, changes or settles it has seen that it was corrected."""
    record_id = correct(LIMIT, LIMIT_NOW)
    answer = remember(LIMIT_AGAIN)
    assert found(app, LIMIT_AGAIN)[:2] == [record_id, answer.id]
    clock.now += 60
    say(app, clock, answer)
    assert found(app, LIMIT_AGAIN)[:2] == [answer.id, record_id]


@pytest.mark.parametrize(
    "other",
    [
        "Downloads may be at most 20 MB.",
        "Uploads may be at most 50 MB, not 20 MB.",
        "Uploads are no longer limited to 20 MB.",
        "Uploads go to the bucket in Frankfurt.",
        "Uploads may be at most 50 MB in the free plan.",
        "The old printer has 20 MB for jobs.",
    ],
)
def test_what_says_something_else_is_left_alone(
    app: App, remember: RememberOne, correct: Callable[[str, str], str], other: str
) -> None:
    """W5.4: another subject, both values, an end, no value, the new value, another thing with the old one."""
    correct(LIMIT, LIMIT_NOW)
    answer = remember(other)
    assert not [each for each in answer.conflicts if each.why.endswith(SAYS_AGAIN)]
    assert answer.review == ""
    assert found(app, other)[0] == answer.id


def test_an_undone_correction_corrects_nothing(app: App, remember: RememberOne, clock: "Clock") -> None:
    """W5.1: what was never wrong is said again freely."""
    record = remember(LIMIT)
    clock.now += 60
    change = app.revise.advised(Revision(id=record.id, text=LIMIT_NOW), app.caller()).change
    app.undo(change, app.caller())
    app.revise(Revision(id=record.id, text=f"{LIMIT_NOW} This is final."), app.caller())
    assert remember("Uploads may be at most 50 MB each.").conflicts == ()


def test_a_failing_search_changes_no_order(
    app: App, remember: RememberOne, correct: Callable[[str, str], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """W5.1: it only orders what was found."""

    def unavailable(*_: object) -> None:
        raise StoreUnavailable("The database is busy.")

    record_id = correct(LIMIT, LIMIT_NOW)
    answer = remember(LIMIT_AGAIN)
    monkeypatch.setattr(Corrections, "restatements", unavailable)
    assert found(app, LIMIT_AGAIN)[:2] == [answer.id, record_id]


def test_only_what_says_what_holds_is_told_of_a_correction(
    app: App, remember: RememberOne, correct: Callable[[str, str], str]
) -> None:
    """W5.4: an episode tells what was true then."""
    record_id = correct(LIMIT, LIMIT_NOW)
    answer = remember(LIMIT_AGAIN, kind="episode")
    assert answer.conflicts == ()
    assert found(app, LIMIT_AGAIN)[:2] == [answer.id, record_id]
