"""Where a record may be in its life, and what moves it."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from itertools import pairwise
from typing import Any, get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcp_memory.domain.model.lifecycle import (
    LIFECYCLES,
    MAX_LEARNED,
    NOTED,
    PAST,
    Feedback,
    after_confirmation,
    after_feedback,
    after_outcome,
    after_succession,
    aged,
    first_status,
    judged,
    learned_importance,
    lifecycle_weight,
    moved_by_hand,
    moved_to,
    promoted,
    refuse_hidden_successor,
    restored,
    stage_of,
    stages,
    success_rate,
    with_more_said,
)
from mcp_memory.domain.model.records import (
    KINDS,
    OUT_OF_SEARCH,
    Counters,
    Kind,
    NewRecord,
    Outcome,
    Record,
    Status,
)
from mcp_memory.errors import Conflict

STATUSES: tuple[Status, ...] = get_args(Status)
FEEDBACK: tuple[Feedback, ...] = get_args(Feedback)
OUTCOMES: tuple[Outcome, ...] = get_args(Outcome)
NOON, DAY = 1_795_176_000.0, 86_400.0
MANY = Counters(activated=6, false_positives=5)
MakeRecord = Callable[..., Record]
Event = Callable[[Record], Record]
EVENTS: dict[str, Event] = {
    **{each: partial(after_feedback, feedback=each) for each in FEEDBACK},
    **{f"outcome {each}": partial(after_outcome, outcome=each) for each in OUTCOMES},
    "met again": lambda record: after_confirmation(record, NOON),
    "said again with an outcome": lambda record: with_more_said(record, NewRecord(text="x", outcome="pending")),
    "replaced": lambda record: after_succession(record, "r000009", NOON),
    "30 days": lambda record: aged(record, NOON + 30 * DAY),
    "90 days": lambda record: aged(record, NOON + 90 * DAY),
    "looked at": judged,
}
MOVES: dict[str, Event] = {**EVENTS, **{f"by hand {each}": partial(moved_by_hand, status=each) for each in STATUSES}}
"""What happens, and what somebody asks for."""


def reachable(kind: Kind, start: Status) -> set[Status]:
    """Where the moves of the table lead, one after the other."""
    seen: set[Status] = {start}
    ahead: list[Status] = [start]
    while ahead:
        new: list[Status] = [status for status in LIFECYCLES[kind][ahead.pop()] if status not in seen]
        seen.update(new)
        ahead.extend(new)
    return seen


@pytest.mark.parametrize("kind", KINDS)
def test_a_record_moves_as_the_table_says_and_no_other_way(make_record: MakeRecord, kind: Kind) -> None:
    """C8.6: a refusal names what is possible, and a status the kind does not have counts as its first."""
    for before in STATUSES:
        record = make_record(kind=kind, status=before, outcome="success", superseded_by="r000009")
        allowed = LIFECYCLES[kind].get(before, LIFECYCLES[kind][first_status(kind)])
        assert moved_to(record, before) is record
        for after in allowed:
            moved = moved_to(record, after)
            assert moved.status == after
            assert (moved.superseded_by is None) == (after not in PAST)
        for after in set(STATUSES) - allowed.keys() - {before}:
            with pytest.raises(Conflict) as refused:
                moved_to(record, after)
            said, _, possible = str(refused.value).partition("it can be ")
            assert f"A {kind} that is {before} cannot become {after}" in said
            assert possible.rstrip(".").split(", ") == sorted(allowed)


@pytest.mark.parametrize("kind", KINDS)
def test_nothing_that_happens_moves_a_record_off_the_table(make_record: MakeRecord, kind: Kind) -> None:
    """C8.6: for each kind, each status and each event; what cannot be is refused."""
    for before in STATUSES:
        outcome = "success" if before == "reviewed" else None
        record = make_record(kind=kind, status=before, outcome=outcome)
        refused: set[str] = set()
        for event, happen in EVENTS.items():
            try:
                after = happen(record)
            except Conflict:
                refused.add(event)
                continue
            moves = LIFECYCLES[kind]
            last = "summarized" if event == "90 days" and stage_of(record) == "active" else stage_of(record)
            assert after.status == before or after.status in moves[last], (before, event)
        is_waited_for = kind == "decision" and before == "reviewed"
        wrong = ["wrong"] if before == "retired" else ["outcome pending"] if is_waited_for else []
        assert (before, sorted(refused)) == (before, wrong)


@given(
    kind=st.sampled_from(KINDS),
    before=st.sampled_from(STATUSES),
    counts=st.tuples(*[st.integers(0, 12)] * 5),
    outcome=st.sampled_from([None, *OUTCOMES]),
    events=st.lists(st.sampled_from(sorted(MOVES)), max_size=12),
)
def test_a_life_is_a_path_through_the_table(
    make_record: MakeRecord,
    kind: Kind,
    before: Status,
    counts: tuple[int, ...],
    outcome: Outcome | None,
    events: list[str],
) -> None:
    """C8.6, C8.7: whatever happens in whatever order, and by hand; looking at it twice is looking once."""
    activated, false, succeeded, confirmed, used = counts
    counters = Counters(
        activated=activated, false_positives=false, succeeded=min(succeeded, activated), confirmed=confirmed, used=used
    )
    record = make_record(kind=kind, status=before, outcome=outcome, counters=counters)
    way: list[Record] = [record]
    for event in events:
        try:
            way.append(MOVES[event](way[-1]))
        except Conflict:
            continue
    for one, other in pairwise(way):
        assert other.status == one.status or other.status in reachable(kind, stage_of(one))
    last = judged(way[-1])
    assert judged(last) == last
    old = aged(way[-1], NOON + 100 * DAY)
    assert aged(old, NOON + 100 * DAY) == old
    assert old.text == record.text
    assert last.kind != "decision" or last.status != "reviewed" or last.outcome != "pending" or before == "reviewed"


@pytest.mark.parametrize("kind", KINDS)
def test_retiring_and_restoring_apply_to_all(make_record: MakeRecord, kind: Kind) -> None:
    """C8.6: from every stage, and back to one."""
    for stage in stages(kind):
        record = make_record(kind=kind, status=stage, outcome="success")
        for past in PAST:
            back = restored(moved_to(record, past))
            assert back.status in stages(kind)
            assert back.superseded_by is None


def test_where_the_life_of_a_record_begins() -> None:
    """C8.1, C8.2, C8.3, C8.4, C8.5."""
    begins = {kind: first_status(kind) for kind in KINDS}
    others = dict.fromkeys(KINDS, "active")
    assert begins == {**others, "fact": "new", "censor": "created", "decision": "recorded"}
    assert [first_status("decision", outcome) for outcome in OUTCOMES] == [
        "reviewed",
        "reviewed",
        "pending",
        "reviewed",
    ]
    assert first_status("fact", "success") == "new"


def test_a_fact_is_confirmed_then_core_at_three_confirmations(make_record: MakeRecord) -> None:
    """C8.1: new, confirmed, core; each meeting is counted."""
    fact = make_record()
    met: list[tuple[str, int]] = []
    for at in (10.0, 20.0, 30.0, 40.0):
        fact = after_confirmation(fact, at)
        assert fact.updated_at == at
        met.append((fact.status, fact.counters.confirmed))
    assert met == [("confirmed", 1), ("confirmed", 2), ("core", 3), ("core", 4)]


def test_what_was_made_core_by_hand_stays_core(make_record: MakeRecord) -> None:
    """C8.1: a confirmation never lowers."""
    assert after_confirmation(make_record(status="core", counters=Counters()), 5.0).status == "core"


def test_another_kind_is_counted_but_keeps_its_status(make_record: MakeRecord) -> None:
    """C8.1: stages are for facts."""
    decision = after_confirmation(make_record(kind="decision", status="recorded"), 5.0)
    assert (decision.status, decision.counters.confirmed) == ("recorded", 1)


def test_a_restored_fact_has_the_standing_it_was_confirmed_to(make_record: MakeRecord) -> None:
    """C8.1, C8.6."""
    past = [make_record(status="retired", counters=Counters(confirmed=count)) for count in (0, 1, 2, 3)]
    assert [restored(each).status for each in past] == ["new", "confirmed", "confirmed", "core"]


@pytest.mark.parametrize("status", STATUSES)
def test_what_was_forgotten_or_proven_wrong_does_not_come_back_by_being_replaced(
    make_record: MakeRecord, status: Status
) -> None:
    """C8.1, R8: superseded records are searchable; retired and inactive ones stay out of search."""
    replaced = after_succession(make_record(status=status), "r000009", 7.0)
    assert replaced.superseded_by == "r000009"
    assert replaced.status == (status if status in OUT_OF_SEARCH else "superseded")


@pytest.mark.parametrize(
    ("days", "status"), [(0, "active"), (29.9, "active"), (30, "summarized"), (89.9, "summarized"), (90, "archived")]
)
def test_an_episode_ages(make_record: MakeRecord, days: float, status: Status) -> None:
    """C8.2: and never back; other kinds do not."""
    episode = make_record(kind="episode", status="active")
    old = aged(episode, NOON + days * DAY)
    assert old.status == status
    assert aged(old, NOON).status == status
    assert old.is_live
    event = make_record(kind="event", status="active")
    assert aged(event, NOON + days * DAY) is event


def test_an_episode_is_as_old_as_it_is_stored_or_was_opened(make_record: MakeRecord) -> None:
    """C8.2, P4.2: a history of years is new on the day of its import, and what is read stays."""
    told = make_record(kind="episode", status="active", occurred_at=NOON - 4_000 * DAY)
    assert aged(told, NOON).status == "active"
    assert aged(told, NOON + 30 * DAY).status == "summarized"
    opened = replace(told, accessed_at=NOON + 20 * DAY)
    assert aged(opened, NOON + 49 * DAY).status == "active"
    assert aged(opened, NOON + 110 * DAY).status == "archived"


@pytest.mark.parametrize(
    ("uses", "successes", "status"),
    [
        (4, 4, "active"), (4, 0, "active"),
        (5, 4, "effective"), (5, 3, "active"), (5, 2, "active"), (5, 1, "ineffective"),
        (100, 61, "effective"), (100, 60, "active"), (100, 40, "active"), (100, 39, "ineffective"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("before", ["active", "effective", "ineffective"])
def test_a_procedure_is_as_effective_as_it_succeeds(
    make_record: MakeRecord, uses: int, successes: int, status: Status, before: Status
) -> None:
    """C8.3: from five uses on, wherever it was before."""
    counters = Counters(activated=uses, succeeded=successes)
    assert judged(make_record(kind="procedure", status=before, counters=counters)).status == status
    gone = make_record(kind="procedure", status="retired", counters=counters)
    assert judged(gone) is gone
    assert restored(gone).status == status


def test_the_rate_of_what_was_never_applied_is_neutral() -> None:
    """B3.5: no division by zero."""
    assert [success_rate(Counters(activated=n, succeeded=m)) for n, m in ((0, 0), (4, 1), (2, 2))] == [0.5, 0.25, 1.0]


def test_that_a_procedure_came_up_says_nothing_of_how_it_went(make_record: MakeRecord) -> None:
    """C8.3: it is used, and not the less effective."""
    procedure = make_record(kind="procedure", status="active")
    for _ in range(8):
        procedure = after_feedback(procedure, "triggered")
    assert (procedure.status, procedure.counters) == ("active", Counters(used=8))


def test_a_censor_warns_then_blocks(make_record: MakeRecord) -> None:
    """C8.4: active at the first trigger, escalated at the third."""
    censor = make_record(kind="censor", status="created", details={"trigger": "rm", "action": "warn"})
    way: list[tuple[str, object]] = []
    for _ in range(4):
        censor = after_feedback(censor, "triggered")
        way.append((censor.status, censor.details["action"]))
    assert way == [("active", "warn"), ("active", "warn"), ("escalated", "block"), ("escalated", "block")]
    assert censor.details["trigger"] == "rm"


@pytest.mark.parametrize(
    ("triggers", "false", "status"),
    [
        (0, 1, "active"), (0, 4, "active"), (0, 5, "retired"), (2, 2, "active"),
        (4, 4, "escalated"), (5, 2, "escalated"), (5, 3, "retired"), (6, 3, "escalated"), (6, 4, "retired"),
    ],
)  # fmt: skip
def test_a_censor_that_errs_is_retired(make_record: MakeRecord, triggers: int, false: int, status: Status) -> None:
    """C8.4: with more than half of five triggers or more; false alarms alone never make it block."""
    counters = Counters(activated=triggers, false_positives=false)
    assert judged(make_record(kind="censor", status="created", counters=counters)).status == status


def test_a_censor_restored_begins_anew(make_record: MakeRecord) -> None:
    """C8.4, C8.6: else it would be retired again at once."""
    censor = make_record(kind="censor", status="created")
    for _ in range(5):
        censor = after_feedback(censor, "false_positive")
    assert censor.status == "retired"
    assert after_feedback(censor, "triggered").status == "retired"
    for past in (censor, moved_to(make_record(kind="censor", status="escalated", counters=MANY), "inactive")):
        back = restored(past)
        assert (back.status, judged(back)) == ("created", back)
        assert back.counters == Counters()


@pytest.mark.parametrize(("action", "after"), [("warn", "warn"), ("block", "block"), (None, "warn")])
def test_a_censor_restored_does_what_it_did_before_its_escalation(
    make_record: MakeRecord, action: str | None, after: str
) -> None:
    """C8.4, C8.6: one that was made to block goes on blocking; what only a newer one replaced keeps its counts."""
    details = {"trigger": "rm"} | ({"action": action} if action else {})
    censor = make_record(kind="censor", status="active", details=details)
    for _ in range(3):
        censor = after_feedback(censor, "triggered")
    assert (censor.status, censor.details["action"]) == ("escalated", "block")
    for past in (after_feedback(censor, "wrong"), moved_to(censor, "retired")):
        assert restored(past).details == {"trigger": "rm", "action": after}
    replaced = restored(moved_to(censor, "superseded"))
    assert (judged(replaced).status, judged(replaced).details) == ("escalated", censor.details)


@pytest.mark.parametrize("kind", KINDS)
def test_by_hand_a_record_is_only_ended_restored_promoted_or_made_core(make_record: MakeRecord, kind: Kind) -> None:
    """C8.6: what its use, its outcome and its age decide is not for anybody to say."""
    for before in STATUSES:
        record = make_record(kind=kind, status=before, counters=Counters(confirmed=1), outcome="success")
        chosen = {*PAST, *(["core"] if kind == "fact" else [])}
        chosen |= {restored(record).status} if before in PAST else set()
        for after in STATUSES:
            if after == before:
                assert moved_by_hand(record, after) is record
            elif after in chosen & LIFECYCLES[kind][stage_of(record)].keys():
                assert moved_by_hand(record, after) == moved_to(record, after)
            elif before == NOTED and after == first_status(kind) and after in LIFECYCLES[kind][stage_of(record)]:
                assert moved_by_hand(record, after) == promoted(record)
            else:
                with pytest.raises(Conflict) as refused:
                    moved_by_hand(record, after)
                assert f"This {kind} is {before} and cannot be set to {after} by hand; it can" in str(refused.value)


def test_an_archived_episode_is_restored_as_such(make_record: MakeRecord) -> None:
    """C8.2, C8.6: what it states was extracted; one that was not archived is active, and ages again."""
    young = make_record(kind="episode", status="summarized")
    old = moved_to(young, "archived")
    for end in PAST:
        assert [restored(moved_to(each, end)).status for each in (young, old)] == ["active", "archived"]


def test_a_decision_is_reviewed_with_its_outcome(make_record: MakeRecord) -> None:
    """C8.5: it may be pending before, not after."""
    decision = make_record(kind="decision", status="recorded")
    pending = after_outcome(decision, "pending")
    reviewed = after_outcome(pending, "failure")
    assert [(each.status, each.outcome) for each in (pending, reviewed, after_outcome(reviewed, "success"))] == [
        ("pending", "pending"),
        ("reviewed", "failure"),
        ("reviewed", "success"),
    ]
    with pytest.raises(Conflict, match="cannot become pending"):
        after_outcome(reviewed, "pending")
    assert after_outcome(decision, "partial").status == "reviewed"
    assert after_outcome(decision, None) == decision


@pytest.mark.parametrize("outcome", [None, "pending"])
def test_a_decision_without_an_outcome_is_not_reviewed_by_hand(
    make_record: MakeRecord, outcome: Outcome | None
) -> None:
    """C8.5."""
    with pytest.raises(Conflict, match="give one"):
        moved_to(make_record(kind="decision", status="recorded", outcome=outcome), "reviewed")


def test_the_outcome_of_a_past_decision_is_kept_and_restored_with_it(make_record: MakeRecord) -> None:
    """C8.5: calibration learns from it all the same."""
    told = after_outcome(make_record(kind="decision", status="superseded"), "failure")
    assert (told.status, told.outcome) == ("superseded", "failure")
    assert restored(told).status == "reviewed"


def test_a_decision_of_an_earlier_version_moves_on(make_record: MakeRecord) -> None:
    """C8.5, C8.6: `active` counts as recorded."""
    old = make_record(kind="decision", status="active")
    assert after_outcome(old, "success").status == "reviewed"
    assert after_outcome(old, "pending").status == "pending"
    assert moved_to(old, "retired").status == "retired"


def test_another_kind_has_an_outcome_and_no_review(make_record: MakeRecord) -> None:
    """C8.2, C8.5."""
    episode = after_outcome(make_record(kind="episode", status="active"), "failure")
    assert (episode.status, episode.outcome) == ("active", "failure")


@pytest.mark.parametrize(
    ("before", "said", "after"),
    [
        (None, None, (None, "recorded")),
        (None, "pending", ("pending", "pending")),
        ("success", "pending", ("success", "reviewed")),
        ("success", None, ("success", "reviewed")),
        ("pending", "failure", ("failure", "reviewed")),
        ("success", "failure", ("failure", "reviewed")),
    ],
)
def test_meeting_a_decision_again_may_bring_its_outcome(
    make_record: MakeRecord, before: Outcome | None, said: Outcome | None, after: tuple[Outcome | None, Status]
) -> None:
    """C8.5: that it is pending says nothing new of what is known."""
    decision = make_record(kind="decision", status=first_status("decision", before), outcome=before)
    met = with_more_said(decision, NewRecord(text=decision.text, kind="decision", outcome=said))
    assert (met.outcome, met.status) == after


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_wrong_leaves_search(make_record: MakeRecord, kind: Kind) -> None:
    """C8.1, C8.6: any kind; what was retired is restored first."""
    for stage in stages(kind):
        assert after_feedback(make_record(kind=kind, status=stage), "wrong").status == "inactive"
    with pytest.raises(Conflict):
        after_feedback(make_record(kind=kind, status="retired"), "wrong")


@given(importance=st.floats(0, 10), used=st.integers(0, 10_000), ignored=st.integers(0, 10_000))
def test_learned_importance_is_bounded_and_reversible(
    make_record: MakeRecord, importance: float, used: int, ignored: int
) -> None:
    """A6.6: `used` raises, `ignored` lowers, one undoes the other, none is neutral."""

    def learned(used: int, ignored: int) -> float:
        return learned_importance(make_record(importance=importance, counters=Counters(used=used, ignored=ignored)))

    assert learned(0, 0) == importance
    assert importance / 2 <= learned(used, ignored) <= 1.5 * importance <= MAX_LEARNED
    assert learned(used + 1, ignored + 1) == learned(used, ignored)
    assert learned(used + 1, ignored) >= learned(used, ignored) >= learned(used, ignored + 1)


def test_a_few_judgements_move_importance_by_steps(make_record: MakeRecord) -> None:
    """A6.6: by feedback, a tenth at first, less and less later."""
    record = make_record(importance=4.0)
    assert learned_importance(after_feedback(record, "used")) == pytest.approx(4.39, abs=0.01)
    assert learned_importance(after_feedback(record, "ignored")) == pytest.approx(3.61, abs=0.01)
    both = after_feedback(after_feedback(record, "helpful"), "ignored")
    assert learned_importance(both) == 4.0
    assert learned_importance(replace(record, counters=Counters(used=100))) == pytest.approx(6.0)
    most = [learned_importance(make_record(importance=i, counters=Counters(used=100))) for i in (9.0, 10.0)]
    assert most == pytest.approx([13.5, MAX_LEARNED])  # No clip makes what differs equal.


@pytest.mark.parametrize("kind", KINDS)
def test_the_weight_of_a_stage_is_between_nothing_and_one(make_record: MakeRecord, kind: Kind) -> None:
    """C8.1: core facts rank higher, what is out of search lowest."""
    weights = {status: lifecycle_weight(make_record(kind=kind, status=status)) for status in LIFECYCLES[kind]}
    assert all(0.0 <= weight <= 1.0 for weight in weights.values())
    assert all(weights[past] <= weights[stage] for past in PAST for stage in stages(kind))
    assert lifecycle_weight(make_record(status="core")) > lifecycle_weight(make_record(status="confirmed"))
    assert lifecycle_weight(make_record(status="confirmed")) > lifecycle_weight(make_record(status="new"))


def test_every_status_is_in_some_life() -> None:
    """C8.6: one table per kind, and none that is for nothing."""
    assert set(LIFECYCLES) == set(KINDS)
    assert {status for moves in LIFECYCLES.values() for status in moves} == set(STATUSES)
    for moves in LIFECYCLES.values():
        assert {after for each in moves.values() for after in each} <= moves.keys()


@pytest.mark.parametrize(
    ("old", "newer", "is_refused"),
    [
        ({}, {}, False),
        ({}, {"scope": "user", "visibility": "user"}, False),
        ({}, {"scope": "private/bob/test", "visibility": "private"}, True),
        ({"scope": "user", "visibility": "user"}, {}, True),
        ({}, {"branch_id": "t000001"}, True),
        ({"branch_id": "t000001"}, {"branch_id": "t000001"}, False),
    ],
)
def test_nobody_is_left_without_the_record_and_its_successor(
    make_record: MakeRecord, old: dict[str, Any], newer: dict[str, Any], is_refused: bool
) -> None:
    """S4.1, R8: whoever sees the old one sees what replaced it."""
    call = partial(refuse_hidden_successor, make_record(**old), make_record(id="r00000z", **newer))
    if is_refused:
        with pytest.raises(Conflict, match="others do not see"):
            call()
    else:
        call()
