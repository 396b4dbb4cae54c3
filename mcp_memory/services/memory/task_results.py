"""Keeps what tasks came to as records of kind `result`, which search finds like any other."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import replace

from mcp_memory.domain.memory.echoes import strip_recalled
from mcp_memory.domain.model.records import NewRecord, Record
from mcp_memory.domain.model.scopes import Caller
from mcp_memory.domain.model.tasks import DEAD_ENDS, ENDED_WITH, ERASED, FINISHED, Task
from mcp_memory.domain.text.words import content_hash
from mcp_memory.errors import StoreUnavailable
from mcp_memory.ports.records import RecordStore
from mcp_memory.ports.text import Clock
from mcp_memory.services.memory.prepare_record import RecordPreparer, record_of

CHANGES_READ = 1_000
"""Most changes of tasks read to know who ended them, the latest first."""


class TaskResults:
    """Stores a record for each finished task. Thread-safe; twice the same gives one record."""

    def __init__(
        self, records: RecordStore, preparer: RecordPreparer, clock: Clock, embed: Callable[[], object]
    ) -> None:
        """`embed` gives vectors to what was stored without; the words are searchable at once."""
        self._records = records
        self._preparer = preparer
        self._clock = clock
        self._embed = embed

    def __call__(self, tasks: Iterable[Task], caller: Caller) -> int:
        """Store the results of these tasks that have one, as the caller's; return their number.

        A step that ended with its parent has none: the parent's tells it. Raises StoreUnavailable.
        """
        told = ((task, strip_recalled(task.result or "")[0]) for task in tasks if task.is_finished)
        items = [_item(task, result) for task, result in told if _tells(result)]
        drafts = [self._preparer.clean(item, caller) for item in items]
        made = self._preparer.make([draft.item for draft in drafts], embedded=False)
        with self._records.write(caller) as transaction:
            for draft, one in zip(drafts, made, strict=True):
                twin = transaction.find_text(draft.scope, content_hash(draft.item.text))
                if twin is None or _is_of_reopened(twin, draft.item):
                    record = record_of(draft, one.text, caller, self._clock(), transaction)
                    record = replace(record, task_id=draft.item.task_id)
                    transaction.insert(record, None, draft.item.entities, draft.item.relations)
        with suppress(StoreUnavailable):  # They wait for their vectors like any other record.
            self._embed()
        return len(items)

    def catch_up(self, caller: Caller) -> int:
        """Store the results that an earlier version, or a process that was killed, left out; return their number.

        Each is stored in the name of the agent that ended the task, whichever process finds it.
        """
        missing = [each for each in self._records.tasks_without_result(caller.namespace) if _tells(each.result or "")]
        changes = self._records.task_changes(caller.namespace, [each.id for each in missing], CHANGES_READ)
        ended = {each.task_id: each.by_agent for each in reversed(changes) if each.became in FINISHED}
        stored = 0
        for task in missing:
            agent = ended.get(task.id, task.agent)
            session_id = task.session_id if agent == task.agent else ""
            stored += self([task], replace(caller, agent=agent, session_id=session_id, client=""))
        return stored


def _tells(result: str) -> bool:
    return result.strip() not in ("", ERASED) and not result.startswith(ENDED_WITH)


def result_in(record: Record, task: Task) -> str:
    """Return the result that a record tells for the task; "" where the record begins with other words by now."""
    beginning = _beginning(task.goal, str(record.details.get("status", "")))
    return record.text.removeprefix(beginning) if record.text.startswith(beginning) else ""


def _is_of_reopened(twin: Record, item: NewRecord) -> bool:
    """Return True for the record that was retired when the same task was reopened, which has ended again as before."""
    return twin.status == "retired" and twin.details.get("task") == item.details.get("task")


def _item(task: Task, result: str) -> NewRecord:
    """Make the record of a finished task: "Speed up search → dead end (failed): ten times slower"."""
    return NewRecord(
        text=_beginning(task.goal, task.status) + result,
        kind="result",
        details={"task": task.id, "status": task.status, "artifacts": list(task.artifacts)},
        task_id=task.parent_id,
        occurred_at=task.updated_at,
    )


def _beginning(goal: str, status: str) -> str:
    dead_end = f"dead end ({status}): " if status in DEAD_ENDS else ""
    return f"{goal} → {dead_end}"
