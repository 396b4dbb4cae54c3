"""A task's history for a person: who began, blocked, ended, reopened or handed it over, and when."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from mcp_memory.domain.model.records import Instant, Record
    from mcp_memory.domain.model.tasks import Task, TaskChange, TaskStatus
    from mcp_memory.entrypoints.page.visits import Visit

EVENTS_SHOWN: Final = 20
CHANGES_READ: Final = 200
"""The store notes an event once for every agent that hears about it."""
ENDINGS_READ: Final = 5_000
STORED_WITH_IT: Final = 60.0
"""Seconds after a task's end within which its result was stored by who ended it; later it was upkeep."""
_DONE: Final[Mapping[str, str]] = {"began": "begun", "took up": "taken up", "took over": "taken over"}
"""Deeds of which the participle is another word."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskEvent:
    """A change of a task: what was done, by whom and when. `to` is the agent that it then waited for, where known."""

    deed: str
    by: str
    at: Instant
    became: TaskStatus
    was: TaskStatus | None = None
    to: str = ""
    told: frozenset[str] = frozenset()
    """The agents that were in the task, or wait for it."""

    @property
    def words(self) -> str:
        """The deed and its agents, as in "handed over to cara by bob"."""
        to = f" {'to' if self.deed == 'handed over' else 'for'} {self.to}" if self.to else ""
        return f"{self.deed}{to} by {self.by}"


def history_of(task: Task, results: Sequence[Record], visit: Visit) -> list[TaskEvent]:
    """Return what is kept of a task's history, latest first; `results` are the records of what it came to."""
    changes = visit.app.records.task_changes(task.namespace, [task.id], CHANGES_READ)
    events = events_of(task, changes)
    if task.is_finished and not (events and events[0].at == task.updated_at):
        enders = [each.agent for each in results if each.created_at - task.updated_at < STORED_WITH_IT]
        events[:0] = [TaskEvent(deed="ended", by=by, at=task.updated_at, became=task.status) for by in enders[:1]]
    return events[:EVENTS_SHOWN]


def events_of(task: Task, changes: Sequence[TaskChange]) -> list[TaskEvent]:
    """Return the events in changes, latest first: the store notes one for each agent that hears about it.

    A change does not say whom a task waits for: the last one that is handed over waits for its agent of today.
    """
    told: dict[tuple[Instant, str, str, str], list[TaskChange]] = {}
    for each in changes:
        told.setdefault((each.at, each.by_agent, each.was, each.became), []).append(each)
    events: list[TaskEvent] = []
    holder = task.agent
    for those in told.values():
        change = those[0]
        is_handed = change.deed in ("handed over", "unblocked")
        events.append(
            TaskEvent(
                deed=_DONE.get(change.deed, change.deed),
                by=change.by_agent,
                at=change.at,
                was=change.was,
                became=change.became,
                to=holder if is_handed else "",
                told=frozenset(each.agent for each in those) - {""},
            )
        )
        if is_handed or change.became == "active":
            holder = ""  # Whose it was before is not noted.
    return events


def ended_by_others(tasks: Sequence[Task], visit: Visit) -> Mapping[str, str]:
    """Return who ended each finished task that another agent than its own has ended, by its id."""
    finished = {task.id: task for task in tasks if task.is_finished}
    changes = visit.app.records.task_changes(visit.caller.namespace, [*finished], ENDINGS_READ) if finished else ()
    ended: dict[str, str] = {}
    for each in changes:
        task = finished[each.task_id]
        if (each.at, each.became) == (task.updated_at, task.status) and each.by_agent != task.agent:
            ended[task.id] = each.by_agent
    return ended
