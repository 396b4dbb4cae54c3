"""What bears on a question: one gate for all readers."""

import pytest

from mcp_memory.domain.retrieval.fusion import Fused, below_successors
from mcp_memory.domain.retrieval.gate import (
    BEARS,
    FLOOR_COSINE,
    FLOOR_SCORE,
    NOISE_SHARE,
    AskedQuery,
    bearing,
    bearing_unasked,
    chance,
    is_above_floor,
    is_known,
    noise_score,
    nothing_names,
    relevance_of,
    relevances,
)
from mcp_memory.domain.retrieval.queries import coverage


def hit(score: float = 1.0, **raw: float) -> Fused:
    return Fused(id="r000001", score=score, raw=raw)


def hits(*cosines: float, score: float = 0.5, is_certain: bool = False, **raw: float) -> list[Fused]:
    """Hits of these cosines, the first with more evidence."""
    best = Fused(id="r0", score=score, raw={"vector": cosines[0], **raw}, is_certain=is_certain)
    return [best, *(Fused(id=f"r{n}", score=score, raw={"vector": cosine}) for n, cosine in enumerate(cosines[1:], 1))]


ASKED = AskedQuery(records=420, words=6, information=20.0)
FACT = AskedQuery(records=420, words=6, information=20.0, seeks_fact=True)
SPANISH = AskedQuery(records=420, words=6, information=20.0, understood=0.5)


def test_meaning_alone_is_enough() -> None:
    """A1.6: near in meaning, no word in common; as near as chance would have it is not enough."""
    assert is_above_floor(hit(vector=FLOOR_COSINE), 2.0)
    assert not is_above_floor(hit(vector=FLOOR_COSINE - 0.01), 2.0)
    assert is_above_floor(hit(FLOOR_SCORE, vector=0.9), 2.0)
    assert not is_above_floor(hit(FLOOR_SCORE - 0.01, vector=0.9), 2.0)


def test_words_or_relations_alone_are_enough_where_they_tell_half_of_the_query() -> None:
    """A1.6, R7: one common word of many is not, and neither is one that tells nothing."""
    assert is_above_floor(hit(keyword=2.0), 4.0)
    assert not is_above_floor(hit(vector=0.0, keyword=2.0), 4.1)
    assert is_above_floor(hit(vector=0.0, graph=2.0), 4.0)
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


def test_a_word_counts_as_much_as_it_tells() -> None:
    """W3.1: a rare word more than a common one."""
    assert coverage(["postgres", "port"], "Postgres", {"postgres": 6.0, "port": 2.0}) == 0.75


def test_a_place_in_the_task_tree_makes_nothing_relevant() -> None:
    """F7.1: a score of 0.2 that is half its place is one of 0.11."""
    parts = {"vector": 1.0, "stack": 1.0}
    assert not is_above_floor(Fused(id="r0", score=0.2, parts=parts, raw={"vector": 0.5}), 9.0)
    assert is_above_floor(Fused(id="r0", score=0.2, parts={"vector": 2.0}, raw={"vector": 0.5}), 9.0)
    assert is_above_floor(Fused(id="r0", score=0.2, parts={**parts, "stack": -1.0}, raw={"vector": 0.5}), 9.0)


def test_nothing_known_is_told_from_something() -> None:
    """F4.1, W3.1: by cosine, by the share of the words, by a time; a word or two look for what mentions them."""
    far = (0.25, 0.2)
    assert bearing(hits(*far), ASKED) == bearing([], ASKED) == ()
    assert bearing(hits(0.4, 0.39), ASKED)
    assert bearing(hits(*far, keyword=15.0), ASKED)
    assert bearing(hits(*far, is_certain=True), ASKED)
    assert is_known(hits(*far, keyword=1.0), AskedQuery(records=420, words=2, information=20.0))
    assert not is_known(hits(*far), AskedQuery(records=420, words=2, information=20.0)), (
        "no record mentions one of the words"
    )
    assert chance([Fused(id="r0", score=0.5, raw={"keyword": 1.0})], ASKED) == 1.0
    assert 0 < chance(hits(0.1), AskedQuery(records=420, words=6)) < BEARS


