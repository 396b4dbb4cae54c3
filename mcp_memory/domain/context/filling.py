"""Fills a context that answers a question: by relevance, whatever the kind, then in depth. Pure arithmetic."""

from collections.abc import Mapping, Sequence
from fractions import Fraction

from mcp_memory.domain.context.budget import (
    ALWAYS,
    CHOSEN,
    MOST_CHOSEN,
    OF_CONSTRAINTS,
    OTHERS,
    REST,
    Allotment,
    Item,
    Placed,
    of_constraints,
)
from mcp_memory.domain.model.records import LOG_KINDS

UNKNOWN = "unknown"
"""The share of what is not known here."""
ANSWERS = "answers"
"""The share of what the question found: all that the others leave."""
NEAREST = "nearest"
"""The share of kinds of which a strategy always wants some, and its source: they do not bear on the question."""
REQUIRED: Mapping[str, Fraction] = {
    UNKNOWN: Fraction(1, 3),
    **{share: ALWAYS[share] for share in ("identity", "root", "censor")},
    OTHERS: ALWAYS["identity"] + ALWAYS["censor"],
    **{share: ALWAYS[share] for share in ("ancestors", "finished")},
    CHOSEN: MOST_CHOSEN,
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
OF_WHAT_IS_LEFT: Mapping[str, int | None] = {
    **dict.fromkeys(("identity", "root", "censor", OTHERS, "ancestors", "finished"), OF_CONSTRAINTS),
    CHOSEN: None,
    "focus": OF_CONSTRAINTS,
}
"""The tokens that each share may have where the answers leave some, in this order; None for all that they leave. Of the
focus the plan alone: what was said last is shown to nobody who asked for something else."""
SMALL_BUDGET, SMALL_PART = 1_000, 3
"""Below this budget at most a third of it goes to what comes before the answers."""
LEAST_BUDGET: Mapping[str, int] = {"approach": SMALL_BUDGET, "focus": 2_000}
"""Budgets below which a share is dropped: an answer is worth more than advice, and than what is next or at hand."""
BEST = 5
"""The answers that come before anything beside them."""
SURE_OF = 3
"""The answers that need not be likely."""
LIKELY = 0.15
"""The least chance of every further answer in a block of at most SMALL_BUDGET tokens. In one of twice as many it is a
quarter of that: who asks for much wants what is less likely too."""
DOUBTFUL = 0.08
"""The chance of the likeliest answer below which a block stays short: most such questions have no answer here."""
DOUBTED_TOKENS = 150
"""An answer to a doubtful question takes at most as much of a block of at most SMALL_BUDGET tokens, and in proportion
of a larger one."""
LIKELY_ALONE = 0.25
"""The chance from which the best record of a thread takes its room before the newest state of it, which else has as
much: where one of four such records answers, the question is about what it says."""
FIRST_TOKENS = 450
"""An answer first takes at most as much, and more only of what all have left."""
DEEP_RELEVANCE = 0.5
"""Evidence, as a share of the best one's, from which an answer is deepened."""


def fill(
    items: Sequence[Item], budget: int, title_tokens: Mapping[str, int], *, flexible: int | None = None
) -> tuple[list[Placed], list[Item]]:
    """Choose forms for items, answers given best first, so that the estimates stay within the budget.

    First what must be there, each share up to its part; then the passages of the best answers, and what helps to read
    them; then the passages of the others, best first; then what had to be there and was beyond its part, and the plan.
    What is left deepens the best. Nothing is added to use a budget up. The answers take at most `flexible` tokens,
    where given; where none is likely, they are short. Returns the placed items in the order given, and those left out.
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
        if share == "censor":
            limit = max(limit, of_constraints(budget))
        allotment.fill(waiting, min(limit, max(before - allotment.spent_on(REQUIRED), 0)), cheapest_first=False)
    remaining = allotment.limit_to(flexible)
    answers = _worth_showing(sharing.get(ANSWERS, []), budget)
    is_doubtful = max((item.chance for item in answers), default=0.0) < DOUBTFUL
    most = min(DOUBTED_TOKENS * max(budget, SMALL_BUDGET) // SMALL_BUDGET, FIRST_TOKENS)
    most = most if is_doubtful else FIRST_TOKENS
    best_of = {item.newest: item for item in answers if item.newest}
    for item in answers[:BEST]:
        _answer_thread(allotment, best_of.get(item.id), item, most)
    for share, part in BESIDE.items():
        if budget >= LEAST_BUDGET.get(share, 0):
            allotment.fill(sharing.get(share, ()), int(remaining * part), cheapest_first=False)
    for item in answers[BEST:]:
        if item.id not in allotment.placed:
            _answer(allotment, item, most)
    _fill_with_the_rest(allotment, sharing)
    if not is_doubtful:
        deep = [item for item in answers if item.relevance >= DEEP_RELEVANCE]
        allotment.deepen([allotment.placed[item.id] for item in deep if item.id in allotment.placed])
    placed = [allotment.placed[item.id] for item in items if item.id in allotment.placed]
    return placed, [item for item in items if item.id not in allotment.placed]


def _fill_with_the_rest(allotment: Allotment, sharing: Mapping[str, Sequence[Item]]) -> None:
    """Give what the answers leave to what must be there, and then to the plan."""
    for share, most in OF_WHAT_IS_LEFT.items():
        waiting = [item for item in sharing.get(share, ()) if item.id not in allotment.placed]
        if share == "focus":
            waiting = [item for item in waiting if item.kind == "task"]
        limit = allotment.left if most is None else max(most - allotment.spent_on((share,)), 0)
        allotment.fill(waiting, limit, cheapest_first=False)


def least_chance(budget: int) -> float:
    """Return the chance, in [0, 1], below which a further answer is not worth its place in a block of that budget."""
    return LIKELY * (SMALL_BUDGET / max(budget, SMALL_BUDGET)) ** 2


def _worth_showing(answers: Sequence[Item], budget: int) -> list[Item]:
    """Return the best answers, and of the others those that are likely enough.

    A short turn stays: a conversation tells one thing in several of them.
    """
    least = least_chance(budget)
    others = (item for item in answers[SURE_OF:] if item.chance >= least or (item.kind in LOG_KINDS and not item.least))
    return [*answers[:SURE_OF], *others]


def _answer_thread(allotment: Allotment, best: Item | None, item: Item, most: int) -> None:
    """Place an answer; before or with it, where it is the newest state of a thread, the best record of that."""
    if item.id in allotment.placed:
        return
    if best and best.chance < LIKELY_ALONE:
        most = min(most, max(allotment.left // 4, min(allotment.left, most) // 2))
        _answer(allotment, item, most)
    if best:
        _answer(allotment, best, most)
    if item.id not in allotment.placed:
        _answer(allotment, item, most)


def _answer(allotment: Allotment, item: Item, most: int) -> None:
    """Place an answer at the fullest form that fits and leaves room for others; a text without passages as it is."""
    if allotment.left < item.least:
        return
    room = min(allotment.left, most)
    own = (form for form in item.forms if not form.is_last and allotment.cost(item, form) <= room)
    form = next(own, None) or item.forms[-1]
    if allotment.cost(item, form) <= allotment.left:
        allotment.place(item, form)
