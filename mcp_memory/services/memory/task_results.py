"""Keeps what tasks came to as records of kind `result`, which search finds like any other."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import replace

from mcp_memory.domain.memory.echoes import strip_recalled
from mcp_memory.domain.model.records import NewRecord, Record
from mcp_memory.domain.model.scopes import Caller
from mcp_memory.domain.model.tasks import DEAD_ENDS, ERASED, Task
from mcp_memory.domain.text.words import content_hash
from mcp_memory.errors import StoreUnavailable
from mcp_memory.ports.records import RecordStore
from mcp_memory.ports.text import Clock
from mcp_memory.services.memory.prepare_record import RecordPreparer, record_of


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
        """Store the results of these tasks that have one; return their number. Raises StoreUnavailable."""
        told = ((task, strip_recalled(task.result or "")[0]) for task in tasks if task.is_finished)
        items = [_item(task, result) for task, result in told if result.strip() not in ("", ERASED)]
        drafts = [self._preparer.clean(item, caller) for item in items]
        made = self._preparer.make([draft.item for draft in drafts], embedded=False)
        with self._records.write() as transaction:
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
        """Store the results that an earlier version, or a process that was killed, left out; return their number."""
        missing = self._records.tasks_without_result(caller.namespace)
        return self(missing, caller) if missing else 0


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
