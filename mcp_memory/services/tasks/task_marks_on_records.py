"""Tells which records were noted in a task off the reader's path, and which of those attempts failed."""

from collections.abc import Collection, Mapping

from mcp_memory.domain.model.records import LOG_KINDS, Record
from mcp_memory.domain.model.scopes import Caller
from mcp_memory.domain.model.tasks import DEAD_ENDS, Stack
from mcp_memory.domain.text.prompt_safety import one_line
from mcp_memory.ports.records import RecordStore

GOAL_CHARACTERS = 40


def task_marks(records: Collection[Record], stack: Stack, caller: Caller, store: RecordStore) -> Mapping[str, str]:
    """Map ids of records to the marks of their tasks: "task failed: Ship it by hand", "task: Ship it".

    Only off the caller's path; without a path only the log of dead ends is marked. A result says itself what its task
    came to, and what was learnt meanwhile did not fail with the attempt.
    """
    path = {task.id for task in stack.path}
    beside = {each.id: each.task_id for each in records if each.task_id and each.kind != "result"}
    wanted = set(beside.values()) - path
    if not wanted:
        return {}
    tasks = {task.id: task for task in store.tasks_near(caller.namespace, wanted) if task.id in wanted}
    marks: dict[str, str] = {}
    for each in records:
        task = tasks.get(beside.get(each.id, ""))
        failed = task is not None and task.status in DEAD_ENDS and each.kind in LOG_KINDS
        if task and (path or failed):
            marks[each.id] = f"task{f' {task.status}' if failed else ''}: {one_line(task.goal, GOAL_CHARACTERS)}"
    return marks
