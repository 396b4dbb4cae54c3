"""The screen of health: how well the memory serves, in numbers, what to do about it, and what a check-up finds."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from starlette.responses import Response

from mcp_memory.domain.model.health_figures import HEALTHY, USAGE_DAYS, Figure, conclusion
from mcp_memory.domain.model.lifecycle import DAY_SECONDS
from mcp_memory.domain.model.records import OUT_OF_SEARCH
from mcp_memory.domain.model.requests import RecallRequest
from mcp_memory.domain.model.tasks import worked_on
from mcp_memory.entrypoints.hooks.session_notes import KEPT_SECONDS, failed_hooks
from mcp_memory.entrypoints.page.listing import LASTING
from mcp_memory.entrypoints.page.visits import Screen, Visit
from mcp_memory.errors import NotFound

NAME: Final = "Health"
WEEKS: Final = 26
WEEK_SECONDS: Final = 7 * DAY_SECONDS
BLOCKS_COUNTED: Final = 100
LOGS_COUNTED: Final = 1_000
BAR_HEIGHT: Final = 100.0
_ALL: Final = RecallRequest(only_looks=True)
"""The records that lists of one kind show: all but those that were retired or are wrong."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Tile:
    """A figure as a number and a few words, "" where it is not known yet; its state in words, and that state's icon.

    `says` tells it in a sentence, beside its target; `advice` is what to do where it is outside of its target, and
    `path` the screen where that is done. It `is_early` where it is of too few cases for advice.
    """

    number: str
    words: str
    state: str
    sign: str
    says: str = ""
    target: str = ""
    is_early: bool = False
    advice: str = ""
    path: str = ""

    @property
    def is_off(self) -> bool:
        return bool(self.advice)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Reading:
    """The words for a figure: beside its number, in a sentence, and the advice and the screen where it is off target.

    The sentence holds `{}` where the figure belongs, which is told in the unit of its target.
    """

    words: str
    says: str
    unit: Callable[[float], str]
    below: str = ""
    above: str = ""
    path: str = ""


def _percent(value: float) -> str:
    return f"{100 * value:.0f} %"


def _milliseconds(value: float) -> str:
    return f"{value:,.0f} ms"


def _score(value: float) -> str:
    return f"{value:.2f}"


def _number(value: float) -> str:
    return f"{value:,.0f}"


_READINGS: Final[Mapping[str, _Reading]] = {
    "context_relevance": _Reading(
        words="relevant in contexts",
        says="What a context shows is {} relevant on average.",
        unit=_percent,
        below="Look at some contexts, and retire what is useless there. Mark as wrong only what is not true.",
        path="/contexts",
    ),
    "budget_utilisation": _Reading(
        words="of the budget filled",
        says="Contexts fill {} of their budget on average.",
        unit=_percent,
        below="There is more room than there is to show: a smaller budget would cost agents less.",
        above="Contexts are full: raise the budget, or unpin what does not need to be in every one.",
        path="/contexts",
    ),
    "refresh_rate": _Reading(
        words="of follow-ups needed a new context",
        says="{} of follow-up questions needed a whole new context.",
        unit=_percent,
        above="Agents change the question or the strategy within a conversation; each context says why it was rebuilt.",
        path="/contexts",
    ),
    "used_share": _Reading(
        words="of memories used",
        says="Agents used {} of the memories that they judged.",
        unit=_percent,
        below="Retire what agents keep ignoring: it takes the place of something better.",
        path="/",
    ),
    "cold_build_ms": _Reading(
        words="to build a context",
        says="A context is typically ready in {}.",
        unit=_milliseconds,
        above="The machine is busy, or the memory has grown: a check-up tells whether its indexes are intact.",
    ),
    "growth_7_days": _Reading(
        words="stored in 7 days", says="{} memories were stored in the last seven days.", unit=_number
    ),
    "fact_confirmation_rate": _Reading(
        words="of facts came up again",
        says="{} of the facts came up again after they were stored.",
        unit=_percent,
        below="Much is stored that never comes up again: look through the newest, and retire what has no lasting use.",
        path="/?kind=fact",
    ),
    "brier_score": _Reading(
        words="off in confidence; 0.25 is guessing",
        says="How sure agents were of decisions misses how these turned out by {}; 0 is perfect, 0.25 is guessing.",
        unit=_score,
        above="Agents are too sure of their decisions, or not sure enough.",
        path="/?kind=decision",
    ),
}


