"""Tells which records were noted in a task off the reader's path, and which of those attempts failed."""

from collections.abc import Collection, Mapping

from mcp_memory.domain.model.records import Record
from mcp_memory.domain.model.scopes import Caller
from mcp_memory.domain.model.tasks import DEAD_ENDS, Stack
from mcp_memory.domain.text.prompt_safety import one_line
from mcp_memory.ports.records import RecordStore

GOAL_CHARACTERS = 40


def task_marks(records: Collection[Record], stack: Stack, caller: Caller, store: RecordStore) -> Mapping[str, str]:
    """Map ids of records to the marks of their tasks: "task failed: Ship it by hand", "task: Ship it".

    Only off the caller's path; without a path only dead ends are marked. A result says itself what its task came to.
    """
    path = {task.id for task in stack.path}
    beside = {each.id: each.task_id for each in records if each.task_id and each.kind != "result"}
    wanted = set(beside.values()) - path
    if not wanted:
        return {}
    marks = {
        task.id: f"task{f' {task.status}' if task.status in DEAD_ENDS else ''}: {one_line(task.goal, GOAL_CHARACTERS)}"
        for task in store.tasks_near(caller.namespace, wanted)
        if task.id in wanted and (path or task.status in DEAD_ENDS)
    }
    return {record_id: marks[task_id] for record_id, task_id in beside.items() if task_id in marks}
