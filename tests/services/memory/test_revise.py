"""Revising: corrections keep what was, judgements count, statuses move as the table says."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest

from mcp_memory.app import App
from mcp_memory.domain.model.records import NewRecord, Record, Status
from mcp_memory.domain.model.scopes import RecordFilter
from mcp_memory.entrypoints.server.record_answers import show_account
from mcp_memory.errors import Conflict, InvalidRequest, NotFound
from mcp_memory.services.context.assemble import ContextRequest
from mcp_memory.services.memory.remember import Remembered
from mcp_memory.services.memory.revise import Feedback, Revision
from mcp_memory.services.retrieval.recall import RecallRequest

if TYPE_CHECKING:
    from tests.conftest import Clock

RememberOne = Callable[..., Remembered]
TOKEN = "ghp_" + "Ab3" * 12


def revise(app: App, record_id: str, **fields: Any) -> Record:
    return app.revise(Revision(id=record_id, **fields), app.caller())


def stored(app: App, record_id: str) -> Record:
    return app.records.get([record_id], app.caller().scopes)[record_id]


def found(app: App, query: str) -> list[str]:
    return [str(result["text"]) for result in app.recall(RecallRequest(query=query), app.caller()).results]


@pytest.mark.uncounted
def test_a_correction_is_found_by_its_new_words_and_keeps_the_old_ones(
    app: App, remember: RememberOne, clock: "Clock"
) -> None:
    """R8: words, meaning and short forms follow; earlier texts are kept, newest first."""
    fact = remember("The database is Postgres.", speaker="Ada")
    for text in ("The database is MySQL.", "The database is SQLite, one file per project. " * 30):
        clock.advance(hours=1)
        revised = revise(app, fact.id, text=text)
        assert revised.text == text.strip()
        assert [each[:20] for each in found(app, "which database is it")] == [text[:20]]
    assert [text.startswith("The database is SQLite") for text in found(app, "sqlite")] == [True]
    assert (revised.micro_tokens <= 20, revised.summary_tokens <= 100, revised.text_tokens > 200) == (True, True, True)
    assert show_account(app.inspect.record(fact.id, app.caller()), app.caller())["earlier"] == [
        {"until": "2026-11-20T14:00:00Z", "text": "The database is MySQL.", "by": "default"},
        {"until": "2026-11-20T13:00:00Z", "text": "The database is Postgres.", "by": "default"},
    ]


def test_the_same_text_again_is_no_correction(app: App, remember: RememberOne) -> None:
    """R8: nothing old is made of it."""
    fact = remember("The port is 5432.")
    revise(app, fact.id, text=" The port is 5432. ", importance=3.0)
    assert show_account(app.inspect.record(fact.id, app.caller()), app.caller())["earlier"] == []
    assert stored(app, fact.id).importance == 3.0


def test_the_reason_for_a_change_is_kept(app: App, remember: RememberOne) -> None:
    """N5.1: with its version, without secrets; alone it changes nothing."""
    fact = remember("The port is 5432.")
    revise(app, fact.id, importance=3.0, reason=f"Ines said so, with {TOKEN}.")
    (version,) = app.records.versions([fact.id])[fact.id]
    assert version.reason.startswith("Ines said so, with ")
    assert TOKEN not in version.reason
    with pytest.raises(InvalidRequest, match="Nothing to change"):
        revise(app, fact.id, reason="For no reason.")


def test_what_is_not_named_stays_as_it_is(app: App, remember: RememberOne, clock: "Clock") -> None:
    """R8: each field by itself; what was revised counts as accessed."""
    fact = remember("The port is 5432.", importance=4.0, tags=("net",), confidence=0.5, pinned=True)
    before = stored(app, fact.id)
    clock.advance(hours=1)
    revise(app, fact.id, outcome="success")
    after = stored(app, fact.id)
    assert (after.importance, after.tags, after.confidence, after.pinned) == (4.0, ("net",), 0.5, True)
    assert (after.outcome, after.updated_at, after.accessed_at) == ("success", clock.now, clock.now)
    assert (after.created_at, after.occurred_at) == (before.created_at, before.occurred_at)
    revise(app, fact.id, importance=0.0, tags=(), confidence=0.0, pinned=False)
    after = stored(app, fact.id)
    assert (after.importance, after.tags, after.confidence, after.pinned) == (0.0, (), 0.0, False)
    assert after.outcome == "success"


@pytest.mark.uncounted
@pytest.mark.parametrize(
    ("feedback", "counted"),
    [
        ("used", {"used": 1}),
        ("helpful", {"used": 1}),
        ("ignored", {"ignored": 1}),
        ("triggered", {"activated": 1}),
        ("false_positive", {"false_positives": 1}),
        ("succeeded", {"activated": 1, "succeeded": 1}),
        ("failed", {"activated": 1}),
    ],
)
def test_feedback_is_counted(app: App, remember: RememberOne, feedback: Feedback, counted: dict[str, int]) -> None:
    """C8.4, A6.6: and changes no status."""
    fact = remember("The port is 5432.")
    revise(app, fact.id, feedback=feedback)
    counters = show_account(app.inspect.record(fact.id, app.caller()), app.caller())["counters"]
    assert isinstance(counters, dict)
    assert {name: count for name, count in counters.items() if count} == counted
    assert stored(app, fact.id).status == "new"


@pytest.mark.parametrize("status", ["new", "core", "superseded", "inactive"])
def test_what_is_wrong_leaves_search_whatever_it_was(app: App, remember: RememberOne, status: Status) -> None:
    """C8.1: inactive; saying so twice is no error, and by hand it can be set back."""
    fact = remember("The moon is cheese.")
    revise(app, fact.id, status=status)
    for _ in range(2):
        assert revise(app, fact.id, feedback="wrong").status == "inactive"
    assert found(app, "moon cheese") == []
    revise(app, fact.id, status="new")
    assert found(app, "moon cheese") == ["The moon is cheese."]


def test_a_status_that_does_not_fit_is_refused(app: App, remember: RememberOne) -> None:
    """C8.6: nothing changed, and the message lists what is possible."""
    decision = remember("We use SQLite.", kind="decision")
    with pytest.raises(Conflict, match=r"it can be inactive, retired, superseded\. Its outcome, feedback"):
        revise(app, decision.id, status="core", importance=9.0)
    assert stored(app, decision.id).importance == 1.0
    assert revise(app, decision.id, status="retired").status == "retired"


def test_when_the_newest_is_wrong_what_it_replaced_holds_again(app: App, remember: RememberOne) -> None:
    """C8.1, C8.6: one step back along the chain, with the standing it had; by feedback or by hand."""
    first = remember("The port is 5432.")
    second = remember("The port is 6543.", supersedes=(first.id,))
    for session in ("a", "b", "c"):
        remember("The port is 6543.", caller=app.caller(session))
    third = remember("The port is 7654.", supersedes=(second.id,))
    revise(app, third.id, feedback="wrong")
    assert [stored(app, each.id).status for each in (first, second, third)] == ["superseded", "core", "inactive"]
    assert stored(app, second.id).superseded_by is None
    revise(app, second.id, status="inactive")
    assert stored(app, first.id).status == "new"
    assert found(app, "port") == ["The port is 5432."]


def test_what_is_wrong_in_the_middle_of_a_chain_changes_nothing_that_holds(app: App, remember: RememberOne) -> None:
    """C8.1, R8: nor does it bring back what was forgotten."""
    first, forgotten = remember("The port is 5432."), remember("The port is 1.")
    second = remember("The port is 6543.", supersedes=(first.id,))
    third = remember("The port is 7654.", supersedes=(second.id, forgotten.id))
    revise(app, second.id, feedback="wrong")
    assert stored(app, first.id).status == "superseded"
    assert remember("The port is 5432.").superseded_by == third.id
    app.forget([forgotten.id], "retire", app.caller())
    revise(app, third.id, feedback="wrong")
    assert stored(app, forgotten.id).status == "retired"
    assert app.forget([second.id], "restore", app.caller()).done == (second.id,)
    assert stored(app, second.id).status == "superseded"


def test_an_outcome_reviews_a_decision(app: App, remember: RememberOne) -> None:
    """C8.5: recorded, pending, reviewed, also by saying it again; it is there for calibration."""
    decision = remember("We use SQLite.", kind="decision", confidence=0.8)
    assert stored(app, decision.id).status == "recorded"
    assert revise(app, decision.id, outcome="pending").status == "pending"
    where = RecordFilter(scopes=app.caller().scopes)
    assert app.records.judged_confidences(where) == []
    assert remember("We use SQLite.", kind="decision", outcome="success").status == "confirmed"
    assert stored(app, decision.id).status == "reviewed"
    assert app.records.judged_confidences(where) == [(0.8, "success")]
    assert revise(app, decision.id, outcome="failure", status="retired").status == "retired"
    with pytest.raises(Conflict, match="Its outcome"):
        revise(app, remember("We use Redis.", kind="decision").id, status="reviewed")


@pytest.mark.parametrize("status", ["summarized", "archived"])
def test_an_episode_does_not_age_by_hand(app: App, remember: RememberOne, status: Status) -> None:
    """C8.2, C8.6: its facts would never be extracted."""
    with pytest.raises(Conflict, match="cannot be set"):
        revise(app, remember("We met.", kind="episode").id, status=status)


def test_a_procedure_is_flagged_by_its_failures(app: App, remember: RememberOne) -> None:
    """C8.3: from five uses on."""
    procedure = remember("Restart it twice.", kind="procedure")
    judged: list[Feedback] = ["failed", "failed", "failed", "failed", "succeeded", "succeeded", "succeeded"]
    statuses = [revise(app, procedure.id, feedback=each).status for each in judged]
    assert statuses == ["active"] * 4 + ["ineffective", "ineffective", "active"]


def test_a_censor_that_is_triggered_blocks_until_it_errs(app: App, remember: RememberOne) -> None:
    """C8.4: then it is out of search, until somebody restores it."""
    censor = remember("Never drop the table.", kind="censor", details={"trigger": "drop"})
    assert stored(app, censor.id).status == "created"
    assert [revise(app, censor.id, feedback="triggered").status for _ in range(3)] == ["active", "active", "escalated"]
    assert stored(app, censor.id).details["action"] == "block"
    assert [revise(app, censor.id, feedback="false_positive").status for _ in range(5)][-2:] == ["escalated", "retired"]
    assert found(app, "drop the table") == []
    app.forget([censor.id], "restore", app.caller())
    assert stored(app, censor.id).status == "created"


def test_a_record_supersedes_others(app: App, remember: RememberOne) -> None:
    """R8: the old ones rank below it, and leave contexts."""
    new = remember("The port is 6543.")
    old = [remember("The port is 5432."), remember("The port is 4321.")]
    revise(app, new.id, supersedes=tuple(each.id for each in old))
    assert found(app, "which port is it") == ["The port is 6543. (before r000007, 2026-11-20: 4321)"]
    assert {stored(app, each.id).superseded_by for each in old} == {new.id}
    report = app.assemble_context(ContextRequest(), app.caller()).report
    assert [component.id for component in report.components] == [new.id]


def test_who_takes_the_place_of_another_is_not_changed_by_it(app: App, remember: RememberOne, clock: "Clock") -> None:
    """U4.1: so that an undo finds everything as it was."""
    old, new = remember("The port is 5432."), remember("The port is 6543.")
    before = stored(app, new.id).updated_at
    clock.advance(hours=1)
    revise(app, new.id, supersedes=(old.id,))
    assert stored(app, new.id).updated_at == before
    assert revise(app, new.id, pinned=True).updated_at == clock()


def test_the_newest_versions_are_read_first_and_a_page_at_a_time(app: App, remember: RememberOne) -> None:
    """U4.1: a record may have thousands."""
    fact = remember("The port is 0.")
    for number in range(1, 6):
        revise(app, fact.id, text=f"The port is {number}.")
    first = app.records.latest_versions(fact.id, 2)
    assert [each.before["text"] for each in first] == ["The port is 4.", "The port is 3."]
    second = app.records.latest_versions(fact.id, 9, first[-1].change)
    assert [each.before["text"] for each in second] == ["The port is 2.", "The port is 1.", "The port is 0."]
    assert app.records.latest_versions("r999999", 2) == []


def test_two_records_never_supersede_each_other(app: App, remember: RememberOne) -> None:
    """R8: neither would hold; directly or round a corner; a record does not supersede itself."""
    first = remember("The port is 1.")
    second = remember("The port is 2.", supersedes=(first.id,))
    third = remember("The port is 3.", supersedes=(second.id,))
    for newest in (second, third):
        with pytest.raises(Conflict, match=f"itself superseded by {newest.id}; set its status back"):
            revise(app, first.id, supersedes=(newest.id,))
    assert stored(app, third.id).superseded_by is None
    assert revise(app, third.id, supersedes=(third.id,)).status == "new"
    revise(app, first.id, status="new", supersedes=(third.id,))
    assert [stored(app, each.id).superseded_by for each in (first, second, third)] == [None, third.id, first.id]
    assert app.assemble_context(ContextRequest(), app.caller()).report.components[0].id == first.id


def test_replacing_what_was_forgotten_does_not_show_it_again(app: App, remember: RememberOne) -> None:
    """R9: retired stays retired."""
    new, old = remember("The host is db2."), remember("The host is db1.")
    app.forget([old.id], "retire", app.caller())
    revise(app, new.id, supersedes=(old.id,))
    assert found(app, "host") == ["The host is db2."]


def test_an_unknown_record_is_refused(app: App, remember: RememberOne) -> None:
    """S3.1: also one to supersede; nothing changed."""
    fact = remember("The port is 5432.")
    with pytest.raises(NotFound, match="call `recall` to find ids"):
        revise(app, "r00zzzz", text="New text.")
    with pytest.raises(NotFound, match="r00zzzz"):
        revise(app, fact.id, importance=9.0, supersedes=("r00zzzz",))
    assert stored(app, fact.id).importance == 1.0


def test_an_empty_text_is_refused(app: App, remember: RememberOne) -> None:
    """S3.1: with the way to remove a record."""
    with pytest.raises(InvalidRequest, match="use forget"):
        revise(app, remember("The port is 5432.").id, text=" \n")


def test_a_correction_holds_no_secret(app: App, remember: RememberOne) -> None:
    """R4: redacted like any text."""
    assert TOKEN not in revise(app, remember("The token is secret.").id, text=f"The token is {TOKEN}.").text


def test_a_text_that_another_record_has_is_not_stored_twice(app: App, remember: RememberOne) -> None:
    """R2: neither by correcting nor by moving to its scope; the message says what to do."""
    right, wrong = remember("The port is 6543."), remember("The port is 5432.")
    with pytest.raises(Conflict, match=rf"{right.id} has this text already; .*supersedes=\['{wrong.id}'\]"):
        revise(app, wrong.id, text="The port is 6543.")
    private = remember("The port is 6543.", visibility="private")
    with pytest.raises(Conflict, match=right.id):
        revise(app, private.id, visibility="shared")


def test_a_record_can_be_moved_to_other_readers(
    app: App, open_memory: Callable[..., App], remember: RememberOne
) -> None:
    """S4.1: what was private is then shared, and the other way round; each index follows."""
    bob = open_memory(agent="bob")
    note = remember("The port is 5432.", visibility="private")
    assert found(bob, "port") == []
    revise(app, note.id, visibility="shared")
    assert found(bob, "port") == ["The port is 5432."]
    revise(app, note.id, visibility="private")
    assert found(bob, "port") == []
    assert found(app, "port") == ["The port is 5432."]


def test_a_text_taken_back_can_be_set_again(app: App, remember: RememberOne) -> None:
    """R8: there and back leaves one record with the text it says."""
    fact = remember("The port is 5432.")
    revise(app, fact.id, text="The port is 6543.")
    revise(app, fact.id, text="The port is 5432.")
    assert remember("The port is 5432.").status == "confirmed"
    assert remember("The port is 6543.").status == "superseded"
    assert found(app, "port") == ["The port is 5432."]


def test_a_revision_of_nothing_is_refused(app: App, remember: RememberOne) -> None:
    """S3.1: with what could be given."""
    record = remember("The port is 5432.")
    with pytest.raises(InvalidRequest, match="Nothing to change"):
        app.revise(Revision(id=record.id), app.caller())


def test_sharing_a_record_does_not_share_what_it_said_before(
    app: App, open_memory: Callable[..., App], remember: RememberOne
) -> None:
    """S4.1: its earlier texts were private; they are still recognised."""
    record = remember("Orion is fired in March.", visibility="private")
    app.revise(Revision(id=record.id, text="Orion ends in March."), app.caller())
    app.revise(Revision(id=record.id, visibility="shared"), app.caller())
    bob = open_memory(agent="bob")
    assert show_account(bob.inspect.record(record.id, bob.caller()), bob.caller())["earlier"] == []
    assert bob.remember([NewRecord(text="Orion is fired in March.")], bob.caller())[0].status == "superseded"


@pytest.mark.uncounted
def test_recording_an_outcome_renews_the_short_forms(app: App, remember: RememberOne) -> None:
    """C2.2: micro and summary say what came of it, with their tokens; the text stays as it is."""
    text = (
        "We decided to keep the sessions of all customers in Redis for the time being, which is fast. "
        + "Then we spoke of many other things that had nothing at all to do with it that day. " * 40
    )
    decision = stored(app, remember(text, kind="decision").id)
    begun = "We decided to keep the sessions of all customers in Redis for the time being"
    assert (decision.micro, decision.text) == (f"{begun}, which is…", text.strip())
    failed = revise(app, decision.id, outcome="failure")
    assert (failed.micro, failed.text) == (f"{begun}… → failure", text.strip())
    assert failed.summary.endswith(" → failure")
    assert failed.micro_tokens <= 20
    assert revise(app, decision.id, outcome="success").micro.endswith("… → success")
    assert revise(app, decision.id, text="We keep them in files.").summary == "We keep them in files. → success"


def test_an_outcome_that_comes_with_a_known_text_renews_its_short_forms(app: App, remember: RememberOne) -> None:
    """C2.2: however it is recorded."""
    fact = remember("Nightly builds are cached.")
    assert remember("Nightly builds are cached.", outcome="partial").id == fact.id
    assert stored(app, fact.id).micro == "Nightly builds are cached. → partial"


def test_several_records_are_revised_in_one_write_or_none(app: App, remember: RememberOne) -> None:
    """R8: and one undo takes all of it back."""
    ids = [remember(f"Line {number} is red.").id for number in range(3)]
    change = app.revise.together([Revision(id=each, pinned=True) for each in ids[:2]], app.caller())
    assert [stored(app, each).pinned for each in ids] == [True, True, False]
    with pytest.raises(NotFound):
        app.revise.together([Revision(id=each, pinned=True) for each in (ids[2], "r0zzzz")], app.caller())
    assert not stored(app, ids[2]).pinned
    assert app.revise.together([], app.caller()) == 0
    app.undo(change, app.caller())
    assert not any(stored(app, each).pinned for each in ids)


def test_details_are_set_beside_those_that_it_has(app: App, remember: RememberOne) -> None:
    """R8: they are found, hold no secret, and the text is no correction of itself."""
    one = remember("Leave the build folder alone.", kind="censor", details={"reason": "CI owns it"})
    revised = app.revise.advised(
        Revision(id=one.id, details={"pattern": TOKEN, "asked_as": "Where does the zonk live?"}), app.caller()
    )
    assert revised.record.details["reason"] == "CI owns it"
    assert TOKEN not in str(revised.record.details)
    assert (revised.record.text, revised.conflicts) == ("Leave the build folder alone.", ())
    assert found(app, "where does the zonk live?") == ["Leave the build folder alone. Because: CI owns it"]
    app.undo(revised.change, app.caller())
    assert dict(stored(app, one.id).details) == {"reason": "CI owns it"}
    gone = remember("The safe of the harbour office opens with 4711.")
    app.forget([gone.id], "erase", app.caller())
    with pytest.raises(Conflict, match="erased"):
        revise(app, one.id, details={"reason": "The safe of the harbour office opens with 4711."})
    with pytest.raises(InvalidRequest, match=r"details\.pattern"):
        revise(app, one.id, details={"pattern": 3})
    with pytest.raises(NotFound):
        revise(app, "r00zzzz", details={"reason": "None."})
