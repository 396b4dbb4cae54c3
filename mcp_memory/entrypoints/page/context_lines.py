"""Reads the lines of a context for people: their words, their reasons, and the short words for their sections.

A line itself is for agents: `- [r00002h 11-29 by codex] **WARN:** when deploying — Ask Ines first. Because: …`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from mcp_memory.domain.context.rendering import BECAUSE, REASONED

MARKERS: Final = 1_000
"""Characters at the end of a line among which its markers are looked for."""
_SECTIONS: Final[Mapping[str, str]] = {
    "Identity": "Preferences",
    "Active Constraints": "Guardrails",
    "Current Approach": "Approach",
    "Relevant Past Decisions": "Decisions",
    "Known Information": "Facts",
    "Procedure": "Procedures",
    "Applicable Patterns": "Procedures",
    "Known Entities": "Names",
    "Relevant Content": "Content",
    "Past Experience": "Events",
    "Additional Context": "Other",
}
"""The short word for a section of a context, where its title for agents is longer or another."""
# "- [r00001a 11-03 by ann] ", "- dead end (failed) [t00005g]: ", "- [t00001w open, ann since 10:12] "
_LABEL = re.compile(
    r"- (?:(?P<part>[a-z]+(?: [a-z]+)?)(?: \((?P<end>[a-z]+)\))? )?\[(?P<id>\w+)(?P<about>[^\]\n]{0,200})\]:? "
)
_STATE = re.compile(r" (?P<state>[a-z]+)(?:, (?P<who>.+))?")  # " open, ann since 10:12"
# "**WARN:** when deploying — "
_EFFECT = re.compile(r"\*\*(?P<effect>WARN|BLOCK):\*\* (?:(?P<when>when .{1,400}?) — )?")
# " (75 % sure) (until 2026-03-31)"
_SURE = re.compile(r" \((?P<sure>\d{1,3} % sure)\)(?P<rest>(?: \([^()\n]{1,400}\))*)\Z")
_TIE = re.compile(r" --\[(.{1,80}?)\]--> ")  # "Ada --[leads]--> Babbage"
_EFFECTS: Final[Mapping[str, str]] = {"WARN": "warns", "BLOCK": "blocks"}
_SIGNS: Final[Mapping[str, str]] = {
    "now": "active", "next": "planned", "open": "active", "done": "complete", "blocked": "blocked", "failed": "failed",
    "abandoned": "abandoned",
}  # fmt: skip
"""The icons of a task's part or state, where it has one of its own."""


@dataclass(frozen=True, slots=True, kw_only=True)
class QuietLine:
    """A line without the marks that agents read.

    `part` is the one that a task plays ("goal", "dead end"), with the name of its icon as `sign`; both are ""
    for anything else. `because` is a reason, `asides` are short phrases ("75 % sure"), the first of them first.
    """

    words: str
    part: str = ""
    sign: str = ""
    because: str = ""
    asides: Sequence[str] = ()


def section_in_words(title: str) -> str:
    """Return the word for people of a section: "Guardrails" for "Active Constraints"; another title as it is."""
    return _SECTIONS.get(title, title)


def quiet(line: str, kind: str) -> QuietLine:
    """Return a line of a context as people read it; `kind` is that of its component."""
    label = _LABEL.match(line)
    words = line[label.end() :] if label else line.removeprefix("- ")
    if kind == "task":
        return _of_task(words, label)
    asides: list[str] = []
    if sure := _SURE.search(words, max(len(words) - MARKERS, 0)):
        asides.append(sure["sure"])
        words = words[: sure.start()] + sure["rest"]
    if kind == "censor" and (found := _EFFECT.match(words)):
        asides.insert(0, f"{_EFFECTS[found['effect']]} {found['when'] or ''}".strip())
        words = words[found.end() :]
    why = ""
    if kind in REASONED and BECAUSE in words:
        words, _, why = words.rpartition(BECAUSE)
    if kind == "relation":
        words = _TIE.sub(r" \1 ", words, count=1)
    return QuietLine(words=words, because=why, asides=asides)


def _of_task(words: str, label: re.Match[str] | None) -> QuietLine:
    """Return the line of a task, whose label says its part in the plan, or else its state and who is in it."""
    if label is None:
        return QuietLine(words=words)
    part, about = label["part"], label["about"]
    if not part and (state := _STATE.fullmatch(about)):
        part, about = state["state"], state["who"] or ""
    sign = _SIGNS.get(label["end"] or part or "", "task")
    return QuietLine(words=words, part=part or "", sign=sign, asides=[about.strip()] * bool(about))