def test_a_question_of_fact_needs_more_than_a_request_and_more_where_it_names_what_is_nowhere() -> None:
    """W3.1: advice is helped by what is loosely related, and a goal by earlier work; a fact is stored or is not."""
    near, named = (
        hits(0.38, 0.3),
        AskedQuery(records=420, words=6, information=20.0, seeks_fact=True, names_unknown=True),
    )
    assert chance(near, named) < chance(near, FACT) < chance(near, ASKED)
    assert (bearing(near, FACT), bearing(near, ASKED)) == ((), tuple(near))
    assert bearing(hits(0.45), FACT)
    assert not bearing(hits(0.45), named)


def test_chance_finds_a_nearer_record_among_many() -> None:
    """W3.1: what is near enough in a memory of ten records is not in one of a hundred thousand."""
    few, many = (AskedQuery(records=records, words=6, information=20.0) for records in (10, 100_000))
    assert (bearing(hits(0.36), few), bearing(hits(0.36), many)) == (tuple(hits(0.36)), ())


def test_words_lead_where_the_model_understands_little() -> None:
    """W3.1: cosines between any two texts in Spanish are high; words, and a lead over the others, tell more."""
    alike = AskedQuery(records=420, words=6, information=20.0, understood=0.5, alike=0.6)
    assert not is_known(hits(*[0.6] * 6), SPANISH)
    assert is_known(hits(*[0.6] * 6), alike)
    ahead = [Fused(id="r9", score=0.8, raw={"vector": 0.6}), *hits(*[0.6] * 6)]
    assert is_known(ahead, SPANISH)


def test_beside_a_good_hit_a_foreign_one_by_chance_is_noise() -> None:
    """W3.1: in Spanish every text is near every other, and what the model hardly knows is not shown for that alone."""
    alike = AskedQuery(records=420, words=6, information=20.0, understood=0.5, alike=0.6)
    first, *others = hits(*[0.6] * 6, score=0.4)
    assert len(bearing([first._replace(score=0.6), *others], alike)) == 6
    assert bearing([first._replace(score=0.8), *others], alike) == (first._replace(score=0.8),)


def test_of_a_time_that_is_over_only_what_happened_then_bears() -> None:
    """R6: with as many words of the subject; where nothing has them, the time is one sign among others."""
    past = AskedQuery(records=420, words=6, information=20.0, is_past=True)
    then = Fused(id="r1", score=0.5, raw={"vector": 0.5, "keyword": 8.0, "time": 2.0}, is_certain=True)
    other = Fused(id="r2", score=0.6, raw={"vector": 0.6, "keyword": 9.0})
    elsewhere = Fused(id="r3", score=0.5, raw={"vector": 0.1, "time": 2.0}, is_certain=True)
    assert bearing([other, then, elsewhere], past) == (then,)
    assert bearing([other, elsewhere], past) == (other, elsewhere)


def test_what_nobody_asked_for_has_to_stand_out() -> None:
    """C8: a reminder is fair by score and cosine together, or sure by its score alone."""
    assert bearing_unasked([hit(0.5, vector=0.4)])
    assert bearing_unasked([hit(0.7, vector=0.0)])
    assert not bearing_unasked([hit(0.69, vector=0.39)])
    assert not bearing_unasked([hit(0.49, vector=0.9)])


def test_a_weak_hit_beside_a_strong_one_is_noise() -> None:
    """F5.2, W1.1: a place in the task tree makes none strong; a search for a word wants all that mention it."""
    weak, best = Fused(id="r1", score=0.5, parts={"vector": 4.0}), Fused(id="r2", score=0.8, parts={"vector": 20.0})
    assert noise_score([weak, best]) == 0.8 * NOISE_SHARE > weak.score
    assert noise_score([]) == 0
    placed = Fused(id="r3", score=0.8, parts={"vector": 10.0, "stack": 10.0})
    assert noise_score([placed]) < 0.8 * NOISE_SHARE


