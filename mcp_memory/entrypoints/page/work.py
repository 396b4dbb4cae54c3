"""The screens of work: the task tree, who is in what, and one task, which a person may end, hand over or reopen."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, cast, get_args

from starlette.responses import Response

from mcp_memory.domain.model.ids import TASK
from mcp_memory.domain.model.requests import PopRequest, RecallRequest
from mcp_memory.domain.model.tasks import DEAD_ENDS, FinalStatus, Task, most_telling, path_to, worked_on
from mcp_memory.entrypoints.page.agents import is_known, known_agents
from mcp_memory.entrypoints.page.task_history import MAX_RESULT, ended_by_others, history_of, take_back
from mcp_memory.entrypoints.page.visits import Screen, Visit, checked_id
from mcp_memory.errors import Conflict, InvalidRequest
from mcp_memory.services.tasks.branch_visibility import require_task

NAME: Final = "Work"
PAGE_TREES: Final = 15
TREE_TASKS: Final = 150
"""Tasks of one tree that are shown: those that are open, and those that ended lately."""
NOW_SHOWN: Final = 30
LIVE_SECONDS: Final = 5
TASKS_A_SECOND: Final = 200
"""The pause between two looks of an open page; a second more for so many tasks, which are read each time."""
PAGE_RECORDS: Final = 20
RESULT_BYTES: Final = 256 * 1024
"""Bytes of a form with a task's result: 20,000 characters, of which each may come as `%F0` four times."""
MAX_AGENT: Final = 200
_TASK_ID = re.compile(r"t[0-9a-z]{6,12}")  # "t00001k"


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskNode:
    """A task with those below it. A dead end is folded, with all that was tried in it."""

    task: Task
    below: Sequence[TaskNode]

    @property
    def is_dead_end(self) -> bool:
        return self.task.status in DEAD_ENDS


@dataclass(frozen=True, slots=True, kw_only=True)
class Tree:
    """A task without a parent, with all below it; the number of tasks that are not shown; and the latest change."""

    top: TaskNode
    omitted: int
    changed_at: float
    is_open: bool


def show_work(visit: Visit) -> Response:
    before = visit.position(_TASK_ID)
    tasks = visit.app.tasks.tree(visit.caller)
    of_open = visit.asked("open") == "1"
    trees = sorted(_by_tree(tasks).items(), key=lambda each: _place(*each), reverse=True)
    trees = [each for each in trees if not of_open or _is_open(each[1])]
    rest = [each for each in trees if before is None or _place(*each) < before]
    shown = rest[:PAGE_TREES]
    enders = ended_by_others([task for _, those in shown for task in those], visit)
    at, last = _place(*shown[-1]) if len(rest) > len(shown) else (0.0, "")
    return visit.page(
        "work.html",
        here=NAME,
        now_in=worked_on(tasks)[:NOW_SHOWN] if before is None else (),
        trees=[_tree(top, those) for top, those in shown],
        enders=enders,
        is_first=before is None,
        of_open=of_open,
        open_tasks=sum(not task.is_finished for task in tasks),
        all_tasks=len(tasks),
        live=LIVE_SECONDS + len(tasks) // TASKS_A_SECOND,
        next_page=visit.further(at, last) if last else "",
    )


def _by_tree(tasks: Sequence[Task]) -> Mapping[str, Sequence[Task]]:
    """Return the tasks of each tree by the id of its top, which has no parent here."""
    tops: dict[str, str] = {}
    trees: dict[str, list[Task]] = {}
    for task in sorted(tasks, key=lambda task: task.depth):  # Parents before their children.
        top = tops[task.id] = tops.get(task.parent_id or "", task.id)
        trees.setdefault(top, []).append(task)
    order = {task.id: place for place, task in enumerate(tasks)}
    return {top: sorted(those, key=lambda task: order[task.id]) for top, those in trees.items()}


def _place(top: str, tasks: Sequence[Task]) -> tuple[float, str]:
    """Return the place of a tree in the list: its latest change, and its top."""
    return max(task.updated_at for task in tasks), top


def _tree(top: str, tasks: Sequence[Task]) -> Tree:
    shown = most_telling(tasks, path_to(top, tasks), TREE_TASKS)
    below: dict[str, list[Task]] = {}
    for task in shown:
        below.setdefault(task.parent_id or "", []).append(task)
    nodes: dict[str, TaskNode] = {}
    for task in sorted(shown, key=lambda task: -task.depth):  # Children before their parents: no recursion.
        nodes[task.id] = TaskNode(task=task, below=[nodes[each.id] for each in below.get(task.id, ())])
    return Tree(
        top=nodes[top],
        omitted=len(tasks) - len(shown),
        changed_at=_place(top, tasks)[0],
        is_open=_is_open(tasks),
    )


def _is_open(tasks: Sequence[Task]) -> bool:
    return any(not task.is_finished for task in tasks)


def show_task(visit: Visit) -> Response:
    return _task_page(visit)


