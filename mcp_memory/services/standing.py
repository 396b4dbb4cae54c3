"""Where a caller stands in the tree of tasks, and what it may therefore see."""

from collections.abc import Mapping, Sequence

from mcp_memory.domain.scopes import Caller
from mcp_memory.domain.tasks import Stack, Task, stack_at
from mcp_memory.errors import NotFound
from mcp_memory.ports import RecordStore


def place_of(places: Mapping[str, str], caller: Caller) -> str | None:
    """The task the caller is in: its session's own place where it named one, else its agent's."""
    return places.get(caller.session_id if caller.named_session else "")


def stack_of(records: RecordStore, caller: Caller, task_id: str | None = None) -> Stack:
    """The caller's stack, or the one of a task it names. Raises NotFound for an unknown task."""
    tasks = records.tasks(caller.namespace)
    if task_id is not None:
        require_task(task_id, tasks)
    return stack_at(task_id or place_of(records.places(caller), caller), tasks)


def hidden_branches(records: RecordStore, caller: Caller) -> frozenset[str]:
    """Branches whose records this caller does not see, because it does not stand in them."""
    if not records.open_branches(caller.namespace):
        return frozenset()
    return stack_of(records, caller).hidden_branches


def require_task(task_id: str, tasks: Sequence[Task]) -> Task:
    """The task of that id. Raises NotFound."""
    for task in tasks:
        if task.id == task_id:
            return task
    raise NotFound(f"No task {task_id!r} in this namespace; read memory://tasks for the tree.")
