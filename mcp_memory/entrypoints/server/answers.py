"""Tasks and records as results show them. Knows no tool."""

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from mcp_memory.domain.context.task_lines import alike_task
from mcp_memory.domain.model.records import Instant, Json, Record
from mcp_memory.domain.model.scopes import Caller
from mcp_memory.domain.model.tasks import DEAD_ENDS, Stack, Task, most_telling
from mcp_memory.domain.text.control_characters import without_controls
from mcp_memory.domain.text.prompt_safety import author
from mcp_memory.domain.text.times import iso, iso_day
from mcp_memory.services.retrieval.result_rendering import record_result
from mcp_memory.services.tasks.task_owners import told_changes

if TYPE_CHECKING:
    from mcp_memory.services.review.reviews import ConflictingRecord

MAX_SHOWN_CHARS = 2000
"""A longer text is shown by its summary or beginning: the caller has just sent it, or opens it with recall."""
MAX_TASKS = 300
"""The most tasks shown; a longer tree shows open tasks and those that ended recently."""
MAX_LISTED, MAX_LISTED_CHARS, MAX_NEAR_CHARS = 100, 200, 80


def show_task(task: Task) -> dict[str, Json]:
    """A task as it is now, without its result, which the caller gave or finds in the tree."""
    shown: dict[str, Json] = {
        "id": task.id,
        "goal": task.goal,
        "status": task.status,
        "depth": task.depth,
        "parent_id": task.parent_id,
    }
    return shown | _optional(task)


def list_goals(tasks: Sequence[Task], caller: Caller, above: Mapping[str, Sequence[Task]] | None = None) -> list[Json]:
    """The first hundred by id and goal, with their status where they do not just wait or go on, and other agents.

    With `above`, also `within` which goals, from the root down.
    """
    within = above or {}
    return [
        {"id": task.id, "goal": _beginning(task.goal, MAX_LISTED_CHARS)}
        | unless_empty(
            status="blocked" if task.status == "blocked" else "",
            agent=author(task.agent, caller),
            within=[_beginning(each.goal, MAX_LISTED_CHARS) for each in within.get(task.id, ())],
        )
        for task in tasks[:MAX_LISTED]
    ]


def alike_line(tasks: Sequence[Task], caller: Caller, now: Instant) -> str:
    """One line that names goals of the same meaning elsewhere; "" without any.

    `Of the same meaning: [t00001w open, ann since 10:12] Migrate the crane slot service to gRPC.`
    """
    lines = [alike_task(each, author(each.agent, caller), now) for each in tasks]
    return f"Of the same meaning: {'; '.join(lines)}." if lines else ""


def show_place(stack: Stack, caller: Caller) -> dict[str, Json]:
    """Show the caller's current task, from the root down, what comes next there, and what others did to its tasks."""
    shown: dict[str, Json] = {"path": list_goals(stack.path, caller), "planned": list_goals(stack.planned, caller)}
    return shown | unless_empty(meanwhile=told_changes(stack.news, caller))


def show_tasks(tasks: Sequence[Task], stack: Stack, caller: Caller) -> dict[str, Json]:
    """The tree as the caller sees it from its place; of a long one what tells most, and how many it leaves out."""
    shown = most_telling(tasks, stack.path, MAX_TASKS)
    current: dict[str, Json] = {"current": stack.current.id if stack.current else None}
    omitted = len(tasks) - len(shown)
    return current | show_place(stack, caller) | {"tasks": task_tree(shown, caller), "omitted": omitted}


def task_tree(tasks: Iterable[Task], caller: Caller) -> list[Json]:
    """Tasks below their parents, in the order they were made, each with the agent that took it up."""
    below: dict[str, list[Json]] = {}
    roots: list[Json] = []
    for task in tasks:
        subtasks = below[task.id] = []
        agent = author(task.agent, caller) or task.agent
        node: dict[str, Json] = {"id": task.id, "goal": task.goal, "status": task.status, "agent": agent}
        node |= {"depth": task.depth} | _optional(task)
        result = _beginning(task.result or "", MAX_SHOWN_CHARS)
        node |= unless_empty(dead_end=task.status in DEAD_ENDS, result=result)
        below.get(task.parent_id or "", roots).append(node | {"subtasks": subtasks})
    return roots


def show_record(record: Record, caller: Caller) -> dict[str, Json]:
    """A record as it is now."""
    return record_result(record, "full" if len(record.text) <= MAX_SHOWN_CHARS else "summary", caller) | {
        "status": record.status,
        "importance": record.importance,
        "visibility": record.visibility,
        "updated_at": iso(record.updated_at),
    }


def show_conflicts(conflicts: "Iterable[ConflictingRecord]") -> list[Json]:
    """Records that another one may contradict: which, their text or its beginning, and why."""
    return [{"id": each.id, "text": _beginning(each.text, MAX_LISTED_CHARS), "why": each.why} for each in conflicts]


def show_near(near: "Iterable[Record]") -> list[Json]:
    """Records of the same thing that its agent should look at: which, their beginning, and from when they are."""
    return [
        {"id": each.id, "text": _beginning(each.text, MAX_NEAR_CHARS), "occurred_at": iso_day(each.occurred_at)}
        for each in near
    ]


def show_cleaned(*texts: str) -> dict[str, Json]:
    """Count the control characters that were taken out of the given texts, where there were any."""
    return unless_empty(cleaned=sum(without_controls(text)[1] for text in texts))


def _optional(task: Task) -> dict[str, Json]:
    """Return the fields that only some tasks have."""
    return unless_empty(success_criteria=task.success_criteria, artifacts=list(task.artifacts), branch=task.branch)


def unless_empty(**fields: Json) -> dict[str, Json]:
    """Return the fields that say something: neither 0 nor false, and neither empty nor missing."""
    return {name: value for name, value in fields.items() if value}


def _beginning(text: str, max_chars: int) -> str:
    return text if len(text) <= max_chars else f"{text[:max_chars].rstrip()}…"
