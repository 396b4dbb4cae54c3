"""The screens of contexts: every block that was given, one of them line by line, and what would be given."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

from starlette.responses import Response

from mcp_memory.domain.model.context_sections import CONTEXT_TITLES
from mcp_memory.domain.model.contexts import Component, ContextReport, Exclusion
from mcp_memory.domain.model.ids import TASK
from mcp_memory.domain.model.records import KINDS
from mcp_memory.domain.model.requests import ContextRequest
from mcp_memory.domain.model.tasks import NOWHERE, path_to, worked_on_by
from mcp_memory.entrypoints.page.agents import known_agents
from mcp_memory.entrypoints.page.rendering import BarPart, bar_of
from mcp_memory.entrypoints.page.visits import Screen, Visit, checked_id
from mcp_memory.entrypoints.page.wording import goal_in_words
from mcp_memory.errors import InvalidRequest, NotFound
from mcp_memory.services.access.served_requests import gave
from mcp_memory.services.status.context_account import OMITTED_SHOWN, Account, AccountLine

if TYPE_CHECKING:
    from mcp_memory.domain.model.records import Record
    from mcp_memory.services.context.assemble import Context

NAME: Final = "Contexts"
PAGE_CONTEXTS: Final = 30
MOST_TOKENS: Final = 128_000
MAX_GOAL: Final = 4_000
MAX_MOMENT: Final = 200
FIRST_SHOWN: Final = 2
"""Records of a block that the list names, so that blocks can be told apart."""
TELLING: Final = frozenset(KINDS) - {"identity", "censor"}
"""Kinds that differ from block to block; guidance is in each of them."""
LEAST_PART: Final = 0.005
"""A smaller part of a score is shown with the others of its size, as it would read "0.00"."""
TASKS_SHOWN: Final = 50
FRAME: Final = "Headings and markup"
TONES: Final[Mapping[str, int]] = {title: tone for tone, title in enumerate((*CONTEXT_TITLES, FRAME))}
"""The colour of each section, the same in every context."""
NO_TASK: Final = "none"
"""The choice of no task at all, in an address."""
LATEST_LOOKED_AT: Final = 20
"""Blocks of an agent that are looked at for its usual budget, as reminders have one of their own."""
_NO_PLACES: Final[Mapping[str, Any]] = {"agents": (), "open_tasks": (), "in_task": "", "now_in": None}
"""Choices of a form that asks again for a block: its agent is known, and its place is where that is now."""
_CONTEXT_ID = re.compile(r"c[0-9a-z]{4,40}")  # "c0f4b6a5d1e"


@dataclass(frozen=True, slots=True, kw_only=True)
class ListedContext:
    """A given block in the list: when, the goal of its task, what it shows first, and its sections as a bar."""

    at: float
    report: ContextReport
    goal: str
    first: Sequence[Record]
    bar: Sequence[BarPart]


@dataclass(frozen=True, slots=True, kw_only=True)
class ScoreParts:
    """A score's parts for a person: the large ones by name, and of the others their number and their sum."""

    large: Sequence[tuple[str, float]]
    smaller: int
    rest: float


def score_parts(component: Component) -> ScoreParts:
    """Return the parts of a score, the largest first; together they are the score."""
    parts = sorted(component.parts.items(), key=lambda each: -each[1])
    large = [each for each in parts if abs(each[1]) >= LEAST_PART]
    small = [part for _, part in parts if part and abs(part) < LEAST_PART]
    return ScoreParts(large=large, smaller=len(small), rest=sum(small))


def show_contexts(visit: Visit) -> Response:
    """Show the contexts of every agent that the visitor may look at, or of the one that the address names."""
    before = visit.position(_CONTEXT_ID)
    of_all = visit.visitor.is_owner and not visit.asked("of")
    found = visit.app.accounts.given(visit.reader, PAGE_CONTEXTS + 1, before, of_all=of_all)
    shown = found[:PAGE_CONTEXTS]
    last = shown[-1] if len(found) > PAGE_CONTEXTS else None
    return visit.page(
        "contexts.html",
        here=NAME,
        contexts=_listed(visit, shown),
        of_all=of_all,
        has_reads=visit.app.reads.days > 0,
        next_page=visit.further(last[0], last[1].id) if last else "",
        **_asking(visit),
        **_places(visit),
    )


def _places(visit: Visit) -> dict[str, Any]:
    """Return the agents and the open tasks to choose from: whose block, and in which task; and where that agent is."""
    tree = visit.app.tasks.tree(visit.caller)
    tasks = [each for each in tree if not each.is_finished]
    latest = sorted(tasks, key=lambda each: -each.updated_at)[:TASKS_SHOWN]
    chosen = visit.asked("task")
    return {
        "agents": dict.fromkeys([*known_agents(visit), visit.reader.agent]) if visit.visitor.is_owner else (),
        "open_tasks": [*latest, *(each for each in tasks if each.id == chosen and each not in latest)],
        "in_task": chosen,
        "now_in": worked_on_by(visit.reader.agent, tree),
    }


