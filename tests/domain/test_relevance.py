"""The floor under what may enter a context."""

import pytest

from mcp_memory.domain.fusion import Fused
from mcp_memory.domain.relevance import FLOOR_COSINE, coverage, is_above_floor


def hit(**raw: float) -> Fused:
    return Fused(id="r000001", score=1.0, raw=raw)


def test_meaning_alone_is_enough() -> None:
    """A1.6: near in meaning, no word in common."""
    assert is_above_floor(hit(vector=FLOOR_COSINE), ["database"], "Postgres it is.")
    assert not is_above_floor(hit(vector=FLOOR_COSINE - 0.01), ["database"], "Lunch is at one.")


def test_words_alone_are_enough_where_half_of_them_are_there() -> None:
    """A1.6: one common word of many is not."""
    text = "The deploy key is rotated monthly."
    assert is_above_floor(hit(keyword=2.0), ["deploy", "calendar"], text)
    assert not is_above_floor(hit(keyword=2.0), ["deploy", "calendar", "holidays"], text)
    assert not is_above_floor(hit(), ["deploy"], text)


def test_what_replaced_a_relevant_record_is_relevant() -> None:
    """R8: the correction may share no word with the question."""
    corrected = Fused(id="r2", score=1.0, parts={"supersedes": 0.5}, raw={"vector": 0.0})
    assert is_above_floor(corrected, ["x"], "y")


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
