"""Exclusions: a person says that contexts of a task, or of an agent, give a record no more; search still finds it."""

from collections.abc import Collection, Sequence
from dataclasses import replace

from mcp_memory.domain.model.contexts import Exclusion
from mcp_memory.domain.model.records import Kind
from mcp_memory.domain.model.scopes import NO_SESSION, Caller, RecordFilter
from mcp_memory.domain.model.tasks import Stack
from mcp_memory.errors import InvalidRequest
from mcp_memory.ports.records import RecordStore
from mcp_memory.ports.text import Clock
from mcp_memory.ports.transaction import ExclusionReader
from mcp_memory.services.tasks.branch_visibility import require_own, require_task, visible_to

NEVER_HERE = "never here, as a person said"


def excluded(records: ExclusionReader, stack: Stack, caller: Caller) -> frozenset[str]:
    """Return the ids of the records that a context at this place does not give: an exclusion holds below its task."""
    return records.excluded(caller.namespace, [task.id for task in stack.path], caller.agent)


def given_at(
    records: RecordStore, stack: Stack, caller: Caller, kinds: frozenset[Kind], known: Collection[str] = ()
) -> RecordFilter:
    """Return the filter of what is given unasked at this place, of some kinds and without known ids."""
    return replace(
        visible_to(records, caller),
        kinds=kinds,
        exclude=frozenset(known) | excluded(records, stack, caller),
        isolated_tasks=stack.isolated,
        noted_in=NO_SESSION,
    )


class Exclusions:
    """Makes exclusions and takes them back. Thread-safe; `Undo` takes either back by its number."""

    def __init__(self, records: RecordStore, clock: Clock) -> None:
        self._records = records
        self._clock = clock

    def exclude(self, record_id: str, caller: Caller, task_id: str = "", agent: str = "") -> int:
        """Keep a record out of the contexts of a task, or else of the agent; return the change, 0 for one that was.

        Raises:
            NotFound: no such record or task for this caller.
            Conflict: the record is only read here.
            InvalidRequest: neither task nor agent is given, or both; or the agent is another one's to decide for.
        """
        with self._records.write(caller) as transaction:
            require_own(record_id, caller, transaction)
            if task_id:
                require_task(task_id, transaction.tasks_near(caller.namespace, [task_id]))
            exclusion = self._checked(record_id, caller, task_id, agent)
            return transaction.number if transaction.exclude(exclusion) else 0

    def include(self, record_id: str, caller: Caller, task_id: str = "", agent: str = "") -> int:
        """Let those contexts give the record again; return the change, 0 where they may already. Raises as `exclude`.

        The task may be gone.
        """
        with self._records.write(caller) as transaction:
            require_own(record_id, caller, transaction)
            exclusion = self._checked(record_id, caller, task_id, agent)
            return transaction.number if transaction.include(exclusion) else 0

    def excluded(self, namespace: str, task_ids: Collection[str], agent: str) -> frozenset[str]:
        """Return the ids of the records that contexts of one of these tasks, or of the agent, do not give."""
        return self._records.excluded(namespace, task_ids, agent)

    def of(self, record_id: str, caller: Caller) -> Sequence[Exclusion]:
        """Return a record's exclusions that the caller may take back, the first one first."""
        found = self._records.exclusions(record_id, caller.namespace)
        return [each for each in found if each.task_id or _decides_for(each.agent, caller)]

    def _checked(self, record_id: str, caller: Caller, task_id: str, agent: str) -> Exclusion:
        if bool(task_id) == bool(agent):
            raise InvalidRequest("Name a task or an agent, whose contexts give the record no more.")
        if agent and not _decides_for(agent, caller):
            raise InvalidRequest("Only that agent, or an administrator, decides what its contexts give.")
        return Exclusion(
            record_id=record_id,
            namespace=caller.namespace,
            task_id=task_id,
            agent=agent,
            at=self._clock(),
            by_agent=caller.agent,
        )


def _decides_for(agent: str, caller: Caller) -> bool:
    return agent == caller.agent or caller.is_admin
