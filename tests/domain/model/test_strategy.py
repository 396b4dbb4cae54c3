"""Choosing a strategy by its name, and what `auto` makes of the one it picked."""

from dataclasses import replace

import pytest

from mcp_memory.domain.model.strategy import blended, named_strategy
from mcp_memory.errors import InvalidRequest
from mcp_memory.strategies import read_strategies

STRATEGIES = read_strategies(None)


def test_an_unknown_strategy_is_an_error_that_lists_the_known_ones() -> None:
    """A1.4: and does not echo a page of text."""
    with pytest.raises(InvalidRequest, match="auto, balanced, clustered, coding") as refused:
        named_strategy(STRATEGIES, "fastest" * 100)
    for name in STRATEGIES:
        assert name in str(refused.value)
    assert len(str(refused.value)) < 300


def test_a_known_one_is_found_by_its_name() -> None:
    """A1.4: exactly as it is written."""
    assert named_strategy(STRATEGIES, "recent") is STRATEGIES["recent"]
    with pytest.raises(InvalidRequest):
        named_strategy(STRATEGIES, "Recent")


@pytest.mark.parametrize("name", sorted(STRATEGIES))
def test_auto_puts_relevance_before_what_the_picked_strategy_weighs(name: str) -> None:
    """A1.5: whichever it picked."""
    used = blended(STRATEGIES["auto"], STRATEGIES[name])
    assert (used.name, used.formula) == ("auto", "weighted")
    assert used.weights["relevance"] >= 0.9 - 1e-9
    assert sum(used.weights.values()) == pytest.approx(1)
    assert used.layout != "flat"
    assert (used.questions, used.shares, used.limits) == (
        STRATEGIES[name].questions, STRATEGIES[name].shares, STRATEGIES[name].limits,
    )  # fmt: skip


def test_an_auto_that_goes_by_one_thing_alone_picks_nothing() -> None:
    """A6.5: a person may make it so."""
    literal = replace(STRATEGIES["auto"], formula="importance", weights={})
    assert blended(literal, STRATEGIES["debugging"]) == literal
