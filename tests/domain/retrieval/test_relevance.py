"""The floor under what may enter a context."""

import pytest

from mcp_memory.domain.retrieval.fusion import Fused, below_successors
from mcp_memory.domain.retrieval.gate import (
    FLOOR_COSINE,
    FLOOR_SCORE,
    GOAL_CHANCE,
    chance,
    is_above_floor,
    is_known,
    noise_score,
    relevance_of,
)
from mcp_memory.domain.retrieval.queries import coverage


def hit(score: float = 1.0, **raw: float) -> Fused:
    return Fused(id="r000001", score=score, raw=raw)


def test_meaning_alone_is_enough() -> None:
    """A1.6: near in meaning, no word in common; as near as chance would have it is not enough."""
    assert is_above_floor(hit(vector=FLOOR_COSINE), 2.0)
    assert not is_above_floor(hit(vector=FLOOR_COSINE - 0.01), 2.0)
    assert is_above_floor(hit(FLOOR_SCORE, vector=0.9), 2.0)
    assert not is_above_floor(hit(FLOOR_SCORE - 0.01, vector=0.9), 2.0)


def test_words_alone_are_enough_where_half_of_them_are_there() -> None:
    """A1.6: by what they tell: one common word of many is not, and neither is one that tells nothing."""
    assert is_above_floor(hit(keyword=2.0), 4.0)
    assert not is_above_floor(hit(keyword=2.0), 4.1)
    assert not is_above_floor(hit(), 0.0)
    assert not is_above_floor(hit(keyword=0.0), 0.0)


def test_what_replaced_a_record_is_as_relevant_as_that_and_no_more() -> None:
    """R8, A1.6: the correction may share no word with the question; one of something else stays below the floor."""
    old = Fused(id="r1", score=0.5, raw={"vector": 0.6, "keyword": 1.0})
    [newer, _] = below_successors([old], {"r1": "r2"})
    assert (newer.id, newer.replaces) == ("r2", ("r1",))
    assert is_above_floor(newer, 9.0)
    [newer, _] = below_successors([Fused(id="r1", score=0.5, raw={"vector": 0.1})], {"r1": "r2"})
    assert not is_above_floor(newer, 9.0)


@pytest.mark.parametrize(
    ("terms", "text", "share"),
    [
        ([], "anything", 0.0),
        (["errors"], "An error occurred", 1.0),
        (["deploys"], "We deploy it", 1.0),
        (["deploying"], "It was deployed", 1.0),
        (["recall"], "a recent event", 0.0),
        (["postgres", "mysql"], "Postgres", 0.5),
        (["数据"], "数据库在东京", 1.0),
        (["port"], "", 0.0),
    ],
)
def test_inflections_count_as_the_same_word(terms: list[str], text: str, share: float) -> None:
    """A1.6: without a dictionary."""
    assert coverage(terms, text) == share


def test_a_place_in_the_task_tree_makes_nothing_relevant() -> None:
    """F7.1: a score of 0.2 that is half its place is one of 0.11."""
    parts = {"vector": 1.0, "stack": 1.0}
    assert not is_above_floor(Fused(id="r0", score=0.2, parts=parts, raw={"vector": 0.5}), 9.0)
    assert is_above_floor(Fused(id="r0", score=0.2, parts={"vector": 2.0}, raw={"vector": 0.5}), 9.0)
    assert is_above_floor(Fused(id="r0", score=0.2, parts={**parts, "stack": -1.0}, raw={"vector": 0.5}), 9.0)


def known(cosines: list[float], query: str, *, is_certain: bool = False, **raw: float) -> bool:
    """Whether hits of these cosines, the first with more evidence, answer a query of 20 nats."""
    hits = [Fused(id=f"r{n}", score=0.5, raw={"vector": cosine}) for n, cosine in enumerate(cosines)]
    hits[0] = Fused(id="r0", score=0.5, raw={"vector": cosines[0], **raw}, is_certain=is_certain)
    return is_known(hits, 20.0, query.split())


def test_nothing_known_is_told_from_something() -> None:
    """F4.1: by cosine, by the share of the words, by a time, or because the query is only a word or two."""
    assert not known([0.2, 0.19], "how tall is the tower")
    assert known([0.4, 0.39], "how tall is the tower")
    assert known([0.2, 0.19], "how tall is the tower", keyword=11.0)
    assert known([0.2, 0.19], "how tall is the tower", is_certain=True)
    assert known([0.2, 0.19], "tower height")
    assert chance([Fused(id="r0", score=0.5, raw={"keyword": 1.0})], 20.0) == 1.0
    assert 0 < chance([Fused(id="r0", score=0.5, raw={"vector": 0.1})], 0.0) < 0.1
    assert not is_known([], 20.0, ["how", "tall", "tower"])
    goal = [Fused(id="r0", score=0.5, raw={"vector": 0.3})]
    assert is_known(goal, 20.0, ["measure", "the", "tower"], GOAL_CHANCE)
    assert not is_known(goal, 20.0, ["measure", "the", "tower"])


def test_a_weak_hit_beside_an_outstanding_one_is_noise() -> None:
    """F5.2: where nothing stands out, weak hits may be all there is; a place in the task tree makes none stand out."""
    weak, best = Fused(id="r1", score=0.3, parts={"vector": 2.0}), Fused(id="r2", score=0.8, parts={"vector": 20.0})
    assert noise_score([weak, best]) == 0.8 * 0.4
    assert noise_score([weak]) == noise_score([]) == 0
    placed = Fused(id="r3", score=0.8, parts={"vector": 10.0, "stack": 10.0})
    assert noise_score([placed]) == 0
    assert noise_score([Fused(id="r4", score=0.99)]) < 0.5, "chance alone produces a half"


def test_a_score_tells_the_chance_that_a_result_bears_on_the_query() -> None:
    """F4.1: between 0 and 1, higher for a better match."""
    chances = [relevance_of(score / 10) for score in range(10)]
    assert chances == sorted(chances)
    assert (round(relevance_of(0.5), 2), round(relevance_of(0.78), 1)) == (0.04, 0.5)
