"""Shortens texts, of the lowest score first, until all of them together fit a budget. Pure arithmetic."""

from collections.abc import Mapping, Sequence
from math import isfinite
from typing import Any

from mcp_memory.domain.context.items import Measure
from mcp_memory.errors import InvalidRequest

KEPT_PART = 3
"""A text is cut to one part of so many at a time."""
LEAST_TOKENS = 8
"""Counted tokens below which a text is not cut any further: what is left would say nothing."""


def compressed(items: Sequence[Mapping[str, Any]], target: int, measure: Measure) -> list[dict[str, Any]]:
    """Return the items, in their order, with texts cut until all together have at most `target` of the client's tokens.

    An item is a mapping with a `text`, a `score`, by default 0, and whatever else; its `tokens` are corrected where it
    names them. That of the lowest score is cut first, of equal ones the last, each to about a third; where that is not
    enough, all are cut once more.

    Raises:
        InvalidRequest: an item has no text or no number as score, or they do not fit at their shortest.
    """
    made = [_checked(each) for each in items]
    tokens: list[int] = [measure.count(each["text"]) for each in made]
    left = sum(tokens) - target
    waiting = sorted(range(len(made)), key=lambda place: (made[place].get("score") or 0, -place))
    while left > 0 and waiting:
        cut: list[int] = []
        for place in waiting:
            if left <= 0:
                break
            each = made[place]
            shorter = measure.cut(each["text"], max(measure.count_raw(each["text"]) // KEPT_PART, LEAST_TOKENS))
            saved = tokens[place] - measure.count(shorter)
            if saved > 0:
                each["text"], tokens[place], left = shorter, tokens[place] - saved, left - saved
                cut.append(place)
        waiting = cut
    if left > 0:
        raise InvalidRequest(f"The texts take {left + target} tokens at their shortest; give at least as many.")
    return [each | ({"tokens": now} if "tokens" in each else {}) for each, now in zip(made, tokens, strict=True)]


def _checked(item: Mapping[str, Any]) -> dict[str, Any]:
    score = item.get("score") or 0
    if (
        not isinstance(item.get("text"), str)
        or isinstance(score, bool)
        or not isinstance(score, int | float)
        or not isfinite(score)
    ):
        raise InvalidRequest('An item needs a text, and may have a number as its score: {"text": "…", "score": 0.5}.')
    return dict(item)
