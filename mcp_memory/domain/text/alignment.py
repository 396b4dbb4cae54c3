"""Lays two claims side by side: the words of both are their frame, the others stand in it at like or unlike places.

Decides nothing: `conflicts` reads what differs.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product

from mcp_memory.domain.text.claims import KINDS, LIGHT, Claim, Term
from mcp_memory.domain.text.quantities import Quantity, is_equal
from mcp_memory.domain.text.words import stem_forms

_WHEN = frozenset({"date", "weekday", "daypart", "clock"})
_MEASURED = _WHEN | {"time", "number", "rhythm", "share", "size"}
"""Sorts of which many records hold the same value by chance: it makes no anchor as a name does."""
_MONEY = frozenset(
    f"{unit}{rate}" for unit in ("dollars", "euros", "pounds", "francs", "yuan") for rate in ("", " a time")
)
_RELATIONS = frozenset({"=live", "=work", "=use", "=run", "=own", "=keep"})
"""Relations that a word for change implies: who "moved to" a place lives there."""
_BEFORE_VALUES = _RELATIONS | {
    "=start", "=expire", "=limit", "=due", "=cost", "=meet", "=version", "=allow", "=require", "=release", "=end",
    "=region", "=port",
}  # fmt: skip
"""Words that a value implies: "max 20 MB" and "up to 20 MB" are one claim."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Alignment:
    """Two claims side by side. Weights are in words; shares, of each claim's words, in [0, 1].

    `frame` weighs what both have; `names` counts the names in it, `relations` its words for "lives in", "owned by".
    `led`, `amid` and `trailed` count the places before, inside and behind the frame where each claim has another word;
    `loose_old` and `loose_new` are their words elsewhere. `differing` holds the values of one sort that exclude each
    other, `gone` what one says holds no longer.
    """

    old: Claim
    new: Claim
    frame: float
    names: int
    relations: int
    only_old: Sequence[Term]
    only_new: Sequence[Term]
    loose_old: Sequence[Term]
    loose_new: Sequence[Term]
    led: int
    amid: int
    trailed: int
    differing: Sequence[tuple[Quantity, Quantity]]
    gone: str
    begins_otherwise: bool

    @property
    def share_old(self) -> float:
        return self.frame / (self.frame + _weight(self.only_old)) if self.frame else 0.0

    @property
    def share_new(self) -> float:
        return self.frame / (self.frame + _weight(self.only_new)) if self.frame else 0.0

    @property
    def left_old(self) -> float:
        """The weight of the older claim's loose words."""
        return _weight(self.loose_old)

    @property
    def left_new(self) -> float:
        return _weight(self.loose_new)

    @property
    def places(self) -> int:
        return self.led + self.amid + self.trailed

    @property
    def share(self) -> float:
        return max(self.share_old, self.share_new)

    @property
    def least_share(self) -> float:
        return min(self.share_old, self.share_new)

    @property
    def inserted(self) -> float:
        """The weight of the newer claim's loose words before its first value."""
        first = min((each.start for each in self.new.quantities), default=0)
        return _weight([term for term in self.loose_new if term.at < first])

    @property
    def narrows(self) -> bool:
        """True where one side alone limits what it is about, or both do so in other words."""
        old, new = (any(term.narrows for term in terms) for terms in (self.only_old, self.only_new))
        return old != new or (old and self.places > 0)

    @property
    def is_anchored(self) -> bool:
        """True where the frame names something: a name, or enough words."""
        return self.frame >= 1.5 or (self.frame >= 1 and (self.names > 0 or self.least_share >= 0.65))

    @property
    def is_led_by_values(self) -> bool:
        """True where both claims begin with the value that differs: it names their subject."""
        return all(
            each.start < min((term.at for term in claim.terms), default=each.start)
            for each, claim in zip(self.differing[0], (self.old, self.new), strict=True)
        )

    @property
    def is_related(self) -> bool:
        """True where the frame is a name and a relation that one subject has once: "Heinrich lives"."""
        return self.relations > 0 and self.names > 0 and self.frame >= 2.5 and self.least_share >= 0.4

    @property
    def is_change(self) -> bool:
        return self.new.is_change and not self.old.is_change

    @property
    def is_open(self) -> bool:
        """True where only one of the claims is a question, a plan or a guess."""
        return self.new.is_open != self.old.is_open

    @property
    def is_denied(self) -> bool:
        return self.old.is_denied != self.new.is_denied