_STATES: Final[Mapping[str, tuple[str, str]]] = {
    "inside": ("good", "complete"),
    "below": ("too low", "failed"),
    "above": ("too high", "failed"),
}
"""The words for a verdict, and its icon."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Week:
    """A week of growth: its first day, the records that were stored in it, and its bar, in percent of the fullest."""

    begins: float
    stored: int
    height: float


def growth(visit: Visit) -> Sequence[Week]:
    """Return the last half year week by week, the present week last; nothing where nothing was stored in it."""
    begin = visit.now - WEEKS * WEEK_SECONDS
    stored = visit.app.inspect.stored_by_period(visit.caller, begin, WEEK_SECONDS)
    most = max(stored.values(), default=0)
    return [
        Week(
            begins=begin + number * WEEK_SECONDS,
            stored=stored.get(number, 0),
            height=BAR_HEIGHT * stored.get(number, 0) / most,
        )
        for number in range(WEEKS if most else 0)
    ]


def _cost(visit: Visit) -> tuple[int, int, int]:
    """Return the number of the latest blocks that were given, their mean number of tokens, and the highest."""
    given = visit.app.accounts.given(visit.caller, BLOCKS_COUNTED, of_all=visit.visitor.is_owner)
    tokens = [report.token_count for _, report in given]
    return len(tokens), round(sum(tokens) / max(len(tokens), 1)), max(tokens, default=0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Listed:
    """The numbers of what each screen lists: records by kind, those out of search by status, sessions, tasks."""

    kinds: Mapping[str, int]
    out_of_search: Mapping[str, int]
    logs: int
    worked_on: int


def _listed(visit: Visit) -> Listed:
    """Count what the links lead to, so that a list is as long as its link says."""
    out = {
        status: sum(
            visit.app.facets(replace(_ALL, kinds=LASTING, statuses=(status,)), visit.caller, "kind")["kind"].values()
        )
        for status in sorted(OUT_OF_SEARCH)
    }
    logs = visit.app.session_accounts.latest(visit.caller, LOGS_COUNTED, of_all=visit.visitor.is_owner)
    return Listed(
        kinds=visit.app.facets(_ALL, visit.caller, "kind")["kind"],
        out_of_search={status: count for status, count in out.items() if count},
        logs=len(logs),
        worked_on=len(worked_on(visit.app.tasks.tree(visit.caller))),
    )


def show_health(visit: Visit) -> Response:
    return _health_page(visit, None)


def examine(visit: Visit) -> Response:
    """Show what the check-up finds, which changes nothing. It covers every project: for the memory's owner alone."""
    if not visit.visitor.is_owner:
        raise NotFound("There is nothing at this address.")
    return _health_page(visit, [*visit.app.examine(repair=False)])


def _health_page(visit: Visit, findings: Sequence[object] | None) -> Response:
    visit.reads()  # Here: a check-up takes long, and reads at a revision of its own.
    status = visit.app.health(visit.caller, of_all=visit.visitor.is_owner)
    waiting = visit.app.reindex.queued() if visit.visitor.is_owner else 0
    weeks, cost, listed = growth(visit), _cost(visit), _listed(visit)
    tiles = _tiles(status.memory.figures)
    failed: Mapping[str, int] = {}
    if visit.visitor.is_owner:  # They are counted for the whole machine.
        failed = failed_hooks(visit.app.settings.data_dir, visit.now - KEPT_SECONDS)
    return visit.page(
        "health.html",
        here=NAME,
        counted=status.memory,
        index=status.index,
        days=USAGE_DAYS,
        listed=listed,
        conclusion=conclusion(
            [each.verdict for each in status.memory.figures], waiting=status.memory.waiting, failed_hooks=len(failed)
        ),
        tiles=tiles,
        unembedded=waiting,
        findings=findings,
        weeks=weeks,
        cost=cost,
        failed=failed,
    )


def _tiles(figures: Sequence[Figure]) -> Sequence[Tile]:
    """Return the figures that people read: those off their targets first, the early ones last."""
    told = [_tile(each, reading) for each in figures if (reading := _READINGS.get(each.name))]
    return sorted(told, key=lambda each: (not each.is_off, each.is_early))


def _tile(figure: Figure, reading: _Reading) -> Tile:
    if figure.value is None:
        return Tile(number="", words=reading.words, state="not known yet", sign="")
    number = reading.unit(round(figure.value, 3))
    state, sign = _STATES.get(figure.verdict or "", ("too few cases" if figure.is_early else "", ""))
    return Tile(
        number=number,
        words=reading.words,
        state=state,
        sign=sign,
        says=reading.says.format(number),
        target=_target(figure.name, reading.unit),
        is_early=figure.is_early,
        advice={"below": reading.below, "above": reading.above}.get(figure.verdict or "", ""),
        path=reading.path,
    )


def _target(name: str, unit: Callable[[float], str]) -> str:
    """Return the target of a figure in the unit that it is told in: "above 60 %"; "" without one."""
    band = HEALTHY.get(name)
    if band is None:
        return ""
    low, high = ("" if each is None else unit(each) for each in (band.low, band.high))
    return f"{low} to {high}" if low and high else f"above {low}" if low else f"below {high}"


SCREENS: Final = (
    Screen(path="/health", answer=show_health, title=NAME),
    Screen(path="/health/examined", answer=examine, changes=True, right="admin"),
)
