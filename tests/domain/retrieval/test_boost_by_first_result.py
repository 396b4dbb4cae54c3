"""One hop: what the first result names, and the question does not, is asked once more."""

from collections.abc import Collection, Mapping

import pytest

from mcp_memory.domain.retrieval.boost_by_first_result import hopped, starts_hop
from mcp_memory.domain.retrieval.fusion import Fused

USUAL = 4.0
RECORDS = 5
TERMS = ("who", "directed", "cranes")


NOTHING_NEW: list[Mapping[str, Collection[str]]] = [
    {"directed crane": ["director"]},
    {"ada lovelace": ["elsewhere"]},
    {"ada": ["director"]},
    {"rust #86844": ["director"]},
    {"plugins.yaml of cranes": ["director"]},
    {},
]


def hit(record_id: str, nats: float) -> Fused:
    return Fused(id=record_id, score=max(nats, 0.0) / (max(nats, 0.0) + USUAL), parts={"vector": nats})


RANKING = [hit("film", 16.0), hit("noise", 3.0), hit("director", 2.0)]


def ids(names: Mapping[str, Collection[str]], fixed: Collection[str] = ()) -> list[str]:
    return [each.id for each in hopped(RANKING, names, TERMS, RECORDS, fixed)]


def test_what_shares_a_name_that_the_question_lacks_comes_nearer() -> None:
    """R5: by half of the first one's score, times what the name tells."""
    assert ids({"ada lovelace": ["director"]}) == ["film", "director", "noise"]
    nearer = hopped(RANKING, {"ada lovelace": ["director"]}, TERMS, RECORDS)[1]
    assert nearer.score > RANKING[1].score
    assert nearer.parts["hop"] > 0
    assert sum(nearer.parts.values()) > 2.0


@pytest.mark.parametrize("names", NOTHING_NEW)
def test_the_question_s_own_names_identifiers_and_what_no_source_found_add_nothing(
    names: Mapping[str, Collection[str]],
) -> None:
    """R5: the question's by their stems."""
    assert hopped(RANKING, names, TERMS, RECORDS) == RANKING


def test_nothing_passes_the_first_result_and_what_was_replaced_stays() -> None:
    """R5, R8: however many names it shares."""
    names = {f"name of {number}": ["director"] for number in range(20)}
    assert ids(names) == ["film", "director", "noise"]
    assert hopped(RANKING, names, TERMS, RECORDS)[1].score == RANKING[0].score
    assert ids(names, fixed=["director"]) == ["film", "noise", "director"]


def test_evidence_against_a_record_stays_against_it() -> None:
    """R5: where what a name adds is less."""
    against = [RANKING[0], hit("noise", -30.0)]
    assert hopped(against, {"ada lovelace": ["noise"]}, TERMS, RECORDS)[1].score == 0.0


@pytest.mark.parametrize(
    ("ranking", "starts"),
    [
        (RANKING, True),
        (RANKING[:1], False),
        (RANKING[1:], False),
        ([RANKING[0]._replace(is_echo=True), RANKING[1]], False),
    ],
)
def test_only_a_sure_answer_is_asked_about(ranking: list[Fused], starts: bool) -> None:
    """R5: a chain hangs on its first link."""
    assert starts_hop(ranking) is starts
