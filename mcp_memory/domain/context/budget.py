"""Fits items into a token budget: shares first, then the rest to any item that can use it. Pure arithmetic."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from itertools import islice
from threading import Lock
from typing import overload

from mcp_memory.domain.model.context_sections import SECTIONS, Section
from mcp_memory.domain.model.records import Instant, ShownDetail

CARRIED, MOST_CARRIED = "carried", Fraction(3, 4)
"""The share of what a session held when its client compacted it, and the largest part of the whole budget for it.

It is filled before all others: what the user said there holds, and the window has lost it."""
ALWAYS: Mapping[str, Fraction] = {
    **{each.share: Fraction(each.always, 8000) for each in SECTIONS if each.always},
    "root": Fraction(5, 100),
    "ancestors": Fraction(15, 100),
    "finished": Fraction(10, 100),
}
"""The largest part of the whole budget for each share that is always present, filled before the rest, in this order:
the agent's identity, its guardrails, its approach, its focus, then the task stack: the root goal, the tasks between
it and the current one, and the tasks finished beside it."""
STANDING: Mapping[str, Fraction] = {
    "open": Fraction(30, 100),
    **{each.share: Fraction(each.standing, 100) for each in SECTIONS if each.standing},
}
"""The largest part of what then remains, each before the next: other open work, the last exchange, what its session
noted, what changed since. They add up to more than there is: a small context holds the first two, whole."""
OF_CONSTRAINTS = 300
"""Tokens that constraints may take of any budget, as far as that is a quarter of it: what must not be done comes before
what is only known."""
OTHERS = "others"
"""Identities and constraints that other agents stored use the budget that the reader's own leave in these shares."""
GUIDANCE = ("identity", "censor")
CHOSEN, MOST_CHOSEN = "chosen", Fraction(1, 3)
"""The share of records pinned or handed down by hand, and the part of the whole budget that they have before others."""
KNOWN, MOST_KNOWN = "known", Fraction(1, 2)
"""The share of what was learnt where nobody asked, and the largest part of the whole budget for it."""
LEARNT, REST = "learnt", "rest"
"""The shares of learnt records, which the log competes with, and of items without a share of their own."""
DISPENSABLE: frozenset[str] = frozenset({"approach"})
"""Shares that a small context drops: one more record is worth more than advice."""
FOUND = "recall"
"""The source of what the query found."""
PINNED = "pinned"
"""The source of what a person pinned."""
FAIR_PART = 4
"""The largest part of the room for an item with a shorter form, as a divisor: a long item never starves the rest."""


