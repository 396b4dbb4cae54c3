"""How `auto` chooses: by the query's words and meaning; it weighs, and leaves nothing out."""

import pytest

from mcp_memory.domain.model.tasks import Stack
from mcp_memory.services.context.choose_strategy import StrategyChooser
from mcp_memory.strategies import overridden, read_strategies

CHOOSER = StrategyChooser(read_strategies(None), overridden)


@pytest.mark.parametrize(
    "query", ["Why does the build fail?", "Should we use Redis or Postgres?", "How do I release a version?"]
)
def test_auto_leaves_nothing_out_whatever_it_picks(query: str) -> None:
    """F8.1, W1.1: neither kinds beyond a limit nor what failed."""
    chosen = CHOOSER(None, query, None, {}, Stack(), 8_000)
    assert chosen.name != chosen.strategy.name == "auto"
    assert not chosen.strategy.limits
    assert chosen.strategy.failures
    assert not chosen.strategy.questions


def test_a_named_strategy_keeps_its_own_limits() -> None:
    """C3.1: in proportion to a budget above the usual one."""
    assert CHOOSER("decision", "Redis?", None, {}, Stack(), 8_000).strategy.limits["decision"] == 20
    assert CHOOSER("decision", "Redis?", None, {}, Stack(), 16_000).strategy.limits["decision"] == 40
