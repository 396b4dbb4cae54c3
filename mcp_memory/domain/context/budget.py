"""Fits items into a token budget: shares first, then whatever is left to whoever can use it. Pure arithmetic."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction

from mcp_memory.domain.model.records import Detail, Instant

ALWAYS: Mapping[str, Fraction] = {
    "identity": Fraction(500, 8000),
    "censor": Fraction(300, 8000),
    "approach": Fraction(500, 8000),
    "focus": Fraction(700, 8000),
    "root": Fraction(5, 100),
    "ancestors": Fraction(15, 100),
    "finished": Fraction(10, 100),
}
"""Of the whole budget, at most this much goes to what is always there before the rest has had its turn, in this order:
who the agent is, what it must not do, how to go about it, what is at hand, then the task stack: the root goal, what
lies between it and the current task, and what was finished beside it."""
OTHERS = "others"
"""Identities and constraints that other agents stored live on what the reader's own leave of their parts."""
GUIDANCE = ("identity", "censor")
LEARNT, REST = "learnt", "rest"
"""The parts of what was learnt, where the log competes with it, and of whatever has none of its own."""
DISPENSABLE: frozenset[str] = frozenset({"approach"})
"""In a small context one more record is worth more than advice."""
FAIR_PART = 4
"""While it has a shorter form, no item takes more than a quarter of the room: a long one never starves the rest."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Form:
    """One way to show an item: its detail, text and estimated tokens, in the client's; `short` among its group."""

    detail: Detail
    text: str
    tokens: int
    short: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Item:
    """Something that wants into the block. `forms` go from the fullest to the shortest useful one.

    `position` orders the items of one section where that is not their order by score; `required` ones never drop out.
    `parts` says what each signal adds to the score; items of one `group` share a title, in the order of `time`.
    `author` is the name of another agent that stored it.
    """

    id: str
    kind: str
    source: str
    section: str
    share: str
    score: float
    forms: tuple[Form, ...]
    position: int = 0
    required: bool = False
    group: str = ""
    time: Instant = 0.0
    author: str = ""
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

    What is always there has its turn first, then the strategy's `shares` (fractions of what remains, at most `flexible`
    tokens), then everybody. An item too large for the space left takes a shorter form or is skipped; smaller ones
    behind it still enter. Shares are rounded down, but those of what is always there hold at least their first item at
    its shortest: in a small context a constraint matters more than one more record. What a share leaves flows to the
    others, and the last leftover deepens the best. Returns the placed items in the order given, and those left out.
    """
    shares = shares or {}
    ledger = _Ledger(budget, title_tokens)
    ledger.require([item for item in items if item.required])
    sharing: dict[str, list[Item]] = {}
    for item in items:
        sharing.setdefault(item.share, []).append(item)
    for share, fraction in ALWAYS.items():
        if share in sharing:
            # What has its line already waits for a fuller one: the root goal stands whatever else does.
            waiting = sorted(sharing[share], key=lambda item: item.id in ledger.placed)
            least = 0 if share in DISPENSABLE else ledger.least(waiting)
            ledger.fill(waiting, max(int(budget * fraction), least), cheapest_first)
    if others := sharing.get(OTHERS):
        unspent = int(budget * sum(ALWAYS[share] for share in GUIDANCE)) - ledger.spent_on(GUIDANCE)
        ledger.fill(others, max(unspent, ledger.least(others)), cheapest_first)
    remaining = ledger.limit_to(flexible)
    for share, part in shares.items():
        ledger.fill(sharing.get(share, ()), int(remaining * part), cheapest_first, FAIR_PART)
    ledger.fill([item for item in items if item.share not in (*ALWAYS, OTHERS)], budget, cheapest_first, FAIR_PART)
    ledger.fill([item for item in items if item.id not in ledger.placed], budget, cheapest_first)
    ledger.deepen([ledger.placed[item.id] for item in items if item.id in ledger.placed])
    placed = [ledger.placed[item.id] for item in items if item.id in ledger.placed]
    return placed, [item for item in items if item.id not in ledger.placed]


class _Ledger:
    """The items placed so far and what they cost, section titles included."""

    def __init__(self, budget: int, title_tokens: Mapping[str, int]) -> None:
        self.placed: dict[str, Placed] = {}
        self._left = budget
        self._titles = title_tokens
        self._opened: set[str] = set()

    def limit_to(self, tokens: int | None) -> int:
        """Spend no more than that from now on, where it is given; what there is left to spend."""
        if tokens is not None:
            self._left = min(self._left, tokens)
        return max(self._left, 0)

    def require(self, items: Sequence[Item]) -> None:
        """Place each at its shortest, whatever is left."""
        for item in items:
            self._place(item, item.forms[-1])

    def fill(self, items: Sequence[Item], limit: int, cheapest_first: bool, part: int = 1) -> None:
        """Place what fits, spending at most `limit` of what is left; what stands already may take a fuller form."""
        allowance = min(limit, self._left)
        most = 0 if cheapest_first else allowance // part
        for item in items:
            standing = self.placed.get(item.id)
            if standing is not None and standing.form is item.forms[0]:
                continue
            fair = min(most, allowance)
            shortest = item.forms[-1:] if self._cost(item, item.forms[-1]) <= allowance else ()
            fuller = [form for form in item.forms[:-1] if self._cost(item, form) <= fair]
            form = next(iter((*fuller, *shortest)), None)
            if form is not None:
                allowance -= self._cost(item, form)
                self._place(item, form)

    def spent_on(self, shares: Collection[str]) -> int:
        """The tokens of what stands on these shares."""
        return sum(each.form.tokens for each in self.placed.values() if each.item.share in shares)

    def least(self, items: Sequence[Item]) -> int:
        """Return what the first of the items that is not there yet costs at its shortest; 0 where there is none."""
        waiting = (item for item in items if item.id not in self.placed)
        return next((self._cost(item, item.forms[-1]) for item in waiting), 0)

    def _cost(self, item: Item, form: Form) -> int:
        """Return what the form costs beyond what is paid already."""
        if item.id in self.placed:
            return form.tokens - self.placed[item.id].form.tokens
        return form.tokens + (0 if item.section in self._opened else self._titles.get(item.section, 0))

    def _place(self, item: Item, form: Form) -> None:
        self._left -= self._cost(item, form)
        self.placed[item.id] = Placed(item=item, form=form)
        self._opened.add(item.section)

    def deepen(self, placed: Sequence[Placed]) -> None:
        """Give the best items a fuller form while the leftover allows."""
        for each in placed:
            if each.form is each.item.forms[0]:
                continue
            spare = max(self._left, 0)
            form = next(form for form in each.item.forms if form.tokens - each.form.tokens <= spare)
            self._place(each.item, form)


def arranged(placed: Sequence[Placed], order: str) -> list[Placed]:
    """Best first as given, `reverse` with the best last, or `edges` with the best at both ends. Nothing is lost."""
    if order == "reverse":
        return list(reversed(placed))
    if order == "edges":
        return [*placed[::2], *reversed(placed[1::2])]
    return list(placed)
