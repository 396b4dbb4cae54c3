"""The log behind memory: what stands once, what only asks, and which lines rank behind a stored record."""

from collections.abc import Mapping
from math import inf

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcp_memory.domain.model.records import Kind
from mcp_memory.domain.retrieval.fusion import Fused
from mcp_memory.domain.retrieval.gate import AskedQuery, is_known
from mcp_memory.domain.retrieval.log_lines import (
    TextDigests,
    behind_answers,
    behind_stored,
    besides,
    by_own_evidence,
    echoes,
    once,
    words_digest,
)
from mcp_memory.domain.retrieval.turns import Turn

USUAL = 5.0
KINDS: Mapping[str, Kind] = {
    "fact": "fact", "decision": "decision", "line": "message", "other": "message", "output": "tool_result",
    "event": "event",
}  # fmt: skip

ASSISTANTS = {"line": Turn(only_asks=True), "other": Turn(is_assistant=True)}


def hit(record_id: str, nats: float, **parts: float) -> Fused:
    own = nats - sum(parts.values())
    return Fused(id=record_id, score=nats / (nats + USUAL), parts={"vector": own, **parts}, raw={"vector": nats / 20})


def ids(ranking: list[Fused]) -> list[str]:
    return [each.id for each in ranking]


def said(**texts: str) -> Mapping[str, TextDigests]:
    return {record_id: TextDigests(words_digest(text), 0) for record_id, text in texts.items()}


def test_equal_texts_stand_once_and_a_stored_one_takes_the_place_of_a_line() -> None:
    """W8.1: apart from case, space and punctuation; at the place of the best of them."""
    ranking = [hit("line", 9), hit("decision", 8), hit("other", 7), hit("output", 6), hit("fact", 5)]
    texts = said(line="the port is 7443", decision="Ports are odd.", other="Ok.", output="ok", fact="The port is 7443.")
    shown, repeated = once(ranking, texts, KINDS, {})
    assert repeated == {"line": "fact", "output": "other"}
    assert ids(shown) == ["fact", "decision", "other"]
    assert (shown[0].score, sum(shown[0].parts.values())) == (ranking[0].score, pytest.approx(9.0))


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (besides("Ada", None), besides("Bo", None)),
        (besides(None, "failure"), besides(None, "success")),
        (besides(None, None, (None, 5.0)), besides(None, None, (5.0, None))),
        (besides(None, None, details={"command": "pytest a"}), besides(None, None, details={"command": "pytest b"})),
    ],
)
def test_the_same_words_are_two_statements_where_more_tells_them_apart(one: int, other: int) -> None:
    """W8.1: the speaker, how it ended, when it is true, and what an event was about."""
    ranking = [hit("fact", 9), hit("decision", 8)]
    assert ids(once(ranking, {"fact": TextDigests(1, one), "decision": TextDigests(1, other)}, KINDS, {})[0]) == [
        "fact",
        "decision",
    ]
    assert ids(once(ranking, {"fact": TextDigests(1, one), "decision": TextDigests(1, one)}, KINDS, {})[0]) == ["fact"]


def test_an_event_is_no_repetition_of_a_record_that_reads_like_its_name() -> None:
    """W8.1: "run" is the text of every command that ran."""
    ranking = [hit("event", 9), hit("fact", 8)]
    assert ids(once(ranking, said(event="run", fact="Run!"), KINDS, {})[0]) == ["event", "fact"]


def test_of_equal_stored_texts_the_most_important_stands_at_the_place_of_the_best() -> None:
    """W8.1."""
    ranking = [hit("fact", 9), hit("line", 8), hit("decision", 7)]
    shown, repeated = once(ranking, said(fact="x", line="y", decision="x"), KINDS, {"decision": 9.0, "fact": 1.0})
    assert (ids(shown), repeated) == (["decision", "line"], {"fact": "decision"})


def test_what_replaced_another_and_no_source_found_stays() -> None:
    """W8.1: only what is known of a text hides one."""
    ranking = [hit("successor", 9), hit("fact", 8)]
    assert ids(once(ranking, said(fact="x"), KINDS, {})[0]) == ["successor", "fact"]


