"""Print the part of docs/strategies.md that describes the built-in strategies, from the file that defines them.

    python tools/strategies_table.py

Put the output between the two comments there; tests/strategies/test_docs.py compares them.
"""

from collections.abc import Iterable

from mcp_memory.domain.model.strategy import DEFAULT_FLEXIBLE_TOKENS, DEFAULT_HALF_LIFE_HOURS, Strategy
from mcp_memory.strategies import read_strategies

FORMULAS = {
    "access": "last access, newest first",
    "importance": "importance, then newest first",
    "balanced": "importance × 1 / (1 + age / {decay:g} h)",
}


def strategies_table() -> str:
    """Return a row for each strategy, then a list of what each way of working considers."""
    strategies = read_strategies(None).values()
    rows = [
        "| strategy | for | scores by | layout | shares | flexible tokens | further |",
        "|---|---|---|---|---|---|---|",
        *(_row(each) for each in strategies),
    ]
    return "\n".join([*rows, "", *(_considered(each) for each in strategies if each.questions)])


def _row(strategy: Strategy) -> str:
    cells = (
        f"`{strategy.name}`", strategy.description, _score(strategy), strategy.layout,
        _listed(((name, share * 100) for name, share in strategy.shares.items()), " %"),
        f"{strategy.flexible_tokens:,}" if strategy.flexible_tokens != DEFAULT_FLEXIBLE_TOKENS else "",
        _further(strategy),
    )  # fmt: skip
    return f"| {' | '.join(cells)} |"


def _score(strategy: Strategy) -> str:
    if strategy.formula == "weighted":
        return _listed(strategy.weights.items())
    return FORMULAS[strategy.formula].format(decay=strategy.decay_hours)


def _further(strategy: Strategy) -> str:
    notes = {
        f"half-life {strategy.half_life_hours / 24:g} days": strategy.half_life_hours != DEFAULT_HALF_LIFE_HOURS,
        f"relations to depth {strategy.depth}": strategy.depth != 1,
        "failed attempts left out": not strategy.failures,
        "errors first": strategy.errors_first,
    }
    return ", ".join(note for note, holds in notes.items() if holds)


def _considered(strategy: Strategy) -> str:
    parts = {
        "priorities": _listed(strategy.priorities.items()),
        "at most": _listed(strategy.limits.items()),
        "domains": ", ".join(strategy.domains),
        "questions": " ".join(strategy.questions),
    }
    return f"- `{strategy.name}`: {'; '.join(f'{name}: {part}' for name, part in parts.items() if part)}"


def _listed(numbers: Iterable[tuple[str, float]], unit: str = "") -> str:
    return ", ".join(f"{name} {number:.3g}{unit}" for name, number in numbers)


if __name__ == "__main__":
    print(strategies_table())