def _task_page(
    visit: Visit, status: int = 200, warning: str = "", unknown: str = "", *, of_name: bool = False
) -> Response:
    """Show a task; with a warning beside the form that it is about, and `of_name` about the agent that it names."""
    task_id = checked_id(visit.parts["id"], TASK)
    asked = visit.asked("before") if not visit.form else ""
    request = RecallRequest(
        task_id=task_id, before=asked, limit=PAGE_RECORDS, max_tokens=PAGE_RECORDS * 2_000, only_looks=True,
        include_inactive=True,
    )  # fmt: skip
    visit.reads()  # For a form that is shown again.
    tasks = visit.app.tasks.tree(visit.caller)
    task = require_task(task_id, tasks)
    answer = visit.app.recall(request, visit.caller)
    records = visit.app.inspect.seen_of([each.id for each in answer.shown], visit.caller)
    results = visit.app.waiting_tasks.results(task, visit.caller, include_inactive=True) if task.is_finished else []
    history = history_of(task, results, visit)
    back = take_back(visit, task, history)
    path = path_to(task.id, tasks)
    return visit.page(
        "task.html",
        status,
        **({"notice": back.notice} if back else {}),
        takes_back=back if back and back.by else None,
        here=NAME,
        task=task,
        path=path[:-1],
        has_log=visit.has_log(task.session_id, task.agent),
        history=history,
        below=[each for each in tasks if each.parent_id == task.id][:TREE_TASKS],
        records=[*([] if asked else results), *records.values()],
        next_page=visit.with_fields(before=answer.next_before) if answer.next_before else "",
        warning=warning.partition("; call again")[0],
        result=visit.given("result") or "",
        chosen=visit.given("status") or "complete",
        with_steps=bool(visit.given("cascade")),
        agent=visit.given("agent") or "",
        unknown=unknown,
        of_name=of_name,
        # Counting who wrote reads all records: only where the form is shown.
        agents=() if task.is_finished else [each for each in known_agents(visit) if each != task.agent],
    )


def end_task(visit: Visit) -> Response:
    """End or block a task. Somebody else in it is named first, as to agents; the same form again goes through."""
    task_id = checked_id(visit.parts["id"], TASK)
    status, result = visit.given("status") or "", visit.given("result") or ""
    if status not in get_args(FinalStatus):
        raise InvalidRequest("Choose how the task ended.")
    if len(result) > MAX_RESULT:
        raise InvalidRequest("The result is too long; keep what others need.")
    request = PopRequest(
        task_id=task_id,
        result=result,
        status=cast("FinalStatus", status),
        cascade=visit.given("cascade") == "1",
    )
    try:
        _refuse_stale(visit, task_id)
        visit.app.tasks.pop(request, visit.caller)
    except (Conflict, InvalidRequest) as error:
        return _task_page(visit, 409 if isinstance(error, Conflict) else 400, str(error))
    return visit.see(f"/task/{task_id}", done="blocked" if status == "blocked" else "ended")


def _refuse_stale(visit: Visit, task_id: str) -> Task:
    """Return the task. Raises Conflict where the form takes back what is no more as the form saw it."""
    task = require_task(task_id, visit.app.tasks.tree(visit.caller))
    if visit.given("seen") not in (None, str(task.updated_at)):
        raise Conflict("Somebody has moved this task since. Look at its history first.")
    return task


def hand_over(visit: Visit) -> Response:
    """Let a task wait for another agent, or a blocked one for its own again.

    Who is in it is named first, and an agent that nobody here knows, as a typing error would make it wait for ever.
    """
    task_id = checked_id(visit.parts["id"], TASK)
    agent = (visit.given("agent") or "").strip()
    if not agent or len(agent) > MAX_AGENT or "/" in agent or not agent.isprintable():
        raise InvalidRequest("Name the agent that is to go on with it.")
    unknown = "" if is_known(visit, agent) else agent
    if unknown and visit.given("unknown") != unknown:
        why = f"No agent {agent!r} has written here or holds a token. Correct the name, or hand it over anyway."
        return _task_page(visit, 409, why, unknown, of_name=True)
    try:
        earlier = _refuse_stale(visit, task_id).agent
        visit.app.waiting_tasks.hand_over(task_id, agent, visit.caller)
    except (Conflict, InvalidRequest) as error:
        return _task_page(visit, 409 if isinstance(error, Conflict) else 400, str(error), unknown)
    return visit.see(f"/task/{task_id}", done="handed", earlier=earlier)


def reopen(visit: Visit) -> Response:
    """Let a task that ended by mistake wait for its agent again; what others did to it meanwhile is named first."""
    task_id = checked_id(visit.parts["id"], TASK)
    try:
        task = require_task(task_id, visit.app.tasks.tree(visit.caller))
        results = visit.app.waiting_tasks.results(task, visit.caller)
        visit.app.waiting_tasks.reopen(task_id, visit.caller)
    except (Conflict, InvalidRequest) as error:
        return _task_page(visit, 409 if isinstance(error, Conflict) else 400, str(error))
    return visit.see(f"/task/{task_id}", done="reopened", retired="".join(each.id for each in results[:1]))


SCREENS: Final = (
    Screen(path="/work", answer=show_work, title=NAME),
    Screen(path="/task/{id}", answer=show_task),
    Screen(path="/task/{id}/ended", answer=end_task, changes=True, most_bytes=RESULT_BYTES),
    Screen(path="/task/{id}/handed", answer=hand_over, changes=True),
    Screen(path="/task/{id}/reopened", answer=reopen, changes=True),
)
