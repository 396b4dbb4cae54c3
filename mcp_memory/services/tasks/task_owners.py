"""Knows who else is in a task, and notes and tells what one agent does to another's."""

from collections.abc import Callable, Collection, Mapping, Sequence

from mcp_memory.domain.model.scopes import Caller
from mcp_memory.domain.model.tasks import Stack, Task, TaskChange, beside, descendants
from mcp_memory.domain.text.prompt_safety import author, by, one_line
from mcp_memory.domain.text.times import iso_minute
from mcp_memory.errors import Conflict
from mcp_memory.ports.transaction import Transaction

NAMED = 5  # tasks that a message names
TOLD = 20  # changes that an answer tells in words
GOAL_CHARACTERS = 60
WARNED = 1_000
"""Warnings that a process remembers."""
OTHER_WINDOW = "another window or session of yours"
Elsewhere = Callable[[Caller, Mapping[str, str]], Collection[str]]
"""The tasks in which other live windows of the caller's agent stand, whose places are given."""


class TaskOwners:
    """Compares each move with who is in the tasks it changes. Thread-safe."""

    def __init__(self, elsewhere: Elsewhere) -> None:
        self._elsewhere = elsewhere
        self._warned: set[tuple[str, ...]] = set()
        """Whom a conflict told the state of a task in which others took part: the next call means it."""

    def save(self, before: Task, after: Task, caller: Caller, transaction: Transaction) -> Task:
        """Store a task's change, and note it for every agent it concerns but the place that it comes from.

        Where it concerns nobody else, but another agent changed the task before, it is noted for its history alone.
        """
        transaction.update_task(after)
        concerned = ({before.agent, after.agent} - {caller.agent}) | transaction.concerned(before.id, caller)
        for agent in sorted(concerned - {""} or concerned):
            change = TaskChange(
                namespace=before.namespace,
                task_id=before.id,
                agent=agent,
                by_agent=caller.agent,
                by_place=caller.place,
                was=before.status,
                became=after.status,
                at=after.updated_at,
            )
            transaction.add_task_change(change)
        return after

    def holder(self, task: Task, caller: Caller, transaction: Transaction) -> str:
        """Say who else is in the task, and since when: another agent, or another live window; "" for nobody."""
        who = author(task.agent, caller)
        if not who and task.id in self._elsewhere(caller, transaction.places(caller)):
            who = OTHER_WINDOW
        is_held = who and task.status == "active"
        return f"{who} is in {named([task])} since {iso_minute(task.updated_at)}" if is_held else ""

    def warn(self, task: Task, caller: Caller, transaction: Transaction, deed: str = "end it") -> None:
        """Raise Conflict, once for each state of the task, where somebody else is in it or changed it unseen."""
        changes = [told_change(each, caller) for each in transaction.news(caller) if each.task_id == task.id]
        found = "; ".join(changes) or self.holder(task, caller, transaction)
        state = (caller.namespace, caller.agent, caller.place, task.id, task.agent, found)
        if not found or state in self._warned:
            return
        if len(self._warned) >= WARNED:
            self._warned.clear()
        self._warned.add(state)
        raise Conflict(f"{found}. Nothing was changed; call again to {deed} all the same, or push to go on elsewhere.")

    def kept(
        self, below: Sequence[Task], caller: Caller, tasks: Sequence[Task], transaction: Transaction
    ) -> Collection[str]:
        """Return those of the tasks that a cascade leaves: other agents', those of live windows, and all below them."""
        elsewhere = self._elsewhere(caller, transaction.places(caller))
        others = [task for task in below if task.agent != caller.agent or task.id in elsewhere]
        return {task.id for other in others for task in (other, *descendants(other.id, tasks))}

    def left_open(self, caller: Caller, tasks: Sequence[Task], stack: Stack, places: Mapping[str, str]) -> list[Task]:
        """Return the agent's open tasks beside the stack, in which none of its other windows stands."""
        elsewhere = self._elsewhere(caller, places)
        return [task for task in beside(tasks, stack) if task.agent == caller.agent and task.id not in elsewhere]


def told_change(change: TaskChange, caller: Caller) -> str:
    """Say who did what to a task: "bob ended t00004 (Ship it) at 2026-11-20T10:12Z, failed: no key"."""
    who = author(change.by_agent, caller) or OTHER_WINDOW
    is_open = change.became in ("active", "planned")
    status = "" if is_open or change.became in ("blocked", "complete") else f", {change.became}"
    result = f": {one_line(change.result)}" if change.result and not is_open else ""
    said = f"{who} {change.deed} {change.task_id} ({one_line(change.goal, GOAL_CHARACTERS)})"
    return f"{said} at {iso_minute(change.at)}{status}{result}"


def told_changes(changes: Sequence[TaskChange], caller: Caller) -> list[str]:
    """Say what others did, oldest first; of many the latest in words, and the earlier ones by who and where."""
    earlier = changes[:-TOLD]
    who = dict.fromkeys(author(each.by_agent, caller) or OTHER_WINDOW for each in earlier)
    before = f"before that {', '.join(who)} changed {', '.join(dict.fromkeys(each.task_id for each in earlier))}"
    return [before] * bool(earlier) + [told_change(each, caller) for each in changes[-TOLD:]]


def told(caller: Caller, transaction: Transaction) -> tuple[TaskChange, ...]:
    """Return the news that this move's answer tells, and note the move."""
    news = tuple(transaction.news(caller))
    transaction.note_move(caller)
    return news


def named(tasks: Sequence[Task], caller: Caller | None = None) -> str:
    """Name the first few by id and goal, for a message; with a caller also the other agents."""
    more = f"; {len(tasks) - NAMED} more" if len(tasks) > NAMED else ""
    whose = [by(author(task.agent, caller)) if caller else "" for task in tasks[:NAMED]]
    named = (
        f"{task.id}{who} ({one_line(task.goal, GOAL_CHARACTERS)})" for task, who in zip(tasks, whose, strict=False)
    )
    return "; ".join(named) + more
