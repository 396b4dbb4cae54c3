"""Shortening scored texts until they fit."""

from math import nan
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcp_memory.domain.context.compress import LEAST_TOKENS, compressed
from mcp_memory.domain.context.items import Measure
from mcp_memory.domain.model.token_factor import CountedTokens, ModelFactor
from mcp_memory.errors import InvalidRequest


def words(text: str) -> CountedTokens:
    return CountedTokens(len(text.split()))


MEASURE = Measure(count_raw=words, truncate_raw=lambda text, most: " ".join(text.split()[:most]))


def item(length: int, score: float, **more: Any) -> dict[str, Any]:
    return {"text": "word " * (length - 1) + "end", "score": score, **more}


def lengths(made: list[dict[str, Any]]) -> list[int]:
    return [words(each["text"]) for each in made]


@pytest.mark.parametrize(
    ("target", "left"),
    [
        (360, [90, 90, 90, 90]),  # Nothing has to go.
        (359, [90, 90, 30, 90]),  # The lowest score, and it is enough.
        (300, [90, 90, 30, 90]),
        (299, [90, 90, 30, 30]),  # Of equal scores the last.
        (200, [90, 30, 30, 30]),
        (120, [30, 30, 30, 30]),
        (119, [30, 30, 10, 30]),  # Not enough yet: once more.
        (4 * LEAST_TOKENS, [8, 8, 8, 8]),
    ],
)
def test_the_lowest_score_is_cut_first_each_to_a_third_until_it_fits(target: int, left: list[int]) -> None:
    """B7.1: the order is unchanged, and so is what was given."""
    given_items = [item(90, 0.9, id="a"), item(90, 0.5, id="b"), item(90, 0.1, id="c"), item(90, 0.5, id="d")]
    made = compressed(given_items, target, MEASURE)
    assert lengths(made) == left
    assert [each["id"] for each in made] == ["a", "b", "c", "d"]
    assert {words(each["text"]) for each in given_items} == {90}


def test_what_an_item_says_of_its_tokens_stays_true() -> None:
    first, second = compressed([item(90, 1, tokens=88), item(90, 0)], 120, MEASURE)
    assert (first["tokens"], "tokens" in second) == (90, False)
    [cut] = compressed([item(90, 1, tokens=90)], 40, MEASURE)
    assert (cut["tokens"], cut["text"][-5:]) == (30, "word…")


def test_texts_that_cannot_be_so_short_are_an_error() -> None:
    with pytest.raises(InvalidRequest, match=r"^The texts take 16 tokens at their shortest; give at least as many\.$"):
        compressed([item(90, 1), item(90, 0)], 15, MEASURE)
    assert compressed([], 0, MEASURE) == []


def test_the_target_is_in_the_clients_tokens() -> None:
    twice = Measure(
        count_raw=words,
        truncate_raw=MEASURE.truncate_raw,
        factor=ModelFactor(family="two", factor=2.0, known_error=None, source="made up"),
    )
    assert lengths(compressed([item(90, 1), item(90, 0)], 240, twice)) == [90, 30]


@pytest.mark.parametrize(
    "wrong",
    [{}, {"text": 1}, {"text": "a", "score": "high"}, {"text": "a", "score": True}, {"text": "a", "score": nan}],
)
def test_an_item_without_a_text_or_with_another_score_is_an_error(wrong: dict[str, Any]) -> None:
    with pytest.raises(InvalidRequest, match="An item needs a text"):
        compressed([wrong], 9, MEASURE)
    assert compressed([{"text": "a", "score": None}, {"text": "b"}], 9, MEASURE)


@given(
    st.lists(st.tuples(st.integers(1, 300), st.sampled_from([0.0, 0.3, 0.3, 1.0])), max_size=8), st.integers(0, 2_000)
)
def test_they_fit_and_nothing_is_cut_while_something_less_wanted_is_whole(
    told: list[tuple[int, float]], target: int
) -> None:
    """B7.1."""
    given_items = [item(tokens, score) for tokens, score in told]
    least = sum(min(tokens, LEAST_TOKENS) for tokens, _ in told)
    if target < least:
        with pytest.raises(InvalidRequest):
            compressed(given_items, target, MEASURE)
        return
    made = lengths(compressed(given_items, target, MEASURE))
    assert sum(made) <= target
    cut = [score for (tokens, score), left in zip(told, made, strict=True) if left < tokens]
    whole = [
        score for (tokens, score), left in zip(told, made, strict=True) if left == tokens and tokens > LEAST_TOKENS
    ]
    assert not cut or not whole or max(cut) <= min(whole)
