"""The line of an open task: the same in recall, a block, and the answer to a push."""

import re
from collections.abc import Sequence

from mcp_memory.domain.context.rendering import in_brackets, short_day
from mcp_memory.domain.model.records import Instant
from mcp_memory.domain.model.tasks import Task, TaskStatus
from mcp_memory.domain.text.prompt_safety import neutralise, one_line
from mcp_memory.domain.text.times import iso_day, iso_minute

ABOVE_CHARACTERS, REASON_CHARACTERS = 60, 200
_WORDS: dict[TaskStatus, str] = {"active": "open", "blocked": "open", "complete": "done"}
"""The words for a status; "blocked" stands behind the goal, with the reason."""
# e.g. "; blocked: waits for a key"
_REASON = re.compile(r";(?=\s*blocked\s*:)", re.IGNORECASE)


def task_head(task: Task, *, now: Instant, who: str = "") -> str:
    """Return the text before a goal: `- [t00001w open, ann since 10:12] `; `who` is another than the reader."""
    status, at = _WORDS.get(task.status, task.status), _moment(task.updated_at, now)
    return f"- [{task.id} {status}{f', {who}' if who else ''}{'' if task.is_finished else ' since'} {at}] "


def task_said(task: Task, above: Sequence[Task] = (), *, goal: str | None = None, is_brief: bool = False) -> str:
    """Return what the line says: the goal, why it waits, the goals `above` it from the root down, and its criteria.

    `goal` is a shorter form of it; where it `is_brief`, so is the reason, and the criteria are left out.

    `Switch the clients; blocked: waits for a key (part of t00001w: Migrate to gRPC) (done when: all answer)`
    """
    said = _goal(goal if goal is not None else task.goal)
    if task.status == "blocked":
        said += (
            f"; blocked: {one_line(task.result or 'no reason', ABOVE_CHARACTERS if is_brief else REASON_CHARACTERS)}"
        )
    criteria = one_line(task.success_criteria, REASON_CHARACTERS) if task.success_criteria and not is_brief else ""
    return said + in_brackets(_part_of(above), f"done when: {criteria}" if criteria else "")


def alike_task(task: Task, who: str, now: Instant) -> str:
    """Return a task as it stands within a line: `[t00001w failed 11-20] Ship it → no key`."""
    said = _goal(one_line(task.goal, REASON_CHARACTERS))
    if task.status == "blocked" or task.is_finished:
        marker = "; blocked: " if task.status == "blocked" else " → "
        said += f"{marker}{one_line(task.result or 'nothing said', REASON_CHARACTERS)}"
    return task_head(task, now=now, who=who).removeprefix("- ") + said


def _part_of(above: Sequence[Task]) -> str:
    """Return "part of t00001w: Migrate to gRPC > Clients": the root, and where it is another, the parent."""
    goals = [one_line(each.goal, ABOVE_CHARACTERS) for each in (*above[:1], *above[1:][-1:])]
    return f"part of {above[0].id}: {' > '.join(goals)}" if above else ""


def _goal(text: str) -> str:
    """Return a goal as data: a part that reads like our reason gets a backslash."""
    return _REASON.sub(r"\\;", neutralise(text))


def _moment(at: Instant, now: Instant) -> str:
    """Return "10:12" of today, "11-20" of this year, else the whole date, in the user's zone."""
    return iso_minute(at)[11:16] if iso_day(at) == iso_day(now) else short_day(at, now)
