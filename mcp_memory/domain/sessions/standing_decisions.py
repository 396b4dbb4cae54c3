"""Leaves of decisions those that hold: one that takes another back stands in its place, and says so.

By what both are about: the words that they share, beside words of who takes something back. In doubt both stay.
"""

from collections.abc import Iterable

from mcp_memory.domain.sessions.sentence_sections import takes_back
from mcp_memory.domain.sessions.tool_lines import one_line
from mcp_memory.domain.text.conflicts import otherwise
from mcp_memory.domain.text.lexicon import FOREIGN, STOP_WORDS
from mcp_memory.domain.text.segments import sentences_of
from mcp_memory.domain.text.statements import decides
from mcp_memory.domain.text.words import text_stems

LEAST_SHARED, SHARED = 2, 0.4
"""Words that a decision must share with the one that it takes back; and their share of what is no plain decision."""
FORMER_CHARACTERS = 80
ASKED, FORMER = " (on: ", " (no longer: "
"""These words open the proposal that a decision answers, and the decision that it replaces."""


def standing(decisions: Iterable[str], before: Iterable[str] = ()) -> tuple[str, ...]:
    """Return the decisions that hold, in their order: a later one that takes an earlier one back replaces it.

    Those `before` have been looked through already.
    """
    kept = [*before]
    for each in decisions:
        former = _taken_back_by(each, kept)
        if former is None:
            kept.append(each)
            continue
        kept.remove(former)
        own = former.partition(ASKED)[0].partition(FORMER)[0]
        kept.append(each if FORMER in each else f"{each}{FORMER}{one_line(own, FORMER_CHARACTERS)})")
    return tuple(kept)


def _taken_back_by(decision: str, earlier: Iterable[str]) -> str | None:
    """Return the earlier decision that this one is most about, where it takes it back; None where it takes none."""
    own = decision.partition(FORMER)[0].partition(ASKED)[0]
    said = [_content(sentence) for sentence in sentences_of(own) if takes_back(sentence)]
    best, most = None, LEAST_SHARED - 1
    for other in earlier:
        former = other.partition(FORMER)[0]
        chosen = former.partition(ASKED)[0]
        if otherwise(chosen, own):
            return other
        words = _content(former)
        shared = max((len(words & each) for each in said), default=0)
        is_about = decides(chosen) or shared >= SHARED * len(_content(chosen))
        if not is_about:
            continue
        if shared > most or (best and shared == most):
            best, most = other, shared
    return best


def _content(text: str) -> frozenset[str]:
    return frozenset(text_stems(text)) - STOP_WORDS - FOREIGN
