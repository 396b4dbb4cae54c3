"""Waiting tasks: hands a task over, unblocks one, and reopens one that ended by mistake, by what became of it."""

from collections.abc import Collection, Sequence
from dataclasses import replace

from mcp_memory.domain.model.lifecycle import moved_to
from mcp_memory.domain.model.records import Record
from mcp_memory.domain.model.scopes import Caller, RecordFilter
from mcp_memory.domain.model.tasks import Task, TaskChange
from mcp_memory.errors import Conflict, InvalidRequest
from mcp_memory.ports.records import RecordReader, RecordStore
from mcp_memory.ports.text import Clock
from mcp_memory.services.tasks.branch_visibility import require_task, visible_to
from mcp_memory.services.tasks.task_owners import Elsewhere, TaskOwners

RESULTS_LOOKED_AT = 5_000
"""Records of results of one moment: a cascade ends many tasks at once."""
LEAST_SECONDS = 0.001


class WaitingTasks:
    """Lets tasks wait, as planned ones do, until their agent enters them. Thread-safe; each is one atomic write."""

    def __init__(self, records: RecordStore, clock: Clock, elsewhere: Elsewhere) -> None:
        """`elsewhere` is that of `ClientWindows`."""
        self._owners = TaskOwners(elsewhere)
        self._records = records
        self._clock = clock

    def hand_over(self, task_id: str, agent: str, caller: Caller) -> Task:
        """Let a task wait for an agent, who enters it as a planned one; a blocked one may wait for its own agent again.

        Who was in it, and who it waits for, are told at their next move. Nobody's place changes.

        Raises:
            NotFound: there is no such task.
            InvalidRequest: it waits for that agent already, or is that agent's and not blocked.
            Conflict: it is finished; or, unless the call is repeated, somebody else is in it or changed it since the
                caller's last move.
        """
        with self._records.write(caller) as transaction:
            task = require_task(task_id, transaction.tasks_near(caller.namespace, [task_id]))
            if task.is_finished:
                raise Conflict(f"Task {task.id} is {task.status}; push its goal again to start over.")
            if task.agent == agent and task.status != "blocked":
                raise InvalidRequest(f"Task {task.id} is {agent}'s already; name another agent.")
            self._owners.warn(task, caller, transaction, "hand it over")
            session_id = task.session_id if task.agent == agent else ""
            waiting = replace(task, status="planned", agent=agent, session_id=session_id, updated_at=self._clock())
            self._owners.save(task, waiting, caller, transaction)
        return waiting

    def reopen(self, task_id: str, caller: Caller) -> Task:
        """Let a task that ended wait for its agent again, who is told; the record of its result is retired.

        Raises:
            NotFound: there is no such task.
            InvalidRequest: it has not ended.
            Conflict: it was a branch, whose records others have used since; or, unless the call is repeated, somebody
                changed it since the caller's last move.
        """
        with self._records.write(caller, f"task {task_id} was reopened") as transaction:
            task = require_task(task_id, transaction.tasks_near(caller.namespace, [task_id]))
            if not task.is_finished:
                raise InvalidRequest(f"Task {task.id} has not ended; it is {task.status}.")
            if task.branch:
                raise Conflict(f"Task {task.id} was a branch, and others see since what it hid; push its goal again.")
            self._owners.warn(task, caller, transaction, "reopen it")
            now = self._clock()
            waiting = replace(task, status="planned", result=None, updated_at=now)
            self._owners.save(task, waiting, caller, transaction)
            where = RecordFilter(scopes=tuple(caller.scope(each) for each in ("shared", "private", "user")))
            for record in results_of(task, where, self._records):
                transaction.update(replace(moved_to(record, "retired"), updated_at=now))
        return waiting

    def results(self, task: Task, caller: Caller, *, include_inactive: bool = False) -> list[Record]:
        """Return the records of what a finished task came to, of those that the caller sees."""
        where = replace(visible_to(self._records, caller), include_inactive=include_inactive)
        return results_of(task, where, self._records)

    def changes(self, namespace: str, task_ids: Collection[str], limit: int) -> Sequence[TaskChange]:
        """Return the latest changes of these tasks, newest first, as `HistoryReader.task_changes` does."""
        return self._records.task_changes(namespace, task_ids, limit)


def results_of(task: Task, where: RecordFilter, records: RecordReader) -> list[Record]:
    """Return the records of what a finished task came to, of those that the filter lets pass."""
    begin, end = task.updated_at, task.updated_at + LEAST_SECONDS
    where = replace(where, kinds=frozenset({"result"}), since=begin, until=end)
    found = records.list(where, "occurred", RESULTS_LOOKED_AT)
    return [each for each in found if each.details.get("task") == task.id]
