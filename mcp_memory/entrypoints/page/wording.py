"""Words for people: why a context left something out, what weighed in a score, where a line came from.

Reports keep the words of the services, which are short and stable; what this does not know is shown as it is kept.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final

from mcp_memory.domain.memory.erased_text import is_all_erased
from mcp_memory.domain.model.counted_nouns import counted
from mcp_memory.domain.model.ids import number_of
from mcp_memory.domain.model.kind_words import kind_in_words
from mcp_memory.domain.model.tasks import ERASED

if TYPE_CHECKING:
    from mcp_memory.domain.model.contexts import Component
    from mcp_memory.domain.model.records import Status

_TOO_FAR: Final = "below the relevance floor"
_UNLIKELY: Final = "less likely to help than so small a block asks for"
_FOUND: Final = "recall"
_REASONS: Final[Mapping[str, str]] = {
    _TOO_FAR: "too far from the question",
    "no room in the budget": "no room left in the budget",
    "pinned, but no room in the budget": "pinned, but no room left in the budget",
    "no room in its part of the budget": "no room in its section’s part of the budget",
    _UNLIKELY: "too unlikely to help",
    "more of its kind than are looked at": "too many of this kind to look at all of them",
    "does not apply here": "about other work",
    "shown already": "the agent already had it",
    "shown as a task": "shown as the result of its task",
    "never here, as a person said": "a person keeps it out of contexts here",
    "more tasks in memory://tasks": "more tasks than are shown",
    "another agent's, which the settings leave out": "another agent’s, which the settings leave out",
    "the memory's own traffic": "a call to this memory, or its answer",
    "failed, which the strategy leaves out": "failed, and the strategy leaves out failures",
}
_LIKE: Final = (
    (re.compile(r"says the same as (\S+)"), r"says the same as \1, which scored higher"),
    (re.compile(r"superseded by (\S+)"), r"replaced by \1"),
)
"""Reasons that name something: "says the same as r00001a"."""
# e.g. "no episodes under this strategy"
_NO_KIND: Final = re.compile(r"no (\w+)s under this strategy")
_CONTRADICTS: Final = "The first may contradict: "
_SIGNALS: Final[Mapping[str, str]] = {
    "cosine": "closeness in meaning",
    "kind": "its kind",
    "recency": "how recent it is",
    "salience": "its general weight",
    "outcome": "how it went",
    "usage": "how often it helped",
    "access": "how often it is opened",
    "confidence": "how sure it is",
    "lifecycle": "how well established it is",
    "balanced": "importance and age",
    "past": "not true at present",
}
_SOURCES: Final[Mapping[str, str]] = {
    _FOUND: "found by the question",
    "recent": "among the newest",
    "balanced": "important or new",
    "importance": "among the most important",
    "access": "opened lately",
    "accessed": "opened lately",
    "occurred": "among the newest",
    "pinned": "pinned",
    "inherited": "handed down by the task above",
    "exchange": "said last",
    "since": "changed since the last exchange",
    "caller": "given by the caller",
}
_NOTES: Final[Mapping[str, str]] = {
    "note": "How sure decisions were, and how they went",
    "news": "What somebody else did to a task of this agent",
    "retired": "Which records were retired since the last exchange",
    "censors": "How many more guardrails there are, for other work",
    "nothing": "That the memory holds nothing about this",
    "notice": "A notice about this memory",
}
"""Lines without a record, by the beginning of their id; their words are not kept."""
_DETAILS: Final[Mapping[str, str]] = {"micro": "in a few words", "summary": "as a summary", "passage": "in part"}
PROMOTES: Final[Mapping[Status, str]] = {
    "core": "Make it a core fact, which weighs more in contexts.",
}
_PROMOTED: Final = "Make it count beyond its session, which alone sees it now."


def reason_in_words(reason: str, asked: bool | None = None) -> str:
    """Return why something was left out, as a clause: "too far from the question".

    `asked` is False where there was no question, and the goal of the task was searched by.
    """
    if reason == _TOO_FAR and asked is False:
        return "too far from the task’s goal"
    if found := _NO_KIND.fullmatch(reason):
        return f"this strategy leaves out every {kind_in_words(found[1])}"
    for pattern, words in _LIKE:
        if found := pattern.fullmatch(reason):
            return found.expand(words)
    return _REASONS.get(reason, reason)


def shortfall(reason: str, score: float | None, needed: float | None) -> str:
    """Return how much something lacked that was left out: "12 % likely, 15 % was needed"; "" where that is unknown.

    `score` and `needed` are those of its omission.
    """
    if score is None:
        return ""
    if reason == _UNLIKELY:
        return f"{score * 100:.0f} % likely" + (f", {needed * 100:.0f} % was needed" if needed is not None else "")
    return f"relevance {score:.2f}" + (f", at least {needed:.2f} was needed" if needed is not None else "")


def goal_in_words(goal: str) -> str:
    """Return a task's goal; of one that went with an erasure, that it did."""
    return "(its goal was erased)" if _is_erased(goal) else goal


