"""Defines the sections of a context, a row each, in their order in the block."""

from collections.abc import Callable
from dataclasses import dataclass

from mcp_memory.domain.model.records import Kind, Record


@dataclass(frozen=True, slots=True, kw_only=True)
class Section:
    """A section: its title, the records that it shows, and its share of the budget.

    It shows the records of its `kinds` that `takes` accepts; services/context/build_items.py adds what is no record.
    `share` names a part of the budget. Strategies divide some; `always` is a part of the section's own, in tokens of a
    budget of 8,000; `standing` is one of what those leave, in percent.
    """

    title: str
    kinds: tuple[Kind, ...] = ()
    takes: Callable[[Record], bool] = lambda record: True
    share: str = ""
    always: int = 0
    standing: int = 0


SECTIONS = (
    Section(title="Identity", kinds=("identity",), share="identity", always=500),
    Section(title="Active Constraints", kinds=("censor",), share="censor", always=300),
    Section(title="Current Approach", share="approach", always=500),
    Section(title="Task"),
    Section(title="Last Exchange", share="exchange", standing=60),
    Section(title="Session Notes", share="session notes", standing=30),
    Section(title="Changed Since", share="since", standing=20),
    Section(title="Earlier Tasks", kinds=("result",), share="episodes"),
    Section(title="Current Focus", share="focus", always=700),
    Section(title="Relevant Past Decisions", kinds=("decision",), share="decisions"),
    Section(title="Known Information", kinds=("fact",), share="facts"),
    Section(title="Procedure", kinds=("procedure",), share="procedures"),
    Section(title="Applicable Patterns"),  # Several procedures.
    Section(title="Known Entities"),
    Section(title="Relationships"),
    Section(title="Relevant Content"),
    Section(title="Past Experience", kinds=("episode", "summary"), share="episodes"),
    Section(title="Recent Activity", kinds=("event", "message", "tool_call", "tool_result")),
    Section(title="Additional Context"),
    Section(title="Note"),
)
"""Stable ones first, so that a client's prompt cache survives."""
CONTEXT_TITLES = tuple(section.title for section in SECTIONS)


def section_of(record: Record, sections: tuple[Section, ...] = SECTIONS) -> Section:
    """Return the first section that shows the record."""
    return next(each for each in sections if record.kind in each.kinds and each.takes(record))
