"""From the evidence of several sources to one ranking."""

from collections.abc import Mapping
from dataclasses import replace
from math import log

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcp_memory.domain.retrieval.fusion import (
    LIFT_NATS,
    MOST_LIFT,
    Background,
    Fused,
    SourceTraits,
    Weights,
    below_successors,
    fuse,
    meaning_nats,
    words_nats,
)
from mcp_memory.domain.retrieval.turns import Turn

IDS = [f"r{n:06d}" for n in range(12)]
COSINES = st.dictionaries(st.sampled_from(IDS), st.floats(-1, 1), max_size=12)
NATS = st.dictionaries(st.sampled_from(IDS), st.floats(0, 40), max_size=12)
RANKINGS = st.fixed_dictionaries({}, optional={"keyword": NATS, "vector": COSINES, "time": NATS, "graph": NATS})
USUAL = Background(records=1000, cosine_mean=0.1, cosine_mean_square=0.02, information=20.0)
"""A thousand records whose cosines to the query have mean and deviation 0.1."""
HALF = {"time": SourceTraits(weight=0.5)}
BACKGROUNDS = st.builds(
    Background,
    records=st.integers(0, 10**6),
    cosine_mean=st.floats(-0.2, 0.9),
    cosine_mean_square=st.floats(0, 1),
    information=st.floats(0, 60),
)


def fused(rankings: Mapping[str, Mapping[str, float]], background: Background = USUAL) -> list[Fused]:
    return fuse(rankings, background, neighbours={})


@given(
    RANKINGS,
    BACKGROUNDS,
    st.dictionaries(st.sampled_from(IDS), st.lists(st.sampled_from(IDS), max_size=2)),
    st.sampled_from(IDS),
)
def test_every_candidate_appears_once_in_order_of_its_score(
    rankings: dict[str, dict[str, float]], background: Background, near: dict[str, list[str]], assistant: str
) -> None:
    """R5: scores lie in [0, 1), and follow the sum of the parts they name."""
    hits = fuse(rankings, background, neighbours=near, turns={assistant: Turn(is_assistant=True)})
    assert sorted(hit.id for hit in hits) == sorted({record_id for scores in rankings.values() for record_id in scores})
    assert [hit.score for hit in hits] == sorted((hit.score for hit in hits), reverse=True)
    sums = [max(sum(hit.parts.values()), 0.0) for hit in hits]
    assert sums == sorted(sums, reverse=True)
    for hit in hits:
        assert 0 <= hit.score < 1
        assert hit.raw == {name: scores[hit.id] for name, scores in rankings.items() if hit.id in scores}
    assert hits == fuse(rankings, background, neighbours=near, turns={assistant: Turn(is_assistant=True)})


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


def test_a_superseded_record_that_was_not_found_brings_in_no_successor() -> None:
    """R8: only what bears on the query is shown with its correction."""
    assert below_successors([Fused(id="other", score=0.5)], {"old": "new"}) == [Fused(id="other", score=0.5)]


def test_a_successor_says_what_it_owes_to_the_record_it_replaced() -> None:
    """R5, R8: the parts still explain the place."""
    old, new = Fused(id="r1", score=0.8, parts={"vector": 9.0}), Fused(id="r2", score=0.3, parts={"keyword": 2.0})
    first = below_successors([old, new], {"r1": "r2"})[0]
    assert (first.id, first.score, first.parts) == ("r2", 0.8, {"keyword": 2.0, "supersedes": 7.0})


def test_what_says_a_corrected_value_again_stands_behind_the_correction_and_is_not_replaced() -> None:
    """W5.1: a reader leaves out what is replaced, and sees both of these."""
    again, now = Fused(id="r2", score=0.8), Fused(id="r1", score=0.3)
    result = below_successors([again, now], {"r2": "r1"}, is_replaced=False)
    assert [(hit.id, hit.replaces) for hit in result] == [("r1", ()), ("r2", ())]


@given(st.floats(-1, 1), st.floats(0, 1), BACKGROUNDS)
def test_nearer_is_more_surprising(cosine: float, more: float, background: Background) -> None:
    """R5: never less, and never infinite."""
    assert (
        0
        <= meaning_nats(cosine, *background.cosine)
        <= meaning_nats(min(cosine + more, 1.0), *background.cosine)
        < 1000
    )


def test_a_cosine_counts_by_how_far_it_stands_out_from_the_stores_others() -> None:
    """R5: 0.5 is much among unrelated records, and nothing among records that are all alike."""
    alike = Background(records=1000, cosine_mean=0.5, cosine_mean_square=0.26)
    assert meaning_nats(0.5, *USUAL.cosine) > 9
    assert meaning_nats(0.5, *alike.cosine) == pytest.approx(log(2), abs=0.2)
    assert meaning_nats(0.1, *USUAL.cosine) == pytest.approx(log(2))


