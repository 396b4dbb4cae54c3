"""A task's history for a person: who did what to it, and when; and the form that takes the latest change back."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from mcp_memory.services.memory.task_results import result_in

if TYPE_CHECKING:
    from mcp_memory.domain.model.records import Instant, Record
    from mcp_memory.domain.model.tasks import Task, TaskChange, TaskStatus
    from mcp_memory.entrypoints.page.visits import Visit

MAX_RESULT: Final = 20_000
"""Characters of a result that a form takes."""
UNDO: Final = "Undo"
EVENTS_SHOWN: Final = 20
CHANGES_READ: Final = 200
"""The store notes an event once for every agent that hears about it."""
ENDINGS_READ: Final = 5_000
STORED_WITH_IT: Final = 60.0
"""Seconds after a task's end within which its result was stored by who ended it; later it was upkeep."""
HANDING: Final = frozenset({"handed over", "unblocked"})
"""Deeds after which a task waits for an agent that may be another one than before."""
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
    changes = visit.app.waiting_tasks.changes(task.namespace, [task.id], CHANGES_READ)
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
        is_handed = change.deed in HANDING
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
    changes = visit.app.waiting_tasks.changes(visit.caller.namespace, [*finished], ENDINGS_READ) if finished else ()
    ended: dict[str, str] = {}
    for each in changes:
        task = finished[each.task_id]
        if (each.at, each.became) == (task.updated_at, task.status) and each.by_agent != task.agent:
            ended[task.id] = each.by_agent
    return ended


@dataclass(frozen=True, slots=True, kw_only=True)
class TakeBack:
    """The notice of a change of a task; and the form that takes it back: its screen, its fields and its button.

    The button says Undo where the task is then as it was, and what it does where it is not.
    """

    notice: str
    by: str = ""
    fields: Mapping[str, str] | None = None
    label: str = UNDO


def take_back(visit: Visit, task: Task, history: Sequence[TaskEvent]) -> TakeBack | None:
    """Return what the address says was done, where the task is still as that left it; else None.

    An address may be anybody's: it names an agent or a record, which must be those of the task's latest change.
    """
    if task.status != "planned":
        return None
    if visit.asked("done") == "reopened":
        return _of_reopening(visit, task)
    if visit.asked("done") != "handed" or not history:
        return None
    is_its = (history[0].at, history[0].by) == (task.updated_at, visit.caller.agent)
    return _of_handing(visit, task, history[0]) if is_its and history[0].deed in HANDING else None


def _of_handing(visit: Visit, task: Task, event: TaskEvent) -> TakeBack:
    earlier = visit.asked("earlier")
    if earlier not in event.told | {visit.caller.agent}:
        return TakeBack(notice=f"{_waits(visit, task)}.")
    if earlier == task.agent:  # It was blocked; its result still says what it waited for.
        blocked = {"result": task.result or "", "status": "blocked"}
        is_kept = 0 < len(blocked["result"]) <= MAX_RESULT
        return TakeBack(notice=f"{_waits(visit, task)}.", by="ended" if is_kept else "", fields=blocked)
    is_told = f", as is {earlier}" if {earlier, task.agent}.isdisjoint({visit.caller.agent}) else ""
    notice, back = f"{_waits(visit, task)}{is_told}.", {"agent": earlier}
    if event.was == "planned":
        return TakeBack(notice=notice, by="handed", fields=back)
    after = f" Handed back, it waits for {earlier}, and is not {event.was} as it was."
    return TakeBack(notice=notice + after, by="handed", fields=back, label=f"Hand it back to {earlier}")


def _of_reopening(visit: Visit, task: Task) -> TakeBack:
    """Offer to end the task as it had ended, where the record that was retired with its result still tells it."""
    notice = f"Reopened. {_waits(visit, task)}."
    retired = visit.asked("retired")
    record = visit.app.inspect.seen_of([retired], visit.caller).get(retired)
    is_its = record and record.details.get("task") == task.id and record.updated_at == task.updated_at
    result = result_in(record, task) if record and is_its and record.status == "retired" else ""
    if not record or not 0 < len(result) <= MAX_RESULT:
        return TakeBack(notice=f"{notice} To take that back, end it again.")
    return TakeBack(notice=notice, by="ended", fields={"result": result, "status": str(record.details.get("status"))})


def _waits(visit: Visit, task: Task) -> str:
    """Say for whom the task waits, and that this agent is told; the visitor's own is not."""
    told = "" if task.agent == visit.caller.agent else ", who is told at the next move"
    return f"It waits for {task.agent}{told}"
