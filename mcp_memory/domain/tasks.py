"""A task: one frame of the stack, and the shapes in which the tree is shown."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from mcp_memory.domain.records import Instant

TaskStatus = Literal["planned", "active", "blocked", "complete", "failed", "abandoned"]
FinalStatus = Literal["complete", "failed", "blocked", "abandoned"]
FINISHED: frozenset[TaskStatus] = frozenset({"complete", "failed", "abandoned"})
MAX_DEPTH = 100
"""Far deeper than work can be kept in mind; a loop that only ever pushes stops here."""
DEAD_ENDS: frozenset[TaskStatus] = frozenset({"failed", "abandoned"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """A frame. `depth` is 0 at the root; `inherit` names records the child may see; a branch hides its own records."""

    id: str
    namespace: str
    parent_id: str | None
    goal: str
    status: TaskStatus
    depth: int
    agent: str
    session_id: str
    created_at: Instant
    updated_at: Instant
    result: str | None = None
    success_criteria: str | None = None
    artifacts: tuple[str, ...] = ()
    inherit: tuple[str, ...] = ()
    branch: bool = False

    @property
    def is_finished(self) -> bool:
        return self.status in FINISHED


@dataclass(frozen=True, slots=True, kw_only=True)
class Stack:
    """Where a caller stands. `path` runs from the root to the current task and is empty outside any task."""

    path: tuple[Task, ...] = ()
    siblings: tuple[Task, ...] = ()
    children: tuple[Task, ...] = ()
    hidden_branches: frozenset[str] = frozenset()

    @property
    def current(self) -> Task | None:
        return self.path[-1] if self.path else None

    @property
    def branch_id(self) -> str | None:
        """The innermost branch the caller works in, which hides what is stored there from the trunk."""
        return next((task.id for task in reversed(self.path) if task.branch), None)

    @property
    def planned(self) -> tuple[Task, ...]:
        """What comes next: planned or blocked subtasks of the current task, then its waiting siblings."""
        return tuple(t for t in (*self.children, *self.siblings) if t.status in ("planned", "blocked"))


def path_to(task_id: str | None, tasks: Sequence[Task]) -> tuple[Task, ...]:
    """Root to task; empty where the id is None or unknown. A parent that is missing ends the path there."""
    by_id = {task.id: task for task in tasks}
    path: list[Task] = []
    task = by_id.get(task_id) if task_id else None
    seen: set[str] = set()
    while task and task.id not in seen:
        seen.add(task.id)
        path.append(task)
        task = by_id.get(task.parent_id) if task.parent_id else None
    return tuple(reversed(path))


def nearest_open(task_id: str | None, tasks: Sequence[Task]) -> Task | None:
    """The task, or where it is finished the nearest ancestor that is not: somebody else may have ended it."""
    return next((task for task in reversed(path_to(task_id, tasks)) if not task.is_finished), None)


def descendants(task_id: str, tasks: Sequence[Task]) -> tuple[Task, ...]:
    """Everything below a task, deepest first, so that finishing them in order never leaves an open child."""
    below: list[Task] = []
    seen, frontier = {task_id}, {task_id}
    while frontier:
        children = [task for task in tasks if task.parent_id in frontier and task.id not in seen]
        below.extend(children)
        frontier = {task.id for task in children}
        seen |= frontier
    return tuple(sorted(below, key=lambda task: -task.depth))


def stack_at(task_id: str | None, tasks: Sequence[Task]) -> Stack:
    """The stack as seen from one task of a namespace's tree, finished relatives included."""
    path = path_to(task_id, tasks)
    on_path = {task.id for task in path}
    hidden = frozenset(t.id for t in tasks if t.branch and not t.is_finished and t.id not in on_path)
    if not path:
        return Stack(hidden_branches=hidden)
    current = path[-1]
    siblings = [t for t in tasks if t.id != current.id and t.parent_id == current.parent_id and current.parent_id]
    children = [t for t in tasks if t.parent_id == current.id]
    return Stack(path=path, siblings=tuple(siblings), children=tuple(children), hidden_branches=hidden)