def result_in_words(result: str) -> str:
    """Return a task's result; of one that went with an erasure, that it did."""
    return "(it was erased)" if _is_erased(result) else result


def _is_erased(text: str) -> bool:
    return text == ERASED or is_all_erased(text)


def signal_in_words(name: str) -> str:
    return _SIGNALS.get(name, name.replace("_", " "))


def source_in_words(source: str, asked: bool | None = None) -> str:
    """Return where a line came from; `asked` as in `reason_in_words`."""
    if source == _FOUND and asked is False:
        return "found by the task’s goal"
    return _SOURCES.get(source, f"from {source}")


def detail_in_words(detail: str) -> str:
    return _DETAILS.get(detail, detail)


def line_in_words(component: Component) -> str:
    """Return what a line without a record says: its own words, which a block that was given does not keep."""
    if component.text:
        return component.text.strip().removeprefix("- ")
    if component.kind == "strategy":
        return f"How to go about it, by the strategy {component.id.partition(':')[2]}"
    if component.kind == "text":
        return f"What the caller added: {component.id}"
    return _NOTES.get(component.id.partition(":")[0], component.kind)


def why_in_words(why: str, record_ids: Sequence[str] = ()) -> str:
    """Return why a group waits, without what its title says already: which of its records says what.

    `"30" there, "60" here` becomes `"60" in the first, "30" in the second`, by ids where there are more than two.
    """
    said = why.removeprefix(_CONTRADICTS)
    if said != why:
        names = ("the first", "the second") if len(record_ids) == 2 else record_ids
        parts = said.removesuffix(".").split("; ")
        told = [_by_record(part, names[0], other) for part, other in zip(parts, names[1:], strict=False)]
        said = f"{'; '.join([*told, *parts[len(told) :]])}."
    return said if number_of(said.partition(" ")[0]) else said[:1].upper() + said[1:]


def _by_record(why: str, here: str, there: str) -> str:
    old, _, new = why.removesuffix(" here").rpartition(" there, ")  # '"30" there, "60" here'
    return f"{new} in {here}, {old} in {there}" if old else why


def promotion_in_words(status: Status) -> str:
    """Return what a promotion to that status means."""
    return PROMOTES.get(status, _PROMOTED)


def times(number: int) -> str:
    """Return how often: "once", "twice", "1,204 times"."""
    return {1: "once", 2: "twice"}.get(number, f"{number:,} times")


def counted_kind(kind: str, number: int) -> str:
    """Return a number of records of a kind: "1 fact", "21 facts", "2 summaries"."""
    return counted(number, kind_in_words(kind))


def way_in_words(way: str) -> str:
    """Return how a request came in: "the tool recall", "the page at /record/{id}"."""
    kind, _, name = way.partition(" ")
    return f"the page at {name}" if kind == "page" else f"the {way}"
