"""Fills a context that answers a question: by relevance, whatever the kind, then in depth. Pure arithmetic."""

from collections.abc import Mapping, Sequence
from fractions import Fraction

from mcp_memory.domain.context.budget import ALWAYS, OTHERS, REST, Allotment, Item, Placed

UNKNOWN = "unknown"
"""The share of what is not known here."""
ANSWERS = "answers"
"""The share of what the question found: all that the others leave."""
CHOSEN = "chosen"
"""The share of records pinned or handed down by hand."""
NEAREST = "nearest"
"""The share of kinds of which a strategy always wants some, and its source: they do not bear on the question."""
REQUIRED: Mapping[str, Fraction] = {
    UNKNOWN: Fraction(1, 3),
    **{share: ALWAYS[share] for share in ("identity", "censor")},
    OTHERS: ALWAYS["identity"] + ALWAYS["censor"],
    **{share: ALWAYS[share] for share in ("root", "ancestors", "finished")},
    CHOSEN: Fraction(1, 3),
    REST: Fraction(1, 4),
}
"""The largest part of the whole budget for each share that comes before the answers, in this order."""
BESIDE: Mapping[str, Fraction] = {
    NEAREST: Fraction(1, 4),
    **{share: ALWAYS[share] for share in ("approach", "focus")},
    "entities": Fraction(5, 100),
    "relations": Fraction(5, 100),
    "open": Fraction(5, 100),
    "episodes": Fraction(5, 100),
}
"""The same for what helps to read them, behind the best answers."""
SMALL_BUDGET, SMALL_PART = 1_000, 3
"""Below this budget at most a third of it goes to what comes before the answers."""
LEAST_BUDGET: Mapping[str, int] = {"approach": SMALL_BUDGET, "focus": 2_000}
"""Budgets below which a share is dropped: an answer is worth more than advice, and than what is next or at hand."""
BEST = 5
"""The answers that come before anything beside them."""
FIRST_TOKENS = 450
"""An answer first takes at most as much, and more only of what all have left."""
DEEP_RELEVANCE = 0.5
"""Evidence, as a share of the best one's, from which an answer is deepened."""


def fill(
    items: Sequence[Item], budget: int, title_tokens: Mapping[str, int], *, flexible: int | None = None
) -> tuple[list[Placed], list[Item]]:
    """Choose forms for items, answers given best first, so that the estimates stay within the budget.

    First what must be there, each share up to its part; then the passages of the best answers, and what helps to read
    them; then the passages of the others, best first. What is left deepens the best. Nothing is added to use a budget
    up. The answers take at most `flexible` tokens, where given. Returns the placed items in the order given, and those
    left out.
    """
    allotment = Allotment(budget, title_tokens)
    allotment.require([item for item in items if item.required])
    sharing: dict[str, list[Item]] = {}
    for item in items:
        sharing.setdefault(item.share, []).append(item)
    before = budget // SMALL_PART if budget < SMALL_BUDGET else budget
    for share, part in REQUIRED.items():
        waiting = sorted(sharing.get(share, ()), key=lambda item: item.id in allotment.placed)
        limit = max(int(budget * part), allotment.least(waiting))
        allotment.fill(waiting, min(limit, max(before - allotment.spent_on(REQUIRED), 0)), cheapest_first=False)
    remaining = allotment.limit_to(flexible)
    answers = sharing.get(ANSWERS, [])
    for item in answers[:BEST]:
        _answer(allotment, item)
    for share, part in BESIDE.items():
        if budget < LEAST_BUDGET.get(share, 0):
            continue
        allotment.fill(sharing.get(share, ()), int(remaining * part), cheapest_first=False)
    for item in answers[BEST:]:
        _answer(allotment, item)
    allotment.deepen(
        [allotment.placed[i.id] for i in answers if i.id in allotment.placed and i.relevance >= DEEP_RELEVANCE]
    )
    placed = [allotment.placed[item.id] for item in items if item.id in allotment.placed]
    return placed, [item for item in items if item.id not in allotment.placed]


def _answer(allotment: Allotment, item: Item) -> None:
    """Place an answer at the fullest form that fits and leaves room for others; a text without passages as it is."""
    if allotment.left < item.least:
        return
    room = min(allotment.left, FIRST_TOKENS)
    own = (form for form in item.forms if not form.is_last and allotment.cost(item, form) <= room)
    form = next(own, None) or item.forms[-1]
    if allotment.cost(item, form) <= allotment.left:
        allotment.place(item, form)