def test_what_is_past_is_no_noise_for_that() -> None:
    """K1: a price until November ranks below that of December, and stays."""
    now = Fused(id="r1", score=0.8, parts={"vector": 16.0}, raw={"vector": 0.8})
    past = Fused(id="r2", score=0.5, parts={"vector": 16.0, "past": -12.0}, raw={"vector": 0.8})
    assert bearing([now, past], ASKED) == (now, past)
    assert bearing([now, past._replace(parts={"vector": 4.0})], ASKED) == (now,)


def test_what_no_record_names_is_said_in_a_sentence() -> None:
    """W3.1."""
    assert nothing_names([]) == ""
    assert nothing_names(["Redis"]) == "Nothing here names Redis."
    assert nothing_names(["Redis", "Kafka", "Helm"]) == "Nothing here names Redis, Kafka or Helm."


def test_a_score_tells_the_chance_that_a_result_bears_on_the_query() -> None:
    """F4.1: between 0 and 1, higher for a better match."""
    chances = [relevance_of(score / 10) for score in range(10)]
    assert chances == sorted(chances)
    assert (round(relevance_of(0.5), 2), round(relevance_of(0.78), 1)) == (0.04, 0.5)


def ranked(*scores: float) -> list[Fused]:
    return [Fused(id=f"r{n}", score=score) for n, score in enumerate(scores)]


def test_what_is_said_of_a_result_depends_on_the_others() -> None:
    """F4.1: the same score says much where it leads by far, less where it is one of several, little behind a better."""
    leading, among, behind = ranked(0.75, 0.5), ranked(0.75, 0.74, 0.73), ranked(0.9, 0.75)
    said = relevances(leading, leading)[0], relevances(among, among)[0], relevances(behind, behind)[1]
    assert [round(each, 2) for each in said] == [0.99, 0.38, 0.06]
    assert relevances(among[1:], among) == relevances(among, among)[1:]  # A later page says the same.


def test_what_is_said_falls_down_the_ranking_and_needs_no_second_result() -> None:
    """F4.1: alone, a result leads what chance finds; one that is worse than that leads nothing."""
    many = ranked(0.8, 0.7, 0.6, 0.5, 0.4)
    assert list(relevances(many, many)) == sorted(relevances(many, many), reverse=True)
    [alone], [weak] = relevances(ranked(0.7), ranked(0.7)), relevances(ranked(0.4), ranked(0.4))
    assert (round(alone, 2), round(weak, 2)) == (0.97, 0.09)
    assert relevances([], []) == ()


def test_what_is_certain_or_replaced_takes_no_lead_from_the_best() -> None:
    """F4.1: the old words of the best result stand behind it, and a task that is asked for is no rival."""
    alone = ranked(0.75)
    task, old = Fused(id="t1", score=0.99, is_certain=True), Fused(id="r9", score=0.75)
    newer = [task, alone[0]._replace(replaces=("r9",)), old]
    certain, best, _ = relevances(newer, newer)
    assert (certain, best) == (relevance_of(0.99), relevances(alone, alone)[0])


def test_a_record_in_another_language_bears_by_its_distance_from_the_background() -> None:
    """F4.1: words cannot match across languages, and cosines are lower; so a fact is known by meaning alone."""
    asked = AskedQuery(records=120, words=6, information=20.0, seeks_fact=True, names_unknown=True)
    near, far = (Fused(id="r1", score=0.5, raw={"vector": 0.36}, parts={"vector": nats}) for nats in (4.5, 3.5))
    across = AskedQuery(records=120, words=6, information=20.0, seeks_fact=True, names_unknown=True, is_across=True)
    assert [is_known([each], asked) for each in (near, far)] == [False, False]
    assert [is_known([each], across) for each in (near, far)] == [True, False]
    assert chance([near], across) > BEARS > chance([near], asked)
