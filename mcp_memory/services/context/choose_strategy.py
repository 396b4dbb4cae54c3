"""Chooses the strategy of a context, and its query where the caller gives none."""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from mcp_memory.domain.model.records import Json
from mcp_memory.domain.model.strategy import (
    AUTO,
    Override,
    Strategies,
    Strategy,
    blended,
    named_strategy,
)
from mcp_memory.domain.model.tasks import Stack
from mcp_memory.domain.text.intent import Pick, names_subject, pick_strategy
from mcp_memory.domain.text.times import asks_of_a_time
from mcp_memory.services.retrieval.search import ParsedQuery

USUAL_BUDGET = 8_000
"""The budget, in tokens, that a strategy's limits are meant for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ChosenStrategy:
    """The chosen strategy, its query, and the reason to report."""

    strategy: Strategy
    asked: str
    told: Mapping[str, Json]

    @property
    def name(self) -> str:
        """The strategy's name; for `auto` that of the one it picked."""
        return str(self.told.get("picked", self.strategy.name))


class StrategyChooser:
    """Chooses among the built-in strategies and the user's. Thread-safe."""

    def __init__(self, strategies: Strategies, overridden: Override) -> None:
        self._strategies = strategies
        self._overridden = overridden

    def __call__(
        self,
        name: str | None,
        query: str,
        read: ParsedQuery | None,
        overrides: Mapping[str, Json],
        stack: Stack,
        budget: int,
    ) -> ChosenStrategy:
        """Return the named strategy with the call's own fields; by default `auto` with a query, else `balanced`.

        `read` holds the query's signals, where they were read. A strategy with a single criterion and no query orders
        everything. A budget above the usual one widens its limits.

        Raises:
            InvalidRequest: an unknown strategy, or a field that cannot be.
        """
        asked, pick = _asked(query.strip(), read, stack)
        base = named_strategy(self._strategies, name or (AUTO if asked else "balanced"))
        if not name and not asked:
            base = replace(base, layout="by_kind")  # Nothing asks for an order: what is at hand has its place.
        strategy, is_auto = self._as_picked(base, pick.strategy, overrides, budget), base.name == AUTO
        is_about_all = not strategy.combines
        return ChosenStrategy(
            strategy=strategy,
            asked=query.strip() if is_about_all and asked else asked,
            told={"picked": pick.strategy, "why": pick.why} if is_auto else {},
        )

    def _as_picked(self, base: Strategy, picked: str, overrides: Mapping[str, Json], budget: int) -> Strategy:
        """Return the strategy for a call: of `auto`, as it uses the picked one."""
        strategy = base
        if base.name == AUTO:
            strategy = blended(base, named_strategy(self._strategies, picked))
            # `auto` weighs: it leaves nothing out, and gives neither advice nor records that nobody asked for.
            strategy = replace(strategy, questions=(), failures=True, limits={}, least={})
        return _within(self._overridden(strategy, overrides) if overrides else strategy, budget)


def _asked(query: str, read: ParsedQuery | None, stack: Stack) -> tuple[str, Pick]:
    """Return the query, and the strategy that `auto` picks for it.

    Without a query, or with one that names no subject ("what next?") and no time, the query is the goals of the
    caller's tasks; outside any task it is empty, and the block shows where things stood.
    """
    pick = pick_strategy(query, read.query.vector, read.query.embedder) if read else pick_strategy(query)
    if query and (pick.strategy != "recent" or asks_of_a_time(query)):
        return query, pick
    if not stack.path:
        return query if names_subject(query) else "", pick
    goals = dict.fromkeys(task.goal for task in (*stack.path[:-3:-1], stack.path[0]))
    by_goals = Pick(strategy="balanced", why="the current task's goals are asked")
    return "\n".join([query, *goals] if query else goals), by_goals


def _within(strategy: Strategy, budget: int) -> Strategy:
    """Widen the strategy's limits in proportion to a budget above the usual one."""
    if budget <= USUAL_BUDGET:
        return strategy
    return replace(strategy, limits={kind: most * budget // USUAL_BUDGET for kind, most in strategy.limits.items()})
