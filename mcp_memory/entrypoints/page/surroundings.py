"""A record's surroundings on its page: the contexts that named it, and its neighbours as a drawing and as a list.

The drawing is made here, of three columns: the record, what leads away from it, and the records that are reached.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from mcp_memory.domain.model.contexts import ContextReport
from mcp_memory.entrypoints.page.wording import reason_in_words

if TYPE_CHECKING:
    from mcp_memory.domain.model.records import Instant, ShownDetail
    from mcp_memory.entrypoints.page.visits import Visit
    from mcp_memory.services.status.overview import Neighbour

CONTEXTS_SHOWN: Final = 10
NEAR_SHOWN: Final = 12
MIDDLE_SHOWN: Final = 8
WIDTH: Final = 960
ROW: Final = 30
_LEFT_END, _MIDDLE, _RIGHT = 122, 250, 566
_GAP, _CHARACTER = 16, 8.0
"""Room around a label, and for each of its characters, of which most are narrower."""
_LABEL_CHARACTERS: Final = 26
_TEXT_CHARACTERS: Final = 46

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
    """A node of the drawing by the height of its middle; `id` and `kind` are a record's, "" of what lies between."""

    label: str
    y: float
    id: str = ""
    kind: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Drawing:
    """The nodes between and the records reached, with the lines among them as paths, in a field of that height."""

    height: int
    between: Sequence[Node]
    records: Sequence[Node]
    lines: Sequence[str]

    @property
    def middle(self) -> float:
        return self.height / 2


def contexts_naming(visit: Visit, record_id: str) -> Sequence[NamingContext]:
    """Return the latest contexts that gave the record, or considered it and left it out."""
    found = visit.app.accounts.naming(record_id, visit.caller, CONTEXTS_SHOWN, of_all=visit.visitor.is_owner)
    goals = {task.id: task.goal for task in visit.app.tasks.tree(visit.caller)} if found else {}
    fates = [fate for at, report in found if (fate := _fate(at, report, record_id))]
    return [replace(each, goal=goals.get(each.report.circumstances.task, "")) for each in fates]


def _fate(at: Instant, report: ContextReport, record_id: str) -> NamingContext | None:
    given = next((each for each in report.components if each.id == record_id), None)
    if given:
        return NamingContext(at=at, report=report, fate=_GIVEN[given.detail], tokens=given.tokens)
    reason = next((each.reason for each in report.omitted if each.id == record_id), "")
    why = reason_in_words(reason, report.circumstances.asked)
    return NamingContext(at=at, report=report, fate=f"Left out: {why}") if reason else None


def drawing_of(near: Sequence[Neighbour], goals: Mapping[str, str]) -> Drawing | None:
    """Draw the neighbours within two hops: those beside the record, and those one thing away. None without any.

    `goals` are those of tasks between, by their ids.
    """
    within = [each for each in near if len(each.via) <= 1]
    labels = list(dict.fromkeys(label for each in within for label in each.via))[:MIDDLE_SHOWN]
    shown = [each for each in within if not each.via or each.via[0] in labels]
    shown.sort(key=lambda each: labels.index(each.via[0]) if each.via else -1)
    if not shown:
        return None
    height = ROW * max(len(shown), len(labels), 2)
    between = [
        Node(label=_cut(goals.get(label, label), _LABEL_CHARACTERS), y=_place(at, len(labels), height))
        for at, label in enumerate(labels)
    ]
    records = [
        Node(label=_cut(each.text, _TEXT_CHARACTERS), y=_place(at, len(shown), height), id=each.id, kind=each.kind)
        for at, each in enumerate(shown)
    ]
    lines = [_line(_LEFT_END, height / 2, _MIDDLE, node.y) for node in between]
    for each, node in zip(shown, records, strict=True):
        x, y = _LEFT_END, height / 2
        if each.via:
            thing = between[labels.index(each.via[0])]
            x, y = _MIDDLE + _GAP + _CHARACTER * len(thing.label), thing.y
        lines.append(_line(x, y, _RIGHT, node.y))
    return Drawing(height=height, between=between, records=records, lines=lines)


def _place(at: int, number: int, height: float) -> float:
    return height * (at + 0.5) / number


def _line(x: float, y: float, to_x: float, to_y: float) -> str:
    half = (x + to_x) / 2
    return f"M{x:g},{y:g}C{half:g},{y:g} {half:g},{to_y:g} {to_x:g},{to_y:g}"


def _cut(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[: most - 1].rstrip()}…"
