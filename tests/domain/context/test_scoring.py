"""How candidates are scored and ordered."""

import random
from collections.abc import Callable, Mapping
from dataclasses import replace
from math import log
from typing import Any, get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcp_memory.domain.context.scoring import (
    Candidate,
    access,
    hyperbolic_decay,
    ordered,
    outcome_value,
    recency,
    salience,
    scored,
    signals,
    usage,
)
from mcp_memory.domain.model.lifecycle import MAX_LEARNED
from mcp_memory.domain.model.records import KINDS, Counters, Outcome, Record
from mcp_memory.domain.model.strategy import Signal, Strategy
from mcp_memory.strategies import overridden, read_strategies

NOW = 1_795_176_000.0
MINUTE, HOUR, DAY = 60.0, 3_600.0, 86_400.0
STRATEGIES = read_strategies(None)
SIGNALS: tuple[Signal, ...] = get_args(Signal)
MakeRecord = Callable[..., Record]


def candidate(
    make_record: MakeRecord, name: str, age: float = 0.0, importance: float = 1.0, **fields: Any
) -> Candidate:
    found = {key: fields.pop(key) for key in ("relevance", "cosine", "corrected_by", "newest") if key in fields}
    times = {"occurred_at": NOW - age, "created_at": NOW - age, "accessed_at": NOW - age}
    record = make_record(name, id=name, importance=importance, **{**times, **fields})
    return Candidate(record=record, source="test", **found)


def points(strategy: str, one: Candidate) -> float:
    return scored(STRATEGIES[strategy], one, NOW).score


def names(strategy: str, candidates: list[Candidate]) -> list[str]:
    return [each.candidate.record.id for each in ordered(STRATEGIES[strategy], candidates, NOW)]


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
    strategy = overridden(STRATEGIES["balanced"], {"decay_hours": 24})
    assert scored(strategy, candidate(make_record, "a", DAY, 8), NOW).score == 4.0
    assert strategy.name == "balanced"


def test_what_says_a_corrected_value_again_comes_directly_behind_the_correction(make_record: MakeRecord) -> None:
    """W5.1: whatever the strategy weighs, and where the correction is among the candidates; nothing else moves."""
    for by, order in (("now", ["other", "now", "again", "last"]), ("gone", ["again", "other", "now", "last"])):
        candidates = [
            candidate(make_record, "again", 1 * MINUTE, 9, corrected_by=by),
            candidate(make_record, "other", 2 * MINUTE, 9),
            candidate(make_record, "now", 3 * MINUTE, 9),
            candidate(make_record, "last", 4 * MINUTE, 9),
        ]
        assert names("balanced", candidates) == order
    lower = [candidate(make_record, "now", 0, 9), candidate(make_record, "again", HOUR, 1, corrected_by="now")]
    assert names("balanced", lower) == ["now", "again"]


def test_the_newest_state_of_a_thread_stands_before_its_best_record(make_record: MakeRecord) -> None:
    """W5.2: whatever the strategy weighs; what it follows stays where it is."""
    for newest, order in (("new", ["first", "new", "best", "other"]), ("gone", ["first", "best", "other", "new"])):
        candidates = [
            candidate(make_record, "first", 1 * MINUTE, 9),
            candidate(make_record, "best", 2 * MINUTE, 9, newest=newest),
            candidate(make_record, "other", 3 * MINUTE, 9),
            candidate(make_record, "new", 4 * MINUTE, 9),
        ]
        assert names("balanced", candidates) == order


def test_the_mixed_case_has_the_scores_of_the_contract(make_record: MakeRecord) -> None:
    """A5.3: 7 at 2 minutes, 5 at 10 minutes, 10 at 3 days, 9 at 5 days."""
    candidates = [
        candidate(make_record, "five days", 5 * DAY, 9),
        candidate(make_record, "three days", 3 * DAY, 10),
        candidate(make_record, "ten minutes", 10 * MINUTE, 5),
        candidate(make_record, "two minutes", 2 * MINUTE, 7),
    ]
    result = ordered(STRATEGIES["balanced"], candidates, NOW)
    assert [each.candidate.record.id for each in result] == ["two minutes", "ten minutes", "three days", "five days"]
    assert [each.score for each in result] == pytest.approx([6.77, 4.29, 0.137, 0.074], rel=0.01)