def test_an_almost_empty_store_is_read_with_what_is_usual_elsewhere() -> None:
    """R5: of two records none can stand out from the other; against unrelated ones it can."""
    two = Background(records=2, cosine_mean=0.6, cosine_mean_square=0.36)
    assert meaning_nats(0.6, *two.cosine) > 4
    assert Background().cosine == pytest.approx((0.1, 0.1))


@given(st.floats(0, 20), st.floats(0, 20))
def test_more_of_the_querys_words_is_more_evidence(nats: float, more: float) -> None:
    """R5: and no record has more of it than the words are worth."""
    has, more = words_nats(nats, USUAL, Weights()), words_nats(min(nats + more, 20.0), USUAL, Weights())
    assert 0 <= has <= more <= 20


def test_all_of_the_querys_words_count_in_full_and_a_few_of_many_hardly() -> None:
    """R5: one word out of many is likely to turn up somewhere."""
    assert words_nats(20.0, USUAL, Weights()) == 20.0
    assert words_nats(4.0, USUAL, Weights()) < 1.2
    assert words_nats(4.0, Background(), Weights()) == 0.0


def test_what_stands_out_decides_which_source_leads() -> None:
    """R5: the mixture follows the query: rare words together outweigh a fair likeness, not a striking one."""
    by_word = {"keyword": {"named": 16.0}, "vector": {"named": 0.2, "near": 0.45}}
    assert [hit.id for hit in fused(by_word)] == ["named", "near"]
    striking = {"keyword": {"named": 16.0}, "vector": {"named": 0.2, "near": 0.7}}
    assert [hit.id for hit in fused(striking)] == ["near", "named"]


def test_a_source_that_found_nothing_takes_nothing_from_the_others() -> None:
    """R5: keywords alone rank as they rank with an empty search by meaning beside them."""
    assert fused({"keyword": {"a": 17.0, "b": 8.5}, "vector": {}}) == fused({"keyword": {"a": 17.0, "b": 8.5}})
    assert fused({}) == []


def test_ties_go_to_the_newest() -> None:
    """R5: ids sort by time."""
    hits = fused({"keyword": {"r000001": 2.0, "r000003": 2.0, "r000002": 2.0}})
    assert [hit.id for hit in hits] == ["r000003", "r000002", "r000001"]


def test_a_turn_gains_from_its_neighbours_and_an_assistants_turn_counts_less() -> None:
    """R5: measured on dialogues; a neighbour that is no candidate adds nothing."""
    rankings = {"other": {"a": 4.0, "b": 4.0, "c": 2.0}}
    found = fuse(rankings, USUAL, neighbours={"c": ["a"], "a": ["unknown"]}, turns={"b": Turn(is_assistant=True)})
    parts = {hit.id: hit.parts for hit in found}
    assert parts == {
        "a": {"other": 4.0},
        "b": {"other": 4.0, "assistant": -0.8},
        "c": {"other": 2.0, "neighbours": 1.0},
    }


def test_a_turn_loses_shares_of_its_evidence_by_its_form() -> None:
    """R5: together less than all of it."""
    turn = Turn(is_other=True, is_brief=True, questions=0.5)
    (hit,) = fuse({"other": {"a": 4.0}}, USUAL, neighbours={}, turns={"a": turn, "unknown": turn})
    assert hit.parts == {
        "other": 4.0,
        "speaker": pytest.approx(-1.2),
        "question": pytest.approx(-0.8),
        "brief": pytest.approx(-1.0),
    }
    weights = Weights()
    assert weights.other_speaker + weights.question + weights.brief < 1


def test_the_best_of_many_windows_is_less_surprising_than_an_only_one() -> None:
    """R5: 1 - (1 - p)^w is about w times p where p is small; a cosine below the mean stays worthless."""
    one = meaning_nats(0.5, 0.1, 0.1)
    assert meaning_nats(0.5, 0.1, 0.1, 10) == pytest.approx(one - log(10), abs=1e-3)
    assert meaning_nats(-1.0, 0.1, 0.1, 10) == pytest.approx(0.0)
    assert meaning_nats(-9.0, 0.1, 0.1, 10) == 0.0
    background = replace(USUAL, windows={"long": 10})
    assert [hit.id for hit in fused({"vector": {"long": 0.51, "short": 0.5}}, background)] == ["short", "long"]


def test_words_lead_where_the_model_knows_none_of_them() -> None:
    """R5: the vectors of an unknown script are near each other, whatever the texts say."""
    rankings = {"vector": {"near": 0.9, "said": 0.6}, "keyword": {"said": 15.0}}
    assert [hit.id for hit in fused(rankings)] == ["near", "said"]
    assert [hit.id for hit in fused(rankings, replace(USUAL, known=0.0))] == ["said", "near"]