def _assembled(visit: Visit, request: ContextRequest) -> Context:
    """Assemble the block that is asked for: in the task that the address names, in none, or where the agent is."""
    chosen, reader = visit.asked("task"), visit.reader
    now_in = None if chosen else worked_on_by(reader.agent, visit.app.tasks.tree(visit.caller))
    task_id = now_in.id if now_in else checked_id(chosen, TASK) if chosen not in ("", NO_TASK) else None
    request = replace(request, task_id=task_id)
    return visit.app.assemble_context(request, reader if task_id else replace(reader, window=NOWHERE))


def _listed(visit: Visit, contexts: Sequence[tuple[float, ContextReport]]) -> Sequence[ListedContext]:
    """Tell blocks apart by what may be kept of them: no report holds its question, which may say erased words."""
    tasks = {task.id: goal_in_words(task.goal) for task in visit.app.tasks.tree(visit.caller)}
    telling = {report.id: [each.id for each in _telling(report)] for _, report in contexts}
    seen: dict[str, Mapping[str, Record]] = {}
    for agent in {_agent_of(report, visit) for _, report in contexts}:
        ids = [each for _, report in contexts if _agent_of(report, visit) == agent for each in telling[report.id]]
        seen[agent] = visit.app.inspect.seen_of(ids, replace(visit.caller, agent=agent))
        gave(seen[agent])  # The list shows their words without a link to them.
    return [
        ListedContext(
            at=at,
            report=report,
            goal=tasks.get(report.circumstances.task, ""),
            first=[there[each] for each in telling[report.id] if each in (there := seen[_agent_of(report, visit)])],
            bar=_outline(report),
        )
        for at, report in contexts
    ]


def _telling(report: ContextReport) -> Sequence[Component]:
    """Return the records of a block that were weighed highest, without those that are in every block."""
    telling = [each for each in report.components if each.kind in TELLING]
    return sorted(telling, key=lambda each: -each.score)[:FIRST_SHOWN]


def _agent_of(report: ContextReport, visit: Visit) -> str:
    return report.circumstances.agent or visit.caller.agent


def show_context(visit: Visit) -> Response:
    context_id, first = _context_id(visit), visit.asked_number("from", 0)
    account = visit.app.accounts(context_id, visit.reader, first)
    after = first + OMITTED_SHOWN
    [listed] = _listed(visit, [(account.report.circumstances.at or 0.0, account.report)])
    return visit.page(
        "context.html",
        here=NAME,
        account=account,
        listed=listed,
        bar=_bar(account),
        top=_top(account),
        next_left_out=visit.with_fields(**{"from": str(after)}) if after < len(account.report.omitted) else "",
        block="",
        kept_out=_kept_out(visit, account),
        **_asking(visit),
        **_NO_PLACES,
    )


def show_what_would_be_given(visit: Visit) -> Response:
    """Assemble a block that nobody reads but the person: it leaves no report, and counts for nothing.

    As the agent that is chosen, and in the task that is chosen, where nobody goes by that.
    """
    reader, request = visit.reader, _request(visit)
    context = _assembled(visit, request)
    asked = bool(request.query.strip())
    told = {**context.report.metadata, "agent": reader.agent, "budget": request.max_tokens, "asked": asked}
    report = replace(context.report, metadata=told)
    account = visit.app.accounts.told(report, reader)
    shown: dict[str, Any] = {
        "account": account,
        "bar": _bar(account),
        "top": _top(account),
        "next_left_out": "",
        "block": context.text,
        "kept_out": {},
    }
    return visit.page("context.html", here=NAME, **shown, **_asking(visit, request.max_tokens), **_places(visit))


def ask_again(visit: Visit) -> Response:
    """Compare a block that was given with the one that would be given now."""
    reader = visit.reader
    given = visit.app.accounts(_context_id(visit), reader)
    request = _request(visit)
    context = _assembled(visit, request)
    now = visit.app.accounts.told(context.report, reader)
    before, after = _lines(given), _lines(now)
    known, wanted = {line.component.id for line in before}, {line.component.id for line in after}
    return visit.page(
        "again.html",
        here=NAME,
        given=given,
        now_given=now,
        added=[line for line in after if line.component.id not in known],
        gone=[line for line in before if line.component.id not in wanted],
        both=[line for line in after if line.component.id in known],
        reasons={each.id: each.reason for each in context.report.omitted},
        block=context.text,
        kept_out=_kept_out(visit, given),
        **_asking(visit, request.max_tokens),
        **_NO_PLACES,
    )


def _kept_out(visit: Visit, account: Account) -> Mapping[str, Sequence[Exclusion]]:
    """Return the records of a block that are kept out where it was given, with what the visitor may take back there."""
    agent = _agent_of(account.report, visit)
    tasks = [each.id for each in path_to(account.report.circumstances.task, visit.app.tasks.tree(visit.caller))]
    excluded = visit.app.exclusions.excluded(visit.caller.namespace, tasks, agent)
    return {
        record_id: [
            each
            for each in visit.app.exclusions.of(record_id, visit.caller)
            if each.task_id in tasks or each.agent == agent
        ]
        for line in _lines(account)
        if (record_id := line.component.id) in excluded
    }


