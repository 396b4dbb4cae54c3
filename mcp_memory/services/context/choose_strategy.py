"""Chooses the strategy of a context, and its query where the caller gives none."""

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from math import exp, log
from typing import get_args

from mcp_memory.domain.context.budget import FOUND
from mcp_memory.domain.context.scoring import Candidate
from mcp_memory.domain.model.records import GivenKind, Json, Kind
from mcp_memory.domain.model.strategy import (
    AUTO,
    DEFAULT_PRIORITY,
    Override,
    Strategies,
    Strategy,
    blended,
    named_strategy,
)
from mcp_memory.domain.model.tasks import Stack
from mcp_memory.domain.text.intent import Pick, pick_strategy
from mcp_memory.services.retrieval.search import ParsedQuery

USUAL_BUDGET = 8_000
"""The budget, in tokens, that a strategy's limits are meant for."""
SURE = 0.5
"""From this chance on, the words decide alone."""
KINDS: tuple[Kind, ...] = (*get_args(GivenKind), "result")
LEAST_PRIORITY = 0.01
"""A strategy of one's own may give a kind none at all."""
VOTE_SHARE = 0.5
"""Weight of what was found: half a record's evidence, so that it decides between near equals only."""
LEANING = frozenset({"recent"})
"""A query that leans on the turn before shows it in its words; no find says so."""
NEAR_BEST = 0.5
"""Records of at least this share of the best one's score have a vote."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ChosenStrategy:
    """The chosen strategy, its query, and the reason to report.

    Where `auto` picked by the query, `evidence` is each strategy's log-probability. `as_picked` is the strategy that
    another pick gives.
    """

    strategy: Strategy
    asked: str
    told: Mapping[str, Json]
    evidence: Mapping[str, float]
    as_picked: Callable[[str], Strategy]

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
        as_picked = partial(self._as_picked, base, overrides=overrides, budget=budget)
        strategy, is_auto = as_picked(pick.strategy), base.name == AUTO
        is_about_all = strategy.formula != "weighted"
        return ChosenStrategy(
            strategy=strategy,
            asked=query.strip() if is_about_all else asked,
            told={"picked": pick.strategy, "why": pick.why} if is_auto else {},
            evidence=pick.evidence if is_auto else {},
            as_picked=as_picked,
        )

    def vote(self, chosen: ChosenStrategy, found: Sequence[Candidate]) -> ChosenStrategy:
        """Return the choice after what was found has voted: the same one where the words are sure.

        The kinds found are likely under a strategy as far as it gives them priority.
        """
        chances = [exp(evidence) for evidence in chosen.evidence.values()]
        kinds = _shares_of_kinds(found)
        if not chances or not kinds or max(chances) >= SURE * sum(chances):
            return chosen
        votes = {
            name: evidence + VOTE_SHARE * _log_likelihood(kinds, self._strategies[name])
            for name, evidence in chosen.evidence.items()
            if name not in LEANING
        }
        best = max(votes, key=lambda name: votes[name])
        if best == chosen.name:
            return chosen
        most = sorted(kinds, key=lambda kind: -kinds[kind])[:2]
        why = f"its words leave it open, and what was found supports it ({', '.join(most)})"
        return replace(chosen, strategy=chosen.as_picked(best), told={"picked": best, "why": why})

    def _as_picked(self, base: Strategy, picked: str, *, overrides: Mapping[str, Json], budget: int) -> Strategy:
        """Return the strategy for a call: of `auto`, as it uses the picked one."""
        strategy = base
        if base.name == AUTO:
            strategy = blended(base, named_strategy(self._strategies, picked))
            # `auto` weighs: it leaves no failure out, and gives no advice that nobody asked for.
            strategy = replace(strategy, questions=(), failures=True)
        return _within(self._overridden(strategy, overrides) if overrides else strategy, budget)


def _asked(query: str, read: ParsedQuery | None, stack: Stack) -> tuple[str, Pick]:
    """Return the query, and the strategy that `auto` picks for it.

    Without a query, or with one that names no subject ("what next?"), the query is the goals of the caller's tasks.
    """
    pick = pick_strategy(query, read.query.vector, read.query.embedder) if read else pick_strategy(query)
    if not stack.path or (query and pick.strategy != "recent"):
        return query, pick
    goals = dict.fromkeys(task.goal for task in (*stack.path[:-3:-1], stack.path[0]))
    by_goals = Pick(strategy="balanced", why="the current task's goals are asked")
    return "\n".join([query, *goals] if query else goals), by_goals


def _shares_of_kinds(found: Sequence[Candidate]) -> dict[Kind, float]:
    """Return the share of each kind in the relevance of the best finds; empty where search found nothing."""
    near = [each for each in found if each.source == FOUND and each.relevance >= NEAR_BEST]
    total = sum(each.relevance for each in near)
    shares: dict[Kind, float] = defaultdict(float)
    for each in near:
        shares[each.record.kind] += each.relevance / total
    return dict(shares)


def _log_likelihood(kinds: Mapping[Kind, float], strategy: Strategy) -> float:
    """Return the mean log-likelihood of a found record's kind, if kinds are found as often as they have priority."""
    weights = {kind: max(strategy.priorities.get(kind, DEFAULT_PRIORITY), LEAST_PRIORITY) for kind in KINDS}
    total = sum(weights.values())
    return sum(share * log(weights[kind] / total) for kind, share in kinds.items())


def _within(strategy: Strategy, budget: int) -> Strategy:
    """Widen the strategy's limits in proportion to a budget above the usual one."""
    if budget <= USUAL_BUDGET:
        return strategy
    return replace(strategy, limits={kind: most * budget // USUAL_BUDGET for kind, most in strategy.limits.items()})