def test_the_time_asked_about_adds_evidence_and_brings_in_candidates_of_its_own() -> None:
    """R6, O3.1: a date narrows or boosts; a nat of a source weighs what the source says."""
    rankings = {"keyword": {"old": 12.0, "then": 11.9}, "time": {"then": 3.0, "also": 3.0}}
    hits = fuse(rankings, USUAL, neighbours={}, traits=HALF)
    assert [hit.id for hit in hits] == ["then", "old", "also"]
    assert hits[0].parts["time"] == pytest.approx(1.5)


def test_a_source_says_whether_its_evidence_admits_alone_and_is_certain() -> None:
    """O3.1: a successor inherits what admits the record that it replaced."""
    traits = {"vector": SourceTraits(admits_alone=False), "time": SourceTraits(is_certain=True)}
    rankings = {"vector": {"near": 0.9, "then": 0.3, "old": 0.2}, "time": {"then": 3.0}, "other": {"old": 1.0}}
    hits = below_successors(fuse(rankings, USUAL, neighbours={}, traits=traits), {"then": "new"})
    told = {hit.id: (hit.is_admitted, hit.is_certain) for hit in hits}
    assert told == {"near": (False, False), "old": (True, False), "then": (True, True), "new": (True, True)}


def test_a_score_of_a_half_is_what_chance_produces_once() -> None:
    """R5: with n records about log n nats."""
    hit = fused({"other": {"a": log(1051)}})[0]
    assert hit.score == pytest.approx(0.5)
    assert fuse({"other": {"a": 0.0}}, Background(), neighbours={})[0].score == 0.0


@given(RANKINGS, BACKGROUNDS, st.dictionaries(st.sampled_from(IDS), st.floats(0.1, 12), max_size=3))
def test_the_holders_of_a_rare_word_come_first(
    rankings: Mapping[str, Mapping[str, float]], background: Background, holders: Mapping[str, float]
) -> None:
    """F6.1: unless others have more than that word can make up for."""
    plain = {hit.id: sum(hit.parts.values()) for hit in fuse(rankings, background, neighbours={})}
    most = max((nats for each, nats in plain.items() if each not in holders), default=0.0)
    ranked = fuse(rankings, replace(background, holders=holders), neighbours={})
    first = {hit.id for hit in ranked[: len(holders.keys() & plain.keys())]}
    for each in holders.keys() & plain.keys() - first:
        assert plain[each] >= most or plain[each] <= 0 or plain[each] + MOST_LIFT * holders[each] <= most + LIFT_NATS


def test_the_holder_of_a_rare_word_comes_before_what_is_nearer_in_meaning() -> None:
    """F6.1: among look-alikes only the word tells records apart."""
    nats = {"other": {"near": 9.0, "holder": 2.0}}
    ranked = fuse(nats, replace(USUAL, holders={"holder": 4.0}), neighbours={})
    assert [hit.id for hit in ranked] == ["holder", "near"]
    assert sum(ranked[0].parts.values()) > 9.0


def test_a_rare_word_does_not_make_up_for_everything() -> None:
    """R5: in a large memory a name that the question mentions beside its subject puts no foreign record first."""
    nats = {"other": {"answer": 21.0, "holder": 9.0}}
    ranked = fuse(nats, replace(USUAL, holders={"holder": 4.0}), neighbours={})
    assert [hit.id for hit in ranked] == ["answer", "holder"]
    assert ranked[1].parts["rare"] == MOST_LIFT * 4.0


def test_the_best_turns_of_a_session_speak_for_its_others() -> None:
    """F1: by three tenths of their mean; one session alone orders nothing."""
    nats = {"r1": 9.0, "r2": 9.0, "r3": 9.0, "r4": 2.0, "r5": 2.5}
    sessions = {"r1": "a", "r2": "a", "r3": "a", "r4": "a", "r5": "b", "r9": "b"}
    told = {hit.id: hit.parts for hit in fuse({"time": nats}, USUAL, neighbours={}, traits=HALF, sessions=sessions)}
    assert told["r4"]["session"] == pytest.approx(0.3 * 0.5 * 9.0)
    assert told["r5"]["session"] == pytest.approx(0.3 * 0.5 * 2.5 / 3)
    alone = fuse({"time": nats}, USUAL, neighbours={}, traits=HALF, sessions=dict.fromkeys(nats, "a"))
    assert all("session" not in hit.parts for hit in alone)


def test_the_place_in_the_task_tree_decides_among_near_equals_and_makes_nothing_relevant() -> None:
    """F7.1: at most what was found itself is gained, and half of it lost."""
    nats = {"r1": 20.0, "r2": 18.0, "r3": 2.0, "r4": 18.0}
    stack = {"r2": 4.0, "r3": 4.0, "r4": -30.0, "r9": 4.0}
    told = {hit.id: hit.parts for hit in fuse({"time": nats}, USUAL, neighbours={}, traits=HALF, stack=stack)}
    assert list(told) == ["r2", "r1", "r4", "r3"]
    assert (told["r3"]["stack"], told["r4"]["stack"]) == (1.0, -4.5)
    assert "r9" not in told
