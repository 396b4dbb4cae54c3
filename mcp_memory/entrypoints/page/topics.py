"""The screen of topics: names that records mention together, drawn and as a list; and the path between two things.

The drawing is made here: beside the list of names an arc for each two that records mention together.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from starlette.responses import Response

from mcp_memory.domain.model.requests import RecallRequest
from mcp_memory.entrypoints.page.listing import LASTING, MAX_FIELD
from mcp_memory.entrypoints.page.visits import Screen, Visit
from mcp_memory.errors import InvalidRequest, NotFound

if TYPE_CHECKING:
    from mcp_memory.domain.model.records import Record
    from mcp_memory.services.status.overview import Topic

TOPICS_SHOWN: Final = 12
NAMES_SHOWN: Final = 8
ROW: Final = 28
_AXIS: Final = 106
"""The place of the names' dots; the widest arc reaches from there to the left edge."""
_WIDEST: Final = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class NameRow:
    """A name of a topic, and with which others how many records mention it."""

    name: str
    beside: Sequence[tuple[str, int]]


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicDrawing:
    """A topic as it is drawn: its names, and the arcs among them as paths, each with its width."""

    names: Sequence[NameRow]
    more: int
    arcs: Sequence[tuple[str, float]]

    @property
    def height(self) -> int:
        return ROW * len(self.names)


@dataclass(frozen=True, slots=True, kw_only=True)
class PathStep:
    """A step of a path: a name, or the id of a record that ties the names beside it."""

    text: str
    record: Record | None = None


def show_topics(visit: Visit) -> Response:
    ends = visit.asked("from")[:MAX_FIELD], visit.asked("to")[:MAX_FIELD]
    path, said = _path(visit, *ends)
    topics = [drawn_topic(each) for each in visit.app.inspect.topics(visit.caller, TOPICS_SHOWN, NAMES_SHOWN)]
    tags = {} if topics else visit.app.facets(RecallRequest(kinds=LASTING), visit.caller, "tag")["tag"]
    return visit.page("topics.html", here="Memories", topics=topics, tags=tags, ends=ends, path=path, said=said)


def _path(visit: Visit, one: str, other: str) -> tuple[Sequence[PathStep], str]:
    """Return the path between the two things that the address names, or why there is none; neither for one alone."""
    if not (one and other):
        return (), ""
    try:
        tie, records = visit.app.inspect.path(one, other, visit.caller)
    except (NotFound, InvalidRequest) as error:
        return (), str(error)
    steps = [PathStep(text=name, record=records.get(name) if kind == "record" else None) for kind, name in tie.nodes]
    return steps, ""


def drawn_topic(topic: Topic) -> TopicDrawing:
    """Draw a topic; the arc of the two names that most records mention together is the widest."""
    places = {name: at for at, name in enumerate(topic.names)}
    most = max((count for *_, count in topic.together), default=1)
    arcs = [
        (_arc(places[one], places[other], len(places)), round(1 + (_WIDEST - 1) * count / most, 1))
        for one, other, count in topic.together
    ]
    rows = [NameRow(name=name, beside=_beside(topic, name)) for name in topic.names]
    return TopicDrawing(names=rows, more=topic.more, arcs=arcs)


def _beside(topic: Topic, name: str) -> Sequence[tuple[str, int]]:
    """Return the names that records mention together with this one, with their number, the most first."""
    pairs = [(other if name == one else one, count) for one, other, count in topic.together if name in (one, other)]
    return sorted(pairs, key=lambda pair: (-pair[1], pair[0]))


def _height(place: int) -> float:
    return ROW * (place + 0.5)


def _arc(one: int, other: int, names: int) -> str:
    """Return the path of an arc beside the names at these places: the farther apart, the wider it swings."""
    out = _AXIS - 12 - (_AXIS - 16) * abs(one - other) / max(names - 1, 1)
    return f"M{_AXIS},{_height(one):g}C{out:g},{_height(one):g} {out:g},{_height(other):g} {_AXIS},{_height(other):g}"


SCREENS: Final = (Screen(path="/topics", answer=show_topics),)
