"""Compares what two texts claim: whether the newer contradicts the older, and whether it only says the same again.

Two claims are aligned: the words that both have are their frame, the others stand in it at like or unlike places. What
makes a contradiction is a value of one sort that differs in the same frame, a denial on one side, or words for change;
what unmakes it is another word at the same place, which names another subject.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise, product
from typing import Literal

from mcp_memory.domain.text.alignment import Alignment, align, shares_dropped
from mcp_memory.domain.text.claims import Claim, Term, claims_of, concept_of, tells_one_event, together

Rule = Literal["gone", "ended", "value", "denied", "slot", "near"]
CERTAINTY: dict[Rule, float] = {"gone": 0.9, "value": 0.9, "ended": 0.85, "denied": 0.85, "slot": 0.8, "near": 0.8}
"""The share of right answers, about: 0.86 over all rules, on pairs that shaped none (docs/decisions/0043)."""
LEAST_CERTAINTY = 0.8
"""Below it nothing is said."""
RELATION_CERTAINTY = 0.8
"""The certainty of another target of a relation of which a source has one: a caller may mean it otherwise."""
EQUAL_COSINE = 0.95
"""Least cosine of near-duplicates; it says nothing of values, in which they may differ."""
ALIKE_COSINE, ALIKE_SHARE = 0.7, 0.45
"""Least cosine of two texts that say one thing in other words, and least share of words that they have in common."""

GONE_COSINE = 0.6
"""Least cosine of two texts one of which says that a word of the other holds no longer, in whatever frame."""
OUTDATED_COSINE = 0.45
"""Least cosine of a text and a corrected one whose value it has."""
OUTDATED_CERTAINTY = 0.85
AGAIN_COSINE, AGAIN_SHARE = 0.75, 0.4
"""Least cosine and share of words of a text and corrected words whose dropped value it has."""

FAR_COSINE, MOST_FAR = 0.55, 3
"""Below this cosine, texts of more claims and parts than that share words by chance."""
MOST_NEAR = 4
"""Claims and parts of the longest text that says but one thing."""

_OF_TWO = frozenset[Rule | None]({"gone", "ended"})
"""Rules that may need two statements: "We moved to NATS. RabbitMQ was too slow." """
_OFTEN_SUBJECTS = frozenset({"person", "mailbox", "host", "channel", "date"})
"""Sorts of values that name what both claims are about, where they come first."""
_COLLECTED = frozenset(
    {
        "tongue",
        "store",
        "cache",
        "broker",
        "frontend",
        "program",
        "runner",
        "linter",
        "manager",
        "cloud",
        "forge",
        "format",
        "searcher",
        "identity",
        "chat",
        "payments",
        "tracker",
        "balancer",
        "bundler",
        "builder",
        "hashing",
        "system",
        "numeric",
        "licence",
    }
)
"""Sorts of which a verb with many objects takes several: "speaks German", "speaks Spanish"."""
_SINGLE = frozenset({"=live", "=work", "=run", "=own", "=due", "=name", "=birthday", "=expire", "=version"})
# "lives_in" → lives, in
_RELATION_WORD = re.compile(r"[^\W_]+")


@dataclass(frozen=True, slots=True, kw_only=True)
class Contradiction:
    """The reason why one text contradicts another, in a few words, and its certainty in (0, 1]."""

    why: str
    certainty: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Judgement:
    """A newer text compared with an older one: a contradiction, or the same again, or neither."""

    contradiction: Contradiction | None
    is_same: bool


def judge_texts(old: str, new: str, cosine: float) -> Judgement:
    """Behave as `judge` of the claims of both, and skip reading those that contradict nothing."""
    news = claims_of(new)
    if cosine < EQUAL_COSINE and tells_one_event(old) and not _take_back(news):
        return Judgement(contradiction=None, is_same=False)
    return judge(claims_of(old), news, cosine)


def judge(olds: Sequence[Claim], news: Sequence[Claim], cosine: float) -> Judgement:
    """Compare an older and a newer text by their claims and the cosine of their vectors."""
    if cosine < FAR_COSINE and max(len(olds), len(news)) > MOST_FAR:
        return Judgement(contradiction=None, is_same=False)
    # What happened is contradicted by nothing but words that take it back, and its like happens often.
    takes_back = _take_back(news)
    lasting = [old for old in olds if takes_back or not old.is_event]
    every = _aligned(olds, news)
    compared = [each for each in every if takes_back or not each.old.is_event]
    aligned = [each for each in compared if each.frame]
    found: list[tuple[Rule, Alignment]] = [(rule, each) for each in aligned if (rule := _rule(each))]
    if cosine < FAR_COSINE:
        found = [(rule, each) for rule, each in found if not min(each.left_old, each.left_new)]
    if not found and aligned:
        both = [
            together((one, other))
            for one, other in pairwise(news)
            if _take_back((*olds, one, other)) or one.is_ended or other.is_ended
        ]
        found = [("ended", each) for each in _aligned(lasting, both) if _rule(each) in _OF_TWO]
    if not found:
        found = [("gone", each) for each in compared if _is_gone(each) and (cosine >= GONE_COSINE or _names_gone(each))]
    if not found and cosine >= ALIKE_COSINE and max(len(olds), len(news)) <= MOST_NEAR:
        found = [("near", each) for each in aligned if _is_near(each)]
    if found:
        rule, each = max(found, key=lambda one: (CERTAINTY[one[0]], one[1].frame))
        contradiction = Contradiction(why=_why(rule, each), certainty=CERTAINTY[rule])
        return Judgement(contradiction=contradiction, is_same=False)
    return Judgement(contradiction=None, is_same=_is_same(olds, news, cosine, every))


def is_outdated(
    text: Sequence[Claim], old: Sequence[Claim], new: Sequence[Claim], cosine: float, *, is_guessed: bool = False
) -> bool:
    """Return True where a text says in other words what `old` said until `new` corrected it.

    The cosine is that of the text and the old one. Where it is low, the text must have a value or a name of the old one
    that the new one has no more: "use :8085" beside "payments listens on 8085", corrected to 8110. It must always have
    one where it `is_guessed` that the new text corrects the old one.
    """
    said, replaced = together(text), together(old)
    if not (text and old and new) or align(said, replaced).differing:
        return False
    lasting = together([claim for claim in new if not claim.is_ended])
    return (cosine >= ALIKE_COSINE and not is_guessed) or (
        cosine >= OUTDATED_COSINE and shares_dropped(said, replaced, lasting)
    )


def says_dropped(text: str, old: str, new: str) -> bool:
    """Return True where a text has a value or a name that `new` dropped from `old`, and none that `new` brought.

    What says that it ended does not count: "Fly.io was too slow, so we moved to Hetzner".
    """
    said = claims_of(text)
    if any(claim.is_ended for claim in said):
        return False
    told, former, present = together(said), together(claims_of(old)), together(claims_of(new))
    return shares_dropped(told, former, present) and not shares_dropped(told, present, former)


def says_again(text: str, old: str, cosine: float) -> bool:
    """Return True where a text says what an older one says, given the cosine of both, and has a rare value of it.

    Another word before the words of both names another subject: "user names" for "passwords have 8 characters".
    """
    whole = align(together(claims_of(old)), together(claims_of(text)))
    if whole.led or whole.is_denied or whole.is_open:
        return False
    is_like = cosine >= AGAIN_COSINE and whole.least_share >= AGAIN_SHARE and not whole.new.is_event
    return is_like or judge_texts(old, text, cosine).is_same


def has_one_target(relation: str) -> bool:
    """Return True for a type of relation of which a source has one target: lives_in, unlike uses."""
    return any(concept_of(word) in _SINGLE for word in _RELATION_WORD.findall(relation))


def _aligned(olds: Sequence[Claim], news: Sequence[Claim]) -> list[Alignment]:
    """Align the claims that have a word or a sort of value in common; those of long texts are many, and few have."""
    marked = [(new, _marks(new)) for new in news]
    return [align(old, new) for old in olds for marks in [_marks(old)] for new, others in marked if marks & others]


def _take_back(claims: Sequence[Claim]) -> bool:
    return any(claim.gone_terms or claim.gone_quantities for claim in claims)


def _marks(claim: Claim) -> set[str]:
    terms = (*claim.terms, *claim.gone_terms)
    sorts = (each.sort for each in (*claim.quantities, *claim.gone_quantities))
    return {mark for term in terms for mark in (term.key, *term.stems)}.union(sorts)


def _rule(a: Alignment) -> Rule | None:
    """Return the rule by which two claims contradict each other."""
    if a.new.is_open or (a.new.adds and not a.old.adds and not a.is_denied):
        return None
    if a.gone and a.frame >= 1 and a.share >= 0.5 and not a.led:
        return "gone"
    if a.narrows or a.old.is_event:
        return None
    is_covered = a.share_old >= 0.5
    has_ended = a.new.is_ended and not a.old.is_ended and not a.old.is_denied
    if has_ended and a.is_anchored and is_covered and a.left_old <= 1 and (not a.led or a.names > 1):
        return "ended"
    if a.differing:
        return "value" if _differs_in_value(a) else None
    if a.is_denied:
        return "denied" if _is_denial(a) else None
    return "slot" if _differs_in_words(a) else None


def _is_gone(a: Alignment) -> bool:
    """Return True where the newer says that something of the older is gone, which the older itself does not say."""
    takes_back = a.new.gone_terms or a.new.gone_quantities
    return bool(a.gone and takes_back) and not a.old.gone_terms and not a.new.is_open


def _names_gone(a: Alignment) -> bool:
    """Return True where what is gone is a name or a value, and the claims share more than that."""
    return a.frame >= 1 and bool(a.new.gone_quantities or any(term.is_name for term in a.new.gone_terms))


def _is_near(a: Alignment) -> bool:
    """Return True where texts of one meaning differ in one value, and name no other subject beside it."""
    if not a.differing or a.new.is_open or a.new.adds or a.narrows or a.is_denied:
        return False
    others = (each for claim in (a.old, a.new) for each in claim.quantities if each not in a.differing[0])
    is_framed = a.frame >= 1 and a.share >= 0.6 and not a.places and not any(others)
    return is_framed and not a.left_new and _differs_in_value(a, is_near=True)


def _has_other_object(a: Alignment) -> bool:
    """Return True where one side names a thing of a list and the other has words there: 英语课, 书法课."""
    old, new = ({each.sort for each in claim.quantities} & _COLLECTED for claim in (a.old, a.new))
    return bool((old - new and a.left_new) or (new - old and a.left_old))


def _differs_in_value(a: Alignment, *, is_near: bool = False) -> bool:
    """Return True where one value differs, and nothing says that it is another subject's or another time's."""
    if a.differing[0][0].sort in _OFTEN_SUBJECTS and not a.is_change and a.is_led_by_values:
        return False
    if (
        len(a.differing) > 1
        or (not a.is_change and _has_other_object(a))
        or ((a.old.is_past or a.new.is_past) and not a.is_change)
    ):
        return False
    if a.old.is_many and a.differing[0][0].sort in _COLLECTED and not a.is_change:
        return False
    if is_near:
        return True
    is_framed = a.share >= 0.6 and (a.share_old >= 0.5 or a.share_new >= 0.7)
    if not a.places and a.is_anchored and is_framed and (a.is_change or not a.is_denied):
        is_reworded = a.left_old == 1 and a.frame >= 2 and a.least_share >= 0.5
        is_whole = a.share_old >= 0.75 and a.frame >= 3
        return a.inserted < 1 or a.is_change or (a.inserted <= 1 and (is_whole or is_reworded))
    is_anchored = a.is_anchored or (a.frame >= 1 and a.share_new > 0.9)
    return a.is_change and not a.led and is_anchored and a.share >= 0.5


def _is_denial(a: Alignment) -> bool:
    """Return True where one claim is the other's, denied."""
    is_covered = a.share_old >= 0.75 and a.left_old <= 1 and min(a.left_old, a.left_new) == 0
    is_repeated = (a.share_new >= 0.9 and a.frame >= (2 if a.names else 3)) or (a.least_share >= 0.8 and a.frame >= 4)
    return not a.places and a.is_anchored and (is_covered or is_repeated) and not a.begins_otherwise


