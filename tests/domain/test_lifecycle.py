"""Which status a record may take."""

from collections.abc import Callable
from functools import partial
from typing import Any, get_args

import pytest

from mcp_memory.domain.lifecycle import (
    TRANSITIONS,
    after_confirmation,
    after_succession,
    first_status,
    moved_to,
    refuse_hidden_successor,
)
from mcp_memory.domain.records import KINDS, Counters, Kind, Record, Status
from mcp_memory.errors import Conflict

STATUSES: tuple[Status, ...] = get_args(Status)
FACT_ONLY = ("new", "confirmed", "core")
MakeRecord = Callable[..., Record]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("before", STATUSES)
@pytest.mark.parametrize("after", STATUSES)
def test_a_record_moves_as_the_table_says_and_no_other_way(
    make_record: MakeRecord, kind: Kind, before: Status, after: Status
) -> None:
    """C8.1, C8.6: facts have their own stages; a refusal names what is possible."""
    record = make_record(kind=kind, status=before, superseded_by="r000009")
    fits = after in ("superseded", "inactive", "retired") or (after in FACT_ONLY) == (kind == "fact")
    if after == before:
        assert moved_to(record, after) is record
    elif after in TRANSITIONS[before] and fits:
        moved = moved_to(record, after)
        assert moved.status == after
        assert (moved.superseded_by is None) == (after != "superseded")
    else:
        with pytest.raises(Conflict) as refused:
            moved_to(record, after)
        named = str(refused.value).split("it can be ")[1].rstrip(".").split(", ")
        for status in STATUSES:
            allowed = status in named
            if allowed:
                assert moved_to(record, status).status == status


def test_a_fact_begins_as_new_and_everything_else_as_active() -> None:
    """C8.1, C8.2: where the life of a record begins."""
    assert {kind: first_status(kind) for kind in KINDS} == {
        kind: "new" if kind == "fact" else "active" for kind in KINDS
    }


def test_a_fact_is_confirmed_then_core_at_three_confirmations(make_record: MakeRecord) -> None:
    """C8.1: new, confirmed, core; each meeting is counted."""
    fact = make_record()
    stages: list[tuple[str, int]] = []
    for at in (10.0, 20.0, 30.0, 40.0):
        fact = after_confirmation(fact, at)
        assert fact.updated_at == at
        stages.append((fact.status, fact.counters.confirmed))
    assert stages == [("confirmed", 1), ("confirmed", 2), ("core", 3), ("core", 4)]


def test_what_was_made_core_by_hand_stays_core(make_record: MakeRecord) -> None:
    """C8.1: a confirmation never lowers."""
    assert after_confirmation(make_record(status="core", counters=Counters()), 5.0).status == "core"


def test_another_kind_is_counted_but_keeps_its_status(make_record: MakeRecord) -> None:
    """C8.1: stages are for facts."""
    decision = after_confirmation(make_record(kind="decision", status="active"), 5.0)
    assert (decision.status, decision.counters.confirmed) == ("active", 1)


@pytest.mark.parametrize("status", STATUSES)
def test_what_was_forgotten_or_proven_wrong_does_not_come_back_by_being_replaced(
    make_record: MakeRecord, status: Status
) -> None:
    """C8.1, R8: superseded records are searchable; retired and inactive ones stay out of search."""
    replaced = after_succession(make_record(status=status), "r000009", 7.0)
    assert replaced.superseded_by == "r000009"
    assert replaced.status == (status if status in ("inactive", "retired") else "superseded")


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