def exclude(visit: Visit) -> Response:
    """Give a record no more in contexts of a task, or else of an agent."""
    change = visit.app.exclusions.exclude(visit.record_id(), visit.caller, *_whose(visit))
    return _excluded(visit, "excluded", change)


def include(visit: Visit) -> Response:
    change = visit.app.exclusions.include(visit.record_id(), visit.caller, *_whose(visit))
    return _excluded(visit, "included", change)


def _whose(visit: Visit) -> tuple[str, str]:
    """Return the task of the form, or else the agent."""
    task_id = visit.given("task") or ""
    return checked_id(task_id, TASK) if task_id else "", visit.given("agent") or ""


def _excluded(visit: Visit, done: str, change: int) -> Response:
    back = visit.back(f"/record/{visit.record_id()}")
    return visit.see(back, done=done, change=change) if change else visit.see(back, done="unchanged")


def _lines(account: Account) -> Sequence[AccountLine]:
    return [line for section in account.sections for line in section.lines]


def _request(visit: Visit) -> ContextRequest:
    goal, strategy = visit.asked("goal"), visit.asked("strategy")
    if len(goal) > MAX_GOAL:
        raise InvalidRequest("The goal is too long; say it in fewer words.")
    budget = _asked_budget(visit)
    if not 64 <= budget <= MOST_TOKENS:
        raise InvalidRequest(f"The budget must be 64 to {MOST_TOKENS:,} tokens.")
    as_of = visit.asked("as_of")
    if len(as_of) > MAX_MOMENT:
        raise InvalidRequest('The moment is too long; say it as in "last Monday".')
    return ContextRequest(
        query=goal, max_tokens=budget, strategy=strategy or None, as_of=as_of or None, only_looks=True
    )


def _asked_budget(visit: Visit) -> int:
    """Return the budget of the address, else that of the reader's latest block, else what is set."""
    if visit.asked("budget"):
        return visit.asked_number("budget", visit.app.settings.max_tokens)
    given = visit.app.accounts.given(visit.reader, LATEST_LOOKED_AT)
    budgets = (report.circumstances.budget for _, report in given if report.strategy != "reminder")
    return min(next((each for each in budgets if each), visit.app.settings.max_tokens), MOST_TOKENS)


def _asking(visit: Visit, budget: int | None = None) -> dict[str, Any]:
    """Return what the form needs that asks what would be given; `budget` where that is known already."""
    from mcp_memory.strategies import read_strategies

    return {
        "strategies": sorted(read_strategies(visit.app.settings.strategies_file)),
        "goal": visit.asked("goal"),
        "of": visit.asked("of"),
        "budget": visit.asked("budget") or budget or _asked_budget(visit),
        "most_tokens": MOST_TOKENS,
        "strategy": visit.asked("strategy"),
        "as_of": visit.asked("as_of"),
        "score_parts": score_parts,
        "tones": TONES,
    }


def _bar(account: Account) -> Sequence[BarPart]:
    """Return the sections as parts of the budget, then the headings and the fence; what remains was not used.

    The parts add up to the block's tokens.
    """
    report = account.report
    told = [(section.title, section.tokens) for section in account.sections]
    frame = report.token_count - sum(tokens for _, tokens in told)
    return bar_of([*told, (FRAME, frame)], max(report.circumstances.budget, report.token_count), TONES)


def _top(account: Account) -> float:
    """Return the highest score of a line that was weighed, beside which the others are drawn; 0 without any."""
    weighed = (line.component for line in _lines(account) if line.component.parts)
    return max((each.score for each in weighed), default=0.0)


def _outline(report: ContextReport) -> Sequence[BarPart]:
    """Return the sections of a context by what its lines were weighed with, without looking at its records."""
    tokens = dict.fromkeys(CONTEXT_TITLES, 0)
    for each in report.components:
        tokens[each.section if each.section in tokens else CONTEXT_TITLES[-1]] += each.tokens
    return bar_of(tokens.items(), max(report.circumstances.budget, sum(tokens.values())), TONES)


def _context_id(visit: Visit) -> str:
    context_id = visit.parts["id"]
    if not _CONTEXT_ID.fullmatch(context_id):
        raise NotFound("There is nothing at this address.")
    return context_id


SCREENS: Final = (
    Screen(path="/contexts", answer=show_contexts, title=NAME),
    Screen(path="/contexts/would", answer=show_what_would_be_given),
    Screen(path="/context/{id}", answer=show_context),
    Screen(path="/context/{id}/again", answer=ask_again),
    Screen(path="/record/{id}/excluded", answer=exclude, changes=True),
    Screen(path="/record/{id}/included", answer=include, changes=True),
)