def test_with_a_query_an_old_relevant_decision_beats_yesterdays_chat(make_record: MakeRecord) -> None:
    """A1.5: auto weighs relevance above importance above recency."""
    candidates = [
        candidate(make_record, "chat", DAY, 1, relevance=0.2),
        candidate(make_record, "decision", 182 * DAY, 5, relevance=1.0),
    ]
    assert names("auto", candidates) == ["decision", "chat"]


def test_recency_halves_with_every_half_life() -> None:
    """B4.1: and never leaves (0, 1]."""
    assert [recency(age, 24) for age in (0, 24, 48, -5)] == [1.0, 0.5, 0.25, 1.0]
    assert [recency(age, 720) for age in (720, 1440)] == [0.5, 0.25]
    assert STRATEGIES["auto"].half_life_hours == 24


@pytest.mark.parametrize("name", sorted(STRATEGIES))
def test_what_happens_in_the_future_counts_as_now(make_record: MakeRecord, name: str) -> None:
    """A1.3: a clock that went back, or a planned date, makes no score above the newest."""
    soon, present = candidate(make_record, "soon", -90 * DAY, 5), candidate(make_record, "present", 0, 5)
    assert points(name, soon) == points(name, present)


def test_events_stand_out_by_half_and_the_rest_by_importance(make_record: MakeRecord) -> None:
    """B4.5: importance with what feedback showed of it."""
    assert salience(make_record(kind="event", importance=9)) == 0.5
    assert salience(make_record(importance=9)) == pytest.approx(9 / MAX_LEARNED)
    assert salience(make_record(importance=4, counters=Counters(used=9))) > salience(make_record(importance=4))
    assert salience(make_record(importance=4, counters=Counters(ignored=9))) < salience(make_record(importance=4))
    assert salience(make_record(importance=10, counters=Counters(used=10**6))) == pytest.approx(1.0)


def test_no_access_never_makes_a_score_nothing(make_record: MakeRecord) -> None:
    """A6.5: 1 + ln(1 + n) of n accesses, scaled to [0, 1] by a / (1 + a)."""
    assert access(0) == 0.5
    assert access(9) == pytest.approx((1 + log(10)) / (2 + log(10)))
    strategy = overridden(STRATEGIES["recent"], {"weights": {"access": 1}})
    never, often = (candidate(make_record, f"r{n}", counters=Counters(accessed=n)) for n in (0, 9))
    assert scored(strategy, often, NOW).score > scored(strategy, never, NOW).score > 0


def test_a_product_multiplies_signals_and_the_number_of_accesses(make_record: MakeRecord) -> None:
    """A6.5: importance × decay × (1 + ln(1 + n)); weights are exponents."""
    weights: dict[Signal, float] = {"importance": 1, "decay": 1, "access": 1}
    product = Strategy(name="proven", formula="product", weights=weights, decay_hours=2)
    given = [(6.0, 0, 0), (6.0, 3, 9), (1.0, 0, 400), (9.0, 72, 30)]
    made = [
        candidate(make_record, f"r{n}", hours * HOUR, importance, counters=Counters(accessed=accesses))
        for n, (importance, hours, accesses) in enumerate(given)
    ]
    wanted = [importance / (1 + hours / 2) * (1 + log(1 + n)) / MAX_LEARNED for importance, hours, n in given]
    assert [scored(product, each, NOW).score for each in made] == pytest.approx(wanted)
    order = [each.candidate.record.id for each in ordered(product, made, NOW)]
    assert order == [f"r{n}" for n in sorted(range(4), key=wanted.__getitem__, reverse=True)]
    squared = replace(product, weights={"importance": 2})
    assert scored(squared, made[0], NOW).score == pytest.approx((6 / MAX_LEARNED) ** 2)


def test_an_outcome_counts_by_its_value_and_none_as_pending(make_record: MakeRecord) -> None:
    """C4.1: success 1.2, partial 1.0, pending 0.9, failure 0.8, on their own range."""
    outcomes: tuple[Outcome | None, ...] = ("success", "partial", "pending", None, "failure")
    assert [outcome_value(make_record(outcome=each)) for each in outcomes] == pytest.approx([1, 0.5, 0.25, 0.25, 0])