def align(old: Claim, new: Claim) -> Alignment:
    """Lay an older claim beside a newer one. What the newer says is gone is no part of their frame."""
    pairs, only_old, only_new = _matched(old.terms, new.terms)
    gone_terms = [term for _, term in _matched(new.gone_terms, old.terms)[0]]
    gone_values = [each for each in old.quantities if _holds(new.gone_quantities, each)]
    pairs = [pair for pair in pairs if pair[0] not in gone_terms]
    only_old = [term for term in only_old if term not in gone_terms]
    olds = [each for each in old.quantities if each not in gone_values]
    differing = tuple(_differing(olds, new.quantities))
    equal = {one.sort for one, other in product(olds, new.quantities) if _is_same_value(one, other)}
    frame = sum(one.weight for one, _ in pairs) + sum(0.5 if sort in _MEASURED else 1.0 for sort in equal)
    if differing:
        implied = _BEFORE_VALUES - (set() if differing[0][0].sort in _MONEY else {"=cost"})
        only_new = [term for term in only_new if term.key not in implied]
        only_old = [term for term in only_old if term.key not in implied]
    elif new.is_change:
        frame += 0.5 * sum(term.key in _RELATIONS for term in only_old)
        only_old = [term for term in only_old if term.key not in _RELATIONS]
    if any(one.is_name for one, _ in pairs):
        only_old, only_new = _without_kind(only_old, only_new), _without_kind(only_new, only_old)
    left, right = _sequence(old, pairs, only_old, 0), _sequence(new, pairs, only_new, 1)
    led, amid, trailed, replaced = _replaced(left, right)
    return Alignment(
        old=old,
        new=new,
        frame=frame,
        names=sum(one.is_name for one, _ in pairs) + len(equal - _MEASURED),
        relations=sum(one.key in _RELATIONS for one, _ in pairs),
        only_old=only_old,
        only_new=only_new,
        loose_old=[term for term in only_old if term not in replaced],
        loose_new=[term for term in only_new if term not in replaced],
        led=led,
        amid=amid,
        trailed=trailed,
        differing=differing,
        gone=next(iter([each.said for each in (*gone_terms, *gone_values)] or _brought_back(old, new)), ""),
        begins_otherwise=_begins_otherwise(left, right),
    )


def shares_dropped(text: Claim, old: Claim, new: Claim) -> bool:
    """Return True where a text has a value or a name of the old claim that the new one does not have."""
    values = [each for each in old.quantities if not _holds(new.quantities, each)]
    names = [each for each in old.terms if each.is_name and not any(map(each.is_like, new.terms))]
    return any(_holds(text.quantities, each) for each in values) or any(
        one.is_like(other) for one, other in product(names, text.terms)
    )


def _without_kind(terms: list[Term], others: Sequence[Term]) -> list[Term]:
    """Leave out the kind of thing that a name is, where the other claim says none: "the flag `new-checkout`"."""
    if any(term.said.casefold() in KINDS for term in others):
        return terms
    return [term for term in terms if term.said.casefold() not in KINDS]


def _weight(terms: Sequence[Term]) -> float:
    return sum(term.weight for term in terms)


def _brought_back(old: Claim, new: Claim) -> list[str]:
    """Return the words and values that the older claim says are gone, and the newer has."""
    back = [term.said for term, _ in _matched(old.gone_terms, new.terms)[0]]
    return back + [each.said for each in new.quantities if _holds(old.gone_quantities, each)]


def _matched(olds: Sequence[Term], news: Sequence[Term]) -> tuple[list[tuple[Term, Term]], list[Term], list[Term]]:
    """Return the pairs of terms that are one word, and what only the first and only the second have."""
    only_old, only_new = list[Term](), list(news)
    pairs: list[tuple[Term, Term]] = []
    for term in olds:
        same = next((each for each in only_new if each.key == term.key), None)
        other = same or next((each for each in only_new if term.is_like(each)), None)
        if other:
            only_new.remove(other)
            pairs.append((term, other))
        else:
            only_old.append(term)
    for pair in [pair for pair in pairs if _is_by_chance(pair, pairs, only_old, only_new)]:
        pairs.remove(pair)
        only_old.append(pair[0])
        only_new.append(pair[1])
    return pairs, only_old, only_new