def _differs_in_words(a: Alignment) -> bool:
    """Return True where other words stand at the end of one frame, as an object of which there can be but one."""
    if a.led or a.amid:
        return False
    is_framed = a.share_old >= 0.5 and a.frame >= 1.5
    if a.is_change and (is_framed or a.is_related) and (a.left_old or a.trailed) and not _is_other_matter(a):
        return True
    has_values = any(one.sort == other.sort for one, other in product(a.old.quantities, a.new.quantities))
    is_single = a.trailed == 1 and not a.old.is_many and not has_values
    return is_single and a.frame >= 3 and a.left_old <= 1 and a.share_old > 0.5


def _is_other_matter(a: Alignment) -> bool:
    """Return True where both have words and values of their own: "scraped every 15 s", "now listens on port 9090"."""
    olds, news = ({each.sort for each in claim.quantities} for claim in (a.old, a.new))
    return bool(a.left_old and a.left_new and olds and news) and olds.isdisjoint(news)


def _is_same(olds: Sequence[Claim], news: Sequence[Claim], cosine: float, aligned: Sequence[Alignment]) -> bool:
    """Return True where two texts without a difference share words and meaning."""
    is_event = any(claim.is_event for claim in (*olds, *news))
    if cosine < (EQUAL_COSINE if is_event else ALIKE_COSINE) or not olds or not news:
        return cosine >= EQUAL_COSINE
    whole = align(together(olds), together(news))
    a = max(aligned, key=lambda each: each.frame, default=whole)
    if a.is_denied or any(each.differing or each.gone or each.narrows or each.is_open for each in (a, whole)):
        return False
    if cosine >= EQUAL_COSINE:
        return True
    return min(a.least_share, whole.least_share) >= ALIKE_SHARE and not a.places and not whole.places


def _why(rule: Rule, a: Alignment) -> str:
    """Say what differs, in the words of both."""
    if rule == "gone":
        return f'"{a.gone}" is said to hold no longer'
    if rule in ("value", "near"):
        old, new = a.differing[0]
        return f"{old.said.strip()} there, {new.said.strip()} here"
    if rule == "slot" and a.only_old and a.only_new:
        return f'"{_said(a.only_old)}" there, "{_said(a.only_new)}" here'
    return "one denies what the other says" if rule == "denied" else "the newer says that it changed"


def _said(terms: Sequence[Term]) -> str:
    return " ".join(term.said for term in terms)
