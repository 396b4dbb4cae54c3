"""A record's surroundings on its page: the contexts that named it, and its neighbours as a list beside a drawing.

The drawing is made here: the names that lead away from the record, each with its lines to rows of the list.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from mcp_memory.domain.model.contexts import ContextReport
from mcp_memory.entrypoints.page.wording import goal_in_words, reason_in_words, shortfall

if TYPE_CHECKING:
    from mcp_memory.domain.model.records import Instant, ShownDetail
    from mcp_memory.entrypoints.page.visits import Visit
    from mcp_memory.services.status.overview import Neighbour

CONTEXTS_SHOWN: Final = 10
NEAR_SHOWN: Final = 12
WIDTH: Final = 220
ROW: Final = 36
"""The height of a row of the list beside the drawing; screens.css says it in rem, of 16 each."""
_LEFT_END, _MIDDLE = 12, 44
_GAP, _CHARACTER = 12, 7.0
"""Room around a label, and for each of its characters, of which most are narrower."""
_LABEL_CHARACTERS: Final = 18

_GIVEN: Final[Mapping[ShownDetail, str]] = {
    "full": "Given in full",
    "passage": "Given in part",
    "summary": "Given as a summary",
    "micro": "Given in a few words",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class NamingContext:
    """A context that named the record: what became of it there, in words, the tokens it took, and the task's goal."""

    at: Instant
    report: ContextReport
    fate: str
    tokens: int = 0
    goal: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """A name in the drawing, by the height of its middle."""

    label: str
    y: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Drawing:
    """Names that lead to the first rows of a list, with lines to both as paths, in a field of that height."""

    rows: int
    height: int
    between: Sequence[Node]
    lines: Sequence[str]

    @property
    def middle(self) -> float:
        return self.height / 2


def contexts_naming(visit: Visit, record_id: str) -> Sequence[NamingContext]:
    """Return the latest contexts that gave the record, or considered it and left it out."""
    found = visit.app.accounts.naming(record_id, visit.caller, CONTEXTS_SHOWN, of_all=visit.visitor.is_owner)
    goals = {task.id: goal_in_words(task.goal) for task in visit.app.tasks.tree(visit.caller)} if found else {}
    fates = [fate for at, report in found if (fate := _fate(at, report, record_id))]
    return [replace(each, goal=goals.get(each.report.circumstances.task, "")) for each in fates]


def _fate(at: Instant, report: ContextReport, record_id: str) -> NamingContext | None:
    given = next((each for each in report.components if each.id == record_id), None)
    if given:
        return NamingContext(at=at, report=report, fate=_GIVEN[given.detail], tokens=given.tokens)
    omitted = next((each for each in report.omitted if each.id == record_id), None)
    if omitted is None:
        return None
    lacked = shortfall(omitted.reason, omitted.score, omitted.needed)
    why = reason_in_words(omitted.reason, report.circumstances.asked) + (f" ({lacked})" if lacked else "")
    return NamingContext(at=at, report=report, fate=f"Left out: {why}")


def in_rows(near: Sequence[Neighbour]) -> Sequence[Neighbour]:
    """Return neighbours in the order of their rows: those through one name together, and what is further away last."""
    names = [each.via[0] for each in near if each.via]
    return sorted(near, key=lambda each: (len(each.via) > 1, names.index(each.via[0]) if each.via else -1))


def drawing_of(rows: Sequence[Neighbour], goals: Mapping[str, str]) -> Drawing | None:
    """Draw the lines to the first of these rows: what is beside the record, or one thing away. None without any.

    `goals` are those of tasks between, by their ids.
    """
    within = [each for each in rows if len(each.via) <= 1]
    if not within:
        return None
    labels = list(dict.fromkeys(label for each in within for label in each.via))
    height = ROW * len(within)
    between = {
        label: Node(label=_cut(goals.get(label, label), _LABEL_CHARACTERS), y=height * (at + 0.5) / len(labels))
        for at, label in enumerate(labels)
    }
    lines = [_line(_LEFT_END, height / 2, _MIDDLE, node.y) for node in between.values()]
    for at, each in enumerate(within):
        x, y = _LEFT_END, height / 2
        if each.via:
            node = between[each.via[0]]
            x, y = _MIDDLE + _GAP + _CHARACTER * len(node.label), node.y
        lines.append(_line(x, y, WIDTH, ROW * (at + 0.5)))
    return Drawing(rows=len(within), height=height, between=[*between.values()], lines=lines)


def _line(x: float, y: float, to_x: float, to_y: float) -> str:
    half = (x + to_x) / 2
    return f"M{x:g},{y:g}C{half:g},{y:g} {half:g},{to_y:g} {to_x:g},{to_y:g}"


def _cut(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[: most - 1].rstrip()}…"
