"""The screen of health: how well the memory serves, in sentences with what to do, and what a check-up finds."""

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
class Sentence:
    """A figure in words, the advice where it is outside of its target, and the screen where that is done.

    It `is_early` where it is of too few cases for advice.
    """

    says: str
    target: str = ""
    is_early: bool = False
    advice: str = ""
    path: str = ""

    @property
    def is_off(self) -> bool:
        return bool(self.advice)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Reading:
    """The words for a figure: its sentence, and the advice and the screen where it is below or above its target.

    The sentence holds `{}` where the figure belongs, which is told in the unit of its target. `asks` is what is not
    known without it.
    """

    says: str
    asks: str
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
        says="What a context shows is {} relevant on average.",
        asks="how relevant contexts are",
        unit=_percent,
        below="Look at some contexts, and retire what is useless there. Mark as wrong only what is not true.",
        path="/contexts",
    ),
    "budget_utilisation": _Reading(
        says="Contexts fill {} of their budget on average.",
        asks="how full they are",
        unit=_percent,
        below="There is more room than there is to show: a smaller budget would cost agents less.",
        above="Contexts are full: raise the budget, or unpin what does not need to be in every one.",
        path="/contexts",
    ),
    "refresh_rate": _Reading(
        says="{} of follow-up questions needed a whole new context.",
        asks="how often a follow-up question needs a new context",
        unit=_percent,
        above="Agents change the question or the strategy within a conversation; each context says why it was rebuilt.",
        path="/contexts",
    ),
    "used_share": _Reading(
        says="Agents used {} of the memories that they judged.",
        asks="how useful agents find what they are given",
        unit=_percent,
        below="Retire what agents keep ignoring: it takes the place of something better.",
        path="/",
    ),
    "cold_build_ms": _Reading(
        says="A context is typically ready in {}.",
        asks="how long a context takes to build",
        unit=_milliseconds,
        above="The machine is busy, or the memory has grown: a check-up tells whether its indexes are intact.",
    ),
    "growth_7_days": _Reading(says="{} memories were stored in the last seven days.", asks="growth", unit=_number),
    "fact_confirmation_rate": _Reading(
        says="{} of the facts were met again after they were stored.",
        asks="how many facts are met again",
        unit=_percent,
        below="Much is stored that never comes up again: look through the newest, and retire what has no lasting use.",
        path="/?kind=fact",
    ),
    "brier_score": _Reading(
        says="How sure agents were of decisions misses how these turned out by {}; 0 is perfect, 0.25 is guessing.",
        asks="whether agents are as sure of decisions as they should be",
        unit=_score,
        above="Agents are too sure of their decisions, or not sure enough.",
        path="/?kind=decision",
    ),
}


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
    sentences = _sentences(status.memory.figures)
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
            sum(each.is_off for each in sentences) + len(failed) + bool(status.memory.waiting),
            is_judged=any(each.verdict for each in status.memory.figures),
        ),
        sentences=sentences,
        unknown=[
            reading.asks
            for each in status.memory.figures
            if each.value is None and (reading := _READINGS.get(each.name))
        ],
        unembedded=waiting,
        findings=findings,
        weeks=weeks,
        cost=cost,
        failed=failed,
    )


def _sentences(figures: Sequence[Figure]) -> Sequence[Sentence]:
    """Return what the figures say, without those not known yet: those off their targets first, early ones last."""
    told: list[Sentence] = []
    for figure in figures:
        reading = _READINGS.get(figure.name)
        if reading is None or figure.value is None:
            continue
        advice = {"below": reading.below, "above": reading.above}.get(figure.verdict or "", "")
        says = reading.says.format(reading.unit(round(figure.value, 3)))
        told.append(
            Sentence(
                says=says,
                target=_target(figure.name, reading.unit),
                is_early=figure.is_early,
                advice=advice,
                path=reading.path,
            )
        )
    return sorted(told, key=lambda each: (not each.is_off, each.is_early))


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