def _is_by_chance(
    pair: tuple[Term, Term], pairs: Sequence[tuple[Term, Term]], only_old: Sequence[Term], only_new: Sequence[Term]
) -> bool:
    """Return True for one sign of a script without spaces that two other words share: 杭州, 苏州."""
    old, new = pair
    if old.weight == 1 or any((one.at - old.at) == (other.at - new.at) in (-1, 1) for one, other in pairs):
        return False
    left, right = ({each.at for each in terms if each.weight < 1} for terms in (only_old, only_new))
    matched = {one.at for one, _ in pairs}, {other.at for _, other in pairs}
    return any(
        (old.at + step in left or new.at + step in right)
        and old.at + step not in matched[0]
        and new.at + step not in matched[1]
        for step in (-1, 1)
    )


def _holds(quantities: Sequence[Quantity], wanted: Quantity) -> bool:
    return any(_is_same_value(each, wanted) for each in quantities)


def _is_same_value(one: Quantity, other: Quantity) -> bool:
    return one.sort == other.sort and is_equal(one, other)


def _differing(olds: Sequence[Quantity], news: Sequence[Quantity]) -> Iterator[tuple[Quantity, Quantity]]:
    """Yield a pair for each sort of which the claims share no value, two where several of each differ.

    A day, a weekday and a time of day are one appointment.
    """
    seen = set[str]()
    for old in olds:
        kind = "when" if old.sort in _WHEN else old.sort
        mine = [each for each in olds if each.sort == old.sort]
        others = [each for each in news if _is_comparable(old, each)]
        if kind in seen or not others or any(is_equal(one, each) for one, each in product(mine, others)):
            continue
        seen.add(kind)
        yield old, others[0]
        rivals = [each for each in news if each.sort == old.sort]
        if len(mine) > 1 and len(rivals) > 1:
            yield mine[1], rivals[1]


def _is_comparable(one: Quantity, other: Quantity) -> bool:
    """Return True for values of one sort; bare numbers must count one thing: not "3 replicas" and "5 retries"."""
    if one.sort != "number" or other.sort != "number" or not one.noun or not other.noun:
        return one.sort == other.sort
    is_light = one.noun in LIGHT or other.noun in LIGHT
    return is_light or any(map(str.__eq__, stem_forms(one.noun), stem_forms(other.noun)))


_Item = Term | int | str
"""A place of a claim: its own word, the number of a pair of words, or the sort of a value."""


def _sequence(claim: Claim, pairs: Sequence[tuple[Term, Term]], own: Sequence[Term], side: int) -> list[_Item]:
    """Return the words and values of a claim in their order."""
    placed: list[tuple[int, _Item]] = [(pair[side].at, number) for number, pair in enumerate(pairs)]
    placed += [(term.at, term) for term in own] + [(each.start, each.sort) for each in claim.quantities]
    return [item for _, item in sorted(placed, key=lambda each: each[0])]


def _replaced(left: Sequence[_Item], right: Sequence[_Item]) -> tuple[int, int, int, list[Term]]:
    """Count the places before, inside and behind the frame where each side has other words; return these words."""
    led = amid = trailed = 0
    replaced: list[Term] = []
    for (before, words, after), (other_before, others, other_after) in product(_runs(left), _runs(right)):
        is_end = before is not None and (after is None or other_after is None)
        if before == other_before and (after == other_after or is_end):
            replaced += [*words, *others]
            led += before is None
            trailed += before is not None and is_end
            amid += before is not None and not is_end
    return led, amid, trailed, replaced


def _runs(items: Sequence[_Item]) -> Iterator[tuple[_Item | None, list[Term], _Item | None]]:
    """Yield each run of a claim's own words, with its neighbours before and behind; None at an end."""
    before: _Item | None = None
    run: list[Term] = []
    for item in items:
        if isinstance(item, Term):
            run.append(item)
            continue
        if run:
            yield before, run, item
        before, run = item, []
    if run:
        yield before, run, None


def _begins_otherwise(left: Sequence[_Item], right: Sequence[_Item]) -> bool:
    """Return True where the newer claim has signs of its own before the word that begins the older: 我室友 for 我."""
    first = right[0] if right else None
    matched = next((item for item in right if not isinstance(item, Term)), None)
    return isinstance(first, Term) and first.weight < 1 and matched is not None and matched == left[0]