def test_a_procedure_counts_by_how_often_it_succeeded(make_record: MakeRecord) -> None:
    """B3.5: never applied is neutral; what somebody said of it goes before."""
    rates = [Counters(), Counters(activated=4, succeeded=1), Counters(activated=4, succeeded=4)]
    assert [outcome_value(make_record(kind="procedure", counters=each)) for each in rates] == [0.5, 0.25, 1.0]
    assert outcome_value(make_record(kind="procedure", outcome="failure", counters=rates[2])) == 0.0


def test_usage_grows_with_the_logarithm_up_to_its_bound() -> None:
    """C4.1: min(1 + 0.1 log10 n, 1.5), none counting as 1, on its own range."""
    assert [usage(n) for n in (0, 1, 10, 1000, 10**5, 10**9)] == pytest.approx([0, 0, 0.2, 0.6, 1, 1])


def test_the_composite_score_is_that_of_the_contract(make_record: MakeRecord) -> None:
    """C4.1: and says what each signal adds (B4.4)."""
    best = candidate(
        make_record, "best", 0, kind="decision", cosine=1.0, outcome="success", counters=Counters(used=10**5)
    )
    result = scored(STRATEGIES["decision"], best, NOW)
    assert result.score == pytest.approx(1.0)
    assert result.parts == pytest.approx(
        {"cosine": 0.5, "kind": 0.15, "recency": 0.15, "outcome": 0.1, "usage": 0.05, "confidence": 0.05}
    )
    middling = candidate(
        make_record, "m", 30 * DAY, kind="tool_call", cosine=0.2, confidence=0.4, counters=Counters(activated=10)
    )
    assert points("decision", middling) == pytest.approx(
        0.5 * 0.6 + 0.15 * 0.5 + 0.15 * 0.5 + 0.1 * 0.25 + 0.05 * 0.2 + 0.05 * 0.4
    )


def test_what_was_not_compared_has_a_middling_cosine(make_record: MakeRecord) -> None:
    """C4.1: the term's range is [-1, 1]."""
    strategy = Strategy(name="s", weights={"cosine": 1})
    found = [candidate(make_record, "a", cosine=value) for value in (-1.0, None, 1.0)]
    assert [scored(strategy, each, NOW).score for each in found] == [0, 0.5, 1]


COUNTS = st.integers(0, 10**7)
WEIGHTS = st.dictionaries(st.sampled_from(SIGNALS), st.floats(0, 1_000), min_size=1).filter(lambda w: any(w.values()))
ANYTHING = st.fixed_dictionaries(
    {
        "age": st.floats(-1e9, 1e9),
        "importance": st.floats(0, 10),
        "kind": st.sampled_from(KINDS),
        "outcome": st.sampled_from([None, "success", "partial", "pending", "failure"]),
        "confidence": st.none() | st.floats(0, 1),
        "relevance": st.floats(0, 1),
        "cosine": st.none() | st.floats(-1, 1),
        "counters": st.builds(Counters, accessed=COUNTS, activated=COUNTS, used=COUNTS, ignored=COUNTS),
    }
)


@given(WEIGHTS, ANYTHING)
def test_every_signal_and_every_weighted_score_lies_between_0_and_1(
    make_record: MakeRecord, weights: Mapping[Signal, float], fields: dict[str, Any]
) -> None:
    """B4.4: one sum of named signals, each normalised before it is weighed, reported by name."""
    strategy = Strategy(name="s", weights=weights, priorities={"decision": 1.0, "event": 0.0})
    one = candidate(make_record, "a", **fields)
    found = signals(one, strategy, NOW)
    assert set(found) == set(weights)
    assert all(0 <= value <= 1 + 1e-12 for value in found.values())
    result = scored(strategy, one, NOW)
    assert -1e-9 <= result.score <= 1 + 1e-9
    assert result.score == pytest.approx(sum(result.parts.values()))


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
        scores = [each.score for each in ordered(STRATEGIES[name], candidates, NOW)]
        assert scores == sorted(scores, reverse=True)
