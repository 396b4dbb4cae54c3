"""How candidates are scored and ordered."""

import random
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcp_memory.domain.records import Record
from mcp_memory.domain.strategies import (
    STRATEGIES,
    Candidate,
    choose_strategy,
    hyperbolic_decay,
    ordered,
    recency,
    score,
)
from mcp_memory.errors import InvalidRequest

NOW = 1_795_176_000.0
MINUTE, HOUR, DAY = 60.0, 3_600.0, 86_400.0
MakeRecord = Callable[..., Record]


def candidate(
    make_record: MakeRecord, name: str, age: float = 0.0, importance: float = 1.0, **fields: float
) -> Candidate:
    times = {"occurred_at": NOW - age, "created_at": NOW - age, "accessed_at": NOW - age}
    record = make_record(
        name, id=name, importance=importance, **{**times, **{k: v for k, v in fields.items() if k != "relevance"}}
    )
    return Candidate(record=record, source="test", relevance=fields.get("relevance", 0.0))


def names(strategy: str, candidates: list[Candidate]) -> list[str]:
    return [each.record.id for each, _ in ordered(STRATEGIES[strategy], candidates, NOW)]


def test_recent_orders_by_last_access_and_ties_by_creation(make_record: MakeRecord) -> None:
    """A1.1: newest first in both."""
    candidates = [
        candidate(make_record, "old", DAY),
        candidate(make_record, "touched", 9 * DAY, accessed_at=NOW - 1),
        candidate(make_record, "tie-older", HOUR, accessed_at=NOW - 50, created_at=NOW - 200),
        candidate(make_record, "tie-newer", HOUR, accessed_at=NOW - 50, created_at=NOW - 100),
    ]
    assert names("recent", candidates) == ["touched", "tie-newer", "tie-older", "old"]


def test_recent_tells_apart_what_happened_microseconds_and_decades_ago(make_record: MakeRecord) -> None:
    """A1.1: also where the score rounds to the same number."""
    candidates = [candidate(make_record, f"r{n}", 40 * 365 * DAY + n * 1e-3) for n in range(5)]
    assert names("recent", candidates) == ["r0", "r1", "r2", "r3", "r4"]


def test_important_orders_by_importance_and_equals_newest_first(make_record: MakeRecord) -> None:
    """A1.2: age decides nothing else."""
    candidates = [
        candidate(make_record, "nine", 9 * DAY, 9),
        candidate(make_record, "one", 0, 1),
        candidate(make_record, "ten", 99 * DAY, 10),
        candidate(make_record, "nine-newer", DAY, 9),
    ]
    assert names("important", candidates) == ["ten", "nine-newer", "nine", "one"]


def test_balanced_multiplies_importance_with_the_hyperbolic_decay_of_age(make_record: MakeRecord) -> None:
    """A1.3: at 0, 1, 3 and 24 hours; A6.2: with another decay_hours."""
    assert [hyperbolic_decay(age, 1.0) for age in (0, 1, 3, 24)] == [1.0, 0.5, 0.25, 0.04]
    assert hyperbolic_decay(24, 24.0) == 0.5
    strategy = choose_strategy("balanced", has_query=False, decay_hours=24.0)
    assert score(strategy, candidate(make_record, "a", DAY, 8), NOW) == 4.0
    assert strategy.name == "balanced"


def test_the_mixed_case_has_the_scores_of_the_contract(make_record: MakeRecord) -> None:
    """A5.3: 7 at 2 minutes, 5 at 10 minutes, 10 at 3 days, 9 at 5 days."""
    candidates = [
        candidate(make_record, "five days", 5 * DAY, 9),
        candidate(make_record, "three days", 3 * DAY, 10),
        candidate(make_record, "ten minutes", 10 * MINUTE, 5),
        candidate(make_record, "two minutes", 2 * MINUTE, 7),
    ]
    result = ordered(STRATEGIES["balanced"], candidates, NOW)
    assert [each.record.id for each, _ in result] == ["two minutes", "ten minutes", "three days", "five days"]
    assert [points for _, points in result] == pytest.approx([6.77, 4.29, 0.137, 0.074], rel=0.01)


def test_with_a_query_an_old_relevant_decision_beats_yesterdays_chat(make_record: MakeRecord) -> None:
    """A1.5: auto weighs relevance above importance above recency."""
    candidates = [
        candidate(make_record, "chat", DAY, 1, relevance=0.2),
        candidate(make_record, "decision", 182 * DAY, 5, relevance=1.0),
    ]
    assert names("auto", candidates) == ["decision", "chat"]


def test_recency_halves_every_day() -> None:
    """B4.1: and never leaves (0, 1]."""
    assert [recency(0), recency(24), recency(48), recency(-5)] == [1.0, 0.5, 0.25, 1.0]


@pytest.mark.parametrize("name", sorted(STRATEGIES))
def test_what_happens_in_the_future_counts_as_now(make_record: MakeRecord, name: str) -> None:
    """A1.3: a clock that went back, or a planned date, makes no score above the newest."""
    soon, present = candidate(make_record, "soon", -90 * DAY, 5), candidate(make_record, "present", 0, 5)
    assert score(STRATEGIES[name], soon, NOW) == score(STRATEGIES[name], present, NOW)


def test_an_unknown_strategy_is_an_error_that_lists_the_known_ones() -> None:
    """A1.4: and does not echo a page of text."""
    with pytest.raises(InvalidRequest, match="auto, balanced, important, recent") as refused:
        choose_strategy("fastest" * 100, has_query=True)
    assert len(str(refused.value)) < 150


def test_the_default_is_balanced_and_with_a_query_auto() -> None:
    """A1.5: an empty name counts as none."""
    assert choose_strategy(None, has_query=False).name == "balanced"
    assert choose_strategy(None, has_query=True).name == "auto"
    assert choose_strategy("", has_query=True).name == "auto"
    assert choose_strategy("recent", has_query=True).name == "recent"


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3), st.integers(0, 2)), max_size=12), st.randoms())
def test_the_order_does_not_depend_on_the_order_in_which_candidates_came(
    make_record: MakeRecord, drawn: list[tuple[int, int, int]], chance: random.Random
) -> None:
    """B11.2: ties end at the id, so that equal stores give equal bytes; nothing is lost."""
    candidates = [
        candidate(make_record, f"r{n:06d}", age * HOUR, importance, relevance=relevance / 2)
        for n, (age, importance, relevance) in enumerate(drawn)
    ]
    shuffled = chance.sample(candidates, len(candidates))
    for name in STRATEGIES:
        assert names(name, candidates) == names(name, shuffled)
        assert sorted(names(name, candidates)) == [each.record.id for each in candidates]
        points = [points for _, points in ordered(STRATEGIES[name], candidates, NOW)]
        assert points == sorted(points, reverse=True)
