"""What results show of tasks and records. Knows no tool."""

from collections.abc import Iterable

from mcp_memory.domain.records import Json, Record
from mcp_memory.domain.tasks import Task
from mcp_memory.domain.times import iso
from mcp_memory.services.showing import shown_record

MAX_SHOWN_CHARS = 2000
"""A longer text is shown by its summary: the caller has just sent it, or opens it with recall."""


def show_task(task: Task) -> dict[str, Json]:
    return {
        "id": task.id,
        "goal": task.goal,
        "status": task.status,
        "depth": task.depth,
        "parent_id": task.parent_id,
    }


def list_goals(tasks: Iterable[Task]) -> list[Json]:
    return [{"id": task.id, "goal": task.goal} for task in tasks]


def task_tree(tasks: Iterable[Task]) -> list[Json]:
    """Tasks below their parents, in the order they were made."""
    below: dict[str, list[Json]] = {}
    roots: list[Json] = []
    for task in tasks:
        subtasks = below[task.id] = []
        node: dict[str, Json] = {"id": task.id, "goal": task.goal, "status": task.status, "agent": task.agent}
        node |= {"result": task.result} if task.result else {}
        below.get(task.parent_id or "", roots).append(node | {"subtasks": subtasks})
    return roots


def show_record(record: Record) -> dict[str, Json]:
    """A record as it is now."""
    return shown_record(record, "full" if len(record.text) <= MAX_SHOWN_CHARS else "summary") | {
        "status": record.status,
        "importance": record.importance,
        "visibility": record.visibility,
        "updated_at": iso(record.updated_at),
    }
