"""Chooses the strategy of a context, and its query where the caller gives none."""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from mcp_memory.domain.model.records import Json
from mcp_memory.domain.model.strategy import AUTO, Override, Strategies, Strategy, blended, named_strategy
from mcp_memory.domain.model.tasks import Stack
from mcp_memory.domain.text.intent import pick_strategy

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
        self, name: str | None, query: str, overrides: Mapping[str, Json], stack: Stack, budget: int
    ) -> ChosenStrategy:
        """Return the named strategy with the call's own fields; by default `auto` with a query, else `balanced`.

        A strategy with a single criterion and no query orders everything. A budget above the usual one widens its
        limits.

        Raises:
            InvalidRequest: an unknown strategy, or a field that cannot be.
        """
        asked, picked, why = _asked(query.strip(), stack)
        strategy = named_strategy(self._strategies, name or (AUTO if asked else "balanced"))
        if not name and not asked:
            strategy = replace(strategy, layout="by_kind")  # Nothing asks for an order: what is at hand has its place.
        told: dict[str, Json] = {}
        if strategy.name == AUTO:
            strategy = blended(strategy, named_strategy(self._strategies, picked))
            # `auto` weighs: it leaves no failure out, and gives no advice that nobody asked for.
            strategy = replace(strategy, questions=(), failures=True)
            told = {"picked": picked, "why": why}
        strategy = self._overridden(strategy, overrides) if overrides else strategy
        is_about_all = strategy.formula != "weighted"
        return ChosenStrategy(
            strategy=_within(strategy, budget), asked=query.strip() if is_about_all else asked, told=told
        )


def _asked(query: str, stack: Stack) -> tuple[str, str, str]:
    """Return the query, the strategy that `auto` picks for it, and why.

    Without a query, or with one that names no subject ("what next?"), the query is the goals of the caller's tasks.
    """
    picked, why = pick_strategy(query)
    if not stack.path or (query and picked != "recent"):
        return query, picked, why
    goals = dict.fromkeys(task.goal for task in (*stack.path[:-3:-1], stack.path[0]))
    return "\n".join([query, *goals] if query else goals), "balanced", "the current task's goals are asked"


def _within(strategy: Strategy, budget: int) -> Strategy:
    """Widen the strategy's limits in proportion to a budget above the usual one."""
    if budget <= USUAL_BUDGET:
        return strategy
    return replace(strategy, limits={kind: most * budget // USUAL_BUDGET for kind, most in strategy.limits.items()})
