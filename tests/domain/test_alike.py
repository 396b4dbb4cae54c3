"""Which records say the same, and which belong together."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcp_memory.domain.alike import CLUSTER_COSINE, NEAR_COSINE, SAME_COSINE, AlikePair, clustered, repeated


def test_of_two_that_say_the_same_the_better_one_stays() -> None:
    """B1.3: whichever way round the pair is told; the other one names it as the reason."""
    texts = {"best": "We deploy on Tuesdays.", "worse": "Deploys are on Tuesdays."}
    for pair in (("best", "worse", 0.97), ("worse", "best", 0.97)):
        assert repeated(texts, [pair]) == {"worse": "best"}
    assert repeated(texts, [("best", "worse", SAME_COSINE - 0.01)]) == {}
    assert repeated(texts, []) == {}


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("The port is 5432.", "The port is 5433."),
        ("Service alpha7 is down.", "Service alpha8 is down."),
        ("Deploys are on Fridays.", "Deploys are not on Fridays."),
        ("We use MySQL.", "We never use MySQL."),
        ("It works with retries.", "It works without retries."),
        ("It does retry.", "It doesn't retry."),
        ("It does retry.", "It doesn’t retry."),
        ("The cache is cleared on deploys.", "The cache isn't cleared on deploys."),
        ("We can deploy on Friday.", "We cannot deploy on Friday."),
        ("The tests were flaky.", "The tests weren't flaky."),
        ("Feature flags are used.", "Feature flags aren't used."),
        ("Use 10 workers, then 20.", "Use 20 workers."),
        ("Use Python 3.2.", "Use Python 2.3."),
        ("The offset is 5 hours.", "The offset is -5 hours."),
        ("We moved from 15 to 16.", "We moved from 16 to 15."),
    ],
)
def test_a_differing_value_or_negation_is_never_a_repetition(one: str, other: str) -> None:
    """B1.3, R8: however alike the words are."""
    assert repeated({"a": one, "b": other}, [("a", "b", 0.999)]) == {}


def test_punctuation_and_case_are_no_difference() -> None:
    """R3: the number at the end of a sentence is the same number."""
    texts = {"a": "Never use port 5432.", "b": "never use port 5432, please"}
    assert repeated(texts, [("a", "b", 0.96)]) == {"b": "a"}


def test_looking_for_values_is_linear_in_the_text() -> None:
    """A4.1: a long text without a space takes no longer than its length calls for."""
    texts = {"a": "x" * 300_000, "b": "x" * 300_000}
    assert repeated(texts, [("a", "b", 1.0)]) == {"b": "a"}


def test_what_repeats_is_held_against_what_stays() -> None:
    """B1.3: no record is left out for one that is left out itself."""
    texts = dict.fromkeys("abc", "the same")
    assert repeated(texts, [("b", "c", 0.99), ("a", "b", 0.99)]) == {"b": "a"}
    assert repeated(texts, [("a", "b", 0.99), ("a", "c", 0.99), ("b", "c", 0.99)]) == {"b": "a", "c": "a"}


PAIRS = st.lists(
    st.tuples(st.integers(0, 7), st.integers(0, 7), st.floats(0, 1)).filter(lambda pair: pair[0] < pair[1]), max_size=20
).map(lambda pairs: [(f"r{a}", f"r{b}", cosine) for a, b, cosine in pairs])


@given(PAIRS)
def test_a_repeated_record_always_has_a_better_one_that_stays(pairs: list[AlikePair]) -> None:
    """B1.3: nothing is lost with what is dropped."""
    ids = [f"r{n}" for n in range(8)]
    repeats = repeated(dict.fromkeys(ids, "the same"), pairs)
    for worse, better in repeats.items():
        assert better not in repeats
        assert better < worse
        assert any({a, b} == {better, worse} and cosine >= NEAR_COSINE for a, b, cosine in pairs)


def test_records_of_one_matter_stand_side_by_side_by_their_best() -> None:
    """A6.3: the order of the best of each cluster, and within it, stays."""
    ids = ["deploy1", "port1", "deploy2", "lunch", "port2", "deploy3"]
    pairs = [("deploy1", "deploy2", 0.8), ("deploy1", "deploy3", 0.6), ("port1", "port2", 0.9), ("lunch", "port1", 0.2)]
    assert clustered(ids, pairs) == ["deploy1", "deploy2", "deploy3", "port1", "port2", "lunch"]
    assert clustered(ids, []) == ids


@given(PAIRS)
def test_clustering_loses_nothing_and_keeps_the_best_first(pairs: list[AlikePair]) -> None:
    """A6.3: each record that is not alike to one above it stands where a new cluster begins."""
    ids = [f"r{n}" for n in range(8)]
    order = clustered(ids, pairs)
    assert sorted(order) == ids
    assert order[0] == ids[0]
    near = {frozenset(pair[:2]) for pair in pairs if pair[2] >= CLUSTER_COSINE}
    leaders = [each for at, each in enumerate(order) if not any(frozenset((each, e)) in near for e in order[:at])]
    assert leaders == sorted(leaders)


def test_what_differs_in_case_and_punctuation_alone_says_the_same() -> None:
    """R3: however far apart that puts two short texts."""
    texts = {"r000001": "We ship on Tuesdays.", "r000002": "we ship on tuesdays!", "r000003": "We ship on Mondays."}
    pairs = [("r000001", "r000002", 0.92), ("r000001", "r000003", 0.92), ("r000002", "r000003", 0.8)]
    assert repeated(texts, pairs) == {"r000002": "r000001"}
