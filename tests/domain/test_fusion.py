"""From several rankings to one."""

from collections.abc import Collection, Mapping, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcp_memory.domain.fusion import Fused, below_successors, fuse, min_max

IDS = [f"r{n:06d}" for n in range(12)]
SCORES = st.dictionaries(st.sampled_from(IDS), st.floats(-1, 30, allow_nan=False), max_size=12)
RANKINGS = st.fixed_dictionaries({}, optional={"keyword": SCORES, "vector": SCORES, "time": SCORES})


def alone(_: Collection[str]) -> Mapping[str, Sequence[str]]:
    return {}


def user(_: str) -> bool:
    return False


def fused(rankings: Mapping[str, Mapping[str, float]]) -> list[Fused]:
    return fuse(rankings, neighbours=alone, is_assistant=user)


@given(
    RANKINGS, st.dictionaries(st.sampled_from(IDS), st.lists(st.sampled_from(IDS), max_size=2)), st.sampled_from(IDS)
)
def test_every_candidate_appears_once_in_order_of_its_score(
    rankings: dict[str, dict[str, float]], near: dict[str, list[str]], assistant: str
) -> None:
    """R5: and the score is the sum of the parts it names."""

    def neighbours(found: Collection[str]) -> Mapping[str, Sequence[str]]:
        return {record_id: turns for record_id, turns in near.items() if record_id in found}

    hits = fuse(rankings, neighbours=neighbours, is_assistant=lambda record_id: record_id == assistant)
    assert sorted(hit.id for hit in hits) == sorted({record_id for scores in rankings.values() for record_id in scores})
    assert [hit.score for hit in hits] == sorted((hit.score for hit in hits), reverse=True)
    for hit in hits:
        assert hit.score == pytest.approx(sum(hit.parts.values()))
        assert hit.raw == {name: scores[hit.id] for name, scores in rankings.items() if hit.id in scores}
    assert hits == fuse(rankings, neighbours=neighbours, is_assistant=lambda record_id: record_id == assistant)


@given(
    st.dictionaries(st.sampled_from(IDS), st.floats(0, 1), min_size=1).map(
        lambda scores: [Fused(id=i, score=s) for i, s in sorted(scores.items(), key=lambda pair: -pair[1])]
    ),
    st.dictionaries(st.sampled_from(IDS[:6]), st.sampled_from(IDS[6:])),
)
def test_a_superseded_record_never_stands_above_its_successor(ranking: list[Fused], chain: dict[str, str]) -> None:
    """R8: the successor is brought in where the search did not find it; nothing else is lost or moved up."""
    result = below_successors(ranking, chain)
    place = {hit.id: n for n, hit in enumerate(result)}
    for old, new in chain.items():
        if old in {hit.id for hit in ranking}:
            assert place[new] < place[old]
    assert {hit.id for hit in ranking} <= place.keys()
    assert [hit.score for hit in result] == sorted((hit.score for hit in result), reverse=True)


def test_scores_are_scaled_to_one_whatever_their_range() -> None:
    """R5: BM25 and cosine have different ranges; equal scores are all the best."""
    assert min_max({"a": 3.0, "b": 1.0, "c": 2.0}) == {"a": 1.0, "b": 0.0, "c": 0.5}
    assert min_max({"a": 3.0, "b": 1.0}, 0.0) == {"a": 1.0, "b": pytest.approx(1 / 3)}
    assert min_max({"a": 2.0, "b": 2.0}) == {"a": 1.0, "b": 1.0}
    assert min_max({}) == {}


def test_a_source_that_found_nothing_takes_nothing_from_the_others() -> None:
    """R5: with keywords alone the best candidate still reaches 1."""
    assert fused({"keyword": {"a": 7.0, "b": 3.5}, "vector": {}})[0].score == pytest.approx(1.0)
    assert fused({}) == []


def test_ties_go_to_the_newest() -> None:
    """R5: ids sort by time."""
    assert [hit.id for hit in fused({"keyword": {"r000001": 2.0, "r000003": 2.0, "r000002": 2.0}})] == [
        "r000003",
        "r000002",
        "r000001",
    ]


def test_a_turn_gains_from_its_neighbours_and_an_assistants_turn_counts_less() -> None:
    """R5: measured on dialogues (see the module)."""
    rankings = {"keyword": {"a": 4.0, "b": 4.0, "c": 2.0}}
    hits = {hit.id: hit for hit in fuse(rankings, neighbours=lambda _: {"c": ["a"]}, is_assistant=lambda i: i == "b")}
    assert hits["c"].parts["neighbours"] == pytest.approx(0.2)
    assert hits["b"].score == pytest.approx(0.8)


def test_the_time_asked_about_adds_a_fifth_and_brings_in_candidates_of_its_own() -> None:
    """R6: a date narrows or boosts."""
    hits = fused({"keyword": {"old": 4.0, "then": 3.9}, "time": {"then": 1.0, "also": 1.0}})
    assert [hit.id for hit in hits] == ["then", "old", "also"]
    assert hits[0].parts["time"] == pytest.approx(0.2)