def test_a_question_of_the_log_ranks_behind_its_answer_and_makes_nothing_known() -> None:
    """W8.1: however near the query it is; the query's own words without a question mark may be an answer."""
    ranking = [hit("line", 19), hit("other", 18), hit("fact", 8)]
    behind = behind_answers(ranking, {"line"}, {"other"})
    assert ids(behind) == ["fact", "line", "other"]
    assert [each.is_echo for each in behind] == [False, True, False]
    asked = AskedQuery(words=3, information=10.0)
    assert is_known(behind_answers(ranking[:2], (), ()), asked)
    assert not is_known(behind_answers(ranking[:1], {"line"}, ()), asked)
    assert behind_answers(ranking, (), ()) == ranking


def test_a_question_is_an_echo_where_it_asks_the_same() -> None:
    """W8.1: by meaning, or where the embedder knows too little of its words, by most of the query's."""
    rankings = {"vector": {"near": 0.7, "far": 0.5, "same": 0.1}, "keyword": {"same": 6.0, "far": 4.0, "other": 9.0}}
    assert echoes(["near", "far", "same", "unfound"], rankings, 10.0) == {"near", "same"}
    assert echoes(["near"], {}, 0.0) == frozenset()


def test_a_stored_record_goes_before_a_line_that_says_the_same() -> None:
    """W8.1: directly; a line that says something else, or alone, stays where it is."""
    ranking = [hit("line", 9), hit("other", 8), hit("decision", 7), hit("fact", 6)]
    alike = [("line", "fact", 0.9), ("line", "other", 0.99), ("other", "decision", 0.7)]
    assert ids(behind_stored(ranking, KINDS, alike)) == ["fact", "line", "other", "decision"]
    assert behind_stored(ranking, KINDS, []) == ranking


def test_what_stands_beside_a_question_is_behind_the_best_stored_record() -> None:
    """W8.1, R5: unless its own words are better, or nothing stored is better than chance."""
    looked_up, told = hit("line", 9, neighbours=5, session=2), hit("other", 8, neighbours=1)
    stored = [looked_up, told, hit("fact", 6)]
    assert ids(by_own_evidence(stored, KINDS, ASSISTANTS)) == ["other", "fact", "line"]
    weak = [looked_up, told, hit("fact", 4)]
    assert by_own_evidence(weak, KINDS, ASSISTANTS) == weak
    output = [hit("output", 9, neighbours=7), hit("fact", 6)]
    assert ids(by_own_evidence(output, KINDS, {})) == ["fact", "output"]


def test_what_people_say_beside_a_question_keeps_its_place() -> None:
    """R5: among 40,000 stored records one is always near by chance, and the answer stands beside the question."""
    ranking = [hit("line", 9, neighbours=5, session=2), hit("fact", 6)]
    assert by_own_evidence(ranking, KINDS, {}) == ranking


HITS = st.lists(st.tuples(st.sampled_from(sorted(KINDS)), st.floats(0, 40)), unique_by=lambda each: each[0])


@given(HITS, st.sets(st.sampled_from(sorted(KINDS))), st.lists(st.integers(0, 2), min_size=6, max_size=6))
def test_every_order_goes_by_score_and_loses_only_what_repeats(
    given_hits: list[tuple[str, float]], asking: set[str], words: list[int]
) -> None:
    """W8.1: scores carry the order for whoever sorts anew, and each kept text was there."""
    ranking = sorted((hit(each, nats) for each, nats in given_hits), key=lambda each: -each.score)
    texts = {each: TextDigests(word, 0) for each, word in zip(KINDS, words, strict=True)}
    for shown in (
        behind_answers(ranking, asking, ()),
        by_own_evidence(ranking, KINDS, ASSISTANTS),
        once(ranking, texts, KINDS, {})[0],
    ):
        scores = [inf, *(each.score for each in shown)]
        assert scores == sorted(scores, reverse=True)
        assert {texts[each.id].words for each in shown} == {texts[each.id].words for each in ranking}