def of_constraints(budget: int) -> int:
    """Return the tokens that the reader's constraints may take of a budget before anything that need not be there."""
    return min(OF_CONSTRAINTS, budget // 4)


def own_share(section: Section) -> str:
    """Return the share that the found records of a section always have; "" where others decide.

    What a query finds of GUIDANCE holds no more, and competes like any record.
    """
    return section.share if section.always and section.share not in GUIDANCE else ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Form:
    """One way to show an item: its detail, text and estimated client tokens; `short` is its text in a group.

    `is_last` is True where it says more than the item itself, for which room is left last.
    """

    detail: ShownDetail
    text: str
    tokens: int
    short: str = ""
    is_last: bool = False


class LazyForms(Sequence[Form]):
    """Forms, each of which is made when somebody asks for it or for a later one. Thread-safe.

    To weigh and cut a long text takes longer than to place it, and most candidates are shown whole or not at all.
    """

    def __init__(self, forms: Iterator[Form]) -> None:
        self._made: list[Form] = []
        self._others = forms
        self._making = Lock()  # A kept draft is filled again for a follow-up, maybe in another thread.

    @overload
    def __getitem__(self, index: int) -> Form: ...
    @overload
    def __getitem__(self, index: slice) -> list[Form]: ...
    def __getitem__(self, index: int | slice) -> Form | list[Form]:
        self._make(index + 1 if isinstance(index, int) and index >= 0 else None)
        return self._made[index]

    def __len__(self) -> int:
        self._make(None)
        return len(self._made)

    def _make(self, number: int | None) -> None:
        with self._making:
            self._made += islice(self._others, None if number is None else max(number - len(self._made), 0))


@dataclass(frozen=True, slots=True, kw_only=True)
class Item:
    """A candidate for the block. `forms` run from the fullest to the shortest useful one.

    `position` orders the items of a section that is not ordered by score. `required` ones never drop out. `relevance`
    in [0, 1] is the evidence for the query as a share of the best item's, where the query found it, `chance` that it
    answers the query. `parts` gives what each signal adds to the score. Items of one `group` share a title, in the
    order of `time`. `newest` is the id of the newest state of the thread of which it is the best.
    `author` is the name of another agent that stored it. `content` changes with whatever a record can
    show, 0 for other items. Each form takes `least` tokens or more, for which none has to be made.
    """

    id: str
    kind: str
    source: str
    section: str
    share: str
    score: float
    forms: Sequence[Form]
    position: int = 0
    required: bool = False
    group: str = ""
    time: Instant = 0.0
    author: str = ""
    content: int = 0
    least: int = 0
    relevance: float = 0.0
    chance: float = 1.0
    newest: str = ""
    parts: Mapping[str, float] = field(default_factory=dict[str, float])


@dataclass(frozen=True, slots=True, kw_only=True)
class Placed:
    """An item at one of its forms."""

    item: Item
    form: Form


def place(
    items: Sequence[Item],
    budget: int,
    title_tokens: Mapping[str, int],
    *,
    shares: Mapping[str, float] | None = None,
    flexible: int | None = None,
    cheapest_first: bool = False,
) -> tuple[list[Placed], list[Item]]:
    """Choose forms for items, given best first within each share, so that the estimates stay within the budget.

    Shares that are always present are filled first, then what was chosen by hand, then where things stood and the
    strategy's `shares` (fractions of what remains, at most `flexible` tokens), then all items. An item too large for
    the space left takes a shorter form or is skipped; smaller ones behind it still enter. Shares are rounded down, but
    the first three sorts hold at least their first item at its shortest: in a small context a constraint matters more
    than one more record. What was chosen comes before others again behind where things stood. What was learnt takes at
    most half where nobody asked. The rest of a share flows to the others, and the leftover deepens the best.
    Returns the placed items in the order given, and those left out.
    """
    shares = shares or {}
    allotment = Allotment(budget, title_tokens)
    allotment.require([item for item in items if item.required])
    sharing: dict[str, list[Item]] = {}
    for item in items:
        sharing.setdefault(item.share, []).append(item)
    allotment.fill(sharing.get(CARRIED, ()), int(budget * MOST_CARRIED), cheapest_first)
    for share, fraction in ALWAYS.items():
        if share in sharing:
            # Items already placed wait for a fuller form: the root goal is shown whatever else is.
            waiting = sorted(sharing[share], key=lambda item: item.id in allotment.placed)
            least = 0 if share in DISPENSABLE else allotment.least(waiting)
            allotment.fill(waiting, max(int(budget * fraction), least), cheapest_first)
    if others := sharing.get(OTHERS):
        unspent = int(budget * sum(ALWAYS[share] for share in GUIDANCE)) - allotment.spent_on(GUIDANCE)
        allotment.fill(others, max(unspent, allotment.least(others)), cheapest_first)
    chosen = sharing.get(CHOSEN, ())
    allotment.fill(chosen, max(int(budget * MOST_CHOSEN), allotment.least(chosen)), cheapest_first)
    # A second constraint comes before what is only known; the first, in full, would not leave it its place.
    constraints = [each for each in sharing.get("censor", ()) if each.id not in allotment.placed]
    allotment.fill(constraints, of_constraints(budget) - allotment.spent_on(("censor",)), cheapest_first, 2)
    remaining = allotment.limit_to(flexible)
    for share, fraction in STANDING.items():
        waiting = sharing.get(share, ())
        allotment.fill(waiting, max(int(remaining * fraction), allotment.least(waiting)), cheapest_first, 2)
    allotment.fill([each for each in chosen if each.id not in allotment.placed], budget, cheapest_first)
    for share, part in shares.items():
        limit = max(int(remaining * part) - allotment.spent_on((share,)), 0)
        allotment.fill(sharing.get(share, ()), limit, cheapest_first, FAIR_PART)
    known = sharing.get(KNOWN, ())
    for part, least in ((FAIR_PART, allotment.least(known)), (1, 0)):
        most = int(budget * MOST_KNOWN) - allotment.spent_on((KNOWN,))
        allotment.fill(known, max(most, least), cheapest_first, part)
    within = [item for item in items if item.share != KNOWN]
    allotment.fill([item for item in within if item.share not in (*ALWAYS, OTHERS)], budget, cheapest_first, FAIR_PART)
    allotment.fill([item for item in within if item.id not in allotment.placed], budget, cheapest_first)
    allotment.deepen([allotment.placed[item.id] for item in within if item.id in allotment.placed])
    placed = [allotment.placed[item.id] for item in items if item.id in allotment.placed]
    return placed, [item for item in items if item.id not in allotment.placed]


class Allotment:
    """The items placed so far and their cost, section titles included."""

    def __init__(self, budget: int, title_tokens: Mapping[str, int]) -> None:
        self.placed: dict[str, Placed] = {}
        self.left = budget
        self._titles = title_tokens
        self._opened: set[str] = set()

    def limit_to(self, tokens: int | None) -> int:
        """Spend no more than `tokens` from now on, where given; return the tokens left to spend."""
        if tokens is not None:
            self.left = min(self.left, tokens)
        return max(self.left, 0)

    def require(self, items: Sequence[Item]) -> None:
        """Place each at its shortest, whatever is left."""
        for item in items:
            self.place(item, item.forms[-1])

    def fill(self, items: Sequence[Item], limit: int, cheapest_first: bool, part: int = 1) -> None:
        """Place the items that fit, spending at most `limit` of the rest; placed ones may take a fuller form."""
        allowance = min(limit, self.left)
        most = 0 if cheapest_first else allowance // part
        for item in items:
            standing = self.placed.get(item.id)
            if standing is not None and standing.form is item.forms[0]:
                continue
            fair = min(most, allowance)
            shortest = item.forms[-1:] if self.cost(item, item.forms[-1]) <= allowance else ()
            fuller = [form for form in item.forms[:-1] if self.cost(item, form) <= fair]
            form = next(iter((*fuller, *shortest)), None)
            if form is not None:
                allowance -= self.cost(item, form)
                self.place(item, form)

    def spent_on(self, shares: Collection[str]) -> int:
        """Return the tokens of the items placed on these shares."""
        return sum(each.form.tokens for each in self.placed.values() if each.item.share in shares)

    def least(self, items: Sequence[Item]) -> int:
        """Return the cost of the first unplaced item at its shortest; 0 without one."""
        waiting = (item for item in items if item.id not in self.placed)
        return next((self.cost(item, item.forms[-1]) for item in waiting), 0)

    def cost(self, item: Item, form: Form) -> int:
        """Return the form's cost beyond the tokens already spent on its item and section."""
        if item.id in self.placed:
            return form.tokens - self.placed[item.id].form.tokens
        return form.tokens + (0 if item.section in self._opened else self._titles.get(item.section, 0))

    def place(self, item: Item, form: Form) -> None:
        self.left -= self.cost(item, form)
        self.placed[item.id] = Placed(item=item, form=form)
        self._opened.add(item.section)

    def deepen(self, placed: Sequence[Placed]) -> None:
        """Give the best items a fuller form while the leftover allows."""
        for each in placed:
            if each.form is each.item.forms[0]:
                continue
            spare = max(self.left, 0)
            form = next(form for form in each.item.forms if form.tokens - each.form.tokens <= spare)
            self.place(each.item, form)


def arranged(placed: Sequence[Placed], order: str) -> list[Placed]:
    """Return the items best first as given, `reverse` with the best last, or `edges` with the best at both ends."""
    if order == "reverse":
        return list(reversed(placed))
    if order == "edges":
        return [*placed[::2], *reversed(placed[1::2])]
    return list(placed)
