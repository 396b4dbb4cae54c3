"""Where a caller stands in the tree of tasks, and what it may therefore see."""

from collections.abc import Mapping, Sequence

from mcp_memory.domain.scopes import Caller
from mcp_memory.domain.tasks import Stack, Task, stack_at
from mcp_memory.errors import NotFound
from mcp_memory.ports import RecordStore, Transaction


def place_of(places: Mapping[str, str], caller: Caller) -> str | None:
    """The task the caller is in: its session's own place where it named one, else its agent's."""
    return places.get(caller.session_id if caller.named_session else "")


def stack_of(records: RecordStore | Transaction, caller: Caller, task_id: str | None = None) -> Stack:
    """The caller's stack, or the one of a task it names. Raises NotFound for an unknown task."""
    tasks = records.tasks(caller.namespace)
    if task_id is not None:
        require_task(task_id, tasks)
    return stack_at(task_id or place_of(records.places(caller), caller), tasks)


def hidden_branches(records: RecordStore | Transaction, caller: Caller) -> frozenset[str]:
    """Branches, also of namespaces it inherits, whose records this caller does not see: it stands in none of them."""
    branches = records.open_branches()
    if not branches:
        return branches
    return branches - {task.id for task in stack_of(records, caller).path}


def require_task(task_id: str, tasks: Sequence[Task]) -> Task:
    """The task of that id. Raises NotFound."""
    for task in tasks:
        if task.id == task_id:
            return task
    raise NotFound(f"No task {task_id!r} in this namespace; read memory://tasks for the tree.")
